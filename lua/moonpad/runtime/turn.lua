--- A turn from its first step to its last: session, user message, agent, and the plugins around
--- them.
local actions = require "moonpad.events.actions"
local agents = require "moonpad.agents.base"
local callbacks = require "moonpad.agents.callbacks"
local content = require "moonpad.events.content"
local contents = require "moonpad.flow.contents"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local inputBlobs = require "moonpad.runtime.input_blobs"
local instrument = require "moonpad.tracing.instrument"
local longRunning = require "moonpad.flow.long_running"
local publish = require "moonpad.runtime.publish"
local sessionHistory = require "moonpad.flow.session_history"
local summarize = require "moonpad.runtime.summarize"
local trees = require "moonpad.agents.tree"

local turn = {}

local function openSession(invocationContext)
  local runner = invocationContext.runner
  local service = runner.sessionService
  local who = {
    appName = runner.appName, userId = invocationContext.userId, sessionId = invocationContext.sessionId,
  }
  local query = { numRecentEvents = invocationContext.numRecentEvents }
  for name, value in pairs(who) do query[name] = value end
  local session = service:getSession(query)
  if session then return session end
  local ok, created = pcall(service.createSession, service, who)
  if ok then return created end
  -- Somebody else may have created it a moment ago.
  if core.isError(created) and created.code == "already_exists" then session = service:getSession(query) end
  return session or error(created, 0)
end

-- The branch that is to see the message: that of the calls that it answers, where they have one
-- in common.
local function branchOf(answered)
  local branch = answered[1] and answered[1].branch
  for _, other in ipairs(answered) do
    if other.branch ~= branch then return nil end
  end
  return branch
end

-- The user's message comes first, and with it what the caller and the plugins want to have in
-- state. Returns whose calls it answers, and the agent that a plugin has handed the conversation
-- over to.
local function appendUserEvent(invocationContext)
  local callbackState = contexts.begin(invocationContext, invocationContext.rootAgent)
  if invocationContext.userContent then
    local replaced = callbacks.askPlugins(callbackState, "onUserMessage", invocationContext.userContent)
    if replaced ~= nil then invocationContext:setUserContent(content.normalize(replaced, "user", "onUserMessage")) end
  end
  local answered, known = longRunning.findCallers(invocationContext), invocationContext.session.revision
  inputBlobs.save(callbackState)
  local delta = invocationContext.stateDelta
  local hasDelta = delta ~= nil and next(delta) ~= nil
  if invocationContext.userContent or hasDelta or contexts.hasChanges(callbackState) then
    local message = publish.commit(callbackState, {
      invocationId = invocationContext.id, author = "user", content = invocationContext.userContent,
      actions = actions.merge({ stateDelta = delta }, callbackState.actions), branch = branchOf(answered),
    })
    longRunning.checkFirst(invocationContext, answered, known, message)
  end
  contexts.finish(callbackState, "the user's message is stored")
  return answered, callbackState.actions.transferToAgent
end

-- Who says what the hooks around a run answer. It is no agent: whose turn it is stays.
turn.HOOK_AUTHOR = "model"

-- The hooks of plugins before and after everything. Returns whether one of them answered, and whom
-- they hand over to.
local function askPlugins(invocationContext, hook)
  if #invocationContext.plugins == 0 then return false end
  local callbackState = contexts.begin(invocationContext, invocationContext.rootAgent)
  local answer = callbacks.askPlugins(callbackState, hook)
  if answer ~= nil then answer = content.normalize(answer, "model", hook) end
  local target = publish.changes(callbackState, answer, turn.HOOK_AUTHOR).transfer
  contexts.finish(callbackState, "its callback is over")
  return answer ~= nil, target
end

-- The agents whose calls have been answered go on where they were. Each does, also where one before
-- it fails: an answer counts once, and must not be lost. Returns whether there was any.
local function runCallers(invocationContext, answered)
  local hasRun, failure = false, nil
  for _, call in ipairs(answered) do
    local caller = trees.find(invocationContext.rootAgent, call.author)
    if caller then
      local child = invocationContext:child { branch = call.branch, answered = call }
      local ok, err = xpcall(agents.run, invocationContext:tracer(), child, caller)
      if not ok then
        child:stop "its agent has been stopped"
        invocationContext:raiseIfEnding()
        failure = failure or { err = err }
      end
      hasRun = true
    end
  end
  if failure then error(failure.err, 0) end
  return hasRun
end

-- Those whose calls have been answered; else the one that the conversation is with.
local function runAgents(invocationContext, answered)
  if runCallers(invocationContext, answered) then return end
  local root = invocationContext.rootAgent
  if #root.subAgents == 0 then return agents.run(invocationContext, root) end
  local newestFirst = invocationContext:history():newestFirst()
  agents.run(invocationContext, trees.findAgentToRun(root, newestFirst, contents.isVisible))
end

local function run(invocationContext)
  local session = openSession(invocationContext)
  invocationContext:setSession(session, sessionHistory.open(session, invocationContext.sessionService))
  local answered, ofMessage = appendUserEvent(invocationContext)
  local hasAnswered, target = askPlugins(invocationContext, "beforeRun")
  target = target or ofMessage
  if target then
    agents.transferTo(invocationContext, target)
  elseif not hasAnswered then
    runAgents(invocationContext, answered)
  end
  local _, last = askPlugins(invocationContext, "afterRun")
  if last then agents.transferTo(invocationContext, last) end
  summarize.run(invocationContext)
end

---A turn from the first step to the last: what the coroutine of a run does.
---@param invocationContext moonpad.InvocationContext
function turn.run(invocationContext)
  local span <close> = instrument.beginRun(invocationContext)
  run(invocationContext)
  if span then span:done() end
end

return turn
