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

-- How many of them are being resumed, one within the other: above 0, this is the inside of a run.
local depth = 0

local function leave(...)
  depth = depth - 1
  return ...
end

---As coroutine.resume, for a coroutine that moonpad drives.
---@param thread thread
---@return boolean ok
---@return any ... what it yields, returns or raises
function signals.resume(thread)
  depth = depth + 1
  return leave(coroutine.resume(thread))
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

---Refuses to wait in a coroutine of the user's own inside a run: its owner would get what is meant for moonpad, and to
---sleep would hold up everybody.
---@param what string for messages
function signals.checkThread(what)
  if depth == 0 or signals.isOurs() then return end
  core.error("invalid_argument", what .. ": in a run, call it from the coroutine in which the tool, model, callback or "
    .. "agent was called, not from a coroutine of your own")
end

---Refuses to yield where nobody would come back.
---@param what string for messages
function signals.checkYield(what)
  signals.checkThread(what)
  if signals.isOurs() and coroutine.isyieldable() then return end
  core.error("invalid_argument",
    what .. ": Lua cannot leave this place, such as a function that was given to table.sort, and come back later")
end

---Lets others go on where somebody is there to come back; sleeps a little where nobody is.
---@param seconds number? how long at most to sleep; default: a millisecond
function signals.pause(seconds)
  if signals.isOurs() and coroutine.isyieldable() then return coroutine.yield() end
  seconds = seconds or 0.001
  -- What is awaited may be a transfer: its progress ends the sleep.
  local http = package.loaded["moonpad.http"]
  if type(http) == "table" and http.active() > 0 then http.poll(seconds) else core.idle(seconds) end
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
    signals.resume(thread)
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
