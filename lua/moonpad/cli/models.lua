--- `moonpad models`: which names of models are known, and whether their keys are there.
local output = require "moonpad.cli.output"
local resolve = require "moonpad.models.resolve"

-- Never its value.
local function isSet(variables)
  for _, variable in ipairs(variables) do
    local value = os.getenv(variable)
    if value and value ~= "" then return true end
  end
  return false
end

local function joined(list)
  return table.concat(list, " or ")
end

local function yesOrNo(value)
  return value and "yes" or "no"
end

---@param options table of the command line
return function(options)
  local list = {}
  for _, rule in ipairs(resolve.RULES) do
    list[#list + 1] = {
      names = rule.known, adapter = rule.adapter, keyVariables = rule.keyVariables, hasKey = isSet(rule.keyVariables),
      addressVariable = rule.addressVariable,
    }
  end
  output.list(options, {
    { "NAMES", "names" }, { "ADAPTER", "adapter" }, { "KEY", "keyVariables", joined }, { "SET", "hasKey", yesOrNo },
    { "ADDRESS", "addressVariable", function(value) return value or "" end },
  }, list)
end
