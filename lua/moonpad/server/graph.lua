--- The agents of an app as a graph: as JSON, and in the DOT language.
local core = require "moonpad.core"
local tools = require "moonpad.tools.tool"

local graph = {}

---- As JSON

local function toolsOf(agent)
  local list = core.array {}
  for _, entry in ipairs(agent.tools or {}) do
    list[#list + 1] = tools.isTool(entry) and { name = entry.name, type = "tool", description = entry.description }
      or { name = "tools of a server", type = "toolset" }
  end
  return list
end

-- ADK's words for the kinds of agents.
local KINDS = {
  sequentialAgent = "sequential", parallelAgent = "parallel", loopAgent = "loop", customAgent = "custom",
}

---@param agent moonpad.Agent
---@return table
function graph.describe(agent)
  local children = core.array {}
  for index, child in ipairs(agent.subAgents) do children[index] = graph.describe(child) end
  return {
    name = agent.name, type = KINDS[agent.kind] or "agent", description = agent.description or "",
    tools = toolsOf(agent), sub_agents = children,
  }
end

---- In DOT

local LIGHT = { back = "#ffffff", line = "#5f6368", text = "#202124", agent = "#e8f0fe", lit = "#69cb87" }
local DARK = { back = "#1e1e1e", line = "#bdc1c6", text = "#e8eaed", agent = "#28344a", lit = "#0f5223" }

-- A text of DOT: quoted, and no escape of its own.
local function quoted(text)
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", " ") .. '"'
end

local function node(colors, id, label, shape, isLit)
  return ("%s [label=%s, shape=%s, style=%s, fillcolor=%s, color=%s, fontcolor=%s];"):format(quoted(id), quoted(label),
    shape, quoted "filled,rounded", quoted(isLit and colors.lit or colors.agent), quoted(colors.line),
    quoted(colors.text))
end

local addAgent

local function addTools(lines, agent, colors, lit)
  for _, tool in ipairs(toolsOf(agent)) do
    local id = ("tool %s of %s"):format(tool.name, agent.name)
    lines[#lines + 1] = node(colors, id, "🔧 " .. tool.name, "box", lit["tool " .. tool.name])
    lines[#lines + 1] = ("%s -> %s [color=%s, arrowhead=none];"):format(quoted(agent.name), quoted(id),
      quoted(colors.line))
  end
end

-- The agents that one runs stand in a box of their own.
local function addChildren(lines, agent, colors, lit)
  if #agent.subAgents == 0 then return end
  lines[#lines + 1] = ("subgraph %s { label=%s; color=%s; fontcolor=%s;"):format(quoted("cluster_" .. agent.name),
    quoted(KINDS[agent.kind] and agent.name .. " (" .. KINDS[agent.kind] .. ")" or "agents of " .. agent.name),
    quoted(colors.line), quoted(colors.text))
  for _, child in ipairs(agent.subAgents) do addAgent(lines, child, colors, lit) end
  lines[#lines + 1] = "}"
  local previous = agent
  for _, child in ipairs(agent.subAgents) do
    lines[#lines + 1] = ("%s -> %s [color=%s];"):format(quoted(previous.name), quoted(child.name), quoted(colors.line))
    if agent.kind == "sequentialAgent" or agent.kind == "loopAgent" then previous = child end
  end
end

function addAgent(lines, agent, colors, lit)
  lines[#lines + 1] = node(colors, agent.name, "🤖 " .. agent.name, "ellipse", lit["agent " .. agent.name])
  addTools(lines, agent, colors, lit)
  addChildren(lines, agent, colors, lit)
end

---@param agent moonpad.Agent
---@param isDark boolean?
---@param lit table<string, boolean>? "agent NAME", "tool NAME": those of an event
---@return string dot
function graph.dot(agent, isDark, lit)
  local colors = isDark and DARK or LIGHT
  local lines = {
    "digraph G {", ("bgcolor=%s; rankdir=LR; fontname=%s;"):format(quoted(colors.back), quoted "sans-serif"),
  }
  addAgent(lines, agent, colors, lit or {})
  lines[#lines + 1] = "}"
  return table.concat(lines, "\n")
end

return graph
