--- `/run` and `/run_sse`: an agent on a message.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local failure = require "moonpad.server.failure"
local traces = require "moonpad.server.traces"
local wire = require "moonpad.server.wire"

-- Proxies close connections that are silent for a minute.
local KEEP_ALIVE_SECONDS = 15

local function textField(body, name)
  local value = body[name]
  if type(value) == "string" and value ~= "" then return value end
  return failure.raise(422, "%s: expected a text, got %s", name, type(value))
end

-- Names stand in the body; who asks is asked once more, now that they are known.
local function readRequest(call)
  local body = call:body()
  if not body then failure.raise(422, "the body must be a JSON object") end
  local asked = wire.request(body)
  local app = textField(asked, "appName")
  call.userId, call.sessionId = textField(asked, "userId"), textField(asked, "sessionId")
  call:setApp(app)
  call.server.access:check(call)
  call:checkKeys(asked.stateDelta)
  return asked
end

local function checkSession(call)
  local session = call.runner.sessionService:getSession {
    appName = call.appName, userId = call.userId, sessionId = call.sessionId, numRecentEvents = 0,
  }
  if not session then failure.raise(404, "Session not found: %s", call.sessionId) end
end

local function start(call, asked, streaming)
  return traces.start(call, {
    userId = call.userId, sessionId = call.sessionId, newMessage = asked.newMessage, stateDelta = asked.stateDelta,
    customMetadata = asked.customMetadata, streaming = streaming,
  })
end

-- The next event, or nil at the end. What the owner of the run does not know of is waited for; and
-- `onSilence` is called now and then.
local function nextEvent(invocation, onSilence)
  local event = invocation:step()
  local silentSince = core.monotonic()
  while event == "waiting" do
    invocation:giveWay(onSilence and silentSince + KEEP_ALIVE_SECONDS)
    if onSilence and core.monotonic() - silentSince >= KEEP_ALIVE_SECONDS then
      onSilence()
      silentSince = core.monotonic()
    end
    event = invocation:step()
  end
  return event
end

local function run(call)
  local asked = readRequest(call)
  local _ <close> = call.server.access:countRun(call)
  checkSession(call)
  local list = core.array {}
  local invocation <close> = start(call, asked, false)
  local event = nextEvent(invocation)
  while event do
    for _, one in ipairs(wire.sentEvents(event)) do list[#list + 1] = one end
    coroutines.keepPace(32)
    event = nextEvent(invocation)
  end
  return 200, list
end

local function writeEvent(call, value)
  call:write("data: " .. core.json.encode(value) .. "\n\n")
end

local function streamEvents(call, invocation)
  local function keepAlive() call:write ": keep-alive\n\n" end
  local event = nextEvent(invocation, keepAlive)
  while event do
    for _, one in ipairs(wire.sentEvents(event)) do writeEvent(call, one) end
    coroutines.keepPace(32)
    event = nextEvent(invocation, keepAlive)
  end
end

-- What goes wrong once it has begun is an event of the stream.
local function runStream(call)
  local asked = readRequest(call)
  local _ <close> = call.server.access:countRun(call)
  checkSession(call)
  local invocation <close> = start(call, asked, asked.streaming == true)
  call:beginStream "text/event-stream"
  local ok, err = pcall(streamEvents, call, invocation)
  if not ok and call.exchange:isOpen() then
    call.server:log(call, err)
    writeEvent(call, { error = failure.body(failure.message(err, call.server.isPublic)).error })
  end
  call:finishStream()
end

return {
  { "POST", "/run", run },
  { "POST", "/run_sse", runStream },
}
