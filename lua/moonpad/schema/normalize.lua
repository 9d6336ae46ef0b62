--- JSON Schemas on their way to a provider: Lua's empty tables become what the schema means
--- by them.
local core = require "moonpad.core"
local keywords = require "moonpad.schema.keywords"

local schemas = {}

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

-- Names of types may be written as Google's own schemas have them: "STRING".
local function lowerName(name)
  return type(name) == "string" and name:lower() or name
end

local function lowerType(value)
  return type(value) == "table" and asList(value, lowerName) or lowerName(value)
end

local function convertMember(key, value)
  if key == "type" then return lowerType(value) end
  if type(value) ~= "table" then return value end
  if keywords.LISTS[key] then return asList(value) end
  if keywords.LISTS_OF_SCHEMAS[key] then return asList(value, normalize) end
  if keywords.MAPS[key] then return asObject(value, normalize) end
  if keywords.SCHEMAS[key] then return value[1] and asList(value, normalize) or normalize(value) end
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
