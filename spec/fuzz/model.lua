--- What a session, its user and its app hold, in the plainest way: what every store is compared
--- with. It also knows who changed a key when, so that a conflict can be judged.
local moonpad = require "moonpad"

local encode = moonpad.json.encode

local Model = {}
Model.__index = Model

---A session that has just been created. `shared` holds the user's and the app's state,
---with prefixes.
function Model.new(state, shared)
  local self = setmetatable({ values = {}, events = {}, invocations = {}, changes = {}, tick = 0 }, Model)
  for _, values in ipairs { shared, state } do
    for key, value in pairs(values) do self.values[key] = value end
  end
  self.snapshots = { [0] = self:part(Model.isSessionKey) }
  return self
end

function Model.isSessionKey(key)
  return not (key:find "^user:" or key:find "^app:" or key:find "^temp:")
end

function Model:part(isWanted)
  local state = {}
  for key, value in pairs(self.values) do
    if isWanted(key) then state[key] = value end
  end
  return state
end

function Model:shared(prefix)
  local state = {}
  for key, value in pairs(self:part(function(key) return key:sub(1, #prefix) == prefix end)) do
    state[key:sub(#prefix + 1)] = value
  end
  return state
end

---One write, { key, "set", value }, { key, "increment", by } or { key, "append", item }, on a
---table of values.
function Model.apply(values, key, kind, value)
  local stored = values[key]
  if kind == "increment" then
    value = (stored or 0) + value
  elseif kind == "append" then
    local list = stored and next(stored) ~= nil and { table.unpack(stored) } or {}
    list[#list + 1] = value
    value = list
  elseif value == moonpad.removed then
    value = nil
  end
  values[key] = value
end

---A write outside of any event has no writer that could be spared a conflict.
function Model:write(writer, key, kind, value)
  if key:find "^temp:" then return end
  Model.apply(self.values, key, kind, value)
  self.tick = self.tick + 1
  self.changes[key] = self.changes[key] or {}
  self.changes[key][writer] = self.tick
end

function Model:changedByOthers(key, writer, since)
  for who, tick in pairs(self.changes[key] or {}) do
    if who ~= writer and tick > since then return true end
  end
  return false
end

---An event of this writer with these writes.
function Model:append(writer, event, writes)
  self.invocations[event.invocationId] = self.invocations[event.invocationId] or #self.events
  for _, write in ipairs(writes) do self:write(writer, table.unpack(write)) end
  self.events[#self.events + 1] = event
  self.snapshots[#self.events] = self:part(Model.isSessionKey)
end

---What a rewind to this revision changes.
function Model:rewindWrites(revision)
  local target, writes = self.snapshots[revision], {}
  for key in pairs(self:part(Model.isSessionKey)) do
    if target[key] == nil then writes[#writes + 1] = { key, "set", moonpad.removed } end
  end
  for key, value in pairs(target) do
    local stored = self.values[key]
    if stored == nil or encode(stored) ~= encode(value) then writes[#writes + 1] = { key, "set", value } end
  end
  return writes
end

return Model
