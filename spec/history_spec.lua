-- History: stateAt, fork, rewind and backup (contract 2).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises
local UUID4 = "^%x%x%x%x%x%x%x%x%-%x%x%x%x%-4%x%x%x%-[89ab]%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$"

-- Session-scope state after each revision of `build`.
local STATES = {
  [0] = { k = "initial", list = { 1 }, gone = true },
  { k = "one", list = { 1 }, gone = true, new = { deep = { 1.0 } } },
  { k = "one", list = { 1, 2 }, new = { deep = { 1.0 } }, n = 5 },
  { k = "one", list = { 1, 2 }, new = { deep = { 1.0 } }, n = 5 },
  { list = moonpad.array {}, new = moonpad.null, n = 6, gone = "back" },
}

local function build(service, sessionId)
  local session = checks.create(service, sessionId, {
    k = "initial", list = { 1 }, gone = true, ["user:u"] = "initial", ["app:a"] = "initial", ["temp:t"] = "initial",
  })
  local hello = { role = "user", parts = { { text = "Hello" } } }
  checks.append(service, session, { k = "one", new = { deep = { 1.0 } }, ["user:u"] = "one", ["temp:t"] = 1 },
    { id = "e1", invocationId = "first", timestamp = 101, author = "user", content = hello })
  session.state:increment("n", 5)
  session.state:append("list", 2)
  session.state.gone = nil
  service:updateSession(session)
  checks.append(service, session, { ["user:u"] = "three", ["app:a"] = "three" },
    { id = "e3", invocationId = "second", timestamp = 103 })
  checks.append(service, session, { k = moonpad.removed, list = moonpad.array {}, new = moonpad.null, n = 6,
    gone = "back" },
    { id = "e4", invocationId = "second", timestamp = 104 })
  return session
end

describe("stateAt", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open()
      session = build(service)
    end)

    it("is the session's own state after a revision, 0 being the initial one", function()
      for _, object in ipairs { session, (checks.get(service)) } do
        for revision = 0, 4 do checks.identical(STATES[revision], service:stateAt(object, revision)) end
      end
      assert.are.equal("[]", moonpad.json.encode(service:stateAt(session, 4).list))
    end)

    it("is a plain table that belongs to the caller", function()
      local state = service:stateAt(session, 1)
      state.new.deep[1] = "changed"
      checks.identical(STATES[1], service:stateAt(session, 1))
    end)

    it("does not hold what is pending", function()
      session.state.pending = 1
      checks.identical(STATES[4], service:stateAt(session, 4))
    end)

    it("is not_found for a revision that is not there", function()
      for _, revision in ipairs { -1, 5, 1000, math.maxinteger, math.mininteger } do
        raises("not_found", tostring(revision), service.stateAt, service, session, revision)
      end
    end)

    it("wants an integer", function()
      for _, revision in ipairs { "1", 1.5, {} } do raises("invalid_argument", "revision", service.stateAt, service,
        session, revision) end
      raises("invalid_argument", "revision", service.stateAt, service, session)
      checks.identical(STATES[1], service:stateAt(session, 1.0))
    end)

    it("is not_found for a session that was deleted", function()
      service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
      raises("not_found", nil, service.stateAt, service, session, 0)
      checks.create(service)
      raises("not_found", nil, service.stateAt, service, session, 0)
    end)

    it("is exact over a long history", function()
      local long = checks.create(service, "long", { n = 0 })
      for index = 1, 400 do
        checks.append(service, long, { n = index, ["k" .. index % 7] = index % 5 == 0 and moonpad.removed or index })
      end
      for _, revision in ipairs { 0, 1, 6, 7, 127, 128, 129, 256, 399, 400 } do
        local expected = { n = revision }
        for index = 1, revision do expected["k" .. index % 7] = index % 5 ~= 0 and index or nil end
        assert.are.same(expected, service:stateAt(long, revision))
      end
    end)
  end)
end)

describe("fork", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open()
      session = build(service)
    end)

    it("makes a session that holds the events up to a revision, and the state after them", function()
      for revision = 0, 4 do
        local id = "fork " .. revision
        local fork = service:fork(session, { at = revision, sessionId = id })
        for _, object in ipairs { fork, (checks.get(service, id)) } do
          assert.are.equal(id, object.id)
          assert.are.equal("app", object.appName)
          assert.are.equal("u", object.userId)
          assert.are.equal(revision, object.revision)
          assert.are.equal(revision, #object.events)
          local own = object.state:getAll()
          assert.are.equal("three", own["user:u"])
          assert.are.equal("three", own["app:a"])
          own["user:u"], own["app:a"] = nil, nil
          checks.identical(STATES[revision], own)
          for index, event in ipairs(object.events) do
            assert.are.same(moonpad.toTable(session.events[index]), moonpad.toTable(event))
          end
          for earlier = 0, revision do checks.identical(STATES[earlier], service:stateAt(object, earlier)) end
          raises("not_found", nil, service.stateAt, service, object, revision + 1)
        end
        assert.are.equal(revision == 0 and 0 or 1, checks.get(service, id).conversationCount)
      end
    end)

    it("has the time of its last event as its last update", function()
      service:fork(session, { at = 1, sessionId = "fork" })
      assert.are.equal(101.0, checks.get(service, "fork").lastUpdateTime)
    end)

    it("gets a random UUID where no id is given", function()
      local fork = service:fork(session, { at = 1 })
      assert.matches(UUID4, fork.id)
      assert.are.equal(1, checks.get(service, fork.id).revision)
    end)

    it("goes its own way, and so does the original", function()
      local fork = service:fork(session, { at = 1, sessionId = "fork" })
      fork.state.k = "fork"
      service:updateSession(fork)
      checks.append(service, session, { k = "original" })
      assert.are.equal("fork", checks.get(service, "fork").state.k)
      assert.are.equal("original", checks.get(service).state.k)
      assert.are.equal(2, checks.get(service, "fork").revision)
      assert.are.equal(5, checks.get(service).revision)
      service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
      assert.are.equal("e1", checks.get(service, "fork").events[1].id)
      checks.identical(STATES[1], service:stateAt(checks.get(service, "fork"), 1))
    end)

    it("can be forked again", function()
      local fork = service:fork(service:fork(session, { at = 3 }), { at = 2, sessionId = "second" })
      checks.identical(STATES[1], service:stateAt(fork, 1))
      checks.identical(STATES[2], service:stateAt(fork, 2))
    end)

    it("does not touch user and app state, and takes nothing that is pending", function()
      session.state.pending = 1
      local fork = service:fork(session, { at = 1, sessionId = "fork" })
      assert.is_nil(fork.state.pending)
      assert.are.same({ u = "three" }, service:getUserState { appName = "app", userId = "u" })
      assert.are.same({ pending = 1 }, session.state:delta())
    end)

    it("is refused when the id exists, and leaves that session alone", function()
      checks.create(service, "taken", { mine = true })
      raises("already_exists", "taken", service.fork, service, session, { at = 1, sessionId = " taken " })
      assert.are.equal(true, checks.get(service, "taken").state.mine)
      assert.are.equal(0, checks.get(service, "taken").revision)
    end)

    it("is not_found for a revision or a session that is not there", function()
      for _, revision in ipairs { -1, 5 } do
        raises("not_found", tostring(revision), service.fork, service, session, { at = revision, sessionId = "fork" })
      end
      assert.is_nil(checks.get(service, "fork"))
      raises("invalid_argument", "at", service.fork, service, session, { at = "1" })
      service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
      raises("not_found", nil, service.fork, service, session, { at = 1 })
    end)
  end)
end)

describe("rewind", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open()
      session = build(service)
    end)

    local function own(object)
      local state = object.state:getAll()
      state["user:u"], state["app:a"], state["temp:t"] = nil, nil, nil
      return state
    end

    it("restores the session's own state to before an invocation", function()
      service:rewind(session, { invocationId = "second" })
      checks.identical(STATES[2], own(session))
      checks.identical(STATES[2], own(checks.get(service)))
    end)

    it("restores the keys of createSession too", function()
      service:rewind(session, { invocationId = "first" })
      checks.identical(STATES[0], own(session))
      checks.identical(STATES[0], own(checks.get(service)))
    end)

    it("appends one event, and keeps history", function()
      local event = service:rewind(session, { invocationId = "second" })
      assert.are.equal(5, event.revision)
      assert.are.equal("second", event.actions.rewindBeforeInvocationId)
      assert.are.equal(5, session.revision)
      local stored = checks.get(service)
      assert.are.equal(5, #stored.events)
      assert.are.equal("e4", stored.events[4].id)
      assert.are.equal("second", stored.events[5].actions.rewindBeforeInvocationId)
      for revision = 0, 4 do checks.identical(STATES[revision], service:stateAt(stored, revision)) end
      checks.identical(STATES[2], service:stateAt(stored, 5))
    end)

    it("leaves user and app state as they are", function()
      service:rewind(session, { invocationId = "first" })
      assert.are.equal("three", session.state["user:u"])
      assert.are.equal("three", session.state["app:a"])
      assert.are.same({ u = "three" }, service:getUserState { appName = "app", userId = "u" })
    end)

    it("restores the session's own state to after a revision", function()
      for revision, state in pairs(STATES) do
        local event = service:rewind(session, { revision = revision })
        assert.are.equal(revision, event.actions.rewindToRevision)
        assert.is_nil(event.actions.rewindBeforeInvocationId)
        checks.identical(state, own(session))
        checks.identical(state, own(checks.get(service)))
      end
      assert.are.equal("three", session.state["user:u"])
      assert.are.equal(9, checks.get(service).revision)
      service:rewind(session, { revision = 9.0 })
      assert.are.equal("integer", math.type(session.events[10].actions.rewindToRevision))
    end)

    it("is not_found for a revision that is not there", function()
      for _, revision in ipairs { 5, -1, math.maxinteger, math.mininteger } do
        raises("not_found", tostring(revision), service.rewind, service, session, { revision = revision })
      end
      assert.are.equal(4, checks.get(service).revision)
    end)

    it("wants an invocation or a revision, and not both", function()
      local both = { invocationId = "first", revision = 1 }
      raises("invalid_argument", { "either invocationId or revision", "both" }, service.rewind, service, session, both)
      raises("invalid_argument", { "either invocationId or revision", "none" }, service.rewind, service, session, {})
      for _, revision in ipairs { 1.5, "1", true } do
        raises("invalid_argument", "revision: expects an integer", service.rewind, service, session,
          { revision = revision })
      end
      assert.are.equal(4, checks.get(service).revision)
    end)

    it("may be done again, and be rewound itself", function()
      local event = service:rewind(session, { invocationId = "second" })
      service:rewind(session, { invocationId = "first" })
      checks.identical(STATES[0], own(session))
      service:rewind(session, { invocationId = event.invocationId })
      checks.identical(STATES[4], own(session))
      assert.are.equal(7, checks.get(service).revision)
    end)

    it("writes an event also when nothing is to be restored", function()
      checks.append(service, session, { ["user:u"] = "later" }, { invocationId = "third" })
      assert.are.equal(6, service:rewind(session, { invocationId = "third" }).revision)
      checks.identical(STATES[4], own(session))
    end)

    it("is not_found for an invocation or a session that is not there", function()
      raises("not_found", "fourth", service.rewind, service, session, { invocationId = "fourth" })
      raises("not_found", nil, service.rewind, service, checks.create(service, "other"), { invocationId = "first" })
      raises("invalid_argument", "invocationId", service.rewind, service, session, {})
      assert.are.equal(4, checks.get(service).revision)
      service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
      raises("not_found", nil, service.rewind, service, session, { invocationId = "first" })
    end)
  end)
end)

describe("backup", function()
  after_each(support.cleanup)

  it("is a consistent copy that opens as a store of its own", function()
    local folder = support.tmpdir()
    local service <close> = moonpad.open("sqlite:" .. folder .. "/test.db")
    local session = build(service)
    service:backup(folder .. "/copy.db")
    checks.append(service, session, { k = "after the backup" })
    local copy <close> = moonpad.open("sqlite:" .. folder .. "/copy.db")
    local found = checks.get(copy)
    assert.are.equal(4, found.revision)
    assert.are.equal(4, #found.events)
    for revision = 0, 4 do checks.identical(STATES[revision], copy:stateAt(found, revision)) end
    assert.are.same({ u = "three" }, copy:getUserState { appName = "app", userId = "u" })
    checks.append(copy, found, { k = "in the copy" })
    assert.are.equal("after the backup", checks.get(service).state.k)
  end)

  it("can be made again and again while somebody writes", function()
    local folder = support.tmpdir()
    local service <close> = moonpad.open("sqlite:" .. folder .. "/test.db", { durability = "normal" })
    local writer <close> = moonpad.open("sqlite:" .. folder .. "/test.db", { durability = "normal" })
    local session = checks.create(writer)
    for index = 1, 5 do
      for _ = 1, 20 do
        session.state:increment "n"
        session.state:increment "user:n"
        writer:updateSession(session)
      end
      local path = ("%s/copy%d.db"):format(folder, index)
      service:backup(path)
      local copy <close> = moonpad.open("sqlite:" .. path)
      local found = checks.get(copy)
      assert.are.same({ n = index * 20, ["user:n"] = index * 20 }, found.state:getAll())
      assert.are.equal(index * 20, #found.events)
    end
  end)

  it("fails where no file can be made", function()
    local folder = support.tmpdir()
    local service <close> = moonpad.open("sqlite:" .. folder .. "/test.db")
    raises("storage", "no such folder", service.backup, service, folder .. "/no such folder/copy.db")
    raises("invalid_argument", "path", service.backup, service)
    raises("invalid_argument", "path", service.backup, service, 7)
  end)

  it("is unsupported by a store in memory", function()
    local service <close> = moonpad.open "memory:"
    local path = support.tmpdir() .. "/copy.db"
    raises("unsupported", "backup", service.backup, service, path)
    assert.is_nil(io.open(path))
  end)
end)
