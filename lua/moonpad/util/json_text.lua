--- JSON in which some values are texts already, such as schemas: their properties have an order,
--- which Lua's tables do not.
local arrays = require "moonpad.util.array"
local core = require "moonpad.core"

local jsonText = {}

-- Its values stand for their text.
local Raw = { __name = "moonpad.json_text" }

-- No text stands deeper; what contains itself is refused by the encoder.
local MAX_DEPTH = 16

---A value that is written as this text.
---@param text string JSON
---@return table
function jsonText.raw(text)
  return setmetatable({ text = text }, Raw)
end

local encode

local function encodeList(list, depth)
  local texts = {}
  for index, item in ipairs(list) do texts[index] = encode(item, depth + 1) end
  return "[" .. table.concat(texts, ",") .. "]"
end

---The same as core.json.encode; most texts have nothing in them that must be escaped.
---@param text string
---@return string
function jsonText.string(text)
  if text:find "[^ !#-%[%]-~]" then return core.json.encode(text) end
  return '"' .. text .. '"'
end

---An object whose members stand in an order.
---@param members table<string, string> the texts of the values
---@param names string[]
---@return string
function jsonText.object(members, names)
  local texts = {}
  for index, name in ipairs(names) do texts[index] = jsonText.string(name) .. ":" .. members[name] end
  return "{" .. table.concat(texts, ",") .. "}"
end

local function encodeObject(object, depth)
  local texts, names = {}, {}
  for name, value in pairs(object) do
    -- The encoder says what is wrong with such a key.
    if type(name) ~= "string" then return core.json.encode(object) end
    texts[name], names[#names + 1] = encode(value, depth + 1), name
  end
  table.sort(names)
  return jsonText.object(texts, names)
end

function encode(value, depth)
  if type(value) ~= "table" or depth > MAX_DEPTH then return core.json.encode(value) end
  if getmetatable(value) == Raw then return value.text end
  if value[1] ~= nil then return encodeList(value, depth) end
  if next(value) == nil or arrays.isMarked(value) then return core.json.encode(value) end
  return encodeObject(value, depth)
end

---@param value any
---@return string text as core.json.encode would write it, apart from the values that are texts
function jsonText.encode(value)
  return encode(value, 0)
end

return jsonText
