--- `moonpad run`: an agent on a message, or on the lines of standard input.
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local command = {}

local function loadAgent(path)
  local file = io.open(path, "rb")
  if not file then failure.raise("there is no agent file %s", path) end
  local source = file:read "a"
  file:close()
  if not source then failure.raise("%s: is not a file that can be read", path) end
  local chunk, problem = load((source:gsub("^#[^\n]*", "")), "@" .. path)
  if not chunk then failure.raise("%s", problem) end
  local agent = chunk(path)
  if not require("moonpad.agent").isAgent(agent) then
    failure.raise("%s: must return an agent (`return moonpad.agent{ ... }`), returned a %s", path, type(agent))
  end
  return agent
end

local function printEvent(event)
  print(moonpad.json.encode(event))
end

local function printReply(event)
  local text = not event.partial and event:text() or ""
  if text ~= "" then print(text) end
  if event.errorCode then failure.raise("%s: %s", event.errorCode, event.errorMessage or "no message") end
end

-- Runs one message to its end. The traceback of an error is kept for --debug.
local function answer(session, message)
  local invocation <close> = session.runner:start {
    userId = session.userId, sessionId = session.sessionId, newMessage = message,
  }
  local ok, err = pcall(function()
    for event in function() return invocation:wait() end do session.show(event) end
  end)
  if not ok then
    session.options.traceback = invocation.traceback
    error(err, 0)
  end
end

-- Shows a prompt where a human sits at the other end.
local function answerLines(session)
  local isTerminal = os.execute "test -t 0" == true
  local function read()
    if isTerminal then io.stdout:write("> "):flush() end
    return io.read "l"
  end
  for line in read do
    if line:find "%S" then answer(session, line) end
    io.stdout:flush()
  end
  if isTerminal then print() end
end

---@param options table of the command line
function command.run(options)
  local agent = loadAgent(options.agent)
  local app = options.app or agent.name
  local service <close> = database.open(options, app)
  local session = {
    runner = moonpad.runner { appName = app, agent = agent, sessionService = service },
    userId = database.user(options),
    sessionId = options.session,
    show = options.events and printEvent or printReply,
    options = options,
  }
  if #options.message > 0 then return answer(session, table.concat(options.message, " ")) end
  answerLines(session)
end

return command
