--- Opening a service: the stores of servers are modules of their own, loaded when a URL asks for
--- one.
local core = require "moonpad.core"

-- By scheme. libpq knows its own by either name.
local MODULES = { postgresql = "moonpad.postgres", postgres = "moonpad.postgres" }

-- The opener of the store, or what is missing.
local function load(scheme, name)
  local ok, opener = pcall(require, name)
  if ok then return opener end
  if tostring(opener):find("module '" .. name .. "' not found", 1, true) then
    core.error("unsupported", ("%s: this build has no such store: %s was not found (make builds it where the "
      .. "server's client library is installed)"):format(scheme, name))
  end
  core.error("unsupported", ("%s: %s does not load: %s"):format(scheme, name, tostring(opener)))
end

-- As a vararg, so that core says what is wrong with the number of arguments.
---@param url string
---@param config? moonpad.Config
---@return moonpad.Service
return function(...)
  local url = ...
  local scheme = type(url) == "string" and url:match "^(%a[%w+.-]*):"
  local name = scheme and MODULES[scheme]
  if not name then return core.open(...) end
  return core.openOn(load(scheme .. ":", name), ...)
end
