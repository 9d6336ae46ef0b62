--- A request in the words of OpenAI's Responses API.
local config = require "moonpad.models.config"
local formats = require "moonpad.models.openai_format"
local inputs = require "moonpad.models.openai_input"
local openaiModels = require "moonpad.models.openai_models"
local parts = require "moonpad.models.parts"
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"

local requests = {}

local NAMES = { temperature = "temperature", topP = "top_p", maxOutputTokens = "max_output_tokens" }

-- Settings of OpenAI's models that this API does not have.
local ABSENT = { "seed", "presencePenalty", "frequencyPenalty", "stopSequences" }

local KNOWN = { responseMimeType = true, responseSchema = true, toolChoice = true, reasoning = true }
for name in pairs(NAMES) do KNOWN[name] = true end
for _, name in ipairs(ABSENT) do KNOWN[name] = true end

-- `strict` says so because the API's own default would make every property required.
local function toolsOf(request)
  local tools = {}
  for index, tool in ipairs(request.tools or {}) do
    tools[index] = {
      type = "function", name = tool.name, description = tool.description ~= "" and tool.description or nil,
      parameters = schemaText.raw(schemas.ofParameters(tool.parameters)), strict = false,
    }
  end
  return parts.withProviderTools(tools, request)
end

local CHOICES = { auto = "auto", none = "none", any = "required" }

local function toolChoice(choice)
  if choice == nil then return nil end
  return CHOICES[choice] or { type = "function", name = choice }
end

local function textOf(given, quirks)
  local format = formats.of(given, quirks)
  if not format then return nil end
  local name = format.type == "json_schema" and "answer" or nil
  return { format = { type = format.type, name = name, schema = format.schema, strict = format.strict } }
end

-- What a name that is not OpenAI's means, only its server knows.
local function reasoningOf(call, reasoning, isKnown)
  if reasoning == nil then return nil end
  local effort = reasoning
  if isKnown then effort = openaiModels.effort(call.model, reasoning) end
  if not effort then
    table.insert(call.leftOut, "reasoning")
    return nil
  end
  return { effort = effort, summary = effort ~= "none" and "auto" or nil }
end

---@param request moonpad.Request
---@param call moonpad.ModelCall
---@return table body
function requests.body(request, call)
  local isReasoning = openaiModels.isReasoning(request.model)
  local isKnown = openaiModels.isKnown(request.model, call.settings.provider)
  local given = config.check(request.config, "openai", KNOWN)
  local reasoning = reasoningOf(call, given.reasoning, isKnown)
  given = config.without(call, given, ABSENT)
  given = config.without(call, given, openaiModels.refused(request.model, given.reasoning))
  local system = request.systemInstruction
  local body = {
    model = request.model,
    store = false,
    include = isReasoning and { "reasoning.encrypted_content" } or nil,
    instructions = system ~= "" and system or nil,
    input = inputs.of(request, isReasoning or not isKnown),
    tools = toolsOf(request),
    tool_choice = toolChoice(given.toolChoice),
    text = textOf(given, call.settings.quirks),
    reasoning = reasoning,
    stream = call.stream or nil,
  }
  config.rename(body, given, NAMES)
  return config.merge(body, given.extra)
end

return requests
