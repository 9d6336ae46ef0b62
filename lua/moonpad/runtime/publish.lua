--- Publishing: an event is stored, with everything that its callback state has changed, and only
--- then shown to the caller.
local actions = require "moonpad.events.actions"
local contexts = require "moonpad.runtime.context"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local eventHook = require "moonpad.runtime.event_hook"
local events = require "moonpad.events.event"
local merged = require "moonpad.util.merged"
local output = require "moonpad.agents.output"

local publish = {}

---@class moonpad.Published what the run needs to know of an event that was published
---@field event moonpad.Event?
---@field isFinal boolean
---@field calls table[] copies of its function calls
---@field transfer string? the agent that goes on

-- Taken before the caller gets the event into his hands and may change it.
local function summary(event)
  local target = event.actions.transferToAgent
  return {
    event = event, isFinal = events.isFinalResponse(event), calls = copy(event:functionCalls()),
    transfer = type(target) == "string" and target or nil,
  }
end

-- What the event says itself counts.
local function addMetadata(invocationContext, event)
  local own, ofRun = core.toTable(event.customMetadata), invocationContext.customMetadata
  if ofRun and (own == nil or type(own) == "table") then event.customMetadata = merged(copy(ofRun), own) end
end

-- Plugins see what the run says, and cannot take it away: it is added once more to what is stored
-- or shown.
local function askPlugins(callbackState, event, origin)
  addMetadata(callbackState.invocationContext, event)
  return eventHook.ask(callbackState, event, origin)
end

---Stores an event with all that its callback state has pending. The run of an agent that is a tool
---keeps what was written for its caller.
---@param callbackState moonpad.CallbackState
---@param event table
---@return moonpad.Event stored
function publish.commit(callbackState, event)
  local function commit() return core.commit(callbackState.state, event) end
  addMetadata(callbackState.invocationContext, event)
  local onCommit = callbackState.invocationContext.onCommit
  if onCommit then return onCommit(callbackState, event, commit) end
  return commit()
end

---Publishes an event of a callback state.
---@param callbackState moonpad.CallbackState
---@param event table
---@param origin moonpad.Origin? of what a model, or a callback in its place, has answered: it may hold the output
---@return moonpad.Published
function publish.event(callbackState, event, origin)
  local invocationContext = callbackState.invocationContext
  invocationContext:raiseIfEnding()
  event.invocationId = invocationContext.id
  event.author = event.author or callbackState.agent.name
  event.branch = event.branch or invocationContext.branch
  if event.partial then
    event.actions = { stateDelta = {} }
    if invocationContext.streaming == false then
      return { event = core.newEvent(event, invocationContext.session), isFinal = false, calls = {} }
    end
    event = askPlugins(callbackState, event)
    addMetadata(invocationContext, event)
    local shown = core.newEvent(event, invocationContext.session)
    coroutines.emit(shown)
    return { event = shown, isFinal = false, calls = {} }
  end
  event.actions = actions.merge(event.actions, callbackState.actions)
  event = askPlugins(callbackState, event, origin)
  output.save(callbackState, event, origin)
  local stored = publish.commit(callbackState, event)
  callbackState.actions = {}
  local published = summary(stored)
  invocationContext:notePublished(stored, published.isFinal)
  coroutines.emit(stored)
  return published
end

---Publishes what a callback state without an event of its own has changed, and the content that it
---answered, if there is any.
---@param callbackState moonpad.CallbackState
---@param content moonpad.Content?
---@param speaker string? who says the content; default: the agent
---@return moonpad.Published
function publish.changes(callbackState, content, speaker)
  if content ~= nil or contexts.hasChanges(callbackState) then
    return publish.event(callbackState, { content = content, author = content and speaker })
  end
  return { isFinal = false, calls = {} }
end

return publish
