--- Checks JSON Schemas themselves, when a tool or an agent is made: a misspelt type would switch
--- the check of values off.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"
local luaError = require "moonpad.util.lua_error"
local schema = require "moonpad.schema.validate"

local definitions = {}

-- Deeper data cannot be stored anyway (contract 1.2); this catches schemas that contain themselves.
local MAX_DEPTH = 128
-- Each counts wherever it stands: a few that hold each other often are a schema without end.
local MAX_SCHEMAS = 100000

local checkSchema

local function refuse(where, message, ...)
  core.error("invalid_argument", where .. ": " .. message:format(...))
end

local function member(where, key)
  if key:find "^[%a_][%w_]*$" then return where .. "." .. key end
  return ("%s[%s]"):format(where, core.json.encode(errorText.valid(key)))
end

local function checkTypeName(name, where)
  if type(name) ~= "string" then refuse(where, "expected the name of a type, got %s", type(name)) end
  if not schema.isType(name) then
    refuse(where, '"%s" is no type; there are %s', name, table.concat(schema.typeNames(), ", "))
  end
end

local function checkType(value, where)
  if type(value) == "string" then return checkTypeName(value, where) end
  local names = lists.of(value, where, "types")
  if #names == 0 then refuse(where, "names no type") end
  for index, name in ipairs(names) do checkTypeName(name, ("%s[%d]"):format(where, index)) end
end

local function checkNames(value, where)
  for index, name in ipairs(lists.of(value, where, "names")) do
    if type(name) ~= "string" then refuse(("%s[%d]"):format(where, index), "expected a name, got %s", type(name)) end
  end
end

local function checkChoices(value, where)
  local list = lists.of(value, where, "values")
  if #list == 0 then refuse(where, "has no value, so nothing would fit") end
  local ok, err = pcall(core.json.encode, list)
  if ok then return end
  luaError.passOn(err)
  refuse(where, "%s", core.isError(err) and err.message or tostring(err))
end

local function checkNumber(value, where)
  if type(value) ~= "number" then refuse(where, "expected a number, got %s", type(value)) end
end

local function checkBoolean(value, where)
  if type(value) ~= "boolean" then refuse(where, "expected a boolean, got %s", type(value)) end
end

local function checkSchemas(value, where, depth, checked)
  local list = lists.of(value, where, "schemas")
  if #list == 0 then refuse(where, "has no schema") end
  for index, item in ipairs(list) do checkSchema(item, ("%s[%d]"):format(where, index), depth, checked) end
end

local function checkMap(value, where, depth, checked)
  if type(value) ~= "table" then refuse(where, "expected a table of schemas by name, got %s", type(value)) end
  for key, item in pairs(value) do
    if type(key) ~= "string" then refuse(where, "expected a table of schemas by name, got a list") end
    checkSchema(item, member(where, key), depth, checked)
  end
end

-- A list of schemas describes the items one by one.
local function checkItems(value, where, depth, checked)
  if type(value) == "table" and value[1] ~= nil then return checkSchemas(value, where, depth, checked) end
  checkSchema(value, where, depth, checked)
end

local KEYWORDS = {
  type = checkType, required = checkNames, enum = checkChoices, nullable = checkBoolean,
  minimum = checkNumber, maximum = checkNumber, minLength = checkNumber, maxLength = checkNumber,
  minItems = checkNumber, maxItems = checkNumber,
  properties = checkMap, ["$defs"] = checkMap, definitions = checkMap, items = checkItems,
  anyOf = checkSchemas, oneOf = checkSchemas, allOf = checkSchemas,
  additionalProperties = function(...) checkSchema(...) end,
}

local function sortedNames(value, where)
  local names = {}
  for key in pairs(value) do
    if type(key) ~= "string" then refuse(where, "expected a schema, got a list") end
    names[#names + 1] = key
  end
  table.sort(names)
  return names
end

function checkSchema(value, where, depth, checked)
  if type(value) == "boolean" then return end
  if type(value) ~= "table" then refuse(where, "expected a schema (a table), got %s", type(value)) end
  if depth > MAX_DEPTH then refuse(where, "is nested too deeply, or contains itself") end
  checked.count = checked.count + 1
  if checked.count > MAX_SCHEMAS then
    refuse(where, "more than %d schemas, each counted wherever it stands", MAX_SCHEMAS)
  end
  for _, name in ipairs(sortedNames(value, where)) do
    local check = KEYWORDS[name]
    if check then check(value[name], member(where, name), depth + 1, checked) end
  end
end

---Raises `invalid_argument` where something that is no JSON Schema stands for one.
---@param definition any
---@param where string for messages
function definitions.check(definition, where)
  if type(definition) ~= "table" then refuse(where, "expected a table, got %s", type(definition)) end
  checkSchema(definition, where, 0, { count = 0 })
  -- Models are sent the whole of it, with the keywords that nothing here looks at.
  fields.checkJson(definition, where)
end

return definitions
