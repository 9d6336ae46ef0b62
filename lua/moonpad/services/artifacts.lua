--- Artifacts: files that agents keep, with all their versions. A file belongs to a session, or with
--- the prefix `user:` to all sessions of a user.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local stores = require "moonpad.services.sqlite_tables"

local artifacts = {}

local MAX_FILENAME_BYTES = 1024
local USER_PREFIX = core.StatePrefix.USER_PREFIX

---What a file holds: text, or bytes of a mime type. The bytes are kept as they are.
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
---@field part moonpad.ArtifactPart|string

---@class moonpad.ArtifactService
local Service = { __name = "moonpad.artifactService" }
Service.__index = Service

---- Checking

local SCOPE_FIELDS = { "appName", "userId", "sessionId" }
local USER_FIELDS = { "appName", "userId" }
local NAME_FIELDS = { "appName", "userId", "sessionId", "filename" }
local LOAD_FIELDS = { "appName", "userId", "sessionId", "filename", "version" }
local SAVE_FIELDS = { "appName", "userId", "sessionId", "filename", "part" }

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

-- appName, userId, sessionId (nil: the user's files), filename.
local function checkName(self, where, options, fields)
  stores.check(self, where, options, fields)
  local appName = stores.name(options.appName, where .. ": appName")
  local userId = stores.name(options.userId, where .. ": userId")
  local filename = checkFilename(options.filename, where .. ": filename")
  if isOfUser(filename) then return appName, userId, nil, filename end
  if options.sessionId == nil then
    refuse(where, ('sessionId is missing ("%s" is a file of a session; those of a user begin with "user:")')
      :format(filename))
  end
  return appName, userId, stores.sessionId(options.sessionId, where .. ": sessionId"), filename
end

local function checkText(text, where)
  if type(text) ~= "string" then refuse(where, "expected a string, got " .. type(text)) end
  if not utf8.len(text) then refuse(where, "is not valid UTF-8; bytes go into inlineData = { mimeType, data }") end
  return text
end

local function checkInlineData(inline, where)
  if type(inline) ~= "table" then refuse(where, "expected a table { mimeType, data }, got " .. type(inline)) end
  core.checkFields(inline, where, { "mimeType", "data", "displayName" })
  if type(inline.data) ~= "string" then
    refuse(where .. ".data", "expected a string of bytes, got " .. type(inline.data))
  end
  local displayName = inline.displayName
  if displayName ~= nil then checkText(displayName, where .. ".displayName") end
  return inline.data, stores.name(inline.mimeType, where .. ".mimeType"), displayName
end

-- text, or nil and data, mimeType, displayName.
local function checkPart(part, where)
  if type(part) == "userdata" and part ~= core.null then part = core.toTable(part) end
  if type(part) == "string" then part = { text = part } end
  if type(part) ~= "table" then refuse(where, "expected { text = } or { inlineData = }, got " .. type(part)) end
  core.checkFields(part, where, { "text", "inlineData" })
  if (part.text == nil) == (part.inlineData == nil) then
    refuse(where, "expected either text or inlineData")
  elseif part.text ~= nil then
    return checkText(part.text, where .. ".text")
  end
  return nil, checkInlineData(part.inlineData, where .. ".inlineData")
end

---- Methods

---Saves a new version of a file.
---@param options moonpad.ArtifactToSave
---@return integer version from 0
function Service:save(options)
  local where = "artifacts:save"
  local appName, userId, sessionId, filename = checkName(self, where, options, SAVE_FIELDS)
  return stores.call(self, where, "save", appName, userId, sessionId, filename,
    checkPart(options.part, where .. ": part"))
end

---Loads a file.
---@param options moonpad.ArtifactVersion
---@return moonpad.ArtifactPart? part a copy; nil when there is no such file, or no such version
function Service:load(options)
  local where = "artifacts:load"
  local appName, userId, sessionId, filename = checkName(self, where, options, LOAD_FIELDS)
  local version = options.version
  if version ~= nil and (math.type(version) ~= "integer" or version < 0) then
    refuse(where .. ": version", "expected an integer from 0, got " .. errorText.show(version))
  end
  return stores.call(self, where, "load", appName, userId, sessionId, filename, version)
end

---The names of the files of a session and of its user, sorted; without `sessionId`, of the
---user alone.
---@param options moonpad.ArtifactScope
---@return string[]
function Service:list(options)
  local where = "artifacts:list"
  stores.check(self, where, options, SCOPE_FIELDS)
  local appName = stores.name(options.appName, where .. ": appName")
  local userId = stores.name(options.userId, where .. ": userId")
  local sessionId = options.sessionId ~= nil and stores.sessionId(options.sessionId, where .. ": sessionId") or nil
  return stores.call(self, where, "list", appName, userId, sessionId)
end

---The versions of a file, ascending; empty when there is no such file.
---@param options moonpad.ArtifactName
---@return integer[]
function Service:versions(options)
  local where = "artifacts:versions"
  return stores.call(self, where, "versions", checkName(self, where, options, NAME_FIELDS))
end

---Deletes a file with all its versions.
---@param options moonpad.ArtifactName
---@return boolean existed
function Service:delete(options)
  local where = "artifacts:delete"
  return stores.call(self, where, "delete", checkName(self, where, options, NAME_FIELDS))
end

---Deletes all files of a user, those of the user's sessions included.
---@param options { appName: string, userId: string }
---@return integer files how many there were
function Service:deleteUser(options)
  local where = "artifacts:deleteUser"
  stores.check(self, where, options, USER_FIELDS)
  return stores.call(self, where, "deleteUser", stores.name(options.appName, where .. ": appName"),
    stores.name(options.userId, where .. ": userId"))
end

---Closes the service; closing twice is no error.
function Service:close()
  stores.close(self, "artifacts:close")
end

function Service:__close()
  stores.close(self, "artifacts:close")
end

---Opens an artifact service: `memory:`, or `sqlite:PATH`, which may be the file that the sessions
---are in.
---@param url string
---@param config moonpad.ServiceConfig?
---@return moonpad.ArtifactService
function artifacts.open(url, config)
  return stores.open("artifactService", "artifacts", Service, url, config, "artifactTtlSeconds")
end

return artifacts
