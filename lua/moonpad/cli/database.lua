--- Where the command keeps state.
local cli = require "moonpad.cli_core"
local core = require "moonpad.core"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"
local paths = require "moonpad.util.paths"
local storeModules = require "moonpad.services.store_modules"

local database = {}

-- Where programs keep what belongs to the user, and what it is called below.
local HOME, BELOW = "HOME", "/.local/share/moonpad"
if paths.isWindows then HOME, BELOW = "LOCALAPPDATA", "/moonpad" end

local function dataFolder()
  local data = core.environment "XDG_DATA_HOME"
  -- The XDG Base Directory Specification: "relative paths must be ignored".
  if data and paths.isAbsolute(data) then return paths.plain(data) .. "/moonpad" end
  local home = core.environment(HOME)
  if not home or home == "" then failure.raise("neither XDG_DATA_HOME nor %s is set; say --db FILE", HOME) end
  return paths.plain(home) .. BELOW
end

-- An application may have any name, its file may not.
local function defaultPath(app)
  return ("%s/%s.db"):format(dataFolder(), (app:gsub("[^%w._-]", "_"):gsub("^%.", "_")))
end

local NO_SUCH_FILE <const> = 2 -- ENOENT

-- SQLite takes an empty file for a new database, and would write into it.
local function checkFile(path)
  local file, reason, code = core.openFile(path, "rb")
  if not file and code == NO_SUCH_FILE then failure.raise("there is no file %s", path) end
  -- The reason names the file.
  if not file then failure.raise("the file cannot be read: %s", reason) end
  local size = file:seek "end"
  file:close()
  if size == 0 then failure.raise("%s is empty: nothing has been stored there", path) end
end

-- `--db` takes a file or a URL. One letter before the colon is a drive of Windows.
local function isUrl(text)
  return text:find "^%a[%w+.-]+:" ~= nil
end

---A store as it may be shown: a URL without the account and its password, and without parameters,
---which may hold one, but for the schema or the prefix.
---@param db string a file or a URL
---@return string
function database.shown(db)
  if not storeModules.isServer(db) then return db end
  local where = db:match "[?&](schema=[^&#]*)" or db:match "[?&](prefix=[^&#]*)"
  local place = db:gsub("^(%a[%w+.-]*:)//.*@", "%1//"):gsub("[?#].*$", "")
  return where and ("%s?%s"):format(place, where) or place
end

---@param db string a file or a URL
---@return string url
function database.urlOf(db)
  return isUrl(db) and db or "sqlite:" .. db
end

---The address of an application's file for runs. Its folder is created when it is missing.
---@param options table of the command line
---@param app string
---@return string url
function database.url(options, app)
  if options.db then return database.urlOf(options.db) end
  local path = defaultPath(app)
  local folder = path:match "^(.*)/"
  local ok, reason = cli.makeFolders(folder)
  if not ok then failure.raise("the folder cannot be created: %s; say --db FILE", reason) end
  return "sqlite:" .. path
end

-- Of a file. After three slashes the path is relative, after four absolute.
local function pathOf(db)
  return db:match "^sqlite:///(.+)$" or db:match "^sqlite:(.+)$" or not isUrl(db) and db
end

local function refuseMemory(db, path)
  if path ~= ":memory:" and db ~= "memory:" then return end
  failure.raise("%s keeps nothing from one program to the next", db)
end

---The URL of a store that must be there.
---@param db string a file or a URL
---@return string
function database.existingUrl(db)
  local path = pathOf(db)
  if path == "" then failure.usage "the name of the file is empty" end
  refuseMemory(db, path)
  if path then checkFile(path) end
  return database.urlOf(db)
end

---The URL of a store that may have to be made.
---@param db string a file or a URL
---@return string
function database.lastingUrl(db)
  refuseMemory(db, pathOf(db))
  return database.urlOf(db)
end

---Opens the sessions of a store that must be there: on a server nothing is made.
---@param db string a file or a URL
---@param config moonpad.Config?
---@return moonpad.Service
---@return string url with which nothing is made
function database.openSessions(db, config)
  local url = database.existingUrl(db)
  if storeModules.isServer(url) and not url:find "[?&]migrate=" then
    url = ("%s%smigrate=off"):format(url, url:find("?", 1, true) and "&" or "?")
  end
  return moonpad.open(url, config), url
end

-- On a server: tables that are not there, and not to be made, hold nothing.
local function hasNoTables(err)
  return core.isError(err) and err.code == "unsupported" and err.message:find("with tables for", 1, true)
end

local function openUnless(isExcuse, open, url, config)
  local ok, service = pcall(open, url, config)
  if ok then return service end
  if isExcuse(service, url) then return nil end
  error(service, 0)
end

-- Of SQLite, where nothing else is unsupported.
local function cannotSearch(err, url)
  return core.isError(err) and err.code == "unsupported" and not storeModules.isServer(url)
end

---Opens the memories at a URL. A SQLite that cannot search text has none: then the answer is nil.
---@param url string
---@return moonpad.MemoryService?
function database.openMemory(url)
  return openUnless(cannotSearch, moonpad.memoryService, url)
end

---The artifacts at a URL that `openSessions` has given; nil where there are none.
---@param url string
---@param config moonpad.ArtifactServiceConfig?
---@return moonpad.ArtifactService?
function database.findArtifacts(url, config)
  return openUnless(hasNoTables, moonpad.artifactService, url, config)
end

---The same of memories.
---@param url string
---@param config moonpad.MemoryServiceConfig?
---@return moonpad.MemoryService?
function database.findMemory(url, config)
  local isExcuse = storeModules.isServer(url) and hasNoTables or cannotSearch
  return openUnless(isExcuse, moonpad.memoryService, url, config)
end

-- The only app in a store, where none was named.
local function onlyApp(service, db)
  local apps = core.listApps(service)
  table.sort(apps)
  if #apps == 1 then return apps[1] end
  db = database.shown(db)
  if #apps == 0 then failure.raise("%s holds no application", db) end
  return failure.raise("%s holds several applications, say --app NAME: %s", db, table.concat(apps, ", "))
end

---Opens a store that must be there, and names the application that is meant.
---@param options table of the command line
---@return moonpad.Service
---@return string app
---@return string url
function database.openExisting(options)
  if not options.db and not options.app then failure.usage "say --app NAME or --db FILE" end
  local db = options.db or defaultPath(options.app)
  local service, url = database.openSessions(db)
  if options.app then return service, options.app, url end
  local ok, app = pcall(onlyApp, service, db)
  if ok then return service, app, url end
  service:close()
  error(app, 0)
end

---The files that the command has made, with their paths, sorted.
---@return string[]
function database.files()
  local folder, list = dataFolder(), {}
  for _, name in ipairs(cli.namesIn(folder) or {}) do
    if name:find "%.db$" then list[#list + 1] = folder .. "/" .. name end
  end
  table.sort(list)
  return list
end

---@param options table of the command line
---@return string
function database.user(options)
  local user = options.user or core.environment "USER" or paths.isWindows and core.environment "USERNAME"
  return user and user ~= "" and user or "user"
end

return database
