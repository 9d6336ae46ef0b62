--- Compaction events: a summary that stands for earlier events in what a model is asked (contract
--- 5). They have ADK's shape, `actions.compaction`, which says by times what is covered. Two events
--- may have the same time, so ours also say it by revisions, in `customMetadata.compaction`.
local content = require "moonpad.events.content"

local compaction = {}

---What a compaction event says.
---@class moonpad.CompactionOf
---@field text string the summary
---@field startTime number? ADK's: the timestamps of the first and the last event that it covers
---@field endTime number?
---@field first integer? ours: their revisions
---@field last integer?
---@field madeAt integer? the session's revision that it was made from
---@field revision integer of the event itself

local function textOf(said)
  local texts = {}
  local isList = type(said) == "table" and type(said.parts) == "table"
  for _, part in ipairs(isList and said.parts or {}) do
    if type(part) == "table" and type(part.text) == "string" and not part.thought then texts[#texts + 1] = part.text end
  end
  return table.concat(texts)
end

local function number(value) return type(value) == "number" and value or nil end

---@param event table as session_history keeps it, or an event
---@return moonpad.CompactionOf? nil: it is no compaction, or says nothing
function compaction.of(event)
  local said = type(event.actions) == "table" and event.actions.compaction
  if type(said) ~= "table" then return nil end
  local text = textOf(said.compactedContent)
  if not text:find "%S" then return nil end
  local exact = type(event.customMetadata) == "table" and event.customMetadata.compaction
  exact = type(exact) == "table" and exact or {}
  return {
    text = text, startTime = number(said.startTimestamp), endTime = number(said.endTimestamp),
    first = math.tointeger(exact.startRevision), last = math.tointeger(exact.endRevision),
    madeAt = math.tointeger(exact.revision), revision = event.revision,
  }
end

---Does it cover an event?
---@param self moonpad.CompactionOf
---@param event table as session_history keeps it
---@return boolean
function compaction.covers(self, event)
  if event.revision >= self.revision then return false end
  if self.first and self.last then return event.revision >= self.first and event.revision <= self.last end
  local time = event.timestamp
  if not (time and self.startTime and self.endTime) then return false end
  return time >= self.startTime and time <= self.endTime
end

---Does it cover all that another one covers?
---@param self moonpad.CompactionOf
---@param other moonpad.CompactionOf
---@return boolean
function compaction.contains(self, other)
  if self.first and self.last and other.first and other.last then
    return other.first >= self.first and other.last <= self.last
  end
  if not (self.startTime and self.endTime and other.startTime and other.endTime) then return false end
  return other.startTime >= self.startTime and other.endTime <= self.endTime
end

---The event of a summary, to be appended.
---@param summary { text: string, first: table, last: table, madeAt: integer } the first and the last event covered
---@return table
function compaction.event(summary)
  return {
    author = "user",
    actions = {
      compaction = {
        startTimestamp = summary.first.timestamp, endTimestamp = summary.last.timestamp,
        compactedContent = content.normalize(summary.text, "model", "summary"),
      },
    },
    customMetadata = {
      compaction = {
        startRevision = summary.first.revision, endRevision = summary.last.revision, revision = summary.madeAt,
      },
    },
  }
end

return compaction
