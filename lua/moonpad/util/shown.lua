--- Values of any kind and size as short text for people.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"

local shown = {}

local MAX_CHARACTERS = 200
local MAX_BYTES_EACH = 4

---A value as JSON; what is none, as Lua shows it.
---@param value any
---@return string
function shown.json(value)
  local ok, text = pcall(core.json.encode, value)
  return ok and text or errorText.show(value)
end

---A text of at most 200 characters, or so many; dots stand for the rest.
---@param text string
---@param most integer?
---@return string
function shown.cut(text, most)
  most = most or MAX_CHARACTERS
  -- So much holds them all, and one that is broken off is not among them.
  local head = errorText.valid(text:sub(1, (most + 1) * MAX_BYTES_EACH))
  local stop = utf8.offset(head, most + 1)
  return stop and stop <= #head and head:sub(1, stop - 1) .. "..." or head
end

local NAMES = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function escape(character)
  return NAMES[character] or ("\\u%04X"):format(utf8.codepoint(character))
end

---A text in which no character moves the cursor, ends the line or turns its direction around.
---@param text string valid UTF-8
---@return string
function shown.escaped(text)
  text = text:gsub("[\0-\x1F\x7F]", escape):gsub("\xC2[\x80-\x9F]", escape)
  return (text:gsub("\xE2\x80[\xA8-\xAE]", escape):gsub("\xE2\x81[\xA6-\xA9]", escape))
end

return shown
