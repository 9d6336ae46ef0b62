-- service:appendEventAsync, updateSessionAsync, poll, fd, and what they return (contract 2).
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local during = require("spec.support.finalizers").during
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local slow_store = require "spec.support.slow_store"
local support = require "spec.support"
local testing = require "moonpad.testing"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(3)

local raises = checks.raises
-- Far beyond what anything takes: never waited for that long.
local TIMEOUT_SECONDS <const> = support.TIMEOUT_SECONDS

local function event(delta, author)
  return { author = author or "agent", actions = { stateDelta = delta } }
end

-- Polls until so many are done, and nothing more is.
local function pollAll(service, count)
  local done, failed = 0, 0
  while done < count do
    local some, bad = service:poll(TIMEOUT_SECONDS)
    assert(some > 0, ("only %d of %d were done"):format(done, count))
    done, failed = done + some, failed + bad
  end
  assert.are.equal(count, done)
  assert.are.equal(0, service:poll())
  return failed
end

-- Another service's append to the same session.
local function overtake(service, delta)
  service:appendEvent(checks.get(service), event(delta, "other"))
end

support.each_store(function(open)
  local service, session
  before_each(function()
    service = open()
    session = checks.create(service, "s", { old = 1 })
  end)

  describe("appendEventAsync", function()
    it("shows the event's delta at once, and gives the event when a poll has found it done", function()
      local given = event { k = { 1 }, old = moonpad.removed, ["user:u"] = 1, ["app:a"] = 2, ["temp:t"] = 3 }
      local pending = service:appendEventAsync(session, given)
      assert.are.same({ k = { 1 }, ["user:u"] = 1, ["app:a"] = 2, ["temp:t"] = 3 }, session.state:getAll())
      assert.are.equal(0, session.revision)
      assert.is_nil(pending:result())
      assert.are.equal(0, pollAll(service, 1))
      local stored = pending:result()
      assert.are.equal(1, stored.revision)
      assert.are.equal("agent", stored.author)
      assert.is_string(stored.id)
      assert.are.same({ k = { 1 }, old = moonpad.removed, ["user:u"] = 1, ["app:a"] = 2 }, stored.actions.stateDelta)
      assert.are.equal(stored, pending:result())
      assert.are.equal(1, session.revision)
      assert.are.equal(stored.id, session.events[1].id)
      assert.are.same({ k = { 1 }, ["user:u"] = 1, ["app:a"] = 2 }, checks.get(service).state:getAll())
      -- What is handed out is the caller's.
      stored.actions.stateDelta.k[1] = "mine"
      assert.are.same({ 1 }, moonpad.toTable(session.state.k))
    end)

    it("takes a table of both, and what moonpad.event gives", function()
      local first = service:appendEventAsync { session = session, event = event { k = 1 } }
      local second = service:appendEventAsync(session, moonpad.event(event { k = 2 }))
      pollAll(service, 2)
      assert.are.same({ 1, 2 }, { first:result().revision, second:result().revision })
      raises("invalid_argument", "evnt", service.appendEventAsync, service, { session = session, evnt = {} })
    end)

    it("refuses at once what needs no store, and queues nothing then", function()
      raises("invalid_argument", "author", service.appendEventAsync, service, session, { author = 7 })
      raises("invalid_argument", "stateDelta", service.appendEventAsync, service, session,
        { author = "a", state_delta = {} })
      raises("invalid_argument", "function", service.appendEventAsync, service, session, event { f = print })
      raises("invalid_argument", "partial", service.appendEventAsync, service, session,
        { author = "a", partial = true })
      raises("invalid_argument", "session", service.appendEventAsync, service, {}, event {})
      raises("invalid_argument", "called on a session", service.appendEventAsync, session, event {})
      local other = open()
      raises("invalid_argument", "another service", other.appendEventAsync, other, session, event {})
      assert.are.equal(0, service:poll(TIMEOUT_SECONDS))
      assert.are.same({ old = 1 }, session.state:getAll())
    end)

    it("stores them in order, whatever waits for them", function()
      local pendings = {}
      for index = 1, 5 do pendings[index] = service:appendEventAsync(session, event { n = index }) end
      assert.are.equal(6, service:appendEvent(session, event { n = 6 }).revision)
      -- They are done, and no poll has found it yet.
      for index = 1, 5 do assert.is_nil(pendings[index]:result()) end
      pollAll(service, 5)
      for index = 1, 5 do
        assert.are.equal(index, pendings[index]:result().revision)
        assert.are.equal(index, session.events[index].actions.stateDelta.n)
      end
    end)

    it("is waited for by update, refresh and rewind", function()
      local invocation = event { k = "first" }
      invocation.invocationId = "i"
      service:appendEventAsync(session, invocation)
      session.state.k = "second"
      assert.are.equal(2, service:updateSession(session).revision)
      service:appendEventAsync(session, event { l = 1 })
      service:refresh(session)
      assert.are.equal(3, session.revision)
      service:appendEventAsync(session, event { m = 1 })
      assert.are.equal(5, service:rewind(session, { invocationId = "i" }).revision)
      assert.are.same({ old = 1 }, session.state:getAll())
      assert.are.equal(0, pollAll(service, 3))
    end)

    it("fails those behind it, and takes back what they showed", function()
      overtake(service, { old = "theirs" })
      local fine = service:appendEventAsync(session, event { fine = 1 })
      local given = event { old = "mine", n = 1 }
      local conflicting = service:appendEventAsync(session, given)
      local behind = service:appendEventAsync(session, event { behind = 1 })
      session.state.since = "written since"
      assert.are.equal(2, pollAll(service, 3))
      assert.are.equal(2, fine:result().revision)
      local err = raises("conflict", '"old"', conflicting.result, conflicting)
      assert.are.same({ "old" }, err.keys)
      assert.are.same(given.actions.stateDelta, err.event.actions.stateDelta)
      assert.are.equal("agent", err.event.author)
      assert.are.equal(err, raises("conflict", nil, conflicting.result, conflicting))
      raises("conflict", "an earlier append", behind.result, behind)
      assert.are.same({ old = "theirs", fine = 1, since = "written since" }, session.state:getAll())
      assert.are.same({ since = "written since" }, session.state:delta())
      service:updateSession(session)
      assert.are.same({ old = "theirs", fine = 1, since = "written since" }, checks.get(service).state:getAll())
      -- And goes on.
      local again = service:appendEventAsync(session, event { old = "decided again" })
      assert.are.equal(0, pollAll(service, 1))
      assert.are.equal(4, again:result().revision)
    end)

    it("does not conflict with itself, nor disturb other sessions", function()
      local other = checks.create(service, "other")
      for index = 1, 3 do service:appendEventAsync(session, event { k = index, ["user:k"] = index }) end
      service:deleteSession { appName = "app", userId = "u", sessionId = "other" }
      local gone = service:appendEventAsync(other, event { k = 1 })
      local last = service:appendEventAsync(session, event { k = 4 })
      assert.are.equal(1, pollAll(service, 5))
      raises("not_found", '"other"', gone.result, gone)
      assert.are.equal(4, last:result().revision)
    end)

    -- As after a synchronous append: with nothing pending, what was read before counts as read now.
    it("takes in what others have stored, and what is written then is decided in sight of it", function()
      for _, way in ipairs { "appendEventAsync", "updateSessionAsync" } do
        service:refresh(session)
        for _, key in ipairs { "user:list", "old" } do session.state:get(key) end
        overtake(service, { ["user:list"] = way, old = way })
        if way == "updateSessionAsync" then session.state.k = 1 end
        service[way](service, session, event { other = 1 })
        assert.are.equal(0, pollAll(service, 1))
        assert.are.equal(way, session.state["user:list"])
        session.state["user:list"], session.state.old = 5, 5
        assert.are.equal(5, service:updateSession(session).actions.stateDelta["user:list"])
      end
    end)

    it("does not move what is pending in sight of what others have stored", function()
      session.state:get "user:list"
      overtake(service, { ["user:list"] = 1 })
      service:appendEventAsync(session, event { other = 1 })
      session.state["user:list"] = 5
      assert.are.equal(0, pollAll(service, 1))
      raises("conflict", "user:list", service.updateSession, service, session)
    end)

    it("of the same id and content is stored once", function()
      local given = event { k = 1 }
      given.id = "given"
      local first, second = service:appendEventAsync(session, given), service:appendEventAsync(session, given)
      pollAll(service, 2)
      assert.are.equal(1, first:result().revision)
      assert.are.equal(1, second:result().revision)
      assert.are.equal(1, session.revision)
    end)

    it("that is refused, for whatever reason, shows what others have stored", function()
      service = open { maxValueBytes = 20 }
      session = checks.create(service, "s", { old = 1 })
      local taken = event {}
      taken.id = "taken"
      service:appendEvent(checks.get(service), taken)
      local refusals = {
        conflict = { actions = { stateDelta = { old = "mine" } } },
        already_exists = { id = "taken", author = "somebody else" },
        limit = { actions = { stateDelta = { k = ("x"):rep(30) } } },
        invalid_argument = { author = "agent" },
      }
      for code, given in pairs(refusals) do
        overtake(service, { old = 1 })
        service:refresh(session)
        if code == "invalid_argument" then session.state:increment("old") end
        overtake(service, { old = code, ["user:k"] = code, ["app:" .. code] = true })
        local pending = code == "invalid_argument" and service:updateSessionAsync(session, given)
          or service:appendEventAsync(session, given)
        assert.are.equal(1, pollAll(service, 1))
        raises(code, nil, pending.result, pending)
        assert.are.same(checks.get(service).state:getAll(), session.state:getAll())
        assert.are.equal(checks.get(service).revision, session.revision)
      end
    end)

    it("may exceed a limit, which its result says", function()
      service = open { maxValueBytes = 10 }
      session = checks.create(service, "s", { old = 1 })
      local pending = service:appendEventAsync(session, event { k = ("x"):rep(20) })
      assert.are.equal(1, pollAll(service, 1))
      raises("limit", "maxValueBytes", pending.result, pending)
      assert.are.same({ old = 1 }, session.state:getAll())
    end)
  end)

  describe("updateSessionAsync", function()
    it("appends what is pending, which is pending no longer", function()
      session.state.k = { deep = { 1 } }
      session.state:increment("n", 2)
      session.state:append("list", "x")
      local deep = session.state.k.deep
      local pending = service:updateSessionAsync(session)
      assert.is_false(session.state:hasDelta())
      assert.are.same({ old = 1, k = { deep = { 1 } }, n = 2, list = { "x" } }, session.state:getAll())
      deep[2] = 2
      assert.are.same({ k = { deep = { 1, 2 } } }, session.state:delta())
      pollAll(service, 1)
      assert.are.equal("system", pending:result().author)
      assert.are.same({ k = { deep = { 1 } }, n = 2, list = { "x" } }, pending:result().actions.stateDelta)
      assert.are.same({ k = { deep = { 1, 2 } } }, session.state:delta())
      local second = service:updateSessionAsync(session)
      pollAll(service, 1)
      assert.are.same({ k = { deep = { 1, 2 } } }, second:result().actions.stateDelta)
    end)

    it("is nil when nothing is pending and no event is given", function()
      assert.is_nil(service:updateSessionAsync(session))
      assert.are.equal(0, service:poll(TIMEOUT_SECONDS))
      local pending = service:updateSessionAsync(session, { content = { role = "user", parts = { { text = "Hi" } } } })
      pollAll(service, 1)
      assert.are.equal("system", pending:result().author)
      assert.are.equal("Hi", pending:result():text())
    end)

    it("takes an event's fields and own delta along", function()
      session.state.k = 1
      local pending = service:updateSessionAsync(session, event({ own = 2 }, "agent"))
      pollAll(service, 1)
      assert.are.equal("agent", pending:result().author)
      assert.are.same({ k = 1, own = 2 }, pending:result().actions.stateDelta)
    end)

    it("refuses a key that is in both, and a partial event, and what was pending stays so", function()
      session.state.k = 1
      raises("invalid_argument", '"k"', service.updateSessionAsync, service, session, event { k = 2 })
      raises("invalid_argument", "partial", service.updateSessionAsync, service, session, { partial = true })
      raises("invalid_argument", "session", service.updateSessionAsync, service, {})
      assert.are.same({ k = 1 }, session.state:delta())
      assert.are.equal(0, service:poll(TIMEOUT_SECONDS))
    end)

    it("that fails leaves nothing of it pending, and says what it was", function()
      overtake(service, { old = "theirs", n = 40, list = { "theirs" } })
      session.state.old = "mine"
      session.state:increment("n", 2)
      session.state:append("list", "mine")
      session.state["temp:t"] = 1
      local pending = service:updateSessionAsync(session)
      session.state.old = "mine, since"
      assert.are.equal(1, pollAll(service, 1))
      local err = raises("conflict", nil, pending.result, pending)
      assert.are.same({ old = "mine", n = 2, list = { "mine" }, ["temp:t"] = 1 }, err.event.actions.stateDelta)
      assert.are.same({ old = "mine, since" }, session.state:delta())
      -- When it was written, the object showed the old value, too.
      raises("conflict", nil, service.updateSession, service, session)
      service:refresh(session)
      service:updateSession(session)
      assert.are.same({ old = "mine, since", n = 40, list = { "theirs" } }, session.state:getAll())
    end)
  end)

  describe("a pending append", function()
    it("says what it is", function()
      local pending = service:appendEventAsync(session, event {})
      assert.are.equal("moonpad.pendingAppend (waiting)", tostring(pending))
      pollAll(service, 1)
      assert.are.equal("moonpad.pendingAppend (stored)", tostring(pending))
      raises("invalid_argument", "pending:result(...)", pending.result)
      raises("invalid_argument", nil, pending.result, pending, 1)
    end)

    it("may be dropped, and so may its session", function()
      for _ = 1, 10 do service:appendEventAsync(session, event { k = 1 }) end
      for index = 1, 10 do service:appendEventAsync(checks.create(service, "dropped " .. index), event { k = 1 }) end
      session = nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      assert.are.equal(0, pollAll(service, 20))
      assert.are.equal(10, checks.get(service).revision)
      assert.are.equal(1, checks.get(service, "dropped 7").revision)
    end)

    it("has its result after close, too", function()
      local stored = service:appendEventAsync(session, event { k = 1 })
      overtake(service, { old = 2 })
      local failed = service:appendEventAsync(session, event { old = 3 })
      local behind = service:appendEventAsync(session, event { k = 2 })
      service:close()
      assert.is_nil(stored:result())
      assert.are.equal(2, pollAll(service, 3))
      assert.are.equal("agent", stored:result().author)
      assert.are.equal(stored:result(), stored:result())
      local err = raises("conflict", nil, failed.result, failed)
      assert.are.equal(err, raises("conflict", nil, failed.result, failed))
      raises("conflict", nil, behind.result, behind)
      raises("closed", nil, service.appendEventAsync, service, session, event {})
      raises("closed", nil, service.updateSessionAsync, service, session)
      assert.are.equal(0, service:poll(1))
      service:close()
    end)

    it("keeps the service that it is to be polled with", function()
      local mine = open()
      local pending = mine:appendEventAsync(checks.create(mine, "s"), event { k = 1 })
      mine = nil -- luacheck: ignore
      collectgarbage()
      support.waitUntil("the append", function() return (pending:poll()) end)
      assert.are.equal(1, pending:result().revision)
    end)

    it("may be one of many thousands", function()
      local sessions, pendings = {}, {}
      for index = 1, 20 do sessions[index] = checks.create(service, "many " .. index) end
      for index = 1, 10000 do
        local pending = service:appendEventAsync(sessions[index % 20 + 1], event { n = index })
        if index % 10 == 0 then pendings[#pendings + 1] = pending end
      end
      assert.are.equal(0, pollAll(service, 10000))
      for _, pending in ipairs(pendings) do assert(pending:result().revision > 0) end
      for index = 1, 20 do assert.are.equal(500, sessions[index].revision) end
    end)
  end)

  describe("poll", function()
    it("counts what it completes, and never raises", function()
      assert.are.same({ 0, 0 }, { service:poll() })
      assert.are.same({ 0, 0 }, { service:poll(TIMEOUT_SECONDS) })
      for _, seconds in ipairs { -1, 0, 0.0001, 0 / 0, math.huge, -math.huge, 1e308 } do
        assert.are.same({ 0, 0 }, { service:poll(seconds) })
      end
      overtake(service, { old = 2 })
      service:appendEventAsync(session, event { old = 3 })
      service:appendEventAsync(session, event { k = 1 })
      assert.are.equal(2, pollAll(service, 2))
      service:close()
      assert.are.same({ 0, 0 }, { service:poll(1) })
      raises("invalid_argument", "seconds", service.poll, service, "soon")
      raises("invalid_argument", "colon", service.poll)
    end)

    it("waits for the first", function()
      local pending = service:appendEventAsync(session, event { k = 1 })
      assert.are.equal(1, (service:poll(math.huge)))
      assert.are.equal(1, pending:result().revision)
    end)

    it("and all of it may be called in coroutines", function()
      local pending
      local thread = coroutine.wrap(function()
        pending = service:appendEventAsync(session, event { k = 1 })
        coroutine.yield()
        pollAll(service, 1)
        coroutine.yield(pending:result().revision)
      end)
      thread()
      assert.are.equal(1, thread())
    end)
  end)

  describe("fd", function()
    it("is a descriptor that stays the same", function()
      local fd = service:fd()
      assert.are.equal("integer", math.type(fd))
      service:appendEventAsync(session, event { k = 1 })
      assert.are.equal(fd, service:fd())
      service:close()
      assert.are.equal(fd, service:fd())
      pollAll(service, 1)
      local closed = open()
      closed:close()
      raises("closed", nil, closed.fd, closed)
      raises("invalid_argument", "colon", service.fd)
    end)
  end)

  describe("a finalizer", function()
    it("in the middle of an append may append and poll", function()
      local other = checks.create(service, "other")
      local count, others = 0, 0
      during(30, {
        function()
          others = others + 1
          service:appendEventAsync(other, event { n = others })
        end,
        function()
          others = others + 1
          other.state.n = others
          service:updateSessionAsync(other)
        end,
        function() service:poll() end,
        function() service:appendEvent(other, event { sync = true }) end,
      }, function(round)
        session.state.round = round
        local update = assert(service:updateSessionAsync(session))
        local pending = service:appendEventAsync(session, event { k = { round, "text " .. round } })
        count = count + 2
        support.waitUntil("both", function()
          service:poll(TIMEOUT_SECONDS)
          return pending:result()
        end)
        assert(update:result().actions.stateDelta.round == round)
        assert(pending:result().actions.stateDelta.k[2] == "text " .. round)
        assert(pending:result() == pending:result())
      end)
      service:refresh(session)
      service:refresh(other)
      service:poll()
      assert.are.equal(count, session.revision)
      assert.are.equal(others, other.state.n)
    end)
  end)

  describe("context:await", function()
    local function runnerOf(run)
      local agent = moonpad.customAgent { name = "waiter", run = run }
      return moonpad.runner { appName = "app", agent = agent, sessionService = service }
    end

    it("gives the event in a run", function()
      local pending
      local runner = runnerOf(function(context)
        pending = service:appendEventAsync(session, event { k = 1 })
        local stored = context:await(pending)
        assert(stored == pending:result())
        context.state.got = stored.revision
        context:emit { content = { parts = { { text = "done" } } } }
      end)
      support.run(runner, { userId = "u", sessionId = "run" })
      assert.are.equal(1, checks.get(service, "run").state.got)
      -- It has been completed: no poll does it again.
      assert.are.equal(0, service:poll())
    end)

    it("raises the error of one that failed", function()
      overtake(service, { old = 2 })
      local runner = runnerOf(function(context)
        local first = service:appendEventAsync(session, event { old = 3 })
        local behind = service:appendEventAsync(session, event { k = 1 })
        raises("conflict", "an earlier append", context.await, context, behind)
        raises("conflict", '"old"', first.result, first)
        context:emit { content = { parts = { { text = "seen" } } } }
      end)
      assert.are.equal("seen", support.run(runner, { userId = "u", sessionId = "run" })[1]:text())
    end)

    it("gives way in steps", function()
      local runner = runnerOf(function(context)
        local stored = context:await(service:appendEventAsync(session, event { k = 1 }))
        context:emit { content = { parts = { { text = "revision " .. stored.revision } } } }
      end)
      local invocation <close> = runner:start { userId = "u", sessionId = "run" }
      assert.are.equal("revision 1", support.step(invocation):text())
    end)

    it("waits outside of a run as well", function()
      local context = testing.toolContext { state = {} }
      assert.are.equal(1, context:await(service:appendEventAsync(session, event { k = 1 })).revision)
    end)

    it("completes what is before it on its session, and nothing else", function()
      local other = checks.create(service, "other")
      local elsewhere = service:appendEventAsync(other, event { k = 1 })
      local first = service:appendEventAsync(session, event { k = 1 })
      local second = service:appendEventAsync(session, event { k = 2 })
      local third = service:appendEventAsync(session, event { k = 3 })
      testing.toolContext({ state = {} }):await(second)
      assert.are.equal(1, first:result().revision)
      assert.is_nil(third:result())
      assert.is_nil(elsewhere:result())
      pollAll(service, 2)
      assert.are.equal(3, third:result().revision)
      assert.are.equal(1, elsewhere:result().revision)
    end)
  end)
end)

-- Somebody else holds the lock of the file: what is asynchronous is under way until he lets go
-- of it.
describe("while a file is locked #threads", function()
  local service, session, folder, release
  before_each(function()
    folder = support.tmpdir()
    service = moonpad.open("sqlite:" .. folder .. "/a.db", { busyTimeoutMs = TIMEOUT_SECONDS * 1000 })
    session = checks.create(service, "s", { old = 1 })
    release = lock(folder .. "/a.db", folder)
  end)
  after_each(function()
    if release then release() end
    service:close()
    support.cleanup()
  end)
  local function letGo()
    release()
    release = nil
  end

  it("appends return at once, and a poll waits no longer than it is told", function()
    local pending = service:appendEventAsync(session, event { k = 1 })
    session.state.l = 2
    local update = service:updateSessionAsync(session)
    assert.are.same({ old = 1, k = 1, l = 2 }, session.state:getAll())
    assert.are.same({ 0, 0 }, { service:poll() })
    assert.are.same({ 0, 0 }, { service:poll(0.01) })
    assert.is_nil(pending:result())
    letGo()
    assert.are.equal(0, pollAll(service, 2))
    assert.are.equal(1, pending:result().revision)
    assert.are.equal(2, update:result().revision)
  end)

  it("to collect a session does not wait", function()
    for index = 1, 3 do service:appendEventAsync(session, event { k = index }) end
    session = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.are.equal(0, service:poll())
    letGo()
    pollAll(service, 3)
    assert.are.equal(3, checks.get(service).revision)
  end)

  it("a step that awaits is waiting, and a run asks now and then", function()
    local asked = 0
    local agent = moonpad.customAgent { name = "waiter", run = function(context)
      local pending = service:appendEventAsync(session, event { k = 1 })
      local stored = context:await { poll = function()
        asked = asked + 1
        return pending:poll()
      end }
      context:emit { content = { parts = { { text = "revision " .. stored.revision } } } }
    end }
    -- Its own session is in memory: only what it awaits is locked.
    local beside <close> = moonpad.open "memory:"
    local runner = moonpad.runner { appName = "app", agent = agent, sessionService = beside }
    local invocation <close> = runner:start { userId = "u", sessionId = "run" }
    for _ = 1, 5 do assert.are.equal("waiting", invocation:step()) end
    asked = 0
    assert.are.equal("waiting", invocation:wait(0.5))
    assert(asked < 100, asked .. " times in half a second")
    letGo()
    assert.are.equal("revision 1", invocation:wait(TIMEOUT_SECONDS):text())
  end)

  it("core.idle ends when something is done, once", function()
    service:appendEventAsync(session, event { k = 1 })
    core.idle(0.001)
    letGo()
    core.idle(TIMEOUT_SECONDS)
    assert.are.equal(1, (service:poll()))
  end)

  it("what is queued when a service is let go of is stored", function()
    local pending = service:appendEventAsync(session, event { k = 1 })
    letGo()
    getmetatable(service).__gc(service)
    assert.are.same({ 0, 0 }, { service:poll() })
    raises("closed", "let go of", pending.result, pending)
    raises("closed", "let go of", pending.poll, pending)
    local again <close> = moonpad.open("sqlite:" .. folder .. "/a.db")
    assert.are.equal(1, checks.get(again).revision)
  end)
end)

describe("a poll on a slow store #threads", function()
  local service, session
  before_each(function()
    service = slow_store.open "slow:1:memory:"
    session = checks.create(service, "s", { n = 0 })
    checks.append(service, session, { n = 1 }, { id = "first" })
    checks.append(service, checks.get(service), { n = 2 })
  end)
  after_each(function() service:close() end)

  local function pollHere(count)
    local here = slow_store.roundTripsHere()
    local failed = pollAll(service, count)
    assert.are.equal(here, slow_store.roundTripsHere())
    return failed
  end

  it("takes back what failed, and shows what is stored, without asking", function()
    session.state.kept = true
    service:appendEventAsync(session, event { n = "mine", mine = 1, ["temp:t"] = 1 })
    service:appendEventAsync(session, event { behind = 1 })
    assert.are.equal(2, pollHere(2))
    assert.are.same({ n = 2, kept = true }, session.state:getAll())
    assert.are.equal(2, session.revision)
    service:appendEventAsync(session, event { n = "again" })
    assert.are.equal(0, pollHere(1))
    assert.are.same(checks.get(service).state.n, session.state.n)
  end)

  it("shows what others stored when another event has its id", function()
    local other = event { n = "other" }
    other.id = "first"
    local pending = service:appendEventAsync(session, other)
    assert.are.equal(1, pollHere(1))
    raises("already_exists", '"first"', pending.result, pending)
    assert.are.same({ n = 2 }, session.state:getAll())
    assert.are.equal(2, session.revision)
  end)

  it("shows what has become of an event that had been stored before", function()
    local again = event { n = 1, ["temp:t"] = 1 }
    again.id = "first"
    service:appendEventAsync(session, again)
    assert.are.same({ n = 1, ["temp:t"] = 1 }, session.state:getAll())
    service:appendEventAsync(session, event { k = "k", ["temp:u"] = 2 })
    assert.are.equal(0, pollHere(2))
    assert.are.same({ n = 2, k = "k", ["temp:u"] = 2 }, session.state:getAll())
    assert.are.equal(3, session.revision)
  end)
end)
