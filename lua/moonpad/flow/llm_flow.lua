--- The loop of an agent with a model: ask the model, run the tools that it calls, until it
--- has answered.
local contexts = require "moonpad.runtime.context"
local functionCalls = require "moonpad.flow.function_calls"
local llmRequests = require "moonpad.flow.llm_request"
local llmResponses = require "moonpad.flow.llm_response"
local modelCall = require "moonpad.flow.model_call"
local offeredTools = require "moonpad.flow.offered_tools"
local publish = require "moonpad.runtime.publish"

local llmFlow = {}

local function endsInCodeResult(response)
  local parts = response.content and response.content.parts or {}
  local last = parts[#parts]
  return last ~= nil and last.codeExecutionResult ~= nil
end

-- The ids of the calls whose answer may come later.
local function longRunningIds(tools, event)
  local ids = {}
  for _, part in ipairs(event.content and event.content.parts or {}) do
    local tool = part.functionCall and tools.byName[part.functionCall.name]
    if tool and tool.longRunning then ids[#ids + 1] = part.functionCall.id end
  end
  return #ids > 0 and ids or nil
end

-- An answer that says nothing makes no event; but what it has cost, and what its callbacks changed,
-- must not be lost.
local function isWorthAnEvent(callbackState, response)
  if not llmResponses.isEmpty(response) then return true end
  return not response.partial and (response.usageMetadata ~= nil or contexts.hasChanges(callbackState))
end

-- Asks the model once and publishes what it answers. Returns the function calls to be run, the
-- agent that is to go on, and whether to ask again.
local function askModel(callbackState, tools)
  local request = llmRequests.build(callbackState, tools)
  local calls, target, askAgain = {}, nil, false
  local streamId
  modelCall.run(callbackState, request, function(response, origin)
    if not isWorthAnEvent(callbackState, response) then return end
    local event = llmResponses.toEvent(response, callbackState.invocationContext.session)
    if event.partial then
      streamId = streamId or llmRequests.newEventId(callbackState)
      event.timestamp = llmRequests.now(callbackState)
    end
    event.id = streamId
    if not event.partial then
      streamId = nil
      event.longRunningToolIds = longRunningIds(tools, event)
    end
    local published = publish.event(callbackState, event, origin)
    if callbackState.span and not event.partial then callbackState.span.eventId = published.event.id end
    table.move(published.calls, 1, #published.calls, #calls + 1, calls)
    target = published.transfer or target
    if not llmResponses.isEmpty(response) then askAgain = endsInCodeResult(response) end
  end)
  target = publish.changes(callbackState).transfer or target
  return calls, target, askAgain
end

-- Returns whether the agent goes on, or the name of the one that does.
local function step(invocationContext, agent)
  local callbackState = contexts.begin(invocationContext, agent)
  local tools = offeredTools.ask(callbackState)
  local calls, target, askAgain = askModel(callbackState, tools)
  contexts.finish(callbackState, "its model call is over")
  if #calls == 0 or invocationContext:hasEnded() then return askAgain and not target, target end
  local published = functionCalls.answer(invocationContext, agent, calls, tools)
  target = published.transfer or target
  return not published.isFinal and not target, target
end

-- Runs the calls that the user has approved or refused, before the model is asked. Returns the
-- same.
local function answerConfirmed(invocationContext, agent)
  local calls, confirmations = {}, {}
  for index, confirmed in ipairs(invocationContext:takeConfirmed(agent)) do
    calls[index], confirmations[index] = confirmed.functionCall, confirmed.toolConfirmation
  end
  if #calls == 0 then return true end
  local callbackState = contexts.begin(invocationContext, agent)
  local tools = offeredTools.ask(callbackState)
  contexts.finish(callbackState, "its tools are known")
  local published = functionCalls.answer(invocationContext, agent, calls, tools, confirmations)
  return not published.isFinal and not published.transfer, published.transfer
end

---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
---@return string? target the agent that goes on
function llmFlow.run(invocationContext, agent)
  local goesOn, target = answerConfirmed(invocationContext, agent)
  while goesOn and not invocationContext:hasEnded() do
    goesOn, target = step(invocationContext, agent)
  end
  return target
end

return llmFlow
