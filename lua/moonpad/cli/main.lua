--- The moonpad command: reads its arguments, does what they say, and tells what went wrong in one line.
local cli = require "moonpad.cli_core"
local failure = require "moonpad.cli.failure"
local options = require "moonpad.cli.options"

local main = {}

local USAGE_ERROR = 2

local commands = {
  run = function(values) require("moonpad.cli.run").run(values) end,
  new = function(values) require("moonpad.cli.new").run(values) end,
  sessions = function(values) require("moonpad.cli.inspect").sessions(values) end,
  events = function(values) require("moonpad.cli.inspect").events(values) end,
  state = function(values) require("moonpad.cli.inspect").state(values) end,
}

local function traced(err)
  return { err = err, traceback = debug.traceback(failure.line(err), 2) }
end

local function execute(values)
  commands[values.command](values)
  if cli.hasLostOutput() then failure.raise "standard output could not be written" end
end

---@param arguments string[]
---@return integer exit code
function main.run(arguments)
  local parser = options.parser()
  local parsed, values = parser:pparse(arguments)
  if not parsed then
    io.stderr:write(("moonpad: %s (see `moonpad --help`)\n"):format(values))
    return USAGE_ERROR
  end
  local ok, problem = xpcall(execute, traced, values)
  io.stdout:flush()
  if ok then return 0 end
  local line = failure.line(problem.err)
  if values.debug then line = ("%s\n%s"):format(line, values.traceback or problem.traceback) end
  io.stderr:write(line, "\n")
  return 1
end

return main
