--- The `config` of an agent, in the words of a provider.
local core = require "moonpad.core"
local lists = require "moonpad.util.list"

local config = {}

-- What at least one provider has. A provider without it refuses it: nothing is lost silently.
local COMMON = {
  "temperature", "topP", "topK", "maxOutputTokens", "stopSequences", "seed", "presencePenalty", "frequencyPenalty",
  "responseMimeType", "responseSchema", "toolChoice",
}

local ALL = table.move(COMMON, 1, #COMMON, 1, {})
ALL[#ALL + 1] = "extra"

local KINDS = {
  temperature = "number", topP = "number", topK = "number", maxOutputTokens = "number", seed = "number",
  presencePenalty = "number", frequencyPenalty = "number", stopSequences = "table", responseMimeType = "string",
  responseSchema = "table", toolChoice = "string", extra = "table",
}

local function checkStops(value)
  for index, stop in ipairs(lists.of(value, "config.stopSequences", "strings")) do
    if type(stop) ~= "string" then
      core.error("invalid_argument",
        ("config.stopSequences[%d]: expected a string, got a %s"):format(index, type(stop)))
    end
  end
end

---Checks what an agent has configured.
---@param given table? the config of a request
---@param provider string for messages
---@param known table<string, any> the settings that this provider has
---@return table given
function config.check(given, provider, known)
  given = given or {}
  core.checkFields(given, "config", ALL)
  for name, value in pairs(given) do
    if name ~= "extra" and known[name] == nil then
      core.error("invalid_argument",
        ("config.%s: %s has no such setting; what it does have goes into config.extra"):format(name, provider))
    end
    if type(value) ~= KINDS[name] then
      core.error("invalid_argument", ("config.%s: expected a %s, got %s"):format(name, KINDS[name], type(value)))
    end
    if name == "stopSequences" then checkStops(core.toTable(value)) end
  end
  return given
end

---Copies settings under the provider's names.
---@param target table
---@param given table
---@param names table<string, string>
function config.rename(target, given, names)
  for name, wire in pairs(names) do
    if given[name] ~= nil then target[wire] = given[name] end
  end
end

local function isObject(value)
  return type(value) == "table" and value[1] == nil and getmetatable(value) == nil
end

---Adds the provider's own fields: objects are merged, anything else replaces.
---@param target table
---@param extra table?
---@return table target
function config.merge(target, extra)
  for key, value in pairs(extra or {}) do
    if isObject(value) and isObject(target[key]) then
      config.merge(target[key], value)
    else
      target[key] = value
    end
  end
  return target
end

return config
