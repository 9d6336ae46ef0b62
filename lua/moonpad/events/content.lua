--- Content: what users, callbacks and models say, given as a string or as `{ role, parts }`.
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local lists = require "moonpad.util.list"

---@class moonpad.Content
---@field role string "user" or "model"
---@field parts moonpad.Part[]

local content = {}

-- What a part may hold, of what moonpad looks into; arguments and responses of functions are
-- whatever they are.
local PART = {
  text = "string", thought = "boolean", functionCall = "table", functionResponse = "table", inlineData = "table",
}
local INSIDE = {
  functionCall = { id = "string", name = "string" },
  functionResponse = { id = "string", name = "string", parts = "table" },
  inlineData = {},
}

---Takes the fields away that are JSON's null, which stands for absent.
---@param fields table
function content.dropNulls(fields)
  for name, value in next, fields do
    if value == core.null then fields[name] = nil end
  end
end

---Checks the types of some fields of a table.
---@param fields table
---@param types table<string, string>
---@param where string for messages
function content.checkTypes(fields, types, where)
  for name, wanted in pairs(types) do
    local value = fields[name]
    if value ~= nil and type(value) ~= wanted then
      core.error("invalid_argument", ("%s.%s: expected a %s, got %s"):format(where, name, wanted, type(value)))
    end
  end
end

-- Drops the nulls of a part, and of what it holds. Returns whether that leaves nothing of it.
local function dropNullsOf(part)
  local wasEmpty = next(part) == nil
  content.dropNulls(part)
  for name in pairs(INSIDE) do
    if type(part[name]) == "table" then content.dropNulls(part[name]) end
  end
  return not wasEmpty and next(part) == nil
end

local function checkPart(part, where)
  content.checkTypes(part, PART, where)
  for name, types in pairs(INSIDE) do
    if part[name] then content.checkTypes(part[name], types, where .. "." .. name) end
  end
end

-- An array, also where it is empty.
local function partList(parts, where)
  local list = core.array {}
  for index, part in ipairs(lists.of(parts, where .. ".parts", "parts")) do
    local place = ("%s.parts[%d]"):format(where, index)
    if type(part) == "string" then
      list[#list + 1] = { text = part }
    elseif type(part) ~= "table" then
      core.error("invalid_argument", ("%s: a part is a table, not a %s"):format(place, type(part)))
    elseif not dropNullsOf(part) then
      checkPart(part, place)
      list[#list + 1] = part
    end
  end
  return list
end

---What a part may hold; one that has none of these is no part.
---@type string[]
content.PART_FIELDS = {
  "text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult",
}

---Is this a part, or a list of parts, in the place of a Content?
---@param value any
---@return boolean
function content.isPartOrList(value)
  if type(value) ~= "table" or value.parts ~= nil then return false end
  if value[1] ~= nil then return true end
  for _, name in ipairs(content.PART_FIELDS) do
    if value[name] ~= nil and value[name] ~= core.null then return true end
  end
  return false
end

-- What was given in the place of a Content, as the fields of one.
local function fieldsOf(value)
  if not content.isPartOrList(value) then return copy(value) end
  return { parts = copy(value[1] ~= nil and value or { value }) }
end

---Makes a Content of a string, a part, a list of parts, or of a table with `parts`; a table is
---copied. What is null in it is absent afterwards.
---@param value string|table
---@param role string used where the table names none
---@param where string for messages
---@return moonpad.Content
function content.normalize(value, role, where)
  if type(value) == "string" then return { role = role, parts = { { text = value } } } end
  if type(value) == "table" and (type(value.parts) == "table" or content.isPartOrList(value)) then
    local result = fieldsOf(value)
    content.dropNulls(result)
    content.checkTypes(result, { role = "string" }, where)
    result.role = result.role or role
    result.parts = partList(result.parts, where)
    return result
  end
  return core.error("invalid_argument",
    ("%s: expected a string or a Content ({ role, parts }), got a %s"):format(where,
      type(value) == "table" and "table without parts" or type(value)))
end

---Drops the nulls of a content that was stored.
---@param value any a Content or nothing
function content.clean(value)
  if content.isEmpty(value) then return end
  content.dropNulls(value)
  for _, part in ipairs(value.parts) do dropNullsOf(part) end
end

---@param value any a Content or nothing
---@return boolean
function content.isEmpty(value)
  return type(value) ~= "table" or type(value.parts) ~= "table" or #value.parts == 0
end

return content
