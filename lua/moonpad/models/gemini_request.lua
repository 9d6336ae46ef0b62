--- A request in the words of the Gemini API (generateContent).
local config = require "moonpad.models.config"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local geminiModels = require "moonpad.models.gemini_models"
local parts = require "moonpad.models.parts"
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"

local requests = {}

local NAMES = {
  temperature = "temperature", topP = "topP", topK = "topK", maxOutputTokens = "maxOutputTokens", seed = "seed",
  presencePenalty = "presencePenalty", frequencyPenalty = "frequencyPenalty", responseMimeType = "responseMimeType",
}

local KNOWN = { stopSequences = true, responseSchema = true, toolChoice = true, reasoning = true }
for name in pairs(NAMES) do KNOWN[name] = true end

-- Fields that go over as they are; everything else in a part is not Gemini's.
local PLAIN = { "inlineData", "fileData", "executableCode", "codeExecutionResult" }
-- What Google's servers called and answered; Vertex knows no such parts.
local SERVER_SIDE = { "toolCall", "toolResponse" }

-- What Gemini takes inside the response of a function.
local IN_RESPONSE = {
  ["image/png"] = true, ["image/jpeg"] = true, ["image/webp"] = true, ["application/pdf"] = true, ["text/plain"] = true,
}

-- Stands for the signature of a call that Gemini has not made: of another model, or of a callback.
local NO_SIGNATURE = "skip_thought_signature_validator"

---@class moonpad.GeminiTarget
---@field isThird boolean
---@field isVertex boolean
---@field given table<any, true> ids of calls that this server has signed

-- Ids that moonpad made up are none of Gemini's: it matches by name and order where it gave no
-- id itself. Vertex takes those only that it has given.
local function ownId(id, target)
  if type(id) ~= "string" or id == "" or id:find "^moonpad%-" then return nil end
  return (not target.isVertex or target.given[id]) and id or nil
end

-- Signatures of other servers are no longer there.
local function isSigned(content)
  for _, part in ipairs(content.parts) do
    if part.thoughtSignature then return true end
  end
  return false
end

local function givenIds(contents)
  local ids = {}
  for _, content in ipairs(contents) do
    for _, part in ipairs(isSigned(content) and content.parts or {}) do
      local id = part.functionCall and part.functionCall.id
      if id ~= nil then ids[id] = true end
    end
  end
  return ids
end

-- The files of a tool: those that Gemini takes inside the response (from version 3 on, and no
-- references), and the others, which stand beside it.
local function filesOf(response, target)
  local inside, beside = {}, {}
  for _, part in ipairs(response.parts or {}) do
    local fits = target.isThird and part.inlineData and IN_RESPONSE[part.inlineData.mimeType]
    local list = fits and inside or beside
    list[#list + 1] = part
  end
  return #inside > 0 and inside or nil, beside
end

local function copyFields(result, part, names)
  local isKnown = false
  for _, field in ipairs(names) do
    result[field] = part[field]
    isKnown = isKnown or part[field] ~= nil
  end
  return isKnown
end

local function convert(part, target)
  local call, response = part.functionCall, part.functionResponse
  local result = { thoughtSignature = part.thoughtSignature }
  if call then
    result.functionCall = { id = ownId(call.id, target), name = call.name, args = parts.asObject(call.args) }
  elseif response then
    result.functionResponse = {
      id = ownId(response.id, target), name = response.name, response = parts.asObject(response.response),
      parts = filesOf(response, target),
    }
  elseif part.thought then
    -- A thought is of use to the model only with its signature.
    if not part.thoughtSignature then return nil end
    result.text, result.thought = part.text, true
  elseif type(part.text) == "string" and (part.text ~= "" or part.thoughtSignature) then
    result.text = part.text
  else
    local isServerSide = not target.isVertex and copyFields(result, part, SERVER_SIDE)
    if not copyFields(result, part, PLAIN) and not isServerSide then return nil end
  end
  return result
end

local function addBeside(converted, part, target)
  if not part.functionResponse then return end
  local _, beside = filesOf(part.functionResponse, target)
  for _, file in ipairs(beside) do converted[#converted + 1] = convert(file, target) end
end

-- The first call of each answer has a signature, or the request is refused.
local function sign(converted)
  for _, part in ipairs(converted) do
    if part.functionCall then
      part.thoughtSignature = part.thoughtSignature or NO_SIGNATURE
      return
    end
  end
end

-- All responses to the calls of an answer stand in one content.
local function add(list, role, converted)
  local last, first = list[#list], converted[1]
  if not first then return end
  if last and last.role == role and first.functionResponse and last.parts[1].functionResponse then
    table.move(converted, 1, #converted, #last.parts + 1, last.parts)
  else
    list[#list + 1] = { role = role, parts = converted }
  end
end

local function contentsOf(request, target)
  local list = {}
  for _, content in ipairs(parts.untilUser(request.contents)) do
    local converted = {}
    for _, part in ipairs(content.parts) do converted[#converted + 1] = convert(part, target) end
    for _, part in ipairs(content.parts) do addBeside(converted, part, target) end
    if target.isThird then sign(converted) end
    add(list, content.role == "model" and "model" or "user", converted)
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

-- From version 3 on Google's own tools may stand beside functions, if that is said.
local function isMixed(request, target)
  return target.isThird and request.tools and #request.tools > 0
    and request.providerTools ~= nil and #request.providerTools > 0
end

local function toolConfig(choice, request, target)
  local mixed = isMixed(request, target)
  if choice == nil and not mixed then return nil end
  local calling = { mode = MODES[choice or "auto"] or "ANY" }
  if mixed and calling.mode == "AUTO" then calling.mode = "VALIDATED" end
  if choice and not MODES[choice] then calling.allowedFunctionNames = { choice } end
  return {
    functionCallingConfig = calling, includeServerSideToolInvocations = mixed and not target.isVertex or nil,
  }
end

local function generationConfig(given, thinking)
  local generation = { thinkingConfig = thinking }
  config.rename(generation, given, NAMES)
  if given.stopSequences then generation.stopSequences = core.array(core.toTable(given.stopSequences)) end
  if given.responseSchema then
    generation.responseMimeType = generation.responseMimeType or "application/json"
    generation.responseJsonSchema = schemaText.raw(schemas.normalize(given.responseSchema), true)
  end
  return next(generation) and generation or nil
end

---@param request moonpad.Request
---@param call moonpad.ModelCall
---@return table body
function requests.body(request, call)
  local row = call.settings.provider
  local target = {
    isThird = geminiModels.isThird(request.model), isVertex = row ~= nil and row.name == "vertex",
    given = givenIds(request.contents),
  }
  local given = config.check(request.config, "gemini", KNOWN)
  local thinking = given.reasoning and geminiModels.thinking(request.model, given.reasoning)
  local refused = geminiModels.refused(request.model, target.isVertex)
  -- Models that do not think need not be told so.
  if not thinking and given.reasoning ~= "none" then refused[#refused + 1] = "reasoning" end
  given = config.without(call, given, refused)
  local system = request.systemInstruction
  return config.merge({
    contents = contentsOf(request, target),
    systemInstruction = system and system ~= "" and { parts = { { text = system } } } or nil,
    tools = toolsOf(request),
    toolConfig = toolConfig(given.toolChoice, request, target),
    generationConfig = generationConfig(given, thinking),
  }, given.extra)
end

return requests
