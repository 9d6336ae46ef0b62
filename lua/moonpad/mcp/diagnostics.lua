--- What is known of a server for messages: its name, and what it last said on standard error. All
--- of that goes out without the secrets that the server was given.
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local redact = require "moonpad.models.redact"
local secrets = require "moonpad.models.secrets"

---@class moonpad.McpDiagnostics
---@field name string
---@field secrets table<string, boolean>
---@field redactor moonpad.Redactor of what is told of it
---@field keys table<string, boolean> of the secrets those that are surely keys
---@field answered moonpad.Redactor of what it answers
---@field lines string[] the last ones that it has said
---@field stray string? the first line since the last message that is none
---@field saidQuota moonpad.McpQuota
---@field strayQuota moonpad.McpQuota
---@field unlogged string[] what no log has been told of
---@field lastEnding string? how the last process ended
---@field known { session: moonpad.Session? } weak: whose log is told
local Diagnostics = {}
Diagnostics.__index = Diagnostics

-- So much is kept of what it says, for messages and until there is a log.
local MAX_LINE_BYTES, MAX_SAID_LINES, MAX_UNLOGGED_LINES = 1000, 5, 100

-- So much of a line stands in a message beside other things.
local MAX_STRAY_BYTES = 200

local diagnostics = {}

---For messages.
---@param number number
---@return string "1 second", "0.3 seconds"
function diagnostics.seconds(number)
  return ("%g second%s"):format(number, number == 1 and "" or "s")
end

---- How much the log is told

---@class moonpad.McpQuota
---@field most integer lines
---@field seconds number in so much time
---@field began number (core.monotonic)
---@field count integer lines since then

-- Who floods its standard error tells less; lines that are no messages are told a few times for
-- each process.
local MAX_LOGGED_LINES, MAX_LOGGED_STRAYS = 200, 5

local function newQuota(most, seconds)
  return { most = most, seconds = seconds, began = core.monotonic(), count = 0 }
end

-- Whether one line more may be told, and whether it is the first that may not.
local function take(quota)
  local now = core.monotonic()
  if now - quota.began >= quota.seconds then quota.began, quota.count = now, 0 end
  quota.count = quota.count + 1
  return quota.count <= quota.most, quota.count == quota.most + 1
end

-- Tells the log of a line, or once that there are more.
local function logWithin(self, quota, text, more)
  local isWithin, isFirstBeyond = take(quota)
  if isWithin or isFirstBeyond then self:log(isWithin and text or more) end
end

---- A server

---@param name string
---@return moonpad.McpDiagnostics
function diagnostics.new(name)
  local self = setmetatable({
    name = name, secrets = {}, redactor = redact.new {}, keys = {}, answered = redact.new {}, lines = {}, unlogged = {},
    known = setmetatable({}, { __mode = "v" }), saidQuota = newQuota(MAX_LOGGED_LINES, 1),
  }, Diagnostics)
  self:forget()
  return self
end

-- Adds words to a set. A redactor of all, where some are new.
local function withMore(set, words)
  local isNew, list = false, {}
  for _, word in ipairs(words) do
    isNew = isNew or not set[word]
    set[word] = true
  end
  for word in pairs(isNew and set or {}) do list[#list + 1] = word end
  return isNew and redact.new(list) or nil
end

---These are not to be told from now on.
---@param words string[]
function Diagnostics:keepSecret(words)
  self.redactor = withMore(self.secrets, words) or self.redactor
end

---The values of headers or variables are not to be told. What a server answers is somebody's text:
---there, only those that are surely keys are taken out.
---@param named table<string, string>
function Diagnostics:keepNamed(named)
  local values = {}
  for _, value in pairs(named) do values[#values + 1] = value end
  self:keepSecret(values)
  self.answered = withMore(self.keys, secrets.keysOf(named)) or self.answered
end

---A text of the server's, fit to be shown.
---@param text string
---@param limit integer? of bytes
---@return string
function Diagnostics:shown(text, limit)
  limit = limit or MAX_LINE_BYTES
  return redact.shorten(redact.shapes(self.redactor:text(text, limit, #text > limit)), limit)
end

local function push(list, line, most)
  list[#list + 1] = line
  if #list > most then table.remove(list, 1) end
end

local function tell(self)
  local session = self.known.session
  if not session then return end
  for _, line in ipairs(self.unlogged) do core.log(session, "tool", ("%s: %s"):format(self.name, self:shown(line))) end
  self.unlogged = {}
end

---Tells the log of the service that runs use; without one yet, as soon as there is.
---@param text string
function Diagnostics:log(text)
  push(self.unlogged, text, MAX_UNLOGGED_LINES)
  tell(self)
end

---A line of its standard error.
---@param line string
function Diagnostics:said(line)
  if not line:find "%S" then return end
  push(self.lines, line, MAX_SAID_LINES)
  logWithin(self, self.saidQuota, line,
    ("says more than %d lines a second; the rest is left out"):format(MAX_LOGGED_LINES))
end

---A line of its standard output that is no message.
---@param line string
function Diagnostics:wroteNoMessage(line)
  self.stray = self.stray or line
  logWithin(self, self.strayQuota, "wrote what is no message: " .. line,
    "writes more that is no message; it is left out")
end

---A message has come: what was before is of no interest.
function Diagnostics:wroteMessage()
  self.stray = nil
end

---What it has written in place of the message that is missing, to be added to an error.
---@return string
function Diagnostics:wroteInstead()
  return self.stray and "; it wrote what is no message: " .. self:shown(self.stray, MAX_STRAY_BYTES) or ""
end

---Takes note of whose log is to be told.
---@param context moonpad.Context?
function Diagnostics:note(context)
  local callbackState = contexts.stateOf(context)
  local session = callbackState and callbackState.invocationContext.session
  if not session then return end
  self.known.session = session
  tell(self)
end

---Another process begins.
function Diagnostics:forget()
  self.lines, self.stray, self.strayQuota = {}, nil, newQuota(MAX_LOGGED_STRAYS, math.huge)
end

---Raises an error that names the server.
---@param text string
---@param withWhatItSaid boolean? what it last said on standard error is added
function Diagnostics:fail(text, withWhatItSaid)
  text = ("%s: %s"):format(self.name, self:shown(text))
  if withWhatItSaid and #self.lines > 0 then
    local lines = {}
    for index, line in ipairs(self.lines) do lines[index] = self:shown(line) end
    text = ("%s; it said: %s"):format(text, table.concat(lines, "\n"))
  end
  core.error("tool", text)
end

return diagnostics
