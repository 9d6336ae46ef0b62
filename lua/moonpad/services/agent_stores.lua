--- What the artifact and the memory service share: opening and asking their stores, and the names
--- of what they hold.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local storeModules = require "moonpad.services.store_modules"

local stores = {}

local MAX_NAME_BYTES = 255

---@class moonpad.ServiceConfig
---@field durability "full"|"normal"|nil what is stored survives: power loss (default), a crash
---@field busyTimeoutMs integer? how long to wait for a lock (5000)
---@field clock? moonpad.Clock|fun(): number seconds since 1970 (default: the system's)

-- service -> its store; service -> "artifact" or "memory"
local storeOf = setmetatable({}, { __mode = "k" })
local kindOf = setmetatable({}, { __mode = "k" })

-- The core does without this module: it is loaded when the first of these services is opened.
local function loadModule(where)
  local ok, module = pcall(require, "moonpad.agent_stores_core")
  if ok then return module end
  return core.error("unsupported",
    where .. " needs moonpad's module moonpad.agent_stores_core: " .. tostring(module):gsub("\n.*", ""))
end

---Makes a service object.
---@param where "artifactService"|"memoryService" for messages
---@param kind "artifacts"|"memories" of store
---@param metatable table
---@param url string
---@param config moonpad.ServiceConfig?
---@param timeToLive string the name of that field
---@return table service
function stores.open(where, kind, metatable, url, config, timeToLive)
  local read = core.checkStore(where, url, config, timeToLive)
  local server = storeModules.others(url)
  local handle, message, code = loadModule(where)[kind](url, read, server and server.opener)
  if not handle then core.error(code, message) end
  local service = setmetatable({}, metatable)
  storeOf[service], kindOf[service] = handle, where:match "^(.-)Service$"
  return service
end

---@param self any
---@param where string of the method, which must have been called with a colon, on its own service
---@return any store
local function find(self, where)
  local store = storeOf[self]
  if store == nil then
    core.error("invalid_argument", ("%s(...): call it with a colon, not with a dot"):format(where))
  elseif where:sub(1, #kindOf[self]) ~= kindOf[self] then
    core.error("invalid_argument",
      ("%s(...): called with the service of another kind (%s)"):format(where, kindOf[self]))
  end
  return store
end

stores.self = find

---Checks that a method was called with a colon, and what it was given.
---@param self table
---@param where string "artifacts:save"
---@param options any
---@param declared moonpad.Fields
---@return table read
function stores.take(self, where, options, declared)
  find(self, where)
  if type(options) ~= "table" then
    core.error("invalid_argument", ("%s: expected a table of named fields, got %s"):format(where, type(options)))
  end
  return declared:take(options, where)
end

---Asks the store. In a run that is stepped the coroutine yields until there is an answer.
---@param self table
---@param where string for messages
---@param method string of the store
---@param ... any
---@return any
function stores.call(self, where, method, ...)
  local store = find(self, where)
  local result, message, code = store[method](store, ...)
  if code then core.error(code, ("%s: %s"):format(where, message)) end
  return result
end

---Frees what has expired.
---@param self table
---@param where string
---@param ... any nothing: the time is in the config
---@return integer count
function stores.sweep(self, where, ...)
  find(self, where)
  if (...) ~= nil then
    core.error("invalid_argument", ("%s: takes nothing as argument 1, got %s"):format(where, errorText.show((...))))
  end
  return stores.call(self, where, "sweep")
end

---@param self table
---@param where string
function stores.close(self, where)
  find(self, where):close()
end

---- Names

---Refuses what is no name.
---@param value any
---@param where string
---@param longest integer? bytes
---@return string
function stores.name(value, where, longest)
  longest = longest or MAX_NAME_BYTES
  if type(value) ~= "string" then
    core.error("invalid_argument", ("%s: expected a string, got %s"):format(where, type(value)))
  elseif value == "" then
    core.error("invalid_argument", where .. ": must not be empty")
  elseif #value > longest then
    core.error("invalid_argument", ("%s: has %d bytes; at most %d are allowed"):format(where, #value, longest))
  elseif value:find("\0", 1, true) then
    core.error("invalid_argument", where .. ": must not contain a NUL")
  elseif not utf8.len(value) then
    core.error("invalid_argument", where .. ": is not valid UTF-8")
  end
  return value
end

---The fields that name a user.
stores.USER = fields.new { { "appName", stores.name, required = true }, { "userId", stores.name, required = true } }

---The id of a session, as every call of moonpad takes it: without blanks around it.
---@param value any
---@param where string
---@return string
function stores.sessionId(value, where)
  return stores.name(type(value) == "string" and value:match "^[ \t\r\n\f\v]*(.-)[ \t\r\n\f\v]*$" or value, where)
end

return stores
