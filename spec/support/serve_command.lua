--- `moonpad serve` as a process of its own.
local processCore = require "moonpad.process_core"
local support = require "spec.support"

local serveCommand = {}

local KEPT = { "PATH", "HOME", "LUA_PATH", "LUA_CPATH", "MOONPAD_BUILD", "LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS" }

---@class spec.ServeCommand
---@field process moonpad.Process
---@field url string
---@field line string the first line that it has printed

---Starts a server, and waits until it says where it serves.
---@param command string[]
---@param environment string[]? "NAME=value", beside what Lua needs
---@return spec.ServeCommand
function serveCommand.run(command, environment)
  environment = environment or {}
  for _, name in ipairs(KEPT) do
    local value = os.getenv(name)
    if value then environment[#environment + 1] = name .. "=" .. value end
  end
  local process = assert(processCore.start { command = command, environment = environment })
  local line = ""
  support.waitUntil("the server", function()
    line = line .. (process:read "output" or "")
    local ending = process:ending()
    assert(not ending, ("%s: %s"):format(ending, process:read "error" or ""))
    return line:find "\n"
  end)
  return { process = process, url = line:match "http://[%d.]+:%d+", line = line:match "^[^\n]*" }
end

---Starts `moonpad serve` on a free port.
---@param arguments string[] behind it
---@return spec.ServeCommand
function serveCommand.start(arguments)
  return serveCommand.run(table.move(arguments, 1, #arguments, 5, { "bin/moonpad", "serve", "--port", "0" }))
end

return serveCommand
