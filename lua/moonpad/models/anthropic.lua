--- Anthropic's Claude models (the Messages API).
local answers = require "moonpad.models.response_builder"
local core = require "moonpad.core"
local fields = require "moonpad.models.fields"
local provider = require "moonpad.models.http_model"
local requests = require "moonpad.models.anthropic_request"
local settings = require "moonpad.models.anthropic_settings"

local anthropic = { provider = "anthropic" }

local VERSION = "2023-06-01"

local FINISH = {
  end_turn = "STOP", stop_sequence = "STOP", tool_use = "STOP", max_tokens = "MAX_TOKENS",
  model_context_window_exceeded = "MAX_TOKENS", refusal = "SAFETY",
}

---- Reading answers

---@class moonpad.AnthropicAnswer: moonpad.ResponseBuilder
---@field blocks table<integer, table> under way, by their index
---@field counts table<string, number> of tokens, and of what the provider's servers did
---@field earlier table<string, number> the same, of the pieces before a pause
---@field messageId string?
local Answer = answers.class()

local function readReason(self, object, path)
  local reason = fields.text(object, "stop_reason", path)
  if reason then self.finishReason = FINISH[reason] or reason:upper() end
end

local COUNTS = { "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens" }

local DETAILS = {
  output_tokens_details = { "thinking_tokens" }, server_tool_use = { "web_search_requests", "web_fetch_requests" },
}

local function readCounts(counts, object, names, path)
  for _, name in ipairs(names) do counts[name] = fields.number(object, name, path) or counts[name] end
end

-- Later counts replace earlier ones; they are sums, not increments.
local function readUsage(self, object, path)
  local usage = fields.object(object, "usage", path)
  if not usage then return end
  local where = path == "" and "usage" or path .. ".usage"
  readCounts(self.counts, usage, COUNTS, where)
  for name, names in pairs(DETAILS) do
    readCounts(self.counts, fields.object(usage, name, where) or {}, names, where .. "." .. name)
  end
end
local ALL_COUNTS = table.move(COUNTS, 1, #COUNTS, 1, {})
for _, names in pairs(DETAILS) do table.move(names, 1, #names, #ALL_COUNTS + 1, ALL_COUNTS) end

-- What is paid for besides, and has no place in usageMetadata.
local FURTHER = {
  cache_creation_input_tokens = "cacheCreationTokenCount", web_search_requests = "webSearchRequests",
  web_fetch_requests = "webFetchRequests",
}

-- nil where the provider has said nothing.
local function total(self, name)
  local earlier, now = self.earlier[name], self.counts[name]
  return (earlier or now) and (earlier or 0) + (now or 0)
end

local function usageOf(self)
  local output, cached = total(self, "output_tokens"), total(self, "cache_read_input_tokens")
  local input = total(self, "input_tokens")
  if not input and not output then return nil end
  local prompt = (input or 0) + (cached or 0) + (total(self, "cache_creation_input_tokens") or 0)
  return {
    promptTokenCount = prompt, candidatesTokenCount = output or 0, totalTokenCount = prompt + (output or 0),
    cachedContentTokenCount = cached, thoughtsTokenCount = total(self, "thinking_tokens"),
  }
end

local function furtherCounts(self)
  local counts = {}
  for name, shown in pairs(FURTHER) do
    local count = total(self, name)
    if count and count > 0 then counts[shown] = count end
  end
  return next(counts) and counts or nil
end

---- Blocks: `open` says what its part is, `deltas` what is added to it

local open = {}

function open.text(block, path)
  local citations = fields.objects(block, "citations", path)
  return {
    text = fields.string(block, "text", path) or "",
    anthropic = #citations > 0 and { citations = core.array(citations) } or nil,
  }
end

function open.thinking(block, path)
  local own = { signature = fields.string(block, "signature", path) }
  return { text = fields.string(block, "thinking", path) or "", thought = true, anthropic = own }
end

function open.redacted_thinking(block, path)
  return { text = "", thought = true, anthropic = { redacted = fields.required(fields.string, block, "data", path) } }
end

-- A program that the provider's server runs can call a function, too.
function open.tool_use(block, path)
  local caller = fields.object(block, "caller", path)
  return {
    anthropic = caller and fields.string(caller, "type", path .. ".caller") ~= "direct" and { caller = caller } or nil,
    functionCall = {
      id = fields.string(block, "id", path), name = fields.required(fields.text, block, "name", path),
      args = fields.object(block, "input", path),
    },
  }
end

local function openBlock(self, index, block, path)
  if self.blocks[index] then fields.refuse("index", ("block %s has begun already"):format(index)) end
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

-- An answer may be cut off before the first piece of a call's input: that is no call without
-- arguments.
local function checkInput(self, block, call)
  if call.args and next(call.args) or #table.concat(block.pieces) > 0 then return end
  local isLast = self.parts[#self.parts] == block.part
  if block.isOpen then fields.refuse("content_block", ("the input of %s is not complete"):format(call.name)) end
  if isLast and self.finishReason == "MAX_TOKENS" then self:decodeArguments(call.name, "{") end
end

-- The input of a call comes as pieces of JSON text, and is complete when the answer is.
local function closeBlock(self, block)
  local call, own = block.part.functionCall, block.part.anthropic
  if call then checkInput(self, block, call) end
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
  local id = fields.string(message, "id", "message")
  if self.hasBegun and (id ~= self.messageId or next(self.blocks)) then
    fields.refuse("message.id", "another message has begun within this one")
  end
  self.hasBegun, self.messageId = true, id
  readUsage(self, message, "message")
  self.modelVersion = fields.string(message, "model", "message")
end

function events.content_block_start(self, object)
  local index = fields.required(fields.number, object, "index", "")
  local shown = openBlock(self, index, fields.required(fields.object, object, "content_block", ""), "content_block")
  self.blocks[index].isOpen = true
  return shown
end

function events.content_block_stop(self, object)
  local block = self.blocks[fields.required(fields.number, object, "index", "")]
  if block then block.isOpen = nil end
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

-- Makes whole what came in pieces.
local function settle(self)
  self.texts:join()
  for _, block in pairs(self.blocks) do closeBlock(self, block) end
  local kept = {}
  for _, part in ipairs(self.parts) do
    if isWorthKeeping(part) then kept[#kept + 1] = part end
  end
  self.parts, self.blocks = kept, {}
end

---@return table response
function Answer:response()
  settle(self)
  self.usage = usageOf(self)
  local response = answers.response(self)
  response.customMetadata = furtherCounts(self)
  return response
end

---The body that asks for the rest of an answer that has been paused; the rest is then added to
---this one.
---@param body table
---@return table? body nil: it is over
function Answer:continued(body)
  if self.finishReason ~= "PAUSE_TURN" then return nil end
  settle(self)
  for _, part in ipairs(self.parts) do
    if part.functionCall then return nil end
  end
  local rest = requests.continued(body, self.parts)
  if not rest then return nil end
  local earlier = {}
  for _, name in ipairs(ALL_COUNTS) do earlier[name] = total(self, name) end
  self.earlier, self.counts = earlier, {}
  self.hasBegun, self.finishReason, self.isOver = nil, nil, nil
  return rest
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

function anthropic.takesSchema(model, schema)
  return settings.takesSchema(model.model, schema)
end
spec.takesSchema = anthropic.takesSchema

function spec.newAnswer()
  local answer = answers.new(Answer)
  answer.blocks, answer.counts, answer.earlier = {}, {}, {}
  return answer
end

---Makes a Claude model.
---@param options moonpad.ModelOptions
---@param row moonpad.Provider? that the name of the model has said
---@return moonpad.HttpModel
function anthropic.new(options, row)
  return provider.new(spec, options, row)
end

return anthropic
