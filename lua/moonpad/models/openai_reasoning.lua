--- `config.reasoning` in the words of those who speak chat completions: each has its own.
local openaiModels = require "moonpad.models.openai_models"

local openaiReasoning = {}

-- Servers that take `reasoning_effort` for some of their models, with what these say for "none",
-- "low", "medium" and "high" where that is another word. A model that is not listed has no such
-- setting.
local EFFORTS = {
  groq = {
    { pattern = "gpt%-oss", none = "low" },
    { pattern = "qwen", low = "default", medium = "default", high = "default" },
  },
  xai = { { pattern = "^grok%-3%-mini", none = "low", medium = "low" } },
  mistral = {
    { pattern = "^mistral%-small", low = "high", medium = "high" },
    { pattern = "^mistral%-medium", low = "high", medium = "high" },
  },
  together = { { pattern = "gpt%-oss", none = "low" } },
  cerebras = { { pattern = "gpt%-oss", none = "low" } },
  perplexity = { { pattern = "^sonar%-deep", none = "low" }, { pattern = "^sonar%-reasoning", none = "low" } },
}

local function effortFor(rules, model, reasoning)
  for _, rule in ipairs(rules) do
    if model:find(rule.pattern) then return rule[reasoning] or reasoning end
  end
  return nil
end

local styles = {}

function styles.effort(call, reasoning)
  local row = call.settings.provider
  local rules = row and EFFORTS[row.name]
  local effort
  if rules then
    effort = effortFor(rules, call.model, reasoning)
  elseif openaiModels.isKnown(call.model, row) then
    effort = openaiModels.effort(call.model, reasoning)
  else
    effort = reasoning
  end
  return effort and { reasoning_effort = effort }
end

-- OpenRouter translates for whoever answers.
function styles.object(_, reasoning)
  return { reasoning = { effort = reasoning } }
end

function styles.thinking(_, reasoning)
  return { thinking = { type = reasoning == "none" and "disabled" or "enabled" } }
end

function styles.switch(_, reasoning)
  return { enable_thinking = reasoning ~= "none" }
end

---What goes into the body.
---@param call moonpad.ModelCall
---@param reasoning string?
---@return table? fields
function openaiReasoning.fields(call, reasoning)
  if reasoning == nil then return nil end
  local fields = styles[call.settings.quirks.reasoning or "effort"](call, reasoning)
  if not fields then table.insert(call.leftOut, "reasoning") end
  return fields
end

return openaiReasoning
