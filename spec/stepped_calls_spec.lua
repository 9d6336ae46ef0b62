-- Calls that ask a store, where a run is stepped: they yield until a worker has made them, and are
-- otherwise what they are elsewhere (contract 2).
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local slow_store = require "spec.support.slow_store"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(6)

-- Far beyond what anything takes: never waited for that long.
local TIMEOUT_SECONDS <const> = support.TIMEOUT_SECONDS

-- ---- A step by hand ----

local function begin(service, call, ...)
  local thread = coroutine.create(call)
  core.threads[thread] = true
  local run = { thread = thread, service = service, waits = 0 }
  function run:resume(...)
    local before = core.stepWith(self.service)
    local answer = table.pack(coroutine.resume(self.thread, ...))
    core.stepWith(before)
    self.answer = answer
    self.done = coroutine.status(self.thread) == "dead"
    if not self.done then
      assert.are.equal(2, answer.n)
      assert.are.equal(core.ASKS_STORE, answer[2])
      self.waits = self.waits + 1
    end
    return self
  end
  -- To its end: what it returned, as pcall does.
  function run:finish()
    while not self.done and not self:resume().done do core.idle(TIMEOUT_SECONDS) end
    return table.unpack(self.answer, 1, self.answer.n)
  end
  return run:resume(...)
end

-- A call that asks the store at once.
local function beginWaiting(...)
  local run = begin(...)
  assert.is_false(run.done, "it does not yield")
  return run
end

-- As pcall, and how often it yielded.
local function stepped(service, call, ...)
  local run = begin(service, call, ...)
  local answer = table.pack(run:finish())
  return run.waits, table.unpack(answer, 1, answer.n)
end

-- ---- Scenes ----

local function event(delta, fields)
  local made = { author = "agent", actions = { stateDelta = delta } }
  for name, value in pairs(fields or {}) do made[name] = value end
  return made
end

-- A session of 20 events, more than one page has, and state of all scopes.
local function fill(service)
  local session = checks.create(service, "s", { n = 0, list = { 1, 2 }, ["user:u"] = true, ["app:a"] = "x" })
  for i = 1, 20 do
    service:appendEvent(session, event({ n = i, ["k" .. i % 7] = { i } },
      { id = "e" .. i, timestamp = 1000.0 + i, invocationId = "i" .. (i + 1) // 2 }))
  end
  return session
end

local function lines(service, session)
  local all = {}
  for line in service:export(session) do all[#all + 1] = line end
  return all
end

-- Everything else is the same in two stores.
local function withoutTimes(text)
  return (text:gsub('"createTime":[%d.e+]+', '"createTime":0'))
end

local function described(session)
  if not session then return session end
  return { session.appName, session.userId, session.id, session.revision, session.conversationCount,
    session.state:getAll() }
end

local function told(stored)
  return { stored.author, stored.revision, stored.content, moonpad.toTable(stored.actions), stored.removedStateKeys }
end

local function another(service)
  return service:getSession { appName = "app", userId = "u", sessionId = "s", numRecentEvents = 2 }
end

local LONG <const> = ("a text that goes on \u{e9} "):rep(60000)

-- Each asks the store; what it returns is compared.
local CALLS = {
  ["getAppState"] = function(service) return service:getAppState { appName = "app" } end,
  ["getAppState of nobody"] = function(service) return service:getAppState { appName = "nobody" } end,
  ["getUserState"] = function(service) return service:getUserState { appName = "app", userId = "u" } end,
  ["updateAppState"] = function(service)
    local none = select("#", service:updateAppState { appName = "app", state = {
      a = moonpad.removed, deep = { { { moonpad.null, 1, 1.5, "" } } }, [""] = false, [LONG:sub(1, 200)] = LONG } })
    return none, service:getAppState { appName = "app" }
  end,
  ["updateUserState"] = function(service)
    service:updateUserState { appName = "app", userId = "u", state = { u = moonpad.removed, v = moonpad.array {} } }
    return service:getUserState { appName = "app", userId = "u" }
  end,
  ["updateUserState of nothing"] = function(service)
    service:updateUserState { appName = "app", userId = "u", state = {} }
    return service:getUserState { appName = "app", userId = "u" }
  end,
  ["incrementState of an app"] = function(service)
    local sums = {}
    for _, by in ipairs { 1, 0.5, -3, math.maxinteger } do
      sums[#sums + 1] = service:incrementState { appName = "app", key = "sum", by = by }
    end
    return sums, math.type(sums[1]), math.type(sums[2])
  end,
  ["incrementState of a user"] = function(service)
    return service:incrementState { appName = "app", userId = "u", key = "sum" }
  end,
  ["incrementState of a text"] = function(service)
    service:incrementState { appName = "app", key = "a" }
  end,
  ["incrementState beyond what there is"] = function(service)
    service:incrementState { appName = "app", key = "big", by = math.maxinteger }
    service:incrementState { appName = "app", key = "big", by = 1 }
  end,
  ["an app that is no text"] = function(service) service:getAppState { appName = "a\0b" } end,
  ["a key that is too long"] = function(service)
    service:updateAppState { appName = "app", state = { [("k"):rep(100000)] = 1 } }
  end,
  ["stateAt"] = function(service, session)
    return service:stateAt(session, 0), service:stateAt(session, 17), service:stateAt(session, 20.0)
  end,
  ["stateAt a revision that there is not"] = function(service, session) service:stateAt(session, 21) end,
  ["stateAt of a session that has gone"] = function(service, session)
    service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
    service:stateAt(session, 1)
  end,
  ["fork"] = function(service, session)
    local forked = service:fork(session, { at = 13, sessionId = "f" })
    return described(forked), described(checks.get(service, "f")), #lines(service, forked)
  end,
  ["fork without a name"] = function(service, session)
    local forked = service:fork(session, { at = 20 })
    return #forked.id, forked.revision, described(checks.get(service, forked.id))[6]
  end,
  ["fork where there is one"] = function(service, session) service:fork(session, { at = 1, sessionId = "s" }) end,
  ["fork beyond the end"] = function(service, session) service:fork(session, { at = 21 }) end,
  ["events from the first to the last"] = function(service)
    local ids, fresh = {}, checks.get(service)
    for i = 0, #fresh.events + 1 do ids[i + 1] = fresh.events[i] and fresh.events[i].id or false end
    return ids
  end,
  ["events from the last to the first"] = function(service)
    local ids, fresh = {}, checks.get(service)
    for i = #fresh.events, 1, -1 do ids[#ids + 1] = fresh.events[i].id end
    return ids
  end,
  ["pairs of events"] = function(service)
    local found = {}
    for i, one in pairs(checks.get(service).events) do found[i] = one.id .. one.revision end
    return found
  end,
  ["events after a time"] = function(service)
    local filtered = service:getSession { appName = "app", userId = "u", sessionId = "s", afterTimestamp = 1005.0,
      numRecentEvents = 12 }
    local count, found = #filtered.events, {}
    for i, one in pairs(filtered.events) do found[i] = one.id end
    local none = service:getSession { appName = "app", userId = "u", sessionId = "s", afterTimestamp = 1005.0,
      numRecentEvents = 0 }
    return count, found, #none.events, none.events[1]
  end,
  ["an event after a time"] = function(service)
    local filtered = service:getSession { appName = "app", userId = "u", sessionId = "s", afterTimestamp = 1005.0 }
    return filtered.events[2].id, #filtered.events
  end,
  ["events of a session that has gone"] = function(service)
    local fresh = checks.get(service)
    service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
    return fresh.events[1]
  end,
  ["export"] = function(service, session)
    local all = lines(service, session)
    all[1] = withoutTimes(all[1])
    return all
  end,
  ["export of a session that has gone"] = function(service, session)
    service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
    service:export(session)
  end,
  ["refresh"] = function(service, session)
    service:appendEvent(checks.get(service), event { n = "other", k1 = moonpad.removed, ["user:u"] = { 1 } })
    session.state.mine = "pending"
    local same = service:refresh(session)
    return rawequal(same, session), described(session), session.state:hasDelta()
  end,
  ["refresh of a session that has gone"] = function(service, session)
    service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
    service:refresh(session)
  end,
  ["import of a text"] = function(service, session)
    local text = table.concat(lines(service, session))
    return described(service:import { lines = text, sessionId = "i" }), described(checks.get(service, "i"))
  end,
  ["import of a list"] = function(service, session)
    return described(service:import { lines = lines(service, session), appName = "other" })
  end,
  ["import of an iterator"] = function(service, session)
    return described(service:import { lines = service:export(session), userId = "v" })
  end,
  ["createSession"] = function(service)
    return described(service:createSession { appName = "app", userId = "u", sessionId = " c ", state = {
      n = 1, ["user:u"] = { LONG }, ["temp:t"] = 1 } }), described(checks.get(service, "c"))
  end,
  ["createSession where there is one"] = function(service) checks.create(service, "s") end,
  ["getSession"] = function(service)
    return described(another(service)), #another(service).events, checks.get(service, "none")
  end,
  ["listSessions"] = function(service)
    checks.create(service, "t")
    local list, cursor = service:listSessions { appName = "app", limit = 1 }
    return described(list[1]), cursor ~= nil, #service:listSessions { appName = "app", userId = "u", after = cursor }
  end,
  ["listSessions after no cursor"] = function(service) service:listSessions { appName = "app", after = "x" } end,
  ["deleteSession"] = function(service)
    local who = { appName = "app", userId = "u", sessionId = "s" }
    return service:deleteSession(who), service:deleteSession(who), service:deleteUser { appName = "app", userId = "u" }
  end,
  ["appendEvent"] = function(service, session)
    local given = event({ n = moonpad.removed, ["user:u"] = { LONG }, ["app:a"] = moonpad.null, ["temp:t"] = 1.5 },
      { id = "given", content = { parts = { { text = "Hi" } } } })
    local stored = service:appendEvent(session, given)
    return told(stored), told(service:appendEvent { session = session, event = given }), described(session),
      #session.events, described(another(service))
  end,
  ["appendEvent of an id that is taken"] = function(service, session)
    service:appendEvent(session, event({ n = 1 }, { id = "e3" }))
  end,
  ["appendEvent that conflicts"] = function(service, session)
    service:appendEvent(another(service), event { n = "theirs" })
    session.state.mine = 1
    local ok, err = pcall(service.appendEvent, service, session, event { n = "ours" })
    return ok, err.code, err.keys, err.event, described(session), described(service:refresh(session))
  end,
  ["appendEvent of a session that has gone"] = function(service, session)
    service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
    service:appendEvent(session, event {})
  end,
  ["updateSession"] = function(service, session)
    session.state.list[3] = { "x" }
    session.state:increment("user:sum", 2)
    session.state:append("app:log", "line")
    session.state.n = nil
    session.state["temp:t"] = true
    service:updateUserState { appName = "app", userId = "u", state = { sum = 40 } }
    local stored = service:updateSession(session, { author = "game", actions = { stateDelta = { by = "hand" } } })
    return told(stored), described(session), service:updateSession(session), described(another(service))
  end,
  ["updateSession that conflicts"] = function(service, session)
    session.state.n = session.state.n + 1
    service:appendEvent(another(service), event { n = "theirs" })
    local ok, err = pcall(service.updateSession, service, session)
    local pending = session.state:delta()
    service:refresh(session)
    return ok, err.code, err.keys, err.event, pending, told(service:updateSession(session))
  end,
  ["the commit of a context"] = function(_, session)
    local state = core.beginChanges(session)
    state.n = (state.n or 0) + 1
    local stored = core.commit(state, { author = "a", content = { parts = { { text = "Hi" } } } })
    state.more = true
    return told(stored), state:delta(), described(session), told(core.commit(state, { author = "b" }))
  end,
  ["rewind before an invocation"] = function(service, session)
    session.state.pending = 1
    service:appendEvent(another(service), event { more = true })
    local stored = service:rewind(session, { invocationId = "i4" })
    return told(stored), described(session), session.state:delta(), described(another(service))
  end,
  ["rewind to a revision"] = function(service, session)
    return told(service:rewind(session, { revision = 0 })), described(session), service:stateAt(session, 21)
  end,
  ["rewind to what there is not"] = function(service, session) service:rewind(session, { invocationId = "none" }) end,
  ["import of what there is"] = function(service, session) service:import { lines = lines(service, session) } end,
}

local function outcome(call, ...)
  local answer = table.pack(pcall(call, ...))
  if not answer[1] then
    local err = answer[2]
    assert(core.isError(err), tostring(err))
    return { code = err.code, message = err.message, keys = err.keys }
  end
  return answer
end

local STORES = {
  { "a slow store", function() return slow_store.open "slow:1:memory:" end },
}
for _, store in ipairs(support.servers { "sqlite:FILE" }) do
  local function open() return moonpad.open(support.freshUrl(store), { durability = "normal" }) end
  STORES[#STORES + 1] = { store, open }
end

for index, store in ipairs(STORES) do
  local title, open = table.unpack(store)
  turns.describe("a call of a stepped run on " .. title, turns.isSampleDue(index, #STORES), function()
    local service, session
    before_each(function()
      service = open()
      session = fill(service)
    end)
    after_each(function()
      service:close()
      support.cleanup()
    end)

    for name, call in pairs(CALLS) do
      it("gives what it gives elsewhere: " .. name, function()
        local other <close> = moonpad.open "memory:"
        local expected = outcome(call, other, fill(other))
        local waits, _, got = stepped(service, outcome, call, service, session)
        assert.is_true(waits > 0, "it does not yield")
        checks.identical(expected, got)
      end)

      it("blocks where nobody steps: " .. name, function()
        local other <close> = moonpad.open "memory:"
        checks.identical(outcome(call, other, fill(other)), coroutine.wrap(outcome)(call, service, session))
      end)

      it("may be closed, cancelled or forgotten in the middle: " .. name, function()
        local run = beginWaiting(service, outcome, call, service, session)
        assert.is_true(coroutine.close(run.thread))
        run = beginWaiting(service, outcome, call, service, session)
        assert.are.equal("cancelled", run:resume(core.CANCEL).answer[2].code)
        run = beginWaiting(service, outcome, call, service, session)
        core.idle(TIMEOUT_SECONDS)
        assert.are.equal("cancelled", run:resume(core.CANCEL).answer[2].code)
        beginWaiting(service, outcome, call, service, session)
        collectgarbage()
        run = beginWaiting(service, outcome, call, service, session)
        run:finish()
        assert.are.equal(0, service:poll())
      end)

      it("is finished when its service is closed: " .. name, function()
        local other <close> = moonpad.open "memory:"
        local expected = outcome(call, other, fill(other))
        local run = beginWaiting(service, outcome, call, service, session)
        service:close()
        run:finish()
        local got = run.answer[2]
        if got.code ~= "closed" then checks.identical(expected, got) end
      end)
    end

    it("is told from the others by its arguments at the time", function()
      local options = { appName = "app", key = "sum", by = 2 }
      local run = beginWaiting(service, service.incrementState, service, options)
      options.key, options.by = "other", 100
      collectgarbage()
      assert.are.same({ true, 2 }, { run:finish() })
      assert.are.same({ a = "x", sum = 2 }, service:getAppState { appName = "app" })
    end)

    it("uses nothing of a session object that others use meanwhile", function()
      local state, export = service:stateAt(session, 7), lines(service, session)
      for _, meanwhile in ipairs {
        function() service:appendEvent(session, event { n = "new" }) end,
        function()
          checks.append(service, checks.get(service), { n = "newer" })
          service:refresh(session)
        end,
        function() checks.append(service, checks.get(service), { n = "newest" }) end,
      } do
        local runs = { beginWaiting(service, service.stateAt, service, session, 7),
          beginWaiting(service, service.fork, service, session, { at = 7 }),
          beginWaiting(service, lines, service, session) }
        meanwhile()
        assert.are.same({ true, state }, { runs[1]:finish() })
        local _, forked = runs[2]:finish()
        assert.are.same({ 7, state }, { forked.revision, service:stateAt(forked, 7) })
        local exported = select(2, runs[3]:finish())
        assert.is_true(#exported >= #export)
        assert.are.equal(export[21], exported[21])
      end
    end)

    it("refreshes what has been changed, refreshed or is being changed meanwhile", function()
      local other = checks.get(service)
      checks.append(service, other, { n = "theirs" })
      for round, meanwhile in ipairs {
        function() checks.append(service, session, { mine = 1 }) end,
        function() service:refresh(session) end,
        function()
          service:incrementState { appName = "app", userId = "u", key = "sum" }
          service:refresh(session)
        end,
        function() service:appendEventAsync(session, event { mine = 4 }) end,
      } do
        service:refresh(other)
        checks.append(service, other, { round = round })
        local run = beginWaiting(service, service.refresh, service, session)
        meanwhile()
        assert.are.equal(session, select(2, run:finish()))
        assert.are.equal(round, session.state.round)
        local stored = checks.get(service)
        assert.are.equal(stored.revision, session.revision)
        assert.are.same(stored.state:getAll(), session.state:getAll())
        checks.append(service, session, { round = -round }) -- it conflicts with nothing
      end
    end)

    it("reads no event twice that is at hand", function()
      local fresh = checks.get(service)
      local waits = stepped(service, function() return fresh.events[1], fresh.events[2], #fresh.events end)
      assert.is_true(waits > 0)
      local run = begin(service, function() return fresh.events[2].id, #fresh.events, fresh.events[100] end)
      assert.are.same({ 0, true, "e2", 20 }, { run.waits, table.unpack(run.answer) })
    end)

    it("reads events where Lua cannot yield", function()
      local run = begin(service, function()
        local ids = {}
        for i, one in ipairs(checks.get(service).events) do ids[i] = one.id end
        return #ids
      end)
      assert.are.equal(20, select(2, run:finish()))
    end)

    it("gives several coroutines their events of one session object, whoever reads meanwhile", function()
      for round, options in ipairs { {}, { afterTimestamp = 1003.0 } } do
        options.appName, options.userId, options.sessionId = "app", "u", "s"
        local fresh, skipped = service:getSession(options), round == 1 and 0 or 2
        local function id(i) return fresh.events[i].id end
        local runs = {}
        for i = 1, 4 do runs[i] = beginWaiting(service, id, i * 4) end
        runs[5] = beginWaiting(service, id, 1)
        coroutine.close(runs[5].thread)
        assert.are.equal("e" .. 9 + skipped, id(9))
        service:appendEvent(fresh, event({}, { id = "later" .. round }))
        assert.are.equal("later" .. round, id(#fresh.events))
        for i = 4, 1, -1 do assert.are.same({ true, "e" .. i * 4 + skipped }, { runs[i]:finish() }) end
        assert.are.equal(0, service:poll())
      end
    end)

    it("outlives the session object that it was made on", function()
      local run = beginWaiting(service, function()
        local mine = checks.get(service)
        return service:stateAt(mine, 7)
      end)
      while run.waits == 1 do
        core.idle(TIMEOUT_SECONDS)
        run:resume()
      end
      assert.is_false(run.done)
      coroutine.close(run.thread)
      run.thread = nil
      collectgarbage()
      collectgarbage()
      assert.are.equal(0, service:poll())
    end)

    it("waits for asynchronous appends of the session object", function()
      for round, call in ipairs {
        function() return service:stateAt(session, session.revision + 1).n end,
        function() return moonpad.toTable(service:fork(session, { at = session.revision + 1 }).state.n) end,
        function()
          local all = lines(service, session)
          return moonpad.json.decode(all[#all]).actions.stateDelta.n
        end,
      } do
        local pending = service:appendEventAsync(session, event { n = { round } })
        local waits, _, got = stepped(service, call)
        assert.is_true(waits > 0)
        assert.are.same({ round }, got)
        assert.are.equal(1, service:poll())
        assert.are.equal(session.revision, pending:result().revision)
      end
    end)

    it("is cancelled, too, while it waits for them", function()
      service:appendEventAsync(session, event { n = -1 })
      local run = begin(service, outcome, service.stateAt, service, session, 0)
      if not run.done then run:resume(core.CANCEL) end
      assert.is_true(run.done)
      assert.is_true(run.answer[2].code == "cancelled" or run.answer[2][2].n == 0)
      while service:poll(TIMEOUT_SECONDS) == 0 do end
    end)

    it("lets one coroutine at a time wait for a line of an export", function()
      local expected = lines(service, session)
      local export = service:export(session)
      local read = {}
      for i = 1, 17 do read[i] = export() end -- the header and the first page
      local first = begin(service, export)
      if first.done then -- it was in the page
        read[18] = first.answer[2]
        first = beginWaiting(service, export)
      end
      checks.raises("invalid_argument", "another coroutine", export)
      local second = begin(service, pcall, export)
      assert.is_true(second.done)
      assert.are.equal("invalid_argument", second.answer[3].code)
      read[#read + 1] = select(2, first:finish())
      for line in export do read[#read + 1] = line end
      assert.are.same(expected, read)
      assert.is_nil(export())
    end)

    it("goes on with an export behind a line that nobody waits for any more", function()
      local expected = lines(service, session)
      for _, stop in ipairs {
        function(run) coroutine.close(run.thread) end,
        function(run) run:resume(core.CANCEL) end,
      } do
        local export = service:export(session)
        local read = {}
        local run
        repeat
          run = begin(service, export)
          if run.done then read[#read + 1] = run.answer[2] end
        until not run.done
        stop(run)
        read[#read + 1] = export()
        for more in export do read[#read + 1] = more end
        assert.are.same(expected, read)
      end
    end)
  end)
end

describe("calls of two coroutines that are stepped #threads", function()
  local service, session, release
  before_each(function()
    local folder = support.tmpdir()
    service = moonpad.open("sqlite:" .. folder .. "/s.db")
    session = fill(service)
    release = lock(folder .. "/s.db", folder)
  end)
  after_each(function()
    service:close()
    support.cleanup()
  end)

  local function append()
    return service:appendEvent(session, event { n = 1 })
  end

  it("wait for an append that nobody waits for any more, and hear when it is stored", function()
    local fd = service:fd()
    beginWaiting(service, append):resume(core.CANCEL)
    local second = beginWaiting(service, append)
    assert.is_false(slow_store.isReadable(fd))
    release()
    support.waitUntil("the first append", function() return slow_store.isReadable(fd) end)
    assert.is_false(second:resume().done)
    local ok, stored = second:finish()
    assert.is_true(ok)
    assert.are.equal(22, stored.revision)
  end)

  it("leave nothing readable behind when the second is cancelled as well", function()
    local fd = service:fd()
    beginWaiting(service, append):resume(core.CANCEL)
    beginWaiting(service, append):resume(core.CANCEL)
    release()
    assert.are.equal(0, service:poll(TIMEOUT_SECONDS))
    assert.is_false(slow_store.isReadable(fd))
    assert.are.equal(21, service:refresh(session).revision)
  end)

  it("queue an asynchronous append behind one that is under way", function()
    local first = beginWaiting(service, append)
    local second = beginWaiting(service, service.appendEventAsync, service, session, event { second = 2 })
    session.state.third = 3
    local third = beginWaiting(service, service.updateSessionAsync, service, session)
    local given = { session = session, event = event { cancelled = 4 } }
    local cancelled = beginWaiting(service, outcome, service.appendEventAsync, service, given)
    assert.are.equal("cancelled", cancelled:resume(core.CANCEL).answer[2].code)
    release()
    assert.are.equal(21, select(2, first:finish()).revision)
    local pending = { select(2, second:finish()), select(2, third:finish()) }
    local done = 0
    while done < 2 do done = done + service:poll(TIMEOUT_SECONDS) end
    assert.are.same({ 22, 23 }, { pending[1]:result().revision, pending[2]:result().revision })
    assert.are.same({ 2, 3, nil }, { session.state.second, session.state.third, session.state.cancelled })
  end)

  it("go back as far as they are to, though somebody else appends in between", function()
    release()
    local run = beginWaiting(service, function() return service:rewind(session, { revision = 3 }) end)
    for turn = 1, 3 do
      core.idle(TIMEOUT_SECONDS) -- it has been read what the rewind is to change
      service:appendEvent(another(service), event { n = "theirs" .. turn })
      assert.is_false(run:resume().done)
    end
    local ok, stored = run:finish()
    assert.is_true(ok, tostring(stored))
    assert.are.equal(3, stored.actions.rewindToRevision)
    assert.are.equal(24, stored.revision)
    assert.are.same(service:stateAt(session, 3), service:stateAt(session, 24))
    assert.are.equal(3, session.state.n)
  end)

  it("end a poll that waits, whoever has looked meanwhile", function()
    local waits = beginWaiting(service, append)
    local goesOn = beginWaiting(service, another, service)
    support.waitUntil("the session", function() return slow_store.isReadable(service:fd()) end)
    core.idle(0)
    service:poll(0)
    assert.are.equal(0, service:poll(TIMEOUT_SECONDS))
    assert.is_true(goesOn:resume().done)
    release()
    assert.is_true(waits:finish())
  end)
end)

describe("an asynchronous append of a stepped run", function()
  it("waits, without holding the thread, for those that are to fail #threads", function()
    local service <close> = slow_store.open "slow:0:memory:"
    local session, other = checks.create(service, "s", { n = 0 }), checks.create(service, "other")
    checks.append(service, checks.get(service), { n = 2 })
    local asked = slow_store.roundTrips()
    slow_store.hold(true)
    service:appendEventAsync(session, event { n = "mine" })
    support.waitUntil("the first append", function() return slow_store.roundTrips() > asked end)
    -- One that asks nothing, because it fails with the first, and one that is held with it.
    service:appendEventAsync(session, event { behind = 1 })
    service:appendEventAsync(other, event {})
    slow_store.hold(true, 2) -- the first, as a plan and in a transaction
    assert.are.same({ 1, 1 }, { service:poll(TIMEOUT_SECONDS) })
    assert.are.same({ n = 2 }, session.state:getAll())
    local run = beginWaiting(service, service.appendEventAsync, service, session, event { n = "decided" })
    slow_store.hold(false)
    local _, pending = run:finish()
    local done, failed = 0, 0
    while done < 3 do
      local some, bad = service:poll(TIMEOUT_SECONDS)
      done, failed = done + some, failed + bad
    end
    assert.are.equal(1, failed)
    assert.are.equal(2, pending:result().revision)
    assert.are.same({ n = "decided" }, session.state:getAll())
  end)
end)
