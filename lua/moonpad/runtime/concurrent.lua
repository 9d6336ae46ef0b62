--- Coroutines of one run side by side: the tool calls of one answer, the branches of a
--- parallel agent.
local sections = require "moonpad.runtime.section"
local signals = require "moonpad.runtime.coroutines"

local groups = {}

local function raise(section, thread, err)
  if debug then
    sections.noteFailure(section, err, debug.traceback(thread, type(err) == "string" and err or nil))
  end
  signals.close(thread)
  error(err, 0)
end

-- One round: everybody goes on until it waits, has published an event (which is handed on at once),
-- or is done.
local function resumeAll(section, threads)
  local isAlive, hasMoved = false, false
  for _, thread in ipairs(threads) do
    if coroutine.status(thread) == "suspended" then
      local ok, signal, event = signals.resumeWithin(thread)
      if not ok then raise(section, thread, signal) end
      if coroutine.status(thread) == "suspended" then
        isAlive = true
        if signal == signals.EVENT then
          hasMoved = true
          signals.emit(event)
        end
      end
    end
  end
  return isAlive, hasMoved
end

local function goOn(section, threads)
  while true do
    local isAlive, hasMoved = resumeAll(section, threads)
    if not isAlive then return end
    if not hasMoved then coroutine.yield() end
  end
end

---Runs the bodies until all are done. When one fails, the others are stopped (they get the error
---`cancelled` where they wait) and the error goes on.
---@param section moonpad.Section of their own
---@param bodies function[]
function groups.run(section, bodies)
  local threads = {}
  for index, body in ipairs(bodies) do
    threads[index] = signals.newThread(body)
    -- Known to the run, so that cancelling it reaches those that wait.
    section.threads[threads[index]] = true
  end
  local ok, err = pcall(goOn, section, threads)
  if not ok then
    section.ending = true
    for _, thread in ipairs(threads) do signals.interrupt(thread, signals.resumeWithin) end
    sections.stop(section)
  end
  for _, thread in ipairs(threads) do section.threads[thread] = nil end
  if not ok then error(err, 0) end
end

return groups
