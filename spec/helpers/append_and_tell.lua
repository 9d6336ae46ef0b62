--- A writer in a process of its own:
---   lua5.4 append_and_tell.lua URL SESSION COUNT DURABILITY [steps]
-- Appends COUNT events to a session of app "app", user "u", and prints the revision of each one
-- that was acknowledged. Event n sets `last` and one of a hundred keys to n and adds 1 to a counter
-- of the session, of the user and of the app. With "steps" as a stepped run does it.
local drive = require "spec.support.by_hand"
local moonpad = require "moonpad"

local url, sessionId, count, durability, isInSteps = arg[1], arg[2], tonumber(arg[3]), arg[4], arg[5] == "steps"
local service = moonpad.open(url, { durability = durability, busyTimeoutMs = 600000 })
local session = service:getSession { appName = "app", userId = "u", sessionId = sessionId }

io.stdout:setvbuf "line"
for _ = 1, count do
  local number = session.revision + 1
  local state = session.state
  state.last = number
  state["k" .. number % 100] = number
  state:increment "n"
  state:increment "user:n"
  state:increment "app:n"
  local function update() return service:updateSession(session).revision end
  if isInSteps then print(drive(service, update):finish()) else print(update()) end
end
