--- Contexts: what callbacks, models, tools and instruction providers get to see and to change.
--- A *callback state* is our side of a context: its pending writes, its actions, and whose they
--- are.
local actions = require "moonpad.events.actions"
local confirmation = require "moonpad.flow.confirmation"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local methodOf = require "moonpad.util.method_of"
local services = require "moonpad.services.of_context"
local trees = require "moonpad.agents.tree"

local contexts = {}

---@class moonpad.CallbackState
---@field invocationContext moonpad.InvocationContext
---@field agent moonpad.Agent
---@field state moonpad.State
---@field actions table
---@field callId string? of the function call that a tool answers
---@field answer moonpad.CallbackState? of a function call: the one of all calls of that answer
---@field writes userdata[]? what the calls of an answer have committed, in the run of an agent that is a tool
---@field toolConfirmation moonpad.ToolConfirmation? of a function call that the user has approved or refused
---@field requestedConfirmation moonpad.ToolConfirmation? of a function call that asks the user
---@field isRunningTool boolean? of a function call: its tool is what runs
---@field emit (fun(event: table|string): moonpad.Event)? of a custom agent
---@field runAgent (fun(agent: moonpad.Agent|string): moonpad.Event?)? of a custom agent
---@field context moonpad.Context
---@field transfer string? of a custom agent: whom it hands the conversation over to
---@field isReadOnly boolean?
---@field endReason string? once it has ended

---What callbacks, models, tools and instructions that are functions get, for the time of the call.
---@class moonpad.Context
---@field state moonpad.State what is written to it is stored with the next event
---@field invocationId string of the run
---@field agentName string
---@field appName string
---@field userId string
---@field sessionId string
---@field branch string? of the agents that run side by side
---@field userContent moonpad.Content? the message of the run
---@field session moonpad.SessionView read-only
---@field actions moonpad.Actions of the next event
---@field functionCallId string? of a tool: the call that it answers
---@field toolConfirmation moonpad.ToolConfirmation? what the user has said to this tool call
local methods = {}

---The session of a run as code in it sees it; nothing can be written through it.
---@class moonpad.SessionView
---@field id string
---@field appName string
---@field userId string
---@field state moonpad.State read-only
---@field events moonpad.Event[]
---@field lastUpdateTime number seconds since 1970: the timestamp of the last event
---@field createTime number seconds since 1970
---@field revision integer the number of events that it has had
---@field conversationCount integer user messages so far
---@field saveKey string "appName/userId"
---@field summary fun(self: moonpad.SessionView): string? the text of the newest summary, or nil

-- context -> callback state, session view -> callback state, actions -> callback state.
local callbackStateOf = setmetatable({}, { __mode = "k" })

local function stateOfSelf(self, method)
  local callbackState = callbackStateOf[self]
  if callbackState == nil then
    core.error("invalid_argument", ("context:%s(...): call it with a colon, not with a dot"):format(method))
  end
  return callbackState
end

-- A write that goes nowhere is an error.
local function checkWritable(callbackState, what)
  if callbackState.isReadOnly then
    core.error("invalid_argument", what .. ": this context is read-only")
  elseif callbackState.endReason then
    core.error("invalid_argument", ("%s: this context has ended: %s"):format(what, callbackState.endReason))
  end
end

local function sortedNames(...)
  local names = {}
  for _, known in ipairs { ... } do
    for name in pairs(known) do names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

-- Nothing can be assigned; where a name is nearly known, that is said first.
local function readOnlyError(what, names)
  return function(_, key)
    local nearest = type(key) == "string" and core.nearestName(key, names)
    if nearest and nearest ~= key then fields.refuseName(what, key, names) end
    core.error("invalid_argument",
      ("%s.%s: cannot be assigned; write to context.state"):format(what, errorText.show(key)))
  end
end

-- `pairs` of a view: the fields that have a value, in the order of their names. Of a copy, such as
-- a spy of busted keeps, nothing is known.
local function walkOver(names)
  return function(self)
    if callbackStateOf[self] == nil then return next, self, nil end
    local index = 0
    return function()
      local value
      repeat
        index = index + 1
        if names[index] == nil then return nil end
        value = self[names[index]]
      until value ~= nil
      return names[index], value
    end, self, nil
  end
end

---- The session as a context shows it

local sessionFields = {
  id = true, appName = true, userId = true, events = true, lastUpdateTime = true, createTime = true, revision = true,
  conversationCount = true, saveKey = true, state = true,
}
local SESSION_NAMES = sortedNames(sessionFields)

-- context.session:summary()
local function summary(self)
  local callbackState = callbackStateOf[self]
  if callbackState == nil then
    core.error("invalid_argument", "context.session:summary(): call it with a colon, not with a dot")
  end
  return callbackState.invocationContext.session:summary()
end

local SessionView = {
  __name = "moonpad.session",
  __newindex = readOnlyError("context.session", SESSION_NAMES),
  __pairs = walkOver(SESSION_NAMES),
  __index = function(self, key)
    local callbackState = callbackStateOf[self]
    if key == "state" then return contexts.readOnlyState(callbackState) end
    if key == "summary" then return summary end
    if sessionFields[key] then return callbackState.invocationContext.session[key] end
    if type(key) == "string" then fields.refuseName("context.session", key, SESSION_NAMES) end
    return nil
  end,
}

---- Actions: a table that the caller may fill, save for what needs a check

-- What an action of an ended context holds can be read; writing into it would be lost.
local function frozen(callbackState, key)
  local state = core.state { [key] = callbackState.actions[key] }
  core.endChanges(state, "this context has ended: " .. callbackState.endReason)
  return state:get(key)
end

local Actions = {
  __name = "moonpad.actions",
  __index = function(self, key)
    local callbackState = callbackStateOf[self]
    if key == "stateDelta" then return callbackState.state end
    local value = callbackState.actions[key]
    if value == nil and type(key) == "string" then actions.checkName(key) end
    if callbackState.endReason and type(value) == "table" then return frozen(callbackState, key) end
    return value
  end,
  __newindex = function(self, key, value)
    local callbackState = callbackStateOf[self]
    checkWritable(callbackState, "context.actions")
    if value == core.null then value = nil end
    if type(value) == "userdata" then value = core.toTable(value) end
    actions.check(key, value, callbackState.invocationContext.session)
    if key == "stateDelta" then
      callbackState.state:update(value)
    elseif key == "transferToAgent" and value ~= nil then
      callbackState.context:transferToAgent(value)
    else
      callbackState.actions[key] = value
    end
  end,
  __pairs = function(self)
    local held = callbackStateOf[self].actions
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
  local callbackState = stateOfSelf(self, "transferToAgent")
  if type(name) ~= "string" then
    core.error("invalid_argument", "context:transferToAgent(name): expected a string, got " .. type(name))
  end
  checkWritable(callbackState, "context:transferToAgent(name)")
  -- A context that belongs to no run (to test a tool) knows no other agents.
  local root = callbackState.invocationContext.rootAgent
  local objection = root and trees.objection(callbackState.agent, root, name)
  if objection then core.error("invalid_argument", ('context:transferToAgent: "%s" %s'):format(name, objection)) end
  callbackState.actions.transferToAgent = name
end

---Leaves the enclosing loop of agents.
function methods:escalate()
  local callbackState = stateOfSelf(self, "escalate")
  checkWritable(callbackState, "context:escalate()")
  callbackState.actions.escalate = true
end

---Ends the invocation once this callback or tool is over: its event still goes out, then no model
---is asked, no tool is called and no agent begins.
function methods:endInvocation()
  local callbackState = stateOfSelf(self, "endInvocation")
  checkWritable(callbackState, "context:endInvocation()")
  callbackState.invocationContext:endInvocation()
end

-- What waits for a job of moonpad's is told when there is news of it; nobody knows of others.
local function pauseFor(job)
  if type(job) == "table" and methodOf(job, "giveWay") then return job:giveWay() end
  -- Who polls may find an append done before the run looks again.
  local append <close> = core.awaitAppend(job)
  if append then return coroutines.waitForService() end
  if coroutines.canYield() then return coroutine.yield() end
  coroutines.pause()
end

---Waits for something asynchronous of moonpad's without blocking anyone else: `job:poll()` answers
---whether it is done, and with what.
---@param job { poll: fun(self): boolean, any }
---@return any result
function methods:await(job)
  stateOfSelf(self, "await")
  coroutines.checkThread "context:await"
  local poll = methodOf(job, "poll")
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
---@param part moonpad.ArtifactPart|moonpad.Part|string
---@return integer version from 0
function methods:saveArtifact(filename, part)
  local callbackState = stateOfSelf(self, "saveArtifact")
  checkWritable(callbackState, "context:saveArtifact(...)")
  return services.saveArtifact(callbackState, filename, part)
end

---Loads a file.
---@param filename string
---@param version integer? default: the latest
---@return moonpad.ArtifactPart? part nil when there is none
function methods:loadArtifact(filename, version)
  return services.loadArtifact(stateOfSelf(self, "loadArtifact"), filename, version)
end

---The names of the files of this session and of its user, sorted.
---@return string[]
function methods:listArtifacts()
  return services.listArtifacts(stateOfSelf(self, "listArtifacts"))
end

---Searches what was said in the sessions of this user, as far as they were added to the
---memory service.
---@param query string
---@return { memories: moonpad.Memory[] }
function methods:searchMemory(query)
  return services.searchMemory(stateOfSelf(self, "searchMemory"), query)
end

---Asks the user to approve or refuse this tool call; only a tool's run function can. It is called
---again once the user has approved, with `context.toolConfirmation`.
---@param options { hint: string?, payload: any }? what the user is told
function methods:requestConfirmation(options)
  local callbackState = stateOfSelf(self, "requestConfirmation")
  checkWritable(callbackState, "context:requestConfirmation(...)")
  confirmation.request(callbackState, options)
end

local function ofCustomAgent(self, method)
  local callbackState = stateOfSelf(self, method)
  checkWritable(callbackState, ("context:%s(...)"):format(method))
  local run = callbackState[method]
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

local readers = {
  state = function(callbackState) return callbackState.state end,
  invocationId = function(callbackState) return callbackState.invocationContext.id end,
  agentName = function(callbackState) return callbackState.agent.name end,
  appName = function(callbackState) return callbackState.invocationContext.session.appName end,
  userId = function(callbackState) return callbackState.invocationContext.session.userId end,
  sessionId = function(callbackState) return callbackState.invocationContext.session.id end,
  branch = function(callbackState) return callbackState.invocationContext.branch end,
  -- A copy: what one callback does to it must not reach the next.
  userContent = function(callbackState) return copy(callbackState.invocationContext.userContent) end,
  session = function(callbackState) return callbackState.sessionView end,
  actions = function(callbackState) return callbackState.actionsView end,
  functionCallId = function(callbackState) return callbackState.callId end,
  toolConfirmation = function(callbackState) return copy(callbackState.toolConfirmation) end,
}

local NAMES = sortedNames(readers, methods)

local Context = {
  __name = "moonpad.context",
  __newindex = readOnlyError("context", NAMES),
  __pairs = walkOver(sortedNames(readers)),
  __index = function(self, key)
    local method = methods[key]
    if method then return method end
    local read = readers[key]
    if read then return read(callbackStateOf[self]) end
    if type(key) == "string" then fields.refuseName("context", key, NAMES) end
    return nil
  end,
}

-- What encodes and copies tables does so past their metatables, and would find nothing in a view.
-- So there is something in it that is no JSON, under a name that tells why.
local function noData() end
local MARKS = {}
for _, metatable in ipairs { Context, SessionView, Actions } do
  MARKS[metatable] = ("a %s, which is no data"):format(metatable.__name)
end

local function view(callbackState, metatable)
  local proxy = setmetatable({ [MARKS[metatable]] = noData }, metatable)
  callbackStateOf[proxy] = callbackState
  return proxy
end

local function addViews(callbackState)
  callbackState.actions = {}
  callbackState.context = view(callbackState, Context)
  callbackState.sessionView = view(callbackState, SessionView)
  callbackState.actionsView = view(callbackState, Actions)
  return callbackState
end

local function open(invocationContext, agent, callId, state)
  local callbackState = { invocationContext = invocationContext, agent = agent, callId = callId, state = state }
  invocationContext:noteCallbackState(callbackState, true)
  return addViews(callbackState)
end

---Opens a callback state: a context with pending writes of its own over the live session.
---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
---@param callId string?
---@return moonpad.CallbackState
function contexts.begin(invocationContext, agent, callId)
  return open(invocationContext, agent, callId, core.beginChanges(invocationContext.session, invocationContext.branch))
end

---Opens the callback state of a tool call: what its functions write is committed to that of the
---answer (contract 1.4).
---@param answer moonpad.CallbackState
---@param callId string?
---@param toolConfirmation moonpad.ToolConfirmation?
---@return moonpad.CallbackState
function contexts.beginCall(answer, callId, toolConfirmation)
  answer.writes = answer.writes or {}
  local callbackState = open(answer.invocationContext, answer.agent, callId, core.beginCallChanges(answer.state))
  callbackState.answer, callbackState.toolConfirmation = answer, toolConfirmation
  return callbackState
end

---A context that sees what the callback state sees and can change nothing.
---@param callbackState moonpad.CallbackState
---@return moonpad.Context
function contexts.readOnly(callbackState)
  local shadow = { invocationContext = callbackState.invocationContext, agent = callbackState.agent, isReadOnly = true }
  shadow.state = contexts.readOnlyState(callbackState)
  return addViews(shadow).context
end

function contexts.readOnlyState(callbackState)
  if callbackState.isReadOnly then return callbackState.state end
  callbackState.readOnlyView = callbackState.readOnlyView or core.readOnly(callbackState.state)
  return callbackState.readOnlyView
end

---Ends a callback state: what is still pending is dropped, later writes are errors that give the
---reason.
---@param callbackState moonpad.CallbackState
---@param reason string
function contexts.finish(callbackState, reason)
  callbackState.invocationContext:noteCallbackState(callbackState, false)
  callbackState.endReason = callbackState.endReason or reason
  core.endChanges(callbackState.state, reason)
end

---Has anything been changed that must travel on an event?
---@param callbackState moonpad.CallbackState
---@return boolean
function contexts.hasChanges(callbackState)
  return next(callbackState.actions) ~= nil or callbackState.state:hasDelta()
end

---Raises where a context's actions hold what no event can carry.
---@param callbackState moonpad.CallbackState
function contexts.checkActions(callbackState)
  actions.checkAll(callbackState.actions, callbackState.invocationContext.session)
end

---The callback state behind a context, or nil.
---@param context any
---@return moonpad.CallbackState?
function contexts.stateOf(context)
  return callbackStateOf[context]
end

return contexts
