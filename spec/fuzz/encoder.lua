-- Builds a value from bytes, and holds moonpad.json and the state to what they promise: a value that can be stored
-- comes back the same, any other is refused by a moonpad error.
local moonpad = require "moonpad"
local core = require "moonpad.core"

local encode, decode, null = moonpad.json.encode, moonpad.json.decode, moonpad.null
local arrayMark = getmetatable(moonpad.array {})
local PROXY_DEPTH = 2 -- of the one that `build` puts in

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
  function(t) t.proxy = moonpad.state({ a = { 1, { b = 2 } } }).a end,
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

-- Contract 1.2 once more, in the plainest way: may this be stored? `above` holds the tables around it.
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
  -- The only userdata that is built here is a node of PROXY_DEPTH tables.
  if kind == "userdata" then return value == null or value ~= moonpad.removed and depth + PROXY_DEPTH <= MAX_DEPTH end
  return kind == "boolean"
end

local function expectRefusal(err, start)
  local isOurs = core.isError(err) and err.code == "invalid_argument"
  if not isOurs or err.message:sub(1, #start) ~= start or err.message == start then error(err, 0) end
end

local state = moonpad.state {}

return function(bytes)
  input, position = bytes, 0
  made = {}
  local value = build(0)
  if value == nil then return end
  local isStorable = storable(value, 0, {})
  local isEncoded, json = pcall(encode, value)
  local isSet, err = pcall(state.set, state, "k", value)
  -- An error that is no refusal, a lack of memory above all, goes up as it is.
  if not isEncoded then expectRefusal(json, "") end
  if not isSet then expectRefusal(err, 'state["k"]') end
  assert(isEncoded == isStorable, isEncoded and "is encoded but cannot be stored" or json)
  assert(isSet == isStorable, isSet and "is set but cannot be stored" or err)
  if not isStorable then return end
  local back = decode(json)
  assert(same(value, back), "decodes to another value")
  assert(encode(back) == json, "encodes to another text")
  assert(encode(state:get "k") == json, "the state holds another value")
end
