--- Anthropic's Claude models (the Messages API).
local answers = require "moonpad.models.response_builder"
local core = require "moonpad.core"
local fields = require "moonpad.models.fields"
local provider = require "moonpad.models.http_model"
local requests = require "moonpad.models.anthropic_request"

local anthropic = { provider = "anthropic" }

local VERSION = "2023-06-01"

local FINISH = {
  end_turn = "STOP", stop_sequence = "STOP", tool_use = "STOP", max_tokens = "MAX_TOKENS",
  model_context_window_exceeded = "MAX_TOKENS", refusal = "SAFETY",
}

---- Reading answers

---@class moonpad.AnthropicAnswer: moonpad.ResponseBuilder
---@field blocks table<integer, table> under way, by their index
---@field counts table<string, number> of tokens
local Answer = answers.class()

local function readReason(self, object, path)
  local reason = fields.text(object, "stop_reason", path)
  if reason then self.finishReason = FINISH[reason] or reason:upper() end
end

local COUNTS = { "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens" }

-- Later counts replace earlier ones; they are sums, not increments.
local function readUsage(self, object, path)
  local usage = fields.object(object, "usage", path)
  if not usage then return end
  local counts, where = self.counts, path == "" and "usage" or path .. ".usage"
  for _, name in ipairs(COUNTS) do counts[name] = fields.number(usage, name, where) or counts[name] end
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

function open.text(block, path)
  return { text = fields.string(block, "text", path) or "" }
end

function open.thinking(block, path)
  local own = { signature = fields.string(block, "signature", path) }
  return { text = fields.string(block, "thinking", path) or "", thought = true, anthropic = own }
end

function open.redacted_thinking(block, path)
  return { text = "", thought = true, anthropic = { redacted = fields.required(fields.string, block, "data", path) } }
end

function open.tool_use(block, path)
  return {
    functionCall = {
      id = fields.string(block, "id", path), name = fields.required(fields.text, block, "name", path),
      args = fields.object(block, "input", path),
    },
  }
end

local function openBlock(self, index, block, path)
  local make = open[fields.required(fields.string, block, "type", path)]
  -- What the provider's own servers did (a web search) goes into history as it came.
  local part = make and make(block, path) or { anthropic = { block = block } }
  self.blocks[index] = { part = part, pieces = {}, signature = {} }
  self.parts[#self.parts + 1] = part
  return part.text and part.text ~= "" and { { text = part.text, thought = part.thought } } or nil
end

local deltas = {}

-- Text of a block that has some.
local function growText(self, block, delta, name)
  local text = fields.required(fields.string, delta, name, "delta")
  if not block.part.text then fields.refuse("delta." .. name, "the block is of another type") end
  self.texts:add(block.part, text)
  return text ~= "" and { { text = text, thought = block.part.thought } } or nil
end

function deltas.text_delta(self, block, delta)
  return growText(self, block, delta, "text")
end

function deltas.thinking_delta(self, block, delta)
  return growText(self, block, delta, "thinking")
end

function deltas.signature_delta(_, block, delta)
  if not block.part.thought then fields.refuse("delta.signature", "the block is of another type") end
  table.insert(block.signature, fields.required(fields.string, delta, "signature", "delta"))
end

function deltas.input_json_delta(_, block, delta)
  block.pieces[#block.pieces + 1] = fields.required(fields.string, delta, "partial_json", "delta")
end

function deltas.citations_delta(_, block, delta)
  local citation = fields.required(fields.object, delta, "citation", "delta")
  local own = block.part.anthropic or {}
  block.part.anthropic, own.citations = own, own.citations or core.array {}
  table.insert(own.citations, citation)
end

-- The input of a call comes as pieces of JSON text, and is complete when the answer is.
local function closeBlock(self, block)
  local call, own = block.part.functionCall, block.part.anthropic
  if #block.pieces > 0 then
    local text = table.concat(block.pieces)
    if call then call.args = self:decodeArguments(call.name, text) end
    if own and own.block then own.block.input = self:decodeArguments(own.block.name, text) end
  end
  if #block.signature > 0 then own.signature = (own.signature or "") .. table.concat(block.signature) end
  if call and call.args == nil then call.args = {} end
end

---- Events of the stream

local events = {}

function events.message_start(self, object)
  local message = fields.required(fields.object, object, "message", "")
  readUsage(self, message, "message")
  self.modelVersion = fields.string(message, "model", "message")
end

function events.content_block_start(self, object)
  local index = fields.required(fields.number, object, "index", "")
  return openBlock(self, index, fields.required(fields.object, object, "content_block", ""), "content_block")
end

function events.content_block_delta(self, object)
  local index = fields.required(fields.number, object, "index", "")
  local delta = fields.required(fields.object, object, "delta", "")
  local block, take = self.blocks[index], deltas[fields.required(fields.string, delta, "type", "delta")]
  if not block then fields.refuse("index", ("no block %s has begun"):format(index)) end
  return take and take(self, block, delta)
end

function events.message_delta(self, object)
  readReason(self, fields.required(fields.object, object, "delta", ""), "delta")
  readUsage(self, object, "")
end

function events.message_stop(self)
  self.isOver = true
end

-- The whole answer in one object.
function events.message(self, object)
  for index, block in ipairs(fields.objects(object, "content", "")) do
    openBlock(self, index, block, ("content[%d]"):format(index))
  end
  readReason(self, object, "")
  readUsage(self, object, "")
  self.modelVersion = fields.string(object, "model", "")
end

---Takes one object of the stream, or the whole answer. Kinds that are not known are passed over:
---the API adds to them.
function Answer:add(object)
  local take = events[fields.required(fields.string, object, "type", "")]
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

local spec = { name = "anthropic", provider = anthropic.provider, conversation = "messages" }

function spec.path()
  return "/messages"
end

function spec.headers(call)
  return { ["x-api-key"] = call.apiKey, ["anthropic-version"] = VERSION }
end

function spec.body(request, call)
  return requests.body(request, call)
end

function anthropic.takesSchema()
  return true
end
spec.takesSchema = anthropic.takesSchema

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
