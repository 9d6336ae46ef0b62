--- The tools that an agent's model is offered in a run: its own, and the one to hand the
--- conversation over.
local transfer = require "moonpad.tools.transfer_to_agent"
local trees = require "moonpad.agents.tree"

local offeredTools = {}

---@class moonpad.OfferedTools
---@field list moonpad.Tool[]
---@field byName table<string, moonpad.Tool>

---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
---@return moonpad.OfferedTools
function offeredTools.of(invocationContext, agent)
  local made = invocationContext.shared.offeredTools[agent]
  if made then return made end
  made = { list = agent.tools, byName = agent.toolsByName }
  local targets = trees.targets(agent, invocationContext.runner.agent)
  if #targets > 0 and not agent.toolsByName[transfer.TOOL_NAME] then
    local tool = transfer.tool(targets)
    made.list = table.move(agent.tools, 1, #agent.tools, 1, {})
    made.byName = { [tool.name] = tool }
    for name, own in pairs(agent.toolsByName) do made.byName[name] = own end
    made.list[#made.list + 1] = tool
  end
  invocationContext.shared.offeredTools[agent] = made
  return made
end

return offeredTools
