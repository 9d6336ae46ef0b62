--- Publishing: an event is stored, with everything that its phase has changed, and only then shown to the caller.
local callbacks = require "moonpad.callbacks"
local contexts = require "moonpad.context"
local copy = require "moonpad.copy"
local core = require "moonpad.core"
local events = require "moonpad.event"
local signals = require "moonpad.signals"

local publish = {}

local function mergeTables(first, second)
  local merged = {}
  for key, value in pairs(first or {}) do merged[key] = value end
  for key, value in pairs(second) do merged[key] = value end
  return merged
end

-- What an event handler answers replaces the fields that it sets, but never who the event is.
local function askEventHandlers(phase, event)
  if #phase.invocation.runner.plugins == 0 then return event end
  local reader = { invocation = phase.invocation, agent = phase.agent, context = contexts.readOnly(phase) }
  local answer = callbacks.askPlugins(reader, "onEvent", core.newEvent(event))
  if answer == nil then return event end
  if type(answer) ~= "table" then
    core.error("invalid_argument", "onEvent: expected an event (a table) or nothing, got " .. type(answer))
  end
  local replaced = mergeTables(event, answer)
  replaced.id, replaced.invocationId, replaced.timestamp = event.id, event.invocationId, event.timestamp
  return replaced
end

local function saveOutput(phase, event)
  local key = phase.agent.outputKey
  if key and event.author == phase.agent.name and events.isFinalResponse(event) and events.hasText(event) then
    core.putUnchecked(phase.state, key, events.text(event))
  end
end

-- What the run needs to know of an event, taken before the caller gets it into his hands and may change it.
local function summary(event)
  return { isFinal = events.isFinalResponse(event), calls = copy(event:functionCalls()) }
end

---Publishes an event of a phase.
---@param phase moonpad.Phase
---@param event table
---@return { isFinal: boolean, calls: table[] } summary
function publish.event(phase, event)
  local invocation = phase.invocation
  signals.raiseIfEnding(invocation)
  event.invocationId = invocation.id
  event.author = event.author or phase.agent.name
  if event.partial then
    event.actions = { stateDelta = {} }
    signals.emit(core.newEvent(askEventHandlers(phase, event)))
    return { isFinal = false, calls = {} }
  end
  event.actions = mergeTables(event.actions, phase.actions)
  event = askEventHandlers(phase, event)
  saveOutput(phase, event)
  local stored = core.commit(phase.state, event)
  phase.actions = {}
  local told = summary(stored)
  signals.emit(stored)
  return told
end

---Publishes what a phase without an event of its own has changed, and the content that it answered, if there is any.
---@param phase moonpad.Phase
---@param content moonpad.Content?
function publish.phase(phase, content)
  if content ~= nil or contexts.hasChanges(phase) then publish.event(phase, { content = content }) end
end

return publish
