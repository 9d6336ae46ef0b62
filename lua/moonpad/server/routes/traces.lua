--- What runs have done, in the words of ADK's web UI. With `authorize`, everybody sees his own.
local failure = require "moonpad.server.failure"

local function ofSession(call)
  return 200, call.server.traces:ofSession(call.runner, call.caller, call.sessionId)
end

local function ofEvent(call)
  local found = call.server.traces:ofEvent(call.runner, call.caller, call.params.event)
  return 200, found or failure.raise(404, "Trace not found")
end

return {
  { "GET", "/dev/apps/{app}/debug/trace/session/{session}", ofSession },
  { "GET", "/dev/apps/{app}/debug/trace/{event}", ofEvent },
  { "GET", "/debug/trace/session/{session}", ofSession },
  { "GET", "/debug/trace/{event}", ofEvent },
}
