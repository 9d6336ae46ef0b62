--- Files in parts, `inlineData = { mimeType, data }`: in events and messages `data` is base64, in
--- artifacts it is the bytes. What comes from moonpad is marked by a metatable, so that a part can
--- go from the one to the other. What a program has made by hand is taken as what belongs there.
local base64 = require "moonpad.util.base64"
local core = require "moonpad.core"

local inlineData = {}

-- Also of events that the core hands out.
local BASE64 = core.base64Mark
local BYTES = { __name = "moonpad.bytes" }

---@param metatable any
---@return table? mark
function inlineData.mark(metatable)
  return (metatable == BASE64 or metatable == BYTES) and metatable or nil
end

---Marks what an artifact service has answered.
---@param inline table
function inlineData.markBytes(inline)
  setmetatable(inline, BYTES)
end

---Makes the file of a message of one that may be an artifact's.
---@param inline table of a copy
function inlineData.toMessage(inline)
  local metatable = getmetatable(inline)
  if metatable == BYTES and type(inline.data) == "string" then inline.data = base64.encode(inline.data) end
  if metatable == nil or metatable == BYTES then setmetatable(inline, BASE64) end
end

---The file of an artifact, of one that may be a message's.
---@param inline any
---@param where string for messages
---@return any inline where it is a message's: a copy, with the bytes
function inlineData.toArtifact(inline, where)
  if type(inline) ~= "table" or getmetatable(inline) ~= BASE64 or type(inline.data) ~= "string" then return inline end
  local made = {}
  for name, value in next, inline do made[name] = value end
  made.data = base64.tryDecode(inline.data)
  if not made.data then
    core.error("invalid_argument", ("%s.data: is not base64: %s"):format(where, base64.problem(inline.data)))
  end
  return setmetatable(made, BYTES)
end

---Says what is wrong with the file of a message.
---@param inline any
---@return string? problem nil where its data is base64
function inlineData.problem(inline)
  local problem = type(inline) == "table" and type(inline.data) == "string" and base64.problem(inline.data)
  if not problem then return nil end
  return ("is not base64: %s (moonpad.inlineData(mimeType, bytes) makes a part of bytes)"):format(problem)
end

return inlineData
