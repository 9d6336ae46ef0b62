--- Artifacts: files that agents keep, with all their versions. A file belongs to a session, or with
--- the prefix `user:` to all sessions of a user.
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local inlineData = require "moonpad.events.inline_data"
local stores = require "moonpad.services.agent_stores"

local artifacts = {}

local MAX_FILENAME_BYTES = 1024
local USER_PREFIX = core.StatePrefix.USER_PREFIX

---What a file holds: text, or bytes of a mime type. The bytes are kept as they are. A part of an
---event or a message, in which they are base64, is understood.
---@class moonpad.ArtifactPart
---@field text string?
---@field inlineData { mimeType: string, data: string, displayName: string? }?

---@class moonpad.ArtifactScope
---@field appName string
---@field userId string
---@field sessionId string? not needed for the files of a user

---@class moonpad.ArtifactName: moonpad.ArtifactScope
---@field filename string

---@class moonpad.ArtifactVersion: moonpad.ArtifactName
---@field version integer? default: the latest

---@class moonpad.ArtifactToSave: moonpad.ArtifactName
---@field part moonpad.ArtifactPart|moonpad.Part|string|nil
---@field artifact moonpad.ArtifactPart|moonpad.Part|string|nil ADK's name of `part`; one of the two must be there

---@class moonpad.ArtifactServiceConfig: moonpad.ServiceConfig
---@field artifactTtlSeconds number? a file that is neither saved nor loaded for longer is gone (0: never)

---@class moonpad.ArtifactService
local Service = { __name = "moonpad.artifactService" }
Service.__index = Service

---- Checking

local function refuse(where, message)
  core.error("invalid_argument", where .. ": " .. message)
end

local function isOfUser(filename)
  return filename:sub(1, #USER_PREFIX) == USER_PREFIX
end

local function checkFilename(value, where)
  local filename = stores.name(value, where, MAX_FILENAME_BYTES)
  if filename == USER_PREFIX then refuse(where, 'a name must follow "user:"') end
  return filename
end

local function checkText(text, where)
  if type(text) ~= "string" then refuse(where, "expected a string, got " .. type(text)) end
  if not utf8.len(text) then refuse(where, "is not valid UTF-8; bytes go into inlineData = { mimeType, data }") end
  return text
end

local function checkBytes(data, where)
  if type(data) ~= "string" then refuse(where, "expected a string of bytes, got " .. type(data)) end
end

local INLINE_FIELDS = fields.new {
  { "data", checkBytes, required = true },
  { "mimeType", stores.name, required = true },
  { "displayName", checkText },
}:describes "moonpad.Blob"

local function checkInlineData(inline, where)
  if type(inline) ~= "table" then refuse(where, "expected a table { mimeType, data }, got " .. type(inline)) end
  return INLINE_FIELDS:take(inlineData.toArtifact(inline, where), where)
end

local PART_FIELDS = fields.new { { "text", checkText }, { "inlineData", checkInlineData } }
  :describes "moonpad.ArtifactPart"

local function checkPart(part, where)
  if type(part) == "userdata" and part ~= core.null then part = core.toTable(part) end
  if type(part) == "string" then part = { text = part } end
  if type(part) ~= "table" then refuse(where, "expected { text = } or { inlineData = }, got " .. type(part)) end
  PART_FIELDS:checkNames(part, where)
  if (part.text == nil) == (part.inlineData == nil) then refuse(where, "expected either text or inlineData") end
  return PART_FIELDS:read(part, where)
end

-- Files of a user need no session: then the id is not looked at.
local SCOPE_FIELDS = stores.USER:with { { "sessionId" } }:describes "moonpad.ArtifactScope"
local NAME_FIELDS = SCOPE_FIELDS:with { { "filename", checkFilename, required = true } }
  :describes "moonpad.ArtifactName"
local LOAD_FIELDS = NAME_FIELDS:with { { "version", fields.integerFrom(0) } }:describes "moonpad.ArtifactVersion"
local SAVE_FIELDS = NAME_FIELDS:with { { "part", checkPart, required = true, alias = "artifact" } }
  :describes "moonpad.ArtifactToSave"

-- What names a file, as stores want it: appName, userId, sessionId (nil: the user's files),
-- filename.
local function nameIn(read, where)
  local filename = read.filename
  if isOfUser(filename) then return read.appName, read.userId, nil, filename end
  if read.sessionId == nil then
    refuse(where, ('sessionId is missing ("%s" is a file of a session; those of a user begin with "user:")')
      :format(filename))
  end
  return read.appName, read.userId, stores.sessionId(read.sessionId, where .. ": sessionId"), filename
end

---- Methods

---Saves a new version of a file.
---@param options moonpad.ArtifactToSave
---@return integer version from 0
function Service:save(options)
  local where = "artifacts:save"
  local read = stores.take(self, where, options, SAVE_FIELDS)
  local appName, userId, sessionId, filename = nameIn(read, where)
  local inline = read.part.inlineData or {}
  return stores.call(self, where, "save", appName, userId, sessionId, filename, read.part.text, inline.data,
    inline.mimeType, inline.displayName)
end

---Loads a file.
---@param options moonpad.ArtifactVersion
---@return moonpad.ArtifactPart? part a copy; nil when there is no such file, or no such version
function Service:load(options)
  local where = "artifacts:load"
  local read = stores.take(self, where, options, LOAD_FIELDS)
  local appName, userId, sessionId, filename = nameIn(read, where)
  local part = stores.call(self, where, "load", appName, userId, sessionId, filename, read.version)
  if part and part.inlineData then inlineData.markBytes(part.inlineData) end
  return part
end

---The names of the files of a session and of its user, sorted; without `sessionId`, of the
---user alone.
---@param options moonpad.ArtifactScope
---@return string[]
function Service:list(options)
  local where = "artifacts:list"
  local read = stores.take(self, where, options, SCOPE_FIELDS)
  local sessionId = read.sessionId ~= nil and stores.sessionId(read.sessionId, where .. ": sessionId") or nil
  return stores.call(self, where, "list", read.appName, read.userId, sessionId)
end

---The versions of a file, ascending; empty when there is no such file.
---@param options moonpad.ArtifactName
---@return integer[]
function Service:versions(options)
  local where = "artifacts:versions"
  return stores.call(self, where, "versions", nameIn(stores.take(self, where, options, NAME_FIELDS), where))
end

---Deletes a file with all its versions.
---@param options moonpad.ArtifactName
---@return boolean existed
function Service:delete(options)
  local where = "artifacts:delete"
  return stores.call(self, where, "delete", nameIn(stores.take(self, where, options, NAME_FIELDS), where))
end

---Deletes all files of a user, those of the user's sessions included.
---@param options { appName: string, userId: string }
---@return integer files how many there were
function Service:deleteUser(options)
  local where = "artifacts:deleteUser"
  local read = stores.take(self, where, options, stores.USER)
  return stores.call(self, where, "deleteUser", read.appName, read.userId)
end

---Frees the files that have expired (`artifactTtlSeconds`), in small transactions.
---@return integer files how many there were
function Service:sweep(...)
  return stores.sweep(self, "artifacts:sweep", ...)
end

---ADK's names of these methods.
Service.saveArtifact, Service.loadArtifact, Service.deleteArtifact = Service.save, Service.load, Service.delete
Service.listArtifactKeys, Service.listVersions = Service.list, Service.versions

---Closes the service; closing twice is no error.
function Service:close()
  stores.close(self, "artifacts:close")
end

function Service:__close()
  stores.close(self, "artifacts:close")
end

fields.refuseNearMisses(Service, "artifacts")

---Opens an artifact service: `memory:`, `sqlite:PATH`, which may be the file that the sessions
---are in, or the URL of a server.
---@param url string
---@param config moonpad.ArtifactServiceConfig?
---@return moonpad.ArtifactService
function artifacts.open(url, config)
  return stores.open("artifactService", "artifacts", Service, url, config, "artifactTtlSeconds")
end

return artifacts
