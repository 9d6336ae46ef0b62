--- Toolsets of MCP servers for specs, closed after the test.
local moonpad = require "moonpad"

local servers = {}

local opened = {}

---@param options table of moonpad.mcp
function servers.open(options)
  local set = moonpad.mcp(options)
  opened[#opened + 1] = set
  return set
end

---The toolset of spec/helpers/mcp_server.lua.
---@param words string[]? how it behaves
---@param more table? further options
function servers.script(words, more)
  local options = { command = { "lua5.4", "spec/helpers/mcp_server.lua", table.unpack(words or {}) } }
  for name, value in pairs(more or {}) do options[name] = value end
  return servers.open(options)
end

function servers.closeAll()
  for index = #opened, 1, -1 do
    opened[index]:close()
    opened[index] = nil
  end
end

---Its tools by the names that are shown.
function servers.toolsOf(set)
  local byName = {}
  for _, tool in ipairs(set:tools()) do byName[tool.name] = tool end
  return byName
end

---Calls a tool.
---@return any result
---@return any parts
function servers.call(set, name, args)
  local tool = servers.toolsOf(set)[name]
  return assert(tool, "no tool " .. name).run(args or {})
end

---The error that a function raises.
function servers.failure(...)
  local ok, err = pcall(...)
  assert(not ok, "it did not fail")
  return err
end

return servers
