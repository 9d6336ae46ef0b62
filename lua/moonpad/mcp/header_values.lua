--- What the protocol mirrors into HTTP headers, so that whatever stands between need not read the
--- bodies: the name of what is asked for, and arguments that a tool's schema marks with
--- `x-mcp-header` (2026-07-28, "Request Metadata").
local base64 = require "moonpad.util.base64"

local headerValues = {}

---Any text as the value of a header.
---@param text string
---@return string
function headerValues.encode(text)
  local isPlain = not text:find "[^\x20-\x7E]" and not text:find "^ " and not text:find " $"
  if isPlain and not text:find "^=%?base64%?.*%?=$" then return text end
  return "=?base64?" .. base64.encode(text) .. "?="
end

---- Arguments

---@class moonpad.McpParameterHeader
---@field path string[] of properties
---@field name string of the header

local KEYWORD = "x-mcp-header"
local TYPES = { string = true, integer = true, boolean = true }

-- Keywords whose value is a schema, a list of schemas, or schemas by name.
local SCHEMAS = {
  "additionalProperties", "allOf", "anyOf", "contains", "else", "if", "items", "not", "oneOf", "prefixItems",
  "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
}
local NAMED_SCHEMAS = { "$defs", "definitions", "dependentSchemas", "patternProperties" }

local function problemOf(schema, isReachable, taken)
  local name = schema[KEYWORD]
  if type(name) ~= "string" or not name:find "^[%w!#$%%&'*+.^_`|~-]+$" then return "is no name of a header" end
  if not isReachable then return ("%s stands where no argument has a fixed place"):format(name) end
  if not TYPES[schema.type] then return ("%s is not of type string, integer or boolean"):format(name) end
  if taken[name:lower()] then return ("%s is there twice"):format(name) end
  taken[name:lower()] = true
  return nil
end

local walk

local function walkAll(schemas, found, taken)
  if type(schemas) ~= "table" then return nil end
  for _, schema in pairs(schemas) do
    local problem = walk(schema, nil, found, taken)
    if problem then return problem end
  end
  return nil
end

local function walkProperties(schema, path, found, taken)
  if type(schema.properties) ~= "table" then return nil end
  for name, property in pairs(schema.properties) do
    local inner = path and table.move(path, 1, #path, 1, {})
    if inner then inner[#inner + 1] = name end
    local problem = walk(property, inner, found, taken)
    if problem then return problem end
  end
  return nil
end

-- `path`: of properties from the root on; nil: there is no such path.
function walk(schema, path, found, taken)
  if type(schema) ~= "table" then return nil end
  if schema[KEYWORD] ~= nil then
    local problem = problemOf(schema, path ~= nil and #path > 0, taken)
    if problem then return problem end
    found[#found + 1] = { path = path, name = "mcp-param-" .. schema[KEYWORD]:lower() }
  end
  local problem = walkProperties(schema, path, found, taken)
  for _, keyword in ipairs(SCHEMAS) do
    local value = schema[keyword]
    if type(value) == "table" and not problem then
      problem = value[1] ~= nil and walkAll(value, found, taken) or walk(value, nil, found, taken)
    end
  end
  for _, keyword in ipairs(NAMED_SCHEMAS) do problem = problem or walkAll(schema[keyword], found, taken) end
  return problem
end

---Which arguments of a tool go into headers.
---@param schema any its inputSchema
---@return moonpad.McpParameterHeader[]? found nil where the schema breaks the rules: then there is no such tool
---@return string? problem
function headerValues.ofSchema(schema)
  local found = {}
  local problem = walk(schema, {}, found, {})
  if problem then return nil, KEYWORD .. ": " .. problem end
  return found
end

local function textOf(value)
  if type(value) == "string" then return value end
  if type(value) == "boolean" then return tostring(value) end
  local integer = type(value) == "number" and math.tointeger(value)
  return integer and ("%d"):format(integer)
end

---The headers of a call. Arguments that are not there have none.
---@param parameters moonpad.McpParameterHeader[]
---@param arguments table
---@return table<string, string>
function headerValues.ofArguments(parameters, arguments)
  local headers = {}
  for _, parameter in ipairs(parameters) do
    local value = arguments
    for _, name in ipairs(parameter.path) do
      if type(value) ~= "table" then break end
      value = value[name]
    end
    local text = textOf(value)
    if text then headers[parameter.name] = headerValues.encode(text) end
  end
  return headers
end

return headerValues
