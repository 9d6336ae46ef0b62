-- Builds a value from bytes, and holds moonpad.json and the state to what they promise: a value
-- that can be stored comes back the same, any other is refused by a moonpad error. Finalizers call
-- moonpad in the middle of all that.
local moonpad = require "moonpad"
local core = require "moonpad.core"

local encode, decode, null = moonpad.json.encode, moonpad.json.decode, moonpad.null
local arrayMark = getmetatable(moonpad.array {})
local MAX_BYTES = 4096 -- of a value of the state

local service = moonpad.open("memory:", { maxValueBytes = MAX_BYTES })
local session = service:createSession { appName = "fuzz", userId = "u" }
local state = session.state

-- Reads bytes one after the other; past the end, zeros.
local input, position

local function byte()
  position = position + 1
  return input:byte(position) or 0
end

local function text()
  local length = byte() % 12
  local found = input:sub(position + 1, position + length)
  position = position + length
  return found
end

local function packed(format)
  local bytes = input:sub(position + 1, position + 8)
  position = position + 8
  return (string.unpack(format, bytes .. ("\0"):rep(8 - #bytes)))
end

-- Proxies, and how many tables deep each is: states and nodes, of this state and another, live
-- and stale.
local depthOf = setmetatable({}, { __mode = "k" })

local function nodeOf(from, depth)
  from.node = depth == 1 and moonpad.array {} or { { 1, "x" }, { 2 } }
  depthOf[from.node] = depth
  return from.node
end

local function detached()
  local other = moonpad.state { a = { 1, { b = 2 } }, ["user:n"] = 1.0 }
  depthOf[other] = 3
  return other
end

local PROXIES = {
  detached,
  function()
    local node = detached().a
    depthOf[node] = 2
    return node
  end,
  function() return nodeOf(state, 1) end,
  function() return nodeOf(state, 2) end,
  function()
    local node = nodeOf(state, 2)
    state.node = "something else"
    return node
  end,
  function()
    local node = nodeOf(state, 2)
    local item = node[1]
    table.remove(node, 1)
    depthOf[item] = 1
    return item
  end,
  function()
    local other = moonpad.state {}
    depthOf[other] = 1
    return other
  end,
}

local function proxy()
  return PROXIES[byte() % #PROXIES + 1]()
end

-- What a finalizer finds wrong is told at the end: raised in it, it would be a warning that
-- nobody sees.
local problem

local function inTheMiddle()
  local json = ('{"a":[1,"%s"],"k":"v%d"}'):format(("y"):rep(position % 40), position % 3)
  assert(encode(decode(json)) == json)
  state.middle = { { position }, "m" }
  assert(encode(state.middle) == ('[[%d],"m"]'):format(position))
  assert(encode { moonpad.state { n = 1 } } == '[{"n":1}]')
  assert(not pcall(encode, { deep = { print } }))
  assert(moonpad.toTable(state.middle)[2] == "m")
end

local function finalizer()
  local ok, err = pcall(inTheMiddle)
  if not ok then problem = problem or err end
end

local function plant()
  for _ = 1, 1 + byte() % 8 do setmetatable({}, { __gc = finalizer }) end
  if byte() % 2 == 0 then collectgarbage "step" end
end

local build
local made = {} -- tables of this value, for the input to use again

local SCALARS = {
  function() return byte() - 128 end, function() return packed "<i8" end, function() return packed "<d" end, text,
  function() return byte() % 2 == 0 end, function() return null end, function() return byte() / 16 end,
  function() return moonpad.removed end, function() return print end, function() return 0 / 0 end,
  function() return coroutine.running() end, function() return nil end,
}

local function list(depth)
  local t = {}
  made[#made + 1] = t
  for index = 1, byte() % 6 do t[index] = build(depth + 1) end
  if byte() % 8 == 0 then moonpad.array(t) end
  return t
end

local function object(depth)
  local t = {}
  made[#made + 1] = t
  for _ = 1, byte() % 6 do t[text()] = build(depth + 1) end
  return t
end

-- What cannot be stored: mixed tables, holes, cycles, deep ones, other metatables.
local ODD = {
  function(t) t[byte()] = byte() end,
  function(t) t.mixed = 1 end,
  function(t) t[1] = t end,
  function(t) t.again = made[byte() % #made + 1] end,
  function(t) t[1.5] = true end,
  function(t) setmetatable(t, { __index = { 1, 2 } }) end,
  function(t) for _ = 1, byte() do t[1] = { t[1] } end end,
  function(t) t.proxy = proxy() end,
  function(t) t[#t + 1] = proxy() end,
  function(t) t.twice = { proxy(), made[#made], proxy() } end,
  function(t) -- tables that hold each other twice
    local shared = { byte() }
    for _ = 1, byte() % 13 do shared = { shared, shared } end
    t.shared = shared
  end,
  plant,
}

function build(depth)
  local kind = byte()
  if depth > 20 or kind < 140 then return SCALARS[kind % #SCALARS + 1]() end
  local t = kind < 190 and list(depth) or object(depth)
  if kind % 16 == 15 then ODD[byte() % #ODD + 1](t) end
  return t
end

local function same(a, b)
  if core.isError(a) or type(a) == "userdata" then a = moonpad.toTable(a) end
  if type(a) ~= type(b) or math.type(a) ~= math.type(b) then return false end
  if type(a) ~= "table" then return a == b end
  for key, value in next, a do
    if not same(value, b[key]) then return false end
  end
  for key in next, b do
    if rawget(a, key) == nil then return false end
  end
  return true
end

local MAX_DEPTH = 128

-- Contract 1.2 once more, in the plainest way: may this be stored? `above` holds the tables
-- around it.
local storable

-- Every key once: are they 1 to n, or all of them names?
local function isListOrObject(t, isMarked)
  local count, names = 0, 0
  for key in next, t do
    count = count + 1
    if type(key) == "string" then
      if not utf8.len(key) then return false end
      names = names + 1
    end
  end
  if names > 0 then return names == count and not isMarked end
  for index = 1, count do
    if rawget(t, index) == nil then return false end
  end
  return true
end

local function isStorableTable(t, depth, above)
  if depth == MAX_DEPTH or above[t] or not isListOrObject(t, getmetatable(t) == arrayMark) then return false end
  above[t] = true
  for _, value in next, t do
    if not storable(value, depth + 1, above) then
      above[t] = nil
      return false
    end
  end
  above[t] = nil
  return true
end

function storable(value, depth, above)
  local kind = type(value)
  if kind == "string" then return utf8.len(value) ~= nil end
  if kind == "number" then return value == value and value ~= math.huge and value ~= -math.huge end
  if kind == "table" then return isStorableTable(value, depth, above) end
  if kind == "userdata" then
    return value == null or value ~= moonpad.removed and depth + depthOf[value] <= MAX_DEPTH
  end
  return kind == "boolean"
end

local function expectRefusal(err, start, otherCode)
  local isOurs = core.isError(err) and (err.code == "invalid_argument" or err.code == otherCode)
  if not isOurs or err.message:sub(1, #start) ~= start or err.message == start then error(err, 0) end
end

-- `value` is written as `json` where `model`, which is as deep, can be stored; where not, it
-- is refused.
local function holdsAsText(value, model, json)
  local isEncoded, result = pcall(encode, value)
  if isEncoded then
    assert(result == json, "is another value inside a table")
  else
    expectRefusal(result, "value.")
  end
  assert(isEncoded == storable(model, 0, {}), result)
end

local function check()
  local value = build(0)
  if value == nil then return end
  local isStorable = storable(value, 0, {})
  local isEncoded, json = pcall(encode, value)
  local isSet, err = pcall(state.set, state, "k", value)
  -- An error that is no refusal, a lack of memory above all, goes up as it is.
  if not isEncoded then expectRefusal(json, "") end
  if not isSet then expectRefusal(err, 'state["k"]', "limit") end
  assert(isEncoded == isStorable, isEncoded and "is encoded but cannot be stored" or json)
  if not isStorable then
    assert(not isSet, "is set but cannot be stored")
    return
  end
  local back = decode(json)
  assert(same(value, back), "decodes to another value")
  assert(encode(back) == json, "encodes to another text")
  local isSmall = type(value) == "string" or #json <= MAX_BYTES
  assert(isSet == isSmall, isSet and "is longer than its limit" or err)
  if not isSet then
    assert(err.code == "limit", err)
    return
  end
  assert(encode(state:get "k") == json, "the state holds another value")
  -- Inside other tables it is the same value again, or nested too deeply.
  holdsAsText({ s = state:get "k", t = { state:get "k" } }, { { value } }, ('{"s":%s,"t":[%s]}'):format(json, json))
  holdsAsText(moonpad.toTable { k = state:get "k" }, { value }, ('{"k":%s}'):format(json))
end

return function(bytes)
  input, position = bytes, 0
  made, problem = {}, nil
  check()
  if problem then error(problem, 0) end
end
