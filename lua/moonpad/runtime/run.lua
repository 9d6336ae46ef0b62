--- A run from the inside: one coroutine that goes on step by step, and everything that must be
--- released when it ends. What it is about stands in its invocation context.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local errorText = require "moonpad.util.error_text"
local luaError = require "moonpad.util.lua_error"
local runQueue = require "moonpad.runtime.run_queue"

local runs = {}

---@class moonpad.Run
---@field invocationContext moonpad.InvocationContext
---@field service moonpad.Service on whose sessions it runs
---@field thread thread
---@field status "open"|"done"
---@field isCancelled boolean?
---@field waiting boolean? its last step ended in something that waits: a tool, a model, a call that asks a store
---@field asksStore boolean? it ended in the latter, or gave way in long work of moonpad's own
---@field due moonpad.Due tells event loops that a step has something to do, where nothing under way tells them
---@field outbox moonpad.Event[] stored, not yet taken by the owner
---@field failure { err: any, traceback: string }?
---@field consumer { [1]: thread? } (weak) where the loop is that holds its last event
---@field line moonpad.Run[] of its session, see run_queue
---@field leaveQueue fun()
---@field number integer those started later have higher ones

-- runner -> its runs that are not over.
local openRuns = setmetatable({}, { __mode = "k" })
local count = 0

local function register(run)
  count = count + 1
  run.number = count
  local runner = run.invocationContext.runner
  openRuns[runner] = openRuns[runner] or {}
  openRuns[runner][run] = true
end

---Puts a run at the end of the line of its session.
---@param invocationContext moonpad.InvocationContext
---@param body fun(invocationContext: moonpad.InvocationContext)
---@param key string names the session within the service
---@return moonpad.Run
function runs.new(invocationContext, body, key)
  local run = {
    invocationContext = invocationContext, service = invocationContext.sessionService, outbox = {},
    status = "open", due = core.newDue(),
    thread = coroutines.newThread(function() body(invocationContext) end),
    -- Weak: a loop that has been dropped must not be kept alive by the queue.
    consumer = setmetatable({}, { __mode = "v" }),
  }
  runQueue.join(run, key)
  register(run)
  return run
end

local function finish(run)
  if run.status == "done" then return end
  run.status, run.waiting, run.asksStore = "done", false, false
  coroutines.close(run.thread)
  run.invocationContext:stop "its run has ended"
  core.setDue(run.due, nil)
  run.leaveQueue()
  openRuns[run.invocationContext.runner][run] = nil
end

local function isActive(thread)
  local status = coroutine.status(thread)
  return status == "running" or status == "normal"
end

---Is the run being stepped right now, further down this stack?
---@param run moonpad.Run
---@return boolean
function runs.isOnStack(run)
  return isActive(run.thread)
end

---Is the run suspended in a loop that is further down this stack (and so cannot go on before
---we return)?
---@param run moonpad.Run
---@return boolean
function runs.isHeldByLoop(run)
  local consumer = run.consumer[1]
  return consumer ~= nil and isActive(consumer)
end

local function stop(run, interrupt)
  -- Nobody comes back to what ends: what its code still asks of a store, it asks on the spot.
  local stepper = core.stepWith(nil)
  run.invocationContext:setEnding()
  for index = #run.outbox, 1, -1 do run.outbox[index] = nil end
  local threads = run.invocationContext:threads()
  if interrupt then
    for _, thread in ipairs(threads) do coroutines.interrupt(thread) end
    if run.waiting and #threads == 0 then coroutines.interrupt(run.thread) end
  end
  for _, thread in ipairs(threads) do coroutines.close(thread) end
  run.failure = nil
  finish(run)
  core.stepWith(stepper)
end

local function describeFailure(run, err)
  err = luaError.object(err)
  if err == nil then err = core.newError("tool", "a callback or agent of the run: " .. errorText.of(nil)) end
  local text = type(err) == "string" and err or nil
  local failure = { err = err, traceback = debug and debug.traceback(run.thread, text) or text }
  failure.traceback = run.invocationContext:tracebackOf(err) or failure.traceback
  return failure
end

-- Where memory ends while the error is being described, there is a word for that, too.
local noMemory = { err = luaError.object "not enough memory" }

---Lets the run go on up to its next event (which goes into its outbox), its next wait, or its end.
---@param run moonpad.Run
---@param mayBlock boolean has whoever drives it nothing else to do while a store is asked?
function runs.advance(run, mayBlock)
  core.setDue(run.due, nil)
  local ok, signal, event, gaveWay = coroutines.step(run.thread, not mayBlock and run.service or nil)
  run.asksStore = ok and signal == coroutines.STORE
  -- To ask a store is not to give way: code that has cancelled its own run goes on as if it had
  -- not waited.
  if run.isCancelled and not run.asksStore then return stop(run, true) end
  if not ok then
    local described, failure = pcall(describeFailure, run, signal)
    run.failure = described and failure or noMemory
    return finish(run)
  end
  if coroutine.status(run.thread) == "dead" then return finish(run) end
  run.waiting = signal ~= coroutines.EVENT
  if not run.waiting then
    run.outbox[#run.outbox + 1] = event
  elseif gaveWay then
    core.setDue(run.due, run.service)
  end
end

---The same on behalf of another run behind it: what its own owner finds at the next step, event
---loops are told.
---@param run moonpad.Run
---@param mayBlock boolean
function runs.advanceFor(run, mayBlock)
  runs.advance(run, mayBlock)
  if #run.outbox > 0 or run.status == "done" then core.setDue(run.due, run.service) end
end

---Ends the run: a tool or model that waits gets the error `cancelled`, what is pending is dropped.
---@param run moonpad.Run
function runs.cancel(run)
  if run.status == "done" then
    run.failure, run.outbox = nil, {}
    core.setDue(run.due, nil)
    return
  end
  run.isCancelled = true
  run.invocationContext:setEnding()
  -- A run cannot be pulled from under its own feet: whoever steps it ends it, as soon as it
  -- gives way.
  if not runs.isOnStack(run) then stop(run, true) end
end

---The runs of a runner that are not over, those that were started last first: so each ends before
---the ones that it waits for.
---@param runner moonpad.Runner
---@return moonpad.Run[]
function runs.of(runner)
  local list = {}
  for run in pairs(openRuns[runner] or {}) do list[#list + 1] = run end
  table.sort(list, function(a, b) return a.number > b.number end)
  return list
end

---Ends a run that nobody can reach any more. Called by the garbage collector: no code of the run
---may go on.
---@param run moonpad.Run
function runs.abandon(run)
  core.setDue(run.due, nil)
  if run.status == "done" or runs.isOnStack(run) then return end
  run.isCancelled = true
  stop(run, false)
end

return runs
