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

-- An address of the environment may hold what nobody is to see: a password, or a key behind "?".
local function addressOf(row)
  local address = providers.addressOf(row)
  return address and address:gsub("%?.*$", ""):gsub("^(%a+://)[^/]*@", "%1")
end

---@param options table of the command line
return function(options)
  local list = {}
  for _, row in ipairs(providers.ROWS) do
    list[#list + 1] = {
      provider = row.name, names = row.known or "", adapter = row.adapter, keyVariables = row.keyVariables,
      hasKey = providers.keyOf(row) ~= nil, key = stateOfKey(row), address = addressOf(row),
      addressVariable = row.addressVariable,
    }
  end
  output.list(options, {
    { "PROVIDER", "provider" }, { "KEY VARIABLE", "keyVariables", joined }, { "KEY", "key" },
    { "ADDRESS", "address", text }, { "ADDRESS VARIABLE", "addressVariable", text }, { "NAMES WITHOUT IT", "names" },
  }, list)
end
