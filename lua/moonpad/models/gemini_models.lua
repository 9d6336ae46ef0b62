--- What the Gemini models refuse or need, by their names. A Gemini whose name says no version is
--- like the newest.
local geminiModels = {}

local OLD = { "^gemini%-pro$", "^gemini%-pro%-vision$", "^gemini%-1%f[%D]", "^gemini%-2%f[%D]", "^gemini%-robotics" }

local function baseName(model)
  return (model:match "([^/]+)$" or model):lower()
end

---From the third generation on: thought signatures are checked, files may stand in responses of
---functions, and Google's own tools beside functions.
---@param model string
---@return boolean
function geminiModels.isThird(model)
  local name = baseName(model)
  if not name:find "^gemini%-" then return false end
  for _, pattern in ipairs(OLD) do
    if name:find(pattern) then return false end
  end
  return true
end

---Settings that a model refuses.
---@param model string
---@param isVertex boolean
---@return string[]
function geminiModels.refused(model, isVertex)
  local isRefused = not isVertex and baseName(model):find "^gemini%-2%.5" ~= nil
  return isRefused and { "presencePenalty", "frequencyPenalty" } or {}
end

local BUDGETS = { none = 0, low = 2048, medium = 8192, high = 24576 }
-- The least with which 2.5 Pro can think.
local LEAST_BUDGET = 128

-- Which models have no level below "LOW", and which no "MEDIUM".
local NO_MINIMAL = { "%-pro", "^gemini%-3%.7%-flash" }
local NO_MEDIUM = "^gemini%-3%-pro"

local function levelOf(name, reasoning)
  if reasoning == "medium" and name:find(NO_MEDIUM) then return "HIGH" end
  if reasoning ~= "none" then return reasoning:upper() end
  for _, pattern in ipairs(NO_MINIMAL) do
    if name:find(pattern) then return "LOW" end
  end
  return "MINIMAL"
end

---How much a model is to think. Where it cannot be silent, "none" is the least that it can.
---@param model string
---@param reasoning string config.reasoning
---@return table? thinkingConfig nil: it cannot be told
function geminiModels.thinking(model, reasoning)
  local name = baseName(model)
  if name:find "image" or name:find "tts" then return nil end
  local isThird = geminiModels.isThird(model)
  if not isThird and not name:find "^gemini%-2%.5" then return nil end
  local thinking = { includeThoughts = reasoning ~= "none" or nil }
  if isThird then
    thinking.thinkingLevel = levelOf(name, reasoning)
  else
    thinking.thinkingBudget = math.max(BUDGETS[reasoning], name:find "pro" and LEAST_BUDGET or 0)
  end
  return thinking
end

return geminiModels
