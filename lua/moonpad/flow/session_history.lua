--- The events that a run sees of its session. Each is read and decoded once, and kept for later
--- runs as long as there is room (history_cache).
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local history = require "moonpad.flow.history"
local historyCache = require "moonpad.flow.history_cache"
local summaries = require "moonpad.flow.summaries"

local sessionHistory = {}

---@class moonpad.SessionHistory: moonpad.EventList
---@field session moonpad.Session
---@field service moonpad.Service
---@field first integer the revision of the first event that the run sees
---@field kept moonpad.KeptHistory
---@field earlier table[] of before that event, which the run sees as well, oldest first
---@field prompts table<string, moonpad.Prompt> what has been made of it, see contents
local SessionHistory = {}
SessionHistory.__index = SessionHistory

---@param session moonpad.Session
---@param service moonpad.Service the session's
---@return moonpad.SessionHistory
function sessionHistory.open(session, service)
  local self = setmetatable({ session = session, service = service, earlier = {} }, SessionHistory)
  self:begin()
  return self
end

function SessionHistory:begin()
  local id, first, timesLost = core.historyOf(self.session)
  local kept = historyCache.use(self.service, id, self.session.revision, timesLost)
  self.first, self.kept, self.prompts = first, kept, kept.prompts
end

-- An append may have found that the store has lost events: they are not seen any more.
function SessionHistory:forgetLost()
  local _, _, timesLost = core.historyOf(self.session)
  if timesLost ~= self.kept.timesLost then self:begin() end
end

---- Events

-- Where there is content, it has parts (tables, as of all stored events) and a role.
local function normalize(event)
  local content = event.content
  if not content then return event end
  if type(content.parts) ~= "table" then
    event.content = nil
  else
    content.role = content.role or (event.author == "user" and "user" or "model")
  end
  return event
end

-- About what Lua takes, in bytes: for what is kept of an event beside its parts, for a table, a
-- field of it, a string.
local BYTES_FOR_EVENT, BYTES_FOR_TABLE, BYTES_FOR_FIELD, BYTES_FOR_STRING = 480, 56, 40, 25

local function memoryOf(value)
  local kind = type(value)
  if kind == "string" then return BYTES_FOR_STRING + #value end
  if kind ~= "table" then return 0 end
  local bytes = BYTES_FOR_TABLE
  for _, item in next, value do bytes = bytes + BYTES_FOR_FIELD + memoryOf(item) end
  return bytes
end

-- A longer event takes longer.
local ORDINARY_BYTES = 512

-- Events are kept in tables of so many. One for all would take long to grow.
local CHUNK_BITS <const> = 7
local CHUNK_MASK <const> = (1 << CHUNK_BITS) - 1

local function keep(events, revision, event)
  local number = revision >> CHUNK_BITS
  local chunk = events[number] or {}
  events[number] = chunk
  chunk[revision & CHUNK_MASK] = event
end

function SessionHistory:read(revision)
  local ok, event, bytes, hasNull = pcall(core.readEvent, self.session, revision)
  local read = normalize(history.cleaned(ok, event, hasNull))
  if ok then
    keep(self.kept.events, revision, read)
    self.kept.last = math.max(self.kept.last, revision)
    historyCache.grow(self.kept, BYTES_FOR_EVENT + memoryOf(read.content and read.content.parts))
    coroutines.keepPace(1 + bytes // ORDINARY_BYTES)
  end
  return read
end

---What is kept of an event: revision, author, branch, content (its parts are tables), and of its
---actions where it rewinds to and whom it hands over to. It must not be changed.
---@param revision integer
---@return table
function SessionHistory:event(revision)
  local chunk = self.kept.events[revision >> CHUNK_BITS]
  local event = chunk and chunk[revision & CHUNK_MASK]
  if not event then return self:read(revision) end
  coroutines.keepPace(0.25)
  return event
end

---The revision of the last event.
---@return integer
function SessionHistory:last()
  self:forgetLost()
  return self.session.revision
end

---- As a list

function SessionHistory:length()
  return self:last() - self.first + 1
end

function SessionHistory:at(position)
  return self:event(self.first + position - 1)
end

function SessionHistory:findAfter(revision)
  return math.max(revision - self.first + 2, 1)
end

function SessionHistory:findInvocation(id)
  local beginnings = self.kept.beginnings
  local revision = beginnings[id] or core.findInvocation(self.session, id)
  beginnings[id] = revision
  return revision and revision - self.first + 1
end

---Walks over what rewinds have left of it, newest first; then over the events from before.
---@return fun(): table?
function SessionHistory:newestFirst()
  local following, index = history.newestFirst(self), #self.earlier + 1
  local isOver = false
  return function()
    if not isOver then
      local _, event = following()
      if event then return event end
      isOver = true
    end
    index = index - 1
    return self.earlier[index]
  end
end

---The last events that rewinds have left of it, oldest first.
---@param count integer how many at most
---@return table[] list
---@return boolean isAll there are no more
function SessionHistory:tail(count)
  local newestFirst, following = {}, self:newestFirst()
  for index = 1, count do newestFirst[index] = following() end
  local list, length = {}, #newestFirst
  for index = 1, length do list[index] = newestFirst[length - index + 1] end
  return list, length < count
end

---Walks over what rewinds and summaries have left of it, newest first, as summaries.newestFirst.
---@return fun(): integer?, table?, moonpad.CompactionOf?
function SessionHistory:withSummaries()
  return summaries.newestFirst(self)
end

local LEAD <const> = "Summary of the conversation so far:\n"

-- What a model sees of a summary: an event without an author of its own.
local function shownSummary(found)
  return {
    revision = found.revision, author = "user", content = { role = "user", parts = { { text = LEAD .. found.text } } },
  }
end

---Calls `each` with all events that rewinds have left of it, oldest first. A summary comes in place
---of the events that it covers.
---@param each fun(event: table)
function SessionHistory:eachEvent(each)
  -- Events without a gap, as positions, the newest first. A list of all would take long to grow.
  local runs, run = {}, { first = 0 }
  for position, _, found in self:withSummaries() do
    if found then
      run = { first = 0, last = -1, summary = found }
      runs[#runs + 1] = run
    else
      if position ~= run.first - 1 then
        run = { last = position }
        runs[#runs + 1] = run
      end
      run.first = position
    end
  end
  for _, event in ipairs(self.earlier) do each(event) end
  for index = #runs, 1, -1 do
    if runs[index].summary then each(shownSummary(runs[index].summary)) end
    for position = runs[index].first, runs[index].last do each(self:at(position)) end
  end
end

---Does the event change what the events before it are to a model: is it a rewind, or a summary?
---@param revision integer
---@return boolean
function SessionHistory:changesEarlier(revision)
  local event = self:event(revision)
  return history.rewindTarget(event) ~= nil or type(event.actions) == "table" and event.actions.compaction ~= nil
end

---The newest summary of a session, as its object knows it.
---@param session moonpad.Session
---@param service moonpad.Service the session's
---@return string? text
function sessionHistory.summaryOf(session, service)
  local whole = service:getSession {
    appName = session.appName, userId = session.userId, sessionId = session.id, numRecentEvents = math.maxinteger,
  }
  if not whole then core.error("not_found", ("session:summary(): session %q does not exist"):format(session.id)) end
  local list = sessionHistory.open(whole, service)
  local last = math.min(session.revision - list.first + 1, list:length())
  for position, event in history.newestFirst(list, last) do
    local found = summaries.at(list, position, event)
    if found then return found.text end
  end
  return nil
end

---Lets the run see events from before its part of the history.
---@param list table[] oldest first
function SessionHistory:showEarlier(list)
  self.earlier, self.prompts = list, {}
end

return sessionHistory
