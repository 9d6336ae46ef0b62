--- Opening a service.
local core = require "moonpad.core"
local storeModules = require "moonpad.services.store_modules"

-- As a vararg, so that core says what is wrong with the number of arguments.
---@param url string
---@param config? moonpad.Config
---@return moonpad.Service
return function(...)
  local opener = storeModules.sessions((...))
  if not opener then return core.open(...) end
  return core.openOn(opener, ...)
end
