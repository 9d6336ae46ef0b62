--- Agents that are driven by a model (ADK's LlmAgent): their definition.
local agents = require "moonpad.agents.base"
local callbacks = require "moonpad.agents.callbacks"
local config = require "moonpad.models.config"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"
local llmFlow = require "moonpad.flow.llm_flow"
local luaError = require "moonpad.util.lua_error"
local modelLike = require "moonpad.models.model_like"
local modelConfig = require "moonpad.agents.model_config"
local schemaDefinition = require "moonpad.schema.definition"
local tools = require "moonpad.tools.tool"
local toolsets = require "moonpad.agents.toolsets"

local llmAgent = {}

---A model: an object, a function, or a name such as "gpt-4o-mini" that picks an adapter.
---@alias moonpad.ModelLike moonpad.Model|moonpad.ModelFunction|string

---Gives an answer, or an iterator of its chunks; behind nil what went wrong.
---@alias moonpad.ModelFunction
---| fun(request: moonpad.Request, context: moonpad.Context): moonpad.ResponseLike|function|nil, any

---An instruction: a template, or a function that gives the text.
---@alias moonpad.Instruction string|fun(context: moonpad.Context): string?

---What `moonpad.agent` takes.
---@class moonpad.AgentDefinition
---@field name string unique in its tree; not "user" or "model"
---@field description string? for other agents, and as a tool
---@field model moonpad.ModelLike? default: that of the nearest agent above it
---@field instruction moonpad.Instruction? what the model is told; a template is filled in from the state
---@field globalInstruction moonpad.Instruction? of the root agent: told to all models of the tree
---@field tools (moonpad.Tool|moonpad.ToolDefinition|moonpad.Toolset)[]?
---@field providerTools table[]? handed to the provider as they are, beside the tools
---@field inputSchema table? a JSON Schema of an object: the arguments of the agent as a tool
---@field outputKey string? state key that gets the text of the final answer
---@field outputSchema table? a JSON Schema: the final answer must be JSON that fits it
---@field includeContents "default"|"none"|nil "none": the model is shown this turn alone
---@field config moonpad.ModelConfig? settings of the model
---@field generateContentConfig table? ADK's name of `config`
---@field subAgents moonpad.Agent[]? that may take the conversation over
---@field disallowTransferToParent boolean? its model may not hand the conversation back
---@field disallowTransferToPeers boolean? nor to the agents beside it
---@field templateSyntax "both"|"braces"|"angles"|nil default: that of the runner, or "both"
---@field beforeAgentCallback? moonpad.BeforeAgentCallback|moonpad.BeforeAgentCallback[]
---@field afterAgentCallback? moonpad.AfterAgentCallback|moonpad.AfterAgentCallback[]
---@field beforeModelCallback? moonpad.BeforeModelCallback|moonpad.BeforeModelCallback[]
---@field afterModelCallback? moonpad.AfterModelCallback|moonpad.AfterModelCallback[]
---@field onModelErrorCallback? moonpad.OnModelErrorCallback|moonpad.OnModelErrorCallback[]
---@field beforeToolCallback? moonpad.BeforeToolCallback|moonpad.BeforeToolCallback[]
---@field afterToolCallback? moonpad.AfterToolCallback|moonpad.AfterToolCallback[]
---@field onToolErrorCallback? moonpad.OnToolErrorCallback|moonpad.OnToolErrorCallback[]

-- Which keys there may be, the state knows (contract 1.1).
local function checkStateKey(key, where)
  if type(key) ~= "string" then fields.refuse(where, "expected a string, got " .. lists.kindOf(key)) end
  local ok, err = pcall(core.state, { [key] = true })
  if ok then return end
  luaError.passOn(err)
  fields.refuse(where, errorText.of(err))
end

local function checkProviderTools(given, where)
  for index, entry in ipairs(lists.of(given, where, "tables")) do
    local place = ("%s[%d]"):format(where, index)
    if tools.isTool(entry) then fields.refuse(place, "a moonpad.tool belongs into tools") end
    if type(entry) ~= "table" then fields.refuse(place, "expected a table, got " .. fields.describe(entry)) end
    if entry[1] ~= nil then fields.refuse(place, "expected a table of named fields, got a list") end
    local ok, err = pcall(core.json.encode, entry)
    if not ok then
      luaError.passOn(err)
      fields.refuse(place, errorText.of(err))
    end
  end
end

-- Toolsets are asked for theirs when the model is.
local function toolList(given, where)
  local list, seen = lists.of(given, where, "tools"), {}
  for index, entry in ipairs(list) do
    if not toolsets.isToolset(entry) then
      local tool = tools.of(entry, ("%s[%d]"):format(where, index))
      if seen[tool.name] then fields.refuse(where, ('two tools are called "%s"'):format(tool.name)) end
      list[index], seen[tool.name] = tool, true
    end
  end
  return list
end

local FIELDS = agents.FIELDS:with(callbacks.OF_MODEL):with {
  { "model", modelLike.check, arguments = "request, context" },
  { "instruction", "string|function", arguments = "context", isText = true },
  { "globalInstruction", "string|function", arguments = "context", isText = true },
  { "tools", toolList },
  { "providerTools", checkProviderTools },
  { "inputSchema", tools.checkParameters },
  { "outputKey", checkStateKey },
  { "outputSchema", schemaDefinition.check },
  { "includeContents", fields.oneOf { "default", "none" } },
  { "config", config.checkValues, alias = "generateContentConfig" },
  { "templateSyntax", fields.oneOf { "both", "braces", "angles" } },
  { "disallowTransferToParent", "boolean" },
  { "disallowTransferToPeers", "boolean" },
}:describes "moonpad.AgentDefinition"

local function completeLlmAgent(agent)
  agent.isLlm, agent.tools, agent.toolsByName = true, agent.tools or {}, {}
  for _, tool in ipairs(agent.tools) do
    if tools.isTool(tool) then agent.toolsByName[tool.name] = tool end
  end
  modelConfig.check(agent)
end

---Makes an agent that is driven by a model.
---@param definition moonpad.AgentDefinition
---@return moonpad.Agent
function llmAgent.define(definition)
  return (agents.build("agent", definition, FIELDS, llmFlow.run, completeLlmAgent))
end

return llmAgent
