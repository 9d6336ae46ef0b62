--- The session that a test begins with.
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"

local sessions = {}

local TEMPORARY = core.StatePrefix.TEMP_PREFIX

---The `state` of options: what a session keeps, and the `temp:` keys, which belong to no stored
---session.
---@param state table?
---@return table kept
---@return table temporary
function sessions.split(state)
  local kept, temporary = {}, {}
  for key, value in next, state or {} do
    local isTemporary = type(key) == "string" and key:sub(1, #TEMPORARY) == TEMPORARY;
    (isTemporary and temporary or kept)[key] = value
  end
  return kept, temporary
end

local function stateTable(value, where)
  value = core.toTable(value)
  if type(value) ~= "table" then fields.refuse(where, "expected a table, got " .. lists.kindOf(value)) end
  return value
end

---The fields of options that say which session it is, and what it holds.
sessions.FIELDS = fields.new {
  { "state", stateTable },
  { "appName", fields.text, default = "app" },
  { "userId", fields.text, default = "user" },
  { "sessionId", fields.text, default = "session" },
}

---@param options table
---@return { appName: string, userId: string, sessionId: string }
function sessions.nameOf(options)
  return { appName = options.appName, userId = options.userId, sessionId = options.sessionId }
end

---@param service moonpad.Service
---@param name { appName: string, userId: string, sessionId: string }
---@param state table
---@return moonpad.Session
function sessions.create(service, name, state)
  return service:createSession {
    appName = name.appName, userId = name.userId, sessionId = name.sessionId, state = state,
  }
end

return sessions
