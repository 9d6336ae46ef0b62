--- What the artifact and the memory service share: their tables in a store, the names of what they keep, and waiting
--- for a file that somebody else is writing to.
local core = require "moonpad.core"
local signals = require "moonpad.signals"

local keeping = {}

local DEFAULT_BUSY_TIMEOUT_MS = 5000
local MAX_NAME_BYTES = 255

---@class moonpad.KeepConfig
---@field durability "full"|"normal"|nil what is kept survives: power loss (default), a crash
---@field busyTimeoutMs integer? how long to wait for a lock (5000)

-- service -> its tables and how long it waits for them.
local storeOf = setmetatable({}, { __mode = "k" })

---Makes a service object.
---@param open fun(url: string, config: table?): userdata core.artifacts or core.memories
---@param metatable table
---@param url string
---@param config moonpad.KeepConfig?
---@return table service
function keeping.open(open, metatable, url, config)
  local ok, keep = pcall(open, url, config)
  if not ok then
    if core.isError(keep) then keep.where = nil end
    error(keep, 0)
  end
  local service = setmetatable({}, metatable)
  storeOf[service] = { keep = keep, patience = (config and config.busyTimeoutMs or DEFAULT_BUSY_TIMEOUT_MS) / 1000 }
  return service
end

---@param self any
---@param where string of the method, which must have been called with a colon
---@return table
local function find(self, where)
  local store = storeOf[self]
  if store == nil then
    core.error("invalid_argument", ("%s(...): call it with a colon, not with a dot"):format(where))
  end
  return store
end

keeping.self = find

---Checks that a method was called with a colon, and what it was given.
---@param self table
---@param where string "artifacts:save"
---@param options any
---@param fields string[]
function keeping.check(self, where, options, fields)
  find(self, where)
  if type(options) ~= "table" then
    core.error("invalid_argument", ("%s: expects a table of named fields, got %s"):format(where, type(options)))
  end
  core.checkFields(options, where, fields)
end

-- A call may find the file locked. It is tried again until patience ends, and others go on in between.
---@param self table
---@param where string for messages
---@param method string of the tables
---@param ... any
---@return any
function keeping.call(self, where, method, ...)
  local store = find(self, where)
  local deadline = core.monotonic() + store.patience
  while true do
    local ok, result = pcall(store.keep[method], store.keep, ...)
    if ok then return result end
    if not core.isError(result) then error(result, 0) end
    if result.code ~= "busy" then
      core.error(result.code, ("%s: %s"):format(where, result.message))
    elseif core.monotonic() >= deadline then
      core.error("busy", ("%s: another writer kept the file locked for longer than busyTimeoutMs (%d ms)")
        :format(where, math.floor(store.patience * 1000)))
    end
    signals.pause()
  end
end

---@param self table
---@param where string
function keeping.close(self, where)
  local store = find(self, where)
  store.keep:close()
end

---- Names

---Refuses what is no name.
---@param value any
---@param where string
---@param longest integer? bytes
---@return string
function keeping.name(value, where, longest)
  longest = longest or MAX_NAME_BYTES
  if type(value) ~= "string" then
    core.error("invalid_argument", ("%s: expects a string, got %s"):format(where, type(value)))
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

---The id of a session, as every call of moonpad takes it: without blanks around it.
---@param value any
---@param where string
---@return string
function keeping.sessionId(value, where)
  return keeping.name(type(value) == "string" and value:match "^[ \t\r\n\f\v]*(.-)[ \t\r\n\f\v]*$" or value, where)
end

return keeping
