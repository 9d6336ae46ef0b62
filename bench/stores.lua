-- A row of bench/stores.sh: what an append and a get take on a store, and how many appends go
-- through when many sessions write at once.
--   lua5.4 bench/stores.lua NAME URL
local core = require "moonpad.core"
local moonpad = require "moonpad"

local SECONDS <const>, APPS <const>, SESSIONS <const> = 3, 16, 64
local name, url = table.unpack(arg)

local service = moonpad.open(url, { durability = "full" })

local function median(list)
  table.sort(list)
  return list[#list // 2 + 1]
end

-- In microseconds, of as many as there is time for.
local function each(action)
  local times, ends = {}, core.monotonic() + SECONDS
  repeat
    local begun = core.monotonic()
    action()
    times[#times + 1] = core.monotonic() - begun
  until core.monotonic() > ends
  return median(times) * 1e6
end

local function create(app, id)
  return service:createSession { appName = "app" .. app, userId = "u" .. id, sessionId = "s" .. id, state = { n = 0 } }
end

-- A turn of an agent: a key of the session, a counter of the user, a counter of the app.
local function write(session, number)
  session.state.topic = "turn " .. number
  session.state:increment "user:turns"
  session.state:increment "app:turns"
end

local session, number = create(0, "p50"), 0
local append = each(function()
  number = number + 1
  write(session, number)
  service:updateSession(session)
end)
local get = each(function()
  service:getSession { appName = "app0", userId = "up50", sessionId = "sp50", numRecentEvents = 16 }
end)

-- As many sessions as a server has at once; each has one append under way.
local sessions, done = {}, 0
for index = 1, SESSIONS do sessions[index] = create(index % APPS, index) end
local begun = core.monotonic()
local ends = begun + SECONDS
repeat
  for index = 1, SESSIONS do
    write(sessions[index], done)
    service:updateSessionAsync(sessions[index])
  end
  local left = SESSIONS
  while left > 0 do
    local some, failed = service:poll(60)
    assert(failed == 0)
    left = left - some
  end
  done = done + SESSIONS
until core.monotonic() > ends
print(("%s\t%.0f us\t%.0f us\t%.1f k/s"):format(name, append, get, done / (core.monotonic() - begun) / 1000))
service:close()
