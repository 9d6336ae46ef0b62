--- The loop of an agent with a model: ask the model, run the tools that it calls, until it has answered.
local contexts = require "moonpad.context"
local modelCall = require "moonpad.model_call"
local publish = require "moonpad.publish"
local requests = require "moonpad.request"
local responses = require "moonpad.response"
local toolsRun = require "moonpad.tools_run"

local flow = {}

local function endsInCodeResult(response)
  local parts = response.content and response.content.parts or {}
  local last = parts[#parts]
  return last ~= nil and last.codeExecutionResult ~= nil
end

-- Asks the model once and publishes what it answers. Returns the function calls to be run, and whether to ask again.
local function askModel(phase)
  local request = requests.build(phase)
  local calls, askAgain = {}, false
  local streamId
  modelCall.run(phase, request, function(response)
    -- An empty answer makes no event; but what its callbacks changed must not be lost.
    if responses.isEmpty(response) and (response.partial or not contexts.hasChanges(phase)) then return end
    local event = responses.toEvent(response)
    if event.partial then
      streamId = streamId or requests.newEventId()
      event.timestamp = requests.now(phase)
    end
    event.id = streamId
    if not event.partial then streamId = nil end
    local told = publish.event(phase, event)
    table.move(told.calls, 1, #told.calls, #calls + 1, calls)
    askAgain = endsInCodeResult(response)
  end)
  publish.phase(phase)
  return calls, askAgain
end

local function step(invocation, agent)
  local phase = contexts.open(invocation, agent)
  local calls, askAgain = askModel(phase)
  contexts.close(phase, "its model call is over")
  if #calls == 0 then return askAgain end
  return not toolsRun.answer(invocation, agent, calls).isFinal
end

---@param invocation moonpad.Run
---@param agent moonpad.Agent
function flow.run(invocation, agent)
  repeat until not step(invocation, agent)
end

return flow
