--- What the developer's view of ADK's web UI asks for: graphs of agents; of evaluations and the
--- builder, that there are none.
local core = require "moonpad.core"
local failure = require "moonpad.server.failure"
local graph = require "moonpad.server.graph"

local function build(call)
  return 200, { name = call.app, root_agent = graph.describe(call.runner.agent) }
end

local function image(call)
  local dot = graph.dot(call.runner.agent, call.query.dark_mode == "true")
  return 200, { [""] = { dotSrc = dot }, dotSrc = dot }
end

local function find(call)
  local session = call.runner.sessionService:getSession {
    appName = call.appName, userId = call.userId, sessionId = call.sessionId,
  }
  local events = session and session.events or {}
  for index = #events, 1, -1 do
    local event = events[index]
    if event.id == call.params.event then return event end
  end
  return failure.raise(404, "Event not found: %s", call.params.event)
end

-- The agent that has spoken and the tools that it has called, or that have answered.
local function ofEvent(call)
  local event = find(call)
  local lit = { ["agent " .. event.author] = true }
  for _, list in ipairs { event:functionCalls(), event:functionResponses() } do
    for _, item in ipairs(list) do lit["tool " .. tostring(item.name)] = true end
  end
  return 200, { dotSrc = graph.dot(call.runner.agent, call.query.dark_mode == "true", lit) }
end

local function nothing()
  return 200, core.array {}
end

local function noBuilder(call)
  failure.raise(404, "%s: agents are written in Lua here", call.path)
end

local EVENT <const> = "/users/{user}/sessions/{session}/events/{event}/graph"

local routes = {
  { "GET", "/dev/apps/{app}/build_graph", build },
  { "GET", "/dev/apps/{app}/build_graph_image", image },
  { "GET", "/apps/{app}" .. EVENT, ofEvent },
  { "GET", "/dev/apps/{app}" .. EVENT, ofEvent },
  { "GET", "/dev/apps/{app}/builder", noBuilder },
}
for _, name in ipairs { "eval_sets", "eval-sets", "eval_results", "eval-results", "metrics-info", "tests" } do
  routes[#routes + 1] = { "GET", "/dev/apps/{app}/" .. name, nothing }
  routes[#routes + 1] = { "GET", "/apps/{app}/" .. name, nothing }
end
return routes
