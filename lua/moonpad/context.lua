--- Contexts: what callbacks, models, tools and instruction providers get to see and to change.
--- A *phase* is our side of a context: its pending writes, its actions, and whose they are.
local copy = require "moonpad.copy"
local core = require "moonpad.core"
local signals = require "moonpad.signals"

local contexts = {}

---@class moonpad.Phase
---@field invocation moonpad.Run
---@field agent moonpad.Agent
---@field state moonpad.State
---@field actions table
---@field callId string? of the function call that a tool answers
---@field context moonpad.Context

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

local function readOnlyError(what)
  return function(_, key)
    core.error("invalid_argument", ("%s.%s: cannot be assigned; write to context.state"):format(what, tostring(key)))
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

local Actions = {
  __name = "moonpad.actions",
  __index = function(self, key)
    local phase = phaseOf[self]
    if key == "stateDelta" then return phase.state end
    return phase.actions[key]
  end,
  __newindex = function(self, key, value)
    local phase = phaseOf[self]
    if phase.isReadOnly then
      core.error("invalid_argument", "context.actions: this context is read-only")
    elseif key == "stateDelta" then
      phase.state:update(value)
    elseif key == "transferToAgent" and value ~= nil then
      phase.context:transferToAgent(value)
    else
      phase.actions[key] = value
    end
  end,
  __pairs = function(self) return next, phaseOf[self].actions, nil end,
}

---- Methods

---Hands the conversation over to another agent of the tree.
---@param name string
function methods:transferToAgent(name)
  phaseOfSelf(self, "transferToAgent")
  core.error("unsupported", ('transferToAgent("%s"): this version runs one agent without sub-agents'):format(name))
end

---Leaves the enclosing loop of agents.
function methods:escalate()
  local phase = phaseOfSelf(self, "escalate")
  if phase.isReadOnly then core.error("invalid_argument", "context:escalate(): this context is read-only") end
  phase.actions.escalate = true
end

---Waits for something asynchronous of moonpad's without blocking anyone else: `job:poll()` answers whether it is done,
---and with what.
---@param job { poll: fun(self): boolean, any }
---@return any result
function methods:await(job)
  phaseOfSelf(self, "await")
  if type(job) ~= "table" and type(job) ~= "userdata" or type(job.poll) ~= "function" then
    core.error("invalid_argument", "context:await(job): a job has a method poll; got " .. type(job))
  end
  while true do
    local done, result = job:poll()
    if done then return result end
    signals.pause()
  end
end

local function needsService(method, service)
  return function(self)
    phaseOfSelf(self, method)
    core.error("unsupported", ("context:%s(...): the runner has no %s"):format(method, service))
  end
end

---Not served in this version (it needs an artifactService).
methods.saveArtifact = needsService("saveArtifact", "artifactService")
---Not served in this version (it needs an artifactService).
methods.loadArtifact = needsService("loadArtifact", "artifactService")
---Not served in this version (it needs an artifactService).
methods.listArtifacts = needsService("listArtifacts", "artifactService")
---Not served in this version (it needs a memoryService).
methods.searchMemory = needsService("searchMemory", "memoryService")

---Publishes an event; only the context of a custom agent can.
function methods:emit()
  phaseOfSelf(self, "emit")
  core.error("unsupported", "context:emit(event): only the run function of a custom agent can emit events")
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

---Opens a phase: a context with pending writes of its own over the live session.
---@param invocation moonpad.Run
---@param agent moonpad.Agent
---@param callId string?
---@return moonpad.Phase
function contexts.open(invocation, agent, callId)
  local phase = { invocation = invocation, agent = agent, callId = callId, state = core.changes(invocation.session) }
  invocation.phases[phase] = true
  return furnish(phase)
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
  core.finish(phase.state, reason)
end

---Has anything been changed that must travel on an event?
---@param phase moonpad.Phase
---@return boolean
function contexts.hasChanges(phase)
  return next(phase.actions) ~= nil or phase.state:hasDelta()
end

---The phase behind a context, or nil.
---@param context any
---@return moonpad.Phase?
function contexts.phaseOf(context)
  return phaseOf[context]
end

return contexts
