--- `moonpad run`: an agent on a message, or on the lines of standard input.
local conversation = require "moonpad.cli.conversation"
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local command = {}

local NO_SUCH_FILE = 2 -- ENOENT

local function readFile(path)
  local file <close>, reason, code = io.open(path, "rb")
  if not file and code == NO_SUCH_FILE then failure.raise('there is no agent file "%s"', path) end
  -- The reason names the file.
  if not file then failure.raise("the agent file cannot be read: %s", reason) end
  local source = file:read "a"
  if source then return source end
  local inside = path:gsub("/*$", "/agent.lua")
  local script <close> = io.open(inside, "rb")
  if script then failure.raise("%s: is a folder; the agent's file in it is %s", path, inside) end
  failure.raise("%s: is not a file that can be read", path)
end

-- `return moonpad.agent { ... }` is a tail call: an error in it does not know the line any more, so
-- the file is told.
local function textIn(path, err)
  local text = failure.text(err)
  return text:find(path:match "[^/]*$" .. ":", 1, true) and text or ("%s: %s"):format(path, text)
end

local function loadAgent(path, options)
  -- Like lua5.4: a byte order mark and a first line for the shell are no Lua.
  local source = readFile(path):gsub("^\xEF\xBB\xBF", ""):gsub("^#[^\n]*", "")
  local chunk, problem = load(source, "@" .. path)
  if not chunk then failure.raise("%s", problem) end
  local ok, agent = xpcall(chunk, function(err)
    local text = textIn(path, err)
    options.traceback = debug.traceback("moonpad: " .. text, 2)
    return text
  end, path)
  if not ok then failure.raise("%s", agent) end
  if not require("moonpad.agents.base").isAgent(agent) then
    local found = agent == nil and "nothing" or "a " .. type(agent)
    failure.raise("%s: must return an agent (`return moonpad.agent{ ... }`), returned %s", path, found)
  end
  return agent
end

local function setModel(agent, model)
  if not agent.isLlm then
    failure.raise('--model: "%s" is an agent that asks no model of its own, but runs others', agent.name)
  end
  agent.model = model
end

-- Agents that search no memory run with a SQLite that cannot, too.
local function openMemory(url)
  local ok, memory = pcall(moonpad.memoryService, url)
  if ok then return memory end
  if memory.code ~= "unsupported" then error(memory, 0) end
  return nil
end

---@param options table of the command line
---@return "done"|"cancelled"
function command.run(options)
  local agent = loadAgent(options.agent, options)
  if options.model then setModel(agent, options.model) end
  local app = options.app or agent.name
  local url = database.url(options, app)
  local service <close> = moonpad.open(url)
  local artifacts <close> = moonpad.artifactService(url)
  local memory <close> = openMemory(url)
  local talk = conversation.new {
    service = service,
    memory = memory,
    runner = moonpad.runner {
      appName = app, agent = agent, sessionService = service, artifactService = artifacts, memoryService = memory,
    },
    appName = app,
    userId = database.user(options),
    sessionId = options.session,
    options = options,
  }
  if #options.message > 0 then return talk:answer(table.concat(options.message, " ")) end
  return talk:answerLines()
end

return command
