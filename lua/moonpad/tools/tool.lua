--- Tools: what a model may call.
local confirmation = require "moonpad.flow.confirmation"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local names = require "moonpad.tools.name"
local schema = require "moonpad.schema.validate"
local schemaDefinition = require "moonpad.schema.definition"

local tools = {}

---Returns a result and files that go along, or nil and what went wrong.
---@alias moonpad.ToolFunction fun(args: table, context: moonpad.Context): any, (moonpad.Part[]|moonpad.Part|string)?

---@class moonpad.ToolDefinition
---@field name string
---@field description string?
---@field parameters table? a JSON Schema of an object; default: no parameters are described
---@field run moonpad.ToolFunction? must be there, by this name or the other
---@field execute moonpad.ToolFunction? ADK's name of `run`
---@field requireConfirmation boolean|(fun(args: table, context: moonpad.Context): boolean)|nil the user is asked first
---@field longRunning boolean? it may return nil: its answer comes later, in a message of the user

---@class moonpad.Tool: moonpad.ToolDefinition
---@field agent moonpad.Agent? of an agent as a tool
---@field nesting integer? of an agent as a tool: how many agents run others within one another
---@field processLlmRequest (fun(context: moonpad.Context, request: table))? of ready-made tools: adds to each request
---that offers the tool, before the callbacks see it
---@field isHidden boolean? of ready-made tools: no model is told of it, or can call it
local Tool = { __name = "moonpad.tool" }
Tool.__index = Tool

-- Keywords of JSON Schema whose value is a schema.
local HOLDS_SCHEMA = {
  additionalProperties = true, contains = true, ["else"] = true, ["if"] = true, items = true, ["not"] = true,
  propertyNames = true, ["then"] = true, unevaluatedProperties = true,
}

-- { city = { type = "string" } } is a schema that allows anything: its only keyword is unknown.
local function checkIsNoList(parameters, where)
  if parameters.type ~= nil or parameters.properties ~= nil then return end
  for name, value in pairs(parameters) do
    if type(value) == "table" and type(value.type) == "string" and not HOLDS_SCHEMA[name] then
      local shown = errorText.show(tostring(name))
      fields.refuse(where, ("%s is no keyword of JSON Schema; arguments stand in `properties`: "
        .. '{ type = "object", properties = { %s = ... } }'):format(shown, shown))
    end
  end
end

---Checks the schema of arguments, which are an object, always.
---@param parameters any
---@param where string for messages
function tools.checkParameters(parameters, where)
  schemaDefinition.check(parameters, where)
  checkIsNoList(parameters, where)
  local problem = schema.check({ type = parameters.type, nullable = parameters.nullable }, { an = "object" }, where)
  if problem then fields.refuse(where .. ".type", 'must be "object": arguments are one') end
end

local function checkName(name, where)
  names.check(name, where)
  if name == confirmation.REQUEST_NAME then
    fields.refuse(where, ('"%s" is the call that asks the user for a confirmation; take another name'):format(name))
  end
end

local FIELDS = fields.new {
  { "name", checkName, required = true },
  { "description", "string", default = "", isText = true },
  { "parameters", tools.checkParameters },
  { "run", "function", required = true, arguments = "args, context", alias = "execute" },
  { "longRunning", "boolean", default = false },
  { "requireConfirmation", "boolean|function", default = false, arguments = "args, context" },
}:describes "moonpad.ToolDefinition"

local function define(definition, place)
  FIELDS:checkNames(definition, place .. "tool")
  local name = FIELDS:readOne(definition, "name", place .. "tool")
  local tool = FIELDS:read(definition, ('%stool "%s"'):format(place, name))
  tool.parameters = tool.parameters or { type = "object", properties = {} }
  return setmetatable(tool, Tool)
end

---Makes a tool.
---@param definition moonpad.ToolDefinition
---@return moonpad.Tool
function tools.define(definition)
  return (define(definition, ""))
end

---Makes a tool whose answer may come later (ADK's LongRunningFunctionTool).
---@param definition moonpad.ToolDefinition
---@return moonpad.Tool
function tools.defineLongRunning(definition)
  local tool = define(definition, "")
  if definition.longRunning == false then
    fields.refuse(('tool "%s".longRunning'):format(tool.name), "is true for a longRunningTool")
  end
  tool.longRunning = true
  return tool
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
  if type(value) ~= "table" then fields.refuse(where, "expected a moonpad.tool, got " .. fields.describe(value)) end
  if (getmetatable(value) or {}).__name == "moonpad.agent" then
    fields.refuse(where, "an agent is no tool; make it one: moonpad.agentTool{ agent = ... }")
  end
  return define(value, where .. ": ")
end

return tools
