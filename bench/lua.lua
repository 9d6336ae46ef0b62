-- What is measured from Lua: append (2), getSession (6), the last events (7), reading all (8), the
-- state proxy (11), templates (12), JSON (13).
--   lua5.4 bench/lua.lua FOLDER 0|1
-- FOLDER holds history.db, made by fill.c; bench/run.sh does all of it.
-- The limits are lua_limits.c, plain Lua tables and lua-cjson. Limit and ours take turns.

local cjson = require "cjson"
local limits = require "lua_limits"
local moonpad = require "moonpad"
local support = require "bench.support"
local atMost, bounded, median, noted = support.atMost, support.bounded, support.median, support.noted
local eventId, newEvent, now, TEXT = support.eventId, support.newEvent, support.worked, support.TEXT

local folder, full = support.arguments()
local HISTORY <const> = full and 1000000 or 100000
local HISTORY_TEXT <const> = full and "1,000,000" or "100,000"

-- ---- Measuring ----

-- Of several functions in turn, each of which does its work `count` times in a call: a list of the
-- microseconds that the work took once, in each of the rounds.
local function measure(rounds, count, ...)
  local functions, times = { ... }, {}
  for i = 1, #functions do times[i] = {} end
  for round = 1, rounds do
    for i, run in ipairs(functions) do
      collectgarbage()
      local start = now()
      run(count)
      times[i][round] = (now() - start) / count
    end
  end
  return table.unpack(times)
end

-- ---- 2: append from Lua tables; the limit stores copies in Lua tables ----

local byte, sub = string.byte, string.sub

local function limitStore()
  return { events = {}, ids = {}, session = {}, user = {}, app = {} }
end

local function limitAppend(store, event)
  if store.ids[event.id] then return nil end
  local content, delta = event.content, {}
  for key, value in pairs(event.actions.stateDelta) do
    delta[key] = value
    local first = byte(key)
    if first == 117 and sub(key, 1, 5) == "user:" then
      store.user[key] = value
    elseif first == 97 and sub(key, 1, 4) == "app:" then
      store.app[key] = value
    else
      store.session[key] = value
    end
  end
  local number = #store.events + 1
  local copy = {
    id = event.id, invocationId = event.invocationId, timestamp = event.timestamp, author = event.author,
    content = { role = content.role, parts = { { text = content.parts[1].text } } },
    actions = { stateDelta = delta }, revision = number,
  }
  store.events[number] = copy
  store.ids[copy.id] = copy
  return copy
end

-- One event table serves for all, with another id and step each time: what is measured is the copy.
local function measureAppend()
  local service <close> = moonpad.open("memory:")
  local session = service:createSession { appName = "hotel", userId = "ann", sessionId = "s" }
  local store, ids, event = limitStore(), {}, newEvent(0, 0)
  local delta = event.actions.stateDelta
  for i = 1, 20 * 1000 do ids[i] = eventId(i, 0) end
  local function appender(append, target)
    local last = 0
    return function(count)
      for i = last + 1, last + count do
        event.id, delta.step = ids[i], i
        append(target, event)
      end
      last = last + count
    end
  end
  local limit, ours = measure(20, 1000, appender(limitAppend, store), appender(function(target, given)
    return service:appendEvent(target, given)
  end, session))
  atMost("2", "append from Lua tables, memory, p50", "us", limit, ours, 2.5)
end

-- ---- 6, 7, 8: reading ----

local function getter(service, id, recent)
  local name = { appName = "hotel", userId = "ann", sessionId = id, numRecentEvents = recent }
  return function(count)
    for _ = 1, count do service:getSession(name) end
  end
end

local function lastTen(service)
  local name = { appName = "hotel", userId = "ann", sessionId = "long", numRecentEvents = 10 }
  return function(count)
    for _ = 1, count do
      local list = {}
      for i, event in ipairs(service:getSession(name).events) do list[i] = event end
      assert(#list == 10 and list[10].content.parts[1].text == TEXT)
    end
  end
end

local function measureReading(service, store, bound)
  local few, many = measure(30, 200, getter(service, "ten"), getter(service, "long"))
  bounded("6", ("getSession from Lua, %s, 10 events, p50"):format(store), "us", median(few), bound)
  atMost("6", ("getSession from Lua, %s, 10 / %s events"):format(store, HISTORY_TEXT), "us", few, many, 1.3)
  local last = measure(30, 100, lastTen(service))
  if store == "SQLite" then
    bounded("7", ("last 10 of %s events as Lua tables, SQLite, p50"):format(HISTORY_TEXT), "us", median(last), 60)
  end
end

local READ <const> = 10000

local function eventReader(service, id)
  return function()
    local session = service:getSession { appName = "hotel", userId = "ann", sessionId = id }
    local list = {}
    for i, event in ipairs(session.events) do list[i] = event end
    assert(#list == READ)
  end
end

local function readEvent(number)
  local event = newEvent(number, 3)
  event.content.parts[1].text = TEXT .. number
  return event
end

-- The same events for the limit, kept in C.
local function storeForLimit()
  local list = {}
  for i = 1, READ do
    local event = readEvent(i)
    local delta = event.actions.stateDelta
    list[i] = { id = event.id, invocationId = event.invocationId, timestamp = event.timestamp, step = delta.step,
      wish = delta["user:wish"], text = event.content.parts[1].text }
  end
  return limits.store(list)
end

local function measureReadAll(memory, sqlite)
  local stored = storeForLimit()
  for _, service in ipairs { memory, sqlite } do
    local session = service:createSession { appName = "hotel", userId = "ann", sessionId = "read" }
    for i = 1, READ do service:appendEvent(session, readEvent(i)) end
  end
  local limit, fromMemory, fromSqlite = measure(9, 1, function() limits.events(stored) end,
    eventReader(memory, "read"), eventReader(sqlite, "read"))
  atMost("8", "10,000 events as Lua tables, memory", "ms", limit, fromMemory, 1.5)
  atMost("8", "10,000 events as Lua tables, SQLite", "ms", limit, fromSqlite, 2.2)
end

local function measureStores()
  local memory <close> = moonpad.open("memory:")
  local sqlite <close> = moonpad.open("sqlite:" .. folder .. "/history.db", { durability = "normal" })
  local ten = memory:createSession { appName = "hotel", userId = "ann", sessionId = "ten" }
  local long = memory:createSession { appName = "hotel", userId = "ann", sessionId = "long" }
  for i = 1, 10 do memory:appendEvent(ten, newEvent(i, 1)) end
  for i = 1, HISTORY do memory:appendEvent(long, newEvent(i, 2)) end
  measureReading(memory, "memory", 5)
  measureReading(sqlite, "SQLite", 60)
  measureReadAll(memory, sqlite)
end

-- ---- 11: the state proxy ----

local function measureProxy()
  local service <close> = moonpad.open("memory:")
  local session = service:createSession { appName = "hotel", userId = "ann", sessionId = "s" }
  local bare, state, plain = limits.state(), session.state, {}
  for _, values in ipairs { bare, state, plain } do
    for i = 1, 20 do values["key" .. i] = i end
    values.count = 0
  end
  local function reader(values)
    return function(count)
      for _ = 1, count do local _ = values.count end
    end
  end
  local function writer(values)
    return function(count)
      for i = 1, count do values.count = i end
    end
  end
  local limit, ours, table_ = measure(60, 50000, reader(bare), reader(state), reader(plain))
  atMost("11", "state.k, an integer", "ns", limit, ours, 1.5)
  noted("11", "state.k of a plain Lua table, to compare", "ns", median(table_) * 1e3)
  limit, ours = measure(60, 50000, writer(bare), writer(state))
  atMost("11", "state.k = v, an integer", "ns", limit, ours, 1.5)
  collectgarbage()
  collectgarbage("stop")
  local before = collectgarbage("count")
  for i = 1, 10000 do
    state.count = i
    local _ = state.count
  end
  local garbage = (collectgarbage("count") - before) * 1024
  collectgarbage("restart")
  bounded("11", "garbage of 10,000 gets and sets", "B", garbage, 0)
end

-- ---- 12: a template of 2 KB ----

local function measureTemplate()
  local parts, bare, values = {}, limits.state(), {}
  for i = 10, 29 do
    parts[#parts + 1] = ("%d. The guest has told us about this before, so do not ask again, "
      .. "but keep it in mind: {key_%d}. "):format(i, i)
    bare["key_" .. i] = "value of " .. i
    values["key_" .. i] = "value of " .. i
  end
  local template, state = table.concat(parts), moonpad.state(values)
  local inject = moonpad.injectSessionState
  assert(limits.render(template, bare) == inject(template, state))
  local limit, ours = measure(30, 500, function(count)
    for _ = 1, count do limits.render(template, bare) end
  end, function(count)
    for _ = 1, count do inject(template, state) end
  end)
  atMost("12", "template of 2 KB, 20 placeholders, from Lua", "us", limit, ours, 1.5)
end

-- ---- 13: JSON ----

local function measureJson()
  local event = newEvent(7, 0)
  local text = moonpad.json.encode(event)
  local function encoder(encode)
    return function(count)
      for _ = 1, count do encode(event) end
    end
  end
  local function decoder(decode)
    return function(count)
      for _ = 1, count do decode(text) end
    end
  end
  local limit, ours = measure(20, 2000, encoder(cjson.encode), encoder(moonpad.json.encode))
  atMost("13", "JSON encode, against lua-cjson", "us", limit, ours, 1)
  limit, ours = measure(20, 2000, decoder(cjson.decode), decoder(moonpad.json.decode))
  atMost("13", "JSON decode, against lua-cjson", "us", limit, ours, 1)
end

measureAppend()
measureStores()
measureProxy()
measureTemplate()
measureJson()
