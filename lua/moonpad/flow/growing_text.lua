--- Text of parts that comes in pieces. The pieces are put together once, at the end: doing so with
--- each of them would take a time that grows with the square of the text.
local growingText = {}

---@class moonpad.GrowingTexts part -> its pieces so far
local Texts = {}
Texts.__index = Texts

---@return moonpad.GrowingTexts
function growingText.new()
  return setmetatable({}, Texts)
end

---@param part table with a text, which is behind until `join`
---@param text string that goes on with it
function Texts:add(part, text)
  local pieces = self[part]
  if not pieces then
    pieces = { part.text }
    self[part] = pieces
  end
  pieces[#pieces + 1] = text
end

---Gives all parts their text.
function Texts:join()
  for part, pieces in pairs(self) do
    part.text = table.concat(pieces)
    self[part] = nil
  end
end

return growingText
