--- The artifact and memory service of a runner, as contexts use them.
local artifactParts = require "moonpad.services.artifact_parts"
local core = require "moonpad.core"
local methodOf = require "moonpad.util.method_of"

local services = {}

---- Checking what a runner is given: our own services, or any object with the same methods.

local function needs(field, methods)
  return function(service, where)
    for _, method in ipairs(methods) do
      if not methodOf(service, method) then
        core.error("invalid_argument", ("%s: expected what moonpad.%s returns, or an object with a method %s")
          :format(where, field, method))
      end
    end
  end
end

---Raise what is no such service, as fields want it.
services.artifactService = needs("artifactService", { "save", "load", "list" })
services.memoryService = needs("memoryService", { "searchMemory" })

---- For contexts

---What to do where there is no service of a kind.
---@param field "artifactService"|"memoryService"
---@return string
function services.advice(field)
  return ("the runner has no %s; give it one: moonpad.runner { %s = moonpad.%s(URL), ... }"):format(field, field, field)
end

local function need(callbackState, field, method)
  local service = callbackState.invocationContext[field]
  if service ~= nil then return service end
  core.error("unsupported", ("context:%s(...): %s"):format(method, services.advice(field)))
end

---Adds whose artifacts are meant.
---@param callbackState moonpad.CallbackState
---@param more table
---@return table more
function services.scopeOf(callbackState, more)
  local session = callbackState.invocationContext.session
  more.appName, more.userId, more.sessionId = session.appName, session.userId, session.id
  return more
end

---@param callbackState moonpad.CallbackState
---@param filename string
---@param part moonpad.ArtifactPart|moonpad.Part|string
---@return integer version
function services.saveArtifact(callbackState, filename, part)
  local service = need(callbackState, "artifactService", "saveArtifact")
  local kept = artifactParts.forService(part, "context:saveArtifact: part")
  local version = service:save(services.scopeOf(callbackState, { filename = filename, part = kept }))
  local delta = callbackState.actions.artifactDelta
  if type(delta) ~= "table" then
    delta = {}
    callbackState.actions.artifactDelta = delta
  end
  delta[filename] = version
  return version
end

---@param callbackState moonpad.CallbackState
---@param filename string
---@param version integer?
---@return moonpad.ArtifactPart?
function services.loadArtifact(callbackState, filename, version)
  local service = need(callbackState, "artifactService", "loadArtifact")
  return service:load(services.scopeOf(callbackState, { filename = filename, version = version }))
end

---The latest version of a file that somebody else has named: a template, a model. A name that no
---file can have is a file that is not there.
---@param callbackState moonpad.CallbackState
---@param filename string
---@return moonpad.ArtifactPart?
function services.findArtifact(callbackState, filename)
  local ok, part = pcall(services.loadArtifact, callbackState, filename)
  if ok then return part end
  if core.isError(part) and part.code == "invalid_argument" then return nil end
  error(part, 0)
end

---@param callbackState moonpad.CallbackState
---@return string[]
function services.listArtifacts(callbackState)
  return need(callbackState, "artifactService", "listArtifacts"):list(services.scopeOf(callbackState, {}))
end

---@param callbackState moonpad.CallbackState
---@param query string
---@return { memories: moonpad.Memory[] }
function services.searchMemory(callbackState, query)
  local service = need(callbackState, "memoryService", "searchMemory")
  local session = callbackState.invocationContext.session
  return service:searchMemory { appName = session.appName, userId = session.userId, query = query }
end

return services
