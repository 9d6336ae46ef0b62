--- What is known of a server for messages: its name, and what it last said on standard error. All
--- of that goes out without the secrets that the server was given.
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local redact = require "moonpad.models.redact"

---@class moonpad.McpDiagnostics
---@field name string
---@field secrets table<string, boolean>
---@field redactor moonpad.Redactor
---@field lines string[] the last ones that it has said
---@field unlogged string[] what no log has been told of
---@field lastEnding string? how the last process ended
---@field known { session: moonpad.Session? } weak: whose log is told
local Diagnostics = {}
Diagnostics.__index = Diagnostics

-- So much is kept of what it says, for messages and until there is a log.
local MAX_LINE_BYTES, MAX_SAID_LINES, MAX_UNLOGGED_LINES = 1000, 5, 100

local diagnostics = {}

---@param name string
---@param secrets string[]
---@return moonpad.McpDiagnostics
function diagnostics.new(name, secrets)
  local self = setmetatable({
    name = name, secrets = {}, redactor = redact.new {}, lines = {}, unlogged = {},
    known = setmetatable({}, { __mode = "v" }),
  }, Diagnostics)
  self:keepSecret(secrets)
  return self
end

---These are not to be shown from now on.
---@param secrets string[]
function Diagnostics:keepSecret(secrets)
  local isNew = false
  for _, secret in ipairs(secrets) do
    isNew = isNew or not self.secrets[secret]
    self.secrets[secret] = true
  end
  if not isNew then return end
  local list = {}
  for secret in pairs(self.secrets) do list[#list + 1] = secret end
  self.redactor = redact.new(list)
end

---A text of the server's, fit to be shown.
---@param text string
---@return string
function Diagnostics:shown(text)
  local isCut = #text > MAX_LINE_BYTES
  return redact.shorten(redact.shapes(self.redactor:text(text, MAX_LINE_BYTES, isCut)), MAX_LINE_BYTES)
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
  self:log(line)
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
  self.lines = {}
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
