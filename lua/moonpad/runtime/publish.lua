--- Publishing: an event is stored, with everything that its phase has changed, and only then shown
--- to the caller.
local actions = require "moonpad.events.actions"
local contexts = require "moonpad.runtime.context"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local events = require "moonpad.events.event"
local onEvent = require "moonpad.runtime.event_hook"
local output = require "moonpad.agents.output"
local signals = require "moonpad.runtime.coroutines"

local publish = {}

---@class moonpad.Told what the run needs to know of an event that was published
---@field event moonpad.Event?
---@field isFinal boolean
---@field calls table[] copies of its function calls
---@field transfer string? the agent that goes on

-- The enclosing loops hear that something has happened; the innermost one is left by `escalate`.
local function tellLoops(invocation, event)
  local loop = invocation.loop
  if not loop then return end
  if event.actions.escalate == true then loop.escalated = true end
  while loop do
    loop.hasPublished = true
    loop = loop.outer
  end
end

-- Taken before the caller gets the event into his hands and may change it.
local function summary(invocation, event)
  local target = event.actions.transferToAgent
  local told = {
    event = event, isFinal = events.isFinalResponse(event), calls = copy(event:functionCalls()),
    transfer = type(target) == "string" and target or nil,
  }
  if told.isFinal and invocation.record then invocation.record.final = core.newEvent(event) end
  return told
end

---Stores an event with all that its phase has pending. The run of an agent that is a tool keeps
---what was written for its caller.
---@param phase moonpad.Phase
---@param event table
---@return moonpad.Event stored
function publish.commit(phase, event)
  local function commit() return core.commit(phase.state, event) end
  local journal = phase.invocation.journal
  if journal then return journal(phase, event, commit) end
  return commit()
end

---Publishes an event of a phase.
---@param phase moonpad.Phase
---@param event table
---@param origin moonpad.Origin? of what a model, or a callback in its place, has answered: it may hold the output
---@return moonpad.Told
function publish.event(phase, event, origin)
  local invocation = phase.invocation
  signals.raiseIfEnding(invocation)
  event.invocationId = invocation.id
  event.author = event.author or phase.agent.name
  event.branch = event.branch or invocation.branch
  if event.partial then
    event.actions = { stateDelta = {} }
    local shown = core.newEvent(onEvent.ask(phase, event), invocation.session)
    signals.emit(shown)
    return { event = shown, isFinal = false, calls = {} }
  end
  event.actions = actions.merge(event.actions, phase.actions)
  event = onEvent.ask(phase, event, origin)
  output.save(phase, event, origin)
  local stored = publish.commit(phase, event)
  phase.actions = {}
  local told = summary(invocation, stored)
  tellLoops(invocation, stored)
  signals.emit(stored)
  return told
end

---Publishes what a phase without an event of its own has changed, and the content that it
---answered, if there is any.
---@param phase moonpad.Phase
---@param content moonpad.Content?
---@param speaker string? who says the content; default: the agent
---@return moonpad.Told
function publish.phase(phase, content, speaker)
  if content ~= nil or contexts.hasChanges(phase) then
    return publish.event(phase, { content = content, author = content and speaker })
  end
  return { isFinal = false, calls = {} }
end

return publish
