--- Agents that are driven by a model (ADK's LlmAgent): their definition.
local agents = require "moonpad.agents.base"
local callbacks = require "moonpad.agents.callbacks"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local lists = require "moonpad.util.list"
local llmFlow = require "moonpad.flow.llm_flow"
local schemaDefinition = require "moonpad.schema.definition"
local tools = require "moonpad.tools.tool"
local toolsets = require "moonpad.agents.toolsets"

local llmAgent = {}

---@class moonpad.AgentDefinition
---@field name string
---@field description string?
---@field model function|moonpad.Model|string|nil
---@field instruction string|(fun(context: moonpad.Context): string?)|nil
---@field globalInstruction string|(fun(context: moonpad.Context): string?)|nil
---@field tools (moonpad.Tool|moonpad.ToolDefinition|moonpad.Toolset)[]?
---@field outputKey string? state key that gets the text of the final answer
---@field outputSchema table? a JSON Schema: the final answer must be JSON that fits it
---@field includeContents "default"|"none"|nil
---@field config table? handed to the model
---@field subAgents moonpad.Agent[]? that may take the conversation over
---@field disallowTransferToParent boolean?
---@field disallowTransferToPeers boolean?
---@field templateSyntax "both"|"braces"|"angles"|nil
---@field beforeAgentCallback moonpad.Callback?
---@field afterAgentCallback moonpad.Callback?
---@field beforeModelCallback moonpad.Callback?
---@field afterModelCallback moonpad.Callback?
---@field onModelErrorCallback moonpad.Callback?
---@field beforeToolCallback moonpad.Callback?
---@field afterToolCallback moonpad.Callback?
---@field onToolErrorCallback moonpad.Callback?

local FIELDS = {
  "name", "description", "model", "instruction", "globalInstruction", "tools", "outputKey", "outputSchema",
  "includeContents", "config", "subAgents", "templateSyntax", "disallowTransferToParent", "disallowTransferToPeers",
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
  refuse(where, ('expected "%s", got %s'):format(table.concat({ ... }, '" or "'), errorText.show(value)))
end

local function checkFields(definition, where)
  checkModel(definition.model, where .. ".model")
  expect(definition.instruction, where .. ".instruction", "string", "function")
  expect(definition.globalInstruction, where .. ".globalInstruction", "string", "function")
  expect(definition.outputKey, where .. ".outputKey", "string")
  expect(definition.config, where .. ".config", "table")
  if definition.outputSchema ~= nil then
    schemaDefinition.check(definition.outputSchema, where .. ".outputSchema")
  end
  expect(definition.disallowTransferToParent, where .. ".disallowTransferToParent", "boolean")
  expect(definition.disallowTransferToPeers, where .. ".disallowTransferToPeers", "boolean")
  checkChoice(definition.includeContents, where .. ".includeContents", "default", "none")
  checkChoice(definition.templateSyntax, where .. ".templateSyntax", "both", "braces", "angles")
end

-- Toolsets are asked for theirs when the model is.
local function toolList(definition, where)
  local list, byName = lists.of(definition.tools, where .. ".tools", "tools"), {}
  for index, entry in ipairs(list) do
    if not toolsets.isToolset(entry) then
      local tool = tools.of(entry, ("%s.tools[%d]"):format(where, index))
      if byName[tool.name] then refuse(where .. ".tools", ('two tools are called "%s"'):format(tool.name)) end
      list[index], byName[tool.name] = tool, tool
    end
  end
  return list, byName
end

local function completeLlmAgent(agent, where)
  checkFields(agent, where)
  agent.isLlm = true
  if type(agent.model) == "string" then require("moonpad.models.resolve").prepare(agent.model) end
  agent.tools, agent.toolsByName = toolList(agent, where)
end

---Makes an agent that is driven by a model.
---@param definition moonpad.AgentDefinition
---@return moonpad.Agent
function llmAgent.define(definition)
  return (agents.build("agent", definition, FIELDS, llmFlow.run, completeLlmAgent))
end

return llmAgent
