--- One of several who open a file at the same moment:  lua5.4 open_together.lua URL COUNT
-- Says "ready", waits for the end of its input, opens the file, appends COUNT events to session
-- "again", prints "ok".
local moonpad = require "moonpad"

local url, count = arg[1], tonumber(arg[2])
print "ready"
io.stdout:flush()
io.read()
local service <close> = moonpad.open(url, { busyTimeoutMs = 600000 })
local session = service:getSession { appName = "shop", userId = "ann", sessionId = "again" }
for _ = 1, count do
  service:appendEvent(session, { author = "x", actions = { stateDelta = { ["user:seen"] = true } } })
end
print "ok"
