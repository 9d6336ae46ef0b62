--- Agents: their definition, and the frame in which any kind of agent runs.
local callbacks = require "moonpad.callbacks"
local content = require "moonpad.content"
local contexts = require "moonpad.context"
local core = require "moonpad.core"
local flow = require "moonpad.flow"
local publish = require "moonpad.publish"
local tools = require "moonpad.tool"

local agents = {}

---@alias moonpad.Callback function|function[]

---@class moonpad.AgentDefinition
---@field name string
---@field description string?
---@field model function|moonpad.Model|string|nil
---@field instruction string|(fun(context: moonpad.Context): string?)|nil
---@field globalInstruction string|(fun(context: moonpad.Context): string?)|nil
---@field tools moonpad.Tool[]?
---@field outputKey string? state key that gets the text of the final answer
---@field outputSchema table?
---@field includeContents "default"|"none"|nil
---@field config table? handed to the model
---@field subAgents moonpad.Agent[]?
---@field templateSyntax "both"|"braces"|"angles"|nil
---@field beforeAgentCallback moonpad.Callback?
---@field afterAgentCallback moonpad.Callback?
---@field beforeModelCallback moonpad.Callback?
---@field afterModelCallback moonpad.Callback?
---@field onModelErrorCallback moonpad.Callback?
---@field beforeToolCallback moonpad.Callback?
---@field afterToolCallback moonpad.Callback?
---@field onToolErrorCallback moonpad.Callback?

---@class moonpad.Agent: moonpad.AgentDefinition
---@field parent moonpad.Agent?
---@field callbacks table<string, function[]>
---@field toolsByName table<string, moonpad.Tool>
local Agent = { __name = "moonpad.agent" }
Agent.__index = Agent

local FIELDS = {
  "name", "description", "model", "instruction", "globalInstruction", "tools", "outputKey", "outputSchema",
  "includeContents", "config", "subAgents", "templateSyntax",
}
table.move(callbacks.OF_AGENT, 1, #callbacks.OF_AGENT, #FIELDS + 1, FIELDS)

local function refuse(where, message)
  core.error("invalid_argument", where .. ": " .. message)
end

local function expect(value, where, ...)
  if value == nil then return end
  for _, kind in ipairs { ... } do
    if type(value) == kind or kind == "function" and callbacks.isCallable(value) then return end
  end
  refuse(where, ("expected a %s, got %s"):format(table.concat({ ... }, " or a "), type(value)))
end

local function checkName(definition)
  local name = definition.name
  if type(name) ~= "string" or name == "" then
    refuse("agent.name", ("expected a non-empty string, got %s"):format(name == "" and '""' or type(name)))
  end
  if name == "user" then refuse("agent.name", '"user" is who sends the messages; take another name') end
  if not utf8.len(name) or name:find "%c" then
    refuse("agent.name", "must be valid UTF-8 without control characters")
  end
end

local function checkModel(model, where)
  expect(model, where, "function", "table", "string")
  if type(model) == "table" and not callbacks.isCallable(model) and type(model.generate) ~= "function" then
    refuse(where, "a model object needs a method generate(self, request, context)")
  end
end

local function checkChoice(value, where, ...)
  if value == nil then return end
  for _, choice in ipairs { ... } do
    if value == choice then return end
  end
  refuse(where, ('expected "%s", got %s'):format(table.concat({ ... }, '" or "'), tostring(value)))
end

local function checkFields(definition, where)
  checkModel(definition.model, where .. ".model")
  expect(definition.instruction, where .. ".instruction", "string", "function")
  expect(definition.globalInstruction, where .. ".globalInstruction", "string", "function")
  expect(definition.tools, where .. ".tools", "table")
  expect(definition.outputKey, where .. ".outputKey", "string")
  expect(definition.config, where .. ".config", "table")
  checkChoice(definition.includeContents, where .. ".includeContents", "default", "none")
  checkChoice(definition.templateSyntax, where .. ".templateSyntax", "both", "braces", "angles")
end

-- Fields of the contract that this version does not serve yet: refused, never ignored.
local function refuseUnsupported(definition, where)
  if definition.outputSchema ~= nil then
    core.error("unsupported", where .. ".outputSchema: not in this version; parse the text of the final event instead")
  end
  if definition.subAgents ~= nil and next(definition.subAgents) ~= nil then
    core.error("unsupported", where .. ".subAgents: not in this version; put the agents into a moonpad.sequentialAgent")
  end
end

local function toolList(definition, where)
  local list, byName = {}, {}
  for index, tool in ipairs(definition.tools or {}) do
    if not tools.isTool(tool) then
      if type(tool) ~= "table" then
        refuse(("%s.tools[%d]"):format(where, index), ("expected a moonpad.tool, got %s"):format(type(tool)))
      end
      tool = tools.define(tool)
    end
    if byName[tool.name] then refuse(where .. ".tools", ('two tools are called "%s"'):format(tool.name)) end
    list[index], byName[tool.name] = tool, tool
  end
  return list, byName
end

---Makes an agent of any kind.
---@param definition table
---@param fields string[] that this kind takes
---@param body fun(invocation: moonpad.Run, agent: moonpad.Agent) what it does between its callbacks
---@return moonpad.Agent agent
---@return string where for messages
function agents.build(definition, fields, body)
  if type(definition) ~= "table" then refuse("agent", ("expected a table, got %s"):format(type(definition))) end
  core.checkFields(definition, "agent", fields)
  checkName(definition)
  local where = ('agent "%s"'):format(definition.name)
  expect(definition.description, where .. ".description", "string")
  local agent = { callbacks = {}, body = body }
  for _, field in ipairs(fields) do agent[field] = definition[field] end
  for _, hook in ipairs(callbacks.OF_AGENT) do
    agent.callbacks[hook] = callbacks.list(definition[hook], where .. "." .. hook)
  end
  return setmetatable(agent, Agent), where
end

---Makes an agent that is driven by a model.
---@param definition moonpad.AgentDefinition
---@return moonpad.Agent
function agents.define(definition)
  local agent, where = agents.build(definition, FIELDS, flow.run)
  checkFields(definition, where)
  refuseUnsupported(definition, where)
  agent.tools, agent.toolsByName = toolList(definition, where)
  return agent
end

---@param value any
---@return boolean
function agents.isAgent(value)
  return getmetatable(value) == Agent
end

-- Runs the callbacks of one phase of an agent. What they changed, and the answer of one of them, goes out as one event.
local function runPhase(invocation, agent, hook)
  local phase = contexts.open(invocation, agent)
  local answer = callbacks.ask(phase, hook)
  if answer ~= nil then answer = content.normalize(answer, "model", hook) end
  publish.phase(phase, answer)
  contexts.close(phase, "its callback is over")
  return answer ~= nil
end

---Runs an agent of any kind within an invocation.
---@param invocation moonpad.Run
---@param agent moonpad.Agent
function agents.run(invocation, agent)
  if runPhase(invocation, agent, "beforeAgentCallback") then return end
  agent.body(invocation, agent)
  runPhase(invocation, agent, "afterAgentCallback")
end

return agents
