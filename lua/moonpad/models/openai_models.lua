--- What OpenAI's models refuse or need, by their names. Other servers offer them as well, under
--- names such as "openai/gpt-5".
local openaiModels = {}

-- The o-series and everything since GPT-5 think before they answer; the first chat variant of GPT-5
-- does not.
local REASONING = { "^o%d", "^gpt%-[5-9]", "^codex%-" }
local NOT_REASONING = { "^gpt%-5%-chat", "^gpt%-5%-search" }

-- Only served by the Responses API, though they are older.
local RESPONSES_ONLY = { "deep%-research", "^computer%-use", "^codex%-" }

-- A fine-tuned model is named by its base: "ft:o4-mini-2025-04-16:org::id".
local function baseName(model)
  local name = model:match "([^/]+)$" or model
  return name:match "^ft:([^:]+)" or name
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

---Is this a model of OpenAI's? What stands on another server under another name may be any model.
---@param model string
---@param row moonpad.Provider? of the server
---@return boolean
function openaiModels.isKnown(model, row)
  local name = baseName(model)
  if row and row.name == "openai" then return true end
  return matches(name, REASONING) or name:find "^gpt%-[34]" ~= nil or name:find "^chatgpt%-" ~= nil
end

---Does this model work well behind the Responses API only? Chat completions refuse tools for it, or
---the whole model.
---@param model string
---@return boolean
function openaiModels.needsResponses(model)
  return openaiModels.isReasoning(model) or matches(baseName(model), RESPONSES_ONLY)
end

---What a limit of the answer is called: newer models refuse the older name; servers of other models
---know no other.
---@param model string
---@return string
function openaiModels.maxTokensName(model)
  return openaiModels.isReasoning(model) and "max_completion_tokens" or "max_tokens"
end

-- From GPT-5.1 on, most models think no more than they are told to.
local ALWAYS_THINKING = { "%-pro", "%-chat", "^gpt%-5%.1%-codex" }

-- The number behind the point, where thinking can be turned off.
local function silentVersion(name)
  local minor = name:match "^gpt%-5%.(%d+)"
  return minor and not matches(name, ALWAYS_THINKING) and tonumber(minor) or nil
end

-- Up to GPT-5.4 they do not think unless they are told to.
local function isSilent(name, reasoning)
  local version = silentVersion(name)
  if not version then return false end
  return reasoning == "none" or reasoning == nil and version <= 4
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
  if isSilent(name, reasoning) then return { "stopSequences" } end
  return { "stopSequences", table.unpack(SAMPLING) }
end

-- Models that know fewer words than the others: what they take for "none", "low", and the rest. The
-- first pattern that fits counts.
local EFFORTS = {
  { pattern = "deep%-research", none = "medium", low = "medium", medium = "medium", high = "medium" },
  { pattern = "^gpt%-5[%d.]*%-chat", none = "medium", low = "medium", medium = "medium", high = "medium" },
  { pattern = "^gpt%-5%-pro", none = "high", low = "high", medium = "high", high = "high" },
  { pattern = "^gpt%-5%.%d+%-pro", none = "medium", low = "medium" },
  { pattern = "^gpt%-5[%d.]*%-codex", none = "low" },
  { pattern = "^gpt%-5%.", none = "low" },
  { pattern = "^gpt%-5", none = "minimal" },
  { pattern = "", none = "low" },
}

---How much a model of OpenAI's is to think, in words that it knows.
---@param model string
---@param reasoning string config.reasoning
---@return string? effort nil: it has none
function openaiModels.effort(model, reasoning)
  local name = baseName(model)
  if not openaiModels.isReasoning(model) then return nil end
  if reasoning == "none" and silentVersion(name) then return "none" end
  for _, row in ipairs(EFFORTS) do
    if name:find(row.pattern) then return row[reasoning] or reasoning end
  end
  return reasoning
end

return openaiModels
