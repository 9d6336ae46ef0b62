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

-- Where an error was raised, as Lua writes it in front of the message: of files, and of text that
-- was loaded.
local POSITIONS = { "^%a?:?[^%s:]+%.lua:%d+: ", '^%[string "[^\n]*"%]:%d+: ' }

-- How far from where it was raised the code is looked for that the position may be of.
local MAX_LEVELS = 50

-- The length of a position of the code that is running at the beginning of a text.
local function positionAtHead(text)
  for level = 2, MAX_LEVELS do
    local info = debug and debug.getinfo(level, "Sl")
    if not info then break end
    local position = ("%s:%d: "):format(info.short_src, info.currentline)
    if text:sub(1, #position) == position then return #position end
  end
  for _, pattern in ipairs(POSITIONS) do
    local _, last = text:find(pattern)
    if last then return last end
  end
  return 0
end

---What was raised without where: `error("no room")` raises "/home/ann/tools.lua:12: no room". To be
---called in the handler of the error, where the code that raised it is still known.
---@param text string
---@return string
function errorText.withoutPosition(text)
  while true do
    local length = positionAtHead(text)
    -- A message that is nothing but a position tells that at least.
    if length == 0 or length == #text then return text end
    text = text:sub(length + 1)
  end
end

---What a value looks like, for messages about a wrong one.
---@param value any
---@return string
function errorText.show(value)
  local ok, text = pcall(tostring, value)
  return ok and errorText.valid(text) or "a " .. type(value)
end

return errorText
