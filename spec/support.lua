--- What the specs share.
local busted = require "busted"
local core = require "moonpad.core"
local moonpad = require "moonpad"
local paths = require "moonpad.util.paths"
local turns = require "spec.support.turns"

local support = {}

local function quote(text)
  return "'" .. text:gsub("'", [['\'']]) .. "'"
end
support.quote = quote

-- Far beyond what anything here takes, however busy the machine is: who waits that long has failed.
local TIMEOUT_SECONDS = 120
support.TIMEOUT_SECONDS, support.TIMEOUT_MS = TIMEOUT_SECONDS, TIMEOUT_SECONDS * 1000

-- That of the system, whatever a spec puts in its place.
local monotonic = core.monotonic

---Waits until the condition holds.
---@param what string for the message, when it never does
---@param condition fun(): any
---@return any answer of the condition
function support.waitUntil(what, condition)
  local deadline = monotonic() + TIMEOUT_SECONDS
  while true do
    local answer = condition()
    if answer then return answer end
    assert(monotonic() < deadline, "waited in vain for " .. what)
    core.sleep(0.005)
  end
end

local StoppedClock = {}
StoppedClock.__index = StoppedClock

---@param seconds number
function StoppedClock:advance(seconds) self.time = self.time + seconds end

---@return number
function StoppedClock:now() return self.time end

function StoppedClock.__close() core.monotonic = monotonic end

---Stops the clock that moonpad's Lua code waits by, until the block ends; what C code waits for by
---itself goes on. So nothing is over because it took long, and what is over after some time is so
---when the spec says that the time has passed.
---@param tick number? seconds that pass each time that somebody looks; default 0
---@return table clock `clock:advance(seconds)`
function support.stopClock(tick)
  assert(core.monotonic == monotonic, "the clock stands still already")
  local clock = setmetatable({ time = monotonic() }, StoppedClock)
  function core.monotonic()
    clock.time = clock.time + (tick or 0)
    return clock.time
  end
  return clock
end

local made = {}

---A new empty folder, removed by `support.cleanup`.
---@return string path
function support.tmpdir()
  local path = require("spec.folders").make()
  made[#made + 1] = path
  return path
end

---A path as SQLite's messages name it. Where Windows is wine, its drive Z: is all that there is.
---@param path string absolute
---@return string
function support.toldPath(path)
  return paths.isWindows and "Z:" .. path:gsub("/", "\\") or path
end

local onServers = {}

local function forgetServers()
  for index = #onServers, 1, -1 do
    local place = onServers[index]
    require("spec.servers")[place.undo](place.rest)
    onServers[index] = nil
  end
end

---Removes the folders, and the places on servers, made so far.
function support.cleanup()
  for index = #made, 1, -1 do
    require("spec.folders").remove(made[index])
    made[index] = nil
  end
  forgetServers()
end

-- The stores that specs run on. FILE is a path in a folder of its own; on a server each service
-- has an empty place of its own, where scripts/run_tests.sh has started one.
local STORES = { "memory:", "sqlite:FILE", "postgresql:", "mysql:", "redis:" }
local SERVERS = { ["postgresql:"] = "MOONPAD_TEST_POSTGRESQL", ["mysql:"] = "MOONPAD_TEST_MYSQL",
  ["redis:"] = "MOONPAD_TEST_REDIS" }

local function placeFor(store, make, undo)
  if not SERVERS[store] then
    return (store:gsub("FILE", function() return support.tmpdir() .. "/test.db" end))
  end
  local rest = assert(require("spec.servers")[make](SERVERS[store]))
  onServers[#onServers + 1] = { rest = rest, undo = undo }
  -- That of Redis may be a cluster.
  return os.getenv(SERVERS[store]):match "^[%w+]+:" .. rest
end

---A URL of an empty store of this kind; `support.cleanup` removes it.
---@param store string one of the list above, or another URL with FILE in it
---@return string
function support.freshUrl(store) return placeFor(store, "rest", "forget") end

---Which of the servers a store is, from 1 on.
---@param store string
---@return integer? number nil: it is no server
function support.serverNumber(store)
  for number, each in ipairs(STORES) do
    if each == store and SERVERS[each] then return number - 2 end
  end
end

---The servers that are there, as `support.freshUrl` takes them.
---@param more string[]? other stores, to which they are added
---@return string[]
function support.servers(more)
  local list = { table.unpack(more or {}) }
  for _, store in ipairs(STORES) do
    if SERVERS[store] and os.getenv(SERVERS[store]) then list[#list + 1] = store end
  end
  return list
end

---Adds the servers that are there to a list of stores with a `name` and a `url()` each.
---@generic T
---@param list T[]
---@return T[]
function support.withServers(list)
  for _, store in ipairs(support.servers()) do
    list[#list + 1] = { name = store, url = function() return support.freshUrl(store) end }
  end
  return list
end

---Where artifacts and memories are kept that belong to sessions: in memory, in another file, or in
---the same place on a server.
---@param store string as of `support.freshUrl`
---@param url string what that gave
---@return string
function support.urlBeside(store, url)
  if store == "memory:" or SERVERS[store] then return url end
  return support.freshUrl "sqlite:FILE"
end

---A command (of the shell) that runs SQL on a PostgreSQL server, without a preloaded sanitizer.
---@param url string
---@param more string options: "-c SQL", "-f FILE"
---@return string
function support.psql(url, more)
  return ("env -u LD_PRELOAD psql -q -X -v ON_ERROR_STOP=1 %s %s"):format(quote(url), more)
end

---The same on MariaDB.
---@param url string as of `support.freshUrl`
---@param more string options: "-e SQL", "<FILE"
---@return string
function support.mariadb(url, more)
  local user, password, host, port, database = url:match "^mysql://(.-):(.-)@(.-):(%d+)/([%w_]+)"
  return ("env -u LD_PRELOAD mariadb --no-defaults -N -u %s -p%s -h %s -P %s %s %s"):format(user, password, host, port,
    database, more)
end

---A command of Redis.
---@param url string as of `support.freshUrl`
---@param words string
---@return string
function support.redis(url, words)
  local password, host, port, db = url:match "^redis://:(.-)@(.-):(%d+)/(%d+)"
  return ("env -u LD_PRELOAD REDISCLI_AUTH=%s redis-cli -h %s -p %s -n %s %s"):format(password, host, port, db, words)
end

-- The stores that are there, or the one that the environment's STORE names.
local function storesHere()
  local only, list = os.getenv "STORE", {}
  for _, store in ipairs(STORES) do
    if (not only or only == store) and (not SERVERS[store] or os.getenv(SERVERS[store])) then
      list[#list + 1] = store
    end
  end
  return list
end

local function describeStores(block, isOneEnough)
  local stores <const> = storesHere()
  for number, store in ipairs(stores) do
    turns.describe("on " .. store, turns.isStoreDue(number, #stores, isOneEnough), function()
      local opened = {}
      busted.after_each(function()
        for index = #opened, 1, -1 do
          opened[index]:close()
          opened[index] = nil
        end
        support.cleanup()
      end)
      block(function(config)
        -- Its tables may be there from an earlier test, without rows.
        local service = moonpad.open(placeFor(store, "borrow", "giveBack"), config)
        opened[#opened + 1] = service
        return service
      end, store)
    end)
  end
end

---Describes a block once per store, or with the environment's STORE, which is one of the list
---above, on that one alone. They take turns (spec/support/turns.lua).
---`open(config)` gives a fresh, empty service; it is closed after the test.
---@param block fun(open: fun(config?: table): moonpad.Service, store: string)
function support.each_store(block) describeStores(block, false) end

---The same for rules in which no store has a part, such as the order of callbacks: `make test` has
---them on one store, each time on another one.
---@param block fun(open: fun(config?: table): moonpad.Service, store: string)
function support.any_store(block) describeStores(block, true) end

---Begins a command (of the shell) that permissions bind: root's own would not.
---@return string prefix
function support.boundByPermissions()
  local pipe <close> = assert(io.popen "id -u")
  return pipe:read "n" == 0 and "setpriv --bounding-set=-dac_override,-dac_read_search -- " or ""
end

---Runs a message and returns the events that the caller sees.
---@param runner moonpad.Runner
---@param message string|table|nil a message, or all options of the run
---@return moonpad.Event[]
function support.run(runner, message)
  local options = message
  if type(message) ~= "table" or message.parts then
    options = { userId = "u", sessionId = "s", newMessage = message }
  end
  local events = {}
  for event in runner:run(options) do events[#events + 1] = event end
  return events
end

---Steps a run until a step has something to tell: an event, or nil at the end. Between two steps
---it waits for what a store is asked.
---@param invocation moonpad.Invocation
---@return moonpad.Event?
function support.step(invocation)
  local deadline = monotonic() + TIMEOUT_SECONDS
  while true do
    local event = invocation:step()
    if event ~= "waiting" then return event end
    assert(monotonic() < deadline, "stepped in vain")
    core.idle(0.001)
  end
end

---Steps a run that has no event to give until the condition holds.
---@param invocation moonpad.Invocation
---@param condition fun(): any
function support.stepUntil(invocation, condition)
  local deadline = monotonic() + TIMEOUT_SECONDS
  repeat
    busted.assert.equal("waiting", invocation:step())
    assert(monotonic() < deadline, "stepped in vain")
    core.idle(0.001)
  until condition()
end

---The answer of a model that calls functions: `{ name, args, id }` each.
---@param ... table
---@return table response
function support.calls(...)
  local parts = {}
  for index, call in ipairs { ... } do
    parts[index] = { functionCall = { name = call[1], args = call[2], id = call[3] } }
  end
  return { content = { role = "model", parts = parts } }
end

---The session as the store has it.
---@param service moonpad.Service
---@param appName string? default "app"
---@return moonpad.Session?
function support.stored(service, appName)
  return service:getSession { appName = appName or "app", userId = "u", sessionId = "s" }
end

---Was moonpad built with a hiredis that has TLS?
function support.hasRedisTls()
  local _, err = pcall(moonpad.open, "rediss://127.0.0.1:1")
  return err.code ~= "unsupported"
end

return support
