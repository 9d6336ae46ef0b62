--- Testing agents with busted: contexts without a runner, models that follow a script, clocks,
--- assertions. `require "moonpad.testing"` inside busted adds `assert.has_state` and
--- `assert.state_delta` to luassert.
local confirmation = require "moonpad.flow.confirmation"
local content = require "moonpad.events.content"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local invocationContexts = require "moonpad.runtime.invocation_context"
local lists = require "moonpad.util.list"
local runners = require "moonpad.runtime.runner"
local script = require "moonpad.testing.script"
local services = require "moonpad.services.of_context"

local testing = {}

---A model that follows a script and checks what it is asked; see `moonpad.testing.script`.
testing.scriptedModel = script.new

---A clock that stands still until `clock:set(seconds)` or `clock:advance(seconds)`. A service
---opened with `{ clock = clock }` takes the time of its events from it.
---@param seconds number? default: now
---@return moonpad.Clock
function testing.clock(seconds)
  return core.clock(seconds)
end

---- Contexts

local TEMPORARY = core.StatePrefix.TEMP_PREFIX

-- The `state` of options: what a session keeps, and the temp: keys, which belong to no
-- stored session.
local function splitState(state)
  local kept, temporary = {}, {}
  for key, value in next, state do
    local isTemporary = type(key) == "string" and key:sub(1, #TEMPORARY) == TEMPORARY;
    (isTemporary and temporary or kept)[key] = value
  end
  return kept, temporary
end

local function stateTable(value, where)
  value = core.toTable(value)
  if type(value) ~= "table" then fields.refuse(where, "expected a table, got " .. lists.kindOf(value)) end
  return value
end

local SESSION_FIELDS = fields.new {
  { "state", stateTable },
  { "appName", fields.text, default = "app" },
  { "userId", fields.text, default = "user" },
  { "sessionId", fields.text, default = "session" },
}

local function userContent(value, where)
  return content.normalize(value, "user", where)
end

local function confirmationOf(given, where)
  local hint = type(given) == "table" and type(given.hint) == "string" and given.hint or ""
  return confirmation.ofAnswer(given, hint, where)
end

local TOOL_CONTEXT_FIELDS = SESSION_FIELDS:with {
  { "agentName", "string", default = "agent" },
  { "functionCallId", "string", default = "call-1" },
  { "userContent", userContent },
  { "artifactService", services.artifactService },
  { "memoryService", services.memoryService },
  { "toolConfirmation", confirmationOf },
}

local function nameOf(options)
  return { appName = options.appName, userId = options.userId, sessionId = options.sessionId }
end

local function createSession(service, name, state)
  return service:createSession {
    appName = name.appName, userId = name.userId, sessionId = name.sessionId, state = state,
  }
end

---@class moonpad.ToolContextOptions
---@field state table? what the tool finds
---@field appName string?
---@field userId string?
---@field sessionId string?
---@field agentName string?
---@field functionCallId string?
---@field userContent table|string?
---@field artifactService moonpad.ArtifactService?
---@field memoryService moonpad.MemoryService?
---@field toolConfirmation { confirmed: boolean, payload: any, hint: string? }? what the user has said to the call

---A context as a tool gets it, over a session of its own in memory: to call `tool.run(args,
---context)` in a test. What the tool writes is pending in `context.state` and can be looked
---at there.
---@param options moonpad.ToolContextOptions?
---@return moonpad.Context
function testing.toolContext(options)
  local read = TOOL_CONTEXT_FIELDS:take(options == nil and {} or options, "testing.toolContext")
  local kept, temporary = splitState(read.state or {})
  local service = core.open "memory:"
  local session = createSession(service, nameOf(read), kept)
  -- They come with an event, as they do in a run.
  if next(temporary) then service:appendEvent(session, { author = "user", actions = { stateDelta = temporary } }) end
  local invocationContext = invocationContexts.new {
    id = "e-" .. core.uuid7(session), session = session, userContent = read.userContent,
    artifactService = read.artifactService, memoryService = read.memoryService,
  }
  local callbackState = contexts.begin(invocationContext, { name = read.agentName }, read.functionCallId)
  callbackState.isRunningTool, callbackState.toolConfirmation = true, read.toolConfirmation
  return callbackState.context
end

---- Running

local function messageList(messages, where)
  local isOne = type(messages) == "string" or type(messages) == "table" and messages.parts ~= nil
  return lists.of(isOne and { messages } or messages, where, "messages")
end

local OWN_FIELDS = SESSION_FIELDS:with {
  { "service", runners.SESSION_SERVICE },
  { "messages", messageList },
  { "clock" },
}
-- Those of the runner as well; its service is called `service` here.
local RUN_FIELDS = OWN_FIELDS:with(runners.FIELDS:without("sessionService"):without("url"):without("appName").list)

---What a runner takes, but for `sessionService`, and:
---@class moonpad.TestRunOptions
---@field agent moonpad.Agent
---@field messages table|string one message or a list of them
---@field state table? what the agent finds: written to the session, before the first message; `temp:` keys come with
---each message
---@field service moonpad.Service? default: one in memory
---@field appName string? default "app"
---@field userId string? default "user"
---@field sessionId string? default "session"
---@field clock moonpad.Clock? of the service in memory
---@field plugins moonpad.Plugin[]?
---@field artifactService moonpad.ArtifactService?
---@field memoryService moonpad.MemoryService?
---@field maxLlmCalls integer?
---@field templateSyntax "both"|"braces"|"angles"|nil

---@class moonpad.TestRun
---@field events moonpad.Event[]
---@field replies string[] the texts of the final answers
---@field text string the last of them
---@field session moonpad.Session as stored
---@field service moonpad.Service

-- A session that is there already may have another state than the test wants.
local function prepareSession(service, name, state)
  local session = service:getSession(name)
  if not session then return createSession(service, name, state) end
  session.state:update(state)
  return service:updateSession(session)
end

local function serviceOf(options)
  if options.service == nil then return core.open("memory:", { clock = options.clock }) end
  if options.clock ~= nil then
    core.error("invalid_argument", "testing.run.clock: is for the service in memory; give yours to moonpad.open")
  end
  return options.service
end

local function runnerOf(options, name, service)
  local definition = {}
  for _, field in ipairs(runners.FIELDS.names) do definition[field] = options[field] end
  definition.appName, definition.sessionService = name.appName, service
  return runners.new(definition, "testing.run")
end

---Runs an agent on messages, one after the other, and returns what happened.
---@param options moonpad.TestRunOptions
---@return moonpad.TestRun
function testing.run(options)
  RUN_FIELDS:checkNames(options, "testing.run")
  local own = OWN_FIELDS:read(options, "testing.run")
  local kept, temporary = splitState(own.state or {})
  local name, service = nameOf(own), serviceOf(own)
  local runner = runnerOf(options, name, service)
  prepareSession(service, name, kept)
  local result = { events = {}, replies = {}, text = "", service = service }
  for _, message in ipairs(own.messages or {}) do
    for event in runner:run {
      userId = name.userId, sessionId = name.sessionId, newMessage = message, stateDelta = temporary,
    } do
      result.events[#result.events + 1] = event
      if event:isFinalResponse() and event:text() ~= "" then result.replies[#result.replies + 1] = event:text() end
    end
  end
  result.text = result.replies[#result.replies] or ""
  result.session = service:getSession(name)
  return result
end

if package.loaded["luassert.assert"] or package.loaded["luassert"] then require "moonpad.testing.assertions" end

return testing
