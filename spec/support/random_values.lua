--- Random values that a state can hold, with a taste for the awkward ones. The same seed gives the
--- same values.
local moonpad = require "moonpad"

local Values = {}
Values.__index = Values

local FLOATS = { 0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 2.2250738585072011e-308, 1.7976931348623157e308, 0.1, 1 / 3,
  2.0 ^ 53, 2.0 ^ 63, 1e15, 1e16, 1e17,
  1e21, 1e22, 123456789.125, 4.35, 0.30000000000000004, 9007199254740993.0, 1e-7, 1e-6 }
local INTEGERS = { 0, 1, -1, math.maxinteger, math.mininteger, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, 1 << 31, 1 << 32,
  255, 256 }
local STRINGS = { "", "\0", "a\0b", "\"", "\\", "/", "\n\r\t\b\f", "\27", "\u{7f}", "\u{80}", "é", "鍵", "🌙",
  "👩‍🚀", "\u{2028}\u{2029}", "\u{D7FF}", "\u{E000}",
  "\u{FFFD}", "\u{FFFF}", "\u{10FFFF}", "null", "true", "1", "-0", "NaN", "__index", "user:", "temp:x" }
local CODE_POINTS = { { 0, 0x1F }, { 0x20, 0x7E }, { 0x20, 0x7E }, { 0x80, 0x7FF }, { 0x800, 0xD7FF },
  { 0xE000, 0xFFFF }, { 0x10000, 0x10FFFF } }

-- xorshift64*: independent of math.random, which busted and the code under test may use.
function Values:bits()
  local state = self.state
  state = state ~ (state >> 12)
  state = state ~ (state << 25)
  state = state ~ (state >> 27)
  self.state = state
  return state * 0x2545F4914F6CDD1D
end

function Values:below(count)
  return (self:bits() >> 1) % count
end

function Values:pick(list)
  return list[self:below(#list) + 1]
end

function Values:integer()
  if self:below(4) == 0 then return self:pick(INTEGERS) end
  return self:bits() >> self:below(64)
end

function Values:float()
  if self:below(4) == 0 then return self:pick(FLOATS) end
  if self:below(3) == 0 then return self:below(1000000) / 100 end
  local float
  repeat float = string.unpack("<d", string.pack("<i8", self:bits())) until float == float and float - float == 0
  return float
end

function Values:string()
  if self:below(3) == 0 then return self:pick(STRINGS) end
  local pieces = {}
  for index = 1, self:below(12) do
    local range = self:pick(CODE_POINTS)
    pieces[index] = utf8.char(range[1] + self:below(range[2] - range[1] + 1))
  end
  return table.concat(pieces)
end

Values.key = Values.string

---@param depth integer how many tables may be inside each other
function Values:value(depth)
  local kind = self:below(depth > 0 and 11 or 8)
  if kind <= 1 then return self:integer() end
  if kind <= 3 then return self:float() end
  if kind <= 6 then return self:string() end
  if kind == 7 then return self:pick { true, false, moonpad.null } end
  local size = self:below(5)
  if kind == 8 then
    local object = {}
    for _ = 1, size do object[self:key()] = self:value(depth - 1) end
    return object
  end
  local array = moonpad.array {}
  for index = 1, size do array[index] = self:value(depth - 1) end
  return array
end

local random = {}

---@param seed integer
function random.new(seed)
  local values = setmetatable({ state = seed ~ 0x9E3779B97F4A7C15 }, Values)
  if values.state == 0 then values.state = 1 end
  for _ = 1, 16 do values:bits() end
  return values
end

return random
