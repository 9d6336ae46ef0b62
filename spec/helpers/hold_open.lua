-- A process that has a file open until its standard input ends:  lua5.4 hold_open.lua URL
-- Makes a session "held" in it before it says "open".
local moonpad = require "moonpad"

local service = moonpad.open(arg[1])
service:createSession { appName = "app", userId = "u", sessionId = "held" }
print "open"
io.stdout:flush()
io.read()
service:close()
