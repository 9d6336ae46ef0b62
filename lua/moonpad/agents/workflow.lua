--- Workflow agents: no model of their own, they run other agents. In sequence, in a loop, side
--- by side.
local agents = require "moonpad.agents.base"
local concurrent = require "moonpad.runtime.concurrent"
local coroutines = require "moonpad.runtime.coroutines"
local fields = require "moonpad.schema.fields"

local workflow = {}

---@class moonpad.WorkflowDefinition
---@field name string
---@field description string?
---@field subAgents moonpad.Agent[]? run in this order
---@field beforeAgentCallback? moonpad.BeforeAgentCallback|moonpad.BeforeAgentCallback[]
---@field afterAgentCallback? moonpad.AfterAgentCallback|moonpad.AfterAgentCallback[]

---@class moonpad.LoopDefinition: moonpad.WorkflowDefinition
---@field maxIterations integer? 0 or nothing: until a sub-agent escalates

local LOOP_FIELDS = agents.FIELDS:with { { "maxIterations", fields.integerFrom(0) } }:describes "moonpad.LoopDefinition"

local function runInSequence(invocationContext, agent)
  for _, child in ipairs(agent.subAgents) do agents.run(invocationContext, child) end
end

---Makes an agent that runs its sub-agents one after the other.
---@param definition moonpad.WorkflowDefinition
---@return moonpad.Agent
function workflow.sequential(definition)
  return (agents.build("sequentialAgent", definition, agents.FIELDS, runInSequence))
end

-- The agent that escalates finishes; those behind it in the round do not begin.
local function runRound(invocationContext, agent, loop)
  local round = invocationContext:child { loop = loop }
  for _, child in ipairs(agent.subAgents) do
    agents.run(round, child)
    if loop.hasEscalated then return end
  end
end

local function runLoop(invocationContext, agent)
  if #agent.subAgents == 0 then return end
  local limit, round = agent.maxIterations or 0, 0
  repeat
    local loop = { outer = invocationContext.loop }
    runRound(invocationContext, agent, loop)
    -- A round in which nothing happened may be waiting for the world to change: others must get a
    -- chance to do it.
    if not loop.hasPublished then coroutines.pause() end
    round = round + 1
  until loop.hasEscalated or round == limit or invocationContext:hasEnded()
end

---Makes an agent that runs its sub-agents again and again, until one escalates or the rounds are
---used up.
---@param definition moonpad.LoopDefinition
---@return moonpad.Agent
function workflow.loop(definition)
  return (agents.build("loopAgent", definition, LOOP_FIELDS, runLoop))
end

-- A point separates the names in a branch.
local function step(name)
  return (name:gsub("[%%.]", { ["%"] = "%25", ["."] = "%2E" }))
end

local function branchOf(invocationContext, agent, child)
  local branch = step(agent.name) .. "." .. step(child.name)
  return invocationContext.branch and invocationContext.branch .. "." .. branch or branch
end

local function runInParallel(invocationContext, agent)
  local group, bodies = invocationContext:child(), {}
  for index, child in ipairs(agent.subAgents) do
    local branch = group:child { branch = branchOf(invocationContext, agent, child) }
    bodies[index] = function() agents.run(branch, child) end
  end
  concurrent.run(group, bodies)
end

local function markAsRunner(agent)
  agent.runsOthers = true
end

---Makes an agent that runs its sub-agents side by side, each on a branch of its own.
---@param definition moonpad.WorkflowDefinition
---@return moonpad.Agent
function workflow.parallel(definition)
  return (agents.build("parallelAgent", definition, agents.FIELDS, runInParallel, markAsRunner))
end

return workflow
