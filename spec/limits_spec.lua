-- Configured maximum sizes (contract 5): each boundary to the byte, by every way in, nothing stored
-- after a refusal.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

-- A string that takes `bytes` as a value: its characters and the two quotes.
local function text(bytes) return ("x"):rep(bytes - 2) end

-- Every way in which a value gets into the state. Each writes one string of `bytes` bytes, or an
-- array that then has as many.
local function updating(write)
  return function(service, bytes)
    local session = checks.get(service)
    write(session.state, bytes)
    service:updateSession(session)
  end
end

local function running(agent, options)
  return function(service, bytes)
    local definition = agent(bytes)
    definition.name = "A"
    local runner = moonpad.runner { appName = "app", agent = moonpad.agent(definition), sessionService = service }
    local run = { userId = "u", sessionId = "s", newMessage = "go" }
    for key, value in pairs(options and options(bytes) or {}) do run[key] = value end
    for _ in runner:run(run) do end
  end
end

local VALUE_WAYS <const> = {
  ["an assignment"] = updating(function(state, bytes) state.k = text(bytes) end),
  ["an assignment of a user key"] = updating(function(state, bytes) state["user:k"] = text(bytes) end),
  ["an assignment of an app key"] = updating(function(state, bytes) state["app:k"] = text(bytes) end),
  ["set"] = updating(function(state, bytes) state:set("k", text(bytes)) end),
  ["update"] = updating(function(state, bytes) state:update { a = 1, k = text(bytes) } end),
  ["setDefault"] = updating(function(state, bytes) state:setDefault("k", text(bytes)) end),
  ["a table"] = updating(function(state, bytes) state.k = { text(bytes - 2) } end),
  ["an item of a node"] = updating(function(state, bytes)
    state.k = {}
    state.k.a = text(bytes - 6)
  end),
  ["table.insert into a node"] = updating(function(state, bytes)
    state.k = {}
    table.insert(state.k, text(bytes - 2))
  end),
  ["append"] = updating(function(state, bytes) state:append("k", text(bytes - 2)) end),
  ["an array that grows with each event"] = function(service, bytes)
    local session = checks.get(service)
    local ok, err
    for _ = 1, (bytes - 1) // 2 do
      session.state:append("growing", 7)
      ok, err = pcall(service.updateSession, service, session)
      if not ok then break end
    end
    if not ok then
      service:updateAppState { appName = "app", state = { growing = moonpad.removed } }
      local list = checks.get(service).state.growing
      assert(#tostring(list) + 2 > 100 and #tostring(list) <= 100, "it was not filled up to the limit")
      error(err, 0)
    end
  end,
  ["appendEvent"] = function(service, bytes)
    checks.append(service, checks.get(service), { k = text(bytes), a = 1 })
  end,
  ["createSession"] = function(service, bytes) checks.create(service, "new", { a = 1, k = text(bytes) }) end,
  ["createSession, a user key"] = function(service, bytes)
    checks.create(service, "new", { a = 1, ["user:k"] = text(bytes) })
  end,
  ["updateUserState"] = function(service, bytes)
    service:updateUserState { appName = "app", userId = "u", state = { a = 1, k = text(bytes) } }
  end,
  ["updateAppState"] = function(service, bytes)
    service:updateAppState { appName = "app", state = { a = 1, k = text(bytes) } }
  end,
  ["the stateDelta of a run"] = running(function() return { model = function() return "hi" end } end,
    function(bytes) return { stateDelta = { k = text(bytes) } } end),
  ["outputKey"] = running(function(bytes)
    return { outputKey = "k", model = function() return text(bytes) end }
  end),
  ["a callback"] = running(function(bytes)
    return { model = function() return "hi" end,
      beforeAgentCallback = function(context) context.state.k = text(bytes) end }
  end),
}

-- All that is stored, as text.
local function everything(service)
  local sessions = {}
  for index, listed in ipairs(service:listSessions { appName = "app" }) do
    local session = service:getSession { appName = "app", userId = "u", sessionId = listed.id }
    local events = {}
    for number, event in ipairs(session.events) do events[number] = event end
    sessions[index] = { session.id, session.revision, session.state:getAll(), events }
  end
  return moonpad.json.encode { sessions, service:getAppState { appName = "app" },
    service:getUserState { appName = "app", userId = "u" } }
end

-- The bytes of an event as it is stored: compact JSON.
local function bytesOf(event)
  local copy = moonpad.toTable(event)
  copy.revision = nil
  return #moonpad.json.encode(copy)
end

local function copied(event)
  return { id = event.id, timestamp = event.timestamp, invocationId = event.invocationId, author = "agent",
    customMetadata = { text = event.text }, actions = { stateDelta = event.delta } }
end

describe("a configured limit", function()
  support.each_store(function(open, store)
    describe("of a value", function()
      for way, write in pairs(VALUE_WAYS) do
        it("holds to the byte for " .. way, function()
          local service = open { maxValueBytes = 100 }
          checks.create(service)
          write(service, 100)
          assert.is_truthy(everything(service):find("xxxx", 1, true) or everything(service):find("7,7,7", 1, true))
          service = open { maxValueBytes = 100 }
          checks.create(service)
          local before = everything(service)
          raises("limit", "maxValueBytes", write, service, 101 + (way:find "grows" and 2 or 0))
          -- What was appended before the one that was too much is there; a run's own message is.
          if not way:find "grows" and way ~= "outputKey" and way ~= "a callback" then
            assert.are.equal(before, everything(service))
          else
            assert.is_nil(everything(service):find("xxxx", 1, true))
          end
        end)
      end

      it("holds for numbers that increments make", function()
        local service = open { maxValueBytes = 3 }
        local session = checks.create(service, nil, { n = 999 })
        raises("limit", "maxValueBytes", function()
          session.state:increment "n"
          service:updateSession(session)
        end)
        service:updateUserState { appName = "app", userId = "u", state = { n = 998 } }
        assert.are.equal(999, service:incrementState { appName = "app", userId = "u", key = "n" })
        raises("limit", "maxValueBytes", service.incrementState, service, { appName = "app", userId = "u", key = "n" })
        assert.are.equal(999, service:getUserState({ appName = "app", userId = "u" }).n)
        assert.are.equal(0, checks.get(service).revision)
      end)

      it("holds for what a tool writes, and the model is told", function()
        for bytes = 100, 101 do
          local service = open { maxValueBytes = 100 }
          local answers = 0
          local agent = moonpad.agent { name = "A", tools = { moonpad.tool { name = "t", description = "t",
            run = function(_, context)
              context.state.k = text(bytes)
              return "done"
            end } },
            model = function(request)
              answers = answers + 1
              local last = request.contents[#request.contents].parts[1]
              if last.functionResponse then return moonpad.json.encode(last.functionResponse.response) end
              return support.calls { "t", {}, "c" }
            end }
          local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
          local events = support.run(runner, "go")
          local said = events[#events]:text()
          assert.are.equal(2, answers)
          assert.are.equal(bytes == 101, said:find("maxValueBytes", 1, true) ~= nil, said)
          assert.are.equal(bytes == 100 and text(100) or nil, checks.get(service).state.k)
        end
      end)

      it("counts characters of a string as they are, not as JSON spells them", function()
        local service = open { maxValueBytes = 100 }
        local session = checks.create(service)
        checks.append(service, session, { k = ("\n"):rep(98), ["user:k"] = ("é"):rep(49) })
        raises("limit", nil, checks.append, service, session, { k = ("\n"):rep(99) })
        raises("limit", nil, checks.append, service, session, { k = ("é"):rep(49) .. "x" })
        assert.are.equal(1, session.revision)
      end)
    end)

    describe("of an event", function()
      local event = { id = "e", timestamp = 1763700000.5, invocationId = "i", text = ("y"):rep(500),
        delta = { k = { 1, 2, 3 } } }
      local size
      before_each(function()
        local service = open()
        size = bytesOf(service:appendEvent(checks.create(service), copied(event)))
      end)

      it("holds to the byte", function()
        local service = open { maxEventBytes = size }
        service:appendEvent(checks.create(service), copied(event))
        assert.are.equal(1, checks.get(service).revision)
        service = open { maxEventBytes = size - 1 }
        local session = checks.create(service)
        local before = everything(service)
        raises("limit", "maxEventBytes", service.appendEvent, service, session, copied(event))
        assert.are.equal(before, everything(service))
        assert.are.equal(0, session.revision)
      end)

      it("counts what is added to it: pending writes, and arrays that append makes longer", function()
        local service = open { maxEventBytes = 1000 }
        local session = checks.create(service)
        session.state.a, session.state.b = text(480), text(480)
        raises("limit", "maxEventBytes", service.updateSession, service, session)
        session.state.b = nil
        service:updateSession(session)
        local refused
        for _ = 1, 100 do
          session.state:append("list", text(50))
          local ok, err = pcall(service.updateSession, service, session)
          refused = not ok and err
          if refused then break end
        end
        assert.are.equal("limit", refused.code)
        local stored = checks.get(service)
        assert.is_true(#tostring(stored.state.list) > 600 and #tostring(stored.state.list) < 1000)
        assert.are.equal(stored.revision, #stored.events)
      end)

      it("ends a run whose model or tool answers too much", function()
        local service = open { maxEventBytes = 2000 }
        local runner = moonpad.runner { appName = "app", sessionService = service,
          agent = moonpad.agent { name = "A", model = function() return ("z"):rep(2000) end } }
        raises("limit", "maxEventBytes", support.run, runner, "go")
        local tool = moonpad.tool { name = "t", description = "t", run = function() return ("z"):rep(2000) end }
        runner = moonpad.runner { appName = "app", sessionService = service,
          agent = moonpad.agent { name = "A", tools = { tool }, model = function()
            return support.calls { "t", {}, "c" }
          end } }
        raises("limit", "maxEventBytes", support.run, runner, "go")
        assert.is_nil(everything(service):find("zzzz", 1, true))
      end)
    end)

    describe("of a session's state", function()
      -- Every key counts its own bytes and its value's.
      local ways = {
        ["appendEvent"] = function(service, bytes)
          checks.append(service, checks.create(service), { ab = text(bytes - 2 - 2), c = 1, ["user:big"] = text(500) })
        end,
        ["createSession"] = function(service, bytes)
          checks.create(service, "s", { ab = text(bytes - 2 - 2), c = 1, ["app:big"] = text(500) })
        end,
        ["several events"] = function(service, bytes)
          local session = checks.create(service, "s", { ab = text(90), c = 1 })
          checks.append(service, session, { d = text(51) })
          checks.append(service, session, { ab = text(bytes - 2 - 2 - 52) })
        end,
        ["append"] = function(service, bytes)
          local session = checks.create(service, "s", { c = 1 })
          session.state:append("ab", text(50))
          service:updateSession(session)
          session.state:append("ab", text(bytes - 2 - 2 - 53))
          service:updateSession(session)
        end,
        ["assignment"] = function(service, bytes)
          local session = checks.create(service, "s")
          session.state.c = 1
          session.state.ab = { k = text(bytes - 2 - 2 - 6) }
          service:updateSession(session)
        end,
      }
      for way, write in pairs(ways) do
        it("holds to the byte for " .. way, function()
          write(open { maxStateBytes = 200 }, 200)
          local service = open { maxStateBytes = 200 }
          raises("limit", "maxStateBytes", write, service, 201)
          local session = checks.get(service)
          local stored = session and session.state:getAll() or {}
          local bytes = 0
          for key, value in pairs(stored) do bytes = bytes + #key + #moonpad.json.encode(value) end
          assert.is_true(bytes < 200)
          assert.is_nil(stored["user:big"])
          assert.are.same({}, service:getAppState { appName = "app" })
        end)
      end

      it("is of a session's own keys: those of users and apps have maxValueBytes alone", function()
        local service = open { maxStateBytes = 100 }
        local state = {}
        for index = 1, 10 do state["k" .. index] = text(90) end
        service:updateUserState { appName = "app", userId = "u", state = state }
        service:updateAppState { appName = "app", state = state }
        assert.are.same(state, service:getUserState { appName = "app", userId = "u" })
        assert.are.same(state, service:getAppState { appName = "app" })
        assert.are.equal(90, #moonpad.json.encode(checks.create(service).state["user:k1"]))
      end)

      it("is freed by removing, and holds for a rewind", function()
        local service = open { maxStateBytes = 200 }
        local session = checks.create(service, "s", { a = text(150) })
        checks.append(service, session, { a = moonpad.removed }, { invocationId = "one" })
        checks.append(service, session, { b = text(190) }, { invocationId = "two" })
        raises("limit", "maxStateBytes", checks.append, service, session, { a = text(150) })
        -- One event: b goes, a comes back.
        service:rewind(session, { invocationId = "one" })
        assert.are.same({ a = text(150) }, checks.get(service).state:getAll())
      end)
    end)

    it("is 0 for none, and depth stays 128", function()
      local service = open { maxValueBytes = 0, maxEventBytes = 0, maxStateBytes = 0 }
      local session = checks.create(service)
      checks.append(service, session, { k = checks.nested(128) })
      raises("invalid_argument", nil, checks.append, service, session, { k = checks.nested(129) })
      raises("invalid_argument", nil, function() session.state.k = checks.nested(129) end)
      raises("invalid_argument", nil, checks.create, service, "new", { k = checks.nested(129) })
      raises("invalid_argument", nil, service.updateAppState, service,
        { appName = "app", state = { k = checks.nested(129) } })
      assert.are.equal(1, checks.get(service).revision)
    end)

    it("stops a tool that writes without end, by default", function()
      local service = open { maxStateBytes = 100000 }
      local calls = 0
      local agent = moonpad.agent { name = "A", tools = { moonpad.tool { name = "more", description = "more",
        run = function(_, context)
          calls = calls + 1
          context.state["k" .. calls] = ("x"):rep(10000)
          return "again"
        end } }, model = function() return support.calls { "more", {}, "c" } end }
      local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
      raises("limit", "maxStateBytes", support.run, runner, "go")
      assert.are.equal(10, calls)
      assert.are.equal(9, #checks.keys(checks.get(service).state:getAll()))
      service = open()
      calls = 0
      agent = moonpad.agent { name = "A", tools = { moonpad.tool { name = "more", description = "more",
        run = function(_, context)
          calls = calls + 1
          context.state:append("list", calls)
          return "again"
        end } }, model = function() return support.calls { "more", {}, "c" } end }
      runner = moonpad.runner { appName = "app", agent = agent, sessionService = service,
        maxLlmCalls = checks.scaled(500) }
      raises("limit", "maxLlmCalls", support.run, runner, "go")
      assert.are.equal(checks.scaled(500), calls)
    end)

    it("lets a string of many MB through where it is raised, byte for byte, and refuses it where it is not", function()
      -- 20 on a server: more than a packet of MySQL's.
      local megabytes = os.getenv "ASAN_OPTIONS" and 4 or support.serverNumber(store) and 20 or 64
      local BYTES <const> = checks.scaled(megabytes << 20)
      local large = ("0123456789abcdef\n\"é\0"):rep(BYTES // 21)
      local limited = open { maxValueBytes = BYTES // 4, maxEventBytes = BYTES }
      local session = checks.create(limited)
      raises("limit", "maxValueBytes", checks.append, limited, session, { k = large })
      assert.are.equal(0, checks.get(limited).revision)
      -- On a busy machine a server is silent over it for long.
      local service = open { maxValueBytes = 0, maxEventBytes = 0, maxStateBytes = 0, busyTimeoutMs = 60000 }
      session = checks.create(service)
      session.state.k = large
      service:updateSession(session)
      local stored = checks.get(service)
      assert.is_true(stored.state.k == large)
      assert.is_true(stored.events[1].actions.stateDelta.k == large)
      assert.is_true(service:stateAt(stored, 1).k == large)
    end)
  end)

  -- A file is opened again with limits below what it holds.
  describe("that is lower than what is stored", function()
    local LOW <const> = { maxValueBytes = 100, maxEventBytes = 300, maxStateBytes = 200 }
    local service, session
    before_each(function()
      local url = "sqlite:" .. support.tmpdir() .. "/test.db"
      do
        local before <close> = moonpad.open(url)
        local made = checks.create(before, "s", { base = text(500) })
        checks.append(before, made, { big = text(1000), ["user:big"] = text(1000) }, { invocationId = "one" })
        checks.append(before, made, { big = "small" }, { invocationId = "two" })
      end
      service = moonpad.open(url, LOW)
      session = checks.get(service)
    end)
    after_each(function()
      service:close()
      support.cleanup()
    end)

    it("lets it be read, replaced and removed", function()
      assert.are.equal(1000 - 2, #session.state["user:big"])
      assert.are.equal(1000 - 2, #session.events[1].actions.stateDelta.big)
      assert.are.equal(1000 - 2, #service:stateAt(session, 1).big)
      raises("limit", "maxStateBytes", checks.append, service, session, { k = 1 })
      checks.append(service, session, { base = moonpad.removed, ["user:big"] = "less" })
      checks.append(service, session, { k = 1 })
      assert.are.same({ big = "small", k = 1, ["user:big"] = "less" }, checks.get(service).state:getAll())
    end)

    it("does not keep a fork from copying it, events and state, as they are stored", function()
      local forked = service:fork(session, { at = 1, sessionId = "forked" })
      for _, found in ipairs { forked, checks.get(service, "forked") } do
        assert.are.same({ base = text(500), big = text(1000), ["user:big"] = text(1000) }, found.state:getAll())
        assert.are.same(checks.get(service).events[1], found.events[1])
        assert.are.same({ base = text(500) }, service:stateAt(found, 0))
      end
      -- From there on the limits hold as for any session.
      raises("limit", "maxValueBytes", function() forked.state.big = text(1000) end)
      raises("limit", "maxStateBytes", checks.append, service, forked, { k = 1 })
      checks.append(service, forked, { base = moonpad.removed, big = 1 })
    end)

    it("holds for a rewind, which writes an event of its own", function()
      raises("limit", { "big", "maxValueBytes" }, service.rewind, service, session, { invocationId = "two" })
      assert.are.equal(2, checks.get(service).revision)
    end)
  end)

  -- A row of SQLite has at most 1,000,000,000 bytes. It takes 5 GB and half a minute to see it:
  -- make soak does.
  if not os.getenv "MOONPAD_LARGE" then return end
  it("of SQLite itself is a clean error", function()
    local service <close> = moonpad.open("sqlite:" .. support.tmpdir() .. "/test.db",
      { maxValueBytes = 0, maxEventBytes = 0, maxStateBytes = 0, durability = "normal" })
    local session = checks.create(service)
    checks.append(service, session, { small = 1 })
    local err = raises("limit", nil, checks.append, service, session, { k = ("x"):rep(1000000000) })
    assert.is_true(#err.message < 500)
    collectgarbage()
    assert.are.same({ small = 1 }, checks.get(service).state:getAll())
    checks.append(service, session, { small = 2 })
    assert.are.equal(2, checks.get(service).revision)
    support.cleanup()
  end)
end)
