--- What models and model callbacks answer, brought into one form: `{ content = { role = "model",
--- parts }, ... }`.
local content = require "moonpad.events.content"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local errorText = require "moonpad.util.error_text"
local events = require "moonpad.events.event"
local fields = require "moonpad.schema.fields"
local luaError = require "moonpad.util.lua_error"
local merged = require "moonpad.util.merged"

local llmResponses = {}

---What a model answers. A text, a part, a list of parts or a Content stands for one.
---@class moonpad.Response
---@field content moonpad.ContentLike? what it says and calls
---@field partial boolean? a piece of an answer that goes on
---@field turnComplete boolean? its turn is over
---@field interrupted boolean? it was interrupted
---@field errorCode string? what went wrong
---@field errorMessage string?
---@field finishReason string? why it stopped: "STOP", "MAX_TOKENS", "SAFETY", ...
---@field usageMetadata moonpad.UsageMetadata? what the answer cost
---@field modelVersion string? which model has answered
---@field customMetadata table? of your own
---@field groundingMetadata table? of the provider, as the next five
---@field citationMetadata table?
---@field cacheMetadata table?
---@field avgLogprobs number?
---@field logprobsResult table?
---@field inputTranscription table?
---@field outputTranscription table?
---@field interactionId string?

---Tokens, by Gemini's names, whatever the provider calls them.
---@class moonpad.UsageMetadata
---@field promptTokenCount integer?
---@field candidatesTokenCount integer?
---@field totalTokenCount integer?
---@field cachedContentTokenCount integer?
---@field thoughtsTokenCount integer?

local function contentOf(value, where)
  return content.normalize(value, "model", where)
end

-- What went wrong is told in the words of others.
local function validText(value, where)
  if type(value) ~= "string" then fields.refuse(where, "expected a string, got " .. fields.describe(value)) end
  return errorText.valid(value)
end

-- What a response may hold: what ADK's has (live sessions apart).
local FIELDS = fields.new {
  { "content", contentOf },
  { "partial", "boolean" },
  { "turnComplete", "boolean" },
  { "interrupted", "boolean" },
  { "errorCode", "string" },
  { "errorMessage", validText },
  { "finishReason", "string" },
  { "usageMetadata", "table" },
  { "modelVersion" },
  { "customMetadata" },
  { "groundingMetadata" },
  { "citationMetadata" },
  { "cacheMetadata" },
  { "avgLogprobs" },
  { "logprobsResult" },
  { "inputTranscription" },
  { "outputTranscription" },
  { "interactionId" },
}:describes "moonpad.Response"
-- Fields that an event gets from the run, not from the model: an event may be given as a response,
-- without them.
local OWN = { id = true, invocationId = true, author = true, timestamp = true, actions = true, branch = true }

local WITH_PARTS = table.move(content.PART_FIELDS, 1, #content.PART_FIELDS, #FIELDS.names + 1,
  table.move(FIELDS.names, 1, #FIELDS.names, 1, {}))
local FORMS = "; a response is a string, a part such as { text = ... }, a list of parts, or "
  .. "{ content = { parts = { ... } }, ... }"

local function checkNames(response, where)
  local ok, err = pcall(FIELDS.checkNames, FIELDS, response, where)
  if ok then return end
  luaError.passOn(err)
  -- Lua's own: the C stack is at its end.
  if not core.isError(err) then error(err, 0) end
  -- A part that is misspelt, most likely.
  local isPartly, nearer = pcall(core.checkFields, response, where, WITH_PARTS)
  if not isPartly and not core.isError(nearer) then error(nearer, 0) end
  core.error("invalid_argument", (isPartly and err or nearer).message .. FORMS)
end

---@param value moonpad.ResponseLike
---@param where string for messages
---@return moonpad.Response
local function normalize(value, where)
  if type(value) == "string" then return { content = content.normalize(value, "model", where) } end
  if type(value) ~= "table" then
    core.error("invalid_argument", ("%s: expected a response (a table) or a string, got %s"):format(where, type(value)))
  end
  local response = copy(value)
  content.dropNulls(response)
  if response.content == nil and (type(response.parts) == "table" or content.isBare(response)) then
    return { content = content.normalize(response, "model", where) }
  end
  for name in pairs(OWN) do response[name] = nil end
  checkNames(response, where)
  return FIELDS:read(response, where)
end

---What a model or a model's callback may answer.
---@alias moonpad.ResponseLike moonpad.ContentLike|moonpad.Response

llmResponses.normalize = normalize

-- Whatever else would be refused as an event later on.
local function checkStorable(response, where)
  local ok, err = pcall(core.newEvent, response)
  if ok then return end
  luaError.passOn(err)
  core.error("invalid_argument", ("%s: %s"):format(where, errorText.of(err)))
end

-- So many bytes are checked in the time that an event of ordinary size takes elsewhere.
local ORDINARY_BYTES = 1024

-- A picture of megabytes takes its time, and what comes then takes some, too: a step may end
-- between.
local function keepPace(response)
  local bytes = 0
  for _, part in ipairs(response.content and response.content.parts or {}) do
    local data = part.inlineData and part.inlineData.data
    bytes = bytes + (type(data) == "string" and #data or 0)
  end
  if bytes > 0 then coroutines.keepPace(1 + bytes // ORDINARY_BYTES) end
end

---The same for what a model has answered: what is wrong with it is the error `model`.
---@param value any
---@param where string for messages
---@return moonpad.Response
function llmResponses.ofModel(value, where)
  local ok, result = pcall(function()
    local response = normalize(value, where)
    checkStorable(response, where)
    return response
  end)
  if ok then
    keepPace(result)
    return result
  end
  luaError.passOn(result)
  if core.isError(result) and result.code == "invalid_argument" then core.error("model", result.message) end
  return error(result, 0)
end

---Does it say nothing at all?
---@param response moonpad.Response
---@return boolean
function llmResponses.isEmpty(response)
  return content.isEmpty(response.content) and response.errorCode == nil and not response.interrupted
end

local function sameKind(part, other)
  return part and type(part.text) == "string" and type(other.text) == "string"
    and (part.thought or false) == (other.thought or false)
end

---Adds the parts of a partial response to those that came before it; text goes on where it stopped.
---@param parts table[]
---@param texts moonpad.GrowingTexts to be joined at the end
---@param response moonpad.Response
function llmResponses.accumulate(parts, texts, response)
  for _, part in ipairs(response.content and response.content.parts or {}) do
    local last = parts[#parts]
    if sameKind(last, part) then
      texts:add(last, part.text)
    else
      parts[#parts + 1] = copy(part)
    end
  end
end

---Is there more in these parts than blank text, with which streams like to end?
---@param parts table[]
---@return boolean
function llmResponses.saysMore(parts)
  for _, part in ipairs(parts) do
    if type(part.text) ~= "string" or part.text:find "%S" then return true end
  end
  return false
end

---An id for a function call.
---@param session moonpad.Session
---@return string
function llmResponses.newCallId(session)
  return "moonpad-" .. core.uuid4(session)
end

---Gives the calls of an event that have no id one of their own.
---@param event table
---@param session moonpad.Session
function llmResponses.nameCalls(event, session)
  for _, part in ipairs(not event.partial and events.parts(event) or {}) do
    local call = type(part) == "table" and part.functionCall
    if type(call) == "table" and (call.id == nil or call.id == "") then call.id = llmResponses.newCallId(session) end
  end
end

---The event that carries a response.
---@param response moonpad.Response
---@param session moonpad.Session
---@return table event
function llmResponses.toEvent(response, session)
  local event = merged(response)
  llmResponses.nameCalls(event, session)
  return event
end

return llmResponses
