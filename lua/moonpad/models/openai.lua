--- Models behind the chat completions API: OpenAI's, and those of the many servers that speak it as well.
local answers = require "moonpad.models.answer"
local core = require "moonpad.core"
local parts = require "moonpad.models.parts"
local provider = require "moonpad.models.provider"
local requests = require "moonpad.models.openai_request"

local openai = {}

local DEFAULT_BASE = "https://api.openai.com/v1"

local FINISH = {
  stop = "STOP", tool_calls = "STOP", function_call = "STOP", length = "MAX_TOKENS", content_filter = "SAFETY",
}

---- Reading answers

---@class moonpad.OpenaiAnswer: moonpad.ModelAnswer
local Answer = answers.class()

local function textIn(value)
  return type(value) == "string" and value ~= "" and value or nil
end

local function present(value)
  if value == core.null then return nil end
  return value
end

local function addThought(self, text, field)
  local part = parts.addText(self.parts, self.texts, text, true)
  part.openai = { field = field }
  return parts.delta(text, true)
end

-- Where a fragment of a call belongs. Some servers give every call the index 0, or no index at all: a new id says that
-- another call begins.
local function slotOf(self, fragment)
  local index = present(fragment.index) or #self.calls - 1
  local id = textIn(fragment.id)
  local slot = self.slots[index]
  if not slot or id and slot.id and slot.id ~= id then
    slot = { pieces = {} }
    self.calls[#self.calls + 1] = slot
    self.slots[index] = slot
  end
  slot.id = slot.id or id
  return slot
end

local function addFragment(self, fragment)
  local slot, call = slotOf(self, fragment), present(fragment["function"]) or {}
  slot.name = slot.name or textIn(call.name)
  local arguments = present(call.arguments)
  -- Arguments are a string on the wire; a few servers send the object itself.
  if type(arguments) == "table" then arguments = core.json.encode(arguments) end
  slot.pieces[#slot.pieces + 1] = textIn(arguments)
end

-- A message, whole or a piece of one. Returns the parts to be shown at once.
local function addMessage(self, message)
  local shown = {}
  for _, field in ipairs { "reasoning_content", "reasoning" } do
    local thought = textIn(message[field])
    if thought then
      shown = addThought(self, thought, field)
      break
    end
  end
  for _, field in ipairs { "content", "refusal" } do
    local text = textIn(message[field])
    if text then
      parts.addText(self.parts, self.texts, text)
      shown[#shown + 1] = { text = text }
      if field == "refusal" then self.isRefused = true end
    end
  end
  for _, fragment in ipairs(present(message.tool_calls) or {}) do addFragment(self, fragment) end
  return #shown > 0 and shown or nil
end

local function numberIn(object, field)
  local value = type(object) == "table" and object[field]
  return type(value) == "number" and value or nil
end

local function readUsage(self, usage)
  if type(usage) ~= "table" then return end
  self.usage = {
    promptTokenCount = usage.prompt_tokens,
    candidatesTokenCount = usage.completion_tokens,
    totalTokenCount = usage.total_tokens,
    cachedContentTokenCount = numberIn(usage.prompt_tokens_details, "cached_tokens")
      or numberIn(usage, "prompt_cache_hit_tokens"),
    thoughtsTokenCount = numberIn(usage.completion_tokens_details, "reasoning_tokens"),
  }
end

---Takes one object of the stream, or the whole answer.
function Answer:add(object)
  readUsage(self, present(object.usage))
  self.modelVersion = textIn(object.model) or self.modelVersion
  local choice = (present(object.choices) or {})[1]
  if not choice then return nil end
  local reason = textIn(choice.finish_reason)
  if reason then self.finishReason = FINISH[reason] or reason:upper() end
  local message = present(choice.delta) or present(choice.message)
  return message and addMessage(self, message)
end

---@return table response
function Answer:response()
  if self.isRefused then self.finishReason = "SAFETY" end
  for _, slot in ipairs(self.calls) do
    self.parts[#self.parts + 1] = {
      functionCall = {
        id = slot.id, name = slot.name or "", args = self:decodeArguments(slot.name, table.concat(slot.pieces)),
      },
    }
  end
  return answers.response(self)
end

---- The provider

local spec = {
  name = "openai",
  keyVariables = { "OPENAI_API_KEY" },
  baseVariable = "OPENAI_BASE_URL",
  defaultBase = DEFAULT_BASE,
}

function spec.path()
  return "/chat/completions"
end

function spec.headers(apiKey)
  return { authorization = apiKey and "Bearer " .. apiKey or nil }
end

function spec.body(request, settings)
  return requests.body(request, {
    stream = settings.stream,
    isOpenai = settings.baseUrl:lower():find "^https://[^/]*%.openai%.com[/:]" ~= nil,
  })
end

function spec.newAnswer()
  local answer = answers.new(Answer)
  answer.calls, answer.slots = {}, {}
  return answer
end

---Makes a model behind the chat completions API.
---@param options moonpad.ModelOptions
---@return moonpad.HttpModel
function openai.new(options)
  return provider.new(spec, options)
end

return openai
