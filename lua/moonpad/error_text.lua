--- The text of whatever was raised: strings, error objects, tables of the user's own, nothing.
local core = require "moonpad.core"

local errorText = {}

---@param err any
---@return string
function errorText.of(err)
  if err == nil then return "it failed without an error value" end
  if type(err) ~= "table" then return tostring(err) end
  local metatable = getmetatable(err)
  if core.isError(err) then return tostring(err.message) end
  if type(metatable) == "table" and metatable.__tostring then return tostring(err) end
  if type(err.message) == "string" then return err.message end
  local ok, text = pcall(core.json.encode, err)
  return ok and text or tostring(err)
end

return errorText
