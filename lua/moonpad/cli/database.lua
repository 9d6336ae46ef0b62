--- Where the command keeps state.
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local database = {}

local function quote(text)
  return "'" .. text:gsub("'", [['\'']]) .. "'"
end

local function dataFolder()
  local data = os.getenv "XDG_DATA_HOME"
  -- The XDG Base Directory Specification: "relative paths must be ignored".
  if data and data:sub(1, 1) == "/" then return data .. "/moonpad" end
  local home = os.getenv "HOME"
  if not home or home == "" then failure.raise "neither XDG_DATA_HOME nor HOME is set; say --db FILE" end
  return home .. "/.local/share/moonpad"
end

-- An application may have any name, its file may not.
local function defaultPath(app)
  return ("%s/%s.db"):format(dataFolder(), (app:gsub("[^%w._-]", "_"):gsub("^%.", "_")))
end

local NO_SUCH_FILE = 2 -- ENOENT

-- SQLite takes an empty file for a new database, and would write into it.
local function checkFile(path)
  local file, reason, code = io.open(path, "rb")
  if not file and code == NO_SUCH_FILE then failure.raise("there is no file %s", path) end
  -- The reason names the file.
  if not file then failure.raise("the file cannot be read: %s", reason) end
  local size = file:seek "end"
  file:close()
  if size == 0 then failure.raise("%s is empty: nothing has been stored there", path) end
end

---The address of an application's file for runs. Its folder is created when it is missing.
---@param options table of the command line
---@param app string
---@return string url
function database.url(options, app)
  if options.db then return "sqlite:" .. options.db end
  local path = defaultPath(app)
  local folder = path:match "^(.*)/"
  if not os.execute("mkdir -p -- " .. quote(folder) .. " 2>/dev/null") then
    failure.raise("the folder %s cannot be created; say --db FILE", folder)
  end
  return "sqlite:" .. path
end

---Opens a file that must be there.
---@param options table of the command line
---@return moonpad.Service
function database.openExisting(options)
  local path = options.db or defaultPath(options.app)
  checkFile(path)
  return moonpad.open("sqlite:" .. path)
end

---@param options table of the command line
---@return string
function database.user(options)
  local user = options.user or os.getenv "USER"
  return user and user ~= "" and user or "user"
end

return database
