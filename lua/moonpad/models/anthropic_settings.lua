--- Settings in the words of Anthropic's Messages API, as far as a model takes them.
local anthropicModels = require "moonpad.models.anthropic_models"
local anthropicSchema = require "moonpad.schema.anthropic"
local config = require "moonpad.models.config"
local core = require "moonpad.core"
local schemaText = require "moonpad.schema.text"

local settings = {}

local NAMES = { temperature = "temperature", topP = "top_p", topK = "top_k" }

local KNOWN = {
  maxOutputTokens = true, stopSequences = true, toolChoice = true, responseSchema = true, reasoning = true,
}
for name in pairs(NAMES) do KNOWN[name] = true end

-- An answer that is not streamed must be done in ten minutes: the official clients send no higher
-- limit with one.
local UNSTREAMED = 21333

local BUDGETS = { low = 2048, medium = 8192, high = 16384 }
local MIN_BUDGET = 1024

-- The API insists on a limit.
local function maxTokensOf(given, traits, isStreamed)
  local default = isStreamed and traits.maxTokens or math.min(traits.maxTokens, UNSTREAMED)
  return math.min(given.maxOutputTokens or default, traits.mostTokens)
end

-- The model's thinking, and its effort. nil: it knows no such thing.
local function thinkingOf(reasoning, traits, maxTokens)
  if not reasoning or traits.thinking == "none" then return nil end
  if reasoning == "none" then
    -- What always thinks does so as little as it can.
    if traits.silence then return { type = traits.silence } end
    return nil, "low"
  end
  -- Newer models keep their thoughts to themselves if they are not asked for them.
  if traits.thinking == "adaptive" then return { type = "adaptive", display = "summarized" }, reasoning end
  -- Thinking counts: half of the answer at most.
  local budget = math.min(BUDGETS[reasoning], math.floor(maxTokens / 2))
  return budget >= MIN_BUDGET and { type = "enabled", budget_tokens = budget } or nil
end

local function refusedSampling(given, traits, isThinking)
  if not traits.takesSampling or traits.isClaude and isThinking then return { "temperature", "topP", "topK" } end
  return not traits.takesBoth and given.temperature and { "topP" } or {}
end

local function isForced(choice)
  return choice ~= nil and choice ~= "auto" and choice ~= "none"
end

-- The settings that this model would refuse.
local function refused(given, traits, thinking, effort)
  local kind = thinking and thinking.type
  local isThinking = kind ~= nil and kind ~= "disabled"
  local names = refusedSampling(given, traits, isThinking)
  if isForced(given.toolChoice) and (not traits.takesForcedTool or kind == "enabled") then
    names[#names + 1] = "toolChoice"
  end
  -- Models that do not think need not be told so.
  local isSilent = given.reasoning == "none" and traits.thinking == "none"
  if not thinking and not effort and not isSilent then names[#names + 1] = "reasoning" end
  return names
end

local CHOICES = { auto = true, none = true, any = true }

local function toolChoice(choice)
  if choice == nil then return nil end
  return CHOICES[choice] and { type = choice } or { type = "tool", name = choice }
end

local function format(schema)
  return schema and { type = "json_schema", schema = schemaText.raw(schema) } or nil
end

---Can an answer of this model be held to this schema?
---@param model string
---@param schema table
---@return boolean
function settings.takesSchema(model, schema)
  return anthropicModels.traits(model).takesSchema and anthropicSchema.of(schema) ~= nil
end

---Adds the settings of a request to its body.
---@param body table
---@param request moonpad.Request
---@param call moonpad.ModelCall
---@return table body
function settings.apply(body, request, call)
  local given = config.check(request.config, "anthropic", KNOWN)
  local traits = anthropicModels.traits(request.model)
  body.max_tokens = maxTokensOf(given, traits, call.stream)
  local thinking, effort = thinkingOf(given.reasoning, traits, body.max_tokens)
  local schema = given.responseSchema and traits.takesSchema and anthropicSchema.of(given.responseSchema)
  local own = given.extra and given.extra.thinking
  local names = refused(given, traits, type(own) == "table" and own or thinking, effort)
  if not schema then names[#names + 1] = "responseSchema" end
  given = config.without(call, given, names)
  body.thinking = thinking
  body.tool_choice = toolChoice(given.toolChoice)
  body.output_config = (effort or schema) and { effort = effort, format = format(schema) } or nil
  body.stop_sequences = given.stopSequences and core.array(core.toTable(given.stopSequences))
  config.rename(body, given, NAMES)
  return config.merge(body, given.extra)
end

return settings
