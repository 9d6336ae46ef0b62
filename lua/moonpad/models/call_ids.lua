--- The ids by which a provider finds the answer to a function call. History may hold ids of
--- another provider, the same id twice, or none; on the wire each call has one of its own that
--- the provider accepts.
local callIds = {}

---@class moonpad.CallIds
---@field isFit fun(id: string): boolean what the provider accepts
---@field used table<string, true>
---@field waiting table<string, string[]> ids of calls that are not answered yet, see keyOf
---@field last table<string, string> the id of the latest answer
---@field count integer of ids that were made
---@field made string the form of those
local CallIds = {}
CallIds.__index = CallIds

---@param isFit fun(id: string): boolean what the provider accepts
---@param made string? the form of ids in place of those that it does not, with a %d
---@return moonpad.CallIds
function callIds.new(isFit, made)
  local self = { isFit = isFit, made = made or "moonpad_call_%d", used = {}, waiting = {}, last = {}, count = 0 }
  return setmetatable(self, CallIds)
end

local function keyOf(item)
  if type(item.id) == "string" and item.id ~= "" then return "id " .. item.id end
  return "name " .. tostring(item.name)
end

local function make(self)
  self.count = self.count + 1
  return self.made:format(self.count)
end

---@param call table a functionCall
---@return string
function CallIds:ofCall(call)
  local id = call.id
  if type(id) ~= "string" or self.used[id] or not self.isFit(id) then id = make(self) end
  self.used[id] = true
  local key = keyOf(call)
  self.waiting[key] = self.waiting[key] or {}
  table.insert(self.waiting[key], id)
  return id
end

---@param response table a functionResponse
---@return string
function CallIds:ofResponse(response)
  local key = keyOf(response)
  local id = table.remove(self.waiting[key] or {}, 1) or self.last[key] or make(self)
  self.last[key] = id
  return id
end

return callIds
