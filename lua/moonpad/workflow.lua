--- Workflow agents: no model of their own, they run other agents.
local agents = require "moonpad.agent"
local core = require "moonpad.core"
local signals = require "moonpad.signals"

local workflow = {}

---@class moonpad.WorkflowDefinition
---@field name string
---@field description string?
---@field subAgents moonpad.Agent[]
---@field beforeAgentCallback moonpad.Callback?
---@field afterAgentCallback moonpad.Callback?

local FIELDS = { "name", "description", "subAgents", "beforeAgentCallback", "afterAgentCallback" }

local function refuse(where, message)
  core.error("invalid_argument", where .. ": " .. message)
end

local function checkChildren(agent, where)
  if agent.subAgents ~= nil and type(agent.subAgents) ~= "table" then
    refuse(where .. ".subAgents", "expected a list of agents, got " .. type(agent.subAgents))
  end
  for index, child in ipairs(agent.subAgents or {}) do
    local place = ("%s.subAgents[%d]"):format(where, index)
    if not agents.isAgent(child) then refuse(place, "expected an agent, got " .. type(child)) end
    if child.parent then
      refuse(place, ('"%s" belongs to "%s" already; an agent has one parent'):format(child.name, child.parent.name))
    end
  end
end

-- Names are how events, branches and transfers tell agents apart.
local function checkNames(agent, where, seen)
  if seen[agent.name] then refuse(where .. ".subAgents", ('two agents are called "%s"'):format(agent.name)) end
  seen[agent.name] = true
  for _, child in ipairs(agent.subAgents or {}) do checkNames(child, where, seen) end
end

local function build(definition, body)
  local agent, where = agents.build(definition, FIELDS, body)
  checkChildren(agent, where)
  checkNames(agent, where, {})
  agent.subAgents = table.move(agent.subAgents or {}, 1, #(agent.subAgents or {}), 1, {})
  for _, child in ipairs(agent.subAgents) do child.parent = agent end
  return agent
end

local function runInSequence(invocation, agent)
  for _, child in ipairs(agent.subAgents) do
    signals.raiseIfEnding(invocation)
    agents.run(invocation, child)
  end
end

---Makes an agent that runs its sub-agents one after the other.
---@param definition moonpad.WorkflowDefinition
---@return moonpad.Agent
function workflow.sequential(definition)
  return build(definition, runInSequence)
end

return workflow
