--- Tools: what a model may call.
local core = require "moonpad.core"
local schema = require "moonpad.schema.validate"
local schemaDefinition = require "moonpad.schema.definition"

local tools = {}

---@class moonpad.ToolDefinition
---@field name string
---@field description string?
---@field parameters table? a JSON Schema of an object; default: no parameters are described
---@field run fun(args: table, context: moonpad.Context): any
---@field longRunning boolean? it may return nil: its answer comes later, in a message of the user

---@class moonpad.Tool: moonpad.ToolDefinition
---@field nesting integer? of an agent as a tool: how many agents run others within one another
local Tool = { __name = "moonpad.tool" }
Tool.__index = Tool

local FIELDS = { "name", "description", "parameters", "run", "longRunning" }

local function expect(value, kind, where)
  if type(value) ~= kind then
    core.error("invalid_argument", ("%s: expected a %s, got %s"):format(where, kind, type(value)))
  end
end

-- Arguments are an object, always.
local function checkParameters(parameters, where)
  schemaDefinition.check(parameters, where)
  local problem = schema.check({ type = parameters.type, nullable = parameters.nullable }, { an = "object" }, where)
  if problem then core.error("invalid_argument", where .. '.type: must be "object": arguments are one') end
end

---Makes a tool.
---@param definition moonpad.ToolDefinition
---@return moonpad.Tool
function tools.define(definition)
  expect(definition, "table", "tool")
  core.checkFields(definition, "tool", FIELDS)
  expect(definition.name, "string", "tool.name")
  if definition.name == "" then core.error("invalid_argument", "tool.name: must not be empty") end
  local where = ('tool "%s"'):format(definition.name)
  expect(definition.run, "function", where .. ".run")
  if definition.description ~= nil then expect(definition.description, "string", where .. ".description") end
  if definition.parameters ~= nil then checkParameters(definition.parameters, where .. ".parameters") end
  if definition.longRunning ~= nil then expect(definition.longRunning, "boolean", where .. ".longRunning") end
  return setmetatable({
    name = definition.name,
    description = definition.description or "",
    parameters = definition.parameters or { type = "object", properties = {} },
    run = definition.run,
    longRunning = definition.longRunning or false,
  }, Tool)
end

---@param value any
---@return boolean
function tools.isTool(value)
  return getmetatable(value) == Tool
end

return tools
