--- Function responses that come later than in the turn of their call, as a model is shown them: the
--- call and its answer as if nothing had come between them, so that the request ends with what the
--- model is to go on from.
local events = require "moonpad.events.event"

local lateAnswers = {}

local function idsIn(event, field)
  local ids = {}
  for _, part in ipairs(events.parts(event)) do
    local id = part[field] and part[field].id
    if id ~= nil then ids[id] = true end
  end
  return ids
end

local function addIds(ids, event, field)
  for id in pairs(idsIn(event, field)) do ids[id] = true end
end

local function shareAny(left, right)
  for id in pairs(left) do
    if right[id] then return true end
  end
  return false
end

-- To confirm a call is to answer it: its answer follows. The call was made before the request.
-- Returns how many requests of the event the message answers.
local function addConfirmed(answered, message, event)
  local count = 0
  for _, confirmed in ipairs(message.confirmed or {}) do
    if confirmed.id and confirmed.request == event then answered[confirmed.id], count = true, count + 1 end
  end
  return count
end

local function confirmsAny(event, ids)
  for _, confirmed in ipairs(event.confirmed or {}) do
    if confirmed.id and ids[confirmed.id] then return true end
  end
  return false
end

---Does an event answer any call, or confirm that one is to run?
---@param event table that a model would see
---@return boolean
function lateAnswers.answersAny(event)
  return event.confirmed ~= nil or next(idsIn(event, "functionResponse")) ~= nil
end

---The latest event before an answer with a call that it answers; nil where there is none in sight.
---@param list table[] events that a model would see
---@param last integer where the answer is
---@param isFromOther fun(event: table): boolean events of other agents are retold, and call nothing
---@return integer? index
function lateAnswers.findCall(list, last, isFromOther)
  if not lateAnswers.answersAny(list[last]) then return nil end
  local answered = idsIn(list[last], "functionResponse")
  for index = last - 1, 1, -1 do
    addConfirmed(answered, list[last], list[index])
    local called = not isFromOther(list[index]) and idsIn(list[index], "functionCall") or {}
    if shareAny(called, answered) then return index end
  end
  return nil
end

---The earliest event before an answer with a call that it answers; nil where none is in sight.
---@param list table[] events that a model would see
---@param last integer where the answer is
---@param isFromOther fun(event: table): boolean
---@return integer? index
function lateAnswers.findFirstCall(list, last, isFromOther)
  if not lateAnswers.answersAny(list[last]) then return nil end
  local open, requested, first = idsIn(list[last], "functionResponse"), #(list[last].confirmed or {}), nil
  for index = last - 1, 1, -1 do
    local event = list[index]
    requested = requested - addConfirmed(open, list[last], event)
    for id in pairs(not isFromOther(event) and idsIn(event, "functionCall") or {}) do
      if open[id] then open[id], first = nil, index end
    end
    if next(open) == nil and requested == 0 then break end
  end
  return first
end

-- What an event between says to calls before it: an interim answer, that of a call beside it, or of
-- an earlier one.
local function onlyAnswers(event, called)
  local parts = {}
  for _, part in ipairs(events.parts(event)) do
    if part.functionResponse and called[part.functionResponse.id] then parts[#parts + 1] = part end
  end
  if #parts == 0 and not event.confirmed then return nil end
  return {
    author = event.author, branch = event.branch, content = { role = event.content.role, parts = parts },
    confirmed = event.confirmed,
  }
end

---Some events with calls, and what is said to these calls behind them.
---@param list moonpad.Event[]
---@param callers table<moonpad.Event, true> of these
---@return table[]
function lateAnswers.withAnswers(list, callers)
  local called, kept = {}, {}
  for _, event in ipairs(list) do
    if callers[event] then
      kept[#kept + 1] = event
      addIds(called, event, "functionCall")
    else
      kept[#kept + 1] = onlyAnswers(event, called)
    end
  end
  return kept
end

-- Where the message stands that has confirmed calls which the last event answers; nil where it
-- answers calls that have been made since.
local function findConfirming(list, isFromOther)
  local answered = idsIn(list[#list], "functionResponse")
  for index = #list - 1, 1, -1 do
    local event = list[index]
    if confirmsAny(event, answered) then return index end
    if not isFromOther(event) and shareAny(idsIn(event, "functionCall"), answered) then return nil end
  end
  return nil
end

-- Follows a history: which ids mean calls that are shown. A later call may have taken an id over.
local function follow(meant, event, isShown)
  for id in pairs(idsIn(event, "functionCall")) do meant.calls[id] = isShown or nil end
  for _, request in ipairs(event.requests or {}) do
    meant.requests[request.requestId] = meant.calls[request.functionCall.id] or false
  end
  for _, confirmed in ipairs(event.confirmed or {}) do
    -- Nil: another agent was asked about.
    local isCallShown = meant.requests[confirmed.requestId]
    if confirmed.id and isCallShown ~= nil then meant.calls[confirmed.id] = isCallShown or nil end
  end
end

---Where the last event answers an earlier call, what was said since that call is left out. What the
---user said when confirming the call stays.
---@param list table[] events that a model would see
---@param isFromOther fun(event: table): boolean
---@return table[] list
function lateAnswers.joined(list, isFromOther)
  local last = list[#list]
  if not last or isFromOther(last) or not lateAnswers.answersAny(last) then return list end
  local confirming = findConfirming(list, isFromOther)
  local index = lateAnswers.findCall(list, confirming or #list, isFromOther)
  if not index or index == #list - 1 then return list end
  local kept, meant = {}, { calls = {}, requests = {} }
  for position = 1, #list - 1 do
    local event, isOwn = list[position], not isFromOther(list[position])
    if isOwn then follow(meant, event, position <= index) end
    if position <= index or position == confirming or event.requests then
      kept[#kept + 1] = event
    elseif isOwn then
      kept[#kept + 1] = onlyAnswers(event, meant.calls)
    end
  end
  kept[#kept + 1] = list[#list]
  return kept
end

local function areKnown(requests, called)
  for _, request in ipairs(requests) do
    local id = request.functionCall.id
    if id and not called[id] then return false end
  end
  return true
end

-- Notes the calls of an event, and tells whether those that it answers were noted before.
local function answersNoted(event, called)
  local isNoted = true
  for _, part in ipairs(events.parts(event)) do
    local call, response = part.functionCall, part.functionResponse
    local made = call and (call.id or call.name)
    if made then called[made] = true end
    if response and not called[response.id or response.name] then isNoted = false end
  end
  return isNoted
end

---Does the end of a history tell all that is needed of the events in it? It does not where one of
---`shown` (from one on) answers a call that was made before, or where a request for a confirmation,
---or the answer to one, is about what was before.
---@param visible table[] events that a model would see
---@param shown table[] the same as `joined` has left them
---@param first integer of `shown`
---@param isFromOther fun(event: table): boolean
---@return boolean
function lateAnswers.isComplete(visible, shown, first, isFromOther)
  local called = {}
  for _, event in ipairs(visible) do
    if not isFromOther(event) then
      if event.answersUnknown or not areKnown(event.requests or {}, called) then return false end
      answersNoted(event, called)
    end
  end
  called = {}
  for index, event in ipairs(shown) do
    if not isFromOther(event) and not answersNoted(event, called) and index >= first then return false end
  end
  return true
end

return lateAnswers
