--- OpenRouter's `reasoning_details`: what the model behind it wants back (signatures, encrypted
--- reasoning), in the form that it came. A stream gives each entry in pieces.
local core = require "moonpad.core"
local fields = require "moonpad.models.fields"

local details = {}

---@class moonpad.OpenaiDetails
---@field list table[] entries so far
---@field pieces table<table, table<string, string[]>> entry -> texts under way
local Details = {}
Details.__index = Details

---@return moonpad.OpenaiDetails
function details.new()
  return setmetatable({ list = {}, pieces = {} }, Details)
end

-- What grows from piece to piece; of anything else the last word counts.
local GROWING = { "text", "summary", "data" }

local function sameEntry(entry, piece)
  return entry.type == piece.type and entry.index == piece.index
    and (piece.id == nil or entry.id == nil or entry.id == piece.id)
end

local function find(self, piece)
  if piece.index == nil then return nil end
  for position = #self.list, 1, -1 do
    if sameEntry(self.list[position], piece) then return self.list[position] end
  end
  return nil
end

local function grow(self, entry, piece)
  local pieces = self.pieces[entry]
  for _, name in ipairs(GROWING) do
    if piece[name] ~= nil then
      pieces[name] = pieces[name] or {}
      table.insert(pieces[name], piece[name])
    end
  end
  for name, value in pairs(piece) do
    if not pieces[name] then entry[name] = value end
  end
end

---Takes the list of a message, or of a piece of one.
---@param objects table[]
---@param path string
function Details:add(objects, path)
  for index, object in ipairs(objects) do
    local where = ("%s[%d]"):format(path, index)
    for _, name in ipairs(GROWING) do fields.string(object, name, where) end
    local piece = fields.withoutNulls(object)
    local entry = find(self, piece)
    if not entry then
      entry = {}
      self.list[#self.list + 1], self.pieces[entry] = entry, {}
    end
    grow(self, entry, piece)
  end
end

---@return table[]? list nil where there are none
function Details:whole()
  if #self.list == 0 then return nil end
  for entry, pieces in pairs(self.pieces) do
    for name, texts in pairs(pieces) do entry[name] = table.concat(texts) end
  end
  return core.array(self.list)
end

return details
