--- Child processes that specs start by moonpad.process_core, and how they are heard.
local core = require "moonpad.core"
local files = require "spec.support.files"
local paths = require "moonpad.util.paths"
local processCore = require "moonpad.process_core"
local support = require "spec.support"

local children = {}

---The variables that a child in Lua needs, on every system.
---@param more string? one more: "NAME=value"
---@return string[]
function children.environment(more)
  local list = { "LUA_PATH=" .. package.path, "LUA_CPATH=" .. package.cpath, more }
  -- The last two where moonpad was built with sanitizers.
  for _, name in ipairs { "PATH", "SYSTEMROOT", "WINEPREFIX", "WINEDEBUG", "LD_PRELOAD", "ASAN_OPTIONS" } do
    local value = core.environment(name)
    if value then list[#list + 1] = ("%s=%s"):format(name, value) end
  end
  return list
end

---The options of a child that runs a program in Lua. It is in a file, because it is told what it is
---by its own arguments.
---@param code string
---@param arguments string[]?
---@return table options of processCore.start
function children.inLua(code, arguments)
  local script = support.tmpdir() .. "/child.lua"
  files.write(script, code)
  return { command = { "lua5.4", script, table.unpack(arguments or {}) }, environment = children.environment() }
end

---Waits for the next news.
function children.await(process)
  local readable, writable = {}, {}
  process:descriptors(readable, writable)
  assert(processCore.poll(readable, writable, support.TIMEOUT_SECONDS), "nothing is heard of a child")
end

---What it has written, with the ends of lines that all systems have.
function children.plain(text)
  return paths.isWindows and (text:gsub("\r\n", "\n")) or text
end

---All that it writes until it closes the stream.
---@param stream string? "output" or "error"
---@return string
function children.readAll(process, stream)
  local pieces = {}
  while true do
    local piece, isAtEnd = process:read(stream or "output")
    if isAtEnd then return children.plain(table.concat(pieces)) end
    pieces[#pieces + 1] = piece
    if not piece then children.await(process) end
    process:flush()
  end
end

return children
