--- Testing agents with busted: contexts without a runner, models that follow a script, clocks, assertions.
--- `require "moonpad.testing"` inside busted adds `assert.has_state` and `assert.state_delta` to luassert.
local contexts = require "moonpad.context"
local copy = require "moonpad.copy"
local core = require "moonpad.core"
local lists = require "moonpad.list"
local script = require "moonpad.testing.script"
local services = require "moonpad.services"

local testing = {}

---A model that follows a script and checks what it is asked; see `moonpad.testing.script`.
testing.scriptedModel = script.new

---A clock that stands still until `clock:set(seconds)` or `clock:advance(seconds)`. A service opened with
---`{ clock = clock }` takes the time of its events from it.
---@param seconds number? default: now
---@return moonpad.Clock
function testing.clock(seconds)
  return core.clock(seconds)
end

---- Contexts

local TOOL_CONTEXT_FIELDS = {
  "state", "appName", "userId", "sessionId", "agentName", "functionCallId", "userContent", "artifactService",
  "memoryService",
}

-- temp: keys belong to no stored session; they come with an event, as they do in a run.
local function createSession(options, service)
  local temporary, kept = {}, {}
  for key, value in pairs(core.toTable(options.state or {})) do
    local isTemporary = key:sub(1, #core.StatePrefix.TEMP_PREFIX) == core.StatePrefix.TEMP_PREFIX;
    (isTemporary and temporary or kept)[key] = value
  end
  local session = service:createSession {
    appName = options.appName or "app", userId = options.userId or "user", sessionId = options.sessionId or "session",
    state = kept,
  }
  if next(temporary) then service:appendEvent(session, { author = "user", actions = { stateDelta = temporary } }) end
  return session
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

---A context as a tool gets it, over a session of its own in memory: to call `tool.run(args, context)` in a test. What
---the tool writes is pending in `context.state` and can be looked at there.
---@param options moonpad.ToolContextOptions?
---@return moonpad.Context
function testing.toolContext(options)
  options = options or {}
  core.checkFields(options, "testing.toolContext", TOOL_CONTEXT_FIELDS)
  local session = createSession(options, core.open "memory:")
  local content = options.userContent
  if type(content) == "string" then content = { role = "user", parts = { { text = content } } } end
  services.check(options, "testing.toolContext")
  local run = {
    session = session, id = "e-" .. core.uuid7(session), userContent = content, phases = {}, services = options,
  }
  local agent = { name = options.agentName or "agent" }
  return contexts.open(run, agent, options.functionCallId or "call-1").context
end

---- Running

local RUN_FIELDS = { "agent", "state", "service", "appName", "userId", "sessionId", "messages", "plugins", "clock" }

---@class moonpad.TestRunOptions
---@field agent moonpad.Agent
---@field messages table|string one message or a list of them
---@field state table? of the session that is made
---@field service moonpad.Service? default: one in memory
---@field appName string?
---@field userId string?
---@field sessionId string?
---@field plugins table?
---@field clock moonpad.Clock?

---@class moonpad.TestRun
---@field events moonpad.Event[]
---@field replies string[] the texts of the final answers
---@field text string the last of them
---@field session moonpad.Session as stored
---@field service moonpad.Service

---Runs an agent on messages, one after the other, and returns what happened.
---@param options moonpad.TestRunOptions
---@return moonpad.TestRun
function testing.run(options)
  core.checkFields(options, "testing.run", RUN_FIELDS)
  local service = options.service or core.open("memory:", { clock = options.clock })
  local name = {
    appName = options.appName or "app", userId = options.userId or "user", sessionId = options.sessionId or "session",
  }
  if not service:getSession(name) then
    local initial = copy(name)
    initial.state = options.state
    service:createSession(initial)
  end
  local runner = require("moonpad.runner").define {
    appName = name.appName, agent = options.agent, sessionService = service, plugins = options.plugins,
  }
  local messages = options.messages or {}
  if type(messages) == "string" or type(messages) == "table" and messages.parts then messages = { messages } end
  messages = lists.of(messages, "testing.run.messages", "messages")
  local result = { events = {}, replies = {}, text = "", service = service }
  for _, message in ipairs(messages) do
    for event in runner:run { userId = name.userId, sessionId = name.sessionId, newMessage = message } do
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
