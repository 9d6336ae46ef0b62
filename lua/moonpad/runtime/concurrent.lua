--- Coroutines of one run side by side: the tool calls of one answer, the branches of a
--- parallel agent.
local coroutines = require "moonpad.runtime.coroutines"

local concurrent = {}

local function raise(context, thread, err)
  if debug then
    context:noteFailure(err, debug.traceback(thread, type(err) == "string" and err or nil))
  end
  coroutines.close(thread)
  error(err, 0)
end

-- One round: everybody goes on until it waits, has published an event (which is handed on at once),
-- or is done.
local function resumeAll(context, threads)
  local isAlive, hasProgressed = false, false
  for _, thread in ipairs(threads) do
    if coroutine.status(thread) == "suspended" then
      local ok, signal, event = coroutines.resumeWithin(thread)
      if not ok then raise(context, thread, signal) end
      if coroutine.status(thread) == "suspended" then
        isAlive = true
        if signal == coroutines.EVENT then
          hasProgressed = true
          coroutines.emit(event)
        end
      end
    end
  end
  return isAlive, hasProgressed
end

local function driveAll(context, threads)
  while true do
    local isAlive, hasProgressed = resumeAll(context, threads)
    if not isAlive then return end
    if not hasProgressed then coroutines.wait() end
  end
end

---Runs the bodies until all are done. When one fails, the others are stopped (they get the error
---`cancelled` where they wait) and the error goes on.
---@param context moonpad.InvocationContext a child of their own
---@param bodies function[]
function concurrent.run(context, bodies)
  local threads = {}
  for index, body in ipairs(bodies) do
    threads[index] = coroutines.newThread(body)
    -- Known to the run, so that cancelling it reaches those that wait.
    context:noteThread(threads[index], true)
  end
  local ok, err = pcall(driveAll, context, threads)
  if not ok then
    context:setEnding()
    for _, thread in ipairs(threads) do coroutines.interrupt(thread, coroutines.resumeWithin) end
    context:stop "its agent has been stopped"
  end
  for _, thread in ipairs(threads) do context:noteThread(thread, false) end
  if not ok then error(err, 0) end
end

return concurrent
