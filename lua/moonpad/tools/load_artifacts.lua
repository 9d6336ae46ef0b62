--- The tool `load_artifacts`: a model is told which files there are, and gets those that it asks
--- for with its next request. They are in that request alone: the session keeps their names.
local artifactParts = require "moonpad.services.artifact_parts"
local base64 = require "moonpad.util.base64"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local events = require "moonpad.events.event"
local requestText = require "moonpad.tools.request_text"
local services = require "moonpad.services.of_context"
local tools = require "moonpad.tools.tool"

local loadArtifacts = tools.define {
  name = "load_artifacts",
  description = "Loads artifacts into the session for this request.\n\n"
    .. "NOTE: Call when you need access to artifacts (for example, uploads saved by the web UI).",
  parameters = {
    type = "object",
    properties = {
      artifact_names = {
        type = "array", items = { type = "string" }, description = "The names of the artifacts to load.",
      },
    },
  },
  run = function(args)
    return {
      artifact_names = args.artifact_names or core.array {},
      status = "artifact contents temporarily inserted and removed. to access these artifacts, "
        .. "call load_artifacts tool again.",
    }
  end,
}

local INSTRUCTION = [[
You have a list of artifacts:
  %s

When the user asks questions about any of the artifacts, you should call the
`load_artifacts` function to load the artifact. Always call load_artifacts
before answering questions related to the artifacts, regardless of whether the
artifacts have been loaded before. Do not depend on prior answers about the
artifacts.]]

-- What models take as bytes. Of other files they get to know that they are there.
local SHOWN = { "^image/", "^audio/", "^video/", "^application/pdf" }

local function isShown(mimeType)
  for _, pattern in ipairs(SHOWN) do
    if mimeType:lower():find(pattern) then return true end
  end
  return false
end

local function toModelPart(name, part)
  local text, inline = artifactParts.read(part)
  if text then return { text = text } end
  if not inline then return { text = ("[Artifact: %s. No inline data was provided.]"):format(name) } end
  local mimeType, data = inline.mimeType, inline.data
  -- Drawings in XML are images by name, but models want them as text.
  if artifactParts.isTextual(mimeType) then return { text = errorText.valid(data) } end
  if isShown(mimeType) then return { inlineData = { mimeType = mimeType, data = base64.encode(data) } } end
  return {
    text = ("[Binary artifact: %s, type: %s, size: %.1f KB. Content cannot be displayed inline.]")
      :format(name, mimeType, #data / 1024),
  }
end

-- A model may leave the prefix away.
local function find(callbackState, name)
  local userPrefix = core.StatePrefix.USER_PREFIX
  local part = services.findArtifact(callbackState, name)
  if part ~= nil or name:sub(1, #userPrefix) == userPrefix then return part end
  return services.findArtifact(callbackState, userPrefix .. name)
end

-- The names that the model has just asked for. Its answers may have been changed by callbacks.
local function namesAskedFor(request)
  local contents, names = request.contents, {}
  for _, part in ipairs(events.parts { content = contents[#contents] }) do
    local answer = part.functionResponse
    local response = answer and answer.name == loadArtifacts.name and answer.response
    local asked = type(response) == "table" and response.artifact_names
    for _, name in ipairs(type(asked) == "table" and asked or {}) do
      if type(name) == "string" then names[#names + 1] = name end
    end
  end
  return names
end

function loadArtifacts.processLlmRequest(context, request)
  local available = context:listArtifacts()
  if type(available) == "table" and #available > 0 then
    requestText.append(request, INSTRUCTION:format(core.json.encode(available)))
  end
  -- A model may ask though there is none: the names may be from the user, or from long ago.
  local callbackState = contexts.stateOf(context)
  for _, name in ipairs(namesAskedFor(request)) do
    local part = find(callbackState, name)
    local parts = part == nil and { { text = ("There is no artifact %s."):format(name) } }
      or { { text = ("Artifact %s is:"):format(name) }, toModelPart(name, part) }
    table.insert(request.contents, { role = "user", parts = parts })
  end
end

return loadArtifacts
