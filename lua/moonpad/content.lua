--- Content: what users, callbacks and models say, given as a string or as `{ role, parts }`.
local copy = require "moonpad.copy"
local core = require "moonpad.core"
local lists = require "moonpad.list"

---@class moonpad.Content
---@field role string "user" or "model"
---@field parts table[]

local content = {}

local function partList(parts, where)
  local list = lists.of(parts, where .. ".parts", "parts")
  for index, part in ipairs(list) do
    if type(part) == "string" then
      list[index] = { text = part }
    elseif type(part) ~= "table" then
      core.error("invalid_argument", ("%s.parts[%d]: a part is a table, not a %s"):format(where, index, type(part)))
    end
  end
  return list
end

---Makes a Content of a string or of a table with `parts`; a table is copied.
---@param value string|table
---@param role string used where the table names none
---@param where string for messages
---@return moonpad.Content
function content.normalize(value, role, where)
  if type(value) == "string" then return { role = role, parts = { { text = value } } } end
  if type(value) == "table" and type(value.parts) == "table" then
    local result = copy(value)
    result.role = result.role or role
    result.parts = partList(result.parts, where)
    return result
  end
  return core.error("invalid_argument",
    ("%s: expected a string or a Content ({ role, parts }), got a %s"):format(where,
      type(value) == "table" and "table without parts" or type(value)))
end

---@param value any a Content or nothing
---@return boolean
function content.isEmpty(value)
  return type(value) ~= "table" or type(value.parts) ~= "table" or #value.parts == 0
end

return content
