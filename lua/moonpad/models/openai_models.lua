--- What OpenAI's models refuse or need, by their names. Other servers offer them as well, under
--- names such as "openai/gpt-5".
local openaiModels = {}

-- The o-series and GPT-5 think before they answer; the chat variants of GPT-5 do not.
local REASONING = { "^o%d", "^gpt%-[5-9]", "^codex%-" }
local NOT_REASONING = { "^gpt%-5[%d.]*%-chat", "^gpt%-5%-search" }

-- Only served by the Responses API, though they are older.
local RESPONSES_ONLY = { "deep%-research", "^computer%-use", "^codex%-" }

local function baseName(model)
  return model:match "([^/]+)$" or model
end

local function matches(name, patterns)
  for _, pattern in ipairs(patterns) do
    if name:find(pattern) then return true end
  end
  return false
end

---@param model string
---@return boolean
function openaiModels.isReasoning(model)
  local name = baseName(model)
  return matches(name, REASONING) and not matches(name, NOT_REASONING)
end

---Is this a name of OpenAI's? What stands on a server under another name may be any model.
---@param model string
---@return boolean
function openaiModels.isKnown(model)
  local name = baseName(model)
  return matches(name, REASONING) or name:find "^gpt%-[34]" ~= nil or name:find "^chatgpt%-" ~= nil
end

---Does this model work well behind the Responses API only? Chat completions refuse tools for it, or
---the whole model.
---@param model string
---@return boolean
function openaiModels.needsResponses(model)
  local name = baseName(model)
  -- A fine-tuned model is named by its base.
  name = name:match "^ft:([^:]+)" or name
  return openaiModels.isReasoning(name) or matches(name, RESPONSES_ONLY)
end

---What a limit of the answer is called: newer models refuse the older name; servers of other models
---know no other.
---@param model string
---@return string
function openaiModels.maxTokensName(model)
  return openaiModels.isReasoning(model) and "max_completion_tokens" or "max_tokens"
end

-- From GPT-5.1 on, models that are told not to think take what other models take.
local function canBeSilent(model)
  local minor = baseName(model):match "^gpt%-5%.(%d+)"
  return minor ~= nil and not baseName(model):find "%-pro" and not baseName(model):find "codex"
end

local SAMPLING = { "temperature", "topP", "presencePenalty", "frequencyPenalty" }
local GROK = { "presencePenalty", "frequencyPenalty", "stopSequences" }

---@param model string
---@param reasoning string? config.reasoning
---@return string[] settings that this model refuses
function openaiModels.refused(model, reasoning)
  local name = baseName(model)
  if name:find "^grok%-[4-9]" or name:find "^grok%-3%-mini" or name:find "^grok%-code" then return GROK end
  if not openaiModels.isReasoning(model) then return {} end
  if reasoning == "none" and canBeSilent(model) then return { "stopSequences" } end
  return { "stopSequences", table.unpack(SAMPLING) }
end

---How much a model of OpenAI's is to think, in words that it knows.
---@param model string
---@param reasoning string config.reasoning
---@return string? effort nil: it has none
function openaiModels.effort(model, reasoning)
  if not openaiModels.isReasoning(model) then return nil end
  if reasoning ~= "none" then return reasoning end
  if canBeSilent(model) then return "none" end
  -- GPT-5 itself thinks a little always; the o-series has no word for it.
  return baseName(model):find "^gpt%-5" and not baseName(model):find "%-pro" and "minimal" or "low"
end

return openaiModels
