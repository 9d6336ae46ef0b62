--- A request in the words of the Gemini API (generateContent).
local config = require "moonpad.models.config"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local parts = require "moonpad.models.parts"
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"

local requests = {}

local NAMES = {
  temperature = "temperature", topP = "topP", topK = "topK", maxOutputTokens = "maxOutputTokens", seed = "seed",
  presencePenalty = "presencePenalty", frequencyPenalty = "frequencyPenalty", responseMimeType = "responseMimeType",
}

local KNOWN = { stopSequences = true, responseSchema = true, toolChoice = true }
for name in pairs(NAMES) do KNOWN[name] = true end

-- Fields that go over as they are; everything else in a part is not Gemini's.
local PLAIN = { "inlineData", "fileData", "executableCode", "codeExecutionResult" }

-- Ids that moonpad made up are none of Gemini's: it matches by name and order where it gave no
-- id itself.
local function ownId(id)
  if type(id) ~= "string" or id == "" or id:find "^moonpad%-" then return nil end
  return id
end

-- The files of a tool: those that Gemini takes inside the response (from version 3 on, and no
-- references), and the others, which stand beside it.
local function filesOf(response, model)
  local inside, beside = {}, {}
  local takesFiles = not tostring(model):find "gemini%-[12]"
  for _, part in ipairs(response.parts or {}) do
    local list = takesFiles and part.inlineData and inside or beside
    list[#list + 1] = part
  end
  return #inside > 0 and inside or nil, beside
end

local function convert(part, model)
  local call, response = part.functionCall, part.functionResponse
  local result = { thoughtSignature = part.thoughtSignature }
  if call then
    result.functionCall = { id = ownId(call.id), name = call.name, args = parts.asObject(call.args) }
  elseif response then
    result.functionResponse = {
      id = ownId(response.id), name = response.name, response = parts.asObject(response.response),
      parts = filesOf(response, model),
    }
  elseif part.thought then
    -- A thought is of use to the model only with its signature.
    if not part.thoughtSignature then return nil end
    result.text, result.thought = part.text, true
  elseif type(part.text) == "string" and (part.text ~= "" or part.thoughtSignature) then
    result.text = part.text
  else
    local isKnown = false
    for _, field in ipairs(PLAIN) do
      result[field] = part[field]
      isKnown = isKnown or part[field] ~= nil
    end
    if not isKnown then return nil end
  end
  return result
end

local function addBeside(converted, part, model)
  if not part.functionResponse then return end
  local _, beside = filesOf(part.functionResponse, model)
  for _, file in ipairs(beside) do converted[#converted + 1] = convert(file) end
end

local function contentsOf(request)
  local list = {}
  for _, content in ipairs(parts.untilUser(request.contents)) do
    local converted = {}
    for _, part in ipairs(content.parts) do converted[#converted + 1] = convert(part, request.model) end
    for _, part in ipairs(content.parts) do addBeside(converted, part, request.model) end
    if #converted > 0 then
      list[#list + 1] = { role = content.role == "model" and "model" or "user", parts = converted }
    end
    coroutines.keepPace()
  end
  return list
end

local function toolsOf(request)
  local declarations = {}
  for index, tool in ipairs(request.tools or {}) do
    declarations[index] = {
      name = tool.name, description = tool.description ~= "" and tool.description or nil,
      parametersJsonSchema = schemaText.raw(schemas.ofParameters(tool.parameters), true),
    }
  end
  return parts.withProviderTools(#declarations > 0 and { { functionDeclarations = declarations } } or {}, request)
end

local MODES = { auto = "AUTO", none = "NONE", any = "ANY" }

local function toolConfig(choice)
  if choice == nil then return nil end
  local calling = { mode = MODES[choice] or "ANY" }
  if not MODES[choice] then calling.allowedFunctionNames = { choice } end
  return { functionCallingConfig = calling }
end

local function generationConfig(given)
  local generation = {}
  config.rename(generation, given, NAMES)
  if given.stopSequences then generation.stopSequences = core.array(core.toTable(given.stopSequences)) end
  if given.responseSchema then
    generation.responseMimeType = generation.responseMimeType or "application/json"
    generation.responseJsonSchema = schemaText.raw(schemas.normalize(given.responseSchema), true)
  end
  return next(generation) and generation or nil
end

---@param request moonpad.Request
---@return table body
function requests.body(request)
  local given = config.check(request.config, "gemini", KNOWN)
  local system = request.systemInstruction
  return config.merge({
    contents = contentsOf(request),
    systemInstruction = system and system ~= "" and { parts = { { text = system } } } or nil,
    tools = toolsOf(request),
    toolConfig = toolConfig(given.toolChoice),
    generationConfig = generationConfig(given),
  }, given.extra)
end

return requests
