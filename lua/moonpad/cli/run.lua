--- `moonpad run`: an agent on a message, or on the lines of standard input.
local agentFile = require "moonpad.cli.agent_file"
local agentRunner = require "moonpad.cli.agent_runner"
local conversation = require "moonpad.cli.conversation"
local core = require "moonpad.core"
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"

local command = {}

---- The message

local STDIN <const> = "-"

local function readMessage(path)
  local file, reason = io.stdin, nil
  if path ~= STDIN then file, reason = core.openFile(path, "rb") end
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

---@param options table of the command line
---@return "done"|"cancelled"
function command.run(options)
  local message = messageOf(options)
  local runner = agentRunner.open(options, agentFile.load(options), {})
  local _ <close> = setmetatable({}, { __close = function() agentRunner.close(runner) end })
  local talk = conversation.new {
    service = runner.sessionService, memory = runner.memoryService, runner = runner, appName = runner.appName,
    userId = database.user(options), sessionId = options.session, options = options,
  }
  if message then return talk:answer(message) end
  return talk:answerLines()
end

return command
