--- The function calls of a chat completion. A stream gives them in fragments, and servers differ in
--- how they say which call a fragment belongs to: by an index (some give all calls the same one),
--- by an id, by both, or by neither.
local core = require "moonpad.core"
local fields = require "moonpad.models.fields"

local calls = {}

---@class moonpad.OpenaiCall
---@field id string?
---@field name string?
---@field index number?
---@field pieces string[] of the arguments
---@field extra table? `extra_content`: what Google's server wants back with the call

---@class moonpad.OpenaiCalls
local Calls = {}
Calls.__index = Calls

---@return moonpad.OpenaiCalls
function calls.new()
  return setmetatable({ byIndex = {}, byId = {} }, Calls)
end

local function open(self)
  local call = { pieces = {} }
  self[#self + 1] = call
  return call
end

-- A server that repeats the name with each fragment goes on; one whose arguments are complete has
-- begun another call.
local function isComplete(call)
  local text = table.concat(call.pieces)
  return text:find "}%s*$" ~= nil and pcall(core.json.decode, text)
end

-- Does a fragment without a place of its own begin another call than the last one? Only a beginning
-- has a name.
local function isAnother(call, fragment)
  if not fragment.name then
    return fragment.id ~= nil and call.id ~= nil and fragment.id ~= call.id and fragment.arguments == nil
  end
  if call.name == nil then return false end
  if fragment.id and call.id then
    if fragment.id ~= call.id then return true end
    -- One that gives all calls the same id ("null") sends them whole.
    return fragment.arguments ~= nil and isComplete(call)
  end
  return fragment.name ~= call.name or isComplete(call)
end

-- The call that began without the index that goes on with it.
local function unnumbered(self, index)
  local call = self[index + 1] or self[#self]
  return call and not call.index and call
end

local function find(self, fragment, position, count)
  local known = fragment.id and self.byId[fragment.id]
  local call
  if fragment.index then
    call = self.byIndex[fragment.index] or not fragment.name and unnumbered(self, fragment.index)
  elseif known then
    call = known
  elseif count > 1 and not fragment.name then
    -- Fragments that come together belong to different calls.
    call = self[position]
  else
    call = self[#self]
  end
  return call and not isAnother(call, fragment) and call or nil
end

local function add(self, call, fragment)
  call.id, call.name = call.id or fragment.id, call.name or fragment.name
  call.extra = fragment.extra or call.extra
  call.pieces[#call.pieces + 1] = fragment.arguments
  if fragment.index then call.index, self.byIndex[fragment.index] = fragment.index, call end
  if fragment.id then self.byId[fragment.id] = call end
end

-- Arguments are a string on the wire; a few servers send the object itself.
local function readArguments(object, path)
  local value = object.arguments
  if type(value) == "table" then return core.json.encode(fields.object(object, "arguments", path)) end
  return fields.text(object, "arguments", path)
end

local function read(object, path)
  local called = fields.object(object, "function", path) or {}
  local where = path .. ".function"
  return {
    index = fields.number(object, "index", path), id = fields.text(object, "id", path),
    name = fields.text(called, "name", where), arguments = readArguments(called, where),
    extra = fields.object(object, "extra_content", path),
  }
end

---Takes the calls of a message, or the fragments of them in a piece of one.
---@param list table[]
---@param path string
---@param isWhole boolean each is a call of its own
function Calls:add(list, path, isWhole)
  local taken = {}
  for position, object in ipairs(list) do
    local fragment = read(object, ("%s[%d]"):format(path, position))
    local call = not isWhole and find(self, fragment, position, #list)
    if not call or taken[call] and fragment.name then call = open(self) end
    taken[call] = true
    add(self, call, fragment)
  end
end

---@return { id: string?, name: string, arguments: string, extra: table? }[]
function Calls:list()
  local list = {}
  for index, call in ipairs(self) do
    if not call.name then fields.refuse(("tool_calls[%d].function.name"):format(index), "is missing") end
    list[index] = { id = call.id, name = call.name, arguments = table.concat(call.pieces), extra = call.extra }
  end
  return list
end

return calls
