--- Instructions: templates filled from state, or what an instruction provider says.
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local luaError = require "moonpad.util.lua_error"
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"
local templateArtifacts = require "moonpad.services.template_artifacts"
local transfer = require "moonpad.tools.transfer_to_agent"

local instructions = {}

local function render(template, state, agentName, syntax, callbackState)
  return templateArtifacts.render(template, state, { syntax = syntax or "both", agentName = agentName }, callbackState)
end

local function fromProvider(provider, callbackState, field)
  local text = provider(contexts.readOnly(callbackState))
  if text and type(text) ~= "string" then
    core.error("invalid_argument",
      ('agent "%s".%s: its function must return a string, got %s'):format(callbackState.agent.name, field, type(text)))
  end
  return text
end

local function resolve(callbackState, agent, field)
  local instruction = agent[field]
  if instruction == nil then return nil end
  if type(instruction) ~= "string" then return fromProvider(instruction, callbackState, field) end
  local syntax = agent.templateSyntax or callbackState.invocationContext.templateSyntax
  return render(instruction, callbackState.state, agent.name, syntax, callbackState)
end

local function askForSchema(agent)
  return "Your final answer must be JSON, without any other text, that fits this JSON Schema: "
    .. schemaText.of(schemas.normalize(agent.outputSchema))
end

---The system instruction of a model request: the root agent's global one, the agent's own, and
---what moonpad has to say.
---@param callbackState moonpad.CallbackState
---@param isHeld boolean the model is held to the schema of the answer, so that nobody need ask for it
---@return string?
function instructions.system(callbackState, isHeld)
  local agent, root = callbackState.agent, callbackState.invocationContext.rootAgent
  local texts = {}
  for _, text in ipairs {
    resolve(callbackState, root, "globalInstruction") or "",
    resolve(callbackState, agent, "instruction") or "",
    transfer.instruction(agent, root) or "",
    agent.outputSchema and not isHeld and askForSchema(agent) or "",
  } do
    if text ~= "" then texts[#texts + 1] = text end
  end
  return #texts > 0 and table.concat(texts, "\n\n") or nil
end

---Fills the placeholders of a template from state (contract 4.1).
---@param template string
---@param context moonpad.Context|moonpad.State a context, or a state object
---@return string
function instructions.injectSessionState(template, context)
  if type(template) ~= "string" then
    core.error("invalid_argument", "injectSessionState: the template must be a string, got " .. type(template))
  end
  local callbackState = contexts.stateOf(context)
  if callbackState then
    local syntax = callbackState.agent.templateSyntax or callbackState.invocationContext.templateSyntax
    return render(template, callbackState.state, callbackState.agent.name, syntax, callbackState)
  end
  local ok, err = pcall(core.render, "", context, {})
  if not ok then
    luaError.passOn(err)
    core.error("invalid_argument", ("injectSessionState(template, context): expected a context or a state object "
      .. "(such as session.state), %s"):format(tostring(err.message):gsub("^core%.render: ", "")))
  end
  return render(template, context)
end

return instructions
