-- Sessions and the service (contract 2): the table of calls row by row.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local socket = require "socket"
local support = require "spec.support"

local raises = checks.raises
local UUID4 = "^%x%x%x%x%x%x%x%x%-%x%x%x%x%-4%x%x%x%-[89ab]%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$"

local function ids(list)
  local found = {}
  for index, session in ipairs(list) do found[index] = session.userId .. "/" .. session.id end
  return found
end

local function reversed(list)
  local back = {}
  for index = #list, 1, -1 do back[#back + 1] = list[index] end
  return back
end

describe("a session", function()
  support.each_store(function(open)
    local service
    before_each(function() service = open() end)

    describe("that is created", function()
      it("tells who it is and when it was made", function()
        local before = socket.gettime() -- os.time is a few milliseconds late
        local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
        assert.are.equal("app", session.appName)
        assert.are.equal("u", session.userId)
        assert.are.equal("s", session.id)
        assert.are.equal("app/u", session.saveKey)
        assert.are.equal(0, session.revision)
        assert.are.equal("integer", math.type(session.revision))
        assert.are.equal(0, session.conversationCount)
        assert.are.equal(0, #session.events)
        assert.are.equal("float", math.type(session.createTime))
        assert.are.equal("float", math.type(session.lastUpdateTime))
        assert.is_true(session.createTime >= before and session.createTime <= socket.gettime())
        assert.are.equal(session.createTime, session.lastUpdateTime)
        assert.are.same({}, session.state:getAll())
      end)

      it("gets a random UUID where the id is missing or blank", function()
        local seen = {}
        for _, id in ipairs { false, "", "   ", "\t\n\r " } do
          local session = service:createSession { appName = "app", userId = "u", sessionId = id or nil }
          assert.matches(UUID4, session.id)
          assert.is_nil(seen[session.id])
          seen[session.id] = true
          assert.are.equal(session.id, checks.get(service, session.id).id)
        end
      end)

      it("has an id without blanks around it, in every call", function()
        local session = service:createSession { appName = "app", userId = "u", sessionId = " \ts 1\n" }
        assert.are.equal("s 1", session.id)
        raises("already_exists", "s 1", checks.create, service, "s 1")
        raises("already_exists", "s 1", checks.create, service, "  s 1  ")
        assert.are.equal("s 1", checks.get(service, "\ns 1 ").id)
        assert.is_true(service:deleteSession { appName = "app", userId = "u", sessionId = " s 1 " })
        assert.is_nil(checks.get(service, "s 1"))
      end)

      it("is refused when it exists, and nothing of it is stored", function()
        checks.create(service, "s", { k = 1 })
        raises("already_exists", "s", checks.create, service, "s", { k = 2, ["user:k"] = 2, ["app:k"] = 2 })
        assert.are.same({ k = 1 }, checks.get(service).state:getAll())
        assert.are.same({}, service:getAppState { appName = "app" })
      end)

      it("is another one for another user or app", function()
        for _, app in ipairs { "app", "other" } do
          for _, user in ipairs { "u", "v" } do
            service:createSession { appName = app, userId = user, sessionId = "s", state = { who = app .. user } }
          end
        end
        assert.are.equal("otherv", service:getSession({ appName = "other", userId = "v", sessionId = "s" }).state.who)
        assert.are.equal("appu", checks.get(service).state.who)
      end)

      it("splits its initial state by scope and drops `temp:`", function()
        local session = checks.create(service, "s", { k = 1, ["user:k"] = 2, ["app:k"] = 3, ["temp:k"] = 4 })
        local expected = { k = 1, ["user:k"] = 2, ["app:k"] = 3 }
        assert.are.same(expected, session.state:getAll())
        assert.is_false(session.state:hasDelta())
        assert.are.same(expected, checks.get(service).state:getAll())
        assert.are.same({ k = 2 }, service:getUserState { appName = "app", userId = "u" })
        assert.are.same({ k = 3 }, service:getAppState { appName = "app" })
        assert.are.same({ ["user:k"] = 2, ["app:k"] = 3 }, checks.create(service, "later").state:getAll())
      end)

      it("has its initial state as revision 0, without an event", function()
        local session = checks.create(service, "s", { k = 1, ["user:k"] = 2 })
        assert.are.equal(0, session.revision)
        assert.are.equal(0, #checks.get(service).events)
        assert.are.same({ k = 1 }, service:stateAt(session, 0))
      end)

      it("copies its initial state", function()
        local state = { list = { 1 } }
        local session = checks.create(service, "s", state)
        state.list[2] = 2
        session.state.list[2] = 3
        assert.are.same({ list = { 1, 2 } }, state)
        assert.are.same({ list = { 1 } }, checks.get(service).state:getAll())
      end)

      it("may start from another session's state", function()
        local first = checks.create(service, "s", { k = { 1 } })
        local second = service:createSession { appName = "app", userId = "u", sessionId = "t",
          state = first.state:getAll() }
        assert.are.equal(1, second.state.k[1])
      end)
    end)

    describe("that is got", function()
      local function appendAt(session, ...)
        for index, timestamp in ipairs { ... } do
          checks.append(service, session, { last = index }, { id = "e" .. index, timestamp = timestamp })
        end
      end

      local function get(options)
        options.appName, options.userId, options.sessionId = "app", "u", "s"
        local session = service:getSession(options)
        local found = {}
        for index, event in ipairs(session.events) do found[index] = event.id end
        assert.are.equal(#found, #session.events)
        return found, session
      end

      it("is nil when it is unknown", function()
        checks.create(service)
        assert.is_nil(service:getSession { appName = "app", userId = "u", sessionId = "x" })
        assert.is_nil(service:getSession { appName = "app", userId = "x", sessionId = "s" })
        assert.is_nil(service:getSession { appName = "x", userId = "u", sessionId = "s" })
      end)

      it("has all its events, or the last n", function()
        appendAt(checks.create(service), 10, 20, 30)
        assert.are.same({ "e1", "e2", "e3" }, (get {}))
        assert.are.same({ "e2", "e3" }, (get { numRecentEvents = 2 }))
        assert.are.same({ "e1", "e2", "e3" }, (get { numRecentEvents = 3 }))
        assert.are.same({ "e1", "e2", "e3" }, (get { numRecentEvents = 100 }))
        assert.are.same({}, (get { numRecentEvents = 0 }))
        assert.are.same({ "e3" }, (get { numRecentEvents = 1.0 }))
      end)

      it("refuses a negative or fractional number of events", function()
        checks.create(service)
        for _, count in ipairs { -1, -2, math.mininteger, 1.5, "1" } do
          raises("invalid_argument", "numRecentEvents", get, { numRecentEvents = count })
        end
      end)

      it("has the events from a time on, that time included", function()
        appendAt(checks.create(service), 10, 20, 30)
        assert.are.same({ "e2", "e3" }, (get { afterTimestamp = 20 }))
        assert.are.same({ "e3" }, (get { afterTimestamp = 20.5 }))
        assert.are.same({}, (get { afterTimestamp = 31 }))
        assert.are.same({ "e1", "e2", "e3" }, (get { afterTimestamp = 0 }))
        assert.are.same({ "e1", "e2", "e3" }, (get { afterTimestamp = -math.huge }))
      end)

      it("filters by time first and then takes the last n", function()
        appendAt(checks.create(service), 10, 20, 30, 40)
        assert.are.same({ "e4" }, (get { afterTimestamp = 20, numRecentEvents = 1 }))
        assert.are.same({ "e2", "e3", "e4" }, (get { afterTimestamp = 20, numRecentEvents = 10 }))
        assert.are.same({}, (get { afterTimestamp = 20, numRecentEvents = 0 }))
      end)

      it("looks at every event's time, also where times go back", function()
        appendAt(checks.create(service), 50, 10, 40, 20, 30)
        assert.are.same({ "e1", "e3", "e5" }, (get { afterTimestamp = 30 }))
        assert.are.same({ "e3", "e5" }, (get { afterTimestamp = 30, numRecentEvents = 2 }))
      end)

      it("has the full current state whatever events are asked for", function()
        local session = checks.create(service, "s", { initial = true })
        appendAt(session, 10, 20)
        for _, options in ipairs { { numRecentEvents = 0 }, { numRecentEvents = 1 }, { afterTimestamp = 99 } } do
          local _, again = get(options)
          assert.are.same({ initial = true, last = 2 }, again.state:getAll())
          assert.are.equal(2, again.revision)
        end
      end)

      it("shows an own append after what it was filtered to", function()
        appendAt(checks.create(service), 10, 20, 30)
        local _, session = get { numRecentEvents = 1 }
        checks.append(service, session, nil, { id = "own", timestamp = 40 })
        assert.are.equal("own", session.events[#session.events].id)
        assert.are.equal("e3", session.events[1].id)
        assert.are.equal(2, #session.events)
      end)
    end)

    describe("its fields", function()
      it("lastUpdateTime is the time of the last event, also when it goes back", function()
        local session = checks.create(service)
        checks.append(service, session, nil, { timestamp = 1000.25 })
        assert.are.equal(1000.25, session.lastUpdateTime)
        checks.append(service, session, nil, { timestamp = 500.5 })
        assert.are.equal(500.5, session.lastUpdateTime)
        assert.are.equal(500.5, checks.get(service).lastUpdateTime)
        assert.are.equal(session.createTime, checks.get(service).createTime)
      end)

      it("revision counts appends", function()
        local session = checks.create(service)
        for expected = 1, 3 do
          checks.append(service, session)
          assert.are.equal(expected, session.revision)
          assert.are.equal(expected, checks.get(service).revision)
        end
      end)

      it("conversationCount counts the user's messages", function()
        local session = checks.create(service)
        local message = { role = "user", parts = { { text = "Hello" } } }
        checks.append(service, session, nil, { author = "user", content = message })
        checks.append(service, session, nil, { author = "agent",
          content = { role = "model", parts = { { text = "Hi" } } } })
        checks.append(service, session, { k = 1 })
        assert.are.equal(1, session.conversationCount)
        checks.append(service, session, nil, { author = "user", content = message })
        assert.are.equal(2, session.conversationCount)
        assert.are.equal(2, checks.get(service).conversationCount)
        assert.are.equal(2, service:getSession({ appName = "app", userId = "u", sessionId = "s",
          numRecentEvents = 0 }).conversationCount)
      end)
    end)

    describe("its events", function()
      local session
      before_each(function()
        session = checks.create(service)
        for index = 1, 3 do checks.append(service, session, { k = index }, { id = "e" .. index }) end
      end)

      it("support #, [i], ipairs and pairs", function()
        for _, object in ipairs { session, (checks.get(service)) } do
          local events = object.events
          assert.are.equal(3, #events)
          assert.are.equal("e1", events[1].id)
          assert.are.equal("e3", events[#events].id)
          assert.is_nil(events[0])
          assert.is_nil(events[4])
          assert.is_nil(events[-1])
          local found = {}
          for index, event in ipairs(events) do found[index] = event.id end
          assert.are.same({ "e1", "e2", "e3" }, found)
          found = {}
          for index, event in pairs(events) do found[index] = event.id end
          assert.are.same({ "e1", "e2", "e3" }, found)
        end
      end)

      it("cannot be written", function()
        assert.has_error(function() session.events[1] = { author = "intruder" } end)
        assert.has_error(function() session.events[4] = { author = "intruder" } end)
        assert.are.equal("agent", session.events[1].author)
        assert.are.equal(3, #session.events)
      end)

      it("are read in pages: a long history can be walked in any order", function()
        local long = checks.create(service, "long")
        for index = 1, 700 do checks.append(service, long, { k = index }) end
        local again = checks.get(service, "long")
        assert.are.equal(700, #again.events)
        for _, index in ipairs { 700, 1, 350, 699, 2, 351, 349, 700, 512, 511, 128, 129 } do
          assert.are.equal(index, again.events[index].actions.stateDelta.k)
        end
        local count = 0
        for index, event in ipairs(again.events) do
          count = count + 1
          assert.are.equal(index, event.revision)
        end
        assert.are.equal(700, count)
      end)

      it("are a snapshot: what others append is not in it", function()
        local other = checks.get(service)
        checks.append(service, session, nil, { id = "e4" })
        assert.are.equal(3, #other.events)
        assert.is_nil(other.events[4])
        assert.are.equal("e3", other.events[3].id)
        assert.are.equal(3, other.revision)
      end)
    end)

    describe("that is listed", function()
      before_each(function()
        -- Last updates: a/one 30, b/two 10, a/three 20, b/four 20, a/five 20.
        local function make(user, id, timestamp)
          local session = service:createSession { appName = "app", userId = user, sessionId = id, state = { of = id } }
          checks.append(service, session, { ["user:name"] = user, ["app:name"] = "shared" }, { timestamp = timestamp })
        end
        make("a", "one", 30)
        make("b", "two", 10)
        make("a", "three", 20)
        make("b", "four", 20)
        make("a", "five", 20)
        service:createSession { appName = "other app", userId = "a", sessionId = "six" }
      end)

      local oldest = { "b/two", "a/five", "a/three", "b/four", "a/one" }

      it("comes by last update, then user, then id, or in the exact reverse", function()
        assert.are.same(oldest, ids(service:listSessions { appName = "app" }))
        assert.are.same(oldest, ids(service:listSessions { appName = "app", order = "oldest" }))
        assert.are.same(reversed(oldest), ids(service:listSessions { appName = "app", order = "newest" }))
      end)

      it("may be of one user", function()
        assert.are.same({ "a/five", "a/three", "a/one" }, ids(service:listSessions { appName = "app", userId = "a" }))
        assert.are.same({ "b/four", "b/two" }, ids(service:listSessions { appName = "app", userId = "b",
          order = "newest" }))
        assert.are.same({}, ids(service:listSessions { appName = "app", userId = "c" }))
        assert.are.same({}, ids(service:listSessions { appName = "no app" }))
      end)

      it("has the merged state and no events", function()
        local list = service:listSessions { appName = "app", userId = "a" }
        assert.are.same({ of = "five", ["user:name"] = "a", ["app:name"] = "shared" }, list[1].state:getAll())
        assert.are.equal(0, #list[1].events)
        assert.are.equal(1, list[1].revision)
        assert.are.equal(20.0, list[1].lastUpdateTime)
      end)

      it("can be written to as any other", function()
        local list = service:listSessions { appName = "app", userId = "a", limit = 1 }
        checks.append(service, list[1], { k = 1 })
        assert.are.equal(1, service:getSession({ appName = "app", userId = "a", sessionId = "five" }).state.k)
      end)

      it("comes in pages, with a cursor when there is more", function()
        for _, order in ipairs { "oldest", "newest" } do
          for limit = 1, 6 do
            local found, cursor, pages = {}, nil, 0
            repeat
              local list
              list, cursor = service:listSessions { appName = "app", limit = limit, after = cursor, order = order }
              assert.is_true(#list <= limit)
              for _, id in ipairs(ids(list)) do found[#found + 1] = id end
              pages = pages + 1
              assert(pages < 10, "the pages never end")
            until not cursor
            assert.are.same(order == "oldest" and oldest or reversed(oldest), found)
            assert.are.equal(math.ceil(5 / limit), pages)
          end
        end
      end)

      it("comes in pages of one user", function()
        local first, cursor = service:listSessions { appName = "app", userId = "a", limit = 2 }
        assert.are.same({ "a/five", "a/three" }, ids(first))
        local second, rest = service:listSessions { appName = "app", userId = "a", limit = 2, after = cursor }
        assert.are.same({ "a/one" }, ids(second))
        assert.is_nil(rest)
      end)

      it("goes on after its cursor although sessions came and went", function()
        local _, cursor = service:listSessions { appName = "app", limit = 2 }
        service:deleteSession { appName = "app", userId = "a", sessionId = "five" }
        assert.are.same({ "a/three", "b/four", "a/one" }, ids(service:listSessions { appName = "app", after = cursor }))
      end)

      it("refuses a limit, order or cursor that makes no sense", function()
        raises("invalid_argument", "limit", service.listSessions, service, { appName = "app", limit = -1 })
        raises("invalid_argument", "limit", service.listSessions, service, { appName = "app", limit = 1.5 })
        raises("invalid_argument", "order", service.listSessions, service, { appName = "app", order = "sideways" })
        raises("invalid_argument", "after", service.listSessions, service, { appName = "app", after = "no cursor" })
        raises("invalid_argument", "after", service.listSessions, service, { appName = "app", after = 7 })
      end)
    end)

    describe("that is deleted", function()
      it("tells whether it was there", function()
        checks.create(service)
        assert.is_true(service:deleteSession { appName = "app", userId = "u", sessionId = "s" })
        assert.is_false(service:deleteSession { appName = "app", userId = "u", sessionId = "s" })
        assert.is_false(service:deleteSession { appName = "app", userId = "u", sessionId = "never" })
        assert.is_nil(checks.get(service))
        assert.are.same({}, ids(service:listSessions { appName = "app" }))
      end)

      it("leaves the state of its user and app, and other sessions", function()
        checks.create(service, "s", { k = 1, ["user:k"] = 2, ["app:k"] = 3 })
        checks.create(service, "t", { k = 4 })
        service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
        assert.are.same({ k = 2 }, service:getUserState { appName = "app", userId = "u" })
        assert.are.same({ k = 3 }, service:getAppState { appName = "app" })
        assert.are.same({ k = 4, ["user:k"] = 2, ["app:k"] = 3 }, checks.get(service, "t").state:getAll())
      end)

      it("goes with its user, whose state goes, too", function()
        local session = checks.create(service, "s", { k = 1, ["user:k"] = 2, ["app:k"] = 3 })
        checks.create(service, "t")
        service:createSession { appName = "app", userId = "v", sessionId = "s", state = { ["user:k"] = 4 } }
        assert.are.equal(2, service:deleteUser { appName = "app", userId = "u" })
        raises("not_found", "s", checks.append, service, session, { l = 1 })
        raises("not_found", "s", service.refresh, service, session)
        assert.are.same({}, service:getUserState { appName = "app", userId = "u" })
        assert.are.same({ k = 4 }, service:getUserState { appName = "app", userId = "v" })
        assert.are.same({ k = 3 }, service:getAppState { appName = "app" })
        assert.are.equal(1, #service:listSessions { appName = "app" })
        assert.are.equal(0, service:deleteUser { appName = "app", userId = "u" })
        assert.are.same({ ["app:k"] = 3 }, checks.create(service).state:getAll())
        raises("invalid_argument", "userId", service.deleteUser, service, { appName = "app" })
        raises("invalid_argument", "user: unknown field, did you mean userId?", service.deleteUser, service,
          { appName = "app", user = "u" })
      end)

      it("starts empty when it is created again", function()
        local session = checks.create(service, "s", { k = 1 })
        checks.append(service, session, { l = 2 }, { id = "e" })
        service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
        local again = checks.create(service)
        assert.are.same({}, again.state:getAll())
        assert.are.equal(0, again.revision)
        assert.are.equal(0, #again.events)
        assert.are.equal(1, checks.append(service, again, nil, { id = "e" }).revision)
      end)

      it("leaves its objects behind: they get not_found, even when the id exists again", function()
        local session = checks.create(service, "s", { k = 1 })
        session.state.pending = 2
        service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
        for _ = 1, 2 do
          raises("not_found", "s", checks.append, service, session, { ["user:x"] = 1 })
          raises("not_found", "s", service.refresh, service, session)
          raises("not_found", "s", service.updateSession, service, session)
          assert.are.equal(1, session.state.k)
          assert.are.equal(2, session.state.pending)
          checks.create(service, "s", { new = true })
          service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
        end
        checks.create(service, "s", { new = true })
        raises("not_found", "s", checks.append, service, session)
        raises("not_found", "s", service.refresh, service, session)
        assert.are.same({ new = true }, checks.get(service).state:getAll())
        assert.are.same({}, service:getUserState { appName = "app", userId = "u" })
      end)
    end)

    describe("updateSession", function()
      it("gives the event, or nil when nothing was pending", function()
        local session = checks.create(service)
        assert.is_nil(service:updateSession(session))
        session.state.k = 1
        local event = service:updateSession(session)
        assert.are.equal("system", event.author)
        assert.are.equal(1, event.revision)
        assert.are.same({ k = 1 }, event.actions.stateDelta)
        assert.is_nil(service:updateSession(session))
        assert.are.equal(1, session.revision)
      end)

      it("is not done by appending an event: what is pending stays pending", function()
        local session = checks.create(service)
        session.state.pending = 1
        checks.append(service, session, { k = 2 })
        assert.are.same({ pending = 1 }, session.state:delta())
        assert.are.same({ pending = 1, k = 2 }, session.state:getAll())
        assert.are.same({ k = 2 }, checks.get(service).state:getAll())
        service:updateSession(session)
        assert.are.same({ pending = 1, k = 2 }, checks.get(service).state:getAll())
      end)
    end)

    describe("refresh", function()
      it("brings the object up to what is stored and returns it", function()
        local session, other = checks.create(service, "s", { gone = 1, k = 1 }), checks.get(service)
        checks.append(service, other, { k = 2, new = 3, gone = moonpad.removed, ["user:k"] = 4 },
          { author = "user", timestamp = 77, content = { role = "user", parts = { { text = "Hi" } } } })
        service:updateAppState { appName = "app", state = { k = 5 } }
        assert.are.same({ gone = 1, k = 1 }, session.state:getAll())
        assert.are.equal(session, service:refresh(session))
        assert.are.same({ k = 2, new = 3, ["user:k"] = 4, ["app:k"] = 5 }, session.state:getAll())
        assert.are.equal(1, session.revision)
        assert.are.equal(1, #session.events)
        assert.are.equal(77.0, session.lastUpdateTime)
        assert.are.equal(1, session.conversationCount)
      end)

      it("keeps pending writes pending", function()
        local session = checks.create(service, "s", { k = 1, n = 1, list = { 1 } })
        session.state.mine = "pending"
        session.state:increment "n"
        session.state:append("list", "mine")
        checks.append(service, checks.get(service), { k = 2, n = 10, list = { 1, 2 } })
        service:refresh(session)
        assert.are.same({ k = 2, mine = "pending", n = 11, list = { 1, 2, "mine" } }, session.state:getAll())
        assert.is_true(session.state:hasDelta())
        service:updateSession(session)
        assert.are.same({ k = 2, mine = "pending", n = 11, list = { 1, 2, "mine" } },
          checks.get(service).state:getAll())
      end)

      it("without a change changes nothing", function()
        local session = checks.create(service, "s", { k = 1 })
        service:refresh(session)
        assert.are.same({ k = 1 }, session.state:getAll())
        assert.are.equal(0, session.revision)
      end)

      it("keeps what the object alone knows: its `temp:` keys", function()
        local session = checks.create(service)
        checks.append(service, session, { ["temp:k"] = 1 })
        service:refresh(session)
        assert.are.equal(1, session.state["temp:k"])
      end)
    end)
  end)
end)

describe("a service", function()
  support.each_store(function(open)
    it("refuses every call once it is closed, and can be closed again", function()
      local service = open()
      local session = checks.create(service, "s", { k = { 1 } })
      checks.append(service, session, { x = 1 })
      service:close()
      service:close()
      local name = { appName = "app", userId = "u", sessionId = "s" }
      local calls = {
        createSession = { { appName = "app", userId = "u" } },
        getSession = { name },
        listSessions = { { appName = "app" } },
        deleteSession = { name },
        appendEvent = { session, { author = "agent" } },
        refresh = { session },
        getAppState = { { appName = "app" } },
        getUserState = { { appName = "app", userId = "u" } },
        updateAppState = { { appName = "app", state = { k = 1 } } },
        updateUserState = { { appName = "app", userId = "u", state = { k = 1 } } },
        incrementState = { { appName = "app", key = "n" } },
        stateAt = { session, 0 },
        fork = { session, { at = 0 } },
        rewind = { session, { invocationId = "i" } },
        export = { session },
        import = { { lines = "" } },
        backup = { "/tmp/never-written.db" },
        sweep = {},
      }
      for call, arguments in pairs(calls) do
        raises("closed", "closed", service[call], service, table.unpack(arguments))
      end
      session.state.pending = 1
      raises("closed", "closed", service.updateSession, service, session)
    end)

    it("leaves what a session object holds readable when it is closed", function()
      local service = open()
      local session = checks.create(service, "s", { k = { 1 }, ["user:n"] = 2 })
      service:close()
      assert.are.equal(1, session.state.k[1])
      assert.are.same({ k = { 1 }, ["user:n"] = 2 }, session.state:getAll())
      assert.are.equal("s", session.id)
      assert.are.equal(0, session.revision)
    end)

    it("says so when a call is made with a dot", function()
      local service = open()
      for _, call in ipairs { "createSession", "getSession", "listSessions", "deleteSession", "appendEvent",
        "updateSession", "refresh",
        "getAppState", "getUserState", "updateAppState", "updateUserState", "incrementState", "stateAt", "fork",
          "rewind", "export", "import", "backup", "sweep", "close" } do
        raises("invalid_argument", { "service:" .. call }, service[call], { appName = "app", userId = "u" })
        raises("invalid_argument", { "service:" .. call }, service[call])
      end
    end)

    it("refuses a field that a call does not know and names the nearest", function()
      local service = open()
      local session = checks.create(service)
      local cases = {
        { "createSession", { appName = "app", userId = "u", sesionId = "s" }, "sesionId", "sessionId" },
        { "getSession", { appName = "app", userId = "u", sessionId = "s", numRecentEvent = 1 }, "numRecentEvent",
          "numRecentEvents" },
        { "getSession", { appName = "app", userId = "u", session_id = "s" }, "session_id", "sessionId" },
        { "listSessions", { appname = "app" }, "appname", "appName" },
        { "deleteSession", { appName = "app", userID = "u", sessionId = "s" }, "userID", "userId" },
        { "appendEvent", { session = session, evnt = {} }, "evnt", "event" },
        { "getAppState", { appName = "app", app_name = "app" }, "app_name", "appName" },
        { "getUserState", { appName = "app", userid = "u" }, "userid", "userId" },
        { "updateAppState", { appName = "app", sate = {} }, "sate", "state" },
        { "updateUserState", { appName = "app", userId = "u", stat = {} }, "stat", "state" },
        { "incrementState", { appName = "app", kye = "n" }, "kye", "key" },
        { "import", { line = "" }, "line", "lines" },
      }
      for _, case in ipairs(cases) do
        raises("invalid_argument", { case[3], "unknown field", "did you mean " .. case[4] .. "?" }, service[case[1]],
          service, case[2])
      end
      raises("invalid_argument", "did you mean sessionId?", service.fork, service, session, { at = 0, sessionid = "x" })
      raises("invalid_argument", "did you mean invocationId?", service.rewind, service, session, { invocationID = "x" })
      raises("invalid_argument", { "completelyDifferent", "unknown field" }, service.getAppState, service,
        { appName = "app", completelyDifferent = 1 })
    end)

    it("wants a session where it says so", function()
      local service = open()
      for _, call in ipairs { "appendEvent", "updateSession", "refresh", "stateAt", "fork", "rewind",
        "export" } do
        raises("invalid_argument", "session", service[call], service)
        raises("invalid_argument", "session", service[call], service, "s", {})
        raises("invalid_argument", nil, service[call], service, { id = "s" }, {})
      end
    end)

    it("lets go of sessions and services in any order", function()
      local kept
      do
        local service = open()
        kept = checks.create(service, "s", { list = { 1 } })
        checks.append(service, kept, { k = 1 })
      end
      collectgarbage()
      collectgarbage()
      assert.are.equal(1, kept.state.list[1])
      assert.are.equal(1, #kept.events)
      assert.are.equal(1, kept.events[1].actions.stateDelta.k)
    end)
  end)
end)
