--- What a run is asked for, checked whole before it begins.
local arrays = require "moonpad.util.array"
local content = require "moonpad.events.content"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local luaError = require "moonpad.util.lua_error"
local services = require "moonpad.services.of_context"

local runOptions = {}

---@class moonpad.RunOptions
---@field userId string
---@field sessionId string? a missing session is created; without an id, a new one
---@field newMessage string|moonpad.Content|nil
---@field stateDelta table? changes of state that go with the message
---@field numRecentEvents integer? how much history the run gets to see
---@field maxLlmCalls integer? in place of the runner's, 0 for no limit
---@field streaming boolean? are models asked with streaming? default: as each is set; false: no partial event goes out
---@field customMetadata table? goes on every event of the run; what an event says itself counts
---@field saveInputBlobsAsArtifacts boolean? saves the files in the message as artifacts, and names them in their place

-- The id as the service stores it, so that " a" and "a" stand in one line.
local function trimmed(id)
  return type(id) == "string" and id:match "^[ \t\r\n\f\v]*(.-)[ \t\r\n\f\v]*$" or nil
end

local function userContent(message, where)
  local result = content.normalize(message, "user", where)
  if content.isEmpty(result) then fields.refuse(where, "has no parts") end
  for index, part in ipairs(result.parts) do
    if part.functionCall ~= nil then
      fields.refuse(("%s.parts[%d]"):format(where, index), "a user cannot call functions; only a model can")
    end
  end
  return result
end

local function isObject(value)
  return type(value) == "table" and not arrays.isMarked(value) and value[1] == nil
end

-- A copy, of what an event can carry.
local function metadata(given, where)
  if not isObject(given) then
    fields.refuse(where, "expected a table of named fields, got " .. fields.describe(given))
  end
  local ok, event = pcall(core.newEvent, { author = "user", customMetadata = given })
  if ok then return copy(event.customMetadata) end
  luaError.passOn(event)
  if not core.isError(event) then error(event, 0) end
  core.error(event.code, (event.message:gsub("^event%.customMetadata", function() return where end)))
end

local FIELDS = fields.new {
  { "userId", fields.text, required = true },
  { "sessionId", "string" },
  { "newMessage", userContent },
  { "stateDelta", "table" },
  { "numRecentEvents", fields.integerFrom(0) },
  { "maxLlmCalls", fields.integerFrom(0) },
  { "streaming", "boolean" },
  { "customMetadata", metadata },
  { "saveInputBlobsAsArtifacts", "boolean" },
}

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
  local sessionId = trimmed(read.sessionId)
  if sessionId == nil or sessionId == "" then sessionId = core.uuid4(runner.sessionService) end
  return {
    userId = read.userId,
    sessionId = sessionId,
    numRecentEvents = read.numRecentEvents,
    stateDelta = copy(read.stateDelta),
    userContent = read.newMessage,
    maxLlmCalls = read.maxLlmCalls or runner.maxLlmCalls,
    streaming = read.streaming,
    customMetadata = read.customMetadata,
    savesInputBlobs = read.saveInputBlobsAsArtifacts,
  }
end

return runOptions
