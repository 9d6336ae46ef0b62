--- Copying all that is in one store to another one: state of apps and users, sessions with their
--- history, artifacts, memories. What is there already must be the same; a session that was copied
--- before and has grown since is copied anew. So a copy that was interrupted is made again. What
--- was copied is read again and compared.
local core = require "moonpad.core"
local memory = require "moonpad.services.memory"
local stores = require "moonpad.services.agent_stores"

local copy = {}

-- So many are asked for at once.
local PAGE <const> = 100

-- Something else is there.
local function refuse(message, ...)
  core.error("already_exists", "copy: " .. message:format(...))
end

-- Somebody else writes at the same time.
local function overtaken(message, ...)
  core.error("conflict", "copy: " .. message:format(...))
end

local function quoted(...)
  local names = {}
  for index, name in ipairs { ... } do names[index] = ('"%s"'):format(name) end
  return table.concat(names, " of ")
end

local encode = core.json.encode

---- State

-- `calls`: how to read and to change the state in question.
local function copyState(from, to, name, calls, what)
  local given, there, missing = from[calls.get](from, name), to[calls.get](to, name), {}
  for key, value in pairs(given) do
    if there[key] == nil then
      missing[key] = value
    elseif encode(there[key]) ~= encode(value) then
      refuse("%s has another value in the key %q there; nothing of it was changed", what, key)
    end
  end
  if next(missing) == nil then return end
  name.state = missing
  to[calls.update](to, name)
  name.state = nil
  there = to[calls.get](to, name)
  for key, value in pairs(given) do
    if encode(there[key]) ~= encode(value) then overtaken("%s was changed meanwhile (key %q)", what, key) end
  end
end

local APP <const> = { get = "getAppState", update = "updateAppState" }
local USER <const> = { get = "getUserState", update = "updateUserState" }

---- Sessions

-- Of two exports of one session: "same", "older" (the second one has but the beginning of the
-- first), "other".
local function compareExports(first, second)
  local head, there = first(), second()
  local isSame = head == there
  if not isSame then
    head, there = core.json.decode(head), core.json.decode(there)
    for _, field in ipairs { "createTime", "baseRevision", "baseState" } do
      if encode(head[field]) ~= encode(there[field]) then return "other" end
    end
  end
  for line in second do
    if line ~= first() then return "other" end
  end
  local hasMore = first() ~= nil
  if isSame then return hasMore and "other" or "same" end
  return hasMore and "older" or "other"
end

local function nameOf(session)
  return { appName = session.appName, userId = session.userId, sessionId = session.id }
end

-- "there": the same was there already.
local function copySession(from, to, session)
  local name = nameOf(session)
  local there = to:getSession { appName = name.appName, userId = name.userId, sessionId = name.sessionId,
    numRecentEvents = 0 }
  if there then
    local found = compareExports(from:export(session), to:export(there))
    if found == "same" then return "there" end
    if found == "other" then
      refuse("another session %s is there already; nothing of it was changed",
        quoted(name.sessionId, name.userId, name.appName))
    end
    to:deleteSession(name)
  end
  local made = to:import { lines = from:export(session) }
  if compareExports(from:export(session), to:export(made)) ~= "same" then
    overtaken("the session %s was changed meanwhile", quoted(name.sessionId, name.userId, name.appName))
  end
  return "copied"
end

local function copySessions(from, to, who, counts)
  local after
  repeat
    local page, cursor = from:listSessions { appName = who.appName, userId = who.userId, limit = PAGE, after = after }
    for _, session in ipairs(page) do
      counts.sessions = counts.sessions + 1
      if copySession(from, to, session) == "copied" then counts.copied.sessions = counts.copied.sessions + 1 end
    end
    after = cursor
  until not after
end

local function copyApp(from, to, appName, counts)
  copyState(from, to, { appName = appName }, APP, ("the state of app %q"):format(appName))
  for _, userId in ipairs(core.listUsers(from, appName)) do
    local who = { appName = appName, userId = userId }
    counts.users = counts.users + 1
    copyState(from, to, who, USER, "the state of user " .. quoted(userId, appName))
    copySessions(from, to, who, counts)
  end
end

---- Artifacts

local function askFiles(service, method, ...)
  return stores.call(service, "artifacts:copy", method, ...)
end

local function copyVersion(from, to, file, version, isThere)
  local part = askFiles(from, "load", file[1], file[2], file[3], file[4], version)
  local what = ("version %d of the file %s"):format(version, quoted(file[4], file[2], file[1]))
  if not part then overtaken("%s was deleted meanwhile", what) end
  if not isThere then
    local inline = part.inlineData or {}
    local saved = askFiles(to, "save", file[1], file[2], file[3], file[4], part.text, inline.data, inline.mimeType,
      inline.displayName)
    if saved ~= version then overtaken("%s was saved by somebody else meanwhile", what) end
  end
  local copied = askFiles(to, "load", file[1], file[2], file[3], file[4], version) or {}
  local given, got = part.inlineData or {}, copied.inlineData or {}
  if part.text ~= copied.text or given.data ~= got.data or given.mimeType ~= got.mimeType
    or given.displayName ~= got.displayName then
    refuse("%s is another one there", what)
  end
end

local function copyFile(from, to, found, counts)
  local sessionId = found.sessionId ~= "" and found.sessionId or nil
  local file = { found.appName, found.userId, sessionId, found.filename }
  local there = #askFiles(to, "versions", file[1], file[2], file[3], file[4])
  if there > found.versions then
    refuse("the file %s has %d versions there, and %d here", quoted(found.filename, found.userId, found.appName), there,
      found.versions)
  end
  for version = 0, found.versions - 1 do copyVersion(from, to, file, version, version < there) end
  counts.files = counts.files + 1
  if there < found.versions then counts.copied.files = counts.copied.files + 1 end
end

local function copyFiles(from, to, counts)
  local after = { appName = "", userId = "", sessionId = "", filename = "" }
  repeat
    local page = askFiles(from, "files", after.appName, after.userId, after.sessionId, after.filename, PAGE)
    for _, found in ipairs(page) do copyFile(from, to, found, counts) end
    after = page[#page]
  until not after
end

---- Memories

local function askMemories(service, method, session, ...)
  return stores.call(service, "memory:copy", method, session.appName, session.userId, session.sessionId,
    session.createTime, ...)
end

local function isSame(entry, other)
  return entry.timestamp == other.timestamp and entry.author == other.author and entry.content == other.content
end

-- The entries behind a revision and up to another one (nil: all), by their revisions.
local function entriesBetween(service, session, after, last)
  local found = {}
  repeat
    local page = askMemories(service, "entries", session, after, PAGE)
    for _, entry in ipairs(page) do
      if last and entry.revision > last then return found end
      found[entry.revision] = entry
    end
    after = #page == PAGE and page[#page].revision
  until not after
  return found
end

-- What is missing there of these entries, and the revisions of what is not among them.
local function compareEntries(session, entries, there)
  local missing, removed, known = {}, {}, {}
  for _, entry in ipairs(entries) do
    local found = there[entry.revision]
    known[entry.revision] = true
    if not found then
      missing[#missing + 1] = entry
    elseif not isSame(entry, found) then
      refuse("the memory of event %d of session %s is another one there", entry.revision,
        quoted(session.sessionId, session.userId, session.appName))
    end
  end
  for revision, entry in pairs(there) do
    if not known[revision] and entry.content ~= "" then removed[#removed + 1] = revision end
  end
  return missing, removed
end

-- Without those that were deleted by their ids.
local function countSaid(entries)
  local count = 0
  for _, entry in ipairs(entries) do count = count + (entry.content ~= "" and 1 or 0) end
  return count
end

-- What is there of the session and has been forgotten since is forgotten there, too.
local function copyMemories(from, to, session, counts)
  local after = -1
  repeat
    local entries = askMemories(from, "entries", session, after, PAGE)
    local isLast = #entries < PAGE
    local last = not isLast and entries[#entries].revision or nil
    local missing, removed = compareEntries(session, entries, entriesBetween(to, session, after, last))
    for _, entry in ipairs(missing) do entry.text = memory.searchedText(entry.content) end
    if #missing + #removed > 0 or isLast then
      askMemories(to, "write", session, missing, removed, isLast and session.indexed or nil)
      local lacking, more = compareEntries(session, entries, entriesBetween(to, session, after, last))
      if #lacking + #more > 0 then
        overtaken("the memories of session %s were changed meanwhile",
          quoted(session.sessionId, session.userId, session.appName))
      end
    end
    counts.memories = counts.memories + countSaid(entries)
    counts.copied.memories = counts.copied.memories + countSaid(missing)
    after = last
  until not after
end

local function copyAllMemories(from, to, counts)
  local after = { appName = "", userId = "", sessionId = "", createTime = 0.0 }
  repeat
    local page = askMemories(from, "sessions", after, PAGE)
    for _, session in ipairs(page) do copyMemories(from, to, session, counts) end
    after = page[#page]
  until not after
end

---- All of it

---@class moonpad.CopyEnd
---@field sessions moonpad.Service
---@field artifacts moonpad.ArtifactService? nil, in what is copied: there are none
---@field memory moonpad.MemoryService? nil: memories are left out

---Copies all that is in a store. What differs there raises `already_exists`, and is left alone.
---@param from moonpad.CopyEnd
---@param to moonpad.CopyEnd
---@return { apps: integer, users: integer, sessions: integer, files: integer, memories: integer, copied: table }
function copy.all(from, to)
  local counts = { apps = 0, users = 0, sessions = 0, files = 0, memories = 0,
    copied = { sessions = 0, files = 0, memories = 0 } }
  local apps = core.listApps(from.sessions)
  table.sort(apps)
  for _, appName in ipairs(apps) do
    counts.apps = counts.apps + 1
    copyApp(from.sessions, to.sessions, appName, counts)
  end
  if from.artifacts then copyFiles(from.artifacts, to.artifacts, counts) end
  if from.memory and to.memory then copyAllMemories(from.memory, to.memory, counts) end
  return counts
end

return copy
