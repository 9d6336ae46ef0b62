-- Builds a value from bytes, and holds moonpad.json and the state to what they promise: a value that can be stored
-- comes back the same, any other is refused by a moonpad error.
local moonpad = require "moonpad"
local core = require "moonpad.core"

local encode, decode, null = moonpad.json.encode, moonpad.json.decode, moonpad.null

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

local function expectMoonpadError(err)
  local isOurs = core.isError(err) and (err.code == "invalid_argument" or err.code == "no_memory")
  if not isOurs or err.message == "" then error(err, 0) end
end

local state = moonpad.state {}

return function(bytes)
  input, position = bytes, 0
  made = {}
  local value = build(0)
  if value == nil then return end
  local ok, json = pcall(encode, value)
  local stored, err = pcall(state.set, state, "k", value)
  if not ok then
    expectMoonpadError(json)
    if stored and value ~= moonpad.removed then error("the state takes what JSON refuses: " .. tostring(json), 0) end
    if not stored then expectMoonpadError(err) end
    return
  end
  local back = decode(json)
  assert(same(value, back), "decodes to another value")
  assert(encode(back) == json, "encodes to another text")
  if not stored then return expectMoonpadError(err) end
  assert(encode(state:get "k") == json, "the state holds another value")
end
