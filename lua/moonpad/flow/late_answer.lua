--- Answers that come late: others have talked since the call. The model is shown the call and
--- its answer as if nothing had come between them, so that the request ends with what it is to
--- go on from.
local events = require "moonpad.events.event"

local lateAnswer = {}

local function idsIn(event, field)
  local ids = {}
  for _, part in ipairs(events.parts(event)) do
    local id = part[field] and part[field].id
    if id ~= nil then ids[id] = true end
  end
  return ids
end

local function shareAny(left, right)
  for id in pairs(left) do
    if right[id] then return true end
  end
  return false
end

---The latest event before an answer with a call that it answers; nil where there is none in sight.
---@param list table[] events that a model would see
---@param last integer where the answer is
---@param isOthers fun(event: table): boolean events of other agents are retold, and call nothing
---@return integer? index
---@return table<string, true>? called the ids of all its calls
function lateAnswer.findCall(list, last, isOthers)
  local answered = idsIn(list[last], "functionResponse")
  if next(answered) == nil then return nil end
  for index = last - 1, 1, -1 do
    local called = not isOthers(list[index]) and idsIn(list[index], "functionCall") or {}
    if shareAny(called, answered) then return index, called end
  end
  return nil
end

-- What an event between says to the same calls: an interim answer, or that of a call beside it.
local function onlyAnswers(event, called)
  local parts = {}
  for _, part in ipairs(events.parts(event)) do
    if part.functionResponse and called[part.functionResponse.id] then parts[#parts + 1] = part end
  end
  if #parts == 0 then return nil end
  return { author = event.author, branch = event.branch, content = { role = event.content.role, parts = parts } }
end

---Some events with calls, and what is said to these calls behind them.
---@param list moonpad.Event[]
---@param callers table<moonpad.Event, true> of these
---@return table[]
function lateAnswer.withAnswers(list, callers)
  local called, kept = {}, {}
  for _, event in ipairs(list) do
    if callers[event] then
      kept[#kept + 1] = event
      for id in pairs(idsIn(event, "functionCall")) do called[id] = true end
    else
      kept[#kept + 1] = onlyAnswers(event, called)
    end
  end
  return kept
end

---Where the last event answers an earlier call, what was said since that call is left out.
---@param list table[] events that a model would see
---@param isOthers fun(event: table): boolean
---@return table[] list
function lateAnswer.joined(list, isOthers)
  if #list == 0 or isOthers(list[#list]) then return list end
  local index, called = lateAnswer.findCall(list, #list, isOthers)
  if not index or index == #list - 1 then return list end
  local kept = table.move(list, 1, index, 1, {})
  for between = index + 1, #list - 1 do
    if not isOthers(list[between]) then kept[#kept + 1] = onlyAnswers(list[between], called) end
  end
  kept[#kept + 1] = list[#list]
  return kept
end

return lateAnswer
