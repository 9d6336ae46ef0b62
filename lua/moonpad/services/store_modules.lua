--- The stores of servers: each is a module of its own, loaded when a URL asks for it, because it
--- needs the server's client library.
local core = require "moonpad.core"

local storeModules = {}

-- By scheme. libpq knows its own by either name.
local POSTGRES <const> = { sessions = "moonpad.postgres", artifacts = "moonpad.postgres_agent_stores" }
local MODULES <const> = { postgresql = POSTGRES, postgres = POSTGRES }

---What opens the store that a URL names, for functions that take a URL and such an opener.
---@param url any
---@param kind "sessions"|"artifacts" artifacts: and memories
---@return lightuserdata? opener nil: the store is built in, or there is none
function storeModules.opener(url, kind)
  local scheme = type(url) == "string" and url:match "^(%a[%w+.-]*):"
  local name = scheme and MODULES[scheme] and MODULES[scheme][kind]
  if not name then return nil end
  local ok, opener = pcall(require, name)
  if ok then return opener end
  if tostring(opener):find("module '" .. name .. "' not found", 1, true) then
    core.error("unsupported", ("%s: this build has no such store: %s was not found (make builds it where the "
      .. "server's client library is installed)"):format(scheme, name))
  end
  return core.error("unsupported", ("%s: %s does not load: %s"):format(scheme, name, tostring(opener)))
end

return storeModules
