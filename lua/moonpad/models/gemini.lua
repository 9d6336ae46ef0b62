--- Google's Gemini models (generateContent and streamGenerateContent of the Gemini API).
local answers = require "moonpad.models.response_builder"
local fields = require "moonpad.models.fields"
local geminiModels = require "moonpad.models.gemini_models"
local provider = require "moonpad.models.http_model"
local requests = require "moonpad.models.gemini_request"

local gemini = { provider = "google" }

---- Reading answers

---@class moonpad.GeminiAnswer: moonpad.ResponseBuilder
---@field grounding table?
---@field citations table?
local Answer = answers.class()

local COUNTS = {
  "promptTokenCount", "candidatesTokenCount", "totalTokenCount", "cachedContentTokenCount", "thoughtsTokenCount",
  "toolUsePromptTokenCount",
}

local function readUsage(self, usage)
  if usage == nil then return end
  self.usage = {}
  for _, name in ipairs(COUNTS) do self.usage[name] = fields.number(usage, name, "usageMetadata") end
end

-- What the objects in a part hold.
local INSIDE = {
  functionCall = { id = fields.string, name = fields.string, args = fields.object },
  functionResponse = { id = fields.string, name = fields.string, response = fields.object },
  inlineData = { mimeType = fields.string, data = fields.string, displayName = fields.string },
  fileData = { mimeType = fields.string, fileUri = fields.string, displayName = fields.string },
  executableCode = { language = fields.string, code = fields.string },
  codeExecutionResult = { outcome = fields.string, output = fields.string },
  toolCall = { id = fields.string, toolType = fields.string, args = fields.object },
  toolResponse = { id = fields.string, toolType = fields.string, response = fields.object },
}

-- Without these they are of no use, and could not be sent back.
local NEEDED = {
  functionCall = { "name" }, functionResponse = { "name" }, inlineData = { "mimeType", "data" },
  fileData = { "fileUri" },
}

local PART = { text = fields.string, thought = fields.boolean, thoughtSignature = fields.string }
for name in pairs(INSIDE) do PART[name] = fields.object end

-- A part as it is kept, with what the API promises and no nulls.
local function readPart(part, path)
  fields.check(part, path, PART)
  local kept = fields.withoutNulls(part)
  for name, readers in pairs(INSIDE) do
    if kept[name] then
      fields.check(kept[name], path .. "." .. name, readers)
      kept[name] = fields.withoutNulls(kept[name])
    end
  end
  for name, needed in pairs(NEEDED) do
    for _, field in ipairs(kept[name] and needed or {}) do
      fields.required(fields.string, kept[name], field, path .. "." .. name)
    end
  end
  if kept.functionCall then kept.functionCall.args = kept.functionCall.args or {} end
  return kept
end

local function canGoOn(last, part)
  return last and last.text and part.text and not last.thoughtSignature and not part.thoughtSignature
    and (last.thought or false) == (part.thought or false)
end

-- Text goes on where it stopped; but a part with a signature stays as it is, because the model
-- wants it back like that.
local function addPart(self, part)
  local last = self.parts[#self.parts]
  if canGoOn(last, part) then
    self.texts:add(last, part.text)
  elseif next(part) ~= nil and (part.text ~= "" or part.thoughtSignature) then
    self.parts[#self.parts + 1] = part
  end
end

local function readBlock(self, feedback)
  local reason = fields.text(feedback, "blockReason", "promptFeedback")
  local message = fields.string(feedback, "blockReasonMessage", "promptFeedback")
  if not reason then return end
  self.errorCode, self.errorMessage = reason, message or "the prompt was blocked: " .. reason
end

local function readCandidate(self, candidate)
  local shown, where = {}, "candidates[1].content"
  local content = fields.object(candidate, "content", "candidates[1]") or {}
  for index, object in ipairs(fields.objects(content, "parts", where)) do
    local part = readPart(object, ("%s.parts[%d]"):format(where, index))
    addPart(self, part)
    if part.text and part.text ~= "" then shown[#shown + 1] = { text = part.text, thought = part.thought or nil } end
  end
  self.finishReason = fields.text(candidate, "finishReason", "candidates[1]") or self.finishReason
  self.errorMessage = fields.string(candidate, "finishMessage", "candidates[1]") or self.errorMessage
  self.grounding = fields.object(candidate, "groundingMetadata", "candidates[1]") or self.grounding
  self.citations = fields.object(candidate, "citationMetadata", "candidates[1]") or self.citations
  return #shown > 0 and shown or nil
end

---Takes one object of the stream, or the whole answer.
function Answer:add(object)
  readUsage(self, fields.object(object, "usageMetadata", ""))
  readBlock(self, fields.object(object, "promptFeedback", "") or {})
  self.modelVersion = fields.string(object, "modelVersion", "") or self.modelVersion
  local candidate = fields.objects(object, "candidates", "")[1]
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

local spec = { name = "gemini", provider = gemini.provider, conversation = "contents" }

local function escape(name)
  return (name:gsub("[^%w%-._~/]", function(byte) return ("%%%02X"):format(byte:byte()) end))
end

function spec.path(call)
  -- A name with a slash says itself which collection it is in: "tunedModels/mine".
  local resource = call.model:find("/", 1, true) and call.model or "models/" .. call.model
  return "/" .. escape(resource) .. (call.stream and ":streamGenerateContent?alt=sse" or ":generateContent")
end

-- What looks like Google's keys of an API is one; anything else, and what a function gives, is a
-- token, which Vertex takes.
local function isToken(call)
  local row = call.settings.provider
  return row and row.name == "vertex" and not call.apiKey:find "^AIza" and not call.apiKey:find "^AQ%."
end

function spec.headers(call)
  if not call.apiKey then return {} end
  if isToken(call) then return { authorization = "Bearer " .. call.apiKey } end
  return { ["x-goog-api-key"] = call.apiKey }
end

function spec.body(request, call)
  return requests.body(request, call)
end

function gemini.takesSchema(settings, _, hasTools)
  -- Together with tools since the third generation.
  return not hasTools or geminiModels.isThird(settings.model)
end
spec.takesSchema = gemini.takesSchema

function spec.newAnswer()
  return answers.new(Answer)
end

---Makes a Gemini model.
---@param options moonpad.ModelOptions
---@param row moonpad.Provider? that the name of the model has said
---@return moonpad.HttpModel
function gemini.new(options, row)
  return provider.new(spec, options, row)
end

return gemini
