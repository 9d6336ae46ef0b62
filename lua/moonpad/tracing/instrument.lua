--- Where runs begin and end their spans. Without a tracer each of these costs one look.
local core = require "moonpad.core"
local modelLike = require "moonpad.models.model_like"
local spans = require "moonpad.tracing.span"

local instrument = {}

---@class moonpad.RemoteParent the span of a caller elsewhere, of the header `traceparent`
---@field traceId string
---@field spanId string

---Reads a W3C `traceparent`. Nothing of what is no such thing.
---@param header string?
---@return moonpad.RemoteParent?
function instrument.remoteParent(header)
  local version, traceId, spanId = (header or ""):match "^(%x%x)%-(%x+)%-(%x+)%-%x%x"
  if not version or version == "ff" or #traceId ~= 32 or #spanId ~= 16 then return nil end
  if traceId:find "^0+$" or spanId:find "^0+$" or traceId:find "%u" or spanId:find "%u" then return nil end
  return { traceId = traceId, spanId = spanId }
end

local function begin(invocationContext, name, kind)
  local owner = not invocationContext.span and {
    runner = invocationContext.runner, userId = invocationContext.userId, sessionId = invocationContext.sessionId,
  } or nil
  local span = spans.begin {
    owner = owner,
    name = name, kind = kind, parent = invocationContext.span, service = invocationContext.sessionService,
    invocationId = invocationContext.id, tracers = invocationContext.tracers, remote = invocationContext.remoteParent,
  }
  span:set("gen_ai.conversation.id", invocationContext.sessionId)
  return span
end

---A run as a whole.
---@param invocationContext moonpad.InvocationContext
---@return moonpad.Span?
function instrument.beginRun(invocationContext)
  if not invocationContext.tracers then return nil end
  local span = begin(invocationContext, "invocation", "internal")
  span:set("user.id", invocationContext.userId)
  span:set("moonpad.app.name", invocationContext.runner.appName)
  span:set("moonpad.invocation.id", invocationContext.id)
  invocationContext.span = span
  return span
end

---An agent of it. What happens within gets its context.
---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
---@return moonpad.Span?
---@return moonpad.InvocationContext
function instrument.beginAgent(invocationContext, agent)
  if not invocationContext.tracers then return nil, invocationContext end
  local span = begin(invocationContext, "invoke_agent " .. agent.name, "internal")
  span:set("gen_ai.operation.name", "invoke_agent")
  span:set("gen_ai.provider.name", "moonpad")
  span:set("gen_ai.agent.name", agent.name)
  span:set("gen_ai.agent.description", agent.description)
  return span, invocationContext:child { span = span }
end

-- The names of OpenTelemetry, where they are not ours.
local PROVIDERS = {
  gemini = "gcp.gemini", google = "gcp.gemini", vertex = "gcp.vertex_ai", mistral = "mistral_ai", xai = "x_ai",
  azure = "azure.ai.openai", bedrock = "aws.bedrock",
}

local SETTINGS = {
  temperature = "temperature", topP = "top_p", topK = "top_k", maxOutputTokens = "max_tokens", seed = "seed",
  frequencyPenalty = "frequency_penalty", presencePenalty = "presence_penalty", stopSequences = "stop_sequences",
}

local function providerOf(model)
  if type(model) == "string" then
    return require("moonpad.models.resolve").find(model).provider.name
  end
  return type(model) == "table" and model.provider or nil
end

---A call of a model.
---@param callbackState moonpad.CallbackState
---@param model moonpad.ModelLike
---@param request moonpad.Request
---@return moonpad.Span?
function instrument.beginModel(callbackState, model, request)
  local invocationContext = callbackState.invocationContext
  if not invocationContext.tracers then return nil end
  local name = request.model or modelLike.nameOf(model)
  local span = begin(invocationContext, name and "chat " .. name or "chat", "client")
  local _, provider = pcall(providerOf, model)
  if type(provider) ~= "string" then provider = "moonpad" end
  span:set("gen_ai.operation.name", "chat")
  span:set("gen_ai.provider.name", PROVIDERS[provider] or provider)
  span:set("gen_ai.request.model", name)
  span:set("gen_ai.agent.name", callbackState.agent.name)
  for field, attribute in pairs(SETTINGS) do
    local value = request.config and request.config[field]
    if type(value) ~= "table" or field == "stopSequences" then span:set("gen_ai.request." .. attribute, value) end
  end
  span.said.request = request
  return span
end

local function integer(value)
  return type(value) == "number" and math.tointeger(value) or nil
end

---Notes what a model has answered.
---@param span moonpad.Span?
---@param response moonpad.Response
function instrument.noteResponse(span, response)
  if not span then return end
  span:touch()
  if response.partial then
    span.firstMoment = span.firstMoment or span.lastMoment
    span:set("gen_ai.response.time_to_first_chunk", span.firstMoment - span.began)
    return
  end
  local usage = type(response.usageMetadata) == "table" and response.usageMetadata or {}
  span:set("gen_ai.usage.input_tokens", integer(usage.promptTokenCount))
  span:set("gen_ai.usage.output_tokens", integer(usage.candidatesTokenCount))
  span:set("gen_ai.usage.cache_read.input_tokens", integer(usage.cachedContentTokenCount))
  span:set("gen_ai.response.model", type(response.modelVersion) == "string" and response.modelVersion or nil)
  if type(response.finishReason) == "string" then
    span:set("gen_ai.response.finish_reasons", { response.finishReason:lower() })
  end
  if response.errorCode then
    span:fail(core.newError("model", tostring(response.errorMessage or response.errorCode)))
  end
  span.said.response = response
end

---A call of a tool.
---@param call table of function_calls
---@return moonpad.Span?
function instrument.beginTool(call)
  local invocationContext = call.callbackState.invocationContext
  if not invocationContext.tracers then return nil end
  local span = begin(invocationContext, "execute_tool " .. tostring(call.name), "internal")
  span:set("gen_ai.operation.name", "execute_tool")
  span:set("gen_ai.tool.name", tostring(call.name))
  span:set("gen_ai.tool.type", "function")
  span:set("gen_ai.tool.call.id", type(call.id) == "string" and call.id or nil)
  span:set("gen_ai.tool.description", call.tool.description)
  span:set("gen_ai.agent.name", call.callbackState.agent.name)
  span.said.arguments = call.args
  call.callbackState.span = span
  return span
end

---Ends the span of a tool that has answered.
---@param span moonpad.Span?
---@param call table
function instrument.endTool(span, call)
  if not span then return end
  if call.traceback then span:fail(core.newError("tool", tostring(call.response and call.response.error))) end
  span.said.result = call.response
  span:done()
end

return instrument
