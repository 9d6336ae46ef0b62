-- Writers of one session object, some of them branches side by side, and writers elsewhere,
-- against a list of all writes: who conflicts, on which keys, and what is stored (contract 1.4
-- point 5, 2.2).
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local moonpad = require "moonpad"
local random = require "spec.support.random_values"
local support = require "spec.support"

local KEYS = { "k", "l", "user:k", "app:k", "temp:k" }
local BRANCHES = { false, "p", "p.a", "p.ab", "p.b", "p.b.q.c", "p.b.q.d" }
local STEPS = checks.scaled(3000)

local seed = checks.seed()

local function scopeOf(key)
  local prefix = key:match "^(%a+):"
  return prefix == "temp" and "session" or prefix or "session"
end

local function isWithin(inner, outer)
  return inner == outer or inner:sub(1, #outer + 1) == outer .. "."
end

local function runBeside(one, other)
  return one and other and not isWithin(one, other) and not isWithin(other, one)
end

local function copyOf(revisions)
  return { session = revisions.session, user = revisions.user, app = revisions.app }
end

local Model = {}
Model.__index = Model

---All that is stored: values, and of each key its changes as { revision of its scope, by }. `by`
---is a branch; false: another writer of the session object; "elsewhere": anybody else.
local function newModel()
  local revisions = { session = 0, user = 0, app = 0 }
  return setmetatable({ values = {}, changes = {}, revisions = revisions, held = copyOf(revisions) }, Model)
end

function Model:change(by, delta, isEvent)
  local touched = isEvent and { session = true } or {}
  for key in pairs(delta) do
    if not key:find "^temp:" then touched[scopeOf(key)] = true end
  end
  for scope in pairs(touched) do self.revisions[scope] = self.revisions[scope] + 1 end
  for key, value in pairs(delta) do
    if value == moonpad.removed then value = nil end
    self.values[key] = value
    self.changes[key] = self.changes[key] or {}
    table.insert(self.changes[key], { revision = self.revisions[scopeOf(key)], by = by })
  end
end

function Model:hasChangedSince(key, base, counts)
  for _, change in ipairs(self.changes[key] or {}) do
    if change.revision > base and counts(change.by) then return true end
  end
  return false
end

-- Does somebody's change stand against a write by `branch`?
function Model:standsAgainst(key, base, read, branch)
  local function isElsewhere(by) return by == "elsewhere" end
  local function isBeside(by) return by ~= "elsewhere" and runBeside(by, branch) end
  local isChecked = read or scopeOf(key) == "session"
  return isChecked and self:hasChangedSince(key, base, isElsewhere) or
    read and self:hasChangedSince(key, base, isBeside)
end

---A change set and what the model knows of it: of each key { base, read, write }.
local Writer = {}
Writer.__index = Writer

local function newWriter(model, state, branch)
  return setmetatable({ model = model, state = state, branch = branch, marks = {}, cleanAt = { session = 0, user = 0,
    app = 0 } }, Writer)
end

function Writer:touch(key)
  local scope, mark = scopeOf(key), self.marks[key]
  if not mark then
    mark = { base = self.model.held[scope] }
    self.marks[key] = mark
  end
  if not mark.write then mark.base = math.max(mark.base, self.cleanAt[scope]) end
  return mark
end

function Writer:read(key)
  local mark = self:touch(key)
  -- What it reads of its own writing tells nothing about others.
  if not mark.write or mark.write.add then mark.read = true end
  return self.state[key]
end

function Writer:write(key, value)
  self:touch(key).write = { value = value }
  if value == moonpad.removed then value = nil end
  self.state[key] = value
end

function Writer:add(key, by)
  local write = self:touch(key).write
  if not write then
    self.marks[key].write = { add = by }
  elseif write.add then
    write.add = write.add + by
  else
    write.value = (write.value ~= moonpad.removed and write.value or 0) + by
  end
  self.state:increment(key, by)
end

-- What a commit would store, and the keys that conflict.
function Writer:expected()
  local delta, conflicts = {}, {}
  for key, mark in pairs(self.marks) do
    local write = mark.write
    if write then
      delta[key] = write.add and (self.model.values[key] or 0) + write.add or write.value
      if not write.add and self.model:standsAgainst(key, mark.base, mark.read, self.branch) then
        conflicts[#conflicts + 1] = key
      end
    end
  end
  table.sort(conflicts)
  return delta, conflicts
end

-- Its writes have been taken by an append.
function Writer:forgetWrites()
  for key, mark in pairs(self.marks) do
    if mark.write then self.marks[key] = nil end
  end
end

local function expectConflicts(conflicts, err)
  assert(err.code == "conflict", tostring(err))
  table.sort(err.keys)
  assert(table.concat(err.keys, " ") == table.concat(conflicts, " "),
    ("conflicts on %s, not on %s"):format(table.concat(err.keys, " "), table.concat(conflicts, " ")))
end

-- `commit`: stores what is pending at once. Whoever refused it has seen nothing.
function Writer:commit(commit)
  local model = self.model
  local delta, conflicts = self:expected()
  local ok, err = pcall(commit, self.state)
  if not ok then return expectConflicts(conflicts, err) end
  assert(#conflicts == 0, "does not conflict on " .. table.concat(conflicts, " "))
  model:change(self.branch, delta, true)
  model.held = copyOf(model.revisions)
  self:forgetWrites()
  self.cleanAt = copyOf(model.held)
end

local function isPending(writer)
  for _, mark in pairs(writer.marks) do
    if mark.write then return true end
  end
  return false
end

local Scene = {}
Scene.__index = Scene

local function newScene(service)
  checks.create(service)
  local model, session = newModel(), checks.get(service)
  local scene = setmetatable({ service = service, model = model, session = session, theirs = checks.get(service),
    writers = {} }, Scene)
  for index = 1, #BRANCHES * 2 do scene:beginWriter(index) end
  scene.own = newWriter(model, session.state, false)
  scene.writers[#scene.writers + 1] = scene.own
  return scene
end

-- A change set in place of the one that was there.
function Scene:beginWriter(index)
  local branch = BRANCHES[(index - 1) % #BRANCHES + 1]
  local state = core.beginChanges(self.session, branch or nil)
  self.writers[index] = newWriter(self.model, state, branch)
end

function Scene:refresh()
  local model = self.model
  self.service:refresh(self.session)
  model.held = copyOf(model.revisions)
  for _, writer in ipairs(self.writers) do
    for key, mark in pairs(writer.marks) do mark.base = model.held[scopeOf(key)] end
  end
end

function Scene:writeElsewhere(key, value)
  if key:find "^temp:" then return end
  if key == "user:k" and value ~= moonpad.removed and value % 2 == 0 then
    self.service:updateUserState { appName = "app", userId = "u", state = { k = value } }
    return self.model:change("elsewhere", { [key] = value })
  end
  self.service:refresh(self.theirs)
  checks.append(self.service, self.theirs, { [key] = value })
  self.model:change("elsewhere", { [key] = value }, true)
end

function Scene:commit(writer)
  if writer ~= self.own then
    return writer:commit(function(state) core.commit(state, { author = "A" }) end)
  end
  if isPending(writer) then
    writer:commit(function() self.service:updateSession(self.session) end)
  end
end

-- The base of an event by hand is what the object holds; the reads of the object's own change set
-- count.
function Scene:appendByHand(key, value)
  local model = self.model
  self.own:read(key)
  local read = self.own.marks[key].read
  local conflicts = model:standsAgainst(key, model.held[scopeOf(key)], read, false) and { key } or {}
  local ok, err = pcall(checks.append, self.service, self.session, { [key] = value })
  if not ok then return expectConflicts(conflicts, err) end
  assert(#conflicts == 0, "does not conflict by hand on " .. key)
  model:change(false, { [key] = value }, true)
  model.held = copyOf(model.revisions)
  if not isPending(self.own) then self.own.cleanAt = copyOf(model.held) end
end

function Scene:outcomeOf(append)
  while true do
    local ok, result = pcall(append.result, append)
    if not ok or result then return ok, result end
    self.service:poll(support.TIMEOUT_SECONDS)
  end
end

-- Several appends are under way at once, the later ones built on those before them; behind one that
-- fails all do.
function Scene:appendAsync(values)
  local appends, expected, failed = {}, {}, false
  for index = 1, 1 + values:below(4) do
    local key = values:pick(KEYS)
    if values:below(2) == 0 then self.own:read(key) end
    self.own:write(key, values:below(1000))
    local delta, conflicts = self.own:expected()
    failed = failed or #conflicts > 0
    if not failed then self.model:change(false, delta, true) end
    appends[index], expected[index] = self.service:updateSessionAsync(self.session), not failed
    self.own:forgetWrites()
  end
  for index, append in ipairs(appends) do
    local ok, result = self:outcomeOf(append)
    assert(ok == expected[index], ("append %d: %s"):format(index, tostring(result)))
    assert(ok or result.code == "conflict", tostring(result))
  end
  -- One that was refused has found what is stored as well.
  self:refresh()
end

local function step(values, scene)
  local index = 1 + values:below(#scene.writers)
  local writer, key = scene.writers[index], values:pick(KEYS)
  local value = values:below(5) == 0 and moonpad.removed or values:below(1000)
  local action = values:below(20)
  if action <= 3 then
    writer:read(key)
  elseif action <= 6 then
    writer:write(key, value)
  elseif action == 7 then
    writer:read(key)
    writer:write(key, value)
  elseif action == 8 then
    writer:add(key, values:below(1000))
  elseif action <= 13 then
    scene:commit(writer)
  elseif action <= 15 then
    scene:writeElsewhere(key, value)
  elseif action == 16 then
    scene:appendByHand(key, value)
  elseif action == 17 then
    scene:appendAsync(values)
  elseif action == 18 and writer ~= scene.own then
    scene:beginWriter(index)
  elseif values:below(4) == 0 then
    scene:refresh()
  end
end

describe("writers of one session object", function()
  support.each_store(function(open)
    it("conflict exactly when a list of all writes says so, and store what it says", function()
      local values, service = random.new(seed), open { durability = "normal" }
      local scene = newScene(service)
      for number = 1, STEPS do
        local ok, message = pcall(step, values, scene)
        assert(ok, ("MOONPAD_SEED=%d, step %d: %s"):format(seed, number, tostring(message)))
        if number % 50 == 0 then
          local stored = {}
          for key, value in pairs(scene.model.values) do
            if not key:find "^temp:" then stored[key] = value end
          end
          checks.identical(stored, checks.get(service).state:getAll())
        end
      end
      assert.is_true(checks.get(service).revision > STEPS / 10)
    end)
  end)
end)
