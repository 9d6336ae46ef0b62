--- What Lua itself raises as a text, as error objects. A program can then tell that memory or the
--- stack has ended.
local core = require "moonpad.core"

local luaError = {}

-- Made beforehand: there may be no memory for it later.
local noMemory = core.newError("no_memory", "not enough memory")
noMemory.where = nil

-- With the place where it was noticed, if Lua knew one.
local STACK_ENDS = {
  "^C stack overflow", ":%d+: C stack overflow", "^stack overflow", ":%d+: stack overflow", "^error in error handling$",
}

---@param err any
---@return any err an error object for what Lua raises when it cannot go on; everything else as it is
function luaError.object(err)
  if type(err) ~= "string" then return err end
  if err == "not enough memory" then return noMemory end
  for _, pattern in ipairs(STACK_ENDS) do
    if err:find(pattern) then
      return core.newError("limit", "too many calls within one another, of functions or of agents: " .. err)
    end
  end
  return err
end

---Raises an error that is no fault of what was tried: there is no memory.
---@param err any
function luaError.passOn(err)
  err = luaError.object(err)
  if core.isError(err) and err.code == "no_memory" then error(err, 0) end
end

return luaError
