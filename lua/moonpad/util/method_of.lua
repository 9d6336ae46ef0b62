--- Methods of objects of the user's own.
local callable = require "moonpad.util.callable"

local function index(value, name) return value[name] end

---The method of an object, a function or what can be called like one, or nil: not everything can be
---indexed, and strings answer with what is none of theirs.
---@param object any
---@param name string
---@return function|table|nil
return function(object, name)
  local kind = type(object)
  if kind ~= "table" and kind ~= "userdata" then return nil end
  local ok, method = pcall(index, object, name)
  return ok and callable.is(method) and method or nil
end
