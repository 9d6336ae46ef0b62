--- A process that may be the first to open a file:  lua5.4 open_and_append.lua URL
-- Makes a session of its own, appends one event, adds 1 to an app counter and says so.
local moonpad = require "moonpad"

local service = moonpad.open(arg[1], { busyTimeoutMs = 600000 })
local session = service:createSession { appName = "app", userId = "u" }
service:appendEvent(session, { author = "agent", actions = { stateDelta = { k = 1 } } })
service:incrementState { appName = "app", key = "n" }
service:close()
print "ok"
