--- Lists in definitions. One item in the place of a list, or one under a name, would be passed over
--- without a word.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"

local lists = {}

local function refuse(where, what, found)
  core.error("invalid_argument", ("%s: expected a list of %s, %s"):format(where, what, found))
end

---What a value is, for messages: the name of its class, or its type.
---@param value any
---@return string
function lists.kindOf(value)
  if value == core.null then return "null" end
  local metatable = getmetatable(value)
  local name = type(metatable) == "table" and rawget(metatable, "__name")
  return type(name) == "string" and name or type(value)
end

-- The first key, in the order of names, that is no place in a list of that length.
local function strangeKey(value, length)
  local strange
  for key in next, value do
    if math.type(key) ~= "integer" or key < 1 or key > length then
      if strange == nil or errorText.show(key) < errorText.show(strange) then strange = key end
    end
  end
  return strange
end

---Checks that a value is a list.
---@param value any
---@param where string for messages
---@param what string what it is a list of, for messages
---@return table list a copy; empty for nil
function lists.of(value, where, what)
  if value == nil then return {} end
  if type(value) ~= "table" then refuse(where, what, "got " .. lists.kindOf(value)) end
  local length = 0
  while rawget(value, length + 1) ~= nil do length = length + 1 end
  local key = strangeKey(value, length)
  if math.type(key) == "integer" and key > length then
    refuse(where, what, ("there is nothing at [%d]"):format(length + 1))
  elseif key ~= nil then
    local found = lists.kindOf(value)
    if found == "table" then found = "a table with the key " .. core.json.encode(errorText.show(key)) end
    refuse(where, what, "got " .. found)
  end
  return table.move(value, 1, length, 1, {})
end

return lists
