--- `moonpad sessions delete`, `export`, `import`, `fork`; `moonpad sweep` and `forget`: commands
--- that change what is stored.
local core = require "moonpad.core"
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local inspect = require "moonpad.cli.inspect"
local memories = require "moonpad.services.memory"
local moonpad = require "moonpad"
local output = require "moonpad.cli.output"
local storeModules = require "moonpad.services.store_modules"

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
  local file <close>, reason = core.openFile(path, "wb")
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
  if path and path ~= "-" then file, reason = core.openFile(path, "rb") end
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

local count = output.count

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

-- What the times are called in the configs of the three services.
local TIMES <const> = {
  sessions = {
    session_ttl = "sessionTtlSeconds", user_ttl = "userTtlSeconds", app_ttl = "appTtlSeconds",
    event_ttl = "eventTtlSeconds",
  },
  files = { artifact_ttl = "artifactTtlSeconds" },
  memories = { memory_ttl = "memoryTtlSeconds" },
}

-- The config of a service, or nil where none of its times is given.
local function timesOf(options, names)
  local config = {}
  for option, name in pairs(names) do
    local given = options[option]
    config[name] = given and secondsOf(given, "--" .. option:gsub("_", "-")) or nil
  end
  return next(config) and config
end

-- How many entries a sweep of the service frees; 0 where it is not to be swept, or not there.
local function sweepWith(open, url, config)
  local service <close> = config and open(url, config) or nil
  return service and service:sweep() or 0
end

---@param options table of the command line
function sessions.sweep(options)
  local ofSessions, ofFiles, ofMemories = timesOf(options, TIMES.sessions), timesOf(options, TIMES.files),
    timesOf(options, TIMES.memories)
  if not (ofSessions or ofFiles or ofMemories) then
    failure.usage(
      "say what is old: --session-ttl, --user-ttl, --app-ttl, --event-ttl, --artifact-ttl or --memory-ttl, as in "
        .. "--session-ttl 30d")
  end
  local service <close>, url = database.openSessions(options.url, ofSessions)
  local swept = service:sweep()
  swept.files = sweepWith(database.findArtifacts, url, ofFiles)
  swept.memories = sweepWith(database.findMemory, url, ofMemories)
  if options.json then return print(moonpad.json.encode(swept)) end
  print(("Freed %s, the state of %s and of %s, %s, %s and %s."):format(count(swept.sessions, "session"),
    count(swept.users, "user"), count(swept.apps, "app"), count(swept.events, "event"), count(swept.files, "file"),
    count(swept.memories, "memory", "memories")))
end

local function forgetMemories(url, who)
  local memory <close> = database.findMemory(url)
  if not memory then return 0 end
  local forgotten = memory:deleteUser(who)
  memories.rebuildIndex(memory)
  return forgotten
end

---@param options table of the command line
function sessions.forget(options)
  local who = { appName = options.app, userId = options.user }
  local service <close>, url = database.openSessions(options.url)
  local artifacts <close> = database.findArtifacts(url)
  local forgotten = {
    sessions = service:deleteUser(who), files = artifacts and artifacts:deleteUser(who) or 0,
    memories = forgetMemories(url, who),
  }
  if options.json then
    print(moonpad.json.encode(forgotten))
  else
    print(('Forgot %s, %s and %s of user "%s" in application "%s".'):format(count(forgotten.sessions, "session"),
      count(forgotten.files, "file"), count(forgotten.memories, "memory", "memories"), output.name(options.user),
      output.name(options.app)))
  end
  core.vacuum(service)
  if options.json then return end
  print(storeModules.isServer(url)
    and "The server frees the room by itself; until then, and in its logs and backups, bytes of it are left."
    or "Wrote the file anew: it holds no byte of what was deleted.")
end

return sessions
