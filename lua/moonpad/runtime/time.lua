--- A clock and a sleep: `moonpad.clock`, `moonpad.sleep`.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local fields = require "moonpad.schema.fields"

local time = {}

-- Some thirty years: what is longer is a mistake.
local LONGEST = 1e9

---Seconds since some moment in the past. They never go back, whatever happens to the time of day.
---@return number seconds
function time.clock()
  return core.monotonic()
end

local function checkSeconds(seconds)
  local where = "moonpad.sleep(seconds)"
  fields.refuseModule(seconds, where)
  if type(seconds) == "number" and seconds >= 0 and seconds <= LONGEST then return end
  fields.refuse(where, ("expected a number from 0 to %d, got %s"):format(LONGEST, fields.describe(seconds, true)))
end

---Waits. In a run others go on meanwhile: a step of that run returns "waiting", and a run that is
---cancelled gets the error `cancelled` here. Elsewhere it blocks, and a signal ends it early. An
---event loop steps a run that sleeps at its own pace: `service:fd()` does not tell that it is over.
---@param seconds number from 0
function time.sleep(seconds)
  checkSeconds(seconds)
  coroutines.checkThread "moonpad.sleep"
  coroutines.sleep(seconds)
end

return time
