--- What the parts that an artifact service answers with hold. One of the user's own may answer with
--- anything.
local inlineData = require "moonpad.events.inline_data"
local merged = require "moonpad.util.merged"

local artifactParts = {}

local TEXTUAL = { "^text/", "^application/json", "^application/xml", "^application/csv", "[+]json", "[+]xml" }

---@param mimeType string
---@return boolean
function artifactParts.isTextual(mimeType)
  for _, pattern in ipairs(TEXTUAL) do
    if mimeType:lower():find(pattern) then return true end
  end
  return false
end

---A part as an artifact service gets it, of one that may be out of a message.
---@param part any
---@param where string for messages
---@return any part
function artifactParts.forService(part, where)
  if type(part) ~= "table" then return part end
  local inline = inlineData.toArtifact(part.inlineData, where .. ".inlineData")
  if rawequal(inline, part.inlineData) then return part end
  return merged(part, { inlineData = inline })
end

---@param part any
---@return string? text
---@return { mimeType: string, data: string }? inlineData where it is no text; nothing at all of what is no part
function artifactParts.read(part)
  if type(part) == "string" then return part end
  local given = type(part) == "table" and part or {}
  if type(given.text) == "string" then return given.text end
  local inline = type(given.inlineData) == "table" and given.inlineData or {}
  if type(inline.mimeType) == "string" and type(inline.data) == "string" then return nil, inline end
  return nil
end

return artifactParts
