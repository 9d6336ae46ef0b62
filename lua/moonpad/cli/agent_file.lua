--- The Lua file that says which agent to run: it returns an agent, what a runner takes, or
--- a runner.
local agents = require "moonpad.agents.base"
local cli = require "moonpad.cli_core"
local core = require "moonpad.core"
local failure = require "moonpad.cli.failure"
local paths = require "moonpad.util.paths"
local runners = require "moonpad.runtime.runner"

local agentFile = {}

---@class moonpad.cli.AgentFile
---@field agent moonpad.Agent
---@field definition table what a runner takes; without services, the command opens its own
---@field runner moonpad.Runner? that the file has made, with its services

local NO_SUCH_FILE <const> = 2 -- ENOENT

local function readFile(path)
  local file <close>, reason, code = core.openFile(path, "rb")
  if not file and code == NO_SUCH_FILE then failure.raise('there is no agent file "%s"', path) end
  -- The reason names the file.
  if not file then failure.raise("the agent file cannot be read: %s", reason) end
  return file:read "a" or failure.raise("%s: is not a file that can be read", path)
end

-- The file of a folder is its agent.lua.
local function pathOf(path)
  if not cli.isFolder(path) then return path end
  local inside = path:gsub("/*$", "/agent.lua")
  local file <close> = core.openFile(inside, "rb")
  if not file then failure.raise("%s: is a folder, and there is no agent.lua in it", path) end
  return inside
end

-- A module that is not found is told in one line: Lua names each place it has looked at.
local function withoutPlaces(text, folder)
  return (text:gsub("module '([^']*)' not found:.*", function(name)
    return ("module '%s' not found; modules beside the agent are looked for in %s, others by LUA_PATH and LUA_CPATH")
      :format(name, folder)
  end))
end

-- `return moonpad.agent { ... }` is a tail call: an error in it does not know the line any more, so
-- the file is told.
local function textIn(path, folder, err)
  local text = withoutPlaces(failure.text(err), folder)
  return text:find(path:match "[^/]*$" .. ":", 1, true) and text or ("%s: %s"):format(path, text)
end

-- Lua itself would take the folder for text of the system's code page.
local function searcherIn(folder)
  return function(name)
    name = name:gsub("%.", "/")
    for _, pattern in ipairs { "%s/%s.lua", "%s/%s/init.lua" } do
      local path = pattern:format(folder, name)
      local file <close> = core.openFile(path, "rb")
      if file then return assert(load(file:read "a", "@" .. path)), path end
    end
    return ("\n\tno file beside the agent in '%s'"):format(folder)
  end
end

-- Modules are beside the agent's file, and may be loaded as late as in a tool.
local function addModules(folder)
  package.path = ("%s/?.lua;%s/?/init.lua;%s"):format(folder, folder, package.path)
  package.cpath = ("%s/?.%s;%s"):format(folder, paths.moduleSuffix, package.cpath)
  if paths.isWindows and folder:find "[\x80-\xFF]" then table.insert(package.searchers, searcherIn(folder)) end
end

local function run(path, options)
  local folder = path:match "^(.*)/" or "."
  -- Like lua5.4: a byte order mark and a first line for the shell are no Lua.
  local source = readFile(path):gsub("^\xEF\xBB\xBF", ""):gsub("^#[^\n]*", "")
  local chunk, problem = load(source, "@" .. path)
  if not chunk then failure.raise("%s", problem) end
  addModules(folder)
  local ok, result = xpcall(chunk, function(err)
    local text = textIn(path, folder, err)
    options.traceback = debug.traceback("moonpad: " .. text, 2)
    return text
  end, path)
  if not ok then failure.raise("%s", result) end
  return result
end

local function check(path, value)
  if agents.isAgent(value) then return { agent = value, definition = { agent = value } } end
  if runners.isRunner(value) then return { agent = value.agent, definition = {}, runner = value } end
  if type(value) == "table" and agents.isAgent(value.agent) then
    local ok, err = pcall(runners.FIELDS.checkNames, runners.FIELDS, value, path)
    if not ok then failure.raise("%s", failure.text(err)) end
    return { agent = value.agent, definition = value }
  end
  local found = value == nil and "nothing" or "a " .. type(value)
  return failure.raise("%s: must return an agent (`return moonpad.agent{ ... }`), what a runner takes "
    .. "(`return { agent = ..., plugins = ... }`) or a runner, returned %s", path, found)
end

---Runs an agent's file.
---@param options table of the command line
---@return moonpad.cli.AgentFile
function agentFile.load(options)
  local path = pathOf(paths.plain(options.agent))
  return check(path, run(path, options))
end

return agentFile
