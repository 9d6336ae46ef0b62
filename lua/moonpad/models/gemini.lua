--- Google's Gemini models (generateContent and streamGenerateContent of the Gemini API).
local answers = require "moonpad.models.answer"
local provider = require "moonpad.models.provider"
local requests = require "moonpad.models.gemini_request"

local gemini = {}

---- Reading answers

---@class moonpad.GeminiAnswer: moonpad.ModelAnswer
local Answer = answers.class()

local COUNTS = {
  "promptTokenCount", "candidatesTokenCount", "totalTokenCount", "cachedContentTokenCount", "thoughtsTokenCount",
  "toolUsePromptTokenCount",
}

local function readUsage(self, usage)
  if type(usage) ~= "table" then return end
  self.usage = {}
  for _, name in ipairs(COUNTS) do
    if type(usage[name]) == "number" then self.usage[name] = usage[name] end
  end
end

local function canGoOn(last, part)
  return last and last.text and part.text and not last.thoughtSignature and not part.thoughtSignature
    and (last.thought or false) == (part.thought or false)
end

-- Text goes on where it stopped; but a part with a signature stays as it is, because the model wants it back like that.
local function addPart(self, part)
  local last = self.parts[#self.parts]
  if canGoOn(last, part) then
    self.texts:add(last, part.text)
  elseif part.text ~= "" or part.thoughtSignature then
    local kept = {}
    for key, value in pairs(part) do kept[key] = value end
    if kept.functionCall and type(kept.functionCall.args) ~= "table" then kept.functionCall.args = {} end
    self.parts[#self.parts + 1] = kept
  end
end

local function readBlock(self, feedback)
  if type(feedback) ~= "table" or type(feedback.blockReason) ~= "string" then return end
  self.errorCode = feedback.blockReason
  self.errorMessage = type(feedback.blockReasonMessage) == "string" and feedback.blockReasonMessage
    or "the prompt was blocked: " .. feedback.blockReason
end

local function readCandidate(self, candidate)
  local shown = {}
  local content = type(candidate.content) == "table" and candidate.content or {}
  for _, part in ipairs(type(content.parts) == "table" and content.parts or {}) do
    addPart(self, part)
    if type(part.text) == "string" and part.text ~= "" then
      shown[#shown + 1] = { text = part.text, thought = part.thought or nil }
    end
  end
  if type(candidate.finishReason) == "string" then self.finishReason = candidate.finishReason end
  if type(candidate.finishMessage) == "string" then self.errorMessage = candidate.finishMessage end
  self.grounding = type(candidate.groundingMetadata) == "table" and candidate.groundingMetadata or self.grounding
  self.citations = type(candidate.citationMetadata) == "table" and candidate.citationMetadata or self.citations
  return #shown > 0 and shown or nil
end

---Takes one object of the stream, or the whole answer.
function Answer:add(object)
  readUsage(self, object.usageMetadata)
  readBlock(self, object.promptFeedback)
  if type(object.modelVersion) == "string" then self.modelVersion = object.modelVersion end
  local candidate = type(object.candidates) == "table" and object.candidates[1]
  return candidate and readCandidate(self, candidate) or nil
end

---@return table response
function Answer:response()
  local response = answers.response(self)
  if not response.errorCode then response.errorMessage = nil end
  response.groundingMetadata, response.citationMetadata = self.grounding, self.citations
  return response
end

---- The provider

local spec = {
  name = "gemini",
  keyVariables = { "GOOGLE_API_KEY", "GEMINI_API_KEY" },
  defaultBase = "https://generativelanguage.googleapis.com/v1beta",
}

local function escape(name)
  return (name:gsub("[^%w%-._~/]", function(byte) return ("%%%02X"):format(byte:byte()) end))
end

function spec.path(model, stream)
  -- A name with a slash says itself which collection it is in: "tunedModels/mine".
  local resource = model:find("/", 1, true) and model or "models/" .. model
  return "/" .. escape(resource) .. (stream and ":streamGenerateContent?alt=sse" or ":generateContent")
end

function spec.headers(apiKey)
  return { ["x-goog-api-key"] = apiKey }
end

function spec.body(request)
  return requests.body(request)
end

function spec.newAnswer()
  return answers.new(Answer)
end

---Makes a Gemini model.
---@param options moonpad.ModelOptions
---@return moonpad.HttpModel
function gemini.new(options)
  return provider.new(spec, options)
end

return gemini
