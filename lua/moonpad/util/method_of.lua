--- Methods of objects of the user's own.

local function index(value, name) return value[name] end

---The method of an object, or nil: not everything can be indexed, and strings answer with what is
---none of theirs.
---@param object any
---@param name string
---@return function?
return function(object, name)
  local kind = type(object)
  if kind ~= "table" and kind ~= "userdata" then return nil end
  local ok, method = pcall(index, object, name)
  return ok and type(method) == "function" and method or nil
end
