--- How often tools have failed in a row, per invocation. An invocation that fails or is cancelled
--- is never heard of again: the oldest are forgotten.
local failureCounts = {}

---@class moonpad.FailureCounts
---@field recent table<string, table<string, integer>> invocation id -> tool -> count
---@field older table<string, table<string, integer>>
---@field size integer of `recent`
local FailureCounts = {}
FailureCounts.__index = FailureCounts

-- At least so many invocations are remembered, and at most twice as many.
failureCounts.MAX_INVOCATIONS = 1000

---@return moonpad.FailureCounts
function failureCounts.new()
  return setmetatable({ recent = {}, older = {}, size = 0 }, FailureCounts)
end

---@param invocationId string
---@param tool string
---@return integer count with this failure
function FailureCounts:add(invocationId, tool)
  local counts = self.recent[invocationId]
  if not counts then
    if self.size >= failureCounts.MAX_INVOCATIONS then self.recent, self.older, self.size = {}, self.recent, 0 end
    counts = self.older[invocationId] or {}
    self.recent[invocationId], self.older[invocationId], self.size = counts, nil, self.size + 1
  end
  counts[tool] = (counts[tool] or 0) + 1
  return counts[tool]
end

---The tool has succeeded.
---@param invocationId string
---@param tool string
function FailureCounts:reset(invocationId, tool)
  local counts = self.recent[invocationId] or self.older[invocationId]
  if not counts then return end
  counts[tool] = nil
  if next(counts) == nil then self:forget(invocationId) end
end

---@param invocationId string
function FailureCounts:forget(invocationId)
  if self.recent[invocationId] then self.size = self.size - 1 end
  self.recent[invocationId], self.older[invocationId] = nil, nil
end

return failureCounts
