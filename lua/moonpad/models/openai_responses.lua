--- OpenAI's Responses API: what an answer is. Its requests are in
--- moonpad.models.openai_responses_request.
local answers = require "moonpad.models.response_builder"
local core = require "moonpad.core"
local fields = require "moonpad.models.fields"
local outputs = require "moonpad.models.openai_output"
local requests = require "moonpad.models.openai_responses_request"

local responses = {}

local INCOMPLETE = { max_output_tokens = "MAX_TOKENS", content_filter = "SAFETY" }

---@class moonpad.OpenaiResponsesAnswer: moonpad.ResponseBuilder
---@field output moonpad.OpenaiOutput
local Answer = answers.class()

---Refuses a call of which there is only a part.
---@param name string?
function Answer:refuseCutCall(name)
  local advice = self.finishReason == "MAX_TOKENS" and "; raise config.maxOutputTokens" or ""
  core.error("model", ("the call of %s was cut off (%s)%s"):format(
    type(name) == "string" and name or "a function", self.finishReason or "no reason was given", advice))
end

local function readUsage(self, response, path)
  local usage = fields.object(response, "usage", path)
  if usage == nil then return end
  local where = path == "" and "usage" or path .. ".usage"
  local input = fields.object(usage, "input_tokens_details", where) or {}
  local output = fields.object(usage, "output_tokens_details", where) or {}
  self.usage = {
    promptTokenCount = fields.number(usage, "input_tokens", where),
    candidatesTokenCount = fields.number(usage, "output_tokens", where),
    totalTokenCount = fields.number(usage, "total_tokens", where),
    cachedContentTokenCount = fields.number(input, "cached_tokens", where .. ".input_tokens_details"),
    thoughtsTokenCount = fields.number(output, "reasoning_tokens", where .. ".output_tokens_details"),
  }
end

local function readModel(self, response, path)
  self.modelVersion = fields.text(response, "model", path) or self.modelVersion
end

-- Why it is over; nil: it is not (a response in the background).
local function reasonOf(response, path, status)
  if status == "completed" then return "STOP" end
  if status == "in_progress" or status == "queued" then return nil end
  local details = fields.object(response, "incomplete_details", path)
  local reason = details and fields.text(details, "reason", "incomplete_details") or status
  return INCOMPLETE[reason] or reason:upper()
end

-- A response that is whole. `status`: where it does not say its own.
local function takeWhole(self, response, path, status)
  readModel(self, response, path)
  readUsage(self, response, path)
  local list = fields.objects(response, "output", path)
  local shown = self.output:addAll(list, path == "" and "output" or path .. ".output")
  status = fields.text(response, "status", path) or status or #list > 0 and "completed"
  if status then self.finishReason = reasonOf(response, path, status) end
  return shown
end

---- Events of the stream

local events = {}

local function placeOf(object)
  return fields.required(fields.number, object, "output_index", "")
end

events["response.created"] = function(self, object)
  readModel(self, fields.required(fields.object, object, "response", ""), "response")
end
events["response.in_progress"] = events["response.created"]

events["response.output_item.added"] = function(self, object)
  local item = fields.required(fields.object, object, "item", "")
  self.output:addItem(placeOf(object), item, "item", false)
end

events["response.output_item.done"] = function(self, object)
  return self.output:addItem(placeOf(object), fields.required(fields.object, object, "item", ""), "item", true)
end

events["response.output_text.delta"] = function(self, object)
  local index = fields.number(object, "content_index", "") or 0
  return self.output:addText(placeOf(object), index, fields.required(fields.string, object, "delta", ""))
end

events["response.refusal.delta"] = function(self, object)
  self.output.isRefused = true
  return events["response.output_text.delta"](self, object)
end

local function thoughtDelta(name)
  return function(self, object)
    local index = fields.number(object, name .. "_index", "") or 0
    local text = fields.required(fields.string, object, "delta", "")
    return self.output:addThought(placeOf(object), name .. index, text)
  end
end
events["response.reasoning_summary_text.delta"] = thoughtDelta "summary"
events["response.reasoning_text.delta"] = thoughtDelta "content"

local function ending(status)
  return function(self, object)
    self.isOver = true
    return takeWhole(self, fields.required(fields.object, object, "response", ""), "response", status)
  end
end
events["response.completed"], events["response.incomplete"] = ending "completed", ending "incomplete"

---Takes one event of the stream, or the whole response, which has no `type`. Events that are not
---known are passed over: the API adds to them, and an item that is done says all of it once more.
---@param object table
---@return table[]? shown
function Answer:add(object)
  local kind = fields.string(object, "type", "")
  if not kind then return takeWhole(self, object, "") end
  local take = events[kind]
  return take and take(self, object)
end

---@return table response
function Answer:response()
  if not self.finishReason then core.error("model", "the stream ended before the answer was complete") end
  self.parts = self.output:parts(self)
  if self.output.isRefused then self.finishReason = "SAFETY" end
  local response = answers.response(self)
  response.citationMetadata = self.output:citationMetadata()
  return response
end

---- The adapter

-- The server tells of a failure in an event of its own, or in a response that is marked so.
local function problem(object)
  local response = object.type == "response.failed" and type(object.response) == "table" and object.response
    or object.status == "failed" and object or nil
  if response then
    local isTold = response.error ~= nil and response.error ~= core.null
    return isTold and response or { error = "the response has failed" }
  end
  if object.type ~= "error" or type(object.error) == "table" then return nil end
  return { error = { message = object.message, code = object.code, type = "an error without a message" } }
end

---@param headers fun(call: moonpad.ModelCall): table<string, string>
---@param takesSchema function as in moonpad.ProviderAdapter
---@return moonpad.ProviderAdapter
function responses.adapter(headers, takesSchema)
  return {
    name = "openai", provider = "openai", apis = true, conversation = "input",
    headers = headers, takesSchema = takesSchema, body = requests.body, problem = problem,
    path = function() return "/responses" end,
    newAnswer = function()
      local answer = answers.new(Answer)
      answer.output = outputs.new()
      return answer
    end,
  }
end

return responses
