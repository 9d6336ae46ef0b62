--- Content: what users, callbacks and models say, given as a string, a part, a list of parts or
--- `{ role, parts }`.
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local inlineData = require "moonpad.events.inline_data"
local lists = require "moonpad.util.list"

---@class moonpad.Content
---@field role string? "user" or "model"
---@field parts moonpad.Part[]

---What a Content may be given as.
---@alias moonpad.ContentLike string|moonpad.Part|(moonpad.Part|string)[]|moonpad.Content

local content = {}

-- One of these makes a table a part; the others may stand beside it, those of providers included.
local KINDS = {
  "text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult",
  "toolCall", "toolResponse",
}
local BESIDE = {
  "thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", "openai", "anthropic",
}
local IS_PART_FIELD = {}

---The fields of a part that stands alone.
---@type string[]
content.PART_FIELDS = table.move(BESIDE, 1, #BESIDE, #KINDS + 1, table.move(KINDS, 1, #KINDS, 1, {}))
for _, name in ipairs(content.PART_FIELDS) do IS_PART_FIELD[name] = true end
local CONTENT_FIELDS = table.move(content.PART_FIELDS, 1, #content.PART_FIELDS, 3, { "role", "parts" })

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
  for index, part in ipairs(lists.of(parts, where, "parts")) do
    local place = ("%s[%d]"):format(where, index)
    if type(part) == "string" then
      list[#list + 1] = { text = part }
    elseif type(part) ~= "table" then
      core.error("invalid_argument", ("%s: a part is a table, not a %s"):format(place, type(part)))
    elseif not dropNullsOf(part) then
      checkPart(part, place)
      if part.inlineData then inlineData.toMessage(part.inlineData) end
      list[#list + 1] = part
    end
  end
  return list
end

---Is this a part by itself? What has fields that no part has is something else.
---@param value any
---@return boolean
function content.isPart(value)
  if type(value) ~= "table" then return false end
  local isOne = false
  for _, kind in ipairs(KINDS) do
    local held = rawget(value, kind)
    isOne = isOne or held ~= nil and held ~= core.null
  end
  if not isOne then return false end
  for name, held in next, value do
    if not IS_PART_FIELD[name] and held ~= core.null then return false end
  end
  return true
end

---Is this a part, or a list of parts, without a Content around it?
---@param value any
---@return boolean
function content.isBare(value)
  return type(value) == "table" and rawget(value, 1) ~= nil or content.isPart(value)
end

-- In a list without a Content around it: a misspelt part would otherwise pass for an unknown one.
local function checkBareItem(item, place)
  if type(item) ~= "table" or content.isPart(item) then return end
  core.checkFields(item, place, content.PART_FIELDS)
  core.error("invalid_argument", ("%s: expected a part with one of %s"):format(place, table.concat(KINDS, ", ")))
end

local function ofBare(value, role, where)
  if content.isPart(value) then return { role = role, parts = partList({ value }, where) } end
  local parts = partList(value, where)
  for index, part in ipairs(parts) do checkBareItem(part, ("%s[%d]"):format(where, index)) end
  return { role = role, parts = parts }
end

local function refuse(value, where)
  if type(value) == "table" then core.checkFields(value, where, CONTENT_FIELDS) end
  return core.error("invalid_argument",
    ("%s: expected a string, a part, a list of parts or a Content ({ role, parts }), got a %s"):format(where,
      type(value) == "table" and "table without parts" or type(value)))
end

---Makes a Content of what it may be given as; a table is copied. What is null in it is absent
---afterwards.
---@param value moonpad.ContentLike
---@param role string used where the value names none
---@param where string for messages
---@return moonpad.Content
function content.normalize(value, role, where)
  if type(value) == "string" then return { role = role, parts = { { text = value } } } end
  if type(value) == "table" and type(rawget(value, "parts")) == "table" then
    local result = copy(value)
    content.dropNulls(result)
    content.checkTypes(result, { role = "string" }, where)
    result.role = result.role or role
    result.parts = partList(result.parts, where .. ".parts")
    return result
  end
  if content.isBare(value) then return ofBare(copy(value), role, where) end
  return refuse(value, where)
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
