--- `moonpad sessions delete`, `export`, `import`, `fork`; `moonpad sweep` and `forget`: commands
--- that change what is stored.
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local inspect = require "moonpad.cli.inspect"
local moonpad = require "moonpad"
local output = require "moonpad.cli.output"

local sessions = {}

local function told(what, app, user, id)
  print(('%s session "%s" of user "%s" in application "%s".'):format(what, output.name(id), output.name(user),
    output.name(app)))
end

---@param options table of the command line
function sessions.delete(options)
  local service <close>, app = database.openExisting(options)
  local user = database.user(options)
  if not service:deleteSession { appName = app, userId = user, sessionId = options.session } then
    failure.raise('there is no session "%s" of user "%s" in application "%s"', options.session, user, app)
  end
  told("Deleted", app, user, options.session)
end

-- Calls `action` with a file to write to: the one that is named, or standard output.
local function withOutput(path, action)
  if not path then return action(io.stdout) end
  local file <close>, reason = io.open(path, "wb")
  if not file then failure.raise("%s", reason) end
  action(file)
  local ok, problem = file:close()
  if not ok then failure.raise("%s: %s", path, problem) end
end

---@param options table of the command line
function sessions.export(options)
  local service <close>, app = database.openExisting(options)
  local session = inspect.session(service, app, options)
  withOutput(options.output, function(file)
    for line in service:export(session) do
      local ok, problem = file:write(line)
      if not ok then failure.raise("the export is not whole: %s", problem) end
    end
  end)
end

-- The lines of a file, or of standard input, each with its end.
local function linesOf(path)
  local file, reason = io.stdin, nil
  if path and path ~= "-" then file, reason = io.open(path, "rb") end
  if not file then failure.raise("%s", reason) end
  return function() return file:read "L" end
end

---@param options table of the command line
function sessions.import(options)
  if not options.db and not options.app then failure.usage "say --db FILE or --app NAME: where to" end
  local service <close> = moonpad.open(database.url(options, options.app or ""))
  local session = service:import {
    lines = linesOf(options.input), appName = options.app, userId = options.user, sessionId = options.session,
  }
  told("Imported", session.appName, session.userId, session.id)
end

---@param options table of the command line
function sessions.fork(options)
  local service <close>, app = database.openExisting(options)
  local session = inspect.session(service, app, options)
  local fork = service:fork(session, { at = options.at or session.revision, sessionId = options.to })
  told("Forked", app, fork.userId, fork.id)
end

---- Whole stores

local function count(number, what)
  return ("%d %s%s"):format(number, what, number == 1 and "" or "s")
end

local SECONDS <const> = { s = 1, m = 60, h = 3600, d = 24 * 3600 }

-- "90", "90s", "15m", "12h", "30d"
local function secondsOf(text, name)
  local number, unit = text:match "^(%d+%.?%d*)([smhd]?)$"
  local seconds = number and tonumber(number) * (SECONDS[unit] or 1)
  if not seconds or seconds == 0 then
    failure.usage("%s: expects a time such as 3600, 90s, 15m, 12h or 30d, got %s", name, text)
  end
  return seconds
end

local TIMES <const> = {
  { "session_ttl", "sessionTtlSeconds", "--session-ttl" }, { "user_ttl", "userTtlSeconds", "--user-ttl" },
  { "app_ttl", "appTtlSeconds", "--app-ttl" }, { "event_ttl", "eventTtlSeconds", "--event-ttl" },
}

---@param options table of the command line
function sessions.sweep(options)
  local config = {}
  for _, time in ipairs(TIMES) do
    local given = options[time[1]]
    config[time[2]] = given and secondsOf(given, time[3]) or nil
  end
  if next(config) == nil then
    failure.usage "say what is old: --session-ttl, --user-ttl, --app-ttl or --event-ttl, as in --session-ttl 30d"
  end
  local service <close> = moonpad.open(database.existingUrl(options.url), config)
  local swept = service:sweep()
  if options.json then return print(moonpad.json.encode(swept)) end
  print(("Freed %s, the state of %s and of %s, and %s."):format(count(swept.sessions, "session"),
    count(swept.users, "user"), count(swept.apps, "app"), count(swept.events, "event")))
end

-- A SQLite that cannot search text has no memories either.
local function forgetMemories(url, who)
  local ok, memory = pcall(moonpad.memoryService, url)
  if not ok and memory.code == "unsupported" then return 0 end
  if not ok then error(memory, 0) end
  local _ <close> = memory
  return memory:deleteUser(who)
end

---@param options table of the command line
function sessions.forget(options)
  local url = database.existingUrl(options.url)
  local who = { appName = options.app, userId = options.user }
  local service <close> = moonpad.open(url)
  local artifacts <close> = moonpad.artifactService(url)
  local forgotten = {
    sessions = service:deleteUser(who), files = artifacts:deleteUser(who), memories = forgetMemories(url, who),
  }
  if options.json then return print(moonpad.json.encode(forgotten)) end
  print(('Forgot %s, %s and %s of user "%s" in application "%s".'):format(count(forgotten.sessions, "session"),
    count(forgotten.files, "file"), forgotten.memories == 1 and "1 memory" or forgotten.memories .. " memories",
    output.name(options.user), output.name(options.app)))
end

return sessions
