--- Toolsets of MCP servers for specs, closed after the test.
local moonpad = require "moonpad"
local support = require "spec.support"

local servers = {}

local opened = {}

---@param options table of moonpad.mcp
function servers.open(options)
  options.timeoutMs = options.timeoutMs or support.TIMEOUT_MS
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

---The error of a tool that is called with too little time. A machine that is busy may not get as
---far as to what is awaited in so short a time: then more is given.
---@param open fun(timeoutMs: integer): table a toolset
---@param tool string
---@param awaited string is in the message once there was time for it
---@param args table? of the call
---@return string message without how long the time was
---@return string code
---@return table set
function servers.late(open, tool, awaited, args)
  local timeoutMs = 300
  while true do
    local set = open(timeoutMs)
    local err = servers.failure(servers.call, set, tool, args)
    if err.message:find(awaited, 1, true) or timeoutMs > support.TIMEOUT_MS then
      return (err.message:gsub("within [%d.]+ seconds?", "within its time", 1)), err.code, set
    end
    timeoutMs = timeoutMs * 4
  end
end

return servers
