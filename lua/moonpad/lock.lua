--- Writing to a store that another process may have locked. Where whoever drives the run has other things to do, it is
--- tried for an instant at each step, until the patience of the service ends.
local core = require "moonpad.core"
local signals = require "moonpad.signals"

local lock = {}

---Tries again until there is a result.
---@generic T
---@param run moonpad.Run
---@param try fun(briefly: boolean): T?, string? the result; or nil and a message when somebody else has the lock
---@param busy string? the message of the first try
---@return T
local function insist(run, try, busy)
  local deadline = core.monotonic() + core.busyTimeout(run.runner.sessionService)
  while true do
    if core.monotonic() >= deadline then core.error("busy", busy) end
    signals.pause()
    local result
    result, busy = try(not run.mayBlock)
    if result ~= nil then return result end
  end
end

---Stores an event with what is pending. Until it has the lock, the event stays as it was handed in.
---@param run moonpad.Run
---@param state moonpad.State
---@param event table
---@return moonpad.Event stored
function lock.commit(run, state, event)
  local stored, busy = core.commit(state, event, not run.mayBlock)
  if stored ~= nil then return stored end
  local kept = core.newEvent(event, run.session)
  return insist(run, function(briefly) return core.commit(state, kept, briefly) end, busy)
end

return lock
