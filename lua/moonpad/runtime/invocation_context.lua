--- The invocation context: what a run is about, for everything that takes part in it (ADK's
--- InvocationContext). The runner makes it, the turn adds the session and the user's content, and
--- agents, flows and tools read it. It is written by the methods here alone.
---
--- A part of a run (a branch, a round of a loop, the calls of one answer) has a child of it: what
--- the child does not say itself, it has from its parent.
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local trees = require "moonpad.agents.tree"

local invocationContexts = {}

---@class moonpad.InvocationContext
---@field id string the invocation id
---@field runner moonpad.Runner? none where a tool is tested without a run
---@field sessionService moonpad.Service? the runner's, like the next four
---@field rootAgent moonpad.Agent?
---@field plugins table<string, function[]>[]?
---@field model function|moonpad.Model|string|nil asked in place of the models of all agents
---@field templateSyntax string? for agents that do not say it themselves
---@field artifactService moonpad.ArtifactService?
---@field memoryService moonpad.MemoryService?
---@field userId string
---@field sessionId string
---@field numRecentEvents integer? how much of the history the run sees
---@field stateDelta table? changes of state that come with the message
---@field userContent moonpad.Content?
---@field maxLlmCalls integer? 0 for no limit; of a run, as the next one
---@field streaming boolean? how models are asked; nil: as each is set
---@field customMetadata table? of every event of the run
---@field savesInputBlobs boolean? are the files in the message kept as artifacts?
---@field session moonpad.Session once it is this run's turn
---@field isInner boolean? of an agent that is a tool: its session ends with the call
---@field onCommit moonpad.OnCommit? of the run of an agent that is a tool
---@field tracers moonpad.Tracer[]? who is told what it does; nil: nobody
---@field span moonpad.Span? what it is within
---@field remoteParent moonpad.RemoteParent? whose span the run as a whole belongs to
---@field usage { llmCalls: integer } shared with the runs of agents that are tools
---@field shared moonpad.InvocationShared one for the whole run
---@field parent moonpad.InvocationContext? of a part of the run
---@field depth integer? how many parts it is within
---@field branch string? of a parallel agent, like "team.writer"; a run as a whole has none
---@field answered moonpad.AnsweredAgent? of an agent whose calls the user's message answers
---@field loop moonpad.LoopRound? the innermost loop around it
---@field final { event: moonpad.Event? }? gets the last final event
---@field isEnding boolean? code that still runs must stop at the next occasion
local InvocationContext = {}
InvocationContext.__index = InvocationContext

---Stores an event by calling `commit`, and notes what was written.
---@alias moonpad.OnCommit fun(callbackState: moonpad.CallbackState, event: table, commit: function): moonpad.Event

---@class moonpad.InvocationShared
---@field callbackStates table<moonpad.CallbackState, true> that have not ended
---@field threads table<thread, true> of tools and branches under way
---@field transfers integer
---@field failure { err: any, traceback: string }? of a coroutine within the run
---@field hasEnded boolean? somebody has called endInvocation: nothing new begins
---@field promptTokens number? of the last prompt
---@field history moonpad.SessionHistory once it is this run's turn

---@class moonpad.LoopRound
---@field outer moonpad.LoopRound?
---@field hasEscalated boolean?
---@field hasPublished boolean?

-- More transfers than this in one run are no conversation any more.
local MAX_TRANSFERS = 1000

-- A tree as high as may be has not so many parts within one another; agents that hand over in a
-- circle inside of loops have. Lua asks 2,000 tables in a row for a field, and no more.
local MAX_DEPTH = 1500

---@param fields table id, runner, and what the caller of the run has asked for
---@return moonpad.InvocationContext
function invocationContexts.new(fields)
  local runner = fields.runner or {}
  fields.sessionService, fields.rootAgent = runner.sessionService, runner.agent
  fields.plugins, fields.templateSyntax = runner.plugins, runner.templateSyntax
  fields.model = runner.model
  fields.usage = fields.usage or { llmCalls = 0 }
  fields.shared = { callbackStates = {}, threads = {}, transfers = 0 }
  return setmetatable(fields, InvocationContext)
end

---The context of a part of the run; error `limit` where it is one too many within one another.
---@param fields table? what it has of its own: `branch`, `answered`, `loop`, `final`
---@return moonpad.InvocationContext
function InvocationContext:child(fields)
  fields = fields or {}
  fields.parent, fields.depth = self, (self.depth or 0) + 1
  if fields.depth > MAX_DEPTH then
    core.error("limit", ("more than %d parts of a run within one another: its agents run each other, or hand over "
      .. "to each other, without end"):format(MAX_DEPTH))
  end
  return setmetatable(fields, { __index = self })
end

---The model that answers for an agent in this run.
---@param agent moonpad.Agent
---@return function|moonpad.Model|string|nil
function InvocationContext:modelOf(agent)
  return self.model or trees.modelOf(agent)
end

---- How far it is

---The turn has got the session.
---@param session moonpad.Session
---@param history moonpad.SessionHistory what the run sees of it
function InvocationContext:setSession(session, history)
  self.session, self.shared.history = session, history
end

---@param content moonpad.Content
function InvocationContext:setUserContent(content)
  self.userContent = content
end

---The calls of an agent that the user has approved or refused, and that are to be run now: once.
---@param agent moonpad.Agent
---@return moonpad.ConfirmedCall[]
function InvocationContext:takeConfirmed(agent)
  local answered = self.answered
  if not answered or answered.author ~= agent.name then return {} end
  local confirmed = answered.confirmed
  answered.confirmed = {}
  return confirmed
end

---Counts a call of a model; error `limit` where it is one too many.
function InvocationContext:countLlmCall()
  local limit, usage = self.maxLlmCalls, self.usage
  usage.llmCalls = usage.llmCalls + 1
  if limit > 0 and usage.llmCalls > limit then
    core.error("limit", ("the run has made %d model calls, as many as maxLlmCalls allows"):format(limit))
  end
end

---Counts a transfer to another agent; error `limit` where it is one too many.
function InvocationContext:countTransfer()
  local shared = self.shared
  shared.transfers = shared.transfers + 1
  if shared.transfers > MAX_TRANSFERS then
    core.error("limit", ("the agents have handed the conversation over %d times in one run"):format(MAX_TRANSFERS))
  end
end

---Notes an event that was published. The loops around it hear that something has happened; the
---innermost one is left by `escalate`.
---@param event moonpad.Event
---@param isFinal boolean
function InvocationContext:notePublished(event, isFinal)
  local usage = event.usageMetadata
  local tokens = type(usage) == "table" and usage.promptTokenCount
  if type(tokens) == "number" then self.shared.promptTokens = tokens end
  if isFinal and self.final then self.final.event = core.newEvent(event) end
  local loop = self.loop
  if loop and event.actions.escalate == true then loop.hasEscalated = true end
  while loop do
    loop.hasPublished = true
    loop = loop.outer
  end
end

---How many tokens the last prompt of the run had; nil: no model has said so.
---@return number?
function InvocationContext:promptTokens()
  return self.shared.promptTokens
end

---What the run sees of its session's history.
---@return moonpad.SessionHistory
function InvocationContext:history()
  return self.shared.history
end

---Notes a callback state that has begun, or ended: what is open when the run ends is dropped.
---@param callbackState moonpad.CallbackState
---@param isOpen boolean
function InvocationContext:noteCallbackState(callbackState, isOpen)
  self.shared.callbackStates[callbackState] = isOpen or nil
end

---Notes a coroutine within the run that has begun, or ended: cancelling the run reaches it.
---@param thread thread
---@param isOpen boolean
function InvocationContext:noteThread(thread, isOpen)
  self.shared.threads[thread] = isOpen or nil
end

---@return thread[] threads that have not ended
function InvocationContext:threads()
  local list = {}
  for thread in pairs(self.shared.threads) do list[#list + 1] = thread end
  return list
end

---- How it ends

---Ends the invocation: what is under way is finished, nothing new begins. It holds for the whole
---run, all its branches included; the run of an agent that is a tool has its own.
function InvocationContext:endInvocation()
  self.shared.hasEnded = true
end

---May nothing new begin: no model be asked, no tool be called, no agent be run?
---@return boolean
function InvocationContext:hasEnded()
  return self.shared.hasEnded == true
end

---Keeps the traceback of an error that is about to leave its coroutine, or to pass a pcall.
---@param err any
---@param traceback string
function InvocationContext:noteFailure(err, traceback)
  local noted = self.shared.failure
  if not (noted and rawequal(noted.err, err)) then self.shared.failure = { err = err, traceback = traceback } end
end

---What xpcall is to do with an error in the run: note its traceback.
---@return fun(err: any): any
function InvocationContext:tracer()
  return function(err)
    if debug then self:noteFailure(err, debug.traceback(type(err) == "string" and err or nil, 2)) end
    return err
  end
end

---The traceback that was noted for an error.
---@param err any
---@return string?
function InvocationContext:tracebackOf(err)
  local noted = self.shared.failure
  return noted and rawequal(noted.err, err) and noted.traceback or nil
end

---Raises `cancelled` where nothing may go on any more.
function InvocationContext:raiseIfEnding()
  if self.isEnding then error(coroutines.cancelled(), 0) end
end

---From now on nothing of it may go on.
function InvocationContext:setEnding()
  self.isEnding = true
end

local function isWithin(context, outer)
  while context do
    if context == outer then return true end
    context = rawget(context, "parent")
  end
  return false
end

---Ends it: nothing in it goes on, what is pending in it is dropped.
---@param reason string for who writes to one of its contexts later
function InvocationContext:stop(reason)
  self:setEnding()
  -- A context that somebody keeps must not keep it as well.
  if not self.parent then self.shared.history = nil end
  for callbackState in pairs(self.shared.callbackStates) do
    if isWithin(callbackState.invocationContext, self) then contexts.finish(callbackState, reason) end
  end
end

return invocationContexts
