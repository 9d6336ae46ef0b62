--- What the server's runs have done, kept for the trace view of ADK's web UI, in its names.
local contents = require "moonpad.tracing.contents"
local core = require "moonpad.core"
local instrument = require "moonpad.tracing.instrument"
local runners = require "moonpad.runtime.runner"

local traces = {}

---@class moonpad.server.Traces: moonpad.Tracer
---@field package list table[] spans as the UI wants them
local Traces = {}
Traces.__index = Traces

-- So many spans are kept, with so many bytes of what was said.
local MOST_SPANS <const>, MOST_BYTES <const> = 5000, 32 * 1024 * 1024

---@param showsContent boolean
---@return moonpad.server.Traces
function traces.new(showsContent)
  return setmetatable({ content = showsContent, list = {}, first = 1, last = 0, bytes = 0 }, Traces)
end

---Starts a run, and notes what it does.
---@param call moonpad.server.Call
---@param options moonpad.RunOptions
---@return moonpad.Invocation
function traces.start(call, options)
  local remote = instrument.remoteParent(call.headers.traceparent)
  return runners.startTraced(call.runner, options, call.server.traces, remote)
end

---- In the words of the UI

local function nameOf(span)
  return span.attributes["gen_ai.operation.name"] == "chat" and "call_llm" or span.name
end

local function requestOf(request)
  return contents.encoded {
    model = request.model, contents = request.contents,
    config = { systemInstruction = request.systemInstruction, tools = core.array(request.tools or {}) },
  }
end

local function addContents(attributes, said)
  if said.request then attributes["gcp.vertex.agent.llm_request"] = requestOf(said.request) end
  if said.response then attributes["gcp.vertex.agent.llm_response"] = contents.encoded(said.response) end
  if said.arguments then attributes["gcp.vertex.agent.tool_call_args"] = contents.encoded(said.arguments) end
  if said.result then attributes["gcp.vertex.agent.tool_response"] = contents.encoded(said.result) end
end

local function sizeOf(attributes)
  local size = 0
  for _, value in pairs(attributes) do size = size + (type(value) == "string" and #value or 8) end
  return size
end

function Traces:record(span)
  local attributes = {}
  for name, value in pairs(span.attributes) do attributes[name] = value end
  attributes["gcp.vertex.agent.invocation_id"] = span.invocationId
  attributes["gcp.vertex.agent.session_id"] = attributes["gen_ai.conversation.id"]
  if self.content then addContents(attributes, span.said) end
  self.last = self.last + 1
  self.list[self.last] = { span = span, attributes = attributes, size = sizeOf(attributes) }
  self.bytes = self.bytes + self.list[self.last].size
  while self.last - self.first >= MOST_SPANS or self.bytes > MOST_BYTES and self.first < self.last do
    self.bytes = self.bytes - self.list[self.first].size
    self.list[self.first], self.first = nil, self.first + 1
  end
end

local function shown(entry)
  local span = entry.span
  -- It is known once the event is stored.
  entry.attributes["gcp.vertex.agent.event_id"] = span.eventId
  return {
    name = nameOf(span), span_id = span.spanId, trace_id = span.traceId,
    parent_span_id = span.parentSpanId or core.null, start_time = span.startTime, end_time = span.endTime,
    attributes = entry.attributes,
  }
end

-- What is nil fits all.
local function belongsTo(entry, runner, userId, sessionId)
  local owner = entry.span.owner
  return not entry.isForgotten and (not runner or owner.runner == runner) and (not userId or owner.userId == userId)
    and (not sessionId or owner.sessionId == sessionId)
end

---The spans of a session, those that began first at the front.
---@param runner moonpad.Runner? nil: of any app
---@param userId string? nil: of any user
---@param sessionId string
---@return table[]
function Traces:ofSession(runner, userId, sessionId)
  local list = core.array {}
  for index = self.first, self.last do
    local entry = self.list[index]
    if belongsTo(entry, runner, userId, sessionId) then list[#list + 1] = shown(entry) end
  end
  table.sort(list, function(a, b) return a.start_time < b.start_time end)
  return list
end

---The attributes of the span that an event came of.
---@param runner moonpad.Runner?
---@param userId string?
---@param eventId string
---@return table?
function Traces:ofEvent(runner, userId, eventId)
  for index = self.last, self.first, -1 do
    local entry = self.list[index]
    if entry.span.eventId == eventId and belongsTo(entry, runner, userId) then return shown(entry).attributes end
  end
  return nil
end

---Forgets what was said in a session that is deleted.
---@param runner moonpad.Runner
---@param userId string
---@param sessionId string
function Traces:forget(runner, userId, sessionId)
  for index = self.first, self.last do
    local entry = self.list[index]
    if belongsTo(entry, runner, userId, sessionId) then
      self.bytes = self.bytes - entry.size
      entry.attributes, entry.size, entry.isForgotten = {}, 0, true
    end
  end
end

return traces
