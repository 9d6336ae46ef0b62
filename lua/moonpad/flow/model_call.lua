--- Calling a model: whatever kind of model it is, its answer comes as a sequence of responses.
local callable = require "moonpad.util.callable"
local callbacks = require "moonpad.agents.callbacks"
local content = require "moonpad.events.content"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local events = require "moonpad.events.event"
local growingText = require "moonpad.flow.growing_text"
local instrument = require "moonpad.tracing.instrument"
local llmRequests = require "moonpad.flow.llm_request"
local llmResponses = require "moonpad.flow.llm_response"
local luaError = require "moonpad.util.lua_error"
local modelLike = require "moonpad.models.model_like"

local modelCall = {}

---An object that answers. A function (request, context) is one as well, and so is a name.
---@class moonpad.Model
---@field name string? what requests call it
---@field generate fun(self, request: moonpad.Request, context: moonpad.Context): moonpad.ResponseLike|function|nil, any

local function once(response)
  return function()
    local answer = response
    response = nil
    return answer
  end
end

-- Raises what stands behind nil, if it tells what went wrong: a text, or any error object.
local function raiseReason(reason)
  if type(reason) == "string" then core.error("model", errorText.valid(reason)) end
  if type(reason) == "table" or type(reason) == "userdata" and reason ~= core.null then error(reason, 0) end
end

-- The chunks of a streamed answer as responses. Chunks that are bare strings or parts are partial;
-- what was streamed without a complete answer at the end is completed here.
local function streamed(where, iterator, invariant, control)
  local parts, texts, hasAnswer, isOver = {}, growingText.new(), false, false
  local function complete(response)
    texts:join()
    response.content = { role = "model", parts = parts }
    parts, hasAnswer = {}, true
    return llmResponses.ofModel(response, where .. "the model's answer")
  end
  local function completeRest()
    texts:join()
    if not hasAnswer and #parts > 0 or llmResponses.saysMore(parts) then return complete {} end
    return nil
  end
  return function()
    if isOver then return nil end
    local chunk, reason = iterator(invariant, control)
    if chunk == nil then
      isOver = true
      raiseReason(reason)
      return completeRest()
    end
    control = chunk
    if type(chunk) == "string" or content.isBare(chunk) then chunk = { partial = true, content = chunk } end
    local response = llmResponses.ofModel(chunk, where .. "a chunk of the model's answer")
    if response.partial then
      llmResponses.accumulate(parts, texts, response)
      return response
    end
    -- The last chunk may tell only how it has ended. Where that is an error, what came before is
    -- no answer.
    if #parts > 0 and llmResponses.isEmpty(response) then return complete(response) end
    parts, texts, hasAnswer = {}, growingText.new(), true
    return response
  end
end

-- Starts the model; returns a function that gives one response after the other, and what is to be
-- closed at the end.
local function start(callbackState, run, request)
  local answer, invariant, control, closing = run(request, callbackState.context)
  local where = ('agent "%s": '):format(callbackState.agent.name)
  if callable.is(answer) then return streamed(where, answer, invariant, control), closing end
  if answer == nil then raiseReason(invariant) end
  if answer == nil or type(answer) == "table" and next(answer) == nil then
    core.error("model", ('the model of agent "%s" returned %s; expected a response, a string or an iterator')
      :format(callbackState.agent.name, answer == nil and "nothing" or "an empty table"))
  end
  return once(llmResponses.ofModel(answer, where .. "the model's answer"))
end

-- An error inside a model gets the code `model`, unless it is an object that tells its own story. A
-- plain table keeps its own code and message.
local function modelError(callbackState, err)
  if type(err) == "userdata" or getmetatable(err) and type(err) == "table" then return err end
  local own = type(err) == "table" and err or {}
  local code = type(own.code) == "string" and own.code or "model"
  local message = type(own.message) == "string" and own.message
    or ('the model of agent "%s" failed: %s'):format(callbackState.agent.name, errorText.of(err or nil))
  return core.newError(code, message, { cause = err })
end

-- The traceback of where it failed is noted for the error that is raised in its stead.
local function attempt(callbackState, run, ...)
  local traceback
  local results = table.pack(xpcall(run, function(err)
    traceback = debug and debug.traceback(nil, 2)
    return err
  end, ...))
  if results[1] then return true, table.unpack(results, 2, results.n) end
  callbackState.invocationContext:raiseIfEnding()
  local err = modelError(callbackState, luaError.object(results[2]))
  if traceback then callbackState.invocationContext:noteFailure(err, traceback) end
  return false, err
end

-- Only the model itself runs protected: what `take` raises is none of the model's.
local function callModel(callbackState, run, request, take)
  local ok, nextResponse, closing = attempt(callbackState, start, callbackState, run, request)
  if not ok then return false, nextResponse end
  local _ <close> = closing
  while true do
    local response
    ok, response = attempt(callbackState, nextResponse)
    if not ok then return false, response end
    if response == nil then return true end
    take(response)
  end
end

-- What such a callback changes in the request is seen in this one alone.
local function askAboutRequest(callbackState, hook, request, ...)
  if not callbacks.has(callbackState, hook) then return nil end
  llmRequests.unshare(request)
  return callbacks.ask(callbackState, hook, request, ...)
end

---Asks a model that is no agent's, without callbacks.
---@param callbackState moonpad.CallbackState whose context the model gets
---@param asker { name: string, model: moonpad.ModelLike }
---@param request table
---@return string text what it has said in the end
function modelCall.ask(callbackState, asker, request)
  local texts = {}
  local span <close> = instrument.beginModel(callbackState, asker.model, request)
  local function take(response)
    instrument.noteResponse(span, response)
    if response.partial then return end
    if response.errorCode then core.error("model", response.errorMessage or tostring(response.errorCode)) end
    texts[#texts + 1] = events.text(response)
  end
  local ok, err = callModel(callbackState, modelLike.asFunction(asker.model), request, take)
  if not ok then error(err, 0) end
  if span then span:done() end
  return table.concat(texts)
end

---Asks the model of the callback state's agent, and the callbacks around it. Each response goes
---through `take`; there is none where beforeModelCallback has ended the invocation.
---@param callbackState moonpad.CallbackState
---@param request table
---@param take fun(response: moonpad.Response, origin: moonpad.Origin)
function modelCall.run(callbackState, request, take)
  local where = ('agent "%s": '):format(callbackState.agent.name)
  local answer = askAboutRequest(callbackState, "beforeModelCallback", request)
  if answer ~= nil then return take(llmResponses.normalize(answer, where .. "beforeModelCallback"), {}) end
  if callbackState.invocationContext:hasEnded() then return end
  local agent = callbackState.agent
  local model = callbackState.invocationContext:modelOf(agent)
  if model == nil then core.error("invalid_argument", ('agent "%s" has no model'):format(agent.name)) end
  local run = modelLike.asFunction(model)
  callbackState.invocationContext:countLlmCall()
  local span <close> = instrument.beginModel(callbackState, model, request)
  -- The event that comes of it is noted there.
  callbackState.span = span
  local function takeChecked(response, origin)
    local partial = response.partial
    local replaced = callbacks.ask(callbackState, "afterModelCallback", response)
    -- It may have been changed in place.
    if replaced == nil then replaced = response end
    response = llmResponses.normalize(replaced, where .. "afterModelCallback")
    if response.partial == nil then response.partial = partial end
    take(response, origin)
  end
  -- A callback may change a response in place, so that the words are looked at before.
  local function takeOwn(response)
    instrument.noteResponse(span, response)
    if response.partial and callbackState.invocationContext.streaming == false then return end
    takeChecked(response, { said = events.text(response) })
  end
  local ok, err = callModel(callbackState, run, request, takeOwn)
  if span then span[ok and "done" or "fail"](span, err) end
  if ok then return end
  local rescue = askAboutRequest(callbackState, "onModelErrorCallback", request, err)
  if rescue == nil then error(err, 0) end
  takeChecked(llmResponses.normalize(rescue, where .. "onModelErrorCallback"), {})
end

return modelCall
