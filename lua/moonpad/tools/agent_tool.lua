--- An agent as a tool: it runs in a session of its own, which begins with the caller's state, and
--- gives back what it changed there.
local agents = require "moonpad.agents.base"
local content = require "moonpad.events.content"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local events = require "moonpad.events.event"
local fields = require "moonpad.schema.fields"
local names = require "moonpad.tools.name"
local output = require "moonpad.agents.output"
local runners = require "moonpad.runtime.runner"
local tools = require "moonpad.tools.tool"
local trees = require "moonpad.agents.tree"
local turn = require "moonpad.runtime.turn"

local agentTool = {}

---@class moonpad.AgentToolDefinition
---@field agent moonpad.Agent
---@field skipSummarization boolean? its answer is the final one of the calling agent

local FIELDS = fields.new {
  { "agent", { is = agents.isAgent, what = "an agent" }, required = true },
  { "skipSummarization", "boolean", default = false },
}:describes "moonpad.AgentToolDefinition"

local PARAMETERS = {
  type = "object",
  properties = { request = { type = "string", description = "What the agent is asked to do." } },
  required = { "request" },
}

-- The runner of the child: as the caller's, but for the agent and for the sessions, which end with
-- the call. Of the settings of the caller's run, those of model calls go along.
local function childRunner(agent, invocationContext, service)
  local caller = invocationContext.runner or {}
  return runners.new({
    appName = invocationContext.session.appName, agent = agent, sessionService = service, plugins = caller.plugins,
    templateSyntax = caller.templateSyntax, artifactService = caller.artifactService,
    memoryService = caller.memoryService,
  }, "runner", caller.model)
end

---- State
-- The child begins with a copy of what the caller shows; what it writes is done over again at the
-- caller's.

local TEMPORARY = core.StatePrefix.TEMP_PREFIX

local function writeByHand(state, delta)
  for key, value in pairs(delta) do
    if value == core.removed then value = nil end
    if key:sub(1, #TEMPORARY) ~= TEMPORARY then state:set(key, value) end
  end
end

-- The child's writes as they were made, for an event tells what an increment came to, not by how
-- much. They are asked for before the commit, after which nothing is pending any more, and count
-- once the event is stored. Those of tool calls are known one by one.
local function commitFor(caller)
  return function(callbackState, event, commit)
    local writes = callbackState.writes or { core.writes(callbackState.state) }
    local delta = event.actions and event.actions.stateDelta
    local stored = commit()
    for _, written in ipairs(writes) do core.addWrites(caller.state, written) end
    if type(delta) == "table" then writeByHand(caller.state, delta) end
    return stored
  end
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
local function isAfterword(last, event)
  return last ~= nil and event.author == turn.HOOK_AUTHOR
end

-- Takes over what the child has saved; returns its last event that says something, or says what
-- went wrong.
local function takeOver(session, context)
  local last
  for _, event in ipairs(session.events) do
    applyArtifacts(context.actions, event.actions.artifactDelta)
    local says = event.author ~= "user" and (not content.isEmpty(event.content) or event.errorCode)
    if says and not isAfterword(last, event) then last = event end
  end
  return last
end

local function answerOf(agent, last)
  local text = last and textOf(last) or ""
  if last and text == "" and last.errorCode then
    core.error("model", ('agent "%s": %s'):format(agent.name, last.errorMessage or last.errorCode))
  end
  -- The last word may be a callback's, which need not fit; the model's own has been
  -- checked already.
  if agent.outputSchema and text:find "%S" then
    local fits, value = output.tryParse(agent, text)
    if fits then return value end
  end
  return text
end

local function run(agent, request, context)
  local callbackState = contexts.stateOf(context)
  if not callbackState then core.error("invalid_argument", "an agent as a tool needs the context of a run") end
  local invocationContext, session = callbackState.invocationContext, callbackState.invocationContext.session
  local service <close> = core.openScratch(session)
  local who = { appName = session.appName, userId = session.userId, sessionId = session.id }
  service:createSession {
    appName = who.appName, userId = who.userId, sessionId = who.sessionId, state = core.snapshot(callbackState.state),
  }
  local child <close> = runners.startWithin(childRunner(agent, invocationContext, service), {
    userId = who.userId, sessionId = who.sessionId, newMessage = request,
    maxLlmCalls = invocationContext.maxLlmCalls, streaming = invocationContext.streaming,
  }, {
    usage = invocationContext.usage, onCommit = commitFor(callbackState), tracers = invocationContext.tracers,
    span = callbackState.span,
  })
  repeat until child:wait() == nil
  return answerOf(agent, takeOver(service:getSession(who), context))
end

---Makes a tool of an agent.
---@param definition moonpad.AgentToolDefinition
---@return moonpad.Tool
function agentTool.define(definition)
  if agents.isAgent(definition) then
    fields.refuse("agentTool", "expected options, got an agent; write moonpad.agentTool { agent = ... }")
  end
  local options = FIELDS:take(definition, "agentTool")
  local agent, skips = options.agent, options.skipSummarization
  names.check(agent.name, "agentTool.agent.name")
  local nesting = agent.nesting + 1
  trees.checkNesting(nesting, ('agentTool of agent "%s"'):format(agent.name))
  local tool = tools.define {
    name = agent.name,
    description = agent.description,
    parameters = agent.inputSchema or PARAMETERS,
    run = function(args, context)
      if type(args) ~= "table" then
        core.error("invalid_argument", ('tool "%s": expected a table of arguments, got %s')
          :format(agent.name, type(args)))
      end
      local message = agent.inputSchema and core.json.encode(args) or args.request
      local answer = run(agent, message, context)
      if skips then context.actions.skipSummarization = true end
      return answer
    end,
  }
  tool.agent, tool.nesting = agent, nesting
  return tool
end

return agentTool
