--- `moonpad apps`, `sessions`, `events`, `state`: what is stored.
local core = require "moonpad.core"
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"
local output = require "moonpad.cli.output"

local inspect = {}

---The session that the command line names.
---@param service moonpad.Service
---@param app string
---@param options table of the command line
---@return moonpad.Session
function inspect.session(service, app, options)
  local user = database.user(options)
  local session = service:getSession { appName = app, userId = user, sessionId = options.session }
  if session then return session end
  return failure.raise('there is no session "%s" of user "%s" in application "%s"', options.session, user, app)
end

local function appsIn(db, list)
  local service <close> = database.openSessions(db)
  local names = core.listApps(service)
  table.sort(names)
  for _, name in ipairs(names) do
    list[#list + 1] = { app = name, sessions = #service:listSessions { appName = name }, db = database.shown(db) }
  end
end

---@param options table of the command line
function inspect.apps(options)
  local list = {}
  for _, db in ipairs(options.db and { options.db } or database.files()) do appsIn(db, list) end
  output.list(options, { { "APP", "app" }, { "SESSIONS", "sessions" }, { "FILE", "db" } }, list)
end

---@param options table of the command line
function inspect.sessions(options)
  local service <close>, app = database.openExisting(options)
  local list = {}
  for _, session in ipairs(service:listSessions { appName = app, userId = options.user }) do
    list[#list + 1] = {
      app = app, user = session.userId, session = session.id, events = session.revision,
      createTime = session.createTime, lastUpdateTime = session.lastUpdateTime,
    }
  end
  output.list(options, {
    { "USER", "user" }, { "SESSION", "session" }, { "EVENTS", "events" },
    { "LAST UPDATE", "lastUpdateTime", output.time },
  }, list)
end

---@param options table of the command line
function inspect.events(options)
  local service <close>, app = database.openExisting(options)
  for _, event in ipairs(inspect.session(service, app, options).events) do print(output.json(event)) end
end

-- A key that could be taken for something else is shown as JSON.
local function keyText(key)
  local isPlain = key ~= "" and not key:find "[%c=\"]" and not key:find "^%s" and not key:find "%s$"
  return isPlain and output.name(key) or output.json(key)
end

---@param options table of the command line
function inspect.state(options)
  local service <close>, app = database.openExisting(options)
  local state = inspect.session(service, app, options).state
  if options.json then return print(moonpad.json.encode(state:getAll())) end
  for key, value in pairs(state) do print(("%s = %s"):format(keyText(key), output.json(value))) end
end

return inspect
