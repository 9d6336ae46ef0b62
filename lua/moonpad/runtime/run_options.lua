--- What a run is asked for, checked whole before it begins.
local arrays = require "moonpad.util.array"
local content = require "moonpad.events.content"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local inlineData = require "moonpad.events.inline_data"
local luaError = require "moonpad.util.lua_error"
local services = require "moonpad.services.of_context"

local runOptions = {}

---@class moonpad.RunOptions
---@field userId string
---@field sessionId string? a missing session is created; without an id, a new one
---@field newMessage moonpad.ContentLike?
---@field stateDelta table? changes of state that go with the message
---@field numRecentEvents integer? how much history the run gets to see
---@field maxLlmCalls integer? in place of the runner's, 0 for no limit
---@field streaming boolean? are models asked with streaming? default: as each is set; false: no partial event goes out
---@field customMetadata table? goes on every event of the run; what an event says itself counts
---@field saveInputBlobsAsArtifacts boolean? saves the files in the message as artifacts, and names them in their place

-- The id as the service stores it, so that " a" and "a" stand in one line; nil for none.
local function trimmed(id, where)
  if type(id) ~= "string" then fields.refuse(where, "expected a string, got " .. fields.describe(id)) end
  id = id:match "^[ \t\r\n\f\v]*(.-)[ \t\r\n\f\v]*$"
  if id ~= "" then fields.serviceName(id, where) end
  return id
end

-- Refuses what no event can carry, in the words of the core, which knows the path in the event.
-- Returns the event.
local function checkEvent(event, path, where)
  local ok, made = pcall(core.newEvent, event)
  if ok then return made end
  luaError.passOn(made)
  if not core.isError(made) then error(made, 0) end
  local message, count = made.message:gsub("^event%." .. path, function() return where end)
  return core.error(made.code, count > 0 and message or where .. ": " .. message)
end

local function userContent(message, where)
  local result = content.normalize(message, "user", where)
  if content.isEmpty(result) then fields.refuse(where, "has no parts") end
  for index, part in ipairs(result.parts) do
    local place = ("%s.parts[%d]"):format(where, index)
    if part.functionCall ~= nil then fields.refuse(place, "a user cannot call functions; only a model can") end
    local problem = inlineData.problem(part.inlineData)
    if problem then fields.refuse(place .. ".inlineData.data", problem) end
  end
  checkEvent({ author = "user", content = result }, "content", where)
  return result
end

local function stateDelta(given, where)
  if type(given) ~= "table" then fields.refuse(where, "expected a table, got " .. fields.describe(given)) end
  checkEvent({ author = "user", actions = { stateDelta = given } }, "actions%.stateDelta", where)
  return copy(given)
end

local function isObject(value)
  return type(value) == "table" and not arrays.isMarked(value) and value[1] == nil
end

-- A copy, of what an event can carry.
local function metadata(given, where)
  if not isObject(given) then
    fields.refuse(where, "expected a table of named fields, got " .. fields.describe(given))
  end
  return copy(checkEvent({ author = "user", customMetadata = given }, "customMetadata", where).customMetadata)
end

local FIELDS = fields.new {
  { "userId", fields.serviceName, required = true },
  { "sessionId", trimmed },
  { "newMessage", userContent },
  { "stateDelta", stateDelta },
  { "numRecentEvents", fields.integerFrom(0) },
  { "maxLlmCalls", fields.integerFrom(0) },
  { "streaming", "boolean" },
  { "customMetadata", metadata },
  { "saveInputBlobsAsArtifacts", "boolean" },
}:describes "moonpad.RunOptions"

---Checks the options of a run.
---@param runner moonpad.Runner
---@param options moonpad.RunOptions
---@param where string for messages
---@return table fields of the run's invocation context
function runOptions.check(runner, options, where)
  local read = FIELDS:take(options, where)
  if read.saveInputBlobsAsArtifacts and not runner.artifactService then
    core.error("unsupported",
      ("%s: %s"):format(fields.at(where, "saveInputBlobsAsArtifacts"), services.advice "artifactService"))
  end
  local sessionId = read.sessionId
  if sessionId == nil or sessionId == "" then sessionId = core.uuid4(runner.sessionService) end
  return {
    userId = read.userId,
    sessionId = sessionId,
    numRecentEvents = read.numRecentEvents,
    stateDelta = read.stateDelta,
    userContent = read.newMessage,
    maxLlmCalls = read.maxLlmCalls or runner.maxLlmCalls,
    streaming = read.streaming,
    customMetadata = read.customMetadata,
    savesInputBlobs = read.saveInputBlobsAsArtifacts,
  }
end

return runOptions
