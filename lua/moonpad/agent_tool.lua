--- An agent as a tool: it runs in a session of its own, which begins with the caller's state, and gives back what it
--- changed there.
local agents = require "moonpad.agent"
local content = require "moonpad.content"
local contexts = require "moonpad.context"
local core = require "moonpad.core"
local events = require "moonpad.event"
local lifecycle = require "moonpad.lifecycle"
local output = require "moonpad.output"
local runners = require "moonpad.runner"
local tools = require "moonpad.tool"
local trees = require "moonpad.tree"

local agentTool = {}

---@class moonpad.AgentToolDefinition
---@field agent moonpad.Agent
---@field skipSummarization boolean? its answer is the final one of the calling agent

local FIELDS = { "agent", "skipSummarization" }

local PARAMETERS = {
  type = "object",
  properties = { request = { type = "string", description = "What the agent is asked to do." } },
  required = { "request" },
}

-- The runner of the child: as the caller's, but for the agent and for the sessions, which end with the call.
local function childRunner(agent, invocation, service)
  local caller = invocation.runner or {}
  return runners.define {
    appName = invocation.session.appName, agent = agent, sessionService = service, plugins = caller.plugins,
    maxLlmCalls = caller.maxLlmCalls, templateSyntax = caller.templateSyntax,
    artifactService = caller.artifactService, memoryService = caller.memoryService,
  }
end

---- State: the child begins with a copy of what the caller shows; what it writes is done over again at the caller's.

local Copy = {
  __close = function(self) core.finish(self.state, "its tool call is over") end,
}

-- The copy stays open during the call, so that what others store meanwhile is noticed. Reading all of the caller's own
-- state would count as a look at every key.
local function copyState(phase)
  local state = core.changes(phase.invocation.session, phase.invocation.branch)
  core.merge(state, phase.state)
  return setmetatable({ state = state }, Copy)
end

local function writeByHand(state, delta)
  for key, value in pairs(delta) do
    if value == core.removed then state:delete(key) else state:set(key, value) end
  end
end

-- Gathers the child's writes as they were made: an event tells what an increment came to, not by how much. `session` is
-- the child's as it began, and stays so.
local function newJournal(session)
  local state, beginning = core.changes(session), core.changes(session)
  pairs(beginning) -- to ask for all keys is to have looked at them
  local journal = { state = state }
  local function note(phase, event, commit)
    core.absorb(state, phase.state, beginning)
    local delta = event.actions and event.actions.stateDelta
    if type(delta) == "table" then writeByHand(state, delta) end
    return commit()
  end
  -- After the commit nothing would be pending any more, and what could not be stored is still pending.
  function journal.keep(phase, event, commit)
    core.savepoint(state)
    local ok, stored = pcall(note, phase, event, commit)
    if ok then return stored end
    core.rollback(state)
    error(stored, 0)
  end
  return journal
end

---- Events

local function applyArtifacts(actions, delta)
  if type(delta) ~= "table" or next(delta) == nil then return end
  local all = {}
  for file, version in pairs(actions.artifactDelta or {}) do all[file] = version end
  for file, version in pairs(delta) do all[file] = version end
  actions.artifactDelta = all
end

local function textOf(event)
  local texts = {}
  for _, part in ipairs(events.parts(event)) do
    if type(part.text) == "string" and not part.thought then texts[#texts + 1] = part.text end
  end
  return table.concat(texts, "\n")
end

-- Is it what a plugin says after the run of an agent that has answered?
local function isAfterword(agent, last, event)
  return last ~= nil and event.author == lifecycle.HOOK_AUTHOR and agent.name ~= lifecycle.HOOK_AUTHOR
end

-- Takes over what the child has saved; returns its last event that says something, or says what went wrong.
local function takeOver(agent, session, context)
  local last
  for _, event in ipairs(session.events) do
    applyArtifacts(context.actions, event.actions.artifactDelta)
    local says = event.author ~= "user" and (not content.isEmpty(event.content) or event.errorCode)
    if says and not isAfterword(agent, last, event) then last = event end
  end
  return last
end

local function answerOf(agent, last)
  local text = last and textOf(last) or ""
  if last and text == "" and last.errorCode then
    core.error("model", ('agent "%s": %s'):format(agent.name, last.errorMessage or last.errorCode))
  end
  -- The last word may be a callback's, which need not fit; the model's own has been checked already.
  if agent.outputSchema and text:find "%S" then
    local fits, value = output.tryParse(agent, text)
    if fits then return value end
  end
  return text
end

local function run(agent, request, context)
  local phase = contexts.phaseOf(context)
  if not phase then core.error("invalid_argument", "an agent as a tool needs the context of a run") end
  local invocation, session = phase.invocation, phase.invocation.session
  local service <close> = core.openBeside(session)
  local copied <close> = copyState(phase)
  local who = { appName = session.appName, userId = session.userId, sessionId = session.id }
  local journal = newJournal(service:createSession {
    appName = who.appName, userId = who.userId, sessionId = who.sessionId, state = copied.state:getAll(),
  })
  local child <close> = runners.startWithin(childRunner(agent, invocation, service), {
    userId = who.userId, sessionId = who.sessionId, newMessage = request,
  }, { counts = invocation.counts, journal = journal.keep })
  repeat until child:wait() == nil
  local answer = answerOf(agent, takeOver(agent, service:getSession(who), context))
  core.absorb(phase.state, journal.state, copied.state)
  return answer
end

---Makes a tool of an agent.
---@param definition moonpad.AgentToolDefinition
---@return moonpad.Tool
function agentTool.define(definition)
  if type(definition) ~= "table" then
    core.error("invalid_argument", "agentTool: expected a table, got " .. type(definition))
  end
  if agents.isAgent(definition) then
    core.error("invalid_argument", "agentTool: expected options, got an agent; write moonpad.agentTool { agent = ... }")
  end
  core.checkFields(definition, "agentTool", FIELDS)
  local agent, skips = definition.agent, definition.skipSummarization
  if not agents.isAgent(agent) then
    core.error("invalid_argument", "agentTool.agent: expected an agent, got " .. type(agent))
  end
  if skips ~= nil and type(skips) ~= "boolean" then
    core.error("invalid_argument", "agentTool.skipSummarization: expected a boolean, got " .. type(skips))
  end
  local nesting = agent.nesting + 1
  trees.checkNesting(nesting, ('agentTool of agent "%s"'):format(agent.name))
  local tool = tools.define {
    name = agent.name,
    description = agent.description,
    parameters = PARAMETERS,
    run = function(args, context)
      if type(args) ~= "table" then
        core.error("invalid_argument", ('tool "%s": expected a table of arguments, got %s')
          :format(agent.name, type(args)))
      end
      local answer = run(agent, args.request, context)
      if skips then context.actions.skipSummarization = true end
      return answer
    end,
  }
  tool.nesting = nesting
  return tool
end

return agentTool
