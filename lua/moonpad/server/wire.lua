--- What sessions, events and requests look like in JSON: camelCase as in stored events, times in
--- seconds (adk-python). Requests may have the names in snake_case as well.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local failure = require "moonpad.server.failure"
local merged = require "moonpad.util.merged"

local wire = {}

---- Names of requests

-- The names of the protocol. Keys of a state, of arguments and of responses are whatever they are.
local NAMES = {
  request = {
    "appName", "userId", "sessionId", "newMessage", "stateDelta", "functionCallEventId", "invocationId",
    "customMetadata", "removedStateKeys",
  },
  content = {},
  part = {
    "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult",
    "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", "toolCall", "toolResponse",
  },
  blob = { "mimeType", "displayName", "fileUri" },
  event = {
    "invocationId", "longRunningToolIds", "errorCode", "errorMessage", "usageMetadata", "customMetadata",
    "finishReason", "turnComplete", "groundingMetadata", "modelVersion", "removedStateKeys", "avgLogprobs",
  },
  actions = {
    "stateDelta", "artifactDelta", "transferToAgent", "skipSummarization", "requestedAuthConfigs",
    "requestedToolConfirmations", "endOfAgent", "agentState", "rewindBeforeInvocationId",
  },
}

local function snake(name)
  return (name:gsub("%u", function(letter) return "_" .. letter:lower() end))
end

local CAMEL = {}
for kind, names in pairs(NAMES) do
  CAMEL[kind] = {}
  for _, name in ipairs(names) do CAMEL[kind][snake(name)] = name end
end

-- A copy with the names in camelCase, and without what is null: that stands for absent.
local function renamed(value, kind)
  if type(value) ~= "table" then return value end
  local result = {}
  for name, held in pairs(value) do
    local camel = CAMEL[kind][name] or name
    if held ~= core.null and (camel == name or value[camel] == nil) then result[camel] = held end
  end
  return result
end

local function part(given)
  local result = renamed(given, "part")
  if type(result) ~= "table" then return result end
  for _, name in ipairs { "inlineData", "fileData" } do result[name] = renamed(result[name], "blob") end
  for _, name in ipairs { "functionCall", "functionResponse" } do result[name] = renamed(result[name], "content") end
  return result
end
wire.part = part

---A Content of a request.
---@param given any
---@return any
function wire.content(given)
  local result = renamed(given, "content")
  if type(result) ~= "table" or type(result.parts) ~= "table" then return result end
  local parts = core.array {}
  for index, one in ipairs(result.parts) do parts[index] = part(one) end
  result.parts = parts
  return result
end

-- A delta of a request: what it names in removedStateKeys is deleted.
local function delta(given, removed, where)
  if given ~= nil and type(given) ~= "table" then failure.raise(422, "%s: expected an object", where) end
  local result = merged(given)
  if removed ~= nil and type(removed) ~= "table" then failure.raise(422, "removedStateKeys: expected a list") end
  for _, key in ipairs(removed or {}) do
    if type(key) ~= "string" then failure.raise(422, "removedStateKeys: expected texts") end
    result[key] = core.removed
  end
  return (given or removed) and result or nil
end

---The body of /run and of what changes a state.
---@param body table
---@return table
function wire.request(body)
  local result = renamed(body, "request")
  result.newMessage = wire.content(result.newMessage)
  result.stateDelta = delta(result.stateDelta, result.removedStateKeys, "stateDelta")
  return result
end

---An event of a session that is imported.
---@param given any
---@param where string for messages
---@return table
function wire.readEvent(given, where)
  if type(given) ~= "table" then failure.raise(422, "%s: expected an object", where) end
  local event = renamed(given, "event")
  event.content = wire.content(event.content)
  event.actions = renamed(event.actions, "actions")
  if type(event.actions) == "table" then
    event.actions.stateDelta = delta(event.actions.stateDelta, event.removedStateKeys, where .. ".actions.stateDelta")
  end
  event.removedStateKeys, event.revision = nil, nil
  return event
end

---- Answers

local function withoutTemporary(given)
  if type(given) ~= "table" then return given end
  local result = {}
  for key, value in pairs(given) do
    if key:sub(1, 5) ~= "temp:" then result[key] = value end
  end
  return result
end

-- A key that was deleted is null, and named beside the delta: a null may be a value, too.
local function sentDelta(given)
  local result, removed = withoutTemporary(given), core.array {}
  for key, value in pairs(type(result) == "table" and result or {}) do
    if value == core.removed then result[key], removed[#removed + 1] = core.null, key end
  end
  table.sort(removed)
  return result, #removed > 0 and removed or nil
end

local function isPlain(given)
  for key, value in pairs(type(given) == "table" and given or {}) do
    if value == core.removed or key:sub(1, 5) == "temp:" then return false end
  end
  return true
end

---An event as it goes out: most of them as they are.
---@param event moonpad.Event
---@return table
function wire.event(event)
  if isPlain(event.actions.stateDelta) then return event end
  local result = merged(event)
  result.actions = merged(event.actions)
  result.actions.stateDelta, result.removedStateKeys = sentDelta(result.actions.stateDelta)
  return result
end

---What a run sends of an event: one that has words and files goes out in two, as adk-python has it,
---for clients that show a file in place of the words.
---@param event moonpad.Event
---@return table[]
function wire.sentEvents(event)
  local whole = wire.event(event)
  local files = whole.actions.artifactDelta
  if type(files) ~= "table" or next(files) == nil or not whole.content then return { whole } end
  local words, rest = merged(whole), merged(whole)
  words.actions = merged(whole.actions)
  words.actions.artifactDelta = {}
  rest.content = nil
  return { words, rest }
end

---@param call moonpad.server.Call
---@param session moonpad.Session
---@return table without its events
function wire.session(call, session)
  return {
    id = session.id, appName = call.app, userId = session.userId, state = withoutTemporary(session.state:getAll()),
    events = core.array {}, lastUpdateTime = session.lastUpdateTime,
  }
end

---A session with its events as JSON, made piece by piece: others go on meanwhile.
---@param call moonpad.server.Call
---@param session moonpad.Session
---@return moonpad.server.Raw
function wire.wholeSession(call, session)
  local list, events = {}, session.events
  for index = 1, #events do
    list[index] = core.json.encode(wire.event(events[index]))
    coroutines.keepPace(4)
  end
  local fields = wire.session(call, session)
  fields.events = nil
  local text = ('%s,"events":[%s]}'):format(core.json.encode(fields):sub(1, -2), table.concat(list, ","))
  return call.raw("application/json", text, { "Cache-Control", "no-store" })
end

return wire
