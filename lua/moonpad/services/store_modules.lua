--- The stores of servers: each is a module of its own, loaded when a URL asks for it, because it
--- needs the server's client library.
local core = require "moonpad.core"

local storeModules = {}

-- By scheme. libpq knows its own by either name.
local POSTGRES <const> = { sessions = "moonpad.postgres", others = "moonpad.postgres_agent_stores" }
local MYSQL <const> = { sessions = "moonpad.mysql", others = "moonpad.mysql_agent_stores" }
local REDIS <const> = { sessions = "moonpad.redis", others = "moonpad.redis_agent_stores" }
local MODULES <const> = { postgresql = POSTGRES, postgres = POSTGRES, mysql = MYSQL, redis = REDIS, rediss = REDIS,
  ["redis+unix"] = REDIS, ["redis+cluster"] = REDIS }

local function schemeOf(url)
  return type(url) == "string" and url:match "^(%a[%w+.-]*):" or nil
end

---@param url any
---@return boolean
function storeModules.isServer(url)
  return MODULES[schemeOf(url)] ~= nil
end

local function load(url, kind)
  local scheme = schemeOf(url)
  local name = MODULES[scheme] and MODULES[scheme][kind]
  if not name then return nil end
  local ok, module = pcall(require, name)
  -- One module may be for several schemes, and tells what it has for each.
  if ok then return type(module) == "table" and module[scheme] or module end
  if tostring(module):find("module '" .. name .. "' not found", 1, true) then
    core.error("unsupported", ("%s: this build has no such store: %s was not found (make builds it where the "
      .. "server's client library is installed)"):format(scheme, name))
  end
  return core.error("unsupported", ("%s: %s does not load: %s"):format(scheme, name, tostring(module)))
end

---What opens sessions at a URL, for core.openOn.
---@param url any
---@return lightuserdata? opener nil: the store is built in, or there is none
function storeModules.sessions(url)
  return load(url, "sessions")
end

---What opens artifacts and memories at a URL, and tells the SQL of a schema with all that there is.
---@param url any
---@return { opener: lightuserdata, schema: fun(rest: string): string?, string?, string? }?
function storeModules.others(url)
  return load(url, "others")
end

return storeModules
