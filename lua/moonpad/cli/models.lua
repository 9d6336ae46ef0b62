--- `moonpad models`: which providers and names of models are known, and whether their keys are
--- there.
local output = require "moonpad.cli.output"
local providers = require "moonpad.models.providers"

local function joined(list)
  return table.concat(list, " or ")
end

-- Never its value.
local function stateOfKey(row)
  if #row.keyVariables == 0 then return "not needed" end
  if providers.keyOf(row) then return "set" end
  return row.needsKey == false and "not needed" or "missing"
end

local function text(value)
  return value or ""
end

---@param options table of the command line
return function(options)
  local list = {}
  for _, row in ipairs(providers.ROWS) do
    list[#list + 1] = {
      provider = row.name .. "/", names = row.known, adapter = row.adapter, keyVariables = row.keyVariables,
      hasKey = providers.keyOf(row) ~= nil, key = stateOfKey(row), address = (providers.addressOf(row)),
      addressVariable = row.addressVariable,
    }
  end
  output.list(options, {
    { "PROVIDER", "provider" }, { "NAMES", "names", text }, { "KEY VARIABLE", "keyVariables", joined },
    { "KEY", "key" }, { "ADDRESS", "address", text },
    { "ADDRESS VARIABLE", "addressVariable", text },
  }, list)
end
