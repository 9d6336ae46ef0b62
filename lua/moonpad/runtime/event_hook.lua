--- The plugins' look at every event before it is stored. They see it with all the state that it
--- will carry, and may change it.
local callbacks = require "moonpad.agents.callbacks"
local content = require "moonpad.events.content"
local contexts = require "moonpad.runtime.context"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local llmResponses = require "moonpad.flow.llm_response"
local merged = require "moonpad.util.merged"
local output = require "moonpad.agents.output"

local eventHook = {}

-- What the event will carry: what is pending, what it holds itself, and the output. An output that
-- does not fit its schema is not complained about yet: a plugin may put it right.
local function deltaOf(callbackState, event, origin)
  local delta = merged(callbackState.state:delta(), event.actions.stateDelta)
  local ok, key, value = pcall(output.of, callbackState.agent, event, origin)
  if ok and key then delta[key] = value end
  return delta
end

local function isSame(a, b, session)
  if a == b and math.type(a) == math.type(b) then return true end
  local okA, textA = pcall(core.encodeWithin, a, session)
  local okB, textB = pcall(core.encodeWithin, b, session)
  return okA and okB and textA == textB
end

-- What a plugin has set to another value is stored as it says. The rest stays as it was written, so
-- that an increment remains one.
local function changedDelta(own, shown, answered, session)
  local delta = merged(own)
  answered = core.toTable(answered)
  if answered == core.null then answered = nil end
  if answered ~= nil and type(answered) ~= "table" then
    core.error("invalid_argument", "onEvent: actions.stateDelta: expected a table, got " .. type(answered))
  end
  for key, value in pairs(answered or {}) do
    if shown[key] == nil or not isSame(value, shown[key], session) then delta[key] = value end
  end
  return delta
end

-- Only what is whole is stored: state would be lost on the way, or a part would pass for an answer.
local function checkPartial(event, replaced)
  if (replaced.partial or false) == (event.partial or false) then return end
  core.error("invalid_argument", ("onEvent: partial: must stay as it is, %s; the event is %s"):format(
    tostring(event.partial or false), event.partial and "a piece of a stream" or "a whole one"))
end

-- A plugin may take all parts of a content away.
local function hasRoleAlone(answered)
  for name, value in pairs(answered) do
    if name ~= "role" and value ~= core.null then return false end
  end
  return true
end

local function contentOf(event, answered)
  if type(answered) == "table" and hasRoleAlone(answered) then answered = { role = answered.role, parts = {} } end
  local role = event.content and event.content.role or "model"
  return content.normalize(answered, role, "onEvent: content")
end

local function apply(session, event, shown, answered)
  local replaced = merged(event, answered)
  -- A null takes a field away.
  content.dropNulls(replaced)
  replaced.actions, replaced.author = replaced.actions or event.actions, replaced.author or event.author
  if type(answered.actions) == "table" then
    replaced.actions = merged(answered.actions)
    replaced.actions.stateDelta = changedDelta(event.actions.stateDelta, shown, answered.actions.stateDelta,
      session)
  end
  checkPartial(event, replaced)
  if answered.content ~= nil and answered.content ~= core.null then
    replaced.content = contentOf(event, answered.content)
  end
  -- Who the event is stays.
  replaced.id, replaced.invocationId, replaced.timestamp = event.id, event.invocationId, event.timestamp
  llmResponses.nameCalls(replaced, session)
  return replaced
end

---Asks the plugins about an event. What one answers replaces the fields that it sets.
---@param callbackState moonpad.CallbackState
---@param event table
---@param origin moonpad.Origin?
---@return table event
function eventHook.ask(callbackState, event, origin)
  if #callbackState.invocationContext.plugins == 0 then return event end
  local shown = event.partial and {} or deltaOf(callbackState, event, origin)
  local view = merged(event)
  view.actions = merged(event.actions, { stateDelta = copy(shown) })
  local reader = {
    invocationContext = callbackState.invocationContext, agent = callbackState.agent,
    context = contexts.readOnly(callbackState),
  }
  local answer = callbacks.askPlugins(reader, "onEvent", core.newEvent(view, callbackState.invocationContext.session))
  if answer == nil then return event end
  if type(answer) ~= "table" then
    core.error("invalid_argument", "onEvent: expected an event (a table) or nothing, got " .. type(answer))
  end
  if content.isBare(answer) then answer = { content = answer } end
  return apply(callbackState.invocationContext.session, event, shown, answer)
end

return eventHook
