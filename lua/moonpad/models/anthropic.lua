--- Anthropic's Claude models (the Messages API).
local answers = require "moonpad.models.answer"
local core = require "moonpad.core"
local provider = require "moonpad.models.provider"
local requests = require "moonpad.models.anthropic_request"

local anthropic = {}

local VERSION = "2023-06-01"

local FINISH = {
  end_turn = "STOP", stop_sequence = "STOP", tool_use = "STOP", max_tokens = "MAX_TOKENS",
  model_context_window_exceeded = "MAX_TOKENS", refusal = "SAFETY",
}

---- Reading answers

---@class moonpad.AnthropicAnswer: moonpad.ModelAnswer
local Answer = answers.class()

local function readReason(self, reason)
  if type(reason) == "string" then self.finishReason = FINISH[reason] or reason:upper() end
end

-- Later counts replace earlier ones; they are sums, not increments.
local function readUsage(self, usage)
  if type(usage) ~= "table" then return end
  for name, value in pairs(usage) do
    if type(value) == "number" then self.counts[name] = value end
  end
  local counts = self.counts
  local cached = counts.cache_read_input_tokens
  local prompt = (counts.input_tokens or 0) + (cached or 0) + (counts.cache_creation_input_tokens or 0)
  local output = counts.output_tokens or 0
  self.usage = {
    promptTokenCount = prompt, candidatesTokenCount = output, totalTokenCount = prompt + output,
    cachedContentTokenCount = cached,
  }
end

---- Blocks: `open` says what its part is, `deltas` what is added to it

local open = {}

function open.text(block)
  return { text = block.text or "" }
end

function open.thinking(block)
  return { text = block.thinking or "", thought = true, anthropic = { signature = block.signature } }
end

function open.redacted_thinking(block)
  return { text = "", thought = true, anthropic = { redacted = block.data } }
end

function open.tool_use(block)
  return { functionCall = { id = block.id, name = block.name, args = block.input } }
end

local function openBlock(self, index, block)
  local make = open[block.type]
  -- What the provider's own servers did (a web search) goes into history as it came.
  local part = make and make(block) or { anthropic = { block = block } }
  self.blocks[index] = { part = part, pieces = {} }
  self.parts[#self.parts + 1] = part
  return type(part.text) == "string" and part.text ~= "" and { { text = part.text, thought = part.thought } } or nil
end

local deltas = {}

function deltas.text_delta(block, delta, texts)
  texts:add(block.part, delta.text)
  return delta.text ~= "" and { { text = delta.text } } or nil
end

function deltas.thinking_delta(block, delta, texts)
  texts:add(block.part, delta.thinking)
  return delta.thinking ~= "" and { { text = delta.thinking, thought = true } } or nil
end

function deltas.signature_delta(block, delta)
  local own = block.part.anthropic
  own.signature = (own.signature or "") .. delta.signature
end

function deltas.input_json_delta(block, delta)
  block.pieces[#block.pieces + 1] = delta.partial_json
end

function deltas.citations_delta(block, delta)
  local own = block.part.anthropic or { citations = core.array {} }
  block.part.anthropic = own
  table.insert(own.citations, delta.citation)
end

-- The input of a call comes as pieces of JSON text, and is complete when the answer is.
local function closeBlock(self, block)
  local call, own = block.part.functionCall, block.part.anthropic
  if #block.pieces > 0 then
    local text = table.concat(block.pieces)
    if call then call.args = self:decodeArguments(call.name, text) end
    if own and own.block then own.block.input = self:decodeArguments(own.block.name, text) end
  end
  if call and call.args == nil then call.args = {} end
end

---- Events of the stream

local events = {}

function events.message_start(self, object)
  readUsage(self, object.message.usage)
  self.modelVersion = object.message.model
end

function events.content_block_start(self, object)
  return openBlock(self, object.index, object.content_block)
end

function events.content_block_delta(self, object)
  local block, take = self.blocks[object.index], deltas[object.delta.type]
  return block and take and take(block, object.delta, self.texts)
end

function events.message_delta(self, object)
  readReason(self, object.delta.stop_reason)
  readUsage(self, object.usage)
end

function events.message_stop(self)
  self.isOver = true
end

-- The whole answer in one object.
function events.message(self, object)
  for index, block in ipairs(object.content or {}) do openBlock(self, index, block) end
  readReason(self, object.stop_reason)
  readUsage(self, object.usage)
  self.modelVersion = object.model
end

---Takes one object of the stream, or the whole answer. Kinds that are not known are passed over: the API adds to them.
function Answer:add(object)
  local take = events[object.type]
  return take and take(self, object)
end

local function isWorthKeeping(part)
  return part.text ~= "" or part.thought ~= nil
end

---@return table response
function Answer:response()
  self.texts:join()
  for _, block in pairs(self.blocks) do closeBlock(self, block) end
  local kept = {}
  for _, part in ipairs(self.parts) do
    if isWorthKeeping(part) then kept[#kept + 1] = part end
  end
  self.parts = kept
  return answers.response(self)
end

---- The provider

local spec = {
  name = "anthropic",
  keyVariables = { "ANTHROPIC_API_KEY" },
  defaultBase = "https://api.anthropic.com/v1",
}

function spec.path()
  return "/messages"
end

function spec.headers(apiKey)
  return { ["x-api-key"] = apiKey, ["anthropic-version"] = VERSION }
end

function spec.body(request, settings)
  return requests.body(request, settings)
end

function spec.newAnswer()
  local answer = answers.new(Answer)
  answer.blocks, answer.counts = {}, {}
  return answer
end

---Makes a Claude model.
---@param options moonpad.ModelOptions
---@return moonpad.HttpModel
function anthropic.new(options)
  return provider.new(spec, options)
end

return anthropic
