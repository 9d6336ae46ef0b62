--- Fills the small disk of a server:  lua5.4 fill_server.lua FOLDER NAME
-- Starts spec/servers/NAME.sh in the folder, appends until there is no room, makes room by removing
-- what else lies there, and goes on. Prints "ok".
local moonpad = require "moonpad"

local folder, name = arg[1], arg[2]
local script = "spec/servers/" .. name .. ".sh"
local ROOM <const> = 12 << 20
local key = { appName = "app", userId = "u", sessionId = "s" }

local function run(verb)
  return os.execute(("%s %s '%s/server' >'%s/said' 2>&1"):format(script, verb, folder, folder))
end

local function line(command)
  local pipe <close> = assert(io.popen(command, "r"))
  return pipe:read "l"
end

local function url() return line(("%s url '%s/server'"):format(script, folder)) end

-- All but so many bytes of the disk.
local function occupy()
  local left = tonumber(line(("df --output=avail -B1 '%s' | tail -n 1"):format(folder)))
  local handle <close> = assert(io.open(folder .. "/ballast", "wb"))
  local block = ("x"):rep(1 << 20)
  for _ = 1, (left - ROOM) // #block do assert(handle:write(block)) end
end

-- What no server can make smaller.
local function noise()
  local words = {}
  for index = 1, 5000 do words[index] = ("%08x"):format(math.random(0, 0xFFFFFFFF)) end
  return table.concat(words)
end

local function append(service, session)
  local number = session.revision + 1
  return service:appendEvent(session, { id = "e" .. number, author = "a", content = { parts = { { text = noise() } } },
    actions = { stateDelta = { last = number, ["user:last"] = number, ["app:last"] = number } } })
end

local function expectWhole(session, count)
  assert(session.revision == count and #session.events == count, "events are lost, or too many")
  for index, event in ipairs(session.events) do assert(event.id == "e" .. index) end
  for _, at in ipairs { "last", "user:last", "app:last" } do assert(session.state[at] == count, at) end
end

-- A server that has no room may end, and not start.
local function openAgain()
  for _ = 1, 60 do
    local opened, service = pcall(moonpad.open, url(), { busyTimeoutMs = 5000 })
    if opened then return service end
    assert(service.code == "storage" or service.code == "busy", tostring(service))
    run "again"
  end
  error "the server does not come back"
end

assert(run "start", "the server does not start")
local service = moonpad.open(url(), { busyTimeoutMs = 2000 })
local session = service:createSession(key)
occupy()
local ok, err = true, nil
while ok and session.revision < 2000 do ok, err = pcall(append, service, session) end
assert(not ok, "the disk is not full")
assert(err.code == "storage", tostring(err))
local count = session.revision
assert(count > 10, count)
for _ = 1, 3 do
  ok, err = pcall(append, service, session)
  assert(ok or err.code == "storage" or err.code == "busy", tostring(err))
end
assert(os.remove(folder .. "/ballast"))
service:close()

service = openAgain()
session = service:getSession(key)
assert(session.revision >= count, "acknowledged events are lost")
expectWhole(session, session.revision)
count = session.revision
for _ = 1, 20 do append(service, session) end
expectWhole(service:getSession(key), count + 20)
service:close()
run "stop"
print "ok"
