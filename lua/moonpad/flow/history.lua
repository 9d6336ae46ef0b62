--- The history of a session: reading its events, what rewinds took back of them, and what a run
--- sees of it.
local content = require "moonpad.events.content"
local core = require "moonpad.core"

local history = {}

-- Events between two occasions for others to go on.
history.BATCH = 100

local function at(list, index)
  return list[index]
end

---An event of a list, without nulls in its parts. One that was trimmed away since the session was
---read is one that has nothing to say.
---@param list table the events of a session, or a table of events
---@param index integer
---@return moonpad.Event|{ revision: integer }
function history.read(list, index)
  local ok, event = pcall(at, list, index)
  if ok then
    content.clean(event.content)
    return event
  end
  if core.isError(event) and event.code == "not_found" then return { revision = 0 } end
  error(event, 0)
end

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

---The first of some events that comes after a revision: revisions ascend.
---@param revisionAt fun(index: integer): integer
---@param count integer how many
---@param revision integer
---@return integer index `count + 1` when there is none
function history.firstAfter(revisionAt, count, revision)
  local low, high = 1, count + 1
  while low < high do
    local middle = (low + high) // 2
    if revisionAt(middle) > revision then high = middle else low = middle + 1 end
  end
  return low
end

-- What is known of the events in view: their revisions, where invocations begin, and what
-- rewinds name.
local function survey(list, count, pause)
  local revisions, firstOf, targets, newest = {}, {}, {}, 0
  for index = 1, count do
    local event = history.read(list, index)
    -- One that was trimmed away may stand between others.
    newest = math.max(newest, event.revision or 0)
    revisions[index], targets[index] = newest, history.rewindTarget(event)
    if event.invocationId then firstOf[event.invocationId] = firstOf[event.invocationId] or index end
    if pause and index % history.BATCH == 0 then pause() end
  end
  return { revisions = revisions, firstOf = firstOf, targets = targets }
end

-- Where what the rewind at `index` takes back begins, and whether events that are not in view are
-- among it. No event can name what comes after it: such a rewind takes back itself only.
local function beginning(seen, index)
  local target, revisions = seen.targets[index], seen.revisions
  if type(target) == "number" then
    if target >= revisions[index] then return index, false end
    local first = history.firstAfter(function(position) return revisions[position] end, index, target)
    return first, index - first + 1 < revisions[index] - math.max(target, 0)
  end
  local first = seen.firstOf[target]
  if first and first <= index then return first, false end
  -- An invocation that is not in view lies before, unless all there is can be seen.
  local showsAll = revisions[1] == 1
  return showsAll and index or 1, not showsAll
end

---Which events of a session's end (its last events, or all) rewinds took back, those of the
---rewinds included: a rewind takes back all between it and the first event of the invocation that
---it names, or all after the revision that it names, earlier rewinds as well.
---@param list table the events of a session, or a table of events
---@param count integer how many
---@param pause (fun())? called now and then
---@return table<integer, true> rewound by index
---@return boolean reachesBeyond some have taken back events that are not in view
function history.rewound(list, count, pause)
  local seen = survey(list, count, pause)
  local rewound, reachesBeyond, index = {}, false, count
  while index >= 1 do
    if seen.targets[index] then
      local first, isBeyond = beginning(seen, index)
      reachesBeyond = reachesBeyond or isBeyond
      for position = first, index do rewound[position] = true end
      index = first
    end
    index = index - 1
  end
  return rewound, reachesBeyond
end

---- What a run sees

-- A session object only grows at its end during a run, so what has been read once is kept.
local function readHistory(invocationContext)
  local read, stored = invocationContext.shared.events, invocationContext.session.events
  for index = #read + 1, #stored do read[index] = history.read(stored, index) end
  return read
end

local function withoutRewound(list)
  local rewound, kept = history.rewound(list, #list), {}
  for index, event in ipairs(list) do
    if not rewound[index] then kept[#kept + 1] = event end
  end
  return kept
end

---The events that the run sees of the session, without what has been rewound.
---@param invocationContext moonpad.InvocationContext
---@return moonpad.Event[]
function history.seen(invocationContext)
  local earlier, seen = invocationContext.shared.earlier, withoutRewound(readHistory(invocationContext))
  return table.move(seen, 1, #seen, #earlier + 1, table.move(earlier, 1, #earlier, 1, {}))
end

---Lets a run see events from before its part of the history.
---@param invocationContext moonpad.InvocationContext
---@param list moonpad.Event[]
function history.showEarlier(invocationContext, list)
  invocationContext.shared.earlier = list
end

return history
