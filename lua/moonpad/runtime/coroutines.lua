--- The coroutines that moonpad drives, and what they yield to whoever drives them.
---
--- A run is a coroutine: `emit` hands an event out of it; a call that asks a store yields STORE
--- until it is done; moonpad's other waits yield WAIT; every other yield (of a tool, a model) means
--- "waiting" as well, for something that nobody else knows.
local core = require "moonpad.core"
local wakeSources = require "moonpad.runtime.wake_sources"

local coroutines = {}

-- Yielded first, in front of an event. Nobody else has it.
coroutines.EVENT = {}

-- Yielded by the calls of moonpad.core while a worker asks a store for them.
coroutines.STORE = core.ASKS_STORE

-- Yielded by moonpad's own waits, which have noted what they wait for.
coroutines.WAIT = {}

-- Where the step that is being made notes what it waits for; nil where nobody wants to know.
---@type moonpad.Wait?
local wait

-- The coroutines that moonpad drives: "new" until they begin, "asks" while one asks a store, else
-- "begun". In them, waiting means to yield; anywhere else a yield would reach a stranger.
local managed = core.threads

---Makes a coroutine that moonpad drives.
---@param body function
---@return thread
function coroutines.newThread(body)
  local thread
  thread = coroutine.create(function()
    managed[thread] = "begun"
    return body()
  end)
  managed[thread] = "new"
  return thread
end

-- How many of them are being resumed, one within the other: above 0, this is the inside of a run.
local depth = 0

-- Has it yielded what is none of moonpad's?
local function isForeign(thread, ok, signal)
  return ok and signal ~= coroutines.WAIT and signal ~= coroutines.STORE and signal ~= coroutines.EVENT
    and coroutine.status(thread) == "suspended"
end

local function leave(thread, ok, signal, event)
  depth = depth - 1
  managed[thread] = signal == coroutines.STORE and "asks" or "begun"
  if wait and isForeign(thread, ok, signal) then wait.isBlind = true end
  return ok, signal, event
end

---As coroutine.resume, for a coroutine that moonpad drives.
---@param thread thread
---@param answer any what its yield returns
---@return boolean ok
---@return any signal what it yields or raises
---@return moonpad.Event? event
function coroutines.resume(thread, answer)
  depth = depth + 1
  return leave(thread, coroutine.resume(thread, answer))
end

-- Has the step that is being made, or one within it, given way?
local gaveWay = false

-- When the step that is being made began; nil where whoever drives the run has nothing else to do.
local stepBegan

-- Seconds that a step may take before moonpad's own long work gives way, and how much is done
-- between two looks at the clock.
local SLICE, WORK_BETWEEN_LOOKS = 0.0005, 32
local workSinceLook = 0

---The same for the coroutine of a run. Its calls may yield until a store has answered; where
---whoever drives it has nothing else to do meanwhile, they ask on the spot. Within another run,
---whoever drives that one decides.
---@param thread thread
---@param service moonpad.Service? that gets done what they ask; nil: they ask on the spot
---@param notes moonpad.Wait? gets what the step waits for; within another run, that one's does
---@return boolean ok
---@return any signal
---@return moonpad.Event? event
---@return boolean gaveWay in the middle of moonpad's own work, which the next step goes on with
function coroutines.step(thread, service, notes)
  local isOutermost, outerGaveWay = depth == 0, gaveWay
  gaveWay = false
  if isOutermost then
    wait = notes
    core.stepWith(service)
    -- What earlier steps did is none of this one's work: little of it never ends a step.
    stepBegan, workSinceLook = service and core.monotonic(), 0
  end
  local ok, signal, event = coroutines.resume(thread)
  if isOutermost then
    core.stepWith(nil)
    stepBegan, wait = nil, nil
  end
  local innerGaveWay = gaveWay
  gaveWay = outerGaveWay or innerGaveWay
  return ok, signal, event, innerGaveWay
end

---Tells whoever steps the run that a store is being asked; comes back at the next step.
local function passStore()
  if coroutine.yield(coroutines.STORE) == core.CANCEL then error(coroutines.cancelled(), 0) end
end

---As coroutines.resume, for a coroutine within a run. While it asks a store, nothing else of the
---run begins or goes on.
---@param thread thread
---@param answer any
---@return boolean ok
---@return any signal
---@return moonpad.Event? event
function coroutines.resumeWithin(thread, answer)
  local ok, signal, event = coroutines.resume(thread, answer)
  while ok and signal == coroutines.STORE do
    passStore()
    ok, signal, event = coroutines.resume(thread)
  end
  return ok, signal, event
end

---Hands an event to the caller of the run; comes back when the caller asks for the next one.
---@param event moonpad.Event
function coroutines.emit(event)
  coroutine.yield(coroutines.EVENT, event)
end

---@return boolean isManaged whether this is a coroutine that moonpad drives
function coroutines.isManaged()
  return managed[coroutine.running()] ~= nil
end

---@return boolean canYield is somebody there to come back?
function coroutines.canYield()
  return coroutines.isManaged() and coroutine.isyieldable()
end

---Refuses to wait in a coroutine of the user's own inside a run: its owner would get what is meant
---for moonpad, and to sleep would hold up everybody.
---@param what string for messages
function coroutines.checkThread(what)
  if depth == 0 or coroutines.isManaged() then return end
  core.error("invalid_argument", what .. ": in a run, call it from the coroutine in which the tool, model, callback or "
    .. "agent was called, not from a coroutine of your own")
end

---Refuses to yield where nobody would come back.
---@param what string for messages
function coroutines.checkYield(what)
  coroutines.checkThread(what)
  if coroutines.canYield() then return end
  core.error("invalid_argument",
    what .. ": Lua cannot leave this place, such as a function that was given to table.sort, and come back later")
end

---Waits, in a coroutine that moonpad drives, until one of these is there. Without any of them, for
---what has been noted already in this step.
---@param deadline number? (core.monotonic)
---@param job { isReady: fun(self): boolean }? that knows when it has something to tell
function coroutines.wait(deadline, job)
  if wait then
    if deadline then wait:untilTime(deadline) end
    if job then wait:forJob(job) end
  end
  coroutine.yield(coroutines.WAIT)
end

---Waits until the descriptor of the service tells something; others of the run go on meanwhile.
---@param deadline number? (core.monotonic)
function coroutines.waitForService(deadline)
  if not coroutines.canYield() then return coroutines.pause() end
  if wait then wait.asksStore = true end
  coroutines.wait(deadline)
end

---Lets others go on where somebody is there to come back, until there is news; sleeps a little
---where nobody is.
---@param seconds number? how long at most to sleep; default: a millisecond
---@param asksStore boolean? a store is being asked: nothing else of this run goes on meanwhile
function coroutines.pause(seconds, asksStore)
  seconds = seconds or 0.001
  if coroutines.canYield() then
    if asksStore then return passStore() end
    if wait then wait.isForNews = true end
    return coroutines.wait(core.monotonic() + seconds)
  end
  -- What is awaited may be a transfer or a child process: its progress ends the sleep.
  if not asksStore and wakeSources.isActive() then
    wakeSources.wait(seconds)
  else
    core.idle(seconds)
  end
end

---Waits so long: others go on meanwhile where somebody is there to come back; else the thread
---sleeps.
---@param seconds number
function coroutines.sleep(seconds)
  if not coroutines.canYield() then return core.sleep(seconds) end
  local deadline = core.monotonic() + seconds
  repeat coroutines.wait(deadline) until core.monotonic() >= deadline
end

---Called for each piece of a long work of moonpad's own: ends the step where it has taken long
---enough. As while a store is asked, nothing else of this run goes on before the work does. Where
---nobody has anything else to do meanwhile, it goes on at once.
---@param work integer? how much has been done: 1 (the default) is what an event of ordinary size takes
function coroutines.keepPace(work)
  workSinceLook = workSinceLook + (work or 1)
  if workSinceLook < WORK_BETWEEN_LOOKS then return end
  workSinceLook = 0
  if not stepBegan or core.monotonic() - stepBegan < SLICE then return end
  if not coroutines.canYield() then return end
  gaveWay = true
  passStore()
end

---@return table error what a tool or model gets that is still waiting when its run ends
function coroutines.cancelled()
  return core.newError("cancelled", "the run has been cancelled")
end

local function raiseCancelled()
  debug.sethook()
  error(coroutines.cancelled(), 0)
end

---Makes a suspended coroutine go on with the error `cancelled` (its code may catch it to clean
---up), and closes it.
---@param thread thread
---@param resume fun(thread: thread, answer: any)? coroutines.resumeWithin, where the run goes on and can wait for a
---store
function coroutines.interrupt(thread, resume)
  resume = resume or coroutines.resume
  -- What has not begun has nothing to clean up.
  if coroutine.status(thread) == "suspended" and managed[thread] ~= "new" then
    if managed[thread] == "asks" then
      resume(thread, core.CANCEL)
    elseif debug and debug.sethook then
      -- Only a hook can raise an error where a coroutine waits: as its yield returns, so that a
      -- pcall around it sees it.
      debug.sethook(thread, raiseCancelled, "r")
      resume(thread)
      debug.sethook(thread)
    end
  end
  coroutines.close(thread)
end

---Closes a coroutine, so that its to-be-closed variables run. They cannot yield: a store is asked
---on the spot.
---@param thread thread
function coroutines.close(thread)
  local status = coroutine.status(thread)
  if status ~= "suspended" and status ~= "dead" then return end
  local stepper = core.stepWith(nil)
  coroutine.close(thread)
  core.stepWith(stepper)
end

return coroutines
