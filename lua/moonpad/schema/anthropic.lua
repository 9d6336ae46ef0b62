--- A JSON Schema in the subset to which Claude holds an answer: objects have no property but those
--- they name, and what cannot be held is said in the description.
local core = require "moonpad.core"
local schemas = require "moonpad.schema.normalize"
local strictSchema = require "moonpad.schema.strict"

local anthropicSchema = {}

-- The API refuses more, or takes too long to prepare for them.
local MAX_OPTIONAL, MAX_UNIONS, MAX_SCHEMAS = 10, 16, 10000

local FORMATS = {
  ["date-time"] = true, time = true, date = true, duration = true, email = true, hostname = true, uri = true,
  ipv4 = true, ipv6 = true, uuid = true,
}

-- What is said by itself, or says nothing about an answer.
local HANDLED = {
  type = true, anyOf = true, oneOf = true, allOf = true, title = true, description = true,
  properties = true, required = true, additionalProperties = true, propertyOrdering = true, items = true,
  nullable = true, ["$ref"] = true, ["$defs"] = true, definitions = true, ["$schema"] = true, ["$id"] = true,
  ["$comment"] = true,
}

local convert

-- Each of them, or nil where one cannot be said.
local function convertAll(given)
  local converted = {}
  for key, schema in pairs(given) do
    converted[key] = convert(schema)
    if not converted[key] then return nil end
  end
  return converted
end

local function hasObject(schema)
  local kinds = type(schema.type) == "table" and schema.type or { schema.type }
  for _, kind in ipairs(kinds) do
    if kind == "object" then return true end
  end
  return schema.type == nil and schema.properties ~= nil
end

local function isPlain(value)
  return type(value) ~= "table"
end

local function hasLiterals(schema)
  if schema.const ~= nil then return isPlain(schema.const) end
  if not schema.enum or #schema.enum == 0 then return false end
  for _, value in ipairs(schema.enum) do
    if not isPlain(value) then return false end
  end
  return true
end

-- nil for a map, whose names only the answer knows.
local function addObject(result, schema)
  if schema.additionalProperties or schema.patternProperties then return nil end
  if not schema.properties and schema.additionalProperties ~= false then return nil end
  local properties = convertAll(schema.properties or {})
  for _, name in ipairs(schema.required or {}) do
    if not properties or properties[name] == nil then return nil end
  end
  result.properties, result.additionalProperties = properties, false
  result.required, result.propertyOrdering = schema.required, schema.propertyOrdering
  return properties and result
end

local function isHeld(schema, name)
  if name == "format" then return FORMATS[schema.format] end
  if name == "minItems" then return schema.minItems == 0 or schema.minItems == 1 end
  if name == "enum" or name == "const" then return hasLiterals(schema) end
  return false
end

-- Keywords that are not held become words.
local function addRest(result, schema)
  local words = {}
  for name, value in pairs(schema) do
    if isHeld(schema, name) then
      result[name] = value
    elseif not HANDLED[name] then
      words[#words + 1] = name .. ": " .. core.json.encode(value)
    end
  end
  if #words == 0 then return end
  table.sort(words)
  local said = "{" .. table.concat(words, ", ") .. "}"
  result.description = result.description and result.description .. "\n\n" .. said or said
end

local function addChoices(result, schema)
  result.anyOf = convertAll(schema.anyOf or schema.oneOf)
  return result.anyOf and not schema.properties and result
end

-- What fits: literals, choices, or values of a type.
local function addKind(result, schema)
  if hasLiterals(schema) then return result end
  if schema.anyOf or schema.oneOf then return addChoices(result, schema) end
  result.type = schema.type or hasObject(schema) and "object" or nil
  if hasObject(schema) and not addObject(result, schema) then return nil end
  if schema.items ~= nil then
    result.items = convert(schema.items)
    if not result.items then return nil end
  end
  return result.type and result
end

local function convertOwn(schema)
  if schema["$ref"] then return { ["$ref"] = schema["$ref"] } end
  if schema.allOf then
    -- Objects without further properties have nothing in common; one alone is only a way to write.
    return not schema.properties and #schema.allOf == 1 and convert(schema.allOf[1]) or nil
  end
  local result = { title = schema.title, description = schema.description }
  if not addKind(result, schema) then return nil end
  addRest(result, schema)
  return result
end

-- nil: it says what cannot be held, nor put into words.
function convert(schema)
  if type(schema) ~= "table" or schema[1] ~= nil then return nil end
  local result = convertOwn(schema)
  return result and schema.nullable == true and strictSchema.orNull(result) or result
end

---- Limits

local function target(root, reference)
  local place, name = tostring(reference):match "^#/(%$?%a+)/(.+)$"
  local definitions = (place == "$defs" or place == "definitions") and root[place]
  return definitions and definitions[name] or nil
end

-- Adds up what the API has limits for, references wherever they stand. False: too much, or a
-- schema that contains itself.
local function measure(schema, root, counts, within)
  if schema["$ref"] then
    local definition = target(root, schema["$ref"])
    if not definition or within[definition] then return false end
    within[definition] = true
    local isFit = measure(definition, root, counts, within)
    within[definition] = nil
    return isFit
  end
  counts.schemas = counts.schemas + 1
  if schema.anyOf or type(schema.type) == "table" then counts.unions = counts.unions + 1 end
  local required = {}
  for _, name in ipairs(schema.required or {}) do required[name] = true end
  for name, property in pairs(schema.properties or {}) do
    if not required[name] then counts.optional = counts.optional + 1 end
    if not measure(property, root, counts, within) then return false end
  end
  for _, choice in ipairs(schema.anyOf or {}) do
    if not measure(choice, root, counts, within) then return false end
  end
  if schema.items and not measure(schema.items, root, counts, within) then return false end
  return counts.optional <= MAX_OPTIONAL and counts.unions <= MAX_UNIONS and counts.schemas <= MAX_SCHEMAS
end

---@param schema table
---@return table? converted nil: it says something that cannot be held so
function anthropicSchema.of(schema)
  local given = schemas.normalize(schema)
  local converted = convert(given)
  if not converted then return nil end
  for _, name in ipairs { "$defs", "definitions" } do
    converted[name] = given[name] and convertAll(given[name])
    if given[name] and not converted[name] then return nil end
  end
  local isFit = measure(converted, converted, { optional = 0, unions = 0, schemas = 0 }, { [converted] = true })
  return isFit and converted or nil
end

return anthropicSchema
