--- What the Claude models refuse or need, by their names. Other servers offer them as well, under
--- names such as "anthropic.claude-opus-4-1-v1:0"; what has another name is not Claude.
local anthropicModels = {}

-- A name without a version is new, and new models are like the newest that is known.
local NEWEST = math.huge

-- "claude-3-5-sonnet", "claude-2.1"; later the family comes first: "claude-opus-4-1". What has more
-- than two digits is a date.
local VERSIONS = { "claude%-v?(%d+)%f[%D]([%-.]?)(%d*)", "claude%-%a+%-(%d+)%f[%D]([%-.]?)(%d*)" }

---@param model string
---@return string? family
---@return number? version 4.1 is 401
local function parse(model)
  local name = model:lower()
  local family = name:match "claude%-(%a+)"
  if not name:find("claude-", 1, true) then return nil end
  if family == "instant" then return family, 100 end
  for _, pattern in ipairs(VERSIONS) do
    local major, point, minor = name:match(pattern)
    if major and #major <= 2 then
      local isMinor = point ~= "" and minor ~= "" and #minor <= 2
      return family, tonumber(major) * 100 + (isMinor and tonumber(minor) or 0)
    end
  end
  return family, NEWEST
end

---@class moonpad.ClaudeTraits
---@field isClaude boolean false: a server that speaks Anthropic's API has some other model
---@field maxTokens integer the default
---@field mostTokens integer of one answer
---@field takesSchema boolean it knows `output_config.format`
---@field takesSampling boolean
---@field takesBoth boolean temperature together with topP
---@field takesForcedTool boolean
---@field thinking "none"|"budget"|"adaptive" how it is told to think
---@field silence "disabled"|"between_tools"|nil how it is told not to; nil: it always thinks

-- Another model, behind a server that speaks this API as it was.
local OTHER = {
  isClaude = false, maxTokens = 8192, mostTokens = math.maxinteger, takesSchema = false, takesSampling = true,
  takesBoth = true, takesForcedTool = true, thinking = "budget", silence = "disabled",
}

-- Up to 4.1 a request is refused where prompt and limit together are longer than the context: the
-- default leaves room. Newer models stop there by themselves.
local function limits(family, version)
  if version < 305 then return 4096, 4096 end
  if version < 307 then return 8192, 8192 end
  if version <= 401 then return 16384, family == "opus" and 32000 or 64000 end
  if version <= 405 then return 64000, 64000 end
  return 128000, 128000
end

local function silence(family, version)
  if family == "fable" or family == "mythos" then return nil end
  if version < 505 or family == "haiku" then return "disabled" end
  -- The least that Sonnet has.
  return family == "sonnet" and "between_tools" or nil
end

local function thinking(version)
  if version < 307 then return "none" end
  return version < 406 and "budget" or "adaptive"
end

---@param model string
---@return moonpad.ClaudeTraits
function anthropicModels.traits(model)
  local family, version = parse(model)
  if not version then return OTHER end
  local maxTokens, mostTokens = limits(family, version)
  local refusesForce = family == "fable" or family == "mythos" or version >= 505 and family ~= "haiku"
  return {
    isClaude = true, maxTokens = maxTokens, mostTokens = mostTokens,
    takesSchema = version >= 405 or version == 401,
    takesSampling = version < 407, takesBoth = version < 401,
    takesForcedTool = not refusesForce,
    thinking = thinking(version), silence = silence(family, version),
  }
end

return anthropicModels
