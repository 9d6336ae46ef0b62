--- What can be called, and whether it was written to be called with a self.
local callable = {}

---Can a value be called, as far as its metatable tells?
---@param value any
---@return boolean
function callable.is(value)
  if type(value) == "function" then return true end
  local metatable = getmetatable(value)
  return type(metatable) == "table" and type(rawget(metatable, "__call")) == "function"
end

---Was a function written with a colon, or with a first parameter `self`? Not known of functions in
---C, of stripped ones, and where the host opened no debug library.
---@param value any
---@return boolean
function callable.takesSelf(value)
  return type(value) == "function" and debug ~= nil and debug.getlocal(value, 1) == "self"
end

return callable
