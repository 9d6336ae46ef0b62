--- The tools that an agent's model is offered in a run: its own, and the one to hand the
--- conversation over.
local transfer = require "moonpad.tools.transfer_to_agent"
local trees = require "moonpad.agents.tree"

local toolset = {}

---@class moonpad.Toolset
---@field list moonpad.Tool[]
---@field byName table<string, moonpad.Tool>

---@param invocation moonpad.Run
---@param agent moonpad.Agent
---@return moonpad.Toolset
function toolset.of(invocation, agent)
  local made = invocation.toolsets[agent]
  if made then return made end
  made = { list = agent.tools, byName = agent.toolsByName }
  local targets = trees.targets(agent, invocation.runner.agent)
  if #targets > 0 and not agent.toolsByName[transfer.TOOL_NAME] then
    local tool = transfer.tool(targets)
    made.list = table.move(agent.tools, 1, #agent.tools, 1, {})
    made.byName = { [tool.name] = tool }
    for name, own in pairs(agent.toolsByName) do made.byName[name] = own end
    made.list[#made.list + 1] = tool
  end
  invocation.toolsets[agent] = made
  return made
end

return toolset
