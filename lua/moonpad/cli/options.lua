--- The command line of `moonpad`.
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local options = {}

local DB = "An SQLite file, or the URL of a store (default: $XDG_DATA_HOME/moonpad/APP.db, or "
  .. "~/.local/share/moonpad/APP.db)."
local USER = 'The user (default: $USER, or "user").'
local APP = "The name of the application; not needed where the file holds one alone."

-- An option with a value.
local function option(command, name, argument, description)
  return command:option(name, description):argname(argument):convert(function(value)
    if value == "" then return nil, name .. " must not be empty" end
    return value
  end)
end

local function integer(command, name, argument, description, least)
  return command:option(name, description):argname(argument):convert(function(value)
    local number = math.tointeger(tonumber(value))
    if not number or number < least then return nil, ("%s must be an integer from %d"):format(name, least) end
    return number
  end)
end

local function describeRun(parser)
  local command = parser:command("run", "Runs an agent on a message, or on the lines of standard input.")
  command:epilog [[
Examples:
  moonpad run helper/agent.lua "remember to buy milk"
  moonpad run helper/agent.lua                      a conversation
  moonpad run helper/agent.lua --file letter.txt    one long message
  moonpad run helper/agent.lua < questions.txt      each line is a message
  moonpad run helper/agent.lua --model gpt-4o-mini  its key is in OPENAI_API_KEY]]
  command:argument("agent", "A Lua file that returns an agent, what a runner takes, or a runner; or a folder with "
    .. "agent.lua."):argname "AGENT.lua"
  command:argument("message", "What the user says; - reads it from standard input. Without it, each line of standard "
    .. "input is a message."):args "*":argname "MESSAGE"
  option(command, "--file", "FILE", "The message, behind that on the command line; - is standard input.")
  option(command, "--db", "FILE", DB)
  option(command, "--app", "NAME", "The name of the application (default: that of the agent).")
  option(command, "--user", "ID", USER)
  option(command, "--session", "ID", "The session; another name begins another one."):default "default"
  option(command, "--model", "NAME", "The name of a model, in place of those of all agents.")
  command:flag("--json", "Prints each stored event as a line of JSON instead of the replies.")
  command:flag("--events", "The same, with the partial events of answers that are streamed.")
  command:flag("--verbose", "Shows who speaks and which tools run also where the output is no terminal.")
end

local function describeNew(parser)
  local command = parser:command("new", "Writes a starter agent with a spec that passes.")
  command:argument("name", "The name of the agent and of its folder: an identifier."):argname "NAME"
end

local function describeServe(parser)
  local command = parser:command("serve", "Serves agents over HTTP, with a page to talk to them (docs/serve.md).")
  command:epilog [[
Examples:
  moonpad serve helper/agent.lua             then open http://127.0.0.1:8000/
  moonpad serve agents --ui browser          a folder of agents, and ADK's web UI]]
  command:argument("agents", "Lua files as in moonpad run; folders with an agent.lua, or with folders that have one.")
    :argname "AGENT.lua":args "+"
  option(command, "--host", "ADDRESS", "Where to listen (default: 127.0.0.1).")
  integer(command, "--port", "PORT", "The port (default: 8000); 0 takes a free one.", 0)
  option(command, "--db", "FILE", DB)
  option(command, "--model", "NAME", "The name of a model, in place of those of all agents.")
  option(command, "--ui", "FOLDER", "The folder with the files of ADK's web UI.")
  option(command, "--host-name", "NAME", "A name of this server beside localhost; may be given again."):count "*"
  option(command, "--origin", "URL", "The origin of web pages elsewhere that may ask; may be given again."):count "*"
  command:flag("--public", "Listens beyond this machine although anybody may ask.")
  command:flag("--trace-content", "Traces show what was said beyond this machine, too.")
end

local function describeEval(parser)
  local command = parser:command("eval", "Plays conversations with an agent and checks what it does.")
  command:argument("agent", "As in moonpad run."):argname "AGENT.lua"
  command:argument("cases", "A Lua file that returns a list of cases (docs/testing.md)."):argname "CASES.lua"
  option(command, "--model", "NAME", "The name of a model, in place of those of all agents.")
  integer(command, "--runs", "N", "How often each case is played.", 1)
  command:flag("--json", "Prints a line of JSON for each case.")
end

---- What is stored

local function describeStore(command, isOneSession)
  option(command, "--db", "FILE", DB)
  option(command, "--app", "NAME", APP)
  if not isOneSession then return option(command, "--user", "ID", "Only the sessions of this user.") end
  option(command, "--user", "ID", USER)
  option(command, "--session", "ID", "The session."):default "default"
end

local function describeApps(parser)
  local command = parser:command("apps", "Lists the applications of a file, or of all files in the default folder.")
  option(command, "--db", "FILE", DB)
  command:flag("--json", "Prints a line of JSON for each.")
end

local function describeSessions(parser)
  local command = parser:command("sessions", "Lists the sessions of an application; or changes one.")
  command:command_target("action"):require_command(false)
  describeStore(command, false)
  command:flag("--json", "Prints a line of JSON for each.")
  describeStore(command:command("delete", "Deletes a session; the state of its user and app stays."), true)
  local export = command:command("export", "Writes a session as lines of text.")
  describeStore(export, true)
  option(export, "--output", "FILE", "Where to (default: standard output).")
  local import = command:command("import", "Makes a session of such lines, under other names if you like.")
  import:argument("input", "What export has written (default: standard input)."):argname "FILE":args "?"
  option(import, "--db", "FILE", DB)
  option(import, "--app", "NAME", "The application (default: as exported).")
  option(import, "--user", "ID", "The user (default: as exported).")
  option(import, "--session", "ID", "The session (default: as exported).")
  local fork = command:command("fork", "Makes a new session with the events of another one.")
  describeStore(fork, true)
  integer(fork, "--at", "REVISION", "Up to this event (default: all of them).", 0)
  option(fork, "--to", "ID", "The name of the new session (default: a new one).")
end

local function describeState(parser)
  local events = parser:command("events", "Prints the events of a session, a line of JSON each.")
  describeStore(events, true)
  events:flag("--json", "Changes nothing: they are JSON anyway.")
  local state = parser:command("state", "Prints the state as a session sees it, a `key = JSON` line each.")
  describeStore(state, true)
  state:flag("--json", "Prints it as one JSON object.")
end

local function describeStores(parser)
  local sweep = parser:command("sweep", "Frees what has expired in a store.")
  sweep:argument("url", "A file, or the URL of a store."):argname "URL"
  for _, of in ipairs {
    { "session", "Sessions" }, { "user", "The state of users" }, { "app", "The state of apps" }, { "event", "Turns" },
    { "artifact", "Files" }, { "memory", "Memories" },
  } do
    option(sweep, ("--%s-ttl"):format(of[1]), "TIME", of[2] .. " that old: seconds, or 90s, 15m, 12h, 30d.")
  end
  sweep:flag("--json", "Prints what was freed as JSON.")
  local forget = parser:command("forget", "Deletes a user: sessions, state, files and memories.")
  forget:argument("url", "A file, or the URL of a store."):argname "URL"
  -- Elsewhere the last one counts; whoever is to be forgotten must be clear.
  option(forget, "--app", "NAME", "The application."):count(1):overwrite(false)
  option(forget, "--user", "ID", "The user."):count(1):overwrite(false)
  forget:flag("--json", "Prints what was deleted as JSON.")
  local copy = parser:command("copy", "Copies all that is in a store to another one, and compares it.")
  copy:argument("from", "A file, or the URL of a store."):argname "FROM"
  copy:argument("to", "The same."):argname "TO"
  copy:flag("--json", "Prints how much it was as JSON.")
  local migrate = parser:command("migrate", "Makes what a store needs, or brings it up to date.")
  migrate:argument("url", "A file, or the URL of a store."):argname "URL"
  migrate:flag("--print", "Prints the SQL that makes a server's schema, and asks no server.")
end

local function describeModels(parser)
  local command = parser:command("models", "Lists the names of models that are known, and whether their keys are set.")
  command:flag("--json", "Prints a line of JSON for each.")
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
  parser:help_max_width(80)
  parser:flag("--debug", "Shows tracebacks of errors, those of tools as well.")
  parser:flag("--version", "Prints the version."):action(function()
    print("moonpad " .. moonpad._VERSION:gsub("^moonpad ", ""))
    os.exit(0, true)
  end)
  describeRun(parser)
  describeServe(parser)
  describeNew(parser)
  describeEval(parser)
  describeSessions(parser)
  describeState(parser)
  describeApps(parser)
  describeModels(parser)
  describeStores(parser)
  local completion = parser:command("completion", "Prints a script that completes the command in a shell.")
  completion:argument("shell", "bash, zsh or fish."):choices { "bash", "zsh", "fish" }
  return parser
end

return options
