--- Toolsets: objects among the tools of an agent that are asked anew which tools they have.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local lists = require "moonpad.util.list"
local methodOf = require "moonpad.util.method_of"
local tools = require "moonpad.tools.tool"
local trees = require "moonpad.agents.tree"

local toolsets = {}

---@class moonpad.Toolset
---@field tools fun(self, context: moonpad.Context): moonpad.ToolDefinition[]|nil, any tools, or nil and what went wrong
---@field close fun(self)?

---@param value any
---@return boolean
function toolsets.isToolset(value)
  return not tools.isTool(value) and methodOf(value, "tools") ~= nil
end

---Asks a toolset for its tools; it may wait.
---@param toolset moonpad.Toolset
---@param context moonpad.Context read-only
---@param where string for messages
---@return moonpad.Tool[]
function toolsets.ask(toolset, context, where)
  where = where .. ":tools()"
  local answer, reason = toolset:tools(context)
  if answer == nil then
    if core.isError(reason) then error(reason, 0) end
    if reason ~= nil then core.error("tool", ("%s: %s"):format(where, errorText.of(reason))) end
    core.error("invalid_argument", where .. ": expected a list of tools, got nothing")
  end
  local list = lists.of(answer, where, "tools")
  for index, value in ipairs(list) do list[index] = tools.of(value, ("%s[%d]"):format(where, index)) end
  return list
end

---The toolsets of a tree of agents, those of agents that are tools in it included, each once.
---@param root moonpad.Agent
---@return moonpad.Toolset[]
function toolsets.of(root)
  local list, seen = {}, {}
  for _, agent in ipairs(trees.all(root)) do
    for _, entry in ipairs(agent.tools or {}) do
      if not tools.isTool(entry) and not seen[entry] then list[#list + 1], seen[entry] = entry, true end
    end
  end
  return list
end

return toolsets
