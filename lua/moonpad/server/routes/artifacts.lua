--- Files of sessions and users. In JSON their bytes are base64, as in messages.
local base64 = require "moonpad.util.base64"
local core = require "moonpad.core"
local failure = require "moonpad.server.failure"
local merged = require "moonpad.util.merged"
local wire = require "moonpad.server.wire"

local function serviceOf(call)
  return call.runner.artifactService or failure.raise(501, "the app %s keeps no artifacts", call.app)
end

local function nameOf(call)
  return { appName = call.appName, userId = call.userId, sessionId = call.sessionId, filename = call.params.name }
end

local function list(call)
  if not call.runner.artifactService then return 200, core.array {} end
  local name = nameOf(call)
  name.filename = nil
  return 200, core.array(serviceOf(call):list(name))
end

local function versionOf(text)
  return math.tointeger(tonumber(text)) or failure.raise(422, "version: expected a number, got %s", text)
end

-- As a message has it.
local function partOf(loaded)
  if not loaded.inlineData then return loaded end
  local part = merged(loaded)
  part.inlineData = merged(loaded.inlineData)
  part.inlineData.data = base64.encode(loaded.inlineData.data)
  return part
end

local function load(call, version)
  local name = nameOf(call)
  name.version = version
  local part = serviceOf(call):load(name)
  return part and partOf(part) or failure.raise(404, "Artifact not found: %s", call.params.name)
end

local function get(call)
  return 200, load(call, call.query.version and versionOf(call.query.version))
end

local function versions(call)
  return 200, core.array(serviceOf(call):versions(nameOf(call)))
end

local function getVersion(call)
  return 200, load(call, versionOf(call.params.version))
end

local function describe(call, version)
  local part = load(call, version)
  return {
    version = version, canonicalUri = "", customMetadata = {},
    mimeType = part.inlineData and part.inlineData.mimeType or "text/plain",
  }
end

local function metadata(call)
  local result = core.array {}
  for _, version in ipairs(serviceOf(call):versions(nameOf(call))) do result[#result + 1] = describe(call, version) end
  return 200, result
end

local function versionMetadata(call)
  return 200, describe(call, versionOf(call.params.version))
end

local function delete(call)
  serviceOf(call):delete(nameOf(call))
  return 200, core.null
end

-- The bytes that a client has sent as base64.
local function bytesOf(part)
  local inline = part.inlineData
  if type(inline) ~= "table" then return part end
  local data = type(inline.data) == "string" and base64.tryDecode(inline.data)
  if not data then failure.raise(422, "artifact.inlineData.data: is not base64") end
  local result = merged(part)
  result.inlineData = merged(inline)
  result.inlineData.data = data
  return result
end

local function save(call)
  local body = call:body()
  local part = body and wire.part(body.artifact)
  if type(part) ~= "table" then failure.raise(422, "artifact: expected a part") end
  if type(body.filename) ~= "string" or body.filename == "" then failure.raise(422, "filename: expected a text") end
  call.params.name = body.filename
  local name = nameOf(call)
  name.part = bytesOf(part)
  local version = serviceOf(call):save(name)
  return 200, describe(call, version)
end

-- Names may have slashes that nobody has escaped (adk-python): the words behind the name come last.
local function getByPath(call)
  local path = call.params.name
  local name, version = path:match "^(.+)/versions/([^/]+)$"
  if name then
    call.params.name = name
    if version == "metadata" then return metadata(call) end
    call.params.version = version
    return getVersion(call)
  end
  name = path:match "^(.+)/versions$"
  if not name then return get(call) end
  call.params.name = name
  return versions(call)
end

local ARTIFACTS <const> = "/apps/{app}/users/{user}/sessions/{session}/artifacts"
local ARTIFACT <const> = ARTIFACTS .. "/{name}"

return {
  { "GET", ARTIFACTS, list },
  { "POST", ARTIFACTS, save },
  { "GET", ARTIFACT, get },
  { "DELETE", ARTIFACT, delete },
  { "GET", ARTIFACT .. "/versions", versions },
  { "GET", ARTIFACT .. "/versions/metadata", metadata },
  { "GET", ARTIFACT .. "/versions/{version}", getVersion },
  { "GET", ARTIFACT .. "/versions/{version}/metadata", versionMetadata },
  { "GET", ARTIFACTS .. "/{name*}", getByPath },
  { "DELETE", ARTIFACTS .. "/{name*}", delete },
}
