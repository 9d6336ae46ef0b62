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

-- Streamed text is written as it comes, so there may be a line that has no end yet.
---@return boolean hasEnded is there certainly no such line now?
function Printer:endLine()
  local hadSign = self:hideSign()
  if not self.inLine then return hadSign end
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

-- Those that run still: calls without an answer, save of long-running tools.
function Printer:noteTools(event)
  local isLong = {}
  for _, id in ipairs(event.longRunningToolIds or {}) do isLong[id] = true end
  for _, call in ipairs(event:functionCalls()) do
    if call.id ~= nil and not isLong[call.id] then self.running[call.id] = errorText.show(call.name) end
  end
  for _, response in ipairs(event:functionResponses()) do
    if response.id ~= nil then self.running[response.id] = nil end
  end
end

local function activity(printer)
  local names = {}
  for _, name in pairs(printer.running) do names[#names + 1] = name end
  if #names == 0 then return printer.speaker .. " is thinking" end
  table.sort(names)
  return table.concat(names, ", ") .. (#names == 1 and " is running" or " are running")
end

local function signText(printer)
  local retry = http.retries()[1]
  if retry then
    return ("%s; asking again in %d s (attempt %d)"):format(retry.reason, math.ceil(retry.seconds), retry.attempt)
  end
  return ("%s %s"):format(activity(printer), ("."):rep(1 + math.floor(moonpad.clock() * 2) % 3))
end

---Called while there is nothing new.
function Printer:wait()
  if not screen.canMove or not self.showsDetails or self.inLine then return end
  if moonpad.clock() - self.lastShown < QUIET_SECONDS then return end
  screen.clearLine()
  screen.writeLine(screen.styled("dim", shown.cut(shown.escaped(errorText.valid(signText(self))))))
  self.hasSign = true
end

---@return boolean wasThere
function Printer:hideSign()
  self.lastShown = moonpad.clock()
  if not self.hasSign then return false end
  screen.clearLine()
  self.hasSign = false
  return true
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

-- Branches of a parallelAgent stream their answers at the same time. The one that began is shown
-- as it comes; what the others say waits for its end, and is shown whole then.
local function streamOf(event)
  return ("%s %s"):format(event.branch or "", event.author)
end

function Printer:showPartial(event, text)
  local stream = streamOf(event)
  if not self.stream and not self.missed[stream] then self.stream = stream end
  if self.stream ~= stream then
    self.missed[stream] = true
    return
  end
  self.streamed[#self.streamed + 1] = text
  self:say(event.author, text)
end

function Printer:showWhole(event)
  local text = event:text()
  -- A callback may have changed what was streamed.
  if text ~= "" and text ~= table.concat(self.streamed) then
    self:endLine()
    self:say(event.author, text)
  end
  self:endLine()
  self.stream, self.streamed = nil, {}
  self:showCalls(event)
  self:showResponses(event)
  self.speaker = event.author
  if event.actions.transferToAgent then
    self.speaker = event.actions.transferToAgent
    self:detail("dim", "the conversation goes to %s", self.speaker)
  end
  io.stdout:flush()
end

function Printer:showHeld()
  local held = self.held
  self.held = {}
  for _, event in ipairs(held) do self:showWhole(event) end
end

---@param event moonpad.Event
function Printer:show(event)
  local text = event:text()
  if event.partial then
    if text ~= "" then self:showPartial(event, text) end
    return
  end
  self:noteTools(event)
  self.missed[streamOf(event)] = nil
  if self.stream and self.stream ~= streamOf(event) then
    self.held[#self.held + 1] = event
  else
    self:showWhole(event)
    self:showHeld()
  end
  raiseErrorOf(event)
end

---Shows at the end of a turn what has not been shown yet.
---@return boolean hasEnded as of `endLine`
function Printer:finish()
  local hasEnded = self:endLine()
  self.stream = nil
  self:showHeld()
  return hasEnded
end

---- Events as JSON

local JsonPrinter = { wait = function() end, finish = function() return false end }
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
    lastShown = moonpad.clock(), hasSign = false, running = {},
    -- What is being streamed, the streams of which not all was shown, and the events that wait.
    stream = nil, streamed = {}, missed = {}, held = {},
  }, Printer)
end

return printer
