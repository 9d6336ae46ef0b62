--- One of several writers in processes of their own:
---   lua5.4 share_counters.lua URL SESSION WRITER COUNT
-- Appends COUNT events to the same session of app "app", user "u" as the others do, adds 1 to
-- counters that all share, and to a user counter at once. Prints the revision of each event that
-- was acknowledged.
local moonpad = require "moonpad"

local url, sessionId, writer, count = arg[1], arg[2], arg[3], tonumber(arg[4])
local service = moonpad.open(url, { busyTimeoutMs = 600000 })
local session = service:getSession { appName = "app", userId = "u", sessionId = sessionId }

for index = 1, count do
  session.state:increment "n"
  session.state:increment "user:n"
  session.state:append("log", writer)
  session.state["of " .. writer] = index
  print(service:updateSession(session).revision)
  service:incrementState { appName = "app", userId = "u", key = "direct" }
end
service:close()
