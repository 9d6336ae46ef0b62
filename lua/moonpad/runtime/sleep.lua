--- `moonpad.sleep`: waiting for a while.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local fields = require "moonpad.schema.fields"

local MAX_SECONDS = 86400 * 365

local function check(seconds)
  if type(seconds) == "number" and seconds >= 0 and seconds <= MAX_SECONDS then return end
  fields.refuse("moonpad.sleep", ("expected a number of seconds from 0 to %d, got %s"):format(MAX_SECONDS,
    fields.describe(seconds, true)))
end

---Waits. In a tool, callback or model of a run others go on meanwhile, and a step of that run
---returns "waiting"; no file descriptor tells when the time is over. Elsewhere the thread sleeps,
---and a signal ends that early.
---@param seconds number
return function(seconds)
  check(seconds)
  coroutines.checkThread "moonpad.sleep"
  local deadline = core.monotonic() + seconds
  if not (coroutines.isManaged() and coroutine.isyieldable()) then return core.sleep(seconds) end
  while core.monotonic() < deadline do coroutine.yield() end
end
