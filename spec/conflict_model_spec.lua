-- Random writers, runs among them, against a small model of contract 2.2: who conflicts, on which
-- keys, and what is stored in the end.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local random = require "spec.support.random_values"
local randomRun = require "spec.support.random_run"
local support = require "spec.support"

local KEYS = { "a", "b", "user:a", "user:b", "app:a" }
local COUNTERS = { "n", "user:n" }
local LISTS = { "l", "app:l" }
-- A run reads the history, so no session is to grow for long.
local ROUNDS <const> = 12
local STEPS = checks.scaled(250)
local RUNS <const> = 18 -- one step in so many is a run

local seed = checks.seed()

local function scopeOf(key)
  return key:match "^(%a+):" or "session"
end

-- A template shows what a session object shows, and does not count as a read.
local function template()
  local places = {}
  for _, list in ipairs { KEYS, COUNTERS, LISTS } do
    for _, key in ipairs(list) do places[#places + 1] = "{" .. key .. "?}" end
  end
  return table.concat(places, "|")
end
local SHOWN = template()

---What the store should hold: values, and of each key the changes as { revision of its scope,
---writer }.
local Model = {}
Model.__index = Model

function Model.new()
  return setmetatable({ values = {}, changes = {}, revisions = { session = 0, user = 0, app = 0 } }, Model)
end

-- One event, or one update of user or app state: each scope that it touches counts up by one, the
-- session by every event.
function Model:change(writer, delta, isEvent)
  local touched = isEvent and { session = true } or {}
  for key in pairs(delta) do touched[scopeOf(key)] = true end
  for scope in pairs(touched) do self.revisions[scope] = self.revisions[scope] + 1 end
  for key, value in pairs(delta) do
    if value == moonpad.removed then value = nil end
    self.values[key] = value
    self.changes[key] = self.changes[key] or {}
    table.insert(self.changes[key], { revision = self.revisions[scopeOf(key)], writer = writer })
  end
end

function Model:changedByOthers(key, writer, base)
  for _, change in ipairs(self.changes[key] or {}) do
    if change.revision > base and change.writer ~= writer then return true end
  end
  return false
end

-- What the key holds once numbers were added to it, or items: { item } each.
function Model:added(key, adds)
  local stored = self.values[key]
  if type(adds[1]) == "number" then
    local sum = stored or 0
    for _, amount in ipairs(adds) do sum = sum + amount end
    return sum
  end
  local list = { table.unpack(stored or {}) }
  for _, item in ipairs(adds) do table.insert(list, item[1]) end
  return list
end

Model.scopeOf = scopeOf

function Model:held()
  return { session = self.revisions.session, user = self.revisions.user, app = self.revisions.app }
end

---A session object and what the model knows about it.
local Writer = {}
Writer.__index = Writer

function Writer.new(name, service, model)
  return setmetatable({
    name = name, service = service, model = model, session = checks.get(service), held = model:held(),
    pending = {}, -- of each key that was written: base, read, and the value or what is to be added
    -- of each key that was read since the object was last clean: the revision that was held then
    reads = {},
    -- A read from before the last commit of other keys, and a look at everything from before the
    -- last commit of a key: whether they still count is left open, so both answers will do for what
    -- others have changed since.
    formerReads = {},
    committed = {},
    lookedAtAll = false,
  }, Writer)
end

function Writer:noteRead(key)
  -- What a writer reads back of its own pending write tells nothing about others.
  if not self.pending[key] then self.reads[key] = self.reads[key] or self.held[scopeOf(key)] end
end

function Writer:read(key)
  self:noteRead(key)
  return self.session.state[key]
end

function Writer:readAll()
  for _, key in ipairs(KEYS) do self:noteRead(key) end
  self.lookedAtAll = true
  return self.session.state:getAll()
end

function Writer:write(key, value)
  local pending = self.pending[key]
  if not pending then
    local base = self.reads[key]
    pending = {
      base = base or self.held[scopeOf(key)], read = base ~= nil,
      openBase = self.formerReads[key] or self.lookedAtAll and self.committed[key] or nil,
    }
    self.pending[key] = pending
  end
  pending.value = value
  self.session.state[key] = value ~= moonpad.removed and value or nil
end

function Writer:add(key, amount)
  local pending = self.pending[key] or { adds = {} }
  self.pending[key] = pending
  table.insert(pending.adds, amount)
  if type(amount) == "number" then
    self.session.state:increment(key, amount)
  else
    self.session.state:append(key, amount[1])
  end
end

-- What a commit would store, the keys that conflict, and those that may.
function Writer:expected()
  local delta, conflicts, open = {}, {}, {}
  for key, pending in pairs(self.pending) do
    delta[key] = pending.adds and self.model:added(key, pending.adds) or pending.value
    if not pending.adds then
      local checked = scopeOf(key) == "session" or pending.read
      conflicts[key] = checked and self.model:changedByOthers(key, self.name, pending.base) or nil
      open[key] = pending.openBase and self.model:changedByOthers(key, self.name, pending.openBase) or nil
    end
  end
  return delta, conflicts, open
end

local function expectConflict(err, conflicts, open)
  assert(err.code == "conflict", tostring(err))
  local named = {}
  for _, key in ipairs(err.keys) do
    assert(conflicts[key] or open[key], "conflicts for no reason: " .. key)
    named[key] = true
  end
  for key in pairs(conflicts) do assert(named[key], "is not named: " .. key) end
end

function Writer:commit()
  local delta, conflicts, open = self:expected()
  local ok, result = pcall(self.service.updateSession, self.service, self.session)
  if not ok then return expectConflict(result, conflicts, open) end
  assert(next(conflicts) == nil, "should have conflicted")
  if next(delta) == nil then return assert(result == nil) end
  checks.identical(delta, result.actions.stateDelta)
  self.model:change(self.name, delta, true)
  for key, base in pairs(self.reads) do self.formerReads[key] = self.formerReads[key] or base end
  self.held = self.model:held()
  for key in pairs(self.pending) do
    self.formerReads[key], self.committed[key] = nil, self.held[scopeOf(key)]
  end
  self.pending, self.reads = {}, {}
end

function Writer:refresh()
  self.service:refresh(self.session)
  self.held = self.model:held()
  for _, revisions in ipairs { self.reads, self.formerReads, self.committed } do
    for key in pairs(revisions) do revisions[key] = self.held[scopeOf(key)] end
  end
  for key, pending in pairs(self.pending) do
    pending.base = self.held[scopeOf(key)]
    pending.openBase = pending.openBase and pending.base
  end
end

-- A delta by hand, on a key that is not pending here.
function Writer:appendByHand(key, value)
  if self.pending[key] then return end
  local conflicts, open, scope = {}, {}, scopeOf(key)
  if self.model:changedByOthers(key, self.name, self.held[scope]) then
    if scope == "session" or self.reads[key] then
      conflicts[key] = true
    else
      open[key] = self.formerReads[key] or self.lookedAtAll and self.committed[key]
    end
  end
  local ok, result = pcall(checks.append, self.service, self.session, { [key] = value })
  if not ok then return expectConflict(result, conflicts, open) end
  assert(next(conflicts) == nil, "should have conflicted")
  self.model:change(self.name, { [key] = value }, true)
  self.held = self.model:held()
  -- With nothing pending the object is clean: what was read before counts as read now.
  if next(self.pending) == nil then
    for read in pairs(self.reads) do self.reads[read] = self.held[scopeOf(read)] end
  end
  self:expectToShow "after an own append"
end

function Writer:expectToShow(what)
  local expected = {}
  for key, value in pairs(self.model.values) do expected[key] = value end
  for key, value in pairs((self:expected())) do expected[key] = value ~= moonpad.removed and value or nil end
  local shown = moonpad.injectSessionState(SHOWN, self.session.state)
  local wanted = moonpad.injectSessionState(SHOWN, moonpad.state(expected))
  assert(shown == wanted, ("%s: shows %s, not %s"):format(what, shown, wanted))
end

local function step(values, service, model, writers)
  local writer = values:pick(writers)
  local key, number = values:pick(KEYS), values:below(1000)
  local action = values:below(18)
  if action <= 1 then
    writer:read(key)
    writer:write(key, number)
  elseif action <= 3 then
    writer:write(key, { number })
  elseif action == 4 then
    writer:write(key, moonpad.removed)
  elseif action == 5 then
    writer:add(values:pick(COUNTERS), number)
  elseif action == 6 then
    writer:add(values:pick(LISTS), { number })
  elseif action <= 9 then
    writer:commit()
  elseif action <= 12 then
    writer:refresh()
    writer:expectToShow "after a refresh"
  elseif action <= 14 then
    writer:appendByHand(key, values:below(3) == 0 and moonpad.removed or number)
  elseif action == 15 then
    local value = values:below(3) == 0 and moonpad.removed or number
    service:updateUserState { appName = "app", userId = "u", state = { a = value } }
    model:change("update", { ["user:a"] = value })
  elseif action == 16 then
    service:incrementState { appName = "app", userId = "u", key = "n", by = number }
    model:change("increment", { ["user:n"] = (model.values["user:n"] or 0) + number })
  elseif values:below(4) == 0 then
    writer:readAll()
  else
    writer:read(key)
  end
end

-- A run, in whose middle the others do a step now and then.
local function run(values, service, model, writers)
  local err, conflicts = randomRun(service, {
    values = values, model = model, keys = { plain = KEYS, counters = COUNTERS, lists = LISTS },
    othersAct = function() step(values, service, model, writers) end,
  })
  if err then expectConflict(err, conflicts, {}) end
end

local function expectStored(model, service)
  local session = checks.get(service)
  assert.equal(model.revisions.session, session.revision)
  checks.identical(model.values, session.state:getAll())
end

-- Returns how many events there are in the end.
local function playRound(values, service)
  local model = Model.new()
  checks.create(service)
  local writers = {}
  for index = 1, 3 do writers[index] = Writer.new(index, service, model) end
  for number = 1, STEPS do
    local act = values:below(RUNS) == 0 and run or step
    act(values, service, model, writers)
    if number % 50 == 0 or number == STEPS then expectStored(model, service) end
  end
  return model.revisions.session
end

describe("random writers", function()
  support.each_store(function(open)
    it("conflict exactly when the model says so, and store what it says", function()
      local values, events = random.new(seed), 0
      for round = 1, ROUNDS do
        local service <close> = open { durability = "normal" }
        local ok, result = pcall(playRound, values, service)
        assert(ok, ("MOONPAD_SEED=%d, round %d: %s"):format(seed, round, tostring(result)))
        events = events + result
      end
      assert.is_true(events > ROUNDS * STEPS / 30)
    end)
  end)
end)
