--- Instructions: templates filled from state, or what an instruction provider says.
local contexts = require "moonpad.context"
local core = require "moonpad.core"

local instructions = {}

local function render(template, state, agentName, syntax)
  return core.render(template, state, { syntax = syntax or "both", agentName = agentName, artifacts = {} })
end

local function fromProvider(provider, phase, field)
  local text = provider(contexts.readOnly(phase))
  if text ~= nil and type(text) ~= "string" then
    core.error("invalid_argument",
      ('agent "%s".%s: its function must return a string, got %s'):format(phase.agent.name, field, type(text)))
  end
  return text
end

local function resolve(phase, agent, field)
  local instruction = agent[field]
  if instruction == nil then return nil end
  if type(instruction) ~= "string" then return fromProvider(instruction, phase, field) end
  return render(instruction, phase.state, agent.name, agent.templateSyntax or phase.invocation.runner.templateSyntax)
end

---The system instruction of a model request: the root agent's global one, then the agent's own.
---@param phase moonpad.Phase
---@return string?
function instructions.system(phase)
  local texts = {}
  for _, text in ipairs {
    resolve(phase, phase.invocation.runner.agent, "globalInstruction") or "",
    resolve(phase, phase.agent, "instruction") or "",
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
  local phase = contexts.phaseOf(context)
  if phase then
    local syntax = phase.agent.templateSyntax or phase.invocation.runner.templateSyntax
    return render(template, phase.state, phase.agent.name, syntax)
  end
  if type(context) ~= "userdata" then
    core.error("invalid_argument",
      "injectSessionState(template, context): expected a context or a state object, got " .. type(context))
  end
  return render(template, context)
end

return instructions
