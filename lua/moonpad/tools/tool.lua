--- Tools: what a model may call.
local callbacks = require "moonpad.agents.callbacks"
local confirmation = require "moonpad.flow.confirmation"
local core = require "moonpad.core"
local names = require "moonpad.tools.name"
local schema = require "moonpad.schema.validate"
local schemaDefinition = require "moonpad.schema.definition"

local tools = {}

---@class moonpad.ToolDefinition
---@field name string
---@field description string?
---@field parameters table? a JSON Schema of an object; default: no parameters are described
---@field run fun(args: table, context: moonpad.Context): any, (table[]|string)? a result and files, or nil and an error
---@field requireConfirmation boolean|(fun(args: table, context: moonpad.Context): boolean)|nil the user is asked first
---@field longRunning boolean? it may return nil: its answer comes later, in a message of the user

---@class moonpad.Tool: moonpad.ToolDefinition
---@field agent moonpad.Agent? of an agent as a tool
---@field nesting integer? of an agent as a tool: how many agents run others within one another
local Tool = { __name = "moonpad.tool" }
Tool.__index = Tool

local FIELDS = { "name", "description", "parameters", "run", "longRunning", "requireConfirmation" }

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

local function checkName(name, place)
  local where = place .. "tool.name"
  names.check(name, where)
  if name == confirmation.REQUEST_NAME then
    core.error("invalid_argument",
      ('%s: "%s" is the call that asks the user for a confirmation; take another name'):format(where, name))
  end
end

local function checkRequireConfirmation(value, where)
  if value == nil or type(value) == "boolean" or callbacks.isCallable(value) then return end
  core.error("invalid_argument", ("%s.requireConfirmation: expected a boolean or a function, got %s"):format(where,
    type(value)))
end

local function define(definition, place)
  expect(definition, "table", place .. "tool")
  core.checkFields(definition, place .. "tool", FIELDS)
  checkName(definition.name, place)
  local where = ('%stool "%s"'):format(place, definition.name)
  if not callbacks.isCallable(definition.run) then expect(definition.run, "function", where .. ".run") end
  if definition.description ~= nil then expect(definition.description, "string", where .. ".description") end
  if definition.parameters ~= nil then checkParameters(definition.parameters, where .. ".parameters") end
  if definition.longRunning ~= nil then expect(definition.longRunning, "boolean", where .. ".longRunning") end
  checkRequireConfirmation(definition.requireConfirmation, where)
  return setmetatable({
    name = definition.name,
    description = definition.description or "",
    parameters = definition.parameters or { type = "object", properties = {} },
    run = definition.run,
    longRunning = definition.longRunning or false,
    requireConfirmation = definition.requireConfirmation or false,
  }, Tool)
end

---Makes a tool.
---@param definition moonpad.ToolDefinition
---@return moonpad.Tool
function tools.define(definition)
  return (define(definition, ""))
end

---@param value any
---@return boolean
function tools.isTool(value)
  return getmetatable(value) == Tool
end

---The tool that an entry of a list of tools is, or defines.
---@param value any
---@param where string for messages
---@return moonpad.Tool
function tools.of(value, where)
  if tools.isTool(value) then return value end
  if type(value) ~= "table" then
    core.error("invalid_argument", ("%s: expected a moonpad.tool, got %s"):format(where, type(value)))
  end
  return define(value, where .. ": ")
end

return tools
