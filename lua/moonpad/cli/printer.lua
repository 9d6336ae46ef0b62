--- Shows the events of a turn as they come. At a terminal: who speaks, which tools run, and a sign
--- of life while there is nothing to show. Into a file or a pipe: the texts of the answers alone.
local confirmation = require "moonpad.flow.confirmation"
local errorText = require "moonpad.util.error_text"
local failure = require "moonpad.cli.failure"
local http = require "moonpad.http"
local moonpad = require "moonpad"
local screen = require "moonpad.cli.screen"
local shown = require "moonpad.util.shown"

-- So long there is no sign of life: most answers are quicker.
local QUIET_SECONDS <const> = 0.4

local Printer = {}
Printer.__index = Printer

---- Lines

-- Answers whether there was a line to end. Streamed text is written as it comes, so there may be
-- one that has no end yet.
function Printer:endLine()
  self:hideSign()
  if not self.inLine then return false end
  io.stdout:write("\n"):flush()
  self.inLine = false
  return true
end

function Printer:detail(style, format, ...)
  if not self.showsDetails then return end
  self:endLine()
  print(screen.styled(style, "  " .. shown.escaped(errorText.valid(format:format(...)))))
end

-- Text of an agent; its name stands in front of the first line.
function Printer:say(author, text)
  self:hideSign()
  if self.showsDetails and not self.inLine then
    io.stdout:write(screen.styled("bold", shown.escaped(author) .. ":"), " ")
  end
  io.stdout:write(screen.text(text)):flush()
  self.inLine = true
end

---- A sign of life

local function signText(printer)
  local retry = http.retries()[1]
  if retry then
    return ("%s; asking again in %d s (attempt %d)"):format(retry.reason, math.ceil(retry.seconds), retry.attempt)
  end
  return ("%s is thinking %s"):format(printer.speaker, ("."):rep(1 + math.floor(moonpad.clock() * 2) % 3))
end

---Called while there is nothing new.
function Printer:wait()
  if not screen.canMove or not self.showsDetails or self.inLine then return end
  if moonpad.clock() - self.lastShown < QUIET_SECONDS then return end
  screen.clearLine()
  io.stdout:write(screen.styled("dim", shown.cut(shown.escaped(errorText.valid(signText(self)))))):flush()
  self.hasSign = true
end

function Printer:hideSign()
  self.lastShown = moonpad.clock()
  if not self.hasSign then return end
  screen.clearLine()
  self.hasSign = false
end

---- Events

local function brief(value)
  return shown.cut(shown.json(value))
end

function Printer:showCalls(event)
  for _, call in ipairs(event:functionCalls()) do
    -- What it asks is told at the end of the turn.
    if call.name ~= confirmation.REQUEST_NAME then
      self:detail("dim", "> %s %s", errorText.show(call.name), brief(call.args or {}))
    end
  end
end

-- A tool's error is told to the model, which may keep it to itself.
function Printer:showResponses(event)
  local tracebacks = type(event.customMetadata) == "table" and event.customMetadata.toolErrors
  for _, response in ipairs(event:functionResponses()) do
    local traceback = type(tracebacks) == "table" and tracebacks[response.id]
    if traceback and self.debugs then
      self:endLine()
      local text = ("(tool %s failed: %s)"):format(errorText.show(response.name), errorText.show(traceback))
      io.stderr:write(screen.text(text, screen.isErr), "\n")
    else
      self:detail(traceback and "red" or "dim", "< %s %s", errorText.show(response.name), brief(response.response))
    end
  end
end

local function raiseErrorOf(event)
  if event.errorCode then failure.raise("%s: %s", event.errorCode, event.errorMessage or "no message") end
end

---@param event moonpad.Event
function Printer:show(event)
  local text = event:text()
  if event.partial then
    if text ~= "" then self:say(event.author, text) end
    return
  end
  -- What was streamed has been shown.
  if not self.inLine and text ~= "" then self:say(event.author, text) end
  self:endLine()
  self:showCalls(event)
  self:showResponses(event)
  if event.actions.transferToAgent then
    self.speaker = event.actions.transferToAgent
    self:detail("dim", "the conversation goes to %s", self.speaker)
  end
  io.stdout:flush()
  raiseErrorOf(event)
end

---- Events as JSON

local JsonPrinter = { wait = function() end, endLine = function() return false end }
JsonPrinter.__index = JsonPrinter

-- Whoever reads the lines gets each as it comes.
function JsonPrinter:show(event)
  if event.partial and not self.showsPartial then return end
  io.stdout:write(moonpad.json.encode(event), "\n"):flush()
  raiseErrorOf(event)
end

local printer = {}

---@param options table of the command line
---@param speaker string the name of the agent that is asked
---@return table
function printer.new(options, speaker)
  if options.events or options.json then return setmetatable({ showsPartial = options.events }, JsonPrinter) end
  return setmetatable({
    speaker = speaker, showsDetails = screen.isOut or options.verbose, debugs = options.debug, inLine = false,
    lastShown = moonpad.clock(), hasSign = false,
  }, Printer)
end

return printer
