-- Random operations on a memory and an SQLite store side by side: every answer is the same on both, and what is stored
-- is what the model holds. Two bytes choose an operation and its argument.
local moonpad = require "moonpad"
local folder = os.getenv "MOONPAD_FUZZ_LUA" or "spec/fuzz"
local Model = dofile(folder .. "/model.lua")

local encode = moonpad.json.encode
local KEYS = { "a", "b", "user:a", "user:n", "app:a", "app:n", "temp:t", "n", "list", "user:list", "app:app:x", "" }
local VALUES = {
  1, 2.5, "text", true, { 1, 2, 3 }, { x = { y = 1 } }, moonpad.null, math.mininteger, moonpad.array {}, {}, "ä\0😀",
  moonpad.removed, -0.0, { { {} } },
}
local RENEW_AFTER = 3000 -- inputs; user and app state stay behind, so the stores would grow

local services, inputs = nil, 0

local function renewServices()
  for _, service in ipairs(services or {}) do service:close() end
  services = { moonpad.open "memory:", moonpad.open "sqlite::memory:" }
end

-- Calls the same on both: (true, answers) or (false). Anything else than the same outcome is a finding.
local function both(call)
  local outcomes = {}
  for index = 1, 2 do
    local ok, answer = pcall(call, index)
    if not ok and (type(answer) ~= "table" or not answer.code) then error(answer, 0) end
    outcomes[index] = { ok = ok, answer = answer }
  end
  local first, second = outcomes[1], outcomes[2]
  if first.ok ~= second.ok then
    error(("one store succeeds, the other does not: %s / %s"):format(first.answer, second.answer), 0)
  end
  if first.ok then return true, { first.answer, second.answer } end
  assert(first.answer.code == second.answer.code, "different errors")
  assert(encode(first.answer.keys or {}) == encode(second.answer.keys or {}), "different conflicts")
  return false
end

local function expectSame(what, one, other)
  local a, b = encode(one), encode(other)
  if a ~= b then error(("%s: %s\nand: %s"):format(what, a, b), 0) end
end

local Run = {}
Run.__index = Run

function Run:get(index)
  local session = services[index]:getSession(self.who)
  return session or error("the session is gone", 0)
end

-- What a fresh look at the stores shows, against the model.
function Run:check()
  local shown = {}
  for key, value in pairs(self.model.values) do shown[key] = value end
  for index = 1, 2 do
    local session = self:get(index)
    expectSame("state", session.state:getAll(), shown)
    assert(session.revision == self.model.revision and #session.events == self.model.revision, "revision")
  end
end

-- A value that is set stands for all that was pending of its key.
local function forget(pending, key)
  for index = #pending, 1, -1 do
    if pending[index][1] == key then table.remove(pending, index) end
  end
end

local function apply(writer, key, kind, value)
  local ok, answers = both(function(index)
    local state = writer.sessions[index].state
    if value == moonpad.removed then return state:delete(key) end
    return state[kind](state, key, value)
  end)
  -- What is not there to be deleted is no change.
  if not ok or answers[1] == false then return end
  if kind == "set" then forget(writer.pending, key) end
  table.insert(writer.pending, { key, kind, value })
end

function Run:newInvocation()
  self.number = self.number + 1
  return "i" .. self.number
end

local OPERATIONS = {
  function(_, writer, key, value) apply(writer, key, "set", value) end,
  function(_, writer, key, value) apply(writer, key, "set", value) end,
  function(_, writer, key) apply(writer, key, "increment", #key + 1) end,
  function(_, writer, key, value) apply(writer, key, "append", value ~= moonpad.removed and value or 1) end,
  function(run, writer) -- updateSession
    local ok, events = both(function(index) return services[index]:updateSession(writer.sessions[index]) end)
    if ok and events[1] then run.model:append("update", writer.pending) end
    if ok then writer.pending = {} end
  end,
  function(run, writer, key, value) -- appendEvent
    local id = run:newInvocation()
    local ok = both(function(index)
      return services[index]:appendEvent(writer.sessions[index],
        { author = "a", invocationId = id, timestamp = 1.5, actions = { stateDelta = { [key] = value } } })
    end)
    if ok then run.model:append(id, { { key, "set", value } }) end
  end,
  function(_, writer) both(function(index) return services[index]:refresh(writer.sessions[index]).revision end) end,
  function(_, writer, key) -- read
    local ok, answers = both(function(index) return { value = writer.sessions[index].state[key] } end)
    if not ok then return end -- a pending increment of what has become a text meanwhile
    expectSame("read", answers[1], answers[2])
    if #writer.pending == 0 then return end
    both(function(index) return encode(writer.sessions[index].state:delta()) end)
  end,
  function(run, writer) -- a new session object instead
    for index = 1, 2 do writer.sessions[index] = run:get(index) end
    writer.pending = {}
  end,
  function(run, writer, _, _, number) -- rewind
    if #writer.pending > 0 or run.number == 0 then return end
    local target = "i" .. number % run.number + 1
    local ok, events = both(function(index)
      return services[index]:rewind(writer.sessions[index], { invocationId = target })
    end)
    if ok then run.model:rewind(target, events[1].invocationId) end
  end,
  function(run, writer, _, _, number) -- stateAt
    local revision = number % (run.model.revision + 1)
    local ok, answers = both(function(index) return services[index]:stateAt(writer.sessions[index], revision) end)
    if not ok then return end
    expectSame("stateAt", answers[1], run.model.snapshots[revision])
    expectSame("stateAt", answers[1], answers[2])
  end,
  function(run, writer, _, _, number) -- fork
    local revision = number % (run.model.revision + 1)
    local ok, forks = both(function(index)
      return services[index]:fork(writer.sessions[index], { at = revision, sessionId = "fork" })
    end)
    if not ok then return end
    for index = 1, 2 do
      assert(#forks[index].events == revision and forks[index].revision == revision, "fork")
      expectSame("fork", services[index]:stateAt(forks[index], revision), run.model.snapshots[revision])
      assert(services[index]:deleteSession { appName = run.who.appName, userId = "u", sessionId = "fork" })
    end
  end,
  function(run, _, key, value) -- updateUserState, updateAppState
    if value == moonpad.removed and key == "" then return end
    local ok = both(function(index)
      services[index]:updateUserState { appName = run.who.appName, userId = "u", state = { [key] = value } }
      services[index]:updateAppState { appName = run.who.appName, state = { [key] = value } }
    end)
    if not ok then return end
    run.model:write("user:" .. key, "set", value)
    run.model:write("app:" .. key, "set", value)
  end,
  function(run, _, key, _, number) -- incrementState
    local ok, sums = both(function(index)
      return services[index]:incrementState { appName = run.who.appName, userId = "u", key = key, by = number }
    end)
    if not ok then return end
    run.model:write("user:" .. key, "increment", number)
    expectSame("incrementState", sums[1], run.model.values["user:" .. key])
    expectSame("incrementState", sums[1], sums[2])
  end,
  function(run) -- the shared states and the list
    for index = 1, 2 do
      local who = run.who
      expectSame("user", services[index]:getUserState { appName = who.appName, userId = "u" }, run.model:shared "user:")
      expectSame("app", services[index]:getAppState { appName = who.appName }, run.model:shared "app:")
      assert(#services[index]:listSessions { appName = who.appName } == 1, "list")
    end
  end,
}

local function newRun()
  local initial = { a = 0, ["user:a"] = "u", list = { 1 } }
  local run = setmetatable({ who = { appName = "app" .. inputs, userId = "u", sessionId = "s" }, number = 0 }, Run)
  run.model = Model.new(initial)
  run.writers = { { sessions = {}, pending = {} }, { sessions = {}, pending = {} } }
  for index = 1, 2 do
    local options = { appName = run.who.appName, userId = "u", sessionId = "s", state = initial }
    run.writers[1].sessions[index] = services[index]:createSession(options)
    run.writers[2].sessions[index] = run:get(index)
  end
  return run
end

return function(bytes)
  if inputs % RENEW_AFTER == 0 then renewServices() end
  inputs = inputs + 1
  local run = newRun()
  for position = 1, #bytes - 1, 2 do
    local choice, argument = bytes:byte(position, position + 1)
    OPERATIONS[choice % #OPERATIONS + 1](run, run.writers[choice // 128 + 1], KEYS[argument % #KEYS + 1],
                                         VALUES[argument % #VALUES + 1], argument)
  end
  run:check()
  for index = 1, 2 do assert(services[index]:deleteSession(run.who)) end
end
