--- The artifact and memory service of a runner, as contexts and templates use them.
local core = require "moonpad.core"
local luaError = require "moonpad.util.lua_error"

local services = {}

---- Checking what a runner is given: our own services, or any object with the same methods.

local NEEDED = { artifactService = { "save", "load", "list" }, memoryService = { "searchMemory" } }

local function index(value, name) return value[name] end

---The method of an object, or nil: not everything can be indexed, and strings answer with what is
---none of theirs.
---@param object any
---@param name string
---@return function?
function services.methodOf(object, name)
  local kind = type(object)
  if kind ~= "table" and kind ~= "userdata" then return nil end
  local ok, method = pcall(index, object, name)
  return ok and type(method) == "function" and method or nil
end

---@param definition table of a runner
---@param where string for messages
function services.check(definition, where)
  for field, methods in pairs(NEEDED) do
    local service = definition[field]
    for _, method in ipairs(service ~= nil and methods or {}) do
      if not services.methodOf(service, method) then
        core.error("invalid_argument", ("%s.%s: expected what moonpad.%s returns, or an object with a method %s")
          :format(where, field, field, method))
      end
    end
  end
end

---- For contexts

-- A context that belongs to no run (to test a tool) is given services without a runner.
local function find(phase, field)
  local owner = phase.invocation.runner or phase.invocation.services
  return owner and owner[field] or nil
end

local function advice(field)
  return ("the runner has no %s; give it one: moonpad.runner { %s = moonpad.%s(URL), ... }"):format(field, field, field)
end

local function need(phase, field, method)
  local service = find(phase, field)
  if service ~= nil then return service end
  core.error("unsupported", ("context:%s(...): %s"):format(method, advice(field)))
end

local function scopeOf(phase, more)
  local session = phase.invocation.session
  more.appName, more.userId, more.sessionId = session.appName, session.userId, session.id
  return more
end

---@param phase moonpad.Phase
---@param filename string
---@param part moonpad.ArtifactPart|string
---@return integer version
function services.saveArtifact(phase, filename, part)
  local service = need(phase, "artifactService", "saveArtifact")
  local version = service:save(scopeOf(phase, { filename = filename, part = part }))
  local delta = phase.actions.artifactDelta
  if type(delta) ~= "table" then
    delta = {}
    phase.actions.artifactDelta = delta
  end
  delta[filename] = version
  return version
end

---@param phase moonpad.Phase
---@param filename string
---@param version integer?
---@return moonpad.ArtifactPart?
function services.loadArtifact(phase, filename, version)
  local service = need(phase, "artifactService", "loadArtifact")
  return service:load(scopeOf(phase, { filename = filename, version = version }))
end

---@param phase moonpad.Phase
---@return string[]
function services.listArtifacts(phase)
  return need(phase, "artifactService", "listArtifacts"):list(scopeOf(phase, {}))
end

---@param phase moonpad.Phase
---@param query string
---@return { memories: moonpad.Memory[] }
function services.searchMemory(phase, query)
  local service = need(phase, "memoryService", "searchMemory")
  local session = phase.invocation.session
  return service:searchMemory { appName = session.appName, userId = session.userId, query = query }
end

---- For templates

local TEXTUAL = { "^text/", "^application/json", "^application/xml", "[+]json", "[+]xml" }

local function isTextual(mimeType)
  for _, pattern in ipairs(TEXTUAL) do
    if mimeType:lower():find(pattern) then return true end
  end
  return false
end

local function textIn(mimeType, data)
  if not isTextual(mimeType) then return nil, ("it is %s, which has no text"):format(mimeType) end
  if not utf8.len(data) then return nil, ("it is %s, but not valid UTF-8"):format(mimeType) end
  return data
end

-- The text of an artifact; or nil, and why there is none where it is there.
local function textOf(part)
  if part == nil or type(part) == "string" then return part end
  local given = type(part) == "table" and part or {}
  local data = type(given.inlineData) == "table" and given.inlineData or {}
  if type(given.text) == "string" then return given.text end
  if type(data.mimeType) == "string" and type(data.data) == "string" then return textIn(data.mimeType, data.data) end
  return nil, "the artifactService answered with no part that has text or inlineData"
end

local function loadText(phase, file)
  local service = phase and find(phase, "artifactService")
  if service == nil then return nil, advice "artifactService" end
  local ok, part = pcall(service.load, service, scopeOf(phase, { filename = file }))
  if ok then return textOf(part) end
  -- A name that no file can have is a file that is not there.
  if core.isError(part) and part.code == "invalid_argument" then return nil end
  error(part, 0)
end

local function attempt(template, state, options, texts)
  options.artifacts = texts
  return pcall(core.render, template, state, options)
end

-- Why a template could not be filled: where it was for the want of an artifact that has no text,
-- that is told instead.
local function explain(err, problems, retry)
  for _, problem in ipairs(problems) do
    local ok, next = retry(problem.file)
    if ok or tostring(next) ~= tostring(err) then
      local place = tostring(err.message):match "^(.-): there is no artifact" or ("{artifact.%s}"):format(problem.file)
      return core.newError("template", ("%s: it cannot be put into the text: %s"):format(place, problem.why))
    end
  end
  return err
end

---Fills a template, with the artifacts that it asks for.
---@param template string
---@param state moonpad.State
---@param options { syntax: string, agentName: string? }
---@param phase moonpad.Phase? none: there are no artifacts
---@return string
function services.render(template, state, options, phase)
  local rendered = core.render(template, state, options)
  if rendered ~= nil then return rendered end
  local texts, problems, seen = {}, {}, {}
  for _, file in ipairs(core.templateArtifacts(template, options.syntax)) do
    if not seen[file] then
      local text, problem = loadText(phase, file)
      texts[file], seen[file] = text, true
      if problem then problems[#problems + 1] = { file = file, why = problem } end
    end
  end
  local ok, result = attempt(template, state, options, texts)
  if ok then return result end
  luaError.passOn(result)
  error(explain(result, problems, function(file)
    texts[file] = ""
    return attempt(template, state, options, texts)
  end), 0)
end

return services
