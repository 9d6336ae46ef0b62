--- JSON Schemas on their way to a provider: Lua's empty tables become what the schema means
--- by them.
local core = require "moonpad.core"

local schemas = {}

-- Keywords by what they hold.
local LISTS = { required = true, enum = true, examples = true, propertyOrdering = true, type = true }
local SCHEMA_LISTS = { anyOf = true, oneOf = true, allOf = true, prefixItems = true }
local SCHEMA_MAPS = {
  properties = true, patternProperties = true, ["$defs"] = true, definitions = true, dependentSchemas = true,
}
local SCHEMAS = {
  items = true, additionalProperties = true, ["not"] = true, ["if"] = true, ["then"] = true, ["else"] = true,
  contains = true, propertyNames = true, unevaluatedProperties = true, unevaluatedItems = true,
}

local normalize

local function asObject(values, convert)
  local result = {}
  for key, value in pairs(values) do result[key] = convert(value) end
  return result
end

local function asList(values, convert)
  local result = {}
  for index, value in ipairs(values) do result[index] = convert and convert(value) or value end
  return core.array(result)
end

local function convertMember(key, value)
  if type(value) ~= "table" then return value end
  if LISTS[key] then return asList(value) end
  if SCHEMA_LISTS[key] then return asList(value, normalize) end
  if SCHEMA_MAPS[key] then return asObject(value, normalize) end
  if SCHEMAS[key] then return value[1] and asList(value, normalize) or normalize(value) end
  return value
end

function normalize(schema)
  if type(schema) ~= "table" then return schema end
  local result = {}
  for key, value in pairs(schema) do result[key] = convertMember(key, value) end
  return result
end

---@param schema table?
---@return table schema of an object, as providers want to have it for the parameters of a function
function schemas.ofParameters(schema)
  local result = normalize(core.toTable(schema or {}))
  result.type = result.type or "object"
  result.properties = result.properties or {}
  return result
end

---@param schema table
---@return table
function schemas.normalize(schema)
  return normalize(core.toTable(schema))
end

return schemas
