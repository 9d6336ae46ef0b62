--- Decoded events that outlive the run which has read them, by session. Those of the sessions that
--- were used least recently go first.
local core = require "moonpad.core"

local historyCache = {}

---What is kept of a session.
---@class moonpad.KeptHistory
---@field id integer of the session's creation
---@field cache table of its service
---@field events table<integer, table[]> in chunks, see session_history
---@field last integer the highest revision of these
---@field timesLost integer see historyCache.use
---@field beginnings table<string, integer> revisions at which invocations begin, as far as they were asked for
---@field prompts table<string, moonpad.Prompt> see contents
---@field bytes integer about what all this takes
---@field newer moonpad.KeptHistory? the one used next after it
---@field older moonpad.KeptHistory?
---@field isDropped boolean? it has made room: the run that uses it is the last one to do so

local DEFAULT_LIMIT = 64 << 20

-- The collector goes over what a weak table holds in one step. So the service object holds it.
local function cacheOf(service)
  local cache = core.historyCache(service)
  if not cache.sessions then
    cache.sessions, cache.bytes, cache.limit = {}, 0, cache.limit or DEFAULT_LIMIT
  end
  return cache
end

local function unlink(cache, kept)
  local newer, older = kept.newer, kept.older
  if newer then newer.older = older else cache.newest = older end
  if older then older.newer = newer else cache.oldest = newer end
  kept.newer, kept.older = nil, nil
end

local function linkAsNewest(cache, kept)
  kept.older = cache.newest
  if cache.newest then cache.newest.newer = kept else cache.oldest = kept end
  cache.newest = kept
end

local function drop(cache, kept)
  unlink(cache, kept)
  cache.sessions[kept.id] = nil
  cache.bytes = cache.bytes - kept.bytes
  kept.isDropped = true
end

---What is kept of a session, which is being used now. Nothing of it is used any more where the
---store has lost events since, or is likely to, because more is kept than the session has: others
---may have come in their place.
---@param service moonpad.Service
---@param id integer of the session's creation
---@param last integer the session's revision
---@param timesLost integer how often the store has been found to have lost events
---@return moonpad.KeptHistory
function historyCache.use(service, id, last, timesLost)
  local cache = cacheOf(service)
  local kept = cache.sessions[id]
  if kept and (kept.last > last or kept.timesLost ~= timesLost) then
    drop(cache, kept)
    kept = nil
  end
  if kept then
    unlink(cache, kept)
  else
    kept = {
      id = id, cache = cache, events = {}, last = 0, timesLost = timesLost, beginnings = {}, prompts = {}, bytes = 0,
    }
    cache.sessions[id] = kept
  end
  linkAsNewest(cache, kept)
  return kept
end

---Counts what has been added, and makes room for it. A session that is too large for the cache
---alone is dropped, too: then the run that uses it keeps it until it ends.
---@param kept moonpad.KeptHistory
---@param bytes integer
function historyCache.grow(kept, bytes)
  if kept.isDropped then return end
  local cache = kept.cache
  kept.bytes, cache.bytes = kept.bytes + bytes, cache.bytes + bytes
  while cache.bytes > cache.limit and cache.oldest do drop(cache, cache.oldest) end
end

return historyCache
