--- Workflow agents: no model of their own, they run other agents. In sequence, in a loop, side
--- by side.
local agents = require "moonpad.agents.agent"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local groups = require "moonpad.runtime.concurrent"
local sections = require "moonpad.runtime.section"
local signals = require "moonpad.runtime.coroutines"

local workflow = {}

---@class moonpad.WorkflowDefinition
---@field name string
---@field description string?
---@field subAgents moonpad.Agent[]
---@field beforeAgentCallback moonpad.Callback?
---@field afterAgentCallback moonpad.Callback?

---@class moonpad.LoopDefinition: moonpad.WorkflowDefinition
---@field maxIterations integer? 0 or nothing: until a sub-agent escalates

local FIELDS = { "name", "description", "subAgents", "beforeAgentCallback", "afterAgentCallback" }
local LOOP_FIELDS = table.move(FIELDS, 1, #FIELDS, 2, { "maxIterations" })

local function runInSequence(invocation, agent)
  for _, child in ipairs(agent.subAgents) do agents.run(invocation, child) end
end

---Makes an agent that runs its sub-agents one after the other.
---@param definition moonpad.WorkflowDefinition
---@return moonpad.Agent
function workflow.sequential(definition)
  return (agents.build("sequentialAgent", definition, FIELDS, runInSequence))
end

-- The agent that escalates finishes; those behind it in the round do not begin.
local function runRound(invocation, agent, loop)
  local section = sections.open(invocation, { loop = loop })
  for _, child in ipairs(agent.subAgents) do
    agents.run(section, child)
    if loop.escalated then return end
  end
end

local function runLoop(invocation, agent)
  if #agent.subAgents == 0 then return end
  local limit, round = agent.maxIterations or 0, 0
  repeat
    local loop = { outer = invocation.loop }
    runRound(invocation, agent, loop)
    -- A round in which nothing happened may be waiting for the world to change: others must get a
    -- chance to do it.
    if not loop.hasPublished then signals.pause() end
    round = round + 1
  until loop.escalated or round == limit
end

local function checkLoop(agent, where)
  local limit = agent.maxIterations
  if limit ~= nil and (math.type(limit) ~= "integer" or limit < 0) then
    core.error("invalid_argument", where .. ".maxIterations: expected an integer from 0, got " .. errorText.show(limit))
  end
end

---Makes an agent that runs its sub-agents again and again, until one escalates or the rounds are
---used up.
---@param definition moonpad.LoopDefinition
---@return moonpad.Agent
function workflow.loop(definition)
  return (agents.build("loopAgent", definition, LOOP_FIELDS, runLoop, checkLoop))
end

-- A point separates the names in a branch.
local function step(name)
  return (name:gsub("[%%.]", { ["%"] = "%25", ["."] = "%2E" }))
end

local function branchOf(invocation, agent, child)
  local branch = step(agent.name) .. "." .. step(child.name)
  return invocation.branch and invocation.branch .. "." .. branch or branch
end

local function runInParallel(invocation, agent)
  local group, bodies = sections.open(invocation), {}
  for index, child in ipairs(agent.subAgents) do
    local section = sections.open(group, { branch = branchOf(invocation, agent, child) })
    bodies[index] = function() agents.run(section, child) end
  end
  groups.run(group, bodies)
end

local function markAsRunner(agent)
  agent.runsOthers = true
end

---Makes an agent that runs its sub-agents side by side, each on a branch of its own.
---@param definition moonpad.WorkflowDefinition
---@return moonpad.Agent
function workflow.parallel(definition)
  return (agents.build("parallelAgent", definition, FIELDS, runInParallel, markAsRunner))
end

return workflow
