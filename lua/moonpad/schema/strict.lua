--- A JSON Schema in the form to which OpenAI, and servers like it, hold an answer: no property but
--- those it names, and all of those. What may be absent comes as null.
local core = require "moonpad.core"
local schemas = require "moonpad.schema.normalize"

local strictSchemas = {}

-- Keywords that they refuse, or that would mean something else.
local REFUSED = {
  "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "oneOf",
  "propertyNames", "contains", "prefixItems", "unevaluatedProperties", "unevaluatedItems", "minProperties",
  "maxProperties", "uniqueItems",
}

-- Only said to people.
local DROPPED = { "propertyOrdering", "default", "examples", "title", "$schema", "$id", "nullable", "$comment" }

local strict

local function includes(list, wanted)
  for _, item in ipairs(type(list) == "table" and list or { list }) do
    if item == wanted then return true end
  end
  return false
end

---Does null fit already?
---@param schema table
---@return boolean
local function takesNull(schema)
  if includes(schema.type, "null") or includes(schema.enum, core.null) then return true end
  for _, choice in ipairs(schema.anyOf or {}) do
    if type(choice) == "table" and takesNull(choice) then return true end
  end
  return false
end

---@param schema table
---@return table schema which null fits as well
function strictSchemas.orNull(schema)
  if takesNull(schema) then return schema end
  return { anyOf = { schema, { type = "null" } } }
end

-- All properties, in the order in which the schema gives them.
local function namesOf(schema)
  local names, isThere = {}, {}
  local function add(name)
    if schema.properties[name] ~= nil and not isThere[name] then names[#names + 1], isThere[name] = name, true end
  end
  for _, name in ipairs(schema.propertyOrdering or schema.required or {}) do add(name) end
  local others = {}
  for name in pairs(schema.properties) do others[#others + 1] = name end
  table.sort(others)
  for _, name in ipairs(others) do add(name) end
  return names
end

-- nil where some part cannot be said so.
local function strictObject(schema)
  if schema.additionalProperties then return nil end
  -- An object of anything would become one that is always empty.
  local hasProperties = schema.properties ~= nil and next(schema.properties) ~= nil
  if not hasProperties and schema.additionalProperties == nil then return nil end
  schema.properties = schema.properties or {}
  local required = {}
  for _, name in ipairs(schema.required or {}) do required[name] = true end
  local names = namesOf(schema)
  for name in pairs(required) do
    if schema.properties[name] == nil then return nil end
  end
  for name, property in pairs(schema.properties) do
    local converted = strict(property)
    if not converted then return nil end
    schema.properties[name] = required[name] and converted or strictSchemas.orNull(converted)
  end
  schema.required, schema.additionalProperties = core.array(names), false
  return schema
end

local function strictAll(schemasByKey)
  for key, schema in pairs(schemasByKey or {}) do
    schemasByKey[key] = strict(schema)
    if not schemasByKey[key] then return false end
  end
  return true
end

-- Changes the schema. nil: it cannot be said so.
function strict(schema)
  if type(schema) ~= "table" or schema[1] ~= nil then return nil end
  for _, keyword in ipairs(REFUSED) do
    if schema[keyword] ~= nil then return nil end
  end
  if not (schema.type or schema.anyOf or schema.enum or schema["$ref"] or schema.const ~= nil or schema.properties) then
    return nil
  end
  local wasNullable = schema.nullable == true
  for _, name in ipairs { "anyOf", "$defs", "definitions" } do
    if not strictAll(schema[name]) then return nil end
  end
  if schema.items ~= nil or includes(schema.type, "array") then
    schema.items = strict(schema.items)
    if not schema.items then return nil end
  end
  if includes(schema.type, "object") or schema.properties then
    if not strictObject(schema) then return nil end
  end
  for _, keyword in ipairs(DROPPED) do schema[keyword] = nil end
  return wasNullable and strictSchemas.orNull(schema) or schema
end

---@param schema table
---@return table? strict nil: it says something that cannot be held so
function strictSchemas.of(schema)
  local converted = schemas.normalize(schema)
  -- An answer is an object.
  if converted.type ~= "object" or converted.anyOf then return nil end
  return strict(converted)
end

return strictSchemas
