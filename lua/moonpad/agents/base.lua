--- What all agents have in common: how one is made, and the frame in which it runs.
local callbacks = require "moonpad.agents.callbacks"
local content = require "moonpad.events.content"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local instrument = require "moonpad.tracing.instrument"
local publish = require "moonpad.runtime.publish"
local trees = require "moonpad.agents.tree"

local agents = {}

---@alias moonpad.Callback function|function[]

---Answers the name of the agent that it hands the conversation over to.
---@alias moonpad.AgentBody fun(invocationContext: moonpad.InvocationContext, agent: moonpad.Agent): string?

---@class moonpad.Agent: moonpad.AgentDefinition
---@field parent moonpad.Agent?
---@field kind string the function of `moonpad` that has made it: "agent", "sequentialAgent", ...
---@field isLlm boolean? driven by a model
---@field runsOthers boolean? in a coroutine or a protected call of their own
---@field height integer how many levels of agents there are from this one down
---@field nesting integer how many of them run others, agents as tools included
---@field callbacks table<string, function[]>
---@field package body moonpad.AgentBody
---@field toolsByName table<string, moonpad.Tool>? its own, without those of toolsets
local Agent = { __name = "moonpad.agent" }
Agent.__index = Agent

-- Authors that are no agents: an agent of that name would be mistaken for them.
local TAKEN = {
  user = "who sends the messages",
  model = "who says what plugins answer before and after a run",
}

local function checkName(name, where)
  if not fields.text.is(name) then
    fields.refuse(where, ("expected %s, got %s"):format(fields.text.what, fields.describe(name)))
  end
  if TAKEN[name] then fields.refuse(where, ('"%s" is %s; take another name'):format(name, TAKEN[name])) end
  if not utf8.len(name) or name:find "%c" then
    fields.refuse(where, "must be valid UTF-8 without control characters")
  end
end

-- They are not taken in yet: a definition that is refused must not keep them.
local function childList(children, where)
  return trees.childList(children, where, agents.isAgent)
end

---What agents of all kinds take.
agents.FIELDS = fields.new({
  { "name", checkName, required = true },
  { "description", "string", isText = true },
  { "subAgents", childList },
}):with(callbacks.OF_AGENT):describes "moonpad.WorkflowDefinition"

---Makes an agent of any kind. Callers put it in brackets, (agents.build(...)), to return it: a
---tail call would hide the line of the definition from errors.
---@param kind string the name of the function in `moonpad` that makes it
---@param definition table
---@param known moonpad.Fields that this kind takes
---@param body moonpad.AgentBody what it does between its callbacks
---@param complete (fun(agent: moonpad.Agent, where: string))? checks and adds what only this kind has
---@return moonpad.Agent agent
function agents.build(kind, definition, known, body, complete)
  known:checkNames(definition, kind)
  local where = ('agent "%s"'):format(known:readOne(definition, "name", kind))
  local agent = setmetatable(known:read(definition, where), Agent)
  agent.kind, agent.body = kind, body
  agent.subAgents, agent.callbacks = agent.subAgents or {}, {}
  for _, hook in ipairs(callbacks.NAMES_OF_AGENT) do
    agent.callbacks[hook], agent[hook] = agent[hook] or {}, definition[hook]
  end
  if complete then complete(agent, where) end
  -- Last of all: a definition that is refused must not keep the sub-agents.
  trees.adopt(agent, where)
  return agent
end

---@param value any
---@return boolean
function agents.isAgent(value)
  return getmetatable(value) == Agent
end

-- Runs the callbacks before or after an agent. What they changed, and the answer of one of them,
-- goes out as one event. Returns whether they answered, and whom they hand the conversation over
-- to.
local function runCallbacks(invocationContext, agent, hook)
  local callbackState = contexts.begin(invocationContext, agent)
  local answer = callbacks.ask(callbackState, hook)
  if answer ~= nil then answer = content.normalize(answer, "model", hook) end
  local target = publish.changes(callbackState, answer).transfer
  contexts.finish(callbackState, "its callback is over")
  return answer ~= nil, target
end

---Transfers the conversation to another agent of the tree, which goes on.
---@param invocationContext moonpad.InvocationContext
---@param name string
function agents.transferTo(invocationContext, name)
  if invocationContext:hasEnded() then return end
  invocationContext:countTransfer()
  local root = invocationContext.rootAgent
  local target = trees.find(root, name)
  -- An event written by hand may name anybody.
  if not target then
    core.error("invalid_argument", ('transferToAgent: "%s" is not an agent of this tree; there are %s'):format(
      name, table.concat(trees.names(root), ", ")))
  end
  agents.run(invocationContext, target)
end

local function runAgent(invocationContext, agent)
  local hasAnswered, target = runCallbacks(invocationContext, agent, "beforeAgentCallback")
  if target then return agents.transferTo(invocationContext, target) end
  if hasAnswered or invocationContext:hasEnded() then return end
  target = agent.body(invocationContext, agent)
  if target then agents.transferTo(invocationContext, target) end
  if invocationContext:hasEnded() then return end
  local _
  _, target = runCallbacks(invocationContext, agent, "afterAgentCallback")
  if target then agents.transferTo(invocationContext, target) end
end

local function runTraced(invocationContext, agent)
  local span <close>, within = instrument.beginAgent(invocationContext, agent)
  runAgent(within, agent)
  if span then span:done() end
end

---Runs an agent of any kind within an invocation, and those that it hands the conversation over to.
---Nothing of it begins in an invocation that has been ended.
---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
function agents.run(invocationContext, agent)
  invocationContext:raiseIfEnding()
  if invocationContext:hasEnded() then return end
  local run = invocationContext.tracers and runTraced or runAgent
  return run(invocationContext, agent)
end

return agents
