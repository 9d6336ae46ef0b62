--- Files in the user's message (`inlineData`), kept as artifacts: the message names them in
--- their place.
local base64 = require "moonpad.util.base64"
local content = require "moonpad.events.content"
local core = require "moonpad.core"
local services = require "moonpad.services.of_context"

local inputBlobs = {}

local TYPES = { mimeType = "string", data = "string", displayName = "string" }
local UNKNOWN_TYPE = "application/octet-stream"

-- The artifact of a part: its bytes are not in base64 there.
local function artifactOf(inline, where)
  content.checkTypes(inline, TYPES, where)
  local bytes = base64.tryDecode(inline.data or "")
  if not bytes then core.error("invalid_argument", where .. ".data: is not base64") end
  return { inlineData = { mimeType = inline.mimeType or UNKNOWN_TYPE, data = bytes, displayName = inline.displayName } }
end

-- By place in the message. All are read before the first is saved.
local function artifactsIn(message)
  local found = {}
  for index, part in ipairs(message.parts) do
    local inline = part.inlineData
    found[index] = inline and artifactOf(inline, ("newMessage.parts[%d].inlineData"):format(index)) or false
  end
  return found
end

---Saves the files in the message of a run. The names are ADK's: places count from 0 there.
---@param callbackState moonpad.CallbackState whose event tells of the artifacts
function inputBlobs.save(callbackState)
  local invocationContext = callbackState.invocationContext
  local message = invocationContext.userContent
  if not (message and invocationContext.savesInputBlobs) then return end
  local parts = core.array {}
  for index, artifact in ipairs(artifactsIn(message)) do
    parts[index] = message.parts[index]
    if artifact then
      local name = ("artifact_%s_%d"):format(invocationContext.id, index - 1)
      services.saveArtifact(callbackState, name, artifact)
      parts[index] = { text = ("Uploaded file: %s. It is saved into artifacts"):format(name) }
    end
  end
  invocationContext:setUserContent { role = message.role, parts = parts }
end

return inputBlobs
