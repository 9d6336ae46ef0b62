--- The tools that an agent's model is offered: its own, and the one to hand the conversation over.
--- They are asked for once per request, and the calls of its answer run with that list.
local transfer = require "moonpad.tools.transfer_to_agent"
local trees = require "moonpad.agents.tree"

local offeredTools = {}

---@class moonpad.OfferedTools
---@field list moonpad.Tool[]
---@field byName table<string, moonpad.Tool>
local OfferedTools = {}
OfferedTools.__index = OfferedTools

function OfferedTools:add(tool)
  self.list[#self.list + 1], self.byName[tool.name] = tool, tool
end

local function addTransfer(offered, agent, root)
  local targets = trees.targets(agent, root)
  -- A tool of the agent's own may do it in place of ours.
  if #targets > 0 and not agent.toolsByName[transfer.TOOL_NAME] then offered:add(transfer.tool(targets)) end
end

---Asks for the tools that the model of the callback state's agent is offered. Who answers calls
---later (a confirmation, a user's answer) asks anew.
---@param callbackState moonpad.CallbackState
---@return moonpad.OfferedTools
function offeredTools.ask(callbackState)
  local agent = callbackState.agent
  local offered = setmetatable({ list = {}, byName = {} }, OfferedTools)
  for _, tool in ipairs(agent.tools) do offered:add(tool) end
  addTransfer(offered, agent, callbackState.invocationContext.runner.agent)
  return offered
end

return offeredTools
