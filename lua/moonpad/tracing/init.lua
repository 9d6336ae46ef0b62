--- Tracers: who is told what runs do. Nothing waits for one.
local contents = require "moonpad.tracing.contents"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"

---@class moonpad.Tracing
local tracing = {}

---What a runner takes as `tracer`. One of your own needs `record` alone.
---@class moonpad.Tracer
---@field content boolean? does it want what was said?
---@field record fun(self, span: moonpad.Span) is told of each span as it ends; must not wait
---@field flush (fun(self, seconds: number?): boolean)?
---@field close fun(self)?

---- The last spans

---@class moonpad.MemoryTracer: moonpad.Tracer
---@field package list moonpad.Span[]
local Memory = { __name = "moonpad.tracer" }
Memory.__index = Memory

---@class moonpad.MemoryTracerOptions
---@field limit integer? how many spans are kept; default 1000
---@field maxBytes integer? of what was said in them; default 32 MiB
---@field content boolean? keeps what was said, too

local MEMORY_FIELDS = fields.new {
  { "limit", fields.integerFrom(1), default = 1000 },
  { "maxBytes", fields.integerFrom(0), default = 32 * 1024 * 1024 },
  { "content", "boolean" },
}:describes "moonpad.MemoryTracerOptions"

---Keeps the last spans, for specs and to look at.
---@param options moonpad.MemoryTracerOptions?
---@return moonpad.MemoryTracer
function tracing.memory(options)
  local self = MEMORY_FIELDS:take(options or {}, "tracing.memory")
  self.list, self.first, self.last, self.bytes, self.count = {}, 1, 0, 0, 0
  return setmetatable(self, Memory)
end

-- What it keeps of a span: what is noted later in the span itself is seen as well.
local function kept(span, withContent)
  local said = withContent and contents.of(span) or {}
  return setmetatable({ contents = said, size = contents.size(said) }, { __index = span })
end

local function dropOldest(self)
  self.bytes = self.bytes - self.list[self.first].size
  self.list[self.first] = nil
  self.first, self.count = self.first + 1, self.count + 1
end

function Memory:record(span)
  self.last = self.last + 1
  self.list[self.last] = kept(span, self.content)
  self.bytes = self.bytes + self.list[self.last].size
  while self.last - self.first + 1 > self.limit or self.bytes > self.maxBytes and self.first < self.last do
    dropOldest(self)
  end
end

---@class moonpad.KeptSpan: moonpad.Span
---@field contents table<string, string> what was said, as JSON, by OpenTelemetry's names

---The spans that have ended, those that ended first at the front.
---@return moonpad.KeptSpan[]
function Memory:spans()
  return table.move(self.list, self.first, self.last, 1, {})
end

---How many were forgotten.
---@return integer
function Memory:dropped()
  return self.count
end

function Memory:clear()
  self.list, self.first, self.last, self.bytes = {}, 1, 0, 0
end

-- Nothing waits in it.
function Memory.flush() return true end

function Memory.close() end

---- JSON lines

---@class moonpad.FileTracer: moonpad.Tracer
local File = { __name = "moonpad.tracer" }
File.__index = File

---@class moonpad.FileTracerOptions
---@field path string lines are added to what is there
---@field content boolean? writes what was said, too

local FILE_FIELDS = fields.new {
  { "path", "string", required = true },
  { "content", "boolean" },
}:describes "moonpad.FileTracerOptions"

---Writes each span as a line of JSON.
---@param options moonpad.FileTracerOptions
---@return moonpad.FileTracer
function tracing.file(options)
  local self = FILE_FIELDS:take(options, "tracing.file")
  local file, reason = core.openFile(self.path, "ab")
  if not file then core.error("storage", "tracing.file: " .. reason) end
  file:setvbuf("full", 64 * 1024)
  self.file, self.lost = file, 0
  return setmetatable(self, File)
end

-- Contents are JSON already.
local function lineOf(span, withContent)
  local said
  for name, text in pairs(withContent and contents.of(span) or {}) do
    said = said or {}
    said[name] = core.json.decode(text)
  end
  return core.json.encode {
    traceId = span.traceId, spanId = span.spanId, parentSpanId = span.parentSpanId, name = span.name, kind = span.kind,
    startTime = span.startTime, endTime = span.endTime, attributes = span.attributes, contents = said,
    status = span.status, errorMessage = withContent and span.errorMessage or nil,
  }
end

function File:record(span)
  if not self.file then return end
  local isRoot = span.parentSpanId == nil
  local ok = self.file:write(lineOf(span, self.content), "\n") and (not isRoot or self.file:flush())
  if not ok then self.lost = self.lost + 1 end
end

---How many lines could not be written.
---@return integer
function File:dropped()
  return self.lost
end

function File:flush()
  return self.file ~= nil and self.file:flush() ~= nil
end

---Closing twice is no error.
function File:close()
  if self.file then self.file:close() end
  self.file = nil
end

File.__close = File.close

---- OpenTelemetry

---Sends spans to an OpenTelemetry collector.
---@param options moonpad.OtlpOptions
---@return moonpad.OtlpTracer
function tracing.otlp(options)
  return require("moonpad.tracing.otlp").new(options)
end

return tracing
