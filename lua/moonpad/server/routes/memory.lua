--- A session goes into the memory of its user.
local core = require "moonpad.core"
local failure = require "moonpad.server.failure"
local wire = require "moonpad.server.wire"

local function add(call)
  local memory = call.runner.memoryService or failure.raise(501, "the app %s has no memory", call.app)
  local sessionId = wire.request(call:body() or {}).sessionId
  if type(sessionId) ~= "string" then failure.raise(422, "sessionId: expected a text") end
  local session = call.runner.sessionService:getSession {
    appName = call.appName, userId = call.userId, sessionId = sessionId,
  }
  if not session then failure.raise(404, "Session not found: %s", sessionId) end
  memory:addSession(session)
  return 200, core.null
end

return {
  { "PATCH", "/apps/{app}/users/{user}/memory", add },
}
