--- Which events of a history a summary stands for: the one rule for what models are asked and for
--- session:summary(). The newest summary that rewinds have left counts; it takes in those before.
local compaction = require "moonpad.events.compaction"
local history = require "moonpad.flow.history"

local summaries = {}

-- A rewind that came between looking at the history and storing the summary takes it back: what it
-- tells may not be there any more.
local function isOvertaken(list, position, found)
  if not found.madeAt then return false end
  for other = list:findAfter(found.madeAt), position - 1 do
    if history.rewindTarget(list:at(other)) ~= nil then return true end
  end
  return false
end

---The summary at a position; nil: there is none, or it does not count.
---@param list moonpad.EventList
---@param position integer
---@param event table
---@return moonpad.CompactionOf?
function summaries.at(list, position, event)
  local found = compaction.of(event)
  return found and not isOvertaken(list, position, found) and found or nil
end

local function isWithin(found, others)
  for _, other in ipairs(others) do
    if compaction.contains(other, found) then return true end
  end
  return false
end

local function coveredBy(taken, event)
  for _, found in ipairs(taken) do
    if compaction.covers(found, event) then return found end
  end
  return nil
end

-- One that covers no event that is still there.
local function nextUnseen(taken, isSeen)
  for _, found in ipairs(taken) do
    if not isSeen[found] then
      isSeen[found] = true
      return found
    end
  end
  return nil
end

---Walks over what rewinds and summaries have left of some events, newest first. A summary comes in
---the place of the newest event that it covers.
---@param list moonpad.EventList
---@param last integer? the position to begin at; default: the end
---@return fun(): integer?, table?, moonpad.CompactionOf? next position and event; of a summary 0, nil and what it says
function summaries.newestFirst(list, last)
  local following, taken, isSeen, isOver = history.newestFirst(list, last), {}, {}, false
  return function()
    while not isOver do
      local position, event = following()
      if not position then break end
      local found = compaction.of(event)
      local by = not found and coveredBy(taken, event) or nil
      if found then
        found = summaries.at(list, position, event)
        if found and not isWithin(found, taken) then taken[#taken + 1] = found end
      elseif not by then
        return position, event
      else
        -- All that is still to come is covered as well, and need not be read.
        isOver = by.first ~= nil and by.first <= (list.first or list:at(1).revision)
        if not isSeen[by] then
          isSeen[by] = true
          return 0, nil, by
        end
      end
    end
    isOver = true
    local found = nextUnseen(taken, isSeen)
    if found then return 0, nil, found end
    return nil
  end
end

return summaries
