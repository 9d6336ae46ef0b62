--- `moonpad run`: an agent on a message, or on the lines of standard input.
local agentFile = require "moonpad.cli.agent_file"
local conversation = require "moonpad.cli.conversation"
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local modelLike = require "moonpad.models.model_like"
local moonpad = require "moonpad"
local runners = require "moonpad.runtime.runner"
local trees = require "moonpad.agents.tree"

local command = {}

---- The message

local STDIN <const> = "-"

local function readMessage(path)
  local file, reason = io.stdin, nil
  if path ~= STDIN then file, reason = io.open(path, "rb") end
  if not file then failure.raise("--file: %s", reason) end
  local text, problem = file:read "a"
  if path ~= STDIN then file:close() end
  if not text then failure.raise("--file: %s cannot be read: %s", path, problem) end
  -- (A pattern that begins with the blanks would look at long ones again and again.)
  text = text:match "^.*%S"
  if not text then failure.raise("--file: %s holds no message", path == STDIN and "standard input" or path) end
  return text
end

-- The words of the command line, and the file behind them; nil where there is neither.
local function messageOf(options)
  local words, path = table.concat(options.message, " "), options.file
  if words == STDIN and not path then words, path = "", STDIN end
  if path then
    local text = readMessage(path)
    return words ~= "" and words .. "\n\n" .. text or text
  end
  if #options.message == 0 then return nil end
  -- A script whose variable is empty does not want a conversation.
  if not words:find "%S" then failure.usage "the message is empty" end
  return words
end

---- The runner

-- Agents that search no memory run with a SQLite that cannot, too.
local function openMemory(url)
  local ok, memory = pcall(moonpad.memoryService, url)
  if ok then return memory end
  if memory.code ~= "unsupported" then error(memory, 0) end
  return nil
end

local function checkModel(agent, model)
  modelLike.check(model, "--model")
  for _, one in ipairs(trees.all(agent)) do
    if one.isLlm then return end
  end
  failure.raise('--model: no agent of "%s" asks a model', agent.name)
end

-- What the file does not bring is kept in one SQLite file.
local function newRunner(options, file)
  local definition = {}
  for name, value in pairs(file.definition) do definition[name] = value end
  definition.appName = options.app or definition.appName or file.agent.name
  if definition.url then
    if options.db then failure.raise "--db: the agent's file says by its `url` where to store" end
  else
    local url = database.url(options, definition.appName)
    definition.sessionService = definition.sessionService or moonpad.open(url)
    definition.artifactService = definition.artifactService or moonpad.artifactService(url)
    definition.memoryService = definition.memoryService or openMemory(url)
  end
  return runners.new(definition, options.agent, options.model)
end

local function runnerOf(options, file)
  if options.model then checkModel(file.agent, options.model) end
  if not file.runner then return newRunner(options, file) end
  for _, name in ipairs { "db", "app", "model" } do
    if options[name] then
      failure.raise("--%s: the agent's file returns a runner, which says that itself; return what a runner takes", name)
    end
  end
  return file.runner
end

local function closeAll(runner)
  runner:close()
  for _, name in ipairs { "sessionService", "artifactService", "memoryService" } do
    if runner[name] then runner[name]:close() end
  end
end

---@param options table of the command line
---@return "done"|"cancelled"
function command.run(options)
  local message = messageOf(options)
  local runner = runnerOf(options, agentFile.load(options))
  local _ <close> = setmetatable({}, { __close = function() closeAll(runner) end })
  local talk = conversation.new {
    service = runner.sessionService, memory = runner.memoryService, runner = runner, appName = runner.appName,
    userId = database.user(options), sessionId = options.session, options = options,
  }
  if message then return talk:answer(message) end
  return talk:answerLines()
end

return command
