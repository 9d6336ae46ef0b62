--- Taking keys out of what providers say, so that it can be shown, stored and logged.
local errorText = require "moonpad.error_text"

local redact = {}

local MARK = "[redacted]"

-- Shorter ones ("no", "1") are no secrets, and would tear holes into any text.
local SHORTEST = 6

-- What keys of the providers look like: a provider may quote one in part, or another one than it was sent.
local SHAPES = { "%f[%w]sk%-[%w_*-]+", "%f[%w]AIza[%w_*-]+" }
local SHORTEST_SHAPE = 12

local function escapePattern(text)
  return (text:gsub("%p", "%%%0"))
end

---Makes a function that takes these secrets out of a text.
---@param secrets string[]
---@return fun(text: string): string
function redact.new(secrets)
  local patterns = {}
  for _, secret in ipairs(secrets) do
    -- "Bearer KEY" may be quoted without its first word.
    for _, word in ipairs { secret, secret:match "%s(%S+)$" or secret } do
      if #word >= SHORTEST then patterns[#patterns + 1] = escapePattern(word) end
    end
  end
  table.sort(patterns, function(a, b) return #a > #b end)
  return function(text)
    for _, pattern in ipairs(patterns) do text = text:gsub(pattern, MARK) end
    for _, shape in ipairs(SHAPES) do
      text = text:gsub(shape, function(found) return #found >= SHORTEST_SHAPE and MARK or nil end)
    end
    return text
  end
end

---Shortens a text to so many bytes, at a character's boundary; bytes that are no UTF-8 become question marks.
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
