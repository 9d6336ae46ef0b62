--- What rewinds took back of a history: the one rule for prompts, the memory service and the
--- command.
local content = require "moonpad.events.content"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"

local history = {}

---Events by position, 1 being the oldest: all of a session's, or the last ones.
---@class moonpad.EventList
---@field length fun(self): integer
---@field at fun(self, position: integer): moonpad.Event
---@field findInvocation fun(self, id: string): integer? where an invocation begins; below 1: before the list
---@field findAfter fun(self, revision: integer): integer where the events after a revision begin

---What an event rewinds to: before an invocation (its id), or after a revision; nil when it is
---no rewind.
---@param event table
---@return string|integer|nil
function history.rewindTarget(event)
  if type(event.actions) ~= "table" then return nil end
  local invocationId, revision = event.actions.rewindBeforeInvocationId, event.actions.rewindToRevision
  if type(invocationId) == "string" then return invocationId end
  return type(revision) == "number" and math.tointeger(revision) or nil
end

-- Where what the rewind at `position` takes back begins, and whether events before the list are
-- among it. No event can name what comes after it: such a rewind takes back itself only.
local function beginning(list, position, revision, target)
  if type(target) == "number" then
    if target >= revision then return position, false end
    local first = list:findAfter(target)
    return first, position - first + 1 < revision - math.max(target, 0)
  end
  local first = list:findInvocation(target)
  if first and first <= position then return math.max(first, 1), first < 1 end
  -- An invocation that is not in the list lies before, unless all there is can be seen.
  local showsAll = list:at(1).revision == 1
  return showsAll and position or 1, not showsAll
end

---Walks over what rewinds have left of some events, newest first. A rewind takes back all between
---it and the first event of the invocation that it names, or all after the revision that it names,
---earlier rewinds as well.
---@param list moonpad.EventList
---@param last integer? the position to begin at; default: the end
---@return fun(): integer?, moonpad.Event?, boolean? next position, event, and whether more than the list shows has been
---taken back on the way; the last is also given with the end
function history.newestFirst(list, last)
  local position, reachesBeyond = last or list:length(), false
  return function()
    while position >= 1 do
      local here, event = position, list:at(position)
      local target = history.rewindTarget(event)
      position = position - 1
      if target == nil then return here, event, reachesBeyond end
      local first, isBeyond = beginning(list, here, event.revision, target)
      position, reachesBeyond = first - 1, reachesBeyond or isBeyond
    end
    return nil, nil, reachesBeyond
  end
end

---Which events of a list rewinds have left.
---@param list moonpad.EventList
---@return table<integer, true> kept by position
---@return boolean reachesBeyond rewinds have taken back more than the list shows
function history.kept(list)
  local kept, following = {}, history.newestFirst(list)
  while true do
    local position, _, reachesBeyond = following()
    if position == nil then return kept, reachesBeyond end
    kept[position] = true
  end
end

---- Events of a session object, or in a table

local function itemOf(events, position)
  return events[position]
end

---An event, without nulls in its parts. One that was trimmed away since the session was read is one
---that has nothing to say.
---@param ok boolean whether it could be read
---@param event any the event, or the error
---@param hasNull boolean? false: there are none
---@return moonpad.Event|{ revision: integer }
function history.cleaned(ok, event, hasNull)
  if ok then
    if hasNull ~= false then content.clean(event.content) end
    return event
  end
  if core.isError(event) and event.code == "not_found" then return { revision = 0 } end
  error(event, 0)
end

local SessionEvents = {}
SessionEvents.__index = SessionEvents

---The events of a session, read anew whenever they are asked for.
---@param events table `session.events`, or a table like it
---@return moonpad.EventList
function history.ofEvents(events)
  return setmetatable({ events = events, count = #events }, SessionEvents)
end

function SessionEvents:length()
  return self.count
end

function SessionEvents:at(position)
  coroutines.keepPace()
  return history.cleaned(pcall(itemOf, self.events, position))
end

-- One that was trimmed away may stand between others.
local function revisionAt(self, position)
  local revision
  repeat
    revision, position = self:at(position).revision or 0, position - 1
  until revision > 0 or position < 1
  return revision
end

function SessionEvents:findAfter(revision)
  -- Revisions ascend.
  local low, high = 1, self.count + 1
  while low < high do
    local middle = (low + high) // 2
    if revisionAt(self, middle) > revision then high = middle else low = middle + 1 end
  end
  return low
end

function SessionEvents:findInvocation(id)
  if not self.beginnings then
    self.beginnings = {}
    for position = self.count, 1, -1 do
      local invocationId = self:at(position).invocationId
      if invocationId ~= nil then self.beginnings[invocationId] = position end
    end
  end
  return self.beginnings[id]
end

return history
