--- Taking keys out of what providers and models say, so that it can be shown, stored and logged. A
--- key is found in the ways of writing that servers use to quote: escaped for JSON, for an address,
--- for HTML (also twice), and in base64.
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
      local core = base64Core(key, offset)
      add(core)
      add((core:gsub("[+/]", { ["+"] = "-", ["/"] = "_" })))
    end
  end
  table.sort(words, function(a, b) return #a > #b end)
  return words
end

---- Reading what is escaped

-- What a decoder answers when the text ends in the middle of an escape.
local CUT = {}

-- Each takes a text, the place of an escape in it, and the byte that is looked for; it returns the
-- byte that the escape stands for and where it ends, or CUT.
local decoders = {}

local BACKSLASH, PERCENT, AMPERSAND = ("\\%&"):byte(1, 3)

-- JSON, JavaScript, the shell; backslashes may have been escaped themselves.
decoders[BACKSLASH] = function(text, position)
  local start = text:find("[^\\]", position + 1)
  if not start or text:find("^u%x?%x?%x?$", start) or text:find("^x%x?$", start) then return CUT end
  local digits = text:match("^u00(%x%x)", start)
  if digits then return tonumber(digits, 16), start + 5 end
  digits = text:match("^x(%x%x)", start)
  if digits then return tonumber(digits, 16), start + 3 end
  if text:find("^%p", start) then return text:byte(start), start + 1 end
end

-- Addresses: %2F, or %252F where it was escaped twice.
decoders[PERCENT] = function(text, position, wanted)
  local start = position + 1
  while text:find("^25%x%x", start) do start = start + 2 end
  local digits = text:match("^%x%x", start)
  if digits and (wanted == PERCENT or not text:find("^25%x?$", start)) then return tonumber(digits, 16), start + 2 end
  if text:find("^%x?%x?%x?$", start) then return CUT end
end

local ENTITIES = {
  amp = "&", lt = "<", gt = ">", quot = '"', apos = "'", sol = "/", bsol = "\\", plus = "+", equals = "=", colon = ":",
  period = ".", lowbar = "_", num = "#", percnt = "%", ast = "*", excl = "!", commat = "@", dollar = "$", comma = ",",
}

local LONGEST_ENTITY = 12

-- HTML: &#47; or &#x2F; or &sol;, or &amp;#47; where it was escaped twice.
decoders[AMPERSAND] = function(text, position, wanted)
  local start = position + 1
  while text:find("^amp;[#%a]%w*;", start) do start = start + 4 end
  if wanted ~= AMPERSAND and text:find("^amp;#?%w*$", start) then return CUT end
  local stop = text:match("^#?%w+;()", start)
  if not stop then
    return #text - position < LONGEST_ENTITY and text:find("^[#;%w]*$", start) and CUT or nil
  end
  local hexadecimal, decimal = text:match("^#[xX]0*(%x%x?);", start), text:match("^#0*(%d%d?%d?);", start)
  if hexadecimal then return tonumber(hexadecimal, 16), stop end
  if decimal then return tonumber(decimal), stop end
  local character = ENTITIES[text:match("^%a+", start)]
  return character and character:byte(), stop
end

-- Where the word ends that begins there; CUT when the text ends before the word does.
local function matchAt(text, position, word)
  for index = 1, #word do
    local byte, wanted = text:byte(position), word:byte(index)
    if byte == nil then return CUT end
    local decode = decoders[byte]
    local found, after
    if decode then found, after = decode(text, position, wanted) end
    if found == wanted then
      position = after
    elseif byte == wanted then
      position = position + 1
    else
      return found == CUT and CUT or nil
    end
  end
  return position
end

---- The redactor

---@class moonpad.Redactor
---@field words string[]
---@field byFirst table<integer, string[]> those that may begin with a byte
---@field starts string a pattern of what may begin one
local Redactor = {}
Redactor.__index = Redactor

---@param secrets string[]
---@return moonpad.Redactor
function redact.new(secrets)
  local words, byFirst = wordsOf(secrets), {}
  for byte in pairs(decoders) do byFirst[byte] = words end
  local starts = {}
  for _, word in ipairs(words) do
    local byte = word:byte()
    byFirst[byte] = byFirst[byte] or {}
    if byFirst[byte] ~= words then table.insert(byFirst[byte], word) end
    starts[#starts + 1] = word:sub(1, 1):gsub("%W", "%%%0")
  end
  return setmetatable({ words = words, byFirst = byFirst, starts = "[\\%%&" .. table.concat(starts) .. "]" }, Redactor)
end

-- In a text without escapes, secrets stand as they are.
local function findPlain(self, text, position)
  local first, last
  for _, word in ipairs(self.words) do
    local start, stop = text:find(word, position, true)
    if start and (not first or start < first) then first, last = start, stop end
  end
  return first, first and last + 1
end

-- The next secret: where it begins, and what comes behind it. No second result where the text ends
-- in what may be one.
local function findNext(self, text, position, isWhole)
  if #self.words == 0 then return nil end
  local start = text:find(self.starts, position)
  while start do
    for _, word in ipairs(self.byFirst[text:byte(start)]) do
      local stop = matchAt(text, start, word)
      if stop == CUT and not isWhole then return start end
      if stop and stop ~= CUT then return start, stop end
    end
    start = text:find(self.starts, start + 1)
  end
  return nil
end

---Takes the secrets out of a text.
---@param text string
---@param limit integer? so many bytes suffice
---@param isCut boolean? the text has been cut off: half a secret at its end is left out
---@return string
function Redactor:text(text, limit, isCut)
  local find = (isCut or text:find "[\\%%&]") and findNext or findPlain
  local pieces, length, position = {}, 0, 1
  limit = limit or math.maxinteger
  while length < limit do
    local start, stop = find(self, text, position, not isCut)
    local piece = text:sub(position, start and start - 1)
    pieces[#pieces + 1], length = piece, length + #piece
    if not stop then break end
    pieces[#pieces + 1], length, position = MARK, length + #MARK, stop
  end
  return table.concat(pieces)
end

---Takes them out of all strings of a value, in place.
---@param value any
---@return any value
function Redactor:value(value)
  if type(value) == "string" then return self:text(value) end
  if type(value) ~= "table" or #self.words == 0 then return value end
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
