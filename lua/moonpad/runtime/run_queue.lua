--- Runs on one session through one service go one after the other, in the order in which they
--- were started.
local core = require "moonpad.core"

local runQueue = {}

-- service -> its lines: session key -> runs. A service that is gone takes its queues along.
local queues = setmetatable({}, { __mode = "k" })

-- service -> runs that are over and have not left their line yet.
local leaving = setmetatable({}, { __mode = "k" })

-- An append that was under way when its run was cancelled is finished before the next run begins,
-- which an event loop is told of where there is one.
local function isDrained(run)
  local session = run.invocationContext.session
  return session == nil or core.isDrained(session, #run.line > 1)
end

local function remove(run, key)
  local service = run.service
  local wasFirst = run.line[1] == run
  for index, other in ipairs(run.line) do
    if other == run then
      table.remove(run.line, index)
      break
    end
  end
  local first = run.line[1]
  if first == nil then
    queues[service][key] = nil
  elseif first.status == "done" then
    first.leaveQueue()
  elseif wasFirst then
    core.setDue(first.due, service)
  end
end

---@param run moonpad.Run
---@param key string
function runQueue.join(run, key)
  local service = run.service
  queues[service], leaving[service] = queues[service] or {}, leaving[service] or {}
  -- Nobody may ever look at their lines again.
  for other in pairs(leaving[service]) do other.leaveQueue() end
  local line = queues[service][key] or {}
  run.line = line
  run.leaveQueue = function()
    leaving[service][run] = true
    if not isDrained(run) then return end
    leaving[service][run] = nil
    remove(run, key)
    run.leaveQueue = function() end
  end
  -- Last: whoever stands in a line must be able to leave it, also where memory has ended
  -- in between.
  queues[service][key] = line
  line[#line + 1] = run
end

---The run whose turn it is in the line of this run; nil while one that was cancelled has an append
---under way.
---@param run moonpad.Run
---@return moonpad.Run?
function runQueue.first(run)
  while run.line[1].status == "done" do
    local over = run.line[1]
    over.leaveQueue()
    if run.line[1] == over then return nil end
  end
  return run.line[1]
end

---Those that come before this run and are not over, in order.
---@param run moonpad.Run
---@return fun(): moonpad.Run?
function runQueue.ahead(run)
  local index = 0
  return function()
    local other
    repeat
      index = index + 1
      other = run.line[index]
    until other == run or other.status ~= "done"
    return other ~= run and other or nil
  end
end

return runQueue
