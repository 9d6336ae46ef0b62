--- Fills a small disk:  lua5.4 fill_disk.lua FOLDER
-- Appends until the disk is full, twice, and makes room again by removing what else lies there.
-- Prints "ok".
local moonpad = require "moonpad"

local folder = arg[1]
local url = "sqlite:" .. folder .. "/test.db"
local name = { appName = "app", userId = "u", sessionId = "s" }

local function occupy(file)
  local handle <close> = assert(io.open(folder .. "/" .. file, "wb"))
  assert(handle:write(("x"):rep(800000)))
end

local function makeRoom(file) assert(os.remove(folder .. "/" .. file)) end

local function append(service, session)
  local number = session.revision + 1
  return service:appendEvent(session, { author = "a", actions = { stateDelta = { ["k" .. number] = ("x"):rep(500),
    last = number, ["user:last"] = number } } })
end

local function expectFull(call, ...)
  local ok, err = pcall(call, ...)
  assert(not ok and err.code == "storage", tostring(err))
end

local function expectWhole(session, count)
  assert(session.revision == count and #session.events == count, "events are lost, or too many")
  for index, event in ipairs(session.events) do
    assert(event.revision == index and event.actions.stateDelta.last == index)
    assert(session.state["k" .. index] == ("x"):rep(500))
  end
  assert(session.state.last == count and session.state["user:last"] == count)
end

-- Returns how many events there are then.
local function fill(service, session)
  local count = session.revision
  while pcall(append, service, session) do count = count + 1 end
  for _ = 1, 3 do expectFull(append, service, session) end
  expectFull(service.updateAppState, service, { appName = "app", state = { k = ("x"):rep(100000) } })
  expectFull(service.backup, service, folder .. "/copy.db")
  assert(not io.open(folder .. "/copy.db"), "a backup that failed left a file")
  assert(session.revision == count and #session.events == count)
  expectWhole(service:getSession(name), count)
  return count
end

occupy "first"
occupy "second"
local service = moonpad.open(url)
local session = service:createSession(name)
local count = fill(service, session)
assert(count > 50)
makeRoom "first"
for _ = 1, 20 do append(service, session) end
expectWhole(service:getSession(name), count + 20)
assert(fill(service, session) > count + 20)
count = session.revision
service:close()

-- Opened on a full disk, it may say that there is no room for its log: nothing else.
local opened, again = pcall(moonpad.open, url)
if opened then
  local read, found = pcall(again.getSession, again, name)
  if read then expectWhole(found, count) else assert(found.code == "storage", tostring(found)) end
  again:close()
else
  assert(again.code == "storage", tostring(again))
end
makeRoom "second"
service = moonpad.open(url)
session = service:getSession(name)
expectWhole(session, count)
append(service, session)
expectWhole(service:getSession(name), count + 1)
service:close()
print "ok"
