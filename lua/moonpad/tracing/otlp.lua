--- Spans to a collector: OTLP over HTTP, as JSON. They are gathered for a second and sent together;
--- the transfer goes on by itself.
local contents = require "moonpad.tracing.contents"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local wakeSources = require "moonpad.runtime.wake_sources"

local otlp = {}

---@class moonpad.OtlpOptions
---@field url string the whole address, such as "http://localhost:4318/v1/traces"
---@field headers table<string, string>?
---@field content boolean? sends what was said, too
---@field serviceName string? default "moonpad"
---@field timeoutMs integer? of one sending, all attempts included; default 10000

---@class moonpad.OtlpTracer: moonpad.Tracer
---@field lastError string? why the last spans that were lost were lost
local Otlp = { __name = "moonpad.tracer" }
Otlp.__index = Otlp

local FIELDS = fields.new {
  { "url", "string", required = true },
  { "headers", "table" },
  { "content", "boolean" },
  { "serviceName", "string", default = "moonpad" },
  { "timeoutMs", fields.integerFrom(1), default = 10000 },
}:describes "moonpad.OtlpOptions"

-- How long spans are gathered, how many (and how many bytes) go at once, and how many may wait
-- while the collector does not answer: what comes then is dropped.
local DELAY_SECONDS <const>, BATCH <const>, BATCH_BYTES <const> = 1, 256, 512 * 1024
local MOST_WAITING <const>, MOST_BYTES <const> = 2048, 32 * 1024 * 1024

---@param options moonpad.OtlpOptions
---@return moonpad.OtlpTracer
function otlp.new(options)
  local self = FIELDS:take(options, "tracing.otlp")
  -- What is wrong with the address is told now.
  require "moonpad.http"
  if not self.url:lower():find "^https?://[^/?#]" then
    fields.refuse("tracing.otlp.url", "must begin with http:// or https:// and a host")
  end
  self.queue, self.bytes, self.lost = {}, 0, 0
  setmetatable(self, Otlp)
  wakeSources.add(self)
  return self
end

---- What is sent

local function valueOf(value)
  if type(value) == "boolean" then return { boolValue = value } end
  if math.type(value) == "integer" then return { intValue = tostring(value) } end
  if type(value) == "number" then return { doubleValue = value } end
  if type(value) == "string" then return { stringValue = value } end
  local values = core.array {}
  for index, one in ipairs(value) do values[index] = valueOf(one) end
  return { arrayValue = { values = values } }
end

local function listOf(attributes, list)
  local names = {}
  for name in pairs(attributes) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do list[#list + 1] = { key = name, value = valueOf(attributes[name]) } end
  return list
end

local KINDS <const>, STATUSES <const> = { internal = 1, client = 3 }, { unset = 0, error = 2 }

---A span in the form of OTLP.
---@param span moonpad.Span
---@param said table<string, string>? what was said, where it is wanted
---@return table
function otlp.encode(span, said)
  local attributes = listOf(span.attributes, core.array {})
  if said then listOf(said, attributes) end
  return {
    traceId = span.traceId, spanId = span.spanId, parentSpanId = span.parentSpanId, name = span.name,
    kind = KINDS[span.kind], startTimeUnixNano = tostring(span.startTime), endTimeUnixNano = tostring(span.endTime),
    attributes = attributes,
    status = { code = STATUSES[span.status], message = said and span.errorMessage or nil },
  }
end

local function bodyOf(self, spans)
  return core.json.encode {
    resourceSpans = { {
      resource = { attributes = listOf({ ["service.name"] = self.serviceName }, core.array {}) },
      scopeSpans = { {
        scope = { name = "moonpad", version = (core._VERSION:gsub("^moonpad ", "")) }, spans = core.array(spans),
      } },
    } },
  }
end

---- Sending

local function lose(self, count, reason)
  self.lost, self.lastError = self.lost + count, reason
end

-- Those that go at once: so many, and no more than a little text is encoded in one step.
local function takeBatch(self)
  local batch, bytes = {}, 0
  for _, entry in ipairs(self.queue) do
    if #batch == BATCH or bytes > BATCH_BYTES then break end
    batch[#batch + 1], bytes = entry.span, bytes + entry.size
  end
  self.queue = table.move(self.queue, #batch + 1, #self.queue, 1, {})
  self.bytes = self.bytes - bytes
  return batch
end

local function send(self)
  local batch = takeBatch(self)
  self.sendAt = #self.queue > 0 and core.monotonic() or nil
  local headers = { ["Content-Type"] = "application/json" }
  for name, value in pairs(self.headers or {}) do headers[name] = value end
  local ok, job = pcall(require("moonpad.http").request, {
    url = self.url, method = "POST", headers = headers, body = bodyOf(self, batch), timeoutMs = self.timeoutMs,
  })
  if not ok then return lose(self, #batch, tostring(job)) end
  self.job, self.sent = job, #batch
end

-- Looks what has become of the batch under way.
local function advanceJob(self)
  local job = self.job
  local ok, isDone, answer = pcall(job.poll, job)
  if ok and not isDone then return false end
  self.job = nil
  if not ok then
    lose(self, self.sent, tostring(isDone.message or isDone))
  elseif answer.status < 200 or answer.status > 299 then
    lose(self, self.sent, ("the collector answered %d"):format(answer.status))
  end
  return true
end

---Sends what is due, without waiting.
---@return boolean moved
function Otlp:advance()
  local moved = self.job ~= nil and advanceJob(self)
  if not self.job and self.sendAt and core.monotonic() >= self.sendAt then
    send(self)
    moved = true
  end
  return moved
end

function Otlp:isActive()
  return self.job ~= nil or self.sendAt ~= nil
end

-- As a source of news for waits: a transfer under way is the client's to tell.
function Otlp:prepare()
  return not self.job and self.sendAt and self.sendAt - core.monotonic() or nil
end

function Otlp:record(span)
  if self.isClosed then return end
  if #self.queue >= MOST_WAITING or self.bytes > MOST_BYTES then
    return lose(self, 1, self.lastError or "the collector is too slow")
  end
  local said = self.content and contents.of(span) or nil
  local size = said and contents.size(said) or 0
  self.queue[#self.queue + 1] = { span = otlp.encode(span, said), size = size }
  self.bytes = self.bytes + size
  self.sendAt = self.sendAt or core.monotonic() + DELAY_SECONDS
  if #self.queue >= BATCH then self.sendAt = core.monotonic() end
  self:advance()
end

---How many spans were lost because the collector did not take them.
---@return integer
function Otlp:dropped()
  return self.lost
end

---Sends all that waits. It blocks; outside of runs.
---@param seconds number? how long at most; default 5
---@return boolean isEmpty whether nothing waits any more
function Otlp:flush(seconds)
  local deadline = core.monotonic() + (seconds or 5)
  while self:isActive() and core.monotonic() < deadline do
    if self.sendAt then self.sendAt = core.monotonic() end
    if not self:advance() then
      require("moonpad.http").poll(math.max(math.min(deadline - core.monotonic(), 0.1), 0))
    end
  end
  return not self:isActive()
end

---Sends all that waits, for five seconds at most, and takes no more. Closing twice is no error.
function Otlp:close()
  if self.isClosed then return end
  self:flush(5)
  self.isClosed = true
  lose(self, #self.queue + (self.job and self.sent or 0), self.lastError)
  if self.job then self.job:close() end
  self.job, self.queue, self.sendAt = nil, {}, nil
  wakeSources.remove(self)
end

Otlp.__close = Otlp.close

return otlp
