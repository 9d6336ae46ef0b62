--- Base64: how bytes stand in what is sent to models.
local coroutines = require "moonpad.runtime.coroutines"

local base64 = {}

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

-- The two letters for each number of 12 bits.
local LETTERS = {}
for high = 1, 64 do
  for low = 1, 64 do
    LETTERS[(high - 1) << 6 | low - 1] = ALPHABET:sub(high, high) .. ALPHABET:sub(low, low)
  end
end

local PIECE_BYTES = 3 * 4096 -- a third of a millisecond

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

---Encodes bytes. A run that is stepped can go on with others between two pieces of a large file.
---@param data string
---@return string
function base64.encode(data)
  local texts, whole = {}, #data - #data % 3
  for first = 1, whole, PIECE_BYTES do
    texts[#texts + 1] = encodePiece(data, first, math.min(first + PIECE_BYTES - 1, whole))
    if first + PIECE_BYTES <= whole then coroutines.giveWay() end
  end
  if whole < #data then texts[#texts + 1] = encodeRest(data, whole + 1) end
  return table.concat(texts)
end

return base64
