--- Toolsets: objects among the tools of an agent that are asked anew which tools they have.
local core = require "moonpad.core"
local lists = require "moonpad.util.list"
local methodOf = require "moonpad.util.method_of"
local tools = require "moonpad.tools.tool"

local toolsets = {}

---@class moonpad.Toolset
---@field tools fun(self, context: moonpad.Context): (moonpad.Tool|moonpad.ToolDefinition)[]
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
  local answer = toolset:tools(context)
  if answer == nil then core.error("invalid_argument", where .. ": expected a list of tools, got nothing") end
  local list = lists.of(answer, where, "tools")
  for index, value in ipairs(list) do list[index] = tools.of(value, ("%s[%d]"):format(where, index)) end
  return list
end

-- Toolsets and agents that have been seen are keys of `found`.
local function collect(agent, found)
  if found[agent] then return end
  found[agent] = true
  for _, entry in ipairs(agent.tools or {}) do
    if tools.isTool(entry) then
      if entry.agent then collect(entry.agent, found) end
    elseif not found[entry] then
      found[entry] = true
      found[#found + 1] = entry
    end
  end
  for _, child in ipairs(agent.subAgents) do collect(child, found) end
end

---The toolsets of a tree of agents, those of agents that are tools in it included, each once.
---@param root moonpad.Agent
---@return moonpad.Toolset[]
function toolsets.of(root)
  local found = {}
  collect(root, found)
  return table.move(found, 1, #found, 1, {})
end

return toolsets
