--- A span: one piece of what a run does, from when it begins to when it ends. Its names and
--- attributes are those of OpenTelemetry's conventions for generative AI.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local redact = require "moonpad.models.redact"

local spans = {}

---@class moonpad.Span
---@field traceId string 32 hexadecimal digits
---@field spanId string 16 hexadecimal digits
---@field parentSpanId string?
---@field name string
---@field kind "internal"|"client"
---@field startTime integer nanoseconds since 1970
---@field endTime integer? nothing while it goes on
---@field attributes table<string, string|number|boolean|string[]>
---@field status "unset"|"error"
---@field errorMessage string? it may quote what was said
---@field said moonpad.SpanContents what was said, for `record` alone: it is not kept, and must not be changed
---@field invocationId string
---@field owner { runner: moonpad.Runner, userId: string, sessionId: string } of the run that the user has asked for
---@field eventId string? the event that came of it, once that is stored
---@field package tracers moonpad.Tracer[]
local Span = { __name = "moonpad.span" }
Span.__index = Span

---@class moonpad.SpanContents
---@field request moonpad.Request? of a model
---@field response moonpad.Response?
---@field arguments table? of a tool
---@field result any

local function nanoseconds(seconds)
  return math.floor(seconds * 1e9)
end

local function newId(service, digits)
  return (core.uuid4(service):gsub("-", "")):sub(-digits)
end

---@param fields { name: string, kind: string, parent: moonpad.Span?, service: moonpad.Service, invocationId: string,
---tracers: moonpad.Tracer[], owner: table, remote: moonpad.RemoteParent? }
---@return moonpad.Span
function spans.begin(fields)
  local parent, remote = fields.parent, fields.remote
  return setmetatable({
    traceId = parent and parent.traceId or remote and remote.traceId or newId(fields.service, 32),
    spanId = newId(fields.service, 16), parentSpanId = parent and parent.spanId or remote and remote.spanId or nil,
    name = fields.name, kind = fields.kind, startTime = nanoseconds(core.now(fields.service)),
    began = core.monotonic(), attributes = {}, said = {}, status = "unset", invocationId = fields.invocationId,
    tracers = fields.tracers, owner = parent and parent.owner or fields.owner,
  }, Span)
end

---@param name string
---@param value any nil changes nothing
function Span:set(name, value)
  if value ~= nil then self.attributes[name] = value end
end

---It lasts until now, at least: what comes later may be the time of somebody else.
function Span:touch()
  self.lastMoment = core.monotonic()
end

---@param err any
function Span:fail(err)
  self.status = "error"
  self.errorMessage = redact.shapes(errorText.valid(errorText.of(err)))
  local code = (type(err) == "table" or core.isError(err)) and err.code or nil
  self.attributes["error.type"] = type(code) == "string" and code or "_OTHER"
end

---Ends it, once.
function Span:finish()
  if self.endTime then return end
  self.endTime = self.startTime + nanoseconds((self.lastMoment or core.monotonic()) - self.began)
  for _, tracer in ipairs(self.tracers) do pcall(tracer.record, tracer, self) end
  self.said = {}
end

-- Left by an error, or closed with the coroutine that it is in: the run has been cancelled.
function Span:__close(err)
  if self.endTime then return end
  if err ~= nil then
    self:fail(err)
  elseif not self.isDone then
    self:fail(core.newError("cancelled", "the run has been cancelled"))
  end
  self:finish()
end

---What it was about is done: leaving its block is no failure.
function Span:done()
  self.isDone = true
end

return spans
