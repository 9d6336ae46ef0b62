--- An invocation: a run as its owner sees it. `run` loops, `step`, `wait` and `cancel` are faces of
--- the same thing.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local runQueue = require "moonpad.runtime.run_queue"
local runs = require "moonpad.runtime.run"

local invocations = {}

---@class moonpad.Invocation
---@field invocationId string
---@field sessionId string
---@field traceback string? of the error that ended it
local Invocation = { __name = "moonpad.invocation" }
Invocation.__index = Invocation

-- invocation -> run. The queue knows runs only: an invocation that is dropped is collected, and its
-- run ended.
local runOf = setmetatable({}, { __mode = "k" })

local function runOfSelf(self, method)
  local run = runOf[self]
  if run == nil then
    core.error("invalid_argument", ("invocation:%s(...): call it with a colon, not with a dot"):format(method))
  end
  return run
end

-- Takes the next event, or the end: (event), (nil, true) when it is over, nothing when there is
-- none yet.
local function take(self, run)
  if #run.outbox > 0 then return table.remove(run.outbox, 1) end
  if run.status ~= "done" then return nil, false end
  local failure = run.failure
  if failure then
    run.failure = nil
    self.traceback = failure.traceback
    error(failure.err, 0)
  end
  return nil, true
end

local function findObstacle(run)
  if runs.isOnStack(run) then return "it is waited for by its own tool or callback" end
  for other in runQueue.ahead(run) do
    if runs.isOnStack(other) then
      return "a run on this session is ahead of it, and is waiting for this very call"
    elseif runs.isHeldByLoop(other) then
      return "a run on this session is ahead of it, in a loop that cannot go on before this call returns"
    end
  end
  return nil
end

-- A run that can never come gets an error instead of waiting for ever.
local function checkReachable(run)
  if not findObstacle(run) then return end
  -- The obstacle may be a loop that somebody has dropped and that has not been collected yet.
  collectgarbage()
  local obstacle = findObstacle(run)
  if not obstacle then return end
  runs.cancel(run)
  core.error("busy", "this run can never begin: " .. obstacle)
end

-- How long to sleep between two looks: nothing at first, then longer and longer.
local SHORTEST, LONGEST = 0.0002, 0.01

local function nextSleep(seconds, deadline)
  seconds = math.min(seconds == 0 and SHORTEST or seconds * 2, LONGEST)
  return deadline and math.max(math.min(seconds, deadline - core.monotonic()), 0) or seconds
end

-- Within another run, what was just stepped has noted what it waits for.
local function rest(first, seconds, deadline)
  local asksStore = not first or first.asksStore
  if asksStore or not coroutines.canYield() then return coroutines.pause(seconds, asksStore) end
  coroutines.wait(deadline)
end

-- Blocks until there is an event or the end, stepping the runs that are ahead.
local function block(self, run, deadline)
  core.setDue(run.due, nil)
  local seconds = 0
  while true do
    local event, isOver = take(self, run)
    if event ~= nil or isOver then return event end
    checkReachable(run)
    local first = runQueue.first(run)
    if first == run then
      runs.advance(run, deadline == nil)
    elseif first then
      runs.advanceFor(first, deadline == nil)
    end
    if #run.outbox == 0 and run.status ~= "done" then
      if deadline and core.monotonic() >= deadline then return "waiting" end
      if not first or first.waiting then
        rest(first, seconds, deadline)
        seconds = nextSleep(seconds, deadline)
      end
    end
  end
end

---Lets it go on without waiting for a model, a tool or another writer. An error of the run is
---raised here.
---@return moonpad.Event|"waiting"|nil event nil when it is done
function Invocation:step()
  local run = runOfSelf(self, "step")
  core.setDue(run.due, nil)
  local event, isOver = take(self, run)
  if event ~= nil or isOver then return event end
  if runQueue.first(run) ~= run or runs.isOnStack(run) then return "waiting" end
  runs.advance(run, false)
  event, isOver = take(self, run)
  if event == nil and not isOver then return "waiting" end
  return event
end

---Gives way, in a coroutine that moonpad drives, until the next step has something to do.
---@param deadline number? (core.monotonic)
function Invocation:giveWay(deadline)
  local run = runOfSelf(self, "giveWay")
  -- Whose turn has come is told as who has an answer of a store.
  if run.asksStore or runQueue.first(run) ~= run then return coroutines.waitForService(deadline) end
  coroutines.wait(deadline)
end

---Waits for the next event, stepping the runs that are ahead of this one.
---@param seconds number? how long at most; without it, as long as it takes
---@return moonpad.Event|"waiting"|nil event nil when it is done
function Invocation:wait(seconds)
  local run = runOfSelf(self, "wait")
  if seconds ~= nil and type(seconds) ~= "number" then
    core.error("invalid_argument", "invocation:wait(seconds): expected a number, got " .. type(seconds))
  end
  return block(self, run, seconds and core.monotonic() + seconds)
end

---Ends it. What is stored stays, everything else is rolled back.
function Invocation:cancel()
  runs.cancel(runOfSelf(self, "cancel"))
end

function Invocation:__close()
  local run = runOf[self]
  if run.status ~= "done" then runs.cancel(run) end
end

-- A coroutine that is dropped unfinished never runs its to-be-closed variables; this is what
-- releases its run.
function Invocation:__gc()
  local run = runOf[self]
  if run then runs.abandon(run) end
end

---@param run moonpad.Run
---@return moonpad.Invocation
function invocations.new(run)
  local self = setmetatable({
    invocationId = run.invocationContext.id, sessionId = run.invocationContext.sessionId,
  }, Invocation)
  runOf[self] = run
  return self
end

---The values of a generic `for`: leaving the loop in any way cancels what is left.
---@param self moonpad.Invocation
---@return fun(): moonpad.Event?
---@return nil
---@return nil
---@return moonpad.Invocation closing
function invocations.iterate(self)
  local function nextEvent()
    local run = runOf[self]
    run.consumer[1] = nil
    local event = block(self, run)
    if event ~= nil then run.consumer[1] = coroutine.running() end
    return event
  end
  return nextEvent, nil, nil, self
end

return invocations
