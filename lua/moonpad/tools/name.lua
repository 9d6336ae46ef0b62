--- Names of tools: what every provider takes.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"

local names = {}

local MAX_BYTES = 64
names.MAX_BYTES = MAX_BYTES

local function isFit(name)
  return #name <= MAX_BYTES and name:find "^[A-Za-z_][A-Za-z0-9_-]*$" ~= nil
end

---A name that would do, as like the given one as can be.
---@param name string
---@return string
function names.fitted(name)
  local result = name:gsub("[\xC2-\xF4][\x80-\xBF]*", "_"):gsub("[^A-Za-z0-9_-]", "_")
  if not result:find "^[A-Za-z_]" then result = "_" .. result end
  return result:sub(1, MAX_BYTES)
end

---Refuses a name that some provider would not take.
---@param name any
---@param where string for messages
function names.check(name, where)
  if not fields.text.is(name) then
    fields.refuse(where, ("expected %s, got %s"):format(fields.text.what, fields.describe(name)))
  end
  if isFit(name) then return end
  local shown = core.json.encode(errorText.valid(name))
  fields.refuse(where, ('%s is no name that models can call (letters, digits, _ and -, at most %d, first a letter '
    .. 'or _); "%s" would do'):format(shown, MAX_BYTES, names.fitted(name)))
end

return names
