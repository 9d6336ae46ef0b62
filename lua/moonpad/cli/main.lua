--- The moonpad command: reads its arguments, does what they say, and tells what went wrong in
--- one line.
local cli = require "moonpad.cli_core"
local failure = require "moonpad.cli.failure"
local luaError = require "moonpad.util.lua_error"
local options = require "moonpad.cli.options"
local screen = require "moonpad.cli.screen"

local main = {}

local FAILED <const>, USAGE_ERROR <const> = 1, 2
-- What shells say of a program that SIGINT has ended.
local INTERRUPTED <const> = 130

local function lazily(module, name)
  return function(values, parser)
    local loaded = require("moonpad.cli." .. module)
    return (name and loaded[name] or loaded)(values, parser)
  end
end

local function completion(values, parser)
  io.stdout:write(parser[("get_%s_complete"):format(values.shell)](parser))
end

local commands = {
  run = lazily("run", "run"), serve = lazily "serve", new = lazily("new", "run"), eval = lazily "eval",
  models = lazily "models",
  apps = lazily("inspect", "apps"), sessions = lazily("inspect", "sessions"), events = lazily("inspect", "events"),
  state = lazily("inspect", "state"), sweep = lazily("sessions", "sweep"), forget = lazily("sessions", "forget"),
  migrate = lazily "migrate", copy = lazily "copy",
  completion = completion,
}

local function commandOf(values)
  if values.command == "sessions" and values.action then return lazily("sessions", values.action) end
  return commands[values.command]
end

local function traced(err)
  return { isTraced = true, err = err, traceback = debug.traceback(failure.line(err), 2) }
end

local function execute(values, parser)
  local outcome = commandOf(values)(values, parser)
  if cli.hasLostOutput() then failure.raise "standard output could not be written" end
  return outcome
end

local EXIT_CODES = { cancelled = INTERRUPTED, failed = FAILED }

---The arguments of the command as Lua has them: on Windows not in UTF-8, as all else is here.
---@param arg string[]
---@return string[]
function main.arguments(arg)
  return cli.arguments(arg)
end

---@param arguments string[]
---@return integer exit code
function main.run(arguments)
  local isReady, parser = pcall(options.parser)
  if not isReady then
    io.stderr:write(failure.line(parser), "\n")
    return FAILED
  end
  local parsed, values = parser:pparse(arguments)
  if not parsed then
    io.stderr:write(("moonpad: %s (see `moonpad --help`)\n"):format(values))
    return USAGE_ERROR
  end
  local ok, result = xpcall(execute, traced, values, parser)
  io.stdout:flush()
  if ok then return EXIT_CODES[result] or 0 end
  -- Where memory ends, Lua does not ask `traced`.
  if type(result) ~= "table" or not result.isTraced then result = { err = luaError.object(result) } end
  local line = failure.line(result.err)
  local traceback = values.traceback or result.traceback
  if values.debug and traceback then line = line .. "\n" .. traceback end
  io.stderr:write(screen.text(line, screen.isErr), "\n")
  return failure.isUsage(result.err) and USAGE_ERROR or FAILED
end

return main
