--- Checks a value against the part of JSON Schema that tool parameters use. Answers nil, or what is
--- wrong and where.
local arrays = require "moonpad.util.array"
local core = require "moonpad.core"

local schema = {}

local function isArray(value)
  return type(value) == "table" and (arrays.isMarked(value) or value[1] ~= nil)
end

local function isObject(value)
  return type(value) == "table" and not isArray(value)
end

local function isInteger(value)
  return math.type(value) == "integer" or math.type(value) == "float" and value % 1 == 0
end

local ofType = {
  string = function(value) return type(value) == "string" end,
  boolean = function(value) return type(value) == "boolean" end,
  number = function(value) return type(value) == "number" end,
  integer = isInteger,
  null = function(value) return value == core.null end,
  -- An empty table does not tell what it is.
  array = function(value) return isArray(value) or type(value) == "table" and next(value) == nil end,
  object = isObject,
}

---@param name string
---@return boolean
function schema.isType(name)
  return ofType[name:lower()] ~= nil
end

---@return string[] the names of all types, sorted
function schema.typeNames()
  local names = {}
  for name in pairs(ofType) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function typeName(value)
  if value == nil then return "nothing" end
  if value == core.null then return "null" end
  if type(value) == "table" then return isArray(value) and "array" or "object" end
  return type(value)
end

local function article(name)
  return (name:find("^[aeiou]") and "an " or "a ") .. name
end

-- Gemini writes its type names in capitals.
local function typesOf(definition)
  local types = definition.type
  if type(types) == "string" then types = { types } end
  local names = {}
  for _, name in ipairs(types or {}) do names[#names + 1] = name:lower() end
  return names
end

local function checkType(definition, value, path)
  local names = typesOf(definition)
  if #names == 0 or value == core.null and definition.nullable then return nil end
  for _, name in ipairs(names) do
    if ofType[name](value) then return nil end
  end
  local expected = {}
  for index, name in ipairs(names) do expected[index] = article(name) end
  local found = typeName(value) == "number" and tostring(value) or typeName(value)
  return ("%s: expected %s, got %s"):format(path, table.concat(expected, " or "), found)
end

local function same(left, right)
  if type(left) ~= "table" or type(right) ~= "table" then return left == right end
  return core.json.encode(left) == core.json.encode(right)
end

local function checkEnum(definition, value, path)
  if definition.enum == nil then return nil end
  local allowed = {}
  for index, item in ipairs(definition.enum) do
    if same(item, value) then return nil end
    allowed[index] = core.json.encode(item)
  end
  return ("%s: %s is not one of %s"):format(path, core.json.encode(value), table.concat(allowed, ", "))
end

local function checkNumber(definition, value, path)
  if type(value) ~= "number" then return nil end
  if definition.minimum and value < definition.minimum then
    return ("%s: %s is below the minimum of %s"):format(path, value, definition.minimum)
  end
  if definition.maximum and value > definition.maximum then
    return ("%s: %s is above the maximum of %s"):format(path, value, definition.maximum)
  end
  return nil
end

local function checkString(definition, value, path)
  if type(value) ~= "string" then return nil end
  local length = utf8.len(value) or #value
  if definition.minLength and length < definition.minLength then
    return ("%s: %d characters are fewer than %d"):format(path, length, definition.minLength)
  end
  if definition.maxLength and length > definition.maxLength then
    return ("%s: %d characters are more than %d"):format(path, length, definition.maxLength)
  end
  return nil
end

local function checkItems(definition, value, path)
  if not ofType.array(value) then return nil end
  if definition.minItems and #value < definition.minItems then
    return ("%s: %d items are fewer than %d"):format(path, #value, definition.minItems)
  end
  if definition.maxItems and #value > definition.maxItems then
    return ("%s: %d items are more than %d"):format(path, #value, definition.maxItems)
  end
  local items = definition.items
  local isTuple = type(items) == "table" and items[1] ~= nil
  for index, item in ipairs(items ~= nil and value or {}) do
    local problem = schema.check(isTuple and items[index] or items, item, ("%s[%d]"):format(path, index))
    if problem then return problem end
  end
  return nil
end

local function member(path, key)
  return path == "" and key or path .. "." .. key
end

local function sortedKeys(value)
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  return keys
end

local function checkRequired(definition, value, path)
  for _, key in ipairs(definition.required or {}) do
    if value[key] == nil then return ("%s: is required"):format(member(path, key)) end
  end
  return nil
end

local function checkMember(definition, properties, value, path, key)
  local place = member(path, key)
  if properties[key] ~= nil then return schema.check(properties[key], value[key], place) end
  if definition.additionalProperties == false then
    local known = sortedKeys(properties)
    return ("%s: is not known here (%s)"):format(place,
      #known > 0 and "known: " .. table.concat(known, ", ") or "nothing is taken")
  end
  return schema.check(definition.additionalProperties, value[key], place)
end

local function checkObject(definition, value, path)
  if not isObject(value) then return nil end
  local problem = checkRequired(definition, value, path)
  if problem then return problem end
  local properties = definition.properties or {}
  for _, key in ipairs(sortedKeys(value)) do
    problem = checkMember(definition, properties, value, path, key)
    if problem then return problem end
  end
  return nil
end

local function checkAnyOf(definition, value, path)
  local choices = definition.anyOf or definition.oneOf
  if choices == nil then return nil end
  local first
  for _, choice in ipairs(choices) do
    local problem = schema.check(choice, value, path)
    if problem == nil then return nil end
    first = first or problem
  end
  return ("%s (nor does it fit the %d other forms)"):format(first, #choices - 1)
end

local checks = { checkType, checkEnum, checkNumber, checkString, checkItems, checkObject, checkAnyOf }

---@param definition table|boolean|nil a JSON Schema that `moonpad.schema.definition` has found right
---@param value any
---@param path string? where the value is, for messages; `""` for the arguments as a whole
---@return string? problem
function schema.check(definition, value, path)
  if definition == false then return ("%s: nothing is taken here"):format(path or "") end
  if type(definition) ~= "table" then return nil end
  for _, check in ipairs(checks) do
    local problem = check(definition, value, path or "")
    if problem then return (problem:gsub("^: ", "arguments: ")) end
  end
  return nil
end

return schema
