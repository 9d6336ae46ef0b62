--- A conversation on standard input and output: messages are answered as the text comes, lines that begin with / are
--- commands, Ctrl-C cancels the turn and keeps the session.
local cli = require "moonpad.cli_core"
local commands = require "moonpad.cli.commands"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local STDIN <const> = 0
-- How long to wait for a model before looking whether Ctrl-C was pressed; a signal ends the wait at once.
local PATIENCE <const> = 0.25

local Conversation = {}
Conversation.__index = Conversation

---- Showing

local function printEvent(event)
  print(moonpad.json.encode(event))
end

-- A tool's error is told to the model, which may keep it to itself: often it is an answer as good as any, and no fault.
local function tellToolErrors(event)
  local errors = type(event.customMetadata) == "table" and event.customMetadata.toolErrors
  if type(errors) ~= "table" then return end
  for _, response in ipairs(event:functionResponses()) do
    local text = errors[response.id]
    if type(text) == "string" then io.stderr:write(("(tool %s failed: %s)\n"):format(response.name, text)) end
  end
end

-- Shows the answers of a turn. Streamed text is written as it comes, so there may be a line that has no end yet.
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
    if event.errorCode then failure.raise("%s: %s", event.errorCode, event.errorMessage or "no message") end
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
    local event = invocation:wait(PATIENCE)
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

---Runs one message to its end.
---@param message string
---@return "done"|"cancelled"
function Conversation:answer(message)
  local invocation <close> = self.runner:start {
    userId = self.userId, sessionId = self.sessionId, newMessage = message,
  }
  cli.catchInterrupts()
  cli.interrupted() -- what was pressed before this turn is not meant for it
  -- The traceback of an error is kept for --debug.
  local show, endLine = newPrinter(self.options.debug)
  local ok, result = pcall(follow, invocation, self.options.events and printEvent or show)
  local hasEnded = endLine()
  if not ok then
    self.options.traceback = invocation.traceback
    error(result, 0)
  end
  if result == "cancelled" then io.stderr:write(hasEnded and "" or "\n", "(cancelled)\n") end
  return result
end

---- Many turns

-- The next line; nil at the end. Ctrl-C at the prompt gives a new prompt; where there is none, it ends the wait for
-- input.
function Conversation:read()
  if not self.isTerminal then return io.read "l" end
  repeat
    io.stdout:write("> "):flush()
    local isThere = cli.waitForInput(STDIN)
    if not isThere then io.stdout:write "\n" end
  until isThere
  return io.read "l"
end

-- Where a human types, an error ends the turn and not the conversation.
function Conversation:turn(line)
  if line:sub(1, 1) == "/" then return commands.run(self, line) end
  if not self.isTerminal then return self:answer(line) end
  local ok, err = pcall(self.answer, self, line)
  if not ok then io.stderr:write(failure.line(err), "\n") end
end

---Answers the lines of standard input until it ends or the user says /quit.
---@return "done"|"cancelled"
function Conversation:answerLines()
  self.isTerminal = cli.isTerminal(STDIN)
  cli.catchInterrupts()
  if self.isTerminal then print(commands.HINT) end
  for line in function() return self:read() end do
    if line:find "%S" and self:turn(line) == "quit" then return "done" end
    io.stdout:flush()
  end
  if self.isTerminal then print() end
  return cli.interrupted() and "cancelled" or "done"
end

local conversation = {}

---@param fields table service, runner, appName, userId, sessionId, and the options of the command line
function conversation.new(fields)
  return setmetatable(fields, Conversation)
end

return conversation
