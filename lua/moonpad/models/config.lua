--- The `config` of an agent, in the words of a provider.
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"
local schemaDefinition = require "moonpad.schema.definition"

local config = {}

local function stringList(value, where)
  for index, item in ipairs(lists.of(value, where, "strings")) do
    if type(item) ~= "string" then
      fields.refuse(("%s[%d]"):format(where, index), "expected a string, got " .. lists.kindOf(item))
    end
  end
end

---Settings of a model. A setting that the provider does not have is refused; a model that is a
---function may have others.
---@class moonpad.ModelConfig
---@field temperature number?
---@field topP number?
---@field topK number?
---@field maxOutputTokens integer?
---@field stopSequences string[]?
---@field seed number?
---@field presencePenalty number?
---@field frequencyPenalty number?
---@field responseMimeType string? "application/json" asks for JSON
---@field responseSchema table? a JSON Schema that the answer is to fit
---@field reasoning string? "none", "low", "medium" or "high": how much the model is to think
---@field toolChoice string? "auto", "none", "any", or the name of a tool
---@field extra table? handed to the provider as it is

local COUNT = {
  is = function(value) return math.tointeger(value) ~= nil and value >= 1 end, what = "a whole number from 1",
  showsValue = true,
}

-- What at least one provider has. A provider without it refuses it: nothing is lost silently.
local FIELDS = fields.new {
  { "temperature", "number" },
  { "topP", "number" },
  { "topK", "number" },
  { "maxOutputTokens", COUNT },
  { "stopSequences", stringList },
  { "seed", "number" },
  { "presencePenalty", "number" },
  { "frequencyPenalty", "number" },
  { "responseMimeType", "string" },
  { "responseSchema", "table" },
  { "reasoning", fields.oneOf { "none", "low", "medium", "high" } },
  { "toolChoice", "string" },
  { "extra", "table" },
}:describes "moonpad.ModelConfig"

---Checks the values of the settings that are known; others are the affair of a model that is a
---function.
---@param given any
---@param where string for messages
function config.checkValues(given, where)
  if type(given) ~= "table" then fields.refuse(where, "expected a table, got " .. lists.kindOf(given)) end
  FIELDS:read(given, where)
end

---Checks settings whose values are right by themselves for models of providers: there are no others
---than those have, and all of it can be sent.
---@param given table
---@param where string for messages
function config.checkForProvider(given, where)
  FIELDS:checkNames(given, where)
  if given.responseSchema then schemaDefinition.check(given.responseSchema, where .. ".responseSchema") end
  fields.checkJson(given, where)
end

---Checks what an agent has configured, or a callback has put into a request.
---@param given table? the config of a request
---@param provider string for messages
---@param known table<string, any> the settings that this provider has
---@return table given
function config.check(given, provider, known)
  given = given or {}
  FIELDS:take(given, "config")
  for name in pairs(given) do
    if name ~= "extra" and known[name] == nil then
      fields.refuse("config." .. name, provider .. " has no such setting; what it does have goes into config.extra")
    end
  end
  return given
end

---Leaves a setting out that a model is known to refuse: the answer tells so
---(`customMetadata.leftOut`, contract section 4).
---@param call moonpad.ModelCall
---@param given table the config; it is not changed
---@param names string[] of settings
---@return table given without them
function config.without(call, given, names)
  local rest = {}
  for name, value in pairs(given) do rest[name] = value end
  for _, name in ipairs(names) do
    if rest[name] ~= nil then
      rest[name] = nil
      table.insert(call.leftOut, name)
    end
  end
  table.sort(call.leftOut)
  return rest
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
