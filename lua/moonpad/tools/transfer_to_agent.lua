--- Handing the conversation over: the tool that a model gets for it, and what it is told about
--- the others.
local tools = require "moonpad.tools.tool"
local trees = require "moonpad.agents.tree"

local transfer = {}

transfer.TOOL_NAME = "transfer_to_agent"

local DESCRIPTION = "Hands the conversation over to another agent. Use it when, by its description, another agent is "
  .. "better suited to answer. The other agent goes on with the same conversation."

---The tool `transfer_to_agent`.
---@param targets moonpad.Agent[]
---@return moonpad.Tool
function transfer.tool(targets)
  local names = {}
  for index, target in ipairs(targets) do names[index] = target.name end
  return tools.define {
    name = transfer.TOOL_NAME,
    description = DESCRIPTION,
    parameters = {
      type = "object",
      properties = { agent_name = { type = "string", description = "The name of the agent.", enum = names } },
      required = { "agent_name" },
    },
    run = function(args, context)
      context:transferToAgent(args.agent_name)
      return { result = "ok" }
    end,
  }
end

---What a model is told about the agents that it may hand the conversation over to; nil when there
---is none.
---@param agent moonpad.Agent
---@param root moonpad.Agent
---@return string?
function transfer.instruction(agent, root)
  local targets, parent = trees.targets(agent, root)
  if #targets == 0 or agent.toolsByName[transfer.TOOL_NAME] then return nil end
  local lines = { "You can hand the conversation over to these agents:" }
  for _, target in ipairs(targets) do
    lines[#lines + 1] = ("- %s: %s"):format(target.name, target.description or "(no description)")
  end
  lines[#lines + 1] = ("If you are the best to answer, by your own description, answer. If another agent is better "
    .. "suited, call %s with its name, and write no text besides the call."):format(transfer.TOOL_NAME)
  if parent then
    lines[#lines + 1] = ("If neither you nor another agent is suited, hand the conversation back to %s.")
      :format(parent.name)
  end
  return table.concat(lines, "\n")
end

return transfer
