--- A JSON Schema as text, with its properties in an order: models answer in the order in which they
--- read the properties (contract section 4).
local core = require "moonpad.core"
local jsonText = require "moonpad.util.json_text"
local keywords = require "moonpad.schema.keywords"

local schemaText = {}

local textOf

-- The names of a list that the object has, each once, and then all others, sorted.
local function inOrder(object, first)
  local names, isThere = {}, {}
  for _, name in ipairs(type(first) == "table" and first or {}) do
    if object[name] ~= nil and not isThere[name] then names[#names + 1], isThere[name] = name, true end
  end
  local others = {}
  for name in pairs(object) do
    if not isThere[name] then others[#others + 1] = name end
  end
  table.sort(others)
  return table.move(others, 1, #others, #names + 1, names)
end

local function mapText(map, first, keepsOrdering)
  local texts = {}
  for name, schema in pairs(map) do texts[name] = textOf(schema, keepsOrdering) end
  return jsonText.object(texts, inOrder(map, first))
end

local function listText(list, keepsOrdering)
  local texts = {}
  for index, schema in ipairs(list) do texts[index] = textOf(schema, keepsOrdering) end
  return "[" .. table.concat(texts, ",") .. "]"
end

local function memberText(schema, name, value, keepsOrdering)
  if type(value) == "string" then return jsonText.string(value) end
  if type(value) ~= "table" then return core.json.encode(value) end
  if keywords.MAPS[name] then
    local isProperties = name == "properties"
    return mapText(value, isProperties and (schema.propertyOrdering or schema.required) or nil, keepsOrdering)
  end
  if keywords.LISTS_OF_SCHEMAS[name] then return listText(value, keepsOrdering) end
  if keywords.SCHEMAS[name] then return (value[1] and listText or textOf)(value, keepsOrdering) end
  return core.json.encode(value)
end

local function holdsSchemas(schema)
  for name, value in pairs(schema) do
    local mayHold = keywords.MAPS[name] or keywords.LISTS_OF_SCHEMAS[name] or keywords.SCHEMAS[name]
    if mayHold and type(value) == "table" then return true end
  end
  return schema.propertyOrdering ~= nil
end

function textOf(schema, keepsOrdering)
  -- The encoder is faster, and right where nothing has an order.
  if type(schema) ~= "table" or not holdsSchemas(schema) then return core.json.encode(schema) end
  local texts = {}
  for name, value in pairs(schema) do
    if keepsOrdering or name ~= "propertyOrdering" then
      texts[name] = memberText(schema, name, value, keepsOrdering)
    end
  end
  return jsonText.object(texts, inOrder(texts))
end

---@param schema table of moonpad.schema.normalize
---@param keepsOrdering boolean? the word `propertyOrdering`, which is Google's
---@return string
function schemaText.of(schema, keepsOrdering)
  return textOf(schema, keepsOrdering or false)
end

---The same as a value of a body.
---@param schema table
---@param keepsOrdering boolean?
---@return table
function schemaText.raw(schema, keepsOrdering)
  return jsonText.raw(schemaText.of(schema, keepsOrdering))
end

return schemaText
