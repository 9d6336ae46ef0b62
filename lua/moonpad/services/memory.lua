--- Memory across sessions: what was said in the sessions of a user, to be searched.
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local events = require "moonpad.events.event"
local fields = require "moonpad.schema.fields"
local history = require "moonpad.flow.history"
local stores = require "moonpad.services.agent_stores"

local memory = {}

local DEFAULT_LIMIT = 10
local MAX_LIMIT = 1000
-- A query is words, not a document: more of them cost time and find nothing better.
local MAX_PHRASES = 64

---@class moonpad.Memory
---@field id string for `deleteMemory`
---@field content moonpad.Content what was said
---@field author string
---@field timestamp number seconds since 1970
---@field sessionId string

---@class moonpad.MemoryQuery
---@field appName string
---@field userId string
---@field query string
---@field limit integer? default 10

---@class moonpad.MemoryServiceConfig: moonpad.ServiceConfig
---@field memoryTtlSeconds number? what was said longer ago, and not found since, is gone (0: never)

---@class moonpad.MemoryService
local Service = { __name = "moonpad.memoryService" }
Service.__index = Service

---- Text

-- Chinese, Japanese and Korean are written without blanks between words: each of their characters
-- becomes a word of its own (U+3000 to U+DFFF, U+20000 and above), for otherwise a sentence would
-- be one word that nobody searches for.
local function segment(text)
  return (text:gsub("[\xE3-\xED][\x80-\xBF]+", " %0 "):gsub("\xF0[\xA0-\xBF][\x80-\xBF]+", " %0 "))
end

local function isIdeograph(word)
  local first, second = word:byte(1, 2)
  return first >= 0xE3 and first <= 0xED or first == 0xF0 and second >= 0xA0
end

-- The phrases to search for: words, and pairs of neighbours where each character is a word.
local function phrases(query)
  local list, seen = {}, {}
  local function add(phrase)
    if seen[phrase] or #list >= MAX_PHRASES then return end
    seen[phrase] = true
    list[#list + 1] = phrase
  end
  for piece in query:gmatch "[A-Za-z0-9\x80-\xFF]+" do
    local previous, isPaired
    for word in (segment(piece) .. " \0"):gmatch "%S+" do
      local ideograph = isIdeograph(word) and word or nil
      if previous and ideograph then
        add(previous .. " " .. ideograph)
      elseif previous and not isPaired then
        add(previous)
      end
      if not ideograph and word ~= "\0" then add(word) end
      previous, isPaired = ideograph, previous ~= nil
    end
  end
  return list
end

-- What an event said, or nil.
local function remembered(event)
  local parts, texts = {}, {}
  for _, part in ipairs(events.parts(event)) do
    if type(part.text) == "string" and part.text:find "%S" and not part.thought then
      parts[#parts + 1] = { text = part.text }
      texts[#texts + 1] = part.text
    end
  end
  if #parts == 0 then return nil end
  return {
    revision = event.revision, timestamp = event.timestamp, author = event.author or "",
    content = core.json.encode { role = event.content.role, parts = parts },
    text = segment(table.concat(texts, "\n")),
  }
end

---- Adding

-- So many are written at once.
local BATCH = 100

local Adding = {}
Adding.__index = Adding

function Adding:call(method, ...)
  local name = self.name
  return stores.call(self.service, "memory:addSession", method, name.appName, name.userId, name.sessionId,
    name.createTime, ...)
end

function Adding:flush(indexed)
  local added, removed = self.added, self.removed
  self.added, self.removed = {}, {}
  if #added + #removed > 0 or indexed then self:call("write", added, removed, indexed) end
end

-- Events first to last; where `kept` is given, all but those in it are forgotten. Without it, the
-- answer is false when one of them is a rewind.
function Adding:walk(list, first, last, kept)
  for index = first, last do
    local event = list:at(index)
    if kept and not kept[index] then
      self.removed[#self.removed + 1] = event.revision
    elseif history.rewindTarget(event) then
      self.added = {}
      return false
    elseif event.revision > 0 then
      self.added[#self.added + 1] = remembered(event)
    end
    if index % BATCH == 0 then self:flush() end
  end
  return true
end

local function eventsOf(session) return session.events end

local function checkSession(session)
  local where, kind = "memory:addSession", type(session)
  -- Not everything can be indexed.
  local ok, list = pcall(eventsOf, session)
  if kind ~= "userdata" and kind ~= "table" or not ok or list == nil then
    core.error("invalid_argument", where .. ": expected a session, got " .. kind)
  end
  return {
    appName = stores.name(session.appName, where .. ": appName"),
    userId = stores.name(session.userId, where .. ": userId"),
    sessionId = stores.sessionId(session.id, where .. ": id"),
    createTime = session.createTime,
  }
end

-- Is this the session of an agent that runs as a tool? It has the names of the caller's, and only
-- agents speak there.
local function isInner(session)
  local callbackState = contexts.stateOf(session)
  return callbackState ~= nil and callbackState.invocationContext.isInner
end

---Remembers what was said in a session, as far as the session object shows it. Adding it again
---adds what has come since, and forgets what has been rewound. What an agent that runs as a tool
---is told and answers is not remembered.
---@param session moonpad.Session|moonpad.SessionView
function Service:addSession(session)
  stores.self(self, "memory:addSession")
  local name = checkSession(session)
  if isInner(session) then return end
  local adding = setmetatable({ service = self, name = name, added = {}, removed = {} }, Adding)
  local list = history.ofEvents(session.events)
  local count = list:length()
  local indexed = adding:call "indexed"
  local first = list:findAfter(indexed)
  if first > count then return end
  local kept, reachesBeyond
  if not adding:walk(list, first, count) then
    kept, reachesBeyond = history.kept(list)
    adding:walk(list, 1, count, kept)
  end
  -- A session object may show a part only. What it does not show is looked at when one does.
  local last = list:at(count).revision
  local isAll = count - first + 1 == last - indexed and not reachesBeyond
  adding:flush(isAll and last or nil)
end

---ADK's name of `addSession`.
Service.addSessionToMemory = Service.addSession

---- Searching

local function checkQuery(query, where)
  if type(query) ~= "string" then
    core.error("invalid_argument", ("%s: expected a string, got %s"):format(where, type(query)))
  elseif not utf8.len(query) then
    core.error("invalid_argument", where .. ": is not valid UTF-8")
  end
end

local function checkLimit(limit, where)
  if math.type(limit) == "integer" and limit >= 1 and limit <= MAX_LIMIT then return end
  core.error("invalid_argument",
    ("%s: expected an integer from 1 to %d, got %s"):format(where, MAX_LIMIT, errorText.show(limit)))
end

local SEARCH_FIELDS = stores.USER:with {
  { "query", checkQuery, required = true },
  { "limit", checkLimit, default = DEFAULT_LIMIT },
}:describes "moonpad.MemoryQuery"

---The memories of a user that fit a query best. A query is plain text: its words are searched for,
---and the more of them are found, and the rarer they are, the better the place.
---@param options moonpad.MemoryQuery
---@return { memories: moonpad.Memory[] }
function Service:searchMemory(options)
  local where = "memory:searchMemory"
  local read = stores.take(self, where, options, SEARCH_FIELDS)
  local found = stores.call(self, where, "search", read.appName, read.userId, phrases(read.query), read.limit)
  for _, entry in ipairs(found) do entry.content = core.json.decode(entry.content) end
  return { memories = core.array(found) }
end

---- Forgetting

local MEMORY_FIELDS = stores.USER:with { { "memoryId", stores.name, required = true } }
local SESSION_FIELDS = stores.USER:with { { "sessionId", stores.sessionId, required = true } }

---Forgets one memory that a search has found. Its session may be added again: what was forgotten
---stays so.
---@param options { appName: string, userId: string, memoryId: string }
---@return boolean existed false: the user has no such memory
function Service:deleteMemory(options)
  local where = "memory:deleteMemory"
  local read = stores.take(self, where, options, MEMORY_FIELDS)
  return stores.call(self, where, "delete", read.appName, read.userId, read.memoryId)
end

---Forgets what was said in a session. If it is added once more, it is remembered from its
---beginning.
---@param options { appName: string, userId: string, sessionId: string }
---@return integer memories how many there were
function Service:deleteSession(options)
  local where = "memory:deleteSession"
  local read = stores.take(self, where, options, SESSION_FIELDS)
  return stores.call(self, where, "deleteAll", read.appName, read.userId, read.sessionId)
end

---Forgets everything that a user and agents have said in the user's sessions. A session that is
---added once more is remembered from its beginning.
---@param options { appName: string, userId: string }
---@return integer memories how many there were
function Service:deleteUser(options)
  local where = "memory:deleteUser"
  local read = stores.take(self, where, options, stores.USER)
  return stores.call(self, where, "deleteAll", read.appName, read.userId)
end

---Frees the memories that have expired (`memoryTtlSeconds`), in small transactions.
---@return integer memories how many there were
function Service:sweep(...)
  return stores.sweep(self, "memory:sweep", ...)
end

---Closes the service; closing twice is no error.
function Service:close()
  stores.close(self, "memory:close")
end

function Service:__close()
  stores.close(self, "memory:close")
end

fields.refuseNearMisses(Service, "memory")

---Writes what searches look at anew, so that no word of what was deleted is left in it.
---@param service moonpad.MemoryService
function memory.rebuildIndex(service)
  stores.call(service, "memory:rebuildIndex", "rebuildIndex")
end

---What a search looks at, of what an event said.
---@param content string JSON of the content that is kept; "" of one that was deleted
---@return string
function memory.searchedText(content)
  local texts = {}
  if content == "" then return "" end
  for index, part in ipairs(core.json.decode(content).parts) do texts[index] = part.text end
  return segment(table.concat(texts, "\n"))
end

---Opens a memory service: `memory:`, `sqlite:PATH`, which may be the file that the sessions
---are in, or the URL of a server.
---@param url string
---@param config moonpad.MemoryServiceConfig?
---@return moonpad.MemoryService
function memory.open(url, config)
  return stores.open("memoryService", "memories", Service, url, config, "memoryTtlSeconds")
end

return memory
