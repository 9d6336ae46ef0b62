--- What all ready-made plugins check of their options.
local core = require "moonpad.core"

---@param options table?
---@param where string for messages
---@param fields table<string, string> the type of each; "any" where it is checked elsewhere
---@return table options
return function(options, where, fields)
  if options == nil then return {} end
  if type(options) ~= "table" then
    core.error("invalid_argument", ("%s: expected a table of options, got %s"):format(where, type(options)))
  end
  local names = {}
  for name in pairs(fields) do names[#names + 1] = name end
  core.checkFields(options, where, names)
  for name, wanted in pairs(fields) do
    local value = options[name]
    if value ~= nil and wanted ~= "any" and type(value) ~= wanted then
      core.error("invalid_argument", ("%s.%s: expected a %s, got %s"):format(where, name, wanted, type(value)))
    end
  end
  return options
end
