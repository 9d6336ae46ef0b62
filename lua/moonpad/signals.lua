--- The language between the code of a run and who drives it.
--- A run is a coroutine: `emit` hands an event out of it; every other yield (of a tool, a model) means "waiting".
local core = require "moonpad.core"

local signals = {}

-- Yielded first, in front of an event. Nobody else has it.
signals.EVENT = {}

-- The coroutines that moonpad drives, "new" until they begin: in them, waiting means to yield; anywhere else a yield
-- would reach a stranger.
local ours = setmetatable({}, { __mode = "k" })

---Makes a coroutine that moonpad drives.
---@param body function
---@return thread
function signals.newThread(body)
  local thread
  thread = coroutine.create(function()
    ours[thread] = "begun"
    return body()
  end)
  ours[thread] = "new"
  return thread
end

---Hands an event to the caller of the run; comes back when the caller asks for the next one.
---@param event moonpad.Event
function signals.emit(event)
  coroutine.yield(signals.EVENT, event)
end

---@return boolean isOurs whether this is a coroutine that moonpad drives
function signals.isOurs()
  return ours[coroutine.running()] ~= nil
end

---Lets others go on where somebody is there to come back; sleeps a little where nobody is.
---@param seconds number? how long at most to sleep; default: a millisecond
function signals.pause(seconds)
  if signals.isOurs() then return coroutine.yield() end
  seconds = seconds or 0.001
  -- What is awaited may be a transfer: its progress ends the sleep.
  local http = package.loaded["moonpad.http"]
  if type(http) == "table" and http.active() > 0 then http.poll(seconds) else core.sleep(seconds) end
end

---@return table error what a tool or model gets that is still waiting when its run ends
function signals.cancelled()
  return core.newError("cancelled", "the run has been cancelled")
end

---@param run moonpad.Run
function signals.raiseIfEnding(run)
  if run.ending then error(signals.cancelled(), 0) end
end

local function raiseCancelled()
  debug.sethook()
  error(signals.cancelled(), 0)
end

---Makes a suspended coroutine go on with the error `cancelled` (its code may catch it to clean up), and closes it.
---@param thread thread
function signals.interrupt(thread)
  -- What has not begun has nothing to clean up.
  if coroutine.status(thread) == "suspended" and ours[thread] ~= "new" and debug and debug.sethook then
    -- Only a hook can raise an error where a coroutine waits: as its yield returns, so that a pcall around it sees it.
    debug.sethook(thread, raiseCancelled, "r")
    coroutine.resume(thread)
    debug.sethook(thread)
  end
  signals.close(thread)
end

---Closes a coroutine, so that its to-be-closed variables run.
---@param thread thread
function signals.close(thread)
  local status = coroutine.status(thread)
  if status == "suspended" or status == "dead" then coroutine.close(thread) end
end

return signals
