---@meta moonpad.agent_stores_core

-- The stores of artifacts and memories (lua/moonpad/services/artifacts.lua and memory.lua are what
-- people use). Arguments have been checked before. Every call that fails gives nil, a message and
-- an error code. Where a coroutine is stepped (core.stepWith), a call on a file yields
-- core.ASKS_STORE until it is done; resumed with core.CANCEL, it raises `cancelled`.

local agent_stores_core = {}

---@class moonpad.ArtifactStore: userdata
local ArtifactStore = {}

function ArtifactStore:close() end

---@param appName string
---@param userId string
---@param sessionId string? nil: of the user
---@param filename string
---@param text string?
---@param data string?
---@param mimeType string?
---@param displayName string?
---@return integer? version
---@return string? message
---@return moonpad.ErrorCode? code
function ArtifactStore:save(appName, userId, sessionId, filename, text, data, mimeType, displayName) end

---@param appName string
---@param userId string
---@param sessionId string?
---@param filename string
---@param version? integer
---@return moonpad.ArtifactPart? part nil without a code: there is none
---@return string? message
---@return moonpad.ErrorCode? code
function ArtifactStore:load(appName, userId, sessionId, filename, version) end

---@param appName string
---@param userId string
---@param sessionId string?
---@return string[]?
---@return string? message
---@return moonpad.ErrorCode? code
function ArtifactStore:list(appName, userId, sessionId) end

---@param appName string
---@param userId string
---@param sessionId string?
---@param filename string
---@return integer[]?
---@return string? message
---@return moonpad.ErrorCode? code
function ArtifactStore:versions(appName, userId, sessionId, filename) end

---@param appName string
---@param userId string
---@param sessionId string?
---@param filename string
---@return boolean? existed
---@return string? message
---@return moonpad.ErrorCode? code
function ArtifactStore:delete(appName, userId, sessionId, filename) end

---@param appName string
---@param userId string
---@return integer? files how many there were
---@return string? message
---@return moonpad.ErrorCode? code
function ArtifactStore:deleteUser(appName, userId) end

---@return integer? files that had expired
---@return string? message
---@return moonpad.ErrorCode? code
function ArtifactStore:sweep() end

---The files of everybody behind this one, which is four empty names at first.
---@param appName string
---@param userId string
---@param sessionId string ""; of the user
---@param filename string
---@param limit integer
---@return { appName: string, userId: string, sessionId: string, filename: string, versions: integer }[]?
---@return string? message
---@return moonpad.ErrorCode? code
function ArtifactStore:files(appName, userId, sessionId, filename, limit) end

---@class moonpad.MemoryStore: userdata
local MemoryStore = {}

function MemoryStore:close() end

---@param appName string
---@param userId string
---@param sessionId string
---@param createTime number
---@return integer? revision up to which every event has been looked at
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:indexed(appName, userId, sessionId, createTime) end

---@param appName string
---@param userId string
---@param sessionId string
---@param createTime number
---@param added { revision: integer, timestamp: number, author: string, content: string, text: string }[]
---@param removed integer[] revisions
---@param indexed? integer
---@return true?
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:write(appName, userId, sessionId, createTime, added, removed, indexed) end

---@param appName string
---@param userId string
---@param phrases string[]
---@param limit integer
---@return { id: string, sessionId: string, author: string, timestamp: number, content: string }[]?
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:search(appName, userId, phrases, limit) end

---@param appName string
---@param userId string
---@param id string
---@return boolean? existed
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:delete(appName, userId, id) end

---@param appName string
---@param userId string
---@param sessionId? string nil: of all sessions
---@return integer? memories how many there were
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:deleteAll(appName, userId, sessionId) end

---@return integer? memories that had expired
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:sweep() end

---The sessions of everybody behind this one, which is three empty names at first.
---@param appName string
---@param userId string
---@param sessionId string
---@param createTime number
---@param limit integer
---@return { appName: string, userId: string, sessionId: string, createTime: number, indexed: integer }[]?
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:sessions(appName, userId, sessionId, createTime, limit) end

---What a session said behind a revision; content "": it was deleted by its id.
---@param appName string
---@param userId string
---@param sessionId string
---@param createTime number
---@param after integer
---@param limit integer
---@return { revision: integer, timestamp: number, author: string, content: string }[]?
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:entries(appName, userId, sessionId, createTime, after, limit) end

---Writes what searches look at anew, so that no word of what was deleted is left in it.
---@return true?
---@return string? message
---@return moonpad.ErrorCode? code
function MemoryStore:rebuildIndex() end

---@param url string
---@param config moonpad.StoreConfig
---@param opener lightuserdata? of a server's store, from its module
---@return moonpad.ArtifactStore?
---@return string? message
---@return moonpad.ErrorCode? code
function agent_stores_core.artifacts(url, config, opener) end

---@param url string
---@param config moonpad.StoreConfig
---@param opener lightuserdata? of a server's store, from its module
---@return moonpad.MemoryStore?
---@return string? message
---@return moonpad.ErrorCode? code
function agent_stores_core.memories(url, config, opener) end

return agent_stores_core
