--- Models of OpenAI's, and of the many servers that speak its chat completions as well. What is
--- special to its other API is in moonpad.models.openai_responses.
local answers = require "moonpad.models.response_builder"
local calls = require "moonpad.models.openai_calls"
local details = require "moonpad.models.openai_details"
local fields = require "moonpad.models.fields"
local openaiModels = require "moonpad.models.openai_models"
local parts = require "moonpad.models.parts"
local provider = require "moonpad.models.http_model"
local providers = require "moonpad.models.providers"
local requests = require "moonpad.models.openai_request"
local responses = require "moonpad.models.openai_responses"

local openai = { provider = "openai" }

local FINISH = {
  stop = "STOP", tool_calls = "STOP", function_call = "STOP", length = "MAX_TOKENS", content_filter = "SAFETY",
}

---- Reading answers

---@class moonpad.OpenaiAnswer: moonpad.ResponseBuilder
---@field calls moonpad.OpenaiCalls
---@field details moonpad.OpenaiDetails
---@field extra table? what Google's server gave with the message
---@field isRefused boolean?
local Answer = answers.class()

local function addThought(self, text, field)
  local part = parts.addText(self.parts, self.texts, text, true)
  if field then part.openai = { field = field } end
  return parts.delta(text, true)
end

local function addText(self, shown, text)
  if not text then return end
  parts.addText(self.parts, self.texts, text)
  shown[#shown + 1] = { text = text }
end

-- Content as a list of parts, as some servers give it. Thoughts in it are lists of
-- parts themselves.
local function addContentParts(self, shown, content, path)
  for index, part in ipairs(fields.objects(content, "content", path)) do
    local where = ("%s.content[%d]"):format(path, index)
    local kind = fields.string(part, "type", where)
    if kind == "thinking" then
      for number, thought in ipairs(fields.objects(part, "thinking", where)) do
        local text = fields.text(thought, "text", ("%s.thinking[%d]"):format(where, number))
        if text then table.move(addThought(self, text, "thinking"), 1, 1, #shown + 1, shown) end
      end
    elseif kind == "text" then
      addText(self, shown, fields.text(part, "text", where))
    end
  end
end

-- Google's server gives signatures beside the text, and marks thoughts there. An answer with a
-- signature was marked as well: it is none.
local function readExtra(self, message, path)
  local extra = fields.object(message, "extra_content", path)
  local google = extra and fields.object(extra, "google", path .. ".extra_content")
  if not google then return false end
  if google.thought_signature then self.extra = extra end
  return google.thought == true and not google.thought_signature
end

local function addString(self, shown, message, path)
  local text, isThought = fields.text(message, "content", path), readExtra(self, message, path)
  if text and isThought then return addThought(self, text, nil) end
  addText(self, shown, text)
  return shown
end

-- A message, whole or a piece of one. Returns the parts to be shown at once.
local function addMessage(self, message, path, isWhole)
  local shown = {}
  for _, field in ipairs { "reasoning_content", "reasoning" } do
    local thought = fields.text(message, field, path)
    if thought then
      shown = addThought(self, thought, field)
      break
    end
  end
  if type(message.content) == "table" then
    addContentParts(self, shown, message, path)
  else
    shown = addString(self, shown, message, path)
  end
  self.details:add(fields.objects(message, "reasoning_details", path), path .. ".reasoning_details")
  local refusal = fields.text(message, "refusal", path)
  addText(self, shown, refusal)
  self.isRefused = self.isRefused or refusal ~= nil
  self.calls:add(fields.objects(message, "tool_calls", path), path .. ".tool_calls", isWhole)
  return #shown > 0 and shown or nil
end

-- DeepSeek, Mistral and Moonshot have names of their own.
local function firstCount(usage, names)
  for _, name in ipairs(names) do
    local count = fields.number(usage, name, "usage")
    if count then return count end
  end
end

local function readUsage(self, usage)
  if usage == nil then return end
  local prompt = fields.object(usage, "prompt_tokens_details", "usage") or {}
  local completion = fields.object(usage, "completion_tokens_details", "usage") or {}
  self.usage = {
    promptTokenCount = fields.number(usage, "prompt_tokens", "usage"),
    candidatesTokenCount = fields.number(usage, "completion_tokens", "usage"),
    totalTokenCount = fields.number(usage, "total_tokens", "usage"),
    cachedContentTokenCount = fields.number(prompt, "cached_tokens", "usage.prompt_tokens_details")
      or firstCount(usage, { "prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens" }),
    thoughtsTokenCount = fields.number(completion, "reasoning_tokens", "usage.completion_tokens_details"),
  }
end

-- Groq's streams may have the counts in a place of their own.
local function usageOf(object)
  local groq = object.usage == nil and fields.object(object, "x_groq", "")
  return fields.object(groq or object, "usage", groq and "x_groq" or "")
end

---Takes one object of the stream, or the whole answer.
function Answer:add(object)
  readUsage(self, usageOf(object))
  self.modelVersion = fields.text(object, "model", "") or self.modelVersion
  local choice = fields.objects(object, "choices", "")[1]
  if not choice then return nil end
  local reason = fields.text(choice, "finish_reason", "choices[1]")
  if reason then self.finishReason = FINISH[reason] or reason:upper() end
  local delta = fields.object(choice, "delta", "choices[1]")
  if delta then return addMessage(self, delta, "choices[1].delta", false) end
  local message = fields.object(choice, "message", "choices[1]")
  return message and addMessage(self, message, "choices[1].message", true)
end

-- Where there are no thoughts to read, there may still be some to be sent back.
local function keepDetails(self)
  local list = self.details:whole()
  if not list then return end
  local first = self.parts[1]
  if not first or not first.thought then
    first = { text = "", thought = true }
    table.insert(self.parts, 1, first)
  end
  first.openai = { details = list }
end

-- What is to be sent back with the message stands in its first part that is no thought.
local function keepGiven(self)
  keepDetails(self)
  for _, part in ipairs(self.extra and self.parts or {}) do
    if not part.thought then
      part.openai = part.openai or {}
      part.openai.message_extra_content = self.extra
      return
    end
  end
end

function Answer:isEmpty()
  return #self.parts == 0 and #self.calls == 0
end

---@return table response
function Answer:response()
  if self.isRefused then self.finishReason = "SAFETY" end
  for _, call in ipairs(self.calls:list()) do
    self.parts[#self.parts + 1] = {
      functionCall = { id = call.id, name = call.name, args = self:decodeArguments(call.name, call.arguments) },
      openai = call.extra and { extra_content = call.extra } or nil,
    }
  end
  keepGiven(self)
  return answers.response(self)
end

---- The provider

local spec = { name = "openai", provider = openai.provider, apis = true, conversation = "messages" }

function spec.path()
  return "/chat/completions"
end

-- Azure takes a key in a header of its own, and tokens as everybody does.
function spec.headers(call)
  local settings = call.settings
  if not call.apiKey then return {} end
  local isKey = type(settings.apiKey) == "string"
  if isKey and settings.provider and settings.provider.name == "azure" then return { ["api-key"] = call.apiKey } end
  return { authorization = "Bearer " .. call.apiKey }
end

function spec.body(request, call)
  return requests.body(request, call)
end

openai.takesSchema = requests.takesSchema
spec.takesSchema = openai.takesSchema

function spec.newAnswer()
  local answer = answers.new(Answer)
  answer.calls, answer.details = calls.new(), details.new()
  return answer
end

---- Which of OpenAI's two APIs

local responsesSpec = responses.adapter(spec.headers, spec.takesSchema)

-- Only OpenAI's own server is known to have the newer one. What is wrong with the options is said
-- by whoever reads them.
local function apiOf(options, row)
  if type(options) ~= "table" then return "chat" end
  if options.api ~= nil then return options.api end
  local model, baseUrl = options.model, options.baseUrl
  if type(model) ~= "string" then return "chat" end
  if baseUrl == nil then baseUrl = providers.addressOf(row or providers.named "openai", model) end
  local server = type(baseUrl) == "string" and providers.ofAddress(baseUrl)
  return server and server.name == "openai" and openaiModels.needsResponses(model) and "responses" or "chat"
end

---Makes a model behind one of the APIs of OpenAI.
---@param options moonpad.ModelOptions
---@param row moonpad.Provider? that the name of the model has said
---@return moonpad.HttpModel
function openai.new(options, row)
  return provider.new(apiOf(options, row) == "responses" and responsesSpec or spec, options, row)
end

return openai
