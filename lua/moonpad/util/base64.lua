--- Base64: how bytes stand in events, and in what is sent to models. `moonpad.base64` has `encode`
--- and `decode`.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local lists = require "moonpad.util.list"

---@class moonpad.Base64
local base64 = {}

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

-- The two letters for each number of 12 bits.
local LETTERS = {}
for high = 1, 64 do
  for low = 1, 64 do
    LETTERS[(high - 1) << 6 | low - 1] = ALPHABET:sub(high, high) .. ALPHABET:sub(low, low)
  end
end

-- So much is encoded in a third of a millisecond.
local PIECE_BYTES, PIECE_WORK = 3 * 4096, 100

local function append(letters, a, b, c)
  local bits = a << 16 | b << 8 | c
  letters[#letters + 1] = LETTERS[bits >> 12]
  letters[#letters + 1] = LETTERS[bits & 0xFFF]
end

-- A whole number of groups of three bytes.
local function encodePiece(data, first, last)
  local letters = {}
  for index = first, last, 3 do append(letters, data:byte(index, index + 2)) end
  return table.concat(letters)
end

-- The one or two bytes that are left over.
local function encodeRest(data, first)
  local letters, a, b = {}, data:byte(first, first + 1)
  append(letters, a, b or 0, 0)
  return table.concat(letters):sub(1, b and 3 or 2) .. (b and "=" or "==")
end

local function checkString(value, where)
  if type(value) == "string" then return end
  core.error("invalid_argument", ("moonpad.base64.%s: expected a string, got %s"):format(where, lists.kindOf(value)))
end

---Encodes bytes, with padding and without ends of lines. A run that is stepped can go on with
---others between two pieces of a large file.
---@param data string
---@return string
function base64.encode(data)
  checkString(data, "encode")
  local texts, whole = {}, #data - #data % 3
  for first = 1, whole, PIECE_BYTES do
    texts[#texts + 1] = encodePiece(data, first, math.min(first + PIECE_BYTES - 1, whole))
    coroutines.keepPace(PIECE_WORK)
  end
  if whole < #data then texts[#texts + 1] = encodeRest(data, whole + 1) end
  return table.concat(texts)
end

---- Decoding

local VALUES = {}
do
  for index = 1, #ALPHABET do VALUES[ALPHABET:byte(index)] = index - 1 end
  VALUES[("-"):byte()], VALUES[("_"):byte()] = 62, 63
end

-- Whole groups of four characters.
local function decodeGroups(text)
  local bytes, count = {}, 0
  for position = 1, #text, 4 do
    local a, b, c, d = text:byte(position, position + 3)
    a, b, c, d = VALUES[a], VALUES[b], VALUES[c], VALUES[d]
    if not (a and b and c and d) then return nil end
    local group = a << 18 | b << 12 | c << 6 | d
    count = count + 1
    bytes[count] = string.char(group >> 16, group >> 8 & 255, group & 255)
  end
  return table.concat(bytes)
end

-- The last group, of which characters may be missing.
local function decodeLast(text)
  if #text == 1 then return nil end
  local missing = -#text % 4
  local bytes = decodeGroups(text .. ("A"):rep(missing))
  return bytes and bytes:sub(1, #bytes - missing)
end

-- Where the text ends that stands before the padding; nil where there is too much of that.
local function lastOf(text)
  local last, padding = #text, 0
  while last > 0 and text:find("^[%s=]", last) do
    if text:byte(last) == ("="):byte() then padding = padding + 1 end
    last = last - 1
  end
  return padding <= 2 and last or nil
end

-- So much is decoded in about half a millisecond.
local TEXT_PIECE = 8192

---What is wrong with a text, as far as can be said without decoding it.
---@param text string
---@return string? problem nil where it is base64
function base64.problem(text)
  if core.isBase64(text) then return nil end
  local strange = text:find "[^A-Za-z0-9+/_=%s-]"
  if strange then return ("byte %d is no character of base64"):format(strange) end
  local padding = text:find("=", 1, true)
  if padding and text:find("[^%s=]", padding) then
    return ("there is more behind the padding at byte %d"):format(padding)
  end
  local last = lastOf(text)
  if not last then return "there are more than two characters of padding" end
  local _, count = text:sub(1, last):gsub("%S", "")
  if count % 4 == 1 then return "it is cut off: its last group has a single character" end
  return nil
end

---@param text string
---@return string? bytes nil where it is no base64
function base64.tryDecode(text)
  local last = lastOf(text)
  if not last then return nil end
  local pieces, rest = {}, ""
  for first = 1, last, TEXT_PIECE do
    local piece = rest .. text:sub(first, math.min(first + TEXT_PIECE - 1, last)):gsub("%s+", "")
    local whole = #piece - #piece % 4
    local bytes = decodeGroups(piece:sub(1, whole))
    if not bytes then return nil end
    pieces[#pieces + 1], rest = bytes, piece:sub(whole + 1)
    coroutines.keepPace(PIECE_WORK)
  end
  local bytes = decodeLast(rest)
  if not bytes then return nil end
  pieces[#pieces + 1] = bytes
  return table.concat(pieces)
end

---Decodes a text, giving way as `encode` does. Both alphabets of RFC 4648 are read, with or without
---padding; blanks and ends of lines are passed over. What is no base64 is `invalid_argument`.
---@param text string
---@return string bytes
function base64.decode(text)
  checkString(text, "decode")
  local bytes = base64.tryDecode(text)
  if bytes then return bytes end
  return core.error("invalid_argument", "moonpad.base64.decode: " .. base64.problem(text))
end

return base64
