--- The command line of `moonpad`.
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local options = {}

local DB = "The SQLite file (default: $XDG_DATA_HOME/moonpad/APP.db, or ~/.local/share/moonpad/APP.db)."

local function option(command, name, description)
  return command:option(name, description):convert(function(value)
    if value == "" then return nil, name .. " must not be empty" end
    return value
  end)
end

local function describeRun(parser)
  local command = parser:command("run", "Runs an agent on a message, or on the lines of standard input.")
  command:argument("agent", "A Lua file that returns an agent."):argname "AGENT.lua"
  command:argument("message", "What the user says; - reads it from standard input. Without it, each line of "
    .. "standard input is a message."):args "*":argname "MESSAGE"
  option(command, "--file", "A file whose text is the message, behind that on the command line; - is standard input.")
    :argname "FILE"
  option(command, "--db", DB):argname "FILE"
  option(command, "--app", "The name of the application (default: that of the agent)."):argname "NAME"
  option(command, "--user", 'The user (default: $USER, or "user").'):argname "ID"
  option(command, "--session", "The session."):argname "ID":default "default"
  option(command, "--model", "The name of a model, in place of those of all agents."):argname "NAME"
  command:flag("--json", "Prints each stored event as a line of JSON instead of the replies.")
  command:flag("--events", "The same, with the partial events of answers that are streamed.")
  command:flag("--verbose", "Shows who speaks and which tools run also where the output is no terminal.")
end

local function describeInspection(parser, name, summary)
  local command = parser:command(name, summary)
  option(command, "--db", DB):argname "FILE"
  option(command, "--app", "The name of the application."):argname "NAME":count(1)
  if name == "sessions" then
    option(command, "--user", "Only the sessions of this user."):argname "ID"
  else
    option(command, "--user", 'The user (default: $USER, or "user").'):argname "ID"
    option(command, "--session", "The session."):argname "ID":default "default"
  end
end

local function describeNew(parser)
  local command = parser:command("new", "Writes a starter agent with a spec that passes.")
  command:argument("name", "The name of the agent and of its folder: an identifier."):argname "NAME"
end

-- Nothing but the command needs it, so moonpad itself is installed without it.
local function loadArgparse()
  local ok, module = pcall(require, "argparse")
  if ok then return module end
  if not tostring(module):find("module 'argparse' not found", 1, true) then error(module, 0) end
  return failure.raise("the command needs the Lua module argparse, which is not installed: "
    .. "luarocks install argparse (on Debian: apt install lua-argparse)")
end

---@return table parser of argparse
function options.parser()
  local argparse = loadArgparse()
  local parser = argparse("moonpad", "Runs moonpad agents, and shows what they have stored.")
  parser:command_target "command"
  parser:require_command(true)
  parser:flag("--debug", "Shows tracebacks of errors, those of tools as well.")
  parser:flag("--version", "Prints the version."):action(function()
    print("moonpad " .. moonpad._VERSION:gsub("^moonpad ", ""))
    os.exit(0, true)
  end)
  describeRun(parser)
  describeNew(parser)
  describeInspection(parser, "sessions", "Lists the sessions of an application.")
  describeInspection(parser, "events", "Prints the events of a session, a line of JSON each.")
  describeInspection(parser, "state", "Prints the state of a session as it is seen in it, a `key = JSON` line each.")
  return parser
end

return options
