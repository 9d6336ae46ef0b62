--- luassert assertions about state: `assert.has_state(holder, { key = value })`,
--- `assert.state_delta(event, { ... })`.
local assert = require "luassert"
local core = require "moonpad.core"
local methodOf = require "moonpad.util.method_of"
local say = require "say"

-- The exact text of a value: keys sorted, 1 and 1.0 apart.
local function show(value)
  if value == nil then return "nothing" end
  if value == core.removed then return "moonpad.removed" end
  local ok, text = pcall(core.json.encode, value)
  return ok and text or tostring(value)
end

local function describe(differences)
  table.sort(differences)
  return "\n  " .. table.concat(differences, "\n  ")
end

-- A session, a context, or a state object.
local function stateOf(holder)
  if type(holder) == "table" or type(holder) == "userdata" then
    local ok, state = pcall(function() return methodOf(holder, "getAll") and holder or holder.state end)
    if ok and state then return state end
  end
  core.error("invalid_argument", "assert.has_state: expected a session, a context or a state, got " .. type(holder))
end

-- Every key that is given has this value; moonpad.removed: there is no such key. Others may
-- be there.
local function hasState(assertion, arguments)
  local state, differences = stateOf(arguments[1]):getAll(), {}
  for key, wanted in pairs(core.toTable(arguments[2])) do
    local there = state[key]
    local same = show(there) == show(wanted) or wanted == core.removed and there == nil
    if not same then
      differences[#differences + 1] = ("%s: expected %s, there is %s"):format(key, show(wanted), show(there))
    end
  end
  arguments[1], arguments.n = describe(differences), 1
  assertion.failureMessage = nil
  return #differences == 0
end

-- The event's delta is exactly this.
local function stateDelta(_, arguments)
  local event = arguments[1]
  local delta, differences = event and event.actions and event.actions.stateDelta or {}, {}
  for key, wanted in pairs(arguments[2]) do
    if show(delta[key]) ~= show(wanted) then
      differences[#differences + 1] = ("%s: expected %s, got %s"):format(key, show(wanted), show(delta[key]))
    end
  end
  for key, value in pairs(delta) do
    if arguments[2][key] == nil then differences[#differences + 1] = ("%s: unexpected, %s"):format(key, show(value)) end
  end
  arguments[1], arguments.n = describe(differences), 1
  return #differences == 0
end

say:set("assertion.has_state.positive", "The state is not as expected:%s")
say:set("assertion.has_state.negative", "The state was expected to differ.")
say:set("assertion.state_delta.positive", "The event's stateDelta is not as expected:%s")
say:set("assertion.state_delta.negative", "The event's stateDelta was expected to differ.")
assert:register("assertion", "has_state", hasState, "assertion.has_state.positive", "assertion.has_state.negative")
assert:register("assertion", "state_delta", stateDelta, "assertion.state_delta.positive",
  "assertion.state_delta.negative")
