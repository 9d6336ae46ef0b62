--- The text of whatever was raised: strings, error objects, tables of the user's own, nothing.
local core = require "moonpad.core"

local errorText = {}

local MAX_BYTES = 65536 -- of a table that was raised

---A text that can be stored: bytes that are no UTF-8 become question marks.
---@param text string
---@return string
function errorText.valid(text)
  if utf8.len(text) then return text end
  local pieces, first = {}, 1
  while true do
    local length, bad = utf8.len(text, first)
    if length then break end
    pieces[#pieces + 1] = text:sub(first, bad - 1)
    pieces[#pieces + 1] = "?"
    first = bad + 1
  end
  pieces[#pieces + 1] = text:sub(first)
  return table.concat(pieces)
end

local function describe(err)
  if type(err) ~= "table" then return tostring(err) end
  local metatable = getmetatable(err)
  if core.isError(err) then return tostring(err.message) end
  if type(metatable) == "table" and metatable.__tostring then return tostring(err) end
  if type(err.message) == "string" then return err.message end
  local ok, text = pcall(core.encodeWithin, err, MAX_BYTES)
  return ok and text or tostring(err)
end

---@param err any
---@return string text valid UTF-8, whatever was raised
function errorText.of(err)
  if err == nil then return "it failed without an error value" end
  -- An object of the user's own may fail to say what it is.
  local ok, text = pcall(describe, err)
  return ok and errorText.valid(text) or ("an error object (a %s) that cannot be shown as text"):format(type(err))
end

---The same without the place in a Lua file that `error` puts in front of a text: it tells the
---developer, and nobody else, how his folders are called.
---@param err any
---@return string text valid UTF-8
function errorText.withoutPlace(err)
  local text = errorText.of(err)
  if type(err) ~= "string" then return text end
  return text:match "^[^\n:]-%.lua:%d+: (.*)$" or text:match '^%[string "[^\n]-"%]:%d+: (.*)$' or text
end

---What a value looks like, for messages about a wrong one.
---@param value any
---@return string
function errorText.show(value)
  local ok, text = pcall(tostring, value)
  return ok and errorText.valid(text) or "a " .. type(value)
end

return errorText
