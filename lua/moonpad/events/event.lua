--- What an event can tell about itself.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local shown = require "moonpad.util.shown"

---What has happened: a message, an answer, a tool call, its result, a change of state. Fields that
---moonpad does not know are kept.
---@class moonpad.Event
---@field id string? unique in its session; default: a UUIDv7
---@field invocationId string? of the run that it belongs to
---@field author string? "user", or the name of an agent
---@field timestamp number? seconds since 1970
---@field content moonpad.Content? what was said
---@field actions moonpad.Actions? what it does
---@field partial boolean? a piece of an answer that is streamed; it is not stored
---@field turnComplete boolean? the model says that its turn is over
---@field interrupted boolean? the model was interrupted
---@field errorCode string? what went wrong in the model
---@field errorMessage string?
---@field finishReason string? why the model stopped
---@field usageMetadata moonpad.UsageMetadata? what the answer cost
---@field branch string? of the agents that run side by side, "team.writer"
---@field longRunningToolIds string[]? ids of its calls whose answers come later
---@field customMetadata table? of your own; moonpad puts `toolErrors` there
---@field revision integer? of the session after this event; absent on an event that was never stored
---@field removedStateKeys string[]? in stored JSON: the keys that its stateDelta deletes
local methods = core.eventMethods

local event = {}

-- An event that was made by hand may hold anything in the place of a part.
local function parts(self)
  local content, list = self.content, {}
  for _, part in ipairs(type(content) == "table" and type(content.parts) == "table" and content.parts or {}) do
    if type(part) == "table" then list[#list + 1] = part end
  end
  return list
end

local function checkSelf(self, method)
  if type(self) == "table" then return end
  core.error("invalid_argument", ("event:%s(): call it with a colon, not with a dot"):format(method))
end

local function isSet(value)
  return value ~= nil and value ~= false and value ~= core.null
end

local function collect(self, field)
  local found = {}
  for _, part in ipairs(parts(self)) do
    if isSet(part[field]) then found[#found + 1] = part[field] end
  end
  return found
end

---Does the event hold a function call or a function response?
---@param self table an event, or a table like one
---@return boolean
function event.holdsCallOrResponse(self)
  for _, part in ipairs(parts(self)) do
    if isSet(part.functionCall) or isSet(part.functionResponse) then return true end
  end
  return false
end

-- Of any self: LuaLS does not see that `event ~= "waiting"` rules out the text that
-- invocation:step() may give.

---The function calls in this event, in order.
---@param self any
---@return moonpad.FunctionCall[]
function methods.functionCalls(self)
  checkSelf(self, "functionCalls")
  return collect(self, "functionCall")
end

---The function responses in this event, in order.
---@param self any
---@return moonpad.FunctionResponse[]
function methods.functionResponses(self)
  checkSelf(self, "functionResponses")
  return collect(self, "functionResponse")
end

---The text of this event without the model's thoughts; `""` when there is none.
---@param self any
---@return string
function methods.text(self)
  checkSelf(self, "text")
  local texts = {}
  for _, part in ipairs(parts(self)) do
    if type(part.text) == "string" and not isSet(part.thought) then texts[#texts + 1] = part.text end
  end
  return table.concat(texts)
end

---Is this the answer to the user (and not a step on the way, or a mere change of state)?
---@param self any
---@return boolean
function methods.isFinalResponse(self)
  checkSelf(self, "isFinalResponse")
  local actions, longRunning = self.actions, self.longRunningToolIds
  if type(actions) == "table" and isSet(actions.skipSummarization) then return true end
  if type(longRunning) == "table" and next(longRunning) ~= nil then return true end
  local list = parts(self)
  if #list == 0 or isSet(self.partial) or event.holdsCallOrResponse(self) then return false end
  return not isSet(list[#list].codeExecutionResult)
end

---Does the event hold a non-thought text part? (Its text may be empty.)
---@param self table an event, or a table like one
---@return boolean
function event.hasText(self)
  for _, part in ipairs(parts(self)) do
    if type(part.text) == "string" and not isSet(part.thought) then return true end
  end
  return false
end

event.isFinalResponse = methods.isFinalResponse
event.text = methods.text
event.parts = parts

---- As text

local SHOWN_CHARACTERS = 2000

-- Its user may have put anything into it.
getmetatable(core.newEvent { author = "moonpad" }).__tostring = function(self)
  local ok, text = pcall(core.json.encode, self)
  if not ok then text = ("(no JSON: %s)"):format(errorText.of(text)) end
  return "moonpad.event " .. shown.cut(text, SHOWN_CHARACTERS)
end

---Makes an event out of a plain table (a copy, with the methods of events).
---@param fields table
---@return moonpad.Event
function event.new(fields)
  return core.newEvent(fields)
end

return event
