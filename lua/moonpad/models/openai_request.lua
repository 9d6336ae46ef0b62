--- A request in the words of the chat completions API.
local config = require "moonpad.models.config"
local core = require "moonpad.core"
local formats = require "moonpad.models.openai_format"
local messages = require "moonpad.models.openai_messages"
local openaiModels = require "moonpad.models.openai_models"
local openaiReasoning = require "moonpad.models.openai_reasoning"
local parts = require "moonpad.models.parts"
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"
local strictSchema = require "moonpad.schema.strict"

local requests = {}

local NAMES = {
  temperature = "temperature", topP = "top_p", presencePenalty = "presence_penalty",
  frequencyPenalty = "frequency_penalty",
}

local KNOWN = {
  maxOutputTokens = true, stopSequences = true, responseMimeType = true, responseSchema = true, toolChoice = true,
  seed = true, reasoning = true,
}
for name in pairs(NAMES) do KNOWN[name] = true end

---- Tools and settings

local function toolsOf(request)
  local tools = {}
  for index, tool in ipairs(request.tools or {}) do
    local description = tool.description ~= "" and tool.description or nil
    tools[index] = {
      type = "function",
      ["function"] = {
        name = tool.name, description = description, parameters = schemaText.raw(schemas.ofParameters(tool.parameters)),
      },
    }
  end
  return parts.withProviderTools(tools, request)
end

local CHOICES = { auto = "auto", none = "none", any = "required" }

local function toolChoice(choice)
  if choice == nil then return nil end
  return CHOICES[choice] or { type = "function", ["function"] = { name = choice } }
end

local function responseFormat(given, quirks)
  local format = formats.of(given, quirks)
  if not format or format.type == "json_object" then return format end
  return {
    type = format.type,
    json_schema = { name = "answer", schema = format.schema, strict = format.strict or nil },
  }
end

---@param request moonpad.Request
---@param call moonpad.ModelCall
---@return table body
function requests.body(request, call)
  local quirks = call.settings.quirks
  local given = config.check(request.config, "openai", KNOWN)
  given = config.without(call, given, openaiModels.refused(request.model, given.reasoning))
  local body = {
    model = request.model,
    messages = messages.of(request, quirks),
    tools = toolsOf(request),
    tool_choice = toolChoice(given.toolChoice),
    response_format = responseFormat(given, quirks),
    stop = given.stopSequences and core.array(core.toTable(given.stopSequences)),
  }
  config.rename(body, given, NAMES)
  config.merge(body, openaiReasoning.fields(call, given.reasoning))
  body[quirks.seed or "seed"] = given.seed
  body[quirks.maxTokens or openaiModels.maxTokensName(request.model)] = given.maxOutputTokens
  if call.stream then
    body.stream = true
    if not quirks.noStreamOptions then body.stream_options = { include_usage = true } end
  end
  return config.merge(body, given.extra)
end

---@param settings moonpad.ModelSettings
---@param schema table
---@param hasTools boolean
---@return boolean
function requests.takesSchema(settings, schema, hasTools)
  local quirks = settings.quirks
  if quirks.schema == "none" then return false end
  if quirks.schema ~= "strict" then return not hasTools end
  -- These want an object, and beside tools only what is strict is of use.
  if hasTools then return quirks.schemaWithTools == true and strictSchema.of(schema) ~= nil end
  return schemas.normalize(schema).type == "object"
end

return requests
