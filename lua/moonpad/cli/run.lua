--- `moonpad run`: an agent on a message, or on the lines of standard input.
local conversation = require "moonpad.cli.conversation"
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local command = {}

local function loadAgent(path)
  local file = io.open(path, "rb")
  if not file then failure.raise("there is no agent file %s", path) end
  local source = file:read "a"
  file:close()
  if not source then failure.raise("%s: is not a file that can be read", path) end
  local chunk, problem = load((source:gsub("^#[^\n]*", "")), "@" .. path)
  if not chunk then failure.raise("%s", problem) end
  local agent = chunk(path)
  if not require("moonpad.agent").isAgent(agent) then
    failure.raise("%s: must return an agent (`return moonpad.agent{ ... }`), returned a %s", path, type(agent))
  end
  return agent
end

local function setModel(agent, model)
  if not agent.isLlm then
    failure.raise('--model: "%s" is an agent that asks no model of its own, but runs others', agent.name)
  end
  agent.model = model
end

---@param options table of the command line
---@return "done"|"cancelled"
function command.run(options)
  local agent = loadAgent(options.agent)
  if options.model then setModel(agent, options.model) end
  local app = options.app or agent.name
  local url = database.url(options, app)
  local service <close> = moonpad.open(url)
  local artifacts <close> = moonpad.artifactService(url)
  local talk = conversation.new {
    service = service,
    runner = moonpad.runner { appName = app, agent = agent, sessionService = service, artifactService = artifacts },
    appName = app,
    userId = database.user(options),
    sessionId = options.session,
    options = options,
  }
  if #options.message > 0 then return talk:answer(table.concat(options.message, " ")) end
  return talk:answerLines()
end

return command
