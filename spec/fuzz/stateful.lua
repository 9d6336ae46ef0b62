-- Random operations on a memory and an SQLite store: every answer is the same on both, and what the
-- model says. Three bytes choose an operation, who does it and whether in steps, its key, its
-- value. Two writers have session objects of their own.
local core = require "moonpad.core"
local moonpad = require "moonpad"
local folder = os.getenv "MOONPAD_FUZZ_LUA" or "spec/fuzz"
local Model = dofile(folder .. "/model.lua")

local encode, removed = moonpad.json.encode, moonpad.removed
local KEYS = { "a", "b", "user:a", "user:n", "app:a", "app:n", "temp:t", "n", "list", "user:list", "app:app:x", "" }
local VALUES = {
  1, 2.5, "text", true, { 1, 2, 3 }, { x = { y = 1 } }, moonpad.null, math.mininteger, moonpad.array {}, {}, "ä\0😀",
  removed, -0.0, { { {} } }, math.maxinteger, 7,
}
local RENEW_AFTER = 2000 -- inputs; the apps stay behind, so the stores would grow

local services, inputs, path = nil, 0, nil

local function removeFile()
  for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(path .. suffix) end
end

local function renewServices()
  for _, service in ipairs(services or {}) do service:close() end
  if path then removeFile() end
  path = os.tmpname()
  services = { moonpad.open "memory:", moonpad.open("sqlite:" .. path, { durability = "normal" }) }
end

-- As a stepped run does it: what asks the file makes its coroutine wait for a worker.
local function inSteps(operation, ...)
  local thread = coroutine.create(operation)
  core.threads[thread] = true
  core.stepWith(services[2])
  local ok, signal = coroutine.resume(thread, ...)
  while ok and coroutine.status(thread) ~= "dead" do
    assert(signal == core.ASKS_STORE)
    core.idle(60)
    ok, signal = coroutine.resume(thread)
  end
  core.stepWith(nil)
  if not ok then error(signal, 0) end
end

local function expectSame(what, one, other)
  local a, b = encode(one), encode(other)
  if a ~= b then error(("%s: %s\nand: %s"):format(what, a, b), 0) end
end

-- Calls the same on both: true and the answers, or false and the error. The outcome has to be
-- the same.
local function both(call)
  local ok, first = pcall(call, 1)
  local alsoOk, second = pcall(call, 2)
  for _, outcome in ipairs { { ok, first }, { alsoOk, second } } do
    if not outcome[1] and (type(outcome[2]) ~= "table" or not outcome[2].code) then error(outcome[2], 0) end
  end
  if ok ~= alsoOk then error(("one store succeeds, the other does not: %s / %s"):format(first, second), 0) end
  if ok then return true, { first, second } end
  if first.code ~= second.code then error(("different errors: %s / %s"):format(first, second), 0) end
  expectSame("conflicts", first.keys or {}, second.keys or {})
  return false, first
end

-- What succeeds on one and the other, and says the same.
local function sameAnswer(what, call)
  local ok, answers = both(call)
  if not ok then return nil end
  expectSame(what, answers[1], answers[2])
  return answers[1]
end

-- An event without what each store fills in for itself; a removal is no JSON, so it gets a name of
-- its own.
local function comparable(event)
  local copy = moonpad.toTable(event)
  if not copy.invocationId:find "^[ie]%d" then copy.invocationId, copy.timestamp = nil, nil end
  if not copy.id:find "^e%d+$" then copy.id = nil end
  for key, value in pairs(copy.actions and copy.actions.stateDelta or {}) do
    if value == removed then copy.actions.stateDelta[key] = "-removed-" end
  end
  return copy
end

---- A writer: a session object of each store, and what the model knows about it.

local Writer = {}
Writer.__index = Writer

function Writer.new(name, model)
  return setmetatable({ name = name, model = model, sessions = {} }, Writer)
end

-- It shows what is stored now.
function Writer:load()
  self.tick, self.view = self.model.tick, {}
  for key, value in pairs(self.model.values) do self.view[key] = value end
end

-- The same after a call that brings it up to date.
function Writer:catchUp()
  self:load()
  -- With nothing pending, what was read before counts as read now.
  if #self.pending == 0 then self.refreshed = self.tick end
end

function Writer:open(run)
  for index = 1, 2 do self.sessions[index] = run:get(index) end
  self.pending, self.bases, self.reads, self.model = {}, {}, {}, run.model
  self:catchUp()
  self.refreshed = self.tick
end

function Writer:noteRead(key)
  self.reads[key] = true
end

-- A value that is set stands for all that was pending of its key.
function Writer:note(key, kind, value)
  if kind == "set" then
    for index = #self.pending, 1, -1 do
      if self.pending[index][1] == key then table.remove(self.pending, index) end
    end
  end
  self.bases[key] = self.bases[key] or self.tick
  table.insert(self.pending, { key, kind, value })
end

function Writer:isPending(key)
  for _, write in ipairs(self.pending) do
    if write[1] == key then return true end
  end
  return false
end

-- Has it to conflict? Of keys that were read before, the base may be older than what is known here,
-- so that more may.
function Writer:mustConflict(writes, isByHand)
  for _, write in ipairs(writes) do
    local key = write[1]
    if write[2] == "set" and Model.isSessionKey(key) and not (isByHand and self:isPending(key)) then
      local base = not isByHand and self.bases[key] or self.tick
      if self.model:changedByOthers(key, self.name, base) then return key end
    end
  end
end

function Writer:expectConflict(err, writes)
  local written = {}
  for _, write in ipairs(writes) do written[write[1]] = write[2] == "set" or written[write[1]] end
  assert(#err.keys > 0)
  for _, key in ipairs(err.keys) do
    local isReason = written[key] and self.model:changedByOthers(key, self.name, self.refreshed)
      and (Model.isSessionKey(key) or self.reads[key] or self.readsAll)
    if not isReason then error("conflicts for no reason: " .. key, 0) end
  end
end

-- Of an increment or an append, on what is stored, nobody knows before whether it can be done.
local function hasOperation(writes)
  for _, write in ipairs(writes) do
    if write[2] ~= "set" then return true end
  end
  return false
end

-- After an attempt to store these writes.
function Writer:finish(ok, answers, event, writes, isByHand)
  if ok then
    local key = self:mustConflict(writes, isByHand)
    if key then error("should have conflicted: " .. key, 0) end
    self.model:append(self.name, event, writes)
    for index = 1, 2 do
      assert(answers[index].revision == #self.model.events and self.sessions[index].revision == #self.model.events)
    end
    expectSame("event", comparable(answers[1]), comparable(answers[2]))
    return self:catchUp()
  end
  if answers.code == "conflict" then return self:expectConflict(answers, writes) end
  assert(answers.code == "invalid_argument" and hasOperation(writes), tostring(answers))
end

-- What its session objects show: what it saw stored, and what is pending. What is temporary is
-- nobody's business here.
function Writer:shown()
  local shown = {}
  for key, value in pairs(self.view) do shown[key] = value end
  for _, write in ipairs(self.pending) do
    if not pcall(Model.apply, shown, table.unpack(write)) then return nil end
  end
  return shown
end

-- The same of one key, whatever is the matter with others: whether that can be said, and the value.
function Writer:shownOf(key)
  local shown = { [key] = self.view[key] }
  for _, write in ipairs(self.pending) do
    if write[1] == key and not pcall(Model.apply, shown, table.unpack(write)) then return false end
  end
  return true, shown[key]
end

local function withoutTemporary(state)
  local rest = {}
  for key, value in pairs(state) do rest[key] = not key:find "^temp:" and value or nil end
  return rest
end

function Writer:write(kind, key, value)
  local ok, answers = both(function(index)
    local state = self.sessions[index].state
    if value == removed then return state:delete(key) end
    return state[kind](state, key, value)
  end)
  if value == removed then self:noteRead(key) end
  -- What is not there to be deleted is no change.
  if ok and answers[1] ~= false then self:note(key, kind, value) end
end

---- Operations

local Run = {}
Run.__index = Run

function Run:get(index)
  return services[index]:getSession(self.who) or error("the session is gone", 0)
end

function Run:newInvocation()
  self.number = self.number + 1
  return "i" .. self.number
end

local OPERATIONS = {}

function OPERATIONS.set(_, writer, key, value) writer:write("set", key, value) end

OPERATIONS.setAgain = OPERATIONS.set

function OPERATIONS.increment(_, writer, key, _, number) writer:write("increment", key, number) end

function OPERATIONS.add(_, writer, key, value) writer:write("append", key, value ~= removed and value or 1) end

function OPERATIONS.nested(_, writer, key, _, number)
  for _, write in ipairs(writer.pending) do
    if write[1] == key and write[2] ~= "set" then return end
  end
  local wrote = sameAnswer("nested", function(index)
    local state = writer.sessions[index].state
    local node = state[key]
    if type(node) ~= "userdata" or node == moonpad.null then return moonpad.null end
    node[number % 2 == 0 and #node + 1 or "x"] = number
    return node
  end)
  writer:noteRead(key)
  if wrote and wrote ~= moonpad.null then writer:note(key, "set", moonpad.toTable(wrote)) end
end

function OPERATIONS.setDefault(_, writer, key, value)
  if value == removed then return end
  local isKnown, shown = writer:shownOf(key)
  local ok = sameAnswer("setDefault", function(index)
    return writer.sessions[index].state:setDefault(key, value)
  end)
  writer:noteRead(key)
  if ok ~= nil and not key:find "^temp:" and isKnown and shown == nil then writer:note(key, "set", value) end
end

-- What an event is known by that moonpad makes: each store has its own invocation for it.
local function ownEvent(events)
  return { invocationId = events[1].invocationId, alsoKnownAs = events[2].invocationId, timestamp = math.huge }
end

function OPERATIONS.update(run, writer)
  local writes = writer.pending
  local ok, events = both(function(index) return services[index]:updateSession(writer.sessions[index]) end)
  if ok and not events[1] then return assert(#writes == 0) end
  writer:finish(ok, events, ok and ownEvent(events), writes)
  if ok then
    writer.pending, writer.bases = {}, {}
    writer.refreshed = writer.tick
  end
  run.number = run.number + 1
end

-- The same asynchronously: what it carried is pending no longer once it is queued, whatever becomes
-- of it. After a failure the session object shows what is stored.
function OPERATIONS.updateLater(run, writer)
  local writes, queued = writer.pending, 0
  local ok, events = both(function(index)
    local pending = services[index]:updateSessionAsync(writer.sessions[index])
    if not pending then return nil end
    queued = queued + 1
    services[index]:poll(60)
    return pending:result()
  end)
  assert(queued == 0 or queued == 2)
  if ok and not events[1] then return assert(#writes == 0) end
  writer:finish(ok, events, ok and ownEvent(events), writes)
  run.number = run.number + 1
  if queued == 0 then return end
  writer.pending, writer.bases = {}, {}
  if ok then writer.refreshed = writer.tick else writer:load() end
end

-- After a failure the session object shows what is stored.
local function appendLater(writer, event)
  local ok, answers = both(function(index)
    local pending = services[index]:appendEventAsync(writer.sessions[index], event)
    services[index]:poll(60)
    return pending:result()
  end)
  if not ok then writer:load() end
  return ok, answers
end

local function appendNow(writer, event)
  return both(function(index) return services[index]:appendEvent(writer.sessions[index], event) end)
end

-- Two keys at once; the odd ones come with an id, which may have been there before.
function OPERATIONS.append(run, writer, key, value, number)
  local id = number % 2 == 1 and "e" .. number % 16 or nil
  local event = {
    id = id, author = "a", invocationId = id or run:newInvocation(), timestamp = number % 8 + 0.5,
    actions = { stateDelta = { [key] = value, b = number } },
  }
  local known = id and run.ids[id]
  local ok, answers = (number % 3 == 0 and appendLater or appendNow)(writer, event)
  if known then
    local isSame = known.key == key and known.value == value and known.number == number
    if not ok then return assert(not isSame and answers.code == "already_exists", tostring(answers)) end
    assert((isSame or key:find "^temp:" or known.key:find "^temp:") and answers[1].revision == known.revision)
    assert(writer.sessions[1].revision == #run.model.events and writer.sessions[2].revision == #run.model.events)
    writer:catchUp()
    return expectSame("again", comparable(answers[1]), comparable(answers[2]))
  end
  local writes = { { key, "set", value }, key ~= "b" and { "b", "set", number } or nil }
  if key == "b" then writes[1][3] = number end
  writer:finish(ok, answers, event, writes, true)
  if ok and id then run.ids[id] = { key = key, value = value, number = number, revision = answers[1].revision } end
end

function OPERATIONS.refresh(_, writer)
  for index = 1, 2 do services[index]:refresh(writer.sessions[index]) end
  writer:catchUp()
  writer.refreshed = writer.tick
  for key in pairs(writer.bases) do writer.bases[key] = writer.tick end
end

function OPERATIONS.read(_, writer, key)
  local shown = writer:shown()
  local value = sameAnswer("read", function(index) return { writer.sessions[index].state[key] } end)
  writer:noteRead(key)
  if shown and value and not key:find "^temp:" then expectSame("shown", value, { shown[key] }) end
  if #writer.pending > 0 then both(function(index) return encode(writer.sessions[index].state:delta()) end) end
end

function OPERATIONS.getAll(_, writer)
  local shown = writer:shown()
  local all = sameAnswer("getAll", function(index) return writer.sessions[index].state:getAll() end)
  writer.readsAll = true
  if shown and all then expectSame("shows", withoutTemporary(all), withoutTemporary(shown)) end
end

function OPERATIONS.open(run, writer) writer:open(run) end

function OPERATIONS.rewind(run, writer, _, _, number)
  if #writer.pending > 0 or #run.model.events == 0 then return end
  local target = run.model.events[number % #run.model.events + 1]
  local writes = run.model:rewindWrites(run.model.invocations[target.invocationId])
  local ok, events = both(function(index)
    local invocationId = index == 2 and target.alsoKnownAs or target.invocationId
    return services[index]:rewind(writer.sessions[index], { invocationId = invocationId })
  end)
  assert(ok, tostring(events))
  run.model:append(writer.name, ownEvent(events), writes)
  writer:catchUp()
end

function OPERATIONS.rewindToRevision(run, writer, _, _, number)
  if #writer.pending > 0 then return end
  local revision = number % (#run.model.events + 1)
  local writes = run.model:rewindWrites(revision)
  local ok, events = both(function(index)
    return services[index]:rewind(writer.sessions[index], { revision = revision })
  end)
  assert(ok, tostring(events))
  run.model:append(writer.name, ownEvent(events), writes)
  writer:catchUp()
end

function OPERATIONS.stateAt(run, writer, _, _, number)
  local revision = number % (#run.model.events + 1)
  local state = sameAnswer("stateAt", function(index)
    return services[index]:stateAt(writer.sessions[index], revision)
  end)
  expectSame("stateAt", state, run.model.snapshots[revision])
end

function OPERATIONS.fork(run, writer, _, _, number)
  local revision = number % (#run.model.events + 1)
  local who = { appName = run.who.appName, userId = "u", sessionId = "fork" }
  for index = 1, 2 do
    local fork = services[index]:fork(writer.sessions[index], { at = revision, sessionId = "fork" })
    assert(#fork.events == revision and fork.revision == revision, "fork")
    expectSame("fork", services[index]:stateAt(fork, revision), run.model.snapshots[revision])
    assert(services[index]:deleteSession(who))
  end
end

function OPERATIONS.shareState(run, _, key, value)
  if value == removed and key == "" then return end
  local ok = both(function(index)
    services[index]:updateUserState { appName = run.who.appName, userId = "u", state = { [key] = value } }
    services[index]:updateAppState { appName = run.who.appName, state = { [key] = value } }
  end)
  if not ok then return end
  run.model:write("update", "user:" .. key, "set", value)
  run.model:write("update", "app:" .. key, "set", value)
end

function OPERATIONS.incrementState(run, _, key, _, number)
  local sum = sameAnswer("incrementState", function(index)
    return services[index]:incrementState { appName = run.who.appName, userId = "u", key = key, by = number }
  end)
  if sum == nil then return end
  run.model:write("update", "user:" .. key, "increment", number)
  expectSame("incrementState", sum, run.model.values["user:" .. key])
end

-- A view of some events: those from a time on, and of these the last.
function OPERATIONS.view(run, _, _, _, number)
  local after, last = number % 16 < 8 and number % 8 or nil, number // 64
  local expected = {}
  for _, event in ipairs(run.model.events) do
    if not after or event.timestamp >= after then expected[#expected + 1] = event.invocationId end
  end
  expected = { table.unpack(expected, math.max(1, #expected - last + 1)) }
  for index = 1, 2 do
    local who = run.who
    local session = services[index]:getSession { appName = who.appName, userId = who.userId, sessionId = who.sessionId,
      numRecentEvents = last, afterTimestamp = after }
    assert(#session.events == #expected, "view")
    for position, event in ipairs(session.events) do
      -- What an update was given for an invocation differs between the stores.
      if event.timestamp < 100 then assert(event.invocationId == expected[position], "view") end
    end
  end
end

function OPERATIONS.list(run)
  local who = run.who
  for index, service in ipairs(services) do
    service:createSession { appName = who.appName, userId = "v", sessionId = "other" }
    local all, newest = service:listSessions { appName = who.appName },
      service:listSessions { appName = who.appName, order = "newest" }
    assert(#all == 2 and #newest == 2 and all[1].id == newest[2].id and all[2].id == newest[1].id, "list")
    local first, cursor = service:listSessions { appName = who.appName, limit = 1 }
    local second, noCursor = service:listSessions { appName = who.appName, limit = 1, after = cursor }
    assert(first[1].id == all[1].id and second[1].id == all[2].id and noCursor == nil, "pages")
    assert(#service:listSessions { appName = who.appName, userId = "u" } == 1, "list of a user")
    assert(services[index]:deleteSession { appName = who.appName, userId = "v", sessionId = "other" })
    expectSame("user", service:getUserState { appName = who.appName, userId = "u" }, run.model:shared "user:")
    expectSame("app", service:getAppState { appName = who.appName }, run.model:shared "app:")
  end
end

local function exported(service, session)
  local lines = {}
  for line in service:export(session) do lines[#lines + 1] = line end
  return lines
end

-- What comes out again is what went in, but for the name.
function OPERATIONS.import(run, writer)
  local who = { appName = run.who.appName, userId = "u", sessionId = "copy" }
  for index, service in ipairs(services) do
    local lines = exported(service, writer.sessions[index])
    local copy = service:import { lines = lines, sessionId = "copy" }
    assert(copy.revision == #run.model.events and #copy.events == copy.revision, "import")
    for revision = 0, copy.revision do
      expectSame("import", service:stateAt(copy, revision), run.model.snapshots[revision])
    end
    local again = exported(service, copy)
    again[1] = again[1]:gsub('"sessionId":"copy"', '"sessionId":"s"', 1)
    assert(table.concat(again) == table.concat(lines), "what is exported again differs")
    assert(service:deleteSession(who))
  end
end

-- Deleted and made again: session objects of the former one are of no use; `shared` is what stays.
local function beginAnew(run, writer, key, value, shared)
  run:create({ [key] = value ~= removed and not key:find ":" and value or nil }, shared)
  for _, stale in ipairs { "appendEvent", "refresh" } do
    local ok, err = both(function(index)
      return services[index][stale](services[index], writer.sessions[index], stale == "appendEvent" and {} or nil)
    end)
    assert(not ok and err.code == "not_found", "a stale session object is of use")
  end
  for _, each in ipairs(run.writers) do each:open(run) end
end

-- User and app state stay.
function OPERATIONS.delete(run, writer, key, value)
  local shared = {}
  for name, stored in pairs(run.model.values) do
    if not Model.isSessionKey(name) then shared[name] = stored end
  end
  for index = 1, 2 do assert(services[index]:deleteSession(run.who)) end
  beginAnew(run, writer, key, value, shared)
end

-- With the state of the user.
function OPERATIONS.forget(run, writer, key, value)
  local shared = {}
  for name, stored in pairs(run.model.values) do
    if name:find "^app:" then shared[name] = stored end
  end
  for index = 1, 2 do
    assert(services[index]:deleteUser { appName = run.who.appName, userId = run.who.userId } == 1)
  end
  beginAnew(run, writer, key, value, shared)
end

local NAMES = {}
for name in pairs(OPERATIONS) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

function Run:create(state, shared)
  self.model, self.ids = Model.new(state, shared), {}
  for index = 1, 2 do
    services[index]:createSession { appName = self.who.appName, userId = "u", sessionId = "s", state = state }
  end
end

local function newRun()
  local run = setmetatable({ who = { appName = "app" .. inputs, userId = "u", sessionId = "s" }, number = 0 }, Run)
  run:create({ a = 0, ["user:a"] = "u", list = { 1 } }, {})
  run.writers = { Writer.new("first", run.model), Writer.new("second", run.model) }
  for _, writer in ipairs(run.writers) do writer:open(run) end
  return run
end

-- What a fresh look at the stores shows, against the model.
function Run:check()
  for index = 1, 2 do
    local session = self:get(index)
    expectSame("state", session.state:getAll(), self.model.values)
    assert(session.revision == #self.model.events and #session.events == #self.model.events, "revision")
  end
end

return function(bytes)
  if inputs % RENEW_AFTER == 0 then renewServices() end
  inputs = inputs + 1
  local run = newRun()
  for position = 1, #bytes - 2, 3 do
    local choice, chosen, number = bytes:byte(position, position + 2)
    local writer = run.writers[choice // 128 + 1]
    local operation, key, value = OPERATIONS[NAMES[choice % #NAMES + 1]], KEYS[chosen % #KEYS + 1],
      VALUES[number % #VALUES + 1]
    if choice // 64 % 2 == 1 then
      inSteps(operation, run, writer, key, value, number)
    else
      operation(run, writer, key, value, number)
    end
  end
  run:check()
  for index = 1, 2 do assert(services[index]:deleteSession(run.who)) end
end
