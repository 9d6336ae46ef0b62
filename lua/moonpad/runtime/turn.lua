--- The life of a run from its first step to its last: session, user message, agent, and the plugins
--- around them.
local actions = require "moonpad.events.actions"
local agents = require "moonpad.agents.agent"
local callbacks = require "moonpad.agents.callbacks"
local content = require "moonpad.events.content"
local contents = require "moonpad.flow.contents"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local publish = require "moonpad.runtime.publish"
local resume = require "moonpad.flow.resume"
local sections = require "moonpad.runtime.section"
local trees = require "moonpad.agents.tree"

local lifecycle = {}

local function openSession(run)
  local service = run.runner.sessionService
  local who = { appName = run.runner.appName, userId = run.userId, sessionId = run.sessionId }
  local query = { numRecentEvents = run.numRecentEvents }
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
local function appendUserEvent(run)
  local phase = contexts.open(run, run.runner.agent)
  if run.userContent then
    local replaced = callbacks.askPlugins(phase, "onUserMessage", run.userContent)
    if replaced ~= nil then run.userContent = content.normalize(replaced, "user", "onUserMessage") end
  end
  local answered = resume.find(run)
  local delta = run.stateDelta
  local hasDelta = delta ~= nil and next(delta) ~= nil
  if run.userContent or hasDelta or contexts.hasChanges(phase) then
    publish.commit(phase, {
      invocationId = run.id, author = "user", content = run.userContent,
      actions = actions.merge({ stateDelta = delta }, phase.actions), branch = branchOf(answered),
    })
  end
  contexts.close(phase, "the user's message is stored")
  return answered, phase.actions.transferToAgent
end

-- Who says what the hooks around a run answer. It is no agent: whose turn it is stays.
lifecycle.HOOK_AUTHOR = "model"

-- The hooks of plugins before and after everything. Returns whether one of them answered, and whom
-- they hand over to.
local function askPlugins(run, hook)
  if #run.runner.plugins == 0 then return false end
  local phase = contexts.open(run, run.runner.agent)
  local answer = callbacks.askPlugins(phase, hook)
  if answer ~= nil then answer = content.normalize(answer, "model", hook) end
  local target = publish.phase(phase, answer, lifecycle.HOOK_AUTHOR).transfer
  contexts.close(phase, "its callback is over")
  return answer ~= nil, target
end

-- The agents whose calls have been answered go on where they were; else the one that the
-- conversation is with.
local function runAgents(run, answered)
  local root, hasRun = run.runner.agent, false
  for _, call in ipairs(answered) do
    local caller = trees.find(root, call.author)
    if caller then
      agents.run(sections.open(run, { branch = call.branch }), caller)
      hasRun = true
    end
  end
  if hasRun then return end
  if #root.subAgents == 0 then return agents.run(run, root) end
  agents.run(run, trees.nextSpeaker(root, contents.history(run), contents.isVisible))
end

---@param run moonpad.Run
function lifecycle.body(run)
  run.session = openSession(run)
  local answered, ofMessage = appendUserEvent(run)
  local hasAnswered, target = askPlugins(run, "beforeRun")
  target = target or ofMessage
  if target then
    agents.handOver(run, target)
  elseif not hasAnswered then
    runAgents(run, answered)
  end
  local _, last = askPlugins(run, "afterRun")
  if last then agents.handOver(run, last) end
end

return lifecycle
