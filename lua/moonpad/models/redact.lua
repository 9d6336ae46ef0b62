--- Taking keys out of what providers and models say, so that it can be shown, stored and logged. A
--- key is found in the ways of writing that servers use to quote: escaped for JSON, for an address,
--- for HTML (also twice), and in base64.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local errorText = require "moonpad.util.error_text"

local redact = {}

local MARK = "[redacted]"

-- Shorter ones ("no", "1") are no secrets, and would tear holes into any text.
local SHORTEST = 6

-- What keys of the providers look like: a provider may quote one in part, or another one than it
-- was sent.
local SHAPES = { "%f[%w]sk%-[%w_*-]+", "%f[%w]AIza[%w_*-]+" }
local SHORTEST_SHAPE = 12

-- From a stream, the first bytes of what may become a key are shown: they tell nothing, and most
-- often are none.
local SHOWN_OF_KEY = 3

---- The ways of writing a secret

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

-- The characters of base64 that depend on nothing but the secret, when so many bytes stand in front
-- of it.
local function base64Core(secret, offset)
  local bits = {}
  for index = 1, #secret do
    local byte = secret:byte(index)
    for bit = 7, 0, -1 do bits[#bits + 1] = byte >> bit & 1 end
  end
  local characters = {}
  for first = -offset * 8 % 6, #bits - 6, 6 do
    local value = 0
    for index = first + 1, first + 6 do value = value << 1 | bits[index] end
    characters[#characters + 1] = ALPHABET:sub(value + 1, value + 1)
  end
  return table.concat(characters)
end

-- Longest first: what contains another one is found as a whole.
local function wordsOf(secrets)
  local words, isThere = {}, {}
  local function add(word)
    if #word < SHORTEST or isThere[word] then return end
    isThere[word] = true
    words[#words + 1] = word
  end
  for _, secret in ipairs(secrets) do
    -- "Bearer KEY" may be quoted without its first word.
    local key = secret:match "%s(%S+)$" or secret
    add(secret)
    add(key)
    for offset = 0, #key >= SHORTEST and 2 or -1 do
      local letters = base64Core(key, offset)
      add(letters)
      add((letters:gsub("[+/]", { ["+"] = "-", ["/"] = "_" })))
    end
  end
  table.sort(words, function(a, b) return #a > #b end)
  return words
end

---- The redactor

---@class moonpad.Redactor
---@field hasWords boolean
---@field find function see core.secretFinder
local Redactor = {}
Redactor.__index = Redactor

---@param secrets string[]
---@return moonpad.Redactor
function redact.new(secrets)
  local words = wordsOf(secrets)
  return setmetatable({ hasWords = #words > 0, find = core.secretFinder(words) }, Redactor)
end

-- So much is looked at before others may go on, and how much work that is.
local PIECE_BYTES, PIECE_WORK = 65536, 32

-- The next secret: where it begins, and what comes behind it. No second result where the text ends
-- in what may be one.
local function findNext(self, text, position, isWhole)
  if not self.hasWords then return nil end
  while position <= #text do
    local last = position + PIECE_BYTES - 1
    local start, stop = self.find(text, position, last, isWhole)
    if start then return start, stop end
    if last < #text then coroutines.keepPace(PIECE_WORK) end
    position = last + 1
  end
  return nil
end

---Takes the secrets out of a text.
---@param text string
---@param limit integer? so many bytes suffice
---@param isCut boolean? the text has been cut off: half a secret at its end is left out
---@return string
function Redactor:text(text, limit, isCut)
  if limit and #text > limit then text, isCut = text:sub(1, limit), true end
  local start, stop = findNext(self, text, 1, not isCut)
  -- Most texts hold none, and may be long.
  if not start then return text end
  local pieces, position = {}, 1
  while stop do
    pieces[#pieces + 1], pieces[#pieces + 2] = text:sub(position, start - 1), MARK
    position = stop
    start, stop = findNext(self, text, position, not isCut)
  end
  pieces[#pieces + 1] = text:sub(position, start and start - 1)
  return table.concat(pieces)
end

---Takes them out of all strings of a value, in place.
---@param value any
---@return any value
function Redactor:value(value)
  if type(value) == "string" then return self:text(value) end
  if type(value) ~= "table" or not self.hasWords then return value end
  local renamed = {}
  for key, item in pairs(value) do
    value[key] = self:value(item)
    local name = type(key) == "string" and self:text(key) or key
    if name ~= key then renamed[key] = name end
  end
  for key, name in pairs(renamed) do value[key], value[name] = nil, value[key] end
  return value
end

---Takes them out of a text that comes in pieces: what may be the beginning of one is kept back.
---@return fun(piece: string, isLast: boolean?): string
function Redactor:stream()
  local rest, shown = "", 0
  return function(piece, isLast)
    local text, pieces, position = rest .. piece, {}, 1
    local function show(last)
      pieces[#pieces + 1] = text:sub(math.max(position, shown + 1), last)
    end
    local start, stop = findNext(self, text, position, isLast)
    while stop do
      show(start - 1)
      pieces[#pieces + 1], position = MARK, stop
      start, stop = findNext(self, text, position, isLast)
    end
    rest = start and text:sub(start) or ""
    if #rest > SHOWN_OF_KEY then
      show(start - 1)
      shown = math.max(shown - start + 1, 0)
    else
      show(#text)
      shown = #rest
    end
    return table.concat(pieces)
  end
end

---Takes them out of parts with text, as they come in from a stream.
---@return fun(parts: table[]?): table[]? filter what may be shown; nil at the end gives what was kept back
function Redactor:parts()
  local take, isThought, shown
  local function show(text)
    if text ~= "" then shown[#shown + 1] = { text = text, thought = isThought } end
  end
  return function(parts)
    shown = {}
    for _, part in ipairs(parts or {}) do
      if take and isThought ~= part.thought then show(take("", true)) end
      if not take or isThought ~= part.thought then take, isThought = self:stream(), part.thought end
      show(take(part.text))
    end
    if not parts and take then show(take("", true)) end
    return #shown > 0 and shown or nil
  end
end

---Takes out what looks like a key of a provider.
---@param text string
---@return string
function redact.shapes(text)
  for _, shape in ipairs(SHAPES) do
    text = text:gsub(shape, function(found) return #found >= SHORTEST_SHAPE and MARK or nil end)
  end
  return text
end

---Shortens a text to so many bytes, at a character's boundary; bytes that are no UTF-8 become
---question marks.
---@param text string
---@param limit integer
---@return string
function redact.shorten(text, limit)
  if #text > limit then
    local stop = limit
    while stop > 0 and text:byte(stop + 1) & 0xC0 == 0x80 do stop = stop - 1 end
    text = text:sub(1, stop)
  end
  return errorText.valid(text)
end

return redact
