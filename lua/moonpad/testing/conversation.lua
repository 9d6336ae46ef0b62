--- Playing messages to an agent.
local content = require "moonpad.events.content"
local core = require "moonpad.core"
local failures = require "moonpad.testing.failure"
local lists = require "moonpad.util.list"
local modelLike = require "moonpad.models.model_like"
local runners = require "moonpad.runtime.runner"
local sessions = require "moonpad.testing.session"
local toolErrors = require "moonpad.testing.tool_errors"

local conversations = {}

-- A Content or a part is one message; a list is a list of messages.
local function isOne(messages)
  if type(messages) ~= "table" then return type(messages) == "string" end
  return messages.parts ~= nil or messages[1] == nil and content.isBare(messages)
end

local function messageList(messages, where)
  return lists.of(isOne(messages) and { messages } or messages, where, "messages")
end

local OWN_FIELDS = sessions.FIELDS:with {
  { "service", runners.SESSION_SERVICE },
  { "messages", messageList },
  { "clock" },
  { "model", modelLike.check, arguments = "request, context" },
}
-- Those of the runner as well; its service is called `service` here.
local FIELDS = OWN_FIELDS:with(runners.FIELDS:without("sessionService"):without("url"):without("appName").list)
  :describes "moonpad.TestRunOptions"

conversations.FIELDS = FIELDS

---What `testing.run` takes.
---@class moonpad.TestRunOptions
---@field agent moonpad.Agent
---@field messages moonpad.ContentLike|moonpad.ContentLike[]|nil one message or a list of them
---@field state table? what the agent finds: written to the session, before the first message; `temp:` keys come with
---each message
---@field service moonpad.Service? default: one in memory
---@field appName string? default "app"
---@field userId string? default "user"
---@field sessionId string? default "session"
---@field clock? moonpad.Clock|fun(): number of the service in memory
---@field model moonpad.ModelLike? asked in place of the models of all agents
---@field plugins moonpad.Plugin[]?
---@field artifactService moonpad.ArtifactService?
---@field memoryService moonpad.MemoryService?
---@field summarizer moonpad.Summarizer?
---@field tracer moonpad.Tracer?
---@field maxLlmCalls integer? of each message; default 500
---@field templateSyntax "both"|"braces"|"angles"|nil

---What has happened.
---@class moonpad.TestRun
---@field events moonpad.Event[]
---@field replies string[] the texts of the final answers
---@field text string the last of them
---@field toolErrors moonpad.ToolError[] of tools that have failed
---@field session moonpad.Session as stored
---@field service moonpad.Service

-- A session that is there already may have another state than the test wants.
local function prepareSession(service, name, state)
  local session = service:getSession(name)
  if not session then return sessions.create(service, name, state) end
  session.state:update(state)
  return service:updateSession(session)
end

local function serviceOf(options, where)
  if options.service == nil then return core.open("memory:", { clock = options.clock }) end
  if options.clock ~= nil then
    core.error("invalid_argument", where .. ".clock: is for the service in memory; give yours to moonpad.open")
  end
  return options.service
end

local function runnerOf(options, name, service, where)
  local definition = {}
  for _, field in ipairs(runners.FIELDS.names) do definition[field] = options[field] end
  definition.appName, definition.sessionService = name.appName, service
  return runners.new(definition, where, options.model)
end

---An agent with the session that its messages go to.
---@class moonpad.TestConversation
---@field result moonpad.TestRun what has happened so far
---@field package runner moonpad.Runner
---@field package name { appName: string, userId: string, sessionId: string }
---@field package temporary table
---@field package messages table[]
---@field invocation moonpad.Invocation? of the last message
local Conversation = {}
Conversation.__index = Conversation

---Begins one: the options are checked, the session is there.
---@param options moonpad.TestRunOptions
---@param where string for messages
---@return moonpad.TestConversation
function conversations.begin(options, where)
  FIELDS:checkNames(options, where)
  local own = OWN_FIELDS:read(options, where)
  local kept, temporary = sessions.split(own.state)
  local name, service = sessions.nameOf(own), serviceOf(own, where)
  local runner = runnerOf(options, name, service, where)
  prepareSession(service, name, kept)
  return setmetatable({
    runner = runner, name = name, temporary = temporary, messages = own.messages or {},
    result = {
      events = {}, replies = {}, text = "", toolErrors = {}, service = service, session = service:getSession(name),
    },
  }, Conversation)
end

---Says one message, and notes in `result` what happens. Errors of the run are raised.
---@param message string|moonpad.Content
function Conversation:say(message)
  local name, result = self.name, self.result
  self.invocation = nil
  local invocation <close> = self.runner:start {
    userId = name.userId, sessionId = name.sessionId, newMessage = message, stateDelta = self.temporary,
  }
  self.invocation, result.text = invocation, ""
  for event in function() return invocation:wait() end do
    result.events[#result.events + 1] = event
    toolErrors.collect(event, result.toolErrors)
    local text = event:isFinalResponse() and event:text() or ""
    if text ~= "" then
      result.replies[#result.replies + 1], result.text = text, text
    end
  end
  result.session = result.service:getSession(name)
  toolErrors.note(result)
end

---Runs an agent on messages, one after the other, and returns what happened.
---@param options moonpad.TestRunOptions
---@return moonpad.TestRun
function conversations.run(options)
  local conversation = conversations.begin(options, "testing.run")
  for _, message in ipairs(conversation.messages) do
    local ok, err = pcall(conversation.say, conversation, message)
    -- An error of the run is a failure of the test that asked for it; a message that begins none is
    -- a wrong argument.
    if not ok and not conversation.invocation then error(err, 0) end
    if not ok then failures.pass(err, conversation.invocation.traceback) end
  end
  conversation.result.text = conversation.result.replies[#conversation.result.replies] or ""
  return conversation.result
end

return conversations
