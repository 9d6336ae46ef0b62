--- Sessions: list, make, import, read, change, delete.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local failure = require "moonpad.server.failure"
local wire = require "moonpad.server.wire"

local function serviceOf(call)
  return call.runner.sessionService
end

local function nameOf(call)
  return { appName = call.appName, userId = call.userId, sessionId = call.sessionId }
end

local function find(call, options)
  local name = nameOf(call)
  for field, value in pairs(options or {}) do name[field] = value end
  local session = serviceOf(call):getSession(name)
  return session or failure.raise(404, "Session not found: %s", call.sessionId)
end

---- Reading

local PAGE = 1000

-- All of them, as ADK's clients expect; `limit` and `after` for those who have many.
local function list(call)
  local result, limit = core.array {}, nil
  if call.query.limit then
    limit = math.tointeger(tonumber(call.query.limit))
    if not limit or limit < 1 then failure.raise(422, "limit: expected a number from 1") end
  end
  local cursor, order = call.query.after, call.query.order
  repeat
    local page
    page, cursor = serviceOf(call):listSessions {
      appName = call.appName, userId = call.userId, limit = math.min(limit and limit - #result or PAGE, PAGE),
      after = cursor, order = order,
    }
    for _, session in ipairs(page) do
      result[#result + 1] = wire.session(call, session)
      coroutines.keepPace(4)
    end
  until not cursor or limit and #result >= limit
  return 200, call.raw("application/json", core.json.encode(result), {
    "Cache-Control", "no-store", "X-Next-Cursor", cursor or "",
  })
end

local function get(call)
  local recent = call.query.num_recent_events or call.query.numRecentEvents
  local options = recent and { numRecentEvents = math.tointeger(tonumber(recent)) or
    failure.raise(422, "num_recent_events: expected a number") } or nil
  return 200, wire.wholeSession(call, find(call, options))
end

---- Making

local function checkObject(value, where)
  if value == nil or value == core.null then return nil end
  if type(value) ~= "table" then failure.raise(422, "%s: expected an object, got a %s", where, type(value)) end
  return value
end

-- What is not the session's own belongs to others as well: a file of one session does not
-- change it.
local function ownState(state)
  local own = {}
  for key, value in pairs(state) do
    if not (key:find "^user:" or key:find "^app:" or key:find "^temp:") then own[key] = value end
  end
  return own
end

-- What the deltas of the events do not explain was there before them.
local function stateBefore(state, events)
  local before = {}
  for key, value in pairs(state) do before[key] = value end
  for _, event in ipairs(events) do
    for key in pairs(event.actions and event.actions.stateDelta or {}) do before[key] = nil end
  end
  return before
end

-- Brings a session's own state to what was exported, where its events alone do not.
local function correct(service, session, state)
  for key, value in pairs(state) do
    local held = session.state:get(key)
    if held == nil or core.json.encode(held) ~= core.json.encode(value) then session.state:set(key, value) end
  end
  for key in pairs(ownState(session.state:getAll())) do
    if state[key] == nil then session.state:delete(key) end
  end
  service:updateSession(session)
end

-- The events are checked and stored aside, then the whole session is stored at once: a bad event
-- leaves nothing behind.
local function importAside(call, state, events)
  local aside <close> = core.open "memory:"
  local name = nameOf(call)
  name.state = stateBefore(state, events)
  local session = aside:createSession(name)
  for index, event in ipairs(events) do
    local ok, err = pcall(aside.appendEvent, aside, session, event)
    if not ok then failure.raise(failure.of(err).status, "events[%d]: %s", index - 1, failure.of(err).message) end
    coroutines.keepPace(4)
  end
  correct(aside, session, state)
  local lines = {}
  for line in aside:export(session) do
    lines[#lines + 1] = line
    coroutines.keepPace(4)
  end
  return lines, session.id
end

local function import(call, state, given)
  local events = {}
  for index, event in ipairs(given) do events[index] = wire.readEvent(event, ("events[%d]"):format(index - 1)) end
  local lines, id = importAside(call, ownState(state), events)
  call.sessionId = id
  return serviceOf(call):import { lines = lines, appName = call.appName, userId = call.userId, sessionId = id }
end

local function make(call, state, events)
  call:limitSession()
  local session
  if events and #events > 0 then
    session = import(call, state or {}, events)
  else
    call:checkKeys(state)
    local name = nameOf(call)
    name.state = state
    session = serviceOf(call):createSession(name)
  end
  call.sessionId = session.id
  return 200, wire.wholeSession(call, session)
end

local function create(call)
  local body = wire.request(call:body() or {})
  local id = body.sessionId
  if id ~= nil and type(id) ~= "string" then failure.raise(422, "sessionId: expected a text") end
  call.sessionId = id
  return make(call, checkObject(body.state, "state"), checkObject(body.events, "events"))
end

-- The body is the state, or has it in `state` and nothing else beside it.
local function createNamed(call)
  local body = call:body() or {}
  local isWrapped = type(body.state) == "table"
  for name in pairs(body) do isWrapped = isWrapped and (name == "state" or name == "events") end
  if isWrapped then return make(call, body.state, checkObject(body.events, "events")) end
  return make(call, body)
end

---- Changing

local function patch(call)
  local body = call:body()
  local delta = body and wire.request(body).stateDelta
  if not delta then failure.raise(422, "stateDelta: expected an object") end
  call:checkKeys(delta)
  local service = serviceOf(call)
  local session = find(call, { numRecentEvents = 0 })
  service:appendEvent(session, {
    author = "user", invocationId = "p-" .. core.uuid4(service), actions = { stateDelta = delta },
  })
  return 200, wire.wholeSession(call, find(call))
end

local function delete(call)
  serviceOf(call):deleteSession(nameOf(call))
  call.server.traces:forget(call.runner, call.userId, call.sessionId)
  return 200, core.null
end

local SESSIONS <const>, SESSION <const> = "/apps/{app}/users/{user}/sessions",
  "/apps/{app}/users/{user}/sessions/{session}"

return {
  { "GET", SESSIONS, list },
  { "POST", SESSIONS, create },
  { "GET", SESSION, get },
  { "POST", SESSION, createNamed },
  { "PATCH", SESSION, patch },
  { "DELETE", SESSION, delete },
}
