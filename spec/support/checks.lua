--- What specs share: short ways to make sessions, to expect errors and to compare values exactly.
local assert = require "luassert"
local moonpad = require "moonpad"
local scope = require "spec.support.scope"

local checks = {}

---Calls `run` and expects an error object with this code whose message holds every one of the
---given texts.
---@param code string
---@param says string|string[]|nil texts, not patterns
---@param run function
---@param ... any its arguments
---@return table err
function checks.raises(code, says, run, ...)
  local ok, err = pcall(run, ...)
  assert.is_false(ok, ("expected an error %s, but the call succeeded"):format(code))
  assert(type(err) == "table", "expected an error object, got: " .. tostring(err))
  assert(err.code == code, ("expected code %s, got %s"):format(code, tostring(err)))
  assert.is_string(err.message)
  if type(says) == "string" then says = { says } end
  for _, text in ipairs(says or {}) do
    assert(err.message:find(text, 1, true), ("expected the message to say %q, got: %s"):format(text, err.message))
  end
  return err
end

---Calls `run` and expects an error, whatever it is.
---@param run function
---@param ... any its arguments
---@return any err
function checks.failure(run, ...)
  local ok, err = pcall(run, ...)
  assert.is_false(ok, "expected an error, but the call succeeded")
  return err
end

---A new session of app "app", user "u".
---@param service moonpad.Service
---@param sessionId string? default "s"
---@param state table? initial state
---@return moonpad.Session
function checks.create(service, sessionId, state)
  return service:createSession { appName = "app", userId = "u", sessionId = sessionId or "s", state = state }
end

---The session of app "app", user "u" as a fresh object.
---@param service moonpad.Service
---@param sessionId string? default "s"
---@return moonpad.Session?
function checks.get(service, sessionId)
  return service:getSession { appName = "app", userId = "u", sessionId = sessionId or "s" }
end

---Appends an event that carries nothing but a state delta.
---@param service moonpad.Service
---@param session moonpad.Session
---@param delta table?
---@param fields table? of the event
---@return moonpad.Event
function checks.append(service, session, delta, fields)
  local event = { author = "agent", actions = { stateDelta = delta } }
  for name, value in pairs(fields or {}) do event[name] = value end
  return service:appendEvent(session, event)
end

local function sameScalar(a, b)
  if type(a) ~= type(b) then return false end
  if type(a) ~= "number" then return a == b end
  if math.type(a) ~= math.type(b) then return false end
  if math.type(a) == "integer" then return a == b end
  return string.pack("<d", a) == string.pack("<d", b)
end

local function difference(a, b, path)
  if type(a) ~= "table" or type(b) ~= "table" then
    if sameScalar(a, b) then return nil end
    return ("%s: %s (%s) is not %s (%s)"):format(path, a, math.type(a) or type(a), b, math.type(b) or type(b))
  end
  if next(a) == nil and next(b) == nil then
    if moonpad.json.encode(a) == moonpad.json.encode(b) then return nil end
    return path .. ": an empty array is not an empty object"
  end
  for key, value in pairs(a) do
    local found = difference(value, b[key], ("%s[%q]"):format(path, key))
    if found then return found end
  end
  for key in pairs(b) do
    if a[key] == nil then return ("%s[%q]: only in the second"):format(path, key) end
  end
  return nil
end

---Expects two plain values to be the same bit for bit: subtypes of numbers, signs of zeros, kinds
---of empty tables.
function checks.identical(expected, actual)
  local found = difference(expected, actual, "value")
  assert(found == nil, found)
end

---A list in place of the keys of a table, sorted.
function checks.keys(map)
  local list = {}
  for key in pairs(map) do list[#list + 1] = key end
  table.sort(list)
  return list
end

-- How much of long work is done is said here alone: by the scope and the turn of
-- spec/support/scope.lua. Where the collector never rests (spec/helper.lua) all takes far longer,
-- and finds things in kinds of calls, however many there are of a kind.
local RESTLESS <const> = (os.getenv "MOONPAD_GC" or "") ~= ""
local STRIDES <const> = { whole = 1, all = RESTLESS and 7 or 1, test = 7, turn = 7, quick = 41 }
local SCALES <const> = { whole = 1, all = 1, test = 8, turn = 8, quick = 50 }
local SCALE <const> = math.max(SCALES[scope.name], RESTLESS and 20 or 1)

---Of many cases of one kind each one is tried, or one in so many. Primes: of values that are tried
---in each of some places, all values and all places have their turn.
checks.stride = STRIDES[scope.name]

---Where a loop begins that goes from `first` on by the stride: elsewhere in each turn.
---@param first integer
---@return integer
function checks.start(first)
  return first + scope.turn % checks.stride
end

---What random values begin with: something else in each turn. The environment's MOONPAD_SEED looks
---elsewhere, or at the same once more.
---@return integer
function checks.seed()
  return math.tointeger(tonumber(os.getenv "MOONPAD_SEED")) or scope.turn + 1
end

---How often to do what is done `count` times elsewhere. As often in every turn: it is the number of
---repetitions that is less, and not the kinds.
---@param count integer
---@param least integer? so many in any case (default 1)
---@return integer
function checks.scaled(count, least)
  return math.max(least or 1, count // SCALE)
end

---Says of each of many cases of one kind whether to try it: others in each turn.
---@return fun(): boolean
function checks.chooser()
  local asked = -1 - scope.turn
  return function()
    asked = asked + 1
    return asked % checks.stride == 0
  end
end

---Those of a list that are to be tried.
---@param list any[]
---@return any[]
function checks.chosen(list)
  local isChosen, some = checks.chooser(), {}
  for _, item in ipairs(list) do
    if isChosen() then some[#some + 1] = item end
  end
  -- A short list is not left out.
  if #some == 0 then some[1] = list[scope.turn % #list + 1] end
  return some
end

---How many kilobytes of Lua's memory are in use after `count` calls, beyond those after ten. The
---least of three rounds: Lua's table of strings doubles now and then, but what calls leave behind
---is there each time.
---@param call fun()
---@param count integer
---@return number kilobytes
function checks.growth(call, count)
  local function memoryAfter(calls)
    for _ = 1, calls do call() end
    collectgarbage()
    collectgarbage()
    return collectgarbage "count"
  end
  local least = math.huge
  for _ = 1, 3 do
    local before = memoryAfter(10)
    least = math.min(least, memoryAfter(count) - before)
  end
  return least
end

---How many times as much of the processor's time the second takes as the first: each as it is at
---best, so that what else the machine does counts as little as how fast it is.
---@param first fun() takes some milliseconds
---@param second fun()
---@return number times
function checks.timesAsLong(first, second)
  local best = { math.huge, math.huge }
  for _ = 1, scope.name == "quick" and 2 or 5 do
    for index, run in ipairs { first, second } do
      local begin = os.clock()
      run()
      best[index] = math.min(best[index], os.clock() - begin)
    end
  end
  return best[2] / best[1]
end

---`depth` arrays inside each other.
function checks.nested(depth)
  local value = moonpad.array {}
  for _ = 2, depth do value = { value } end
  return value
end

return checks
