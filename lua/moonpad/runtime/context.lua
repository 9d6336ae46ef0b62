--- Contexts: what callbacks, models, tools and instruction providers get to see and to change.
--- A *phase* is our side of a context: its pending writes, its actions, and whose they are.
local actions = require "moonpad.events.actions"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local services = require "moonpad.services.of_context"
local signals = require "moonpad.runtime.coroutines"
local trees = require "moonpad.agents.tree"

local contexts = {}

---@class moonpad.Phase
---@field invocation moonpad.Run
---@field agent moonpad.Agent
---@field state moonpad.State
---@field actions table
---@field callId string? of the function call that a tool answers
---@field answer moonpad.Phase? of a function call: the one of all calls of that answer
---@field writes userdata[]? of an answer's phase in the run of an agent that is a tool: what its calls have committed
---@field emit (fun(event: table|string): moonpad.Event)? of a custom agent
---@field runAgent (fun(agent: moonpad.Agent|string): moonpad.Event?)? of a custom agent
---@field context moonpad.Context
---@field isReadOnly boolean?
---@field endReason string? once it has ended

---@class moonpad.Context
---@field state moonpad.State
---@field invocationId string
---@field agentName string
---@field userContent moonpad.Content?
---@field session moonpad.SessionView
---@field actions table
---@field functionCallId string?
local methods = {}

---@class moonpad.SessionView
---@field id string
---@field appName string
---@field userId string
---@field state moonpad.State read-only
---@field events moonpad.Event[]

-- context -> phase, session view -> phase, actions -> phase.
local phaseOf = setmetatable({}, { __mode = "k" })

local function phaseOfSelf(self, method)
  local phase = phaseOf[self]
  if phase == nil then
    core.error("invalid_argument", ("context:%s(...): call it with a colon, not with a dot"):format(method))
  end
  return phase
end

-- A write that goes nowhere is an error.
local function checkWritable(phase, what)
  if phase.isReadOnly then
    core.error("invalid_argument", what .. ": this context is read-only")
  elseif phase.endReason then
    core.error("invalid_argument", ("%s: this context has ended: %s"):format(what, phase.endReason))
  end
end

local function readOnlyError(what)
  return function(_, key)
    core.error("invalid_argument",
      ("%s.%s: cannot be assigned; write to context.state"):format(what, errorText.show(key)))
  end
end

---- The session as a context shows it

local sessionFields = {
  id = true, appName = true, userId = true, events = true, lastUpdateTime = true, createTime = true, revision = true,
  conversationCount = true, saveKey = true,
}

local SessionView = {
  __name = "moonpad.session",
  __newindex = readOnlyError "context.session",
  __index = function(self, key)
    local phase = phaseOf[self]
    if key == "state" then return contexts.readOnlyState(phase) end
    return sessionFields[key] and phase.invocation.session[key] or nil
  end,
}

---- Actions: a table that the caller may fill, save for what needs a check

-- What an action of an ended context holds can be read; writing into it would be lost.
local function frozen(phase, key)
  local state = core.state { [key] = phase.actions[key] }
  core.finish(state, "this context has ended: " .. phase.endReason)
  return state:get(key)
end

local Actions = {
  __name = "moonpad.actions",
  __index = function(self, key)
    local phase = phaseOf[self]
    if key == "stateDelta" then return phase.state end
    if phase.endReason and type(phase.actions[key]) == "table" then return frozen(phase, key) end
    return phase.actions[key]
  end,
  __newindex = function(self, key, value)
    local phase = phaseOf[self]
    checkWritable(phase, "context.actions")
    if value == core.null then value = nil end
    if type(value) == "userdata" then value = core.toTable(value) end
    actions.check(key, value, phase.invocation.session)
    if key == "stateDelta" then
      phase.state:update(value)
    elseif key == "transferToAgent" and value ~= nil then
      phase.context:transferToAgent(value)
    else
      phase.actions[key] = value
    end
  end,
  __pairs = function(self)
    local held = phaseOf[self].actions
    return function(_, key)
      local following = next(held, key)
      if following ~= nil then return following, self[following] end
    end, self, nil
  end,
}

---- Methods

---Hands the conversation over to another agent of the tree.
---@param name string
function methods:transferToAgent(name)
  local phase = phaseOfSelf(self, "transferToAgent")
  if type(name) ~= "string" then
    core.error("invalid_argument", "context:transferToAgent(name): expected a string, got " .. type(name))
  end
  checkWritable(phase, "context:transferToAgent(name)")
  -- A context that belongs to no run (to test a tool) knows no other agents.
  local runner = phase.invocation.runner
  local objection = runner and trees.objection(phase.agent, runner.agent, name)
  if objection then core.error("invalid_argument", ('context:transferToAgent: "%s" %s'):format(name, objection)) end
  phase.actions.transferToAgent = name
end

---Leaves the enclosing loop of agents.
function methods:escalate()
  local phase = phaseOfSelf(self, "escalate")
  checkWritable(phase, "context:escalate()")
  phase.actions.escalate = true
end

local function pauseFor(job)
  -- Who polls may find an append done before the run looks again.
  local _ <close> = core.awaitAppend(job)
  signals.pause()
end

---Waits for something asynchronous of moonpad's without blocking anyone else: `job:poll()` answers
---whether it is done, and with what.
---@param job { poll: fun(self): boolean, any }
---@return any result
function methods:await(job)
  phaseOfSelf(self, "await")
  signals.checkThread "context:await"
  local poll = services.methodOf(job, "poll")
  if not poll then
    core.error("invalid_argument", "context:await(job): a job has a method poll; got " .. type(job))
  end
  while true do
    local done, result = poll(job)
    if done then return result end
    pauseFor(job)
  end
end

---Saves a new version of a file of this session, or with the prefix `user:` of the user. The event
---of this context tells of it in `actions.artifactDelta`.
---@param filename string
---@param part moonpad.ArtifactPart|string
---@return integer version from 0
function methods:saveArtifact(filename, part)
  local phase = phaseOfSelf(self, "saveArtifact")
  checkWritable(phase, "context:saveArtifact(...)")
  return services.saveArtifact(phase, filename, part)
end

---Loads a file.
---@param filename string
---@param version integer? default: the latest
---@return moonpad.ArtifactPart? part nil when there is none
function methods:loadArtifact(filename, version)
  return services.loadArtifact(phaseOfSelf(self, "loadArtifact"), filename, version)
end

---The names of the files of this session and of its user, sorted.
---@return string[]
function methods:listArtifacts()
  return services.listArtifacts(phaseOfSelf(self, "listArtifacts"))
end

---Searches what was said in the sessions of this user, as far as they were added to the
---memory service.
---@param query string
---@return { memories: moonpad.Memory[] }
function methods:searchMemory(query)
  return services.searchMemory(phaseOfSelf(self, "searchMemory"), query)
end

local function ofCustomAgent(self, method)
  local phase = phaseOfSelf(self, method)
  checkWritable(phase, ("context:%s(...)"):format(method))
  local run = phase[method]
  if run == nil then
    core.error("unsupported", ("context:%s: only the run function of a custom agent can do that"):format(method))
  end
  return run
end

---Publishes an event, and with it what was written before it; only the context of a custom
---agent can.
---@param event table|string
---@return moonpad.Event stored
function methods:emit(event)
  return ofCustomAgent(self, "emit")(event)
end

---Runs another agent of the tree; only the context of a custom agent can.
---@param agent moonpad.Agent|string
---@return moonpad.Event? final the last final event of it
function methods:runAgent(agent)
  return ofCustomAgent(self, "runAgent")(agent)
end

---- The context itself

local fields = {
  state = function(phase) return phase.state end,
  invocationId = function(phase) return phase.invocation.id end,
  agentName = function(phase) return phase.agent.name end,
  -- A copy: what one callback does to it must not reach the next.
  userContent = function(phase) return copy(phase.invocation.userContent) end,
  session = function(phase) return phase.sessionView end,
  actions = function(phase) return phase.actionsView end,
  functionCallId = function(phase) return phase.callId end,
}

local Context = {
  __name = "moonpad.context",
  __newindex = readOnlyError "context",
  __index = function(self, key)
    local method = methods[key]
    if method then return method end
    local field = fields[key]
    return field and field(phaseOf[self])
  end,
}

local function view(phase, metatable)
  local proxy = setmetatable({}, metatable)
  phaseOf[proxy] = phase
  return proxy
end

local function furnish(phase)
  phase.actions = {}
  phase.context = view(phase, Context)
  phase.sessionView = view(phase, SessionView)
  phase.actionsView = view(phase, Actions)
  return phase
end

local function open(invocation, agent, callId, state)
  local phase = { invocation = invocation, agent = agent, callId = callId, state = state }
  invocation.phases[phase] = true
  return furnish(phase)
end

---Opens a phase: a context with pending writes of its own over the live session.
---@param invocation moonpad.Run
---@param agent moonpad.Agent
---@param callId string?
---@return moonpad.Phase
function contexts.open(invocation, agent, callId)
  return open(invocation, agent, callId, core.changes(invocation.session, invocation.branch))
end

---Opens the phase of a tool call: what its functions write is committed to that of the answer
---(contract 1.4).
---@param answer moonpad.Phase
---@param callId string?
---@return moonpad.Phase
function contexts.openCall(answer, callId)
  answer.writes = answer.writes or {}
  local phase = open(answer.invocation, answer.agent, callId, core.callChanges(answer.state))
  phase.answer = answer
  return phase
end

---A context that sees what the phase sees and can change nothing.
---@param phase moonpad.Phase
---@return moonpad.Context
function contexts.readOnly(phase)
  local shadow = { invocation = phase.invocation, agent = phase.agent, isReadOnly = true }
  shadow.state = contexts.readOnlyState(phase)
  return furnish(shadow).context
end

function contexts.readOnlyState(phase)
  if phase.isReadOnly then return phase.state end
  phase.readOnlyView = phase.readOnlyView or core.readOnly(phase.state)
  return phase.readOnlyView
end

---Ends a phase: what is still pending is dropped, later writes are errors that give the reason.
---@param phase moonpad.Phase
---@param reason string
function contexts.close(phase, reason)
  phase.invocation.phases[phase] = nil
  phase.endReason = phase.endReason or reason
  core.finish(phase.state, reason)
end

---Has anything been changed that must travel on an event?
---@param phase moonpad.Phase
---@return boolean
function contexts.hasChanges(phase)
  return next(phase.actions) ~= nil or phase.state:hasDelta()
end

---Raises where a context's actions hold what no event can carry.
---@param phase moonpad.Phase
function contexts.checkActions(phase)
  actions.checkAll(phase.actions, phase.invocation.session)
end

---The phase behind a context, or nil.
---@param context any
---@return moonpad.Phase?
function contexts.phaseOf(context)
  return phaseOf[context]
end

return contexts
