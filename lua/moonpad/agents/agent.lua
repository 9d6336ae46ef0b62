--- Agents: their definition, and the frame in which any kind of agent runs.
local callbacks = require "moonpad.agents.callbacks"
local content = require "moonpad.events.content"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local flow = require "moonpad.flow.llm_flow"
local lists = require "moonpad.util.list"
local publish = require "moonpad.runtime.publish"
local schemaDefinition = require "moonpad.schema.definition"
local sections = require "moonpad.runtime.section"
local signals = require "moonpad.runtime.coroutines"
local tools = require "moonpad.tools.tool"
local trees = require "moonpad.agents.tree"

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

---@class moonpad.Agent: moonpad.AgentDefinition
---@field parent moonpad.Agent?
---@field isLlm boolean? driven by a model
---@field runsOthers boolean? in a coroutine or a protected call of their own
---@field height integer how many levels of agents there are from this one down
---@field nesting integer how many of them run others, agents as tools included
---@field callbacks table<string, function[]>
---@field toolsByName table<string, moonpad.Tool>
local Agent = { __name = "moonpad.agent" }
Agent.__index = Agent

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

local function checkName(definition, kind)
  local name = definition.name
  if type(name) ~= "string" or name == "" then
    refuse(kind .. ".name", ("expected a non-empty string, got %s"):format(name == "" and '""' or type(name)))
  end
  if name == "user" then refuse(kind .. ".name", '"user" is who sends the messages; take another name') end
  if not utf8.len(name) or name:find "%c" then
    refuse(kind .. ".name", "must be valid UTF-8 without control characters")
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

local function toolList(definition, where)
  local list, byName = lists.of(definition.tools, where .. ".tools", "tools"), {}
  for index, tool in ipairs(list) do
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

---Makes an agent of any kind. Callers put it in brackets, (agents.build(...)), to return it: a
---tail call would hide the line of the definition from errors.
---@param kind string the name of the function in `moonpad` that makes it
---@param definition table
---@param fields string[] that this kind takes
---@param body fun(invocation: moonpad.Run, agent: moonpad.Agent): string? what it does between its callbacks; answers
---whom it hands the conversation over to
---@param complete (fun(agent: moonpad.Agent, where: string))? checks and adds what only this kind has
---@return moonpad.Agent agent
function agents.build(kind, definition, fields, body, complete)
  if type(definition) ~= "table" then refuse(kind, ("expected a table, got %s"):format(type(definition))) end
  core.checkFields(definition, kind, fields)
  checkName(definition, kind)
  local where = ('agent "%s"'):format(definition.name)
  expect(definition.description, where .. ".description", "string")
  local agent = { callbacks = {}, body = body }
  for _, field in ipairs(fields) do agent[field] = definition[field] end
  for _, hook in ipairs(callbacks.OF_AGENT) do
    agent.callbacks[hook] = callbacks.list(definition[hook], where .. "." .. hook)
  end
  setmetatable(agent, Agent)
  if complete then complete(agent, where) end
  -- Last of all: a definition that is refused must not keep the sub-agents.
  trees.adopt(agent, where, agents.isAgent)
  return agent
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
function agents.define(definition)
  return (agents.build("agent", definition, FIELDS, flow.run, completeLlmAgent))
end

---@param value any
---@return boolean
function agents.isAgent(value)
  return getmetatable(value) == Agent
end

-- More transfers than this in one run are no conversation any more.
local MAX_TRANSFERS = 1000

-- Runs the callbacks of one phase of an agent. What they changed, and the answer of one of
-- them, goes out as one event. Returns whether they answered, and whom they hand the
-- conversation over to.
local function runPhase(invocation, agent, hook)
  local phase = contexts.open(invocation, agent)
  local answer = callbacks.ask(phase, hook)
  if answer ~= nil then answer = content.normalize(answer, "model", hook) end
  local target = publish.phase(phase, answer).transfer
  contexts.close(phase, "its callback is over")
  return answer ~= nil, target
end

---Lets another agent of the tree go on.
---@param invocation moonpad.Run
---@param name string
function agents.handOver(invocation, name)
  local run = sections.runOf(invocation)
  run.transfers = run.transfers + 1
  if run.transfers > MAX_TRANSFERS then
    core.error("limit", ("the agents have handed the conversation over %d times in one run"):format(MAX_TRANSFERS))
  end
  local target = trees.find(run.runner.agent, name)
  -- An event written by hand may name anybody.
  if not target then
    core.error("invalid_argument", ('transferToAgent: "%s" is not an agent of this tree; there are %s'):format(
      name, table.concat(trees.names(run.runner.agent), ", ")))
  end
  agents.run(invocation, target)
end

---Runs an agent of any kind within an invocation, and those that it hands the conversation over to.
---@param invocation moonpad.Run
---@param agent moonpad.Agent
function agents.run(invocation, agent)
  signals.raiseIfEnding(invocation)
  local hasAnswered, target = runPhase(invocation, agent, "beforeAgentCallback")
  if target then return agents.handOver(invocation, target) end
  if hasAnswered then return end
  target = agent.body(invocation, agent)
  if target then agents.handOver(invocation, target) end
  local _
  _, target = runPhase(invocation, agent, "afterAgentCallback")
  if target then agents.handOver(invocation, target) end
end

return agents
