--- A run from the inside: one coroutine that goes on step by step, and everything that must be
--- released when it ends.
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local luaError = require "moonpad.util.lua_error"
local queue = require "moonpad.runtime.run_queue"
local signals = require "moonpad.runtime.coroutines"

local runs = {}

---@class moonpad.Run
---@field id string the invocation id
---@field runner moonpad.Runner
---@field session moonpad.Session once it is this run's turn
---@field userContent moonpad.Content?
---@field branch string? of a parallel agent; a run as a whole has none
---@field isInner boolean of an agent that is a tool: its session ends with the call
---@field counts { llmCalls: integer } shared with the runs of agents that are tools
---@field journal (fun(phase: moonpad.Phase, event: table, commit: fun(): moonpad.Event): moonpad.Event)? notes what is
---stored
---@field transfers integer
---@field toolsets table<moonpad.Agent, moonpad.Toolset>
---@field innerFailure { err: any, traceback: string }? of a coroutine within it
---@field phases table<moonpad.Phase, true> that are open
---@field threads table<thread, true> of tools under way
---@field history moonpad.Event[] read so far
---@field earlier moonpad.Event[] of before it, that the run sees as well
---@field thread thread
---@field status "open"|"done"
---@field ending boolean? code that still runs must stop at the next occasion
---@field waiting boolean? its last step ended in something that waits: a tool, a model, a call that asks a store
---@field asksStore boolean? it ended in the latter
---@field due moonpad.Due tells event loops that a step has something to do, where nothing under way tells them
---@field outbox moonpad.Event[] stored, not yet taken by the owner
---@field failure { err: any, traceback: string }?
---@field consumer { [1]: thread? } (weak) where the loop is that holds its last event

---Puts a run at the end of the line of its session.
---@param run table the fields that are the caller's: id, runner, and what `body` reads
---@param body fun(run: moonpad.Run)
---@param key string names the session within the service
---@return moonpad.Run
function runs.new(run, body, key)
  run.phases, run.threads, run.outbox, run.toolsets = {}, {}, {}, {}
  run.history, run.earlier = {}, {}
  run.counts, run.transfers = run.counts or { llmCalls = 0 }, 0
  run.status, run.due = "open", core.newDue()
  run.thread = signals.newThread(function() body(run) end)
  -- Weak: a loop that has been dropped must not be kept alive by the queue.
  run.consumer = setmetatable({}, { __mode = "v" })
  queue.join(run, run.runner.sessionService, key)
  return run
end

local function finish(run)
  if run.status == "done" then return end
  run.status, run.ending, run.waiting, run.asksStore = "done", true, false, false
  signals.close(run.thread)
  for phase in pairs(run.phases) do contexts.close(phase, "its run has ended") end
  core.setDue(run.due, nil)
  run.leaveQueue()
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
  run.ending = true
  for index = #run.outbox, 1, -1 do run.outbox[index] = nil end
  local threads = {}
  for thread in pairs(run.threads) do threads[#threads + 1] = thread end
  if interrupt then
    for _, thread in ipairs(threads) do signals.interrupt(thread) end
    if run.waiting and #threads == 0 then signals.interrupt(run.thread) end
  end
  for _, thread in ipairs(threads) do signals.close(thread) end
  run.failure = nil
  finish(run)
  core.stepWith(stepper)
end

local function describeFailure(run, err)
  err = luaError.object(err)
  if err == nil then err = core.newError("tool", "a callback or agent of the run: " .. errorText.of(nil)) end
  local text = type(err) == "string" and err or nil
  local failure = { err = err, traceback = debug and debug.traceback(run.thread, text) or text }
  local inner = run.innerFailure
  if inner and rawequal(inner.err, err) then failure.traceback = inner.traceback end
  return failure
end

-- Where memory ends while the error is being described, there is a word for that, too.
local noMemory = { err = luaError.object "not enough memory" }

---Lets the run go on up to its next event (which goes into its outbox), its next wait, or its end.
---@param run moonpad.Run
---@param mayBlock boolean has whoever drives it nothing else to do while a store is asked?
function runs.advance(run, mayBlock)
  local service = run.runner.sessionService
  core.setDue(run.due, nil)
  local ok, signal, event, gaveWay = signals.step(run.thread, not mayBlock and service or nil)
  run.asksStore = ok and signal == signals.STORE
  -- To ask a store is not to give way: code that has cancelled its own run goes on as if it had
  -- not waited.
  if run.isCancelled and not run.asksStore then return stop(run, true) end
  if not ok then
    local described, failure = pcall(describeFailure, run, signal)
    run.failure = described and failure or noMemory
    return finish(run)
  end
  if coroutine.status(run.thread) == "dead" then return finish(run) end
  run.waiting = signal ~= signals.EVENT
  if not run.waiting then
    run.outbox[#run.outbox + 1] = event
  elseif gaveWay then
    core.setDue(run.due, service)
  end
end

---The same on behalf of another run behind it: what its own owner finds at the next step, event
---loops are told.
---@param run moonpad.Run
---@param mayBlock boolean
function runs.advanceFor(run, mayBlock)
  runs.advance(run, mayBlock)
  if #run.outbox > 0 or run.status == "done" then core.setDue(run.due, run.runner.sessionService) end
end

---Ends the run: a tool or model that waits gets the error `cancelled`, what is pending is dropped.
---@param run moonpad.Run
function runs.cancel(run)
  if run.status == "done" then
    run.failure, run.outbox = nil, {}
    core.setDue(run.due, nil)
    return
  end
  run.isCancelled, run.ending = true, true
  -- A run cannot be pulled from under its own feet: whoever steps it ends it, as soon as it
  -- gives way.
  if not runs.isOnStack(run) then stop(run, true) end
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
