--- What a session, its user and its app hold, in the plainest way: what every store is compared with.
local moonpad = require "moonpad"

local Model = {}
Model.__index = Model

function Model.new(state)
  local self = setmetatable({ values = {}, revision = 0, snapshots = {}, invocations = {} }, Model)
  for key, value in pairs(state) do self.values[key] = value end
  self.snapshots[0] = self:sessionState()
  return self
end

function Model:sessionState()
  local state = {}
  for key, value in pairs(self.values) do
    if not (key:find "^user:" or key:find "^app:") then state[key] = value end
  end
  return state
end

function Model:shared(prefix)
  local state = {}
  for key, value in pairs(self.values) do
    if key:sub(1, #prefix) == prefix then state[key:sub(#prefix + 1)] = value end
  end
  return state
end

-- One write: { key, "set", value }, { key, "increment", by } or { key, "append", item }.
function Model:write(key, kind, value)
  local stored = self.values[key]
  if kind == "increment" then
    value = (stored or 0) + value
  elseif kind == "append" then
    local list = stored and next(stored) ~= nil and { table.unpack(stored) } or {}
    list[#list + 1] = value
    value = list
  elseif value == moonpad.removed then
    value = nil
  end
  if not key:find "^temp:" then self.values[key] = value end
end

-- An event with these writes.
function Model:append(invocationId, writes)
  self.invocations[invocationId] = self.invocations[invocationId] or self.revision
  for _, write in ipairs(writes) do self:write(table.unpack(write)) end
  self.revision = self.revision + 1
  self.snapshots[self.revision] = self:sessionState()
end

function Model:rewind(invocationId, newId)
  local target = self.snapshots[self.invocations[invocationId]]
  for key in pairs(self:sessionState()) do self.values[key] = nil end
  for key, value in pairs(target) do self.values[key] = value end
  self:append(newId, {})
end

return Model
