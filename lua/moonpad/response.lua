--- What models and model callbacks answer, brought into one form: `{ content = { role = "model", parts }, ... }`.
local content = require "moonpad.content"
local copy = require "moonpad.copy"
local core = require "moonpad.core"
local errorText = require "moonpad.error_text"
local events = require "moonpad.event"
local luaError = require "moonpad.lua_error"

local responses = {}

---@class moonpad.Response
---@field content moonpad.Content?
---@field partial boolean?
---@field usageMetadata table?
---@field finishReason string?
---@field errorCode string?
---@field errorMessage string?

-- What a response may hold: what ADK's has (live sessions apart).
local FIELDS = {
  "content", "partial", "turnComplete", "interrupted", "errorCode", "errorMessage", "finishReason", "usageMetadata",
  "modelVersion", "customMetadata", "groundingMetadata", "citationMetadata", "cacheMetadata", "avgLogprobs",
  "logprobsResult", "inputTranscription", "outputTranscription", "interactionId",
}
-- Fields that an event gets from the run, not from the model: an event may be given as a response, without them.
local OWN = { id = true, invocationId = true, author = true, timestamp = true, actions = true, branch = true }

local function checkFields(value, where, code)
  local given = {}
  for field in pairs(value) do
    if not OWN[field] then given[field] = true end
  end
  local ok, err = pcall(core.checkFields, given, where, FIELDS)
  if ok then return end
  luaError.passOn(err)
  core.error(code or "invalid_argument",
    err.message .. "; a response is a string, or { content = { parts = { { text = ... } } }, ... }")
end

---@param value string|table a response, a Content, or a text
---@param where string for messages
---@param code string? of the error when it is none of these
---@return moonpad.Response
function responses.normalize(value, where, code)
  if type(value) == "string" then return { content = content.normalize(value, "model", where) } end
  if type(value) ~= "table" then
    core.error(code or "invalid_argument",
      ("%s: expected a response (a table) or a string, got %s"):format(where, type(value)))
  end
  if value.content == nil and type(value.parts) == "table" then
    return { content = content.normalize(value, "model", where) }
  end
  checkFields(value, where, code)
  local response = copy(value)
  -- What went wrong is told in the words of others.
  local said = response.errorMessage
  if type(said) == "string" then response.errorMessage = errorText.valid(said) end
  if response.content ~= nil then response.content = content.normalize(response.content, "model", where) end
  return response
end

---Is there anything in it that is worth an event of its own?
---@param response moonpad.Response
---@return boolean
function responses.isEmpty(response)
  return content.isEmpty(response.content) and response.errorCode == nil and not response.interrupted
end

local function sameKind(part, other)
  return part and part.text and other.text and (part.thought or false) == (other.thought or false)
end

---Adds the parts of a partial response to those that came before it; text goes on where it stopped.
---@param parts table[]
---@param response moonpad.Response
function responses.accumulate(parts, response)
  for _, part in ipairs(response.content and response.content.parts or {}) do
    local last = parts[#parts]
    if sameKind(last, part) then
      last.text = last.text .. part.text
    else
      parts[#parts + 1] = copy(part)
    end
  end
end

---Gives the calls of an event that have no id one of their own.
---@param event table
function responses.nameCalls(event)
  for _, part in ipairs(not event.partial and events.parts(event) or {}) do
    local call = type(part) == "table" and part.functionCall
    if type(call) == "table" and (call.id == nil or call.id == "") then call.id = "moonpad-" .. core.uuid4() end
  end
end

---The event that carries a response.
---@param response moonpad.Response
---@return table event
function responses.toEvent(response)
  local event = {}
  for field, value in pairs(response) do
    if not OWN[field] then event[field] = value end
  end
  responses.nameCalls(event)
  return event
end

return responses
