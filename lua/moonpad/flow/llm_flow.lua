--- The loop of an agent with a model: ask the model, run the tools that it calls, until it
--- has answered.
local contexts = require "moonpad.runtime.context"
local modelCall = require "moonpad.flow.model_call"
local publish = require "moonpad.runtime.publish"
local requests = require "moonpad.flow.llm_request"
local responses = require "moonpad.flow.llm_response"
local toolsRun = require "moonpad.flow.function_calls"
local toolset = require "moonpad.flow.offered_tools"

local flow = {}

local function endsInCodeResult(response)
  local parts = response.content and response.content.parts or {}
  local last = parts[#parts]
  return last ~= nil and last.codeExecutionResult ~= nil
end

-- The ids of the calls whose answer may come later.
local function longRunningIds(phase, event)
  local byName, ids = toolset.of(phase.invocation, phase.agent).byName, {}
  for _, part in ipairs(event.content and event.content.parts or {}) do
    local tool = part.functionCall and byName[part.functionCall.name]
    if tool and tool.longRunning then ids[#ids + 1] = part.functionCall.id end
  end
  return #ids > 0 and ids or nil
end

-- Asks the model once and publishes what it answers. Returns the function calls to be run, the
-- agent that is to go on, and whether to ask again.
local function askModel(phase)
  local request = requests.build(phase)
  local calls, target, askAgain = {}, nil, false
  local streamId
  modelCall.run(phase, request, function(response, origin)
    -- An empty answer makes no event; but what its callbacks changed must not be lost.
    if responses.isEmpty(response) and (response.partial or not contexts.hasChanges(phase)) then return end
    local event = responses.toEvent(response, phase.invocation.session)
    if event.partial then
      streamId = streamId or requests.newEventId(phase)
      event.timestamp = requests.now(phase)
    end
    event.id = streamId
    if not event.partial then
      streamId = nil
      event.longRunningToolIds = longRunningIds(phase, event)
    end
    local told = publish.event(phase, event, origin)
    table.move(told.calls, 1, #told.calls, #calls + 1, calls)
    target = told.transfer or target
    askAgain = endsInCodeResult(response)
  end)
  target = publish.phase(phase).transfer or target
  return calls, target, askAgain
end

-- Returns whether the agent goes on, or the name of the one that does.
local function step(invocation, agent)
  local phase = contexts.open(invocation, agent)
  local calls, target, askAgain = askModel(phase)
  contexts.close(phase, "its model call is over")
  if #calls == 0 then return askAgain and not target, target end
  local told = toolsRun.answer(invocation, agent, calls)
  target = told.transfer or target
  return not told.isFinal and not target, target
end

---@param invocation moonpad.Run
---@param agent moonpad.Agent
---@return string? target the agent that goes on
function flow.run(invocation, agent)
  while true do
    local goesOn, target = step(invocation, agent)
    if not goesOn then return target end
  end
end

return flow
