-- Random calls, jumps of the clock, services that are closed and opened again, two of them on one
-- file, in one process and in two: against a small model of contract 5. What has expired, what is
-- trimmed, who has too many sessions, what a sweep frees.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local otherProcess = require "spec.support.other_process"
local random = require "spec.support.random_values"
local support = require "spec.support"
local testing = require "moonpad.testing"

local FULL <const> = 4000
local STEPS = checks.scaled(FULL)
local seed = checks.seed()

local SESSION_TTL <const>, USER_TTL <const>, APP_TTL <const>, EVENT_TTL <const> = 100, 60, 200, 300
local MAX_EVENTS <const>, MAX_SESSIONS <const> = 6, 2
local JUMPS <const> = { 0.5, 1, 1, 5, 5, 20, 20, 50, 59, 61, 99, 101, 301 }

---- The model

-- When something was last used. A renewal by a read reaches the store, and so other services, a
-- little later: till then it is known to the service that made it.
local Clock = {}
Clock.__index = Clock

local function newClock(now, lives) return setmetatable({ stored = now, noted = {}, lives = lives }, Clock) end

function Clock:store(now) self.stored = math.max(self.stored, now) end
function Clock:note(service, now) self.noted[service] = math.max(self.noted[service] or 0, now) end
function Clock:closed(service)
  self:store(self.noted[service] or 0)
  self.noted[service] = nil
end

-- Does it live, as this service sees it? nil: that cannot be told.
function Clock:isAlive(service, now)
  local surely, perhaps = math.max(self.stored, self.noted[service] or 0), self.stored
  for _, time in pairs(self.noted) do perhaps = math.max(perhaps, time) end
  if now - surely <= self.lives then return true end
  if now - perhaps > self.lives then return false end
  return nil
end

local Model = {}
Model.__index = Model

function Model.new() return setmetatable({ users = {}, app = nil }, Model) end

function Model:user(name)
  self.users[name] = self.users[name] or { state = nil, sessions = {} }
  return self.users[name]
end

function Model:clocks()
  local list = { self.app and self.app.clock }
  for _, user in pairs(self.users) do
    if user.state then list[#list + 1] = user.state.clock end
    for _, session in pairs(user.sessions) do list[#list + 1] = session.clock end
  end
  return list
end

-- Can all that this service is about to see be told? The state of users and the app counts.
function Model:isCertain(service, now)
  for _, clock in ipairs(self:clocks()) do
    if clock:isAlive(service, now) == nil then return false end
  end
  return true
end

local function live(entry, service, now)
  return entry and entry.clock:isAlive(service, now) and entry or nil
end

-- The state that is written to: what has expired is removed first.
local function forWriting(holder, field, service, now, lives)
  local entry = live(holder[field], service, now) or { values = {}, clock = newClock(now, lives) }
  entry.clock:store(now)
  holder[field] = entry
  return entry.values
end

-- Writing removes what has expired, whether it writes there or not.
local function removeExpired(holder, field, service, now)
  if holder[field] and not live(holder[field], service, now) then holder[field] = nil end
end

local function put(values, delta, prefix)
  for key, value in pairs(delta or {}) do
    local scope, name = key:match "^(%a+):(.*)$"
    if scope == prefix then values[name or key] = value ~= moonpad.removed and value or nil end
  end
end

local function has(delta, prefix)
  for key in pairs(delta or {}) do
    if key:match "^(%a+):" == prefix then return true end
  end
  return false
end

function Model:write(service, now, userName, delta)
  local user = self:user(userName)
  removeExpired(user, "state", service, now)
  removeExpired(self, "app", service, now)
  if has(delta, "user") then put(forWriting(user, "state", service, now, USER_TTL), delta, "user") end
  if has(delta, "app") then put(forWriting(self, "app", service, now, APP_TTL), delta, "app") end
  self:use(service, now, userName)
end

function Model:use(service, now, userName)
  local user = live(self:user(userName).state, service, now)
  local app = live(self.app, service, now)
  if user then user.clock:note(service, now) end
  if app then app.clock:note(service, now) end
end

-- What a session shows.
function Model:shown(service, now, userName, session)
  local all = {}
  for key, value in pairs(session.state) do all[key] = value end
  local user, app = live(self:user(userName).state, service, now), live(self.app, service, now)
  for key, value in pairs(user and user.values or {}) do all["user:" .. key] = value end
  for key, value in pairs(app and app.values or {}) do all["app:" .. key] = value end
  return all
end

function Model:create(service, now, userName, id, delta)
  local user = self:user(userName)
  local session = {
    id = id, clock = newClock(now, SESSION_TTL), state = {}, base = {}, baseRevision = 0, events = {}, revision = 0,
    count = 0, updated = now,
  }
  put(session.state, delta, nil)
  put(session.base, delta, nil)
  self:write(service, now, userName, delta)
  user.sessions[id] = session
  local others = {}
  for _, other in pairs(user.sessions) do
    if other ~= session and live(other, service, now) then others[#others + 1] = other end
  end
  table.sort(others, function(a, b)
    if a.updated ~= b.updated then return a.updated < b.updated end
    return a.id < b.id
  end)
  for i = 1, #others + 1 - MAX_SESSIONS do user.sessions[others[i].id] = nil end
  return session
end

-- The first turn: how many events it has, and nil where there is no other one.
local function firstTurn(events)
  for i = 2, #events do
    local begins = events[i].isMessage and events[i].invocation ~= events[i - 1].invocation
    if begins then return i - 1 end
  end
  return nil
end

local function trim(session, now, most)
  local trimmed = 0
  while true do
    local count = firstTurn(session.events)
    if not count then return trimmed end
    local isOld = session.events[count].timestamp < now - EVENT_TTL
    if #session.events <= most and not isOld then return trimmed end
    for _ = 1, count do
      put(session.base, table.remove(session.events, 1).delta, nil)
      session.baseRevision = session.baseRevision + 1
    end
    trimmed = trimmed + count
  end
end

function Model:append(service, now, userName, session, event)
  session.revision = session.revision + 1
  session.updated = now
  session.clock:store(now)
  put(session.state, event.delta, nil)
  if event.isMessage then session.count = session.count + 1 end
  session.events[#session.events + 1] = event
  self:write(service, now, userName, event.delta)
  trim(session, now, MAX_EVENTS)
end

---- Both, step by step

local function run(open, count, reopen)
  local values = random.new(seed)
  local function below(n) return values:below(n) end
  local clock, model = testing.clock(1000), Model.new()
  local config = {
    clock = clock, sessionTtlSeconds = SESSION_TTL, userTtlSeconds = USER_TTL, appTtlSeconds = APP_TTL,
    eventTtlSeconds = EVENT_TTL, maxEvents = MAX_EVENTS, maxSessionsPerUser = MAX_SESSIONS,
    onMaxSessions = "deleteOldest", durability = "normal",
  }
  local services, held = {}, {}
  -- That all of it happens.
  local happened = { trimmed = 0, expired = 0, hidden = 0, tooMany = 0, swept = 0, lateFailure = 0 }
  for i = 1, count do services[i] = open(config, i) end
  local invocations, log = 0, {}

  local function fail(what)
    error(("seed %d: %s, after\n  %s"):format(seed, what, table.concat(log, "\n  ", math.max(1, #log - 25))), 0)
  end

  local function same(expected, actual, what)
    local ok, message = pcall(assert.same, expected, actual)
    if not ok then fail(what .. ": " .. tostring(message)) end
  end

  local function name(user, id) return { appName = "app", userId = user, sessionId = id } end

  local function textsOf(session)
    local texts = {}
    for _, event in ipairs(session.events) do texts[#texts + 1] = event:text() end
    return texts
  end

  local function compare(service, now, user, session, found)
    local texts = {}
    for i, event in ipairs(session.events) do texts[i] = event.text end
    same(model:shown(service, now, user, session), found.state:toTable(), "state")
    same(texts, textsOf(found), "events")
    same({ session.revision, session.count }, { found.revision, found.conversationCount }, "numbers")
  end

  local function get(service, now, user, id)
    local found = services[service]:getSession(name(user, id))
    local session = live(model:user(user).sessions[id], service, now)
    same(session ~= nil, found ~= nil, "is there")
    if not session and model:user(user).sessions[id] then happened.expired = happened.expired + 1 end
    local shared = model:user(user).state
    if session and shared and not live(shared, service, now) then happened.hidden = happened.hidden + 1 end
    if session then
      session.clock:note(service, now)
      model:use(service, now, user)
    end
    return session, found
  end

  local function randomDelta()
    local delta = {}
    for _ = 1, below(3) do
      local prefix = ({ "", "", "user:", "app:" })[1 + below(4)]
      local isRemoved = prefix == "" and below(5) == 0
      delta[prefix .. ("abc"):sub(1 + below(3)):sub(1, 1)] = isRemoved and moonpad.removed or below(1000)
    end
    return delta
  end

  local function newEvent(now, session)
    invocations = invocations + 1
    local last = session.events[#session.events]
    local goesOn = last and below(3) > 0
    local isMessage = not goesOn and below(4) > 0
    local text = "e" .. invocations
    return {
      text = text, isMessage = isMessage, invocation = goesOn and last.invocation or text, timestamp = now,
      delta = randomDelta(),
    }
  end

  local function toEvent(event)
    return {
      author = event.isMessage and "user" or "bot", invocationId = event.invocation,
      content = { parts = { { text = event.text } } }, actions = { stateDelta = event.delta },
    }
  end

  local OPERATIONS = {
    create = function(service, now, user, id)
      local delta = randomDelta()
      for key, value in pairs(delta) do
        if value == moonpad.removed then delta[key] = nil end
      end
      local given = name(user, id)
      given.state = delta
      local ok, created = pcall(services[service].createSession, services[service], given)
      local exists = live(model:user(user).sessions[id], service, now) ~= nil
      same(not exists, ok, "created")
      if exists then return same("already_exists", created.code, "refused") end
      local before = 0
      for _ in pairs(model:user(user).sessions) do before = before + 1 end
      compare(service, now, user, model:create(service, now, user, id, delta), created)
      for _ in pairs(model:user(user).sessions) do before = before - 1 end
      if before >= 0 then happened.tooMany = happened.tooMany + 1 end
      held[service .. user .. id] = { object = created, session = model:user(user).sessions[id] }
    end,
    get = function(service, now, user, id)
      local session, found = get(service, now, user, id)
      if session then
        compare(service, now, user, session, found)
        held[service .. user .. id] = { object = found, session = session }
      end
    end,
    append = function(service, now, user, id)
      local session, found = get(service, now, user, id)
      if not session then return end
      local event = newEvent(now, session)
      services[service]:appendEvent(found, toEvent(event))
      local base = session.baseRevision
      model:append(service, now, user, session, event)
      if session.baseRevision > base then happened.trimmed = happened.trimmed + 1 end
      same(model:shown(service, now, user, session), found.state:toTable(), "state after an append")
    end,
    -- From an object that is behind, by events and by what has expired since.
    appendLate = function(service, now, user, id)
      local kept = held[service .. user .. id]
      if not kept then return end
      local session = kept.session
      local isThere = model:user(user).sessions[id] == session and live(session, service, now)
      local event = isThere and newEvent(now, session) or newEvent(now, { events = {} })
      event.delta = {}
      local ok, err = pcall(services[service].appendEvent, services[service], kept.object, toEvent(event))
      same(isThere ~= nil and isThere ~= false, ok, "appended late")
      happened.lateFailure = happened.lateFailure + (ok and 0 or 1)
      if not ok then return same("not_found", err.code, "refused late") end
      model:append(service, now, user, session, event)
      same(model:shown(service, now, user, session), kept.object.state:toTable(), "state after a late append")
    end,
    refresh = function(service, now, user, id)
      local kept = held[service .. user .. id]
      if not kept then return end
      local isThere = model:user(user).sessions[id] == kept.session and live(kept.session, service, now)
      local ok, err = pcall(services[service].refresh, services[service], kept.object)
      same(isThere ~= nil and isThere ~= false, ok, "refreshed")
      if not ok then return same("not_found", err.code, "refused") end
      kept.session.clock:note(service, now)
      model:use(service, now, user)
      same(model:shown(service, now, user, kept.session), kept.object.state:toTable(), "state after a refresh")
    end,
    delete = function(service, now, user, id)
      if below(4) > 0 then return end
      local session = live(model:user(user).sessions[id], service, now)
      same(session ~= nil, services[service]:deleteSession(name(user, id)), "deleted")
      model:user(user).sessions[id] = nil
    end,
    deleteUser = function(service, now, user)
      if below(12) > 0 then return end
      local living = 0
      for _, session in pairs(model:user(user).sessions) do
        if live(session, service, now) then living = living + 1 end
      end
      same(living, services[service]:deleteUser { appName = "app", userId = user }, "deleted of a user")
      model.users[user] = nil
    end,
    userState = function(service, now, user)
      local who = { appName = "app", userId = user }
      if below(2) == 0 then
        local state = live(model:user(user).state, service, now)
        same(state and state.values or {}, services[service]:getUserState(who), "user state")
        if state then state.clock:note(service, now) end
        return
      end
      who.key, who.by = "n", 1 + below(5)
      local stored = forWriting(model:user(user), "state", service, now, USER_TTL)
      stored.n = (stored.n or 0) + who.by
      same(stored.n, services[service]:incrementState(who), "incremented")
    end,
    appState = function(service, now)
      local state = { x = below(100) }
      services[service]:updateAppState { appName = "app", state = state }
      forWriting(model, "app", service, now, APP_TTL).x = state.x
    end,
    list = function(service, now, user)
      local expected, found = {}, {}
      for id, session in pairs(model:user(user).sessions) do
        if live(session, service, now) then expected[id] = model:shown(service, now, user, session) end
      end
      for _, session in ipairs(services[service]:listSessions { appName = "app", userId = user }) do
        found[session.id] = session.state:toTable()
      end
      same(expected, found, "listed")
    end,
    sweep = function(service, now)
      local freed = { sessions = 0, users = 0, apps = 0, events = 0 }
      for _, user in pairs(model.users) do
        if user.state and not live(user.state, service, now) then
          freed.users, user.state = freed.users + (next(user.state.values) and 1 or 0), nil
        end
        for id, session in pairs(user.sessions) do
          if live(session, service, now) then
            freed.events = freed.events + trim(session, now, math.huge)
          else
            freed.sessions, user.sessions[id] = freed.sessions + 1, nil
          end
        end
      end
      if model.app and not live(model.app, service, now) then freed.apps, model.app = 1, nil end
      for _, clockOf in ipairs(model:clocks()) do clockOf:closed(service) end
      same(freed, services[service]:sweep(), "swept")
      happened.swept = happened.swept + freed.sessions + freed.users + freed.apps + freed.events
    end,
    history = function(service, now, user, id)
      local session, found = get(service, now, user, id)
      if not session then return end
      local at = below(session.revision + 1)
      local ok, state = pcall(services[service].stateAt, services[service], found, at)
      same(at >= session.baseRevision, ok, "is known")
      if not ok then return same("not_found", state.code, "trimmed") end
      local expected = {}
      for key, value in pairs(session.base) do expected[key] = value end
      for i = 1, at - session.baseRevision do put(expected, session.events[i].delta, nil) end
      same(expected, state, "state at " .. at)
    end,
    jump = function() clock:advance(JUMPS[1 + below(#JUMPS)]) end,
    reopen = function(service)
      if not reopen or below(4) > 0 then return end
      services[service]:close()
      for _, clockOf in ipairs(model:clocks()) do clockOf:closed(service) end
      for key in pairs(held) do
        if key:sub(1, 1) == tostring(service) then held[key] = nil end
      end
      services[service] = open(config, service)
    end,
  }
  local names = {}
  for operation in pairs(OPERATIONS) do names[#names + 1] = operation end
  table.sort(names)
  for _ = 1, 16 do names[#names + 1] = "append" end
  for _, more in ipairs { "get", "get", "jump", "jump" } do names[#names + 1] = more end

  local done = {}
  for step = 1, STEPS do
    local operation, service = names[1 + below(#names)], 1 + below(count)
    local user, id, now = "u" .. 1 + below(2), "s" .. 1 + below(3), clock:now()
    log[#log + 1] = ("%d: %s %d %s %s at %g"):format(step, operation, service, user, id, now)
    if operation == "jump" or model:isCertain(service, now) then
      OPERATIONS[operation](service, now, user, id)
      done[operation] = (done[operation] or 0) + 1
    end
  end
  if STEPS < FULL then return end -- too few for that
  for operation in pairs(OPERATIONS) do
    assert.is_true((done[operation] or 0) > STEPS / 400, operation .. " was hardly tried")
  end
  for what, times in pairs(happened) do assert.is_true(times > STEPS / 4000, what .. " hardly happened") end
end

describe("housekeeping, against a model", function()
  it("on memory:", function()
    run(function(config) return moonpad.open("memory:", config) end, 1, false)
  end)

  it("on a file", function()
    local path = support.tmpdir() .. "/one.db"
    run(function(config) return moonpad.open("sqlite:" .. path, config) end, 1, true)
  end)

  it("by two services on one file", function()
    local path = support.tmpdir() .. "/two.db"
    run(function(config) return moonpad.open("sqlite:" .. path, config) end, 2, true)
  end)

  it("by two processes on one file #together", function()
    local url = "sqlite:" .. support.tmpdir() .. "/processes.db"
    run(function(config, number)
      if number == 1 then return moonpad.open(url, config) end
      return otherProcess(url, config)
    end, 2, true)
  end)

  after_each(support.cleanup)
end)
