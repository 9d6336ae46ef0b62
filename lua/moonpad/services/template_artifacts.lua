--- Artifacts in instruction templates: `{artifact.FILE}` becomes the text of the file.
local artifactParts = require "moonpad.services.artifact_parts"
local core = require "moonpad.core"
local luaError = require "moonpad.util.lua_error"
local services = require "moonpad.services.of_context"

local templateArtifacts = {}

-- The text of an artifact; or nil, and why there is none where it is there.
local function textOf(part)
  if part == nil then return nil end
  local text, inline = artifactParts.read(part)
  if text then return text end
  if not inline then return nil, "the artifactService answered with no part that has text or inlineData" end
  if not artifactParts.isTextual(inline.mimeType) then
    return nil, ("it is %s, which has no text"):format(inline.mimeType)
  end
  if not utf8.len(inline.data) then return nil, ("it is %s, but not valid UTF-8"):format(inline.mimeType) end
  return inline.data
end

local function loadText(callbackState, file)
  if callbackState == nil or callbackState.invocationContext.artifactService == nil then
    return nil, services.advice "artifactService"
  end
  return textOf(services.findArtifact(callbackState, file))
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
---@param callbackState moonpad.CallbackState? none: there are no artifacts
---@return string
function templateArtifacts.render(template, state, options, callbackState)
  local rendered = core.render(template, state, options)
  if rendered ~= nil then return rendered end
  local texts, problems, seen = {}, {}, {}
  for _, file in ipairs(core.templateArtifacts(template, options.syntax)) do
    if not seen[file] then
      local text, problem = loadText(callbackState, file)
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

return templateArtifacts
