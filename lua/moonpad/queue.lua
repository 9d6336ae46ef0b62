--- Runs on one session through one service go one after the other, in the order in which they were started.
local queue = {}

-- service -> (session key -> runs). A service that is gone takes its queues along.
local queues = setmetatable({}, { __mode = "k" })

---@param run moonpad.Run
---@param service moonpad.Service
---@param key string
function queue.join(run, service, key)
  queues[service] = queues[service] or {}
  local line = queues[service][key] or {}
  queues[service][key] = line
  line[#line + 1] = run
  run.leaveQueue = function()
    for index, other in ipairs(line) do
      if other == run then
        table.remove(line, index)
        break
      end
    end
    if #line == 0 then queues[service][key] = nil end
    run.leaveQueue = function() end
  end
  run.line = line
end

---The run whose turn it is in the line of this run.
---@param run moonpad.Run
---@return moonpad.Run
function queue.first(run)
  return run.line[1]
end

---Those that come before this run, in order.
---@param run moonpad.Run
---@return fun(): moonpad.Run?
function queue.ahead(run)
  local index = 0
  return function()
    index = index + 1
    local other = run.line[index]
    return other ~= run and other or nil
  end
end

return queue
