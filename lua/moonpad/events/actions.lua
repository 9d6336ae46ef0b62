--- The actions of an event, and how those of several writers become one.
---
--- What may be written to `context.actions`: as in any event unknown fields are kept, but not those
--- that are nearly known, nor values that no event can carry. Checked where it is written, so that
--- the one who wrote it gets the error.
local arrays = require "moonpad.util.array"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local luaError = require "moonpad.util.lua_error"

---What an event does. Fields that moonpad does not know are kept.
---@class moonpad.Actions
---@field stateDelta table<string, moonpad.Value>? changes of state; `moonpad.removed` deletes a key
---@field artifactDelta table<string, integer>? files that were saved, with their versions
---@field transferToAgent string? the agent that goes on
---@field escalate boolean? leaves the enclosing loop
---@field skipSummarization boolean? the result of a tool is the answer: the model is not asked again
---@field compaction table? of a summary
---@field rewindBeforeInvocationId string? of a rewind: to before this invocation
---@field rewindToRevision integer? of a rewind: to after this revision
---@field requestedAuthConfigs table?
---@field requestedToolConfirmations table?

local actions = {}

local function isObject(value)
  return type(value) == "table" and rawlen(value) == 0 and not arrays.isMarked(value)
end

local function isOfType(name)
  return function(value) return type(value) == name end
end

local BOOLEAN = { what = "boolean", is = isOfType "boolean" }
local STRING = { what = "string", is = isOfType "string" }
local INTEGER = { what = "integer", is = function(value) return math.type(value) == "integer" end }
local OBJECT = { what = "table with names as keys", is = isObject }

local KNOWN = {
  skipSummarization = BOOLEAN, escalate = BOOLEAN, transferToAgent = STRING, rewindBeforeInvocationId = STRING,
  rewindToRevision = INTEGER, artifactDelta = OBJECT, stateDelta = OBJECT, compaction = OBJECT,
  requestedAuthConfigs = OBJECT, requestedToolConfirmations = OBJECT,
}

local function plain(name)
  return (name:gsub("_", ""):lower())
end

local byPlainName, names = {}, {}
for name in pairs(KNOWN) do byPlainName[plain(name)] = name end
for name in pairs(KNOWN) do names[#names + 1] = name end
table.sort(names)

local function refuse(key, message)
  core.error("invalid_argument", ("context.actions.%s: %s"):format(errorText.show(key), message))
end

---Refuses a name that is nearly one that is known.
---@param key string
function actions.checkName(key)
  local meant = byPlainName[plain(key)]
  if KNOWN[key] or not meant then return end
  refuse(key, ("unknown field, did you mean %s? Known are %s"):format(meant, table.concat(names, ", ")))
end

---@param key any
---@param value any
---@param session moonpad.Session? whose events it is for
function actions.check(key, value, session)
  if type(key) ~= "string" then refuse(key, "a name is a string, not a " .. type(key)) end
  actions.checkName(key)
  local known = KNOWN[key]
  if value == nil then return end
  if known and not known.is(value) then
    refuse(key, ("expected a %s, got %s"):format(known.what, type(value)))
  end
  -- goes to the state, which checks it, and may hold moonpad.removed
  if key == "stateDelta" then return end
  local ok, err = pcall(core.encodeWithin, value, session)
  if ok then return end
  luaError.passOn(err)
  refuse(key, core.isError(err) and err.message or tostring(err))
end

---- Merging

-- Whose entries belong to different things: files, calls.
local BY_NAME = { artifactDelta = true, requestedAuthConfigs = true, requestedToolConfirmations = true }

local function isOlder(version, than)
  return type(version) == "number" and type(than) == "number" and version < than
end

-- The later entry of a name counts; of a file the higher version.
local function mergeEntries(first, second)
  local merged = {}
  for name, entry in pairs(first) do merged[name] = entry end
  for name, entry in pairs(second) do
    if not isOlder(entry, merged[name]) then merged[name] = entry end
  end
  return merged
end

---The actions of two writers, of which the second counts where both say something else.
---@param first table?
---@param second table?
---@return table merged a new table
function actions.merge(first, second)
  local merged = {}
  for name, value in pairs(first or {}) do merged[name] = value end
  for name, value in pairs(second or {}) do
    local there = merged[name]
    local isBoth = BY_NAME[name] and type(there) == "table" and type(value) == "table"
    merged[name] = isBoth and mergeEntries(there, value) or value
  end
  return merged
end

---Checks everything that was written: a table may have been changed after it was assigned.
---@param written table
---@param session moonpad.Session?
function actions.checkAll(written, session)
  for key, value in pairs(written) do actions.check(key, value, session) end
end

return actions
