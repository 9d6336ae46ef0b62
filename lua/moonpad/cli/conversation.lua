--- A conversation on standard input and output: messages are answered as the text comes, lines that
--- begin with / are commands, Ctrl-C cancels the turn and keeps the session.
local cli = require "moonpad.cli_core"
local commands = require "moonpad.cli.commands"
local failure = require "moonpad.cli.failure"
local input = require "moonpad.cli.input"
local pending = require "moonpad.cli.pending"
local printer = require "moonpad.cli.printer"
local screen = require "moonpad.cli.screen"

-- How long to wait for a model before looking whether Ctrl-C was pressed; a signal ends the wait
-- at once.
local TIMEOUT_SECONDS <const> = 0.25

local Conversation = {}
Conversation.__index = Conversation

---The session as it is stored now; nil before the first message.
---@return moonpad.Session?
function Conversation:session()
  return self.service:getSession { appName = self.appName, userId = self.userId, sessionId = self.sessionId }
end

---- One turn

local function follow(invocation, output)
  while true do
    local event = invocation:wait(TIMEOUT_SECONDS)
    if cli.interrupted() then
      invocation:cancel()
      return "cancelled"
    elseif event == nil then
      return "done"
    elseif event == "waiting" then
      output:wait()
    else
      output:show(event)
    end
  end
end

-- What has been said can be found in later sessions. Tells which calls wait for the user now.
local function finish(self)
  local session = self:session()
  if self.memory and session then self.memory:addSession(session) end
  io.stderr:write(pending.describe(pending.of(session), self.isConversation and input.isTerminal))
end

local function checkText(message)
  if type(message) ~= "string" then return end
  local _, bad = utf8.len(message)
  if bad then failure.raise("the message is not valid UTF-8 (byte %d)", bad) end
end

---Runs one message to its end.
---@param message string|moonpad.Content|moonpad.Part
---@return "done"|"cancelled"
function Conversation:answer(message)
  checkText(message)
  local invocation <close> = self.runner:start {
    userId = self.userId, sessionId = self.sessionId, newMessage = message,
  }
  cli.catchInterrupts()
  -- At a terminal, what was pressed before this turn is not meant for it.
  if self.isConversation and input.isTerminal then cli.interrupted() end
  -- The traceback of an error is kept for --debug.
  local output = printer.new(self.options, self.runner.agent.name)
  local ok, result = pcall(follow, invocation, output)
  local hasEnded = output:finish()
  if not ok then
    self.options.traceback = invocation.traceback
    error(result, 0)
  end
  if result == "cancelled" then
    -- A terminal has shown ^C, in a line that has no end yet.
    io.stderr:write((hasEnded or not screen.isErr) and "" or "\n", "(cancelled)\n")
  else
    finish(self)
  end
  return result
end

---- Many turns

-- Where a human types, an error ends the turn and not the conversation.
function Conversation:turn(line, number)
  local isCommand = line:sub(1, 1) == "/"
  self.options.traceback = nil
  local ok, result = pcall(isCommand and commands.run or self.answer, self, line)
  if ok then return result end
  if not input.isTerminal then failure.raise("line %d: %s", number, failure.text(result)) end
  local told, traceback = failure.line(result), self.options.debug and self.options.traceback
  if traceback then told = told .. "\n" .. traceback end
  io.stderr:write(screen.text(told, screen.isErr), "\n")
  return nil
end

---Answers the lines of standard input until it ends or the user says /quit.
---@return "done"|"cancelled"
function Conversation:answerLines()
  self.isConversation = true
  cli.catchInterrupts()
  input.tell("/help lists the commands, /quit ends.\n" .. pending.describe(pending.of(self:session()), true))
  local number = 0
  for line in input.read do
    number = number + 1
    local outcome = line:find "%S" and self:turn(line, number)
    io.stdout:flush()
    if outcome == "quit" then return "done" end
    if not input.isTerminal and (outcome == "cancelled" or cli.interrupted()) then return "cancelled" end
  end
  return cli.interrupted() and "cancelled" or "done"
end

local conversation = {}

---@param fields table service, memory (if any), runner, appName, userId, sessionId, and the options of the command line
function conversation.new(fields)
  return setmetatable(fields, Conversation)
end

return conversation
