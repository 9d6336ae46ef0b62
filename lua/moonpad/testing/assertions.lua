--- luassert assertions about state and tools: `assert.has_state(holder, { key = value })`,
--- `assert.state_delta(event, { ... })`, `assert.no_tool_errors(result)`; and `assert.same` for
--- values of state.
local assert = require "luassert"
local core = require "moonpad.core"
local methodOf = require "moonpad.util.method_of"
local namespaces = require "luassert.namespaces"
local say = require "say"
local toolErrors = require "moonpad.testing.tool_errors"

-- What moonpad adds, for editors: the class is that of LuaLS's own library for luassert.
---@class luassert.internal
---@field has_state fun(holder: any, values: table<string, any>) the state has these values
---@field state_delta fun(event: moonpad.Event, values: table<string, any>) its delta is this
---@field no_tool_errors fun(result: moonpad.TestRun) no tool has failed
---@field tool_errors fun(result: moonpad.TestRun) a tool has failed

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

local function stateIn(holder)
  if methodOf(holder, "getAll") then return holder end
  return type(holder) == "table" and holder.session and holder.session.state or holder.state
end

-- Of a session, a context, a state object, or what testing.run returns.
local function stateOf(holder)
  if type(holder) == "table" or type(holder) == "userdata" then
    local ok, state = pcall(stateIn, holder)
    if ok and state then return state end
  end
  core.error("invalid_argument", "assert.has_state: expected a session, a context or a state, got " .. type(holder))
end

-- What is different, a line for each: it is the whole message, so that luassert leaves it as it is.
local function answer(arguments, differences)
  arguments[1], arguments.n, arguments.nofmt = describe(differences), 1, { true }
  return #differences == 0
end

-- Every key that is given has this value; moonpad.removed: there is no such key. Others may
-- be there.
local function hasState(_, arguments)
  local holder = arguments[1]
  local state, differences = stateOf(holder):getAll(), {}
  for key, wanted in pairs(core.toTable(arguments[2])) do
    local there = state[key]
    local same = show(there) == show(wanted) or wanted == core.removed and there == nil
    if not same then
      differences[#differences + 1] = ("%s: expected %s, there is %s"):format(key, show(wanted), show(there))
    end
  end
  local isSame = answer(arguments, differences)
  arguments[1] = arguments[1] .. toolErrors.text(holder)
  return isSame
end

local function deltaOf(event)
  if type(event) ~= "table" then
    core.error("invalid_argument", "assert.state_delta: expected an event, got " .. type(event))
  elseif event.events then
    core.error("invalid_argument", "assert.state_delta: expected an event, got what holds events: take one of them")
  end
  return event.actions and event.actions.stateDelta or {}
end

-- The event's delta is exactly this.
local function stateDelta(_, arguments)
  local delta, differences = deltaOf(arguments[1]), {}
  for key, wanted in pairs(arguments[2]) do
    if show(delta[key]) ~= show(wanted) then
      differences[#differences + 1] = ("%s: expected %s, got %s"):format(key, show(wanted), show(delta[key]))
    end
  end
  for key, value in pairs(delta) do
    if arguments[2][key] == nil then differences[#differences + 1] = ("%s: unexpected, %s"):format(key, show(value)) end
  end
  return answer(arguments, differences)
end

-- A tool that fails is no error of a run: the model is told.
local function hasToolErrors(_, arguments)
  local text = toolErrors.text(arguments[1])
  arguments[1], arguments.n, arguments.nofmt = text, 1, { true }
  return text ~= ""
end

---- Values of state in the assertions of luassert

-- Tables that hold themselves are luassert's affair.
local function holdsProxy(value, seen)
  if type(value) == "userdata" then return value ~= core.null and value ~= core.removed end
  if type(value) ~= "table" or seen and seen[value] then return false end
  seen = seen or {}
  seen[value] = true
  for _, item in next, value do
    if holdsProxy(item, seen) then return true end
  end
  return false
end

-- Proxies as tables, wherever they stand; what holds none stays itself.
local function plain(value)
  if type(value) == "userdata" and value ~= core.null and value ~= core.removed then return core.toTable(value) end
  return holdsProxy(value) and core.toTable(value) or value
end

-- `assert.same` sees tables where there are nodes.
local function wrapSame(stock)
  return function(state, arguments, level)
    arguments[1], arguments[2] = plain(arguments[1]), plain(arguments[2])
    return stock(state, arguments, (level or 1) + 1)
  end
end

-- Each with what is said where it does not hold, and where it was turned round.
local function register(name, check, positive, negative)
  say:set(("assertion.%s.positive"):format(name), positive)
  say:set(("assertion.%s.negative"):format(name), negative)
  assert:register("assertion", name, check, ("assertion.%s.positive"):format(name),
    ("assertion.%s.negative"):format(name))
end

register("has_state", hasState, "The state is not as expected:%s", "The state was expected to differ.")
register("state_delta", stateDelta, "The event's stateDelta is not as expected:%s",
  "The event's stateDelta was expected to differ.")
-- `no` is a word of luassert's own.
register("tool_errors", hasToolErrors, "A tool was expected to fail.", "Tools have failed:%s")

-- busted loads this file anew for each spec file, luassert stays.
local same = namespaces.assertion.same
same.stock = same.stock or same.callback
same.callback = wrapSame(same.stock)
