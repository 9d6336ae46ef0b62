--- A conversation on standard input and output: messages are answered as the text comes, lines that
--- begin with / are commands, Ctrl-C cancels the turn and keeps the session.
local cli = require "moonpad.cli_core"
local commands = require "moonpad.cli.commands"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local STDIN <const>, STDOUT <const>, STDERR <const> = 0, 1, 2
-- How long to wait for a model before looking whether Ctrl-C was pressed; a signal ends the wait
-- at once.
local TIMEOUT_SECONDS <const> = 0.25

local Conversation = {}
Conversation.__index = Conversation

---- Showing

local function raiseErrorOf(event)
  if event.errorCode then failure.raise("%s: %s", event.errorCode, event.errorMessage or "no message") end
end

-- Whoever reads the lines gets each as it comes.
local function printEvent(event)
  io.stdout:write(moonpad.json.encode(event), "\n"):flush()
  raiseErrorOf(event)
end

-- A tool's error is told to the model, which may keep it to itself: often it is an answer as good
-- as any, and no fault.
local function tellToolErrors(event)
  local errors = type(event.customMetadata) == "table" and event.customMetadata.toolErrors
  if type(errors) ~= "table" then return end
  for _, response in ipairs(event:functionResponses()) do
    local text = errors[response.id]
    if type(text) == "string" then io.stderr:write(("(tool %s failed: %s)\n"):format(response.name, text)) end
  end
end

-- Shows the answers of a turn. Streamed text is written as it comes, so there may be a line that
-- has no end yet.
local function newPrinter(debugs)
  local streamed = false
  -- Answers whether there was a line to end.
  local function endLine()
    if not streamed then return false end
    io.stdout:write("\n"):flush()
    streamed = false
    return true
  end
  local function show(event)
    local text = event:text()
    if event.partial then
      streamed = streamed or text ~= ""
      io.stdout:write(text):flush()
      return
    end
    if not streamed and text ~= "" then print(text) end
    endLine()
    io.stdout:flush()
    if debugs then tellToolErrors(event) end
    raiseErrorOf(event)
  end
  return show, endLine
end

---- One turn

-- The calls that are still to be answered, by id. Those that a custom agent tells of may have none.
local function notePending(pending, event)
  local names = {}
  for _, call in ipairs(event:functionCalls()) do
    if call.id ~= nil then names[call.id] = call.name end
  end
  for _, id in ipairs(event.longRunningToolIds or {}) do pending[id] = names[id] end
  for _, response in ipairs(event:functionResponses()) do
    if response.id ~= nil then pending[response.id] = nil end
  end
end

local function tellPending(pending)
  local waits = {}
  for id, name in pairs(pending) do waits[#waits + 1] = ("%s (call %s)"):format(name, id) end
  table.sort(waits)
  if #waits > 0 then io.stderr:write(("(waiting for the answer of %s)\n"):format(table.concat(waits, ", "))) end
end

local function follow(invocation, show)
  local pending = {}
  while true do
    local event = invocation:wait(TIMEOUT_SECONDS)
    if cli.interrupted() then
      invocation:cancel()
      return "cancelled"
    elseif event == nil then
      tellPending(pending)
      return "done"
    elseif event ~= "waiting" then
      notePending(pending, event)
      show(event)
    end
  end
end

-- What has been said can be found in later sessions.
local function remember(self)
  local name = { appName = self.appName, userId = self.userId, sessionId = self.sessionId }
  local session = self.memory and self.service:getSession(name)
  if session then self.memory:addSession(session) end
end

---Runs one message to its end.
---@param message string
---@return "done"|"cancelled"
function Conversation:answer(message)
  local invocation <close> = self.runner:start {
    userId = self.userId, sessionId = self.sessionId, newMessage = message,
  }
  cli.catchInterrupts()
  -- At a terminal, what was pressed before this turn is not meant for it.
  if self.isTerminal then cli.interrupted() end
  -- The traceback of an error is kept for --debug.
  local show, endLine = newPrinter(self.options.debug)
  local ok, result = pcall(follow, invocation, self.options.events and printEvent or show)
  local hasEnded = endLine()
  if not ok then
    self.options.traceback = invocation.traceback
    error(result, 0)
  end
  if result == "cancelled" then
    -- A terminal has shown ^C, in a line that has no end yet.
    io.stderr:write((hasEnded or not cli.isTerminal(STDERR)) and "" or "\n", "(cancelled)\n")
  else
    remember(self)
  end
  return result
end

---- Many turns

-- What only a human at a terminal wants to see goes where one is shown, and into no file.
function Conversation:tell(text)
  local screen = cli.isTerminal(STDOUT) and io.stdout or cli.isTerminal(STDERR) and io.stderr
  if self.isTerminal and screen then screen:write(text):flush() end
end

-- The next line; nil at the end. Ctrl-C at the prompt gives a new prompt; where there is none, it
-- ends the wait for input.
function Conversation:read()
  if not self.isTerminal then return io.read "l" end
  repeat
    self:tell "> "
    local isThere = cli.waitForInput(STDIN)
    if not isThere then self:tell "\n" end
  until isThere
  return io.read "l"
end

-- Where a human types, an error ends the turn and not the conversation.
function Conversation:turn(line, number)
  local isCommand = line:sub(1, 1) == "/"
  if not self.isTerminal and not isCommand then return self:answer(line) end
  local ok, result = pcall(isCommand and commands.run or self.answer, self, line)
  if ok then return result end
  if not self.isTerminal then failure.raise("line %d: %s", number, failure.text(result)) end
  io.stderr:write(failure.line(result), "\n")
  return nil
end

---Answers the lines of standard input until it ends or the user says /quit.
---@return "done"|"cancelled"
function Conversation:answerLines()
  self.isTerminal = cli.isTerminal(STDIN)
  cli.catchInterrupts()
  self:tell(commands.HINT .. "\n")
  local number = 0
  for line in function() return self:read() end do
    number = number + 1
    local outcome = line:find "%S" and self:turn(line, number)
    io.stdout:flush()
    if outcome == "quit" then return "done" end
    if not self.isTerminal and (outcome == "cancelled" or cli.interrupted()) then return "cancelled" end
  end
  self:tell "\n"
  return cli.interrupted() and "cancelled" or "done"
end

local conversation = {}

---@param fields table service, memory (if any), runner, appName, userId, sessionId, and the options of the command line
function conversation.new(fields)
  return setmetatable(fields, Conversation)
end

return conversation
