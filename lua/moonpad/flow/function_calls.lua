--- Running the tool calls of one model answer side by side, and answering all of them in one event.
--- Each function of a call, the tool's own and its callbacks, is a transaction on what the answer
--- has pending.
local actions = require "moonpad.events.actions"
local arrays = require "moonpad.util.array"
local callbacks = require "moonpad.agents.callbacks"
local concurrent = require "moonpad.runtime.concurrent"
local confirmation = require "moonpad.flow.confirmation"
local contexts = require "moonpad.runtime.context"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local instrument = require "moonpad.tracing.instrument"
local llmResponses = require "moonpad.flow.llm_response"
local luaError = require "moonpad.util.lua_error"
local publish = require "moonpad.runtime.publish"
local results = require "moonpad.tools.result"
local schema = require "moonpad.schema.validate"

local functionCalls = {}

---- One call

local function unknownTool(tools, name)
  local names = {}
  for index, tool in ipairs(tools.list) do names[index] = tool.name end
  return ('unknown tool "%s"; %s'):format(errorText.show(name),
    #names > 0 and "available: " .. table.concat(names, ", ") or "this agent has no tools")
end

-- What is wrong with a call before anything runs, or nil.
local function findProblem(tools, call)
  local tool = tools.byName[call.name]
  if tool == nil then return unknownTool(tools, call.name) end
  if type(call.args) ~= "table" then
    return ('%s: expected an object of arguments, got %s'):format(call.name, type(call.args))
  end
  local problem = schema.check(tool.parameters, call.args)
  return problem and ("%s: bad arguments: %s"):format(call.name, problem)
end

-- A function response is an object; anything else goes into one.
local function wrap(result)
  if type(result) == "userdata" and result ~= core.null then result = core.toTable(result) end
  if result == nil then return { result = core.null } end
  if type(result) ~= "table" or arrays.isMarked(result) or result[1] ~= nil then return { result = result } end
  return result
end

local function checkResult(call, result)
  local ok, err = pcall(core.encodeWithin, wrap(result), call.callbackState.invocationContext.session)
  if ok then return end
  luaError.passOn(err)
  core.error("tool", ("%s: cannot be answered to the model: %s"):format(call.name, errorText.of(err)))
end

-- Where memory ends, Lua does not ask: the text of its own error comes out of the call instead.
-- False tells as little as nil.
local function withTraceback(err)
  err = err and luaError.object(err) or core.newError("tool", errorText.of(nil))
  local text = errorText.of(err)
  return {
    isTraced = true, err = err, traceback = debug and errorText.valid(debug.traceback(text, 2)) or text,
    told = type(err) == "string" and errorText.withoutPosition(text) or text,
  }
end

-- Of an agent that is a tool, the caller does over again what each call has written and read: the
-- state of the answer tells neither the places that were written nor what was only read.
local function commit(callbackState)
  local writes = callbackState.invocationContext.onCommit and core.writes(callbackState.state)
  core.commitTransaction(callbackState.state)
  if writes then table.insert(callbackState.answer.writes, writes) end
end

-- What the callbacks before it have made of the arguments is checked like what the model has said.
local function runTool(call)
  local problem = schema.check(call.tool.parameters, call.args)
  if problem then core.error("tool", ("%s: bad arguments after beforeToolCallback: %s"):format(call.name, problem)) end
  local callbackState = call.callbackState
  local result, parts = confirmation.answerInstead(call.tool, call.args, callbackState), nil
  if result == nil then
    callbackState.isRunningTool = true
    result, parts = results.read(call.name, call.tool.run(call.args, callbackState.context))
    if parts then checkResult(call, { parts = parts }) end
  end
  checkResult(call, result)
  contexts.checkActions(callbackState)
  commit(callbackState)
  call.parts = parts
  return result
end

---- Transactions

-- Returns how to take back what is written from now on.
local function begin(callbackState)
  local written, requested = copy(callbackState.actions), callbackState.requestedConfirmation
  core.beginTransaction(callbackState.state)
  return function()
    core.rollbackTransaction(callbackState.state)
    callbackState.actions, callbackState.requestedConfirmation = written, requested
  end
end

-- Runs the tool itself. Whatever it wrote before it failed is taken back; what the callbacks before
-- it wrote stays.
local function attempt(call)
  local rollback = begin(call.callbackState)
  local ok, result = xpcall(runTool, withTraceback, call)
  call.callbackState.isRunningTool = nil
  call.callbackState.invocationContext:raiseIfEnding()
  if ok then return true, result end
  rollback()
  local isTraced = type(result) == "table" and result.isTraced
  local err = isTraced and result.err or luaError.object(result)
  luaError.passOn(err)
  return false, err, isTraced and result or nil
end

-- Asks the functions of a hook. An error of theirs ends the run, but that of a commit is the
-- call's: (false, error).
local function ask(call, hook, ...)
  local callbackState, failure = call.callbackState, nil
  local answer = callbacks.askThrough(function(run, ...)
    local rollback = begin(callbackState)
    local answer = run(...)
    local ok, err = pcall(commit, callbackState)
    if ok then return answer end
    rollback()
    luaError.passOn(err)
    failure = err
    return true -- nobody else is asked
  end, callbackState, hook, call.tool, call.args, ...)
  if failure then return false, failure end
  return true, answer
end

-- The error callbacks may answer for a failed call; otherwise the model is told what was raised,
-- and the event tells the developer where.
local function answerFailure(call, err, traced)
  -- A text goes into the callback's answer as it is, most often.
  if type(err) == "string" then err = errorText.valid(err) end
  call.parts = nil
  local ok, answer = ask(call, "onToolErrorCallback", err)
  if ok and answer ~= nil then return true, answer end
  if not ok then err, traced = answer, nil end
  call.response = { error = traced and traced.told or errorText.of(err) }
  call.traceback = traced and traced.traceback or call.response.error
  return false
end

---- All that happens for one call

-- What the tool answers, or the callback before it.
local function findAnswer(call)
  local ok, answer, traced = ask(call, "beforeToolCallback")
  if ok and answer == nil then ok, answer, traced = attempt(call) end
  if ok then return true, answer end
  return answerFailure(call, answer, traced)
end

local function respond(call, value)
  checkResult(call, value)
  call.response = wrap(value)
end

local function performCall(call)
  if call.problem then
    local isAnswered, value = answerFailure(call, core.newError("tool", call.problem))
    if isAnswered then call.response = wrap(value) end
    return
  end
  local isAnswered, value = findAnswer(call)
  if not isAnswered then return end
  local ok, replaced = ask(call, "afterToolCallback", value)
  if not ok then
    isAnswered, value = answerFailure(call, replaced)
    if not isAnswered then return end
  elseif replaced ~= nil and not rawequal(replaced, value) then
    -- The files belong to what the tool has answered.
    value, call.parts = replaced, nil
  end
  call.isPending = value == nil and not call.parts and call.tool.longRunning
  if not call.isPending then respond(call, value) end
end

-- In its own coroutine.
local function perform(call)
  call.span = instrument.beginTool(call)
  local span <close> = call.span
  performCall(call)
  instrument.endTool(span, call)
end

---- All calls of one answer

local function prepare(callbackState, tools, functionCall, toolConfirmation)
  local call = { id = functionCall.id, name = functionCall.name, functionCall = functionCall }
  -- Callbacks may change them; the user is to confirm what the model has said.
  call.args = copy(functionCall.args)
  if call.args == nil or call.args == core.null then call.args = {} end
  call.problem = findProblem(tools, call)
  call.tool = tools.byName[call.name] or { name = call.name, description = "an unknown tool" }
  call.callbackState = contexts.beginCall(callbackState, call.id, toolConfirmation)
  return call
end

-- A model may give two calls one id, or a plugin's onEvent one that is no text.
local function keyOf(call, taken)
  local key = type(call.id) == "string" and call.id or errorText.show(call.name)
  local free, count = key, 1
  while taken[free] do
    count = count + 1
    free = key .. "#" .. count
  end
  return free
end

-- The one event that answers the calls; nil where all answers are still to come.
local function toEvent(calls)
  local parts, errors = {}, {}
  for _, call in ipairs(calls) do
    if not call.isPending then
      local response = { id = call.id, name = call.name, response = call.response, parts = call.parts }
      parts[#parts + 1] = { functionResponse = response }
    end
    if call.traceback then errors[keyOf(call, errors)] = call.traceback end
  end
  if #parts == 0 then return nil end
  return {
    content = { role = "user", parts = parts },
    customMetadata = next(errors) and { toolErrors = errors } or nil,
  }
end

local function isAnyPending(calls)
  for _, call in ipairs(calls) do
    if call.isPending then return true end
  end
  return false
end

-- What the calls have written goes with their answers, not with the request.
local function publishRequest(context, agent, calls)
  local event = confirmation.toEvent(calls, function() return llmResponses.newCallId(context.session) end)
  if not event then return end
  local callbackState = contexts.begin(context, agent)
  publish.event(callbackState, event)
  contexts.finish(callbackState, "its request is published")
end

---Runs function calls and publishes the one event that answers them; before it, where some of them
---need the user's confirmation, the request.
---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
---@param list table[] copies of what the model's event holds
---@param tools moonpad.OfferedTools what the model was offered when it made them
---@param confirmations moonpad.ToolConfirmation[]? of the calls, where the user has approved or refused them
---@return { isFinal: boolean, transfer: string? } published whether the agent's turn is over, and who goes on
function functionCalls.answer(invocationContext, agent, list, tools, confirmations)
  local context = invocationContext:child()
  local callbackState = contexts.begin(context, agent, #list == 1 and list[1].id or nil)
  local calls, bodies = {}, {}
  for index, functionCall in ipairs(list) do
    local call = prepare(callbackState, tools, functionCall, confirmations and confirmations[index])
    calls[index], bodies[index] = call, function()
      perform(call)
      contexts.finish(call.callbackState, "its tool call is over")
    end
  end
  concurrent.run(context, bodies)
  for _, call in ipairs(calls) do
    callbackState.actions = actions.merge(callbackState.actions, call.callbackState.actions)
  end
  publishRequest(context, agent, calls)
  local event = toEvent(calls)
  local published = event and publish.event(callbackState, event) or publish.changes(callbackState)
  for _, call in ipairs(calls) do
    if call.span and published.event then call.span.eventId = published.event.id end
  end
  contexts.finish(callbackState, "its tool call is over")
  -- The turn is over until the answers that are missing have come.
  return { isFinal = published.isFinal or isAnyPending(calls), transfer = published.transfer }
end

return functionCalls
