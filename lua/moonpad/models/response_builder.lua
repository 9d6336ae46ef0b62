--- An answer while it comes in: what every adapter collects, and the response that it ends as.
local core = require "moonpad.core"
local growingText = require "moonpad.flow.growing_text"

local answers = {}

---@class moonpad.ResponseBuilder
---@field parts table[] so far
---@field texts moonpad.GrowingTexts of the parts; joined in the response
---@field usage table?
---@field finishReason string? once the provider has given one
---@field isOver boolean? the provider has said that nothing more comes
---@field errorCode string?
---@field errorMessage string?
---@field modelVersion string?
---@field add fun(self, object: table): table[]? takes one object of the stream, or the whole; what to show at once
---@field isEmpty fun(self): boolean has nothing come that the model has said or called?
---@field response fun(self): table
---@field continued (fun(self, body: table): table?)? the body that asks for the rest of an answer that its provider
---has paused, to be added to this one; nil: it is over
---@field decodeArguments fun(self, name: string?, text: string): table|string

local Base = {}
Base.__index = Base

---Is there enough of it to be an answer?
function Base:isComplete()
  return self.finishReason ~= nil or self.errorCode ~= nil
end

---Has nothing come that the model has said or called?
function Base:isEmpty()
  return #self.parts == 0
end

---The arguments of a call. What is no JSON stays a string: the runner tells the model, which can
---do better.
---@param name string?
---@param text string
---@return table|string
function Base:decodeArguments(name, text)
  if not text:find "%S" then return {} end
  local ok, args = pcall(core.json.decode, text)
  if ok and type(args) == "table" then return args end
  if self.finishReason == "MAX_TOKENS" then
    core.error("model", ("the arguments of the call of %s were cut off, because the answer may not be longer; "
      .. "raise config.maxOutputTokens"):format(name or "a function"))
  end
  return text
end

---Makes the class of an adapter's answers.
---@return table
function answers.class()
  local class = setmetatable({}, Base)
  class.__index = class
  return class
end

---@generic T: moonpad.ResponseBuilder
---@param class T
---@return T
function answers.new(class)
  return setmetatable({ parts = {}, texts = growingText.new() }, class)
end

-- An answer without anything in it is told, not passed over.
local function explainEmptiness(answer)
  if #answer.parts > 0 or answer.errorCode then return end
  local reason = answer.finishReason or "STOP"
  if reason == "STOP" then
    answer.errorCode, answer.errorMessage = "MODEL_RETURNED_NO_CONTENT", "the model has answered nothing"
  else
    answer.errorCode = reason
    answer.errorMessage = answer.errorMessage or "the model has answered nothing: " .. reason
  end
end

---@param answer moonpad.ResponseBuilder
---@return table response
function answers.response(answer)
  answer.texts:join()
  explainEmptiness(answer)
  return {
    content = #answer.parts > 0 and { role = "model", parts = answer.parts } or nil,
    usageMetadata = answer.usage and next(answer.usage) and answer.usage or nil,
    finishReason = answer.finishReason,
    errorCode = answer.errorCode,
    errorMessage = answer.errorMessage,
    modelVersion = answer.modelVersion,
  }
end

return answers
