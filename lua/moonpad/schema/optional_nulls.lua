--- Nulls in the place of what may be absent: a model that is held to a strict schema has no other
--- way to leave a property out.
local core = require "moonpad.core"
local validate = require "moonpad.schema.validate"

local optionalNulls = {}

local drop

local function dropOfObject(schema, value)
  local isRequired = {}
  for _, name in ipairs(schema.required or {}) do isRequired[name] = true end
  for name, property in pairs(schema.properties) do
    local item = value[name]
    if item == core.null and not isRequired[name] and validate.check(property, item, "") then
      value[name] = nil
    elseif item ~= nil then
      drop(property, item)
    end
  end
end

function drop(schema, value)
  if type(schema) ~= "table" or type(value) ~= "table" then return end
  if type(schema.properties) == "table" then dropOfObject(schema, value) end
  if type(schema.items) == "table" and not schema.items[1] then
    for _, item in ipairs(value) do drop(schema.items, item) end
  end
  for _, choice in ipairs(schema.anyOf or {}) do drop(choice, value) end
end

---Takes away each null that stands for an optional property which may not be null.
---@param schema table
---@param value any changed in place
function optionalNulls.drop(schema, value)
  drop(schema, value)
end

return optionalNulls
