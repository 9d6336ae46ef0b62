--- The moonpad command: reads its arguments, does what they say, and tells what went wrong in
--- one line.
local cli = require "moonpad.cli_core"
local failure = require "moonpad.cli.failure"
local luaError = require "moonpad.util.lua_error"
local options = require "moonpad.cli.options"

local main = {}

local USAGE_ERROR = 2
-- What shells say of a program that SIGINT has ended.
local INTERRUPTED = 130

local commands = {
  run = function(values) return require("moonpad.cli.run").run(values) end,
  new = function(values) require("moonpad.cli.new").run(values) end,
  sessions = function(values) require("moonpad.cli.inspect").sessions(values) end,
  events = function(values) require("moonpad.cli.inspect").events(values) end,
  state = function(values) require("moonpad.cli.inspect").state(values) end,
}

local function traced(err)
  return { isTraced = true, err = err, traceback = debug.traceback(failure.line(err), 2) }
end

local function execute(values)
  local outcome = commands[values.command](values)
  if cli.hasLostOutput() then failure.raise "standard output could not be written" end
  return outcome
end

---@param arguments string[]
---@return integer exit code
function main.run(arguments)
  local isReady, parser = pcall(options.parser)
  if not isReady then
    io.stderr:write(failure.line(parser), "\n")
    return 1
  end
  local parsed, values = parser:pparse(arguments)
  if not parsed then
    io.stderr:write(("moonpad: %s (see `moonpad --help`)\n"):format(values))
    return USAGE_ERROR
  end
  local ok, result = xpcall(execute, traced, values)
  io.stdout:flush()
  if ok then return result == "cancelled" and INTERRUPTED or 0 end
  -- Where memory ends, Lua does not ask `traced`.
  if type(result) ~= "table" or not result.isTraced then result = { err = luaError.object(result) } end
  local line = failure.line(result.err)
  local traceback = values.traceback or result.traceback
  if values.debug and traceback then line = line .. "\n" .. traceback end
  io.stderr:write(line, "\n")
  return 1
end

return main
