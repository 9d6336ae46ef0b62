--- One of several writers in processes of their own:
---   lua5.4 write_together.lua URL SESSION WRITER COUNT DURABILITY
-- Appends COUNT events to the same session of app "app", user "u" as the others do. Each event adds
-- 1 to a counter of the session, of the user and of the app, and sets one key of this writer in
-- each of them to the event's number.
local moonpad = require "moonpad"

local url, sessionId, writer, count, durability = arg[1], arg[2], arg[3], tonumber(arg[4]), arg[5]
local service = moonpad.open(url, { busyTimeoutMs = 600000, durability = durability })
local session = service:getSession { appName = "app", userId = "u", sessionId = sessionId }
local state, key = session.state, "of " .. writer

for number = 1, count do
  for _, prefix in ipairs { "", "user:", "app:" } do
    state:increment(prefix .. "n")
    state[prefix .. key] = number
  end
  service:updateSession(session)
end
service:close()
print "ok"
