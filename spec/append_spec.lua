-- The single write path: appendEvent, step by step (contract 2.1).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local socket = require "socket"
local support = require "spec.support"

local raises = checks.raises
local UUID7 = "^%x%x%x%x%x%x%x%x%-%x%x%x%x%-7%x%x%x%-[89ab]%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$"

local function text(words)
  return { role = "model", parts = { { text = words } } }
end

describe("appendEvent", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open()
      session = checks.create(service, "s", { k = "before" })
    end)

    local function expectNothingHappened(object)
      object = object or session
      assert.are.equal(0, object.revision)
      assert.are.equal(0, #object.events)
      assert.are.same({ k = "before" }, object.state:getAll())
      local stored = checks.get(service)
      assert.are.equal(0, stored.revision)
      assert.are.equal(0, #stored.events)
      assert.are.same({ k = "before" }, stored.state:getAll())
    end

    it("takes the session and the event one after the other, or by name", function()
      assert.are.equal(1, service:appendEvent(session, { author = "agent" }).revision)
      assert.are.equal(2, service:appendEvent({ session = session, event = { author = "agent" } }).revision)
    end)

    it("wants an event", function()
      raises("invalid_argument", "event", service.appendEvent, service, session)
      raises("invalid_argument", "event", service.appendEvent, service, session, "hello")
      raises("invalid_argument", "event", service.appendEvent, service, { session = session })
      raises("invalid_argument", nil, service.appendEvent, service, session, { "by position" })
      expectNothingHappened()
    end)

    describe("of a partial event", function()
      it("returns it unchanged and records nothing", function()
        local event = { author = "agent", partial = true, content = text "Hel",
          actions = { stateDelta = { k = 1, ["temp:t"] = 1, ["user:x"] = 1 } } }
        local returned = service:appendEvent(session, event)
        assert.are.same(
          { author = "agent", partial = true, content = text "Hel",
            actions = { stateDelta = { k = 1, ["temp:t"] = 1, ["user:x"] = 1 } } },
          moonpad.toTable(returned))
        assert.is_nil(returned.revision)
        expectNothingHappened()
        assert.are.same({}, service:getUserState { appName = "app", userId = "u" })
      end)

      it("records an event whose `partial` is false", function()
        assert.are.equal(1, service:appendEvent(session, { author = "agent", partial = false }).revision)
      end)
    end)

    describe("fills in", function()
      it("a time-ordered id, the time and an invocation where they are missing #clock", function()
        -- Not os.time: it is a few milliseconds late.
        local before = socket.gettime()
        local first = service:appendEvent(session, { author = "agent" })
        local second = service:appendEvent(session, { author = "agent" })
        assert.matches(UUID7, first.id)
        assert.matches(UUID7, second.id)
        assert.is_true(first.id < second.id)
        assert.is_true(first.timestamp >= before and first.timestamp <= socket.gettime())
        assert.are.equal("float", math.type(first.timestamp))
        assert.is_string(first.invocationId)
        assert.is_true(#first.invocationId > 0)
        assert.are_not.equal(first.id, first.invocationId)
        assert.are_not.equal(first.invocationId, second.invocationId)
        assert.are.same(moonpad.toTable(first), moonpad.toTable(checks.get(service).events[1]))
      end)

      it("nothing that was given", function()
        local event = service:appendEvent(session, { id = "my id", invocationId = "my run", timestamp = 1.5,
          author = "me" })
        assert.are.equal("my id", event.id)
        assert.are.equal("my run", event.invocationId)
        assert.are.equal(1.5, event.timestamp)
        assert.are.equal("me", event.author)
      end)

      it("and never changes the caller's table", function()
        local given = { author = "agent", content = text "Hi",
          actions = { stateDelta = { k = { 1 }, ["temp:t"] = 2, gone = moonpad.removed } } }
        service:appendEvent(session, given)
        assert.are.same({ author = "agent", content = text "Hi",
          actions = { stateDelta = { k = { 1 }, ["temp:t"] = 2, gone = moonpad.removed } } }, given)
        assert.is_nil(getmetatable(given))
        given.actions.stateDelta.k[1], given.content.parts[1].text = 9, "changed"
        assert.are.equal(1, session.state.k[1])
        assert.are.equal("Hi", session.events[1].content.parts[1].text)
        assert.are.equal(1, session.events[1].actions.stateDelta.k[1])
      end)
    end)

    describe("validates", function()
      it("the types of the fields that it knows", function()
        local refused = {
          { { author = 7 }, "author" },
          { { author = "a", id = 7 }, "id" },
          { { author = "a", invocationId = {} }, "invocationId" },
          { { author = "a", timestamp = "now" }, "timestamp" },
          { { author = "a", timestamp = 0 / 0 }, "timestamp" },
          { { author = "a", timestamp = math.huge }, "timestamp" },
          { { author = "a", content = "hello" }, "content" },
          { { author = "a", actions = "none" }, "actions" },
          { { author = "a", actions = { stateDelta = "none" } }, "stateDelta" },
          { { author = "a", actions = { stateDelta = { "by position" } } }, "stateDelta" },
          { { author = "a", branch = 1 }, "branch" },
        }
        for _, case in ipairs(refused) do raises("invalid_argument", case[2], service.appendEvent, service, session,
          case[1]) end
        expectNothingHappened()
      end)

      it("everything in it, and names the path of a bad value", function()
        raises("invalid_argument", { "customMetadata", "run", "function" }, checks.append, service, session, nil,
          { customMetadata = { { run = print } } })
        raises("invalid_argument", { "content", "parts[1]", "UTF-8" }, checks.append, service, session, nil,
          { content = { role = "model", parts = { { text = "\xff" } } } })
        raises("invalid_argument", { 'cart', "[2].run: a function cannot be stored" }, checks.append, service, session,
          { cart = { 1, { run = print } } })
        raises("invalid_argument", { "1024" }, checks.append, service, session, { [("k"):rep(1025)] = 1 })
        raises("invalid_argument", { "UTF-8" }, checks.append, service, session, { ["\xff"] = 1 })
        raises("invalid_argument", { "temp:t" }, checks.append, service, session, { ["temp:t"] = print })
        raises("invalid_argument", nil, checks.append, service, session, nil,
          { customMetadata = { gone = moonpad.removed } })
        expectNothingHappened()
      end)

      it("and refuses near misses of a name that it knows", function()
        local misses = {
          invocation_id = "invocationId", InvocationId = "invocationId", Author = "author",
            turn_complete = "turnComplete",
          errorcode = "errorCode", error_message = "errorMessage", ID = "id", usage_metadata = "usageMetadata",
            custom_metadata = "customMetadata",
          long_running_tool_ids = "longRunningToolIds", Actions = "actions", TimeStamp = "timestamp",
            Partial = "partial",
        }
        for given, known in pairs(misses) do
          raises("invalid_argument", { given, known }, service.appendEvent, service, session,
            { author = "a", [given] = "x" })
        end
        local inActions = { state_delta = "stateDelta", StateDelta = "stateDelta", statedelta = "stateDelta",
          artifact_delta = "artifactDelta",
          transfer_to_agent = "transferToAgent", Escalate = "escalate", skip_summarization = "skipSummarization" }
        for given, known in pairs(inActions) do
          raises("invalid_argument", { given, known }, service.appendEvent, service, session,
            { author = "a", actions = { [given] = {} } })
        end
        expectNothingHappened()
      end)

      it("and refuses near misses inside of parts", function()
        for _, row in ipairs {
          { "inlineData", { mime_type = "a/b", data = "x" }, "parts[1].inlineData.mime_type", "mimeType" },
          { "functionCall", { name = "f", Args = {} }, "parts[1].functionCall.Args", "args" },
          { "functionResponse", { Response = {}, name = "f" }, "parts[1].functionResponse.Response", "response" },
        } do
          raises("invalid_argument", { row[3], row[4] }, service.appendEvent, service, session,
            { author = "a", content = { parts = { { [row[1]] = row[2] } } } })
        end
        expectNothingHappened()
        local call = { name = "f", args = { Args = 1, mime_type = 2 }, willContinue = true }
        local event = service:appendEvent(session, { author = "a", content = { parts = { { functionCall = call } } } })
        checks.identical(call, event.content.parts[1].functionCall)
      end)

      it("and refuses a field of `actions` at the top level", function()
        for _, field in ipairs { "stateDelta", "artifactDelta", "transferToAgent", "escalate", "skipSummarization",
          "compaction", "state_delta" } do
          raises("invalid_argument", { field, "actions" }, service.appendEvent, service, session,
            { author = "a", [field] = {} })
        end
        expectNothingHappened()
      end)

      it("but keeps fields that it does not know", function()
        local event = service:appendEvent(session, {
          author = "a", myField = { 1, { deep = moonpad.null } }, x = 1.0,
            actions = { myAction = "yes", stateDelta = {} },
          content = { role = "model", parts = { { executableCode = { language = "LUA" }, mine = true } }, extra = 1 },
        })
        local stored = checks.get(service).events[1]
        for _, found in ipairs { event, stored } do
          checks.identical({ 1, { deep = moonpad.null } }, found.myField)
          checks.identical(1.0, found.x)
          assert.are.equal("yes", found.actions.myAction)
          assert.are.same({ executableCode = { language = "LUA" }, mine = true }, found.content.parts[1])
          assert.are.equal(1, found.content.extra)
        end
      end)
    end)

    describe("to a session that is not there", function()
      it("is not_found and leaves the object as it was", function()
        service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
        raises("not_found", "s", checks.append, service, session, { k = "after", ["user:k"] = 1, ["temp:t"] = 1 })
        assert.are.equal(0, session.revision)
        assert.are.equal(0, #session.events)
        assert.are.same({ k = "before" }, session.state:getAll())
        assert.are.same({}, service:getUserState { appName = "app", userId = "u" })
      end)
    end)

    describe("of an event that is already there", function()
      local event = { id = "e1", author = "agent", content = text "Hi",
        actions = { stateDelta = { k = "after", ["user:n"] = 1 } } }

      it("succeeds, and nothing is applied twice", function()
        local first = service:appendEvent(session, event)
        service:updateUserState { appName = "app", userId = "u", state = { n = 2 } }
        local second = service:appendEvent(session, event)
        assert.are.equal(1, second.revision)
        assert.are.equal(first.timestamp, second.timestamp)
        assert.are.equal(first.invocationId, second.invocationId)
        assert.are.equal(1, session.revision)
        assert.are.equal(1, #session.events)
        assert.are.equal(1, checks.get(service).revision)
        assert.are.same({ n = 2 }, service:getUserState { appName = "app", userId = "u" })
      end)

      it("succeeds from another session object, and after other events", function()
        local behind = checks.get(service)
        service:appendEvent(session, event)
        checks.append(service, session, { k = "later" })
        for _, object in ipairs { behind, session, (checks.get(service)) } do
          assert.are.equal(1, service:appendEvent(object, event).revision)
        end
        local stored = checks.get(service)
        assert.are.equal(2, stored.revision)
        assert.are.equal("later", stored.state.k)
        assert.are.equal(2, #stored.events)
      end)

      it("compares what the caller gave, without `temp:`", function()
        service:appendEvent(session, { id = "e1", author = "agent",
          actions = { stateDelta = { k = 1, ["temp:t"] = 1 } } })
        service:appendEvent(session, { id = "e1", author = "agent",
          actions = { stateDelta = { k = 1, ["temp:t"] = 2 } } })
        service:appendEvent(session, { id = "e1", author = "agent", actions = { stateDelta = { k = 1 } } })
        assert.are.equal(1, session.revision)
      end)

      it("may repeat what was filled in, or give the stored event back", function()
        local stored = service:appendEvent(session, event)
        assert.are.equal(1, service:appendEvent(session, stored).revision)
        assert.are.equal(1, service:appendEvent(session, checks.get(service).events[1]).revision)
        assert.are.equal(1, session.revision)
      end)

      it("succeeds every time, whatever its values are", function()
        for index = 1, 200 do
          local id, delta = "e" .. index, { ["k" .. index] = index, f = index / 4, ["user:k"] = { index },
            b = index % 2 == 0 }
          checks.append(service, session, delta, { id = id })
          assert.are.equal(index, checks.append(service, session, delta, { id = id }).revision)
        end
      end)

      it("may have 1,024 bytes, and no more", function()
        for _, id in ipairs { ("x"):rep(1024), ("x"):rep(1023) .. "y", ("ä"):rep(512), ("\"\\"):rep(512) } do
          local stored = checks.append(service, session, { k = id }, { id = id })
          assert.are.equal(stored.revision, checks.append(service, session, { k = id }, { id = id }).revision)
          raises("already_exists", nil, checks.append, service, session, { k = "other" }, { id = id })
          assert.are.equal(id, checks.get(service).events[stored.revision].id)
        end
        raises("invalid_argument", "event.id: longer than 1024 bytes", checks.append, service, session, {},
          { id = ("x"):rep(1025) })
        assert.are.equal(4, checks.get(service).revision)
      end)

      it("is already_exists when its content is another", function()
        service:appendEvent(session, event)
        local function appendOther(change)
          local other = moonpad.toTable(event)
          change(other)
          raises("already_exists", "e1", service.appendEvent, service, session, other)
        end
        appendOther(function(other) other.author = "somebody" end)
        appendOther(function(other) other.actions.stateDelta.k = "other" end)
        appendOther(function(other) other.actions.stateDelta.new = 1 end)
        appendOther(function(other) other.content.parts[1].text = "Ho" end)
        appendOther(function(other) other.content = nil end)
        appendOther(function(other) other.timestamp = 1.0 end)
        appendOther(function(other) other.customMetadata = { x = 1 } end)
        assert.are.equal(1, checks.get(service).revision)
        assert.are.equal("after", checks.get(service).state.k)
      end)

      it("tells 1 from 1.0, and null from a deletion", function()
        checks.append(service, session, { k = 1 }, { id = "number" })
        raises("already_exists", "number", checks.append, service, session, { k = 1.0 }, { id = "number" })
        checks.append(service, session, { k = moonpad.null }, { id = "null" })
        raises("already_exists", "null", checks.append, service, session, { k = moonpad.removed }, { id = "null" })
        assert.are.equal(moonpad.null, checks.get(service).state.k)
      end)

      it("is another event in another session", function()
        service:appendEvent(session, event)
        local other = checks.create(service, "other")
        assert.are.equal(1, service:appendEvent(other, event).revision)
        assert.are.equal("after", checks.get(service, "other").state.k)
      end)
    end)

    describe("stores", function()
      it("the deltas of every scope, the event, the revision and the time together", function()
        checks.append(service, session, { k = "after", ["user:k"] = 1, ["app:k"] = 2, ["temp:k"] = 3 },
          { timestamp = 42.5, id = "e" })
        local stored = checks.get(service)
        assert.are.same({ k = "after", ["user:k"] = 1, ["app:k"] = 2 }, stored.state:getAll())
        assert.are.equal(1, stored.revision)
        assert.are.equal(42.5, stored.lastUpdateTime)
        assert.are.equal("e", stored.events[1].id)
        assert.are.same({ k = "after", ["user:k"] = 1, ["app:k"] = 2 }, stored.events[1].actions.stateDelta)
      end)

      it("nothing of it when one part fails", function()
        local other = checks.get(service)
        checks.append(service, other, { k = "theirs" })
        raises("conflict", "k", checks.append, service, session,
          { new = 1, k = "mine", ["user:k"] = 1, ["app:k"] = 1, ["temp:t"] = 1 })
        local stored = checks.get(service)
        assert.are.same({ k = "theirs" }, stored.state:getAll())
        assert.are.equal(1, stored.revision)
        assert.are.equal(0, session.revision)
        assert.are.same({ k = "before" }, session.state:getAll())
        assert.are.equal(0, #session.events)
      end)

      it("an event that has nothing but `temp:` keys, without them", function()
        local event = checks.append(service, session, { ["temp:t"] = 1 })
        assert.are.equal(1, event.revision)
        assert.are.same({}, (event.actions or {}).stateDelta or {})
        assert.are.same({}, (checks.get(service).events[1].actions or {}).stateDelta or {})
      end)

      it("what increments and appends came to", function()
        session.state:increment("n", 2)
        session.state:append("list", "x")
        service:updateSession(session)
        local event = checks.get(service).events[1]
        assert.are.same({ n = 2, list = { "x" } }, event.actions.stateDelta)
      end)

      it("a table as a whole: it is never merged into what was there", function()
        checks.append(service, session, { nested = { a = 1, b = { c = 1 } } })
        checks.append(service, session, { nested = { b = { d = 2 } } })
        assert.are.same({ b = { d = 2 } }, checks.get(service).state:getAll().nested)
        assert.are.same({ b = { d = 2 } }, moonpad.toTable(session.state.nested))
      end)

      it("moonpad.null as null, and deletes by moonpad.removed", function()
        checks.append(service, session, { k = moonpad.null, gone = 1, ["user:gone"] = 1 })
        assert.is_true(session.state:has "k")
        checks.append(service, session, { gone = moonpad.removed, never = moonpad.removed,
          ["user:gone"] = moonpad.removed })
        for _, object in ipairs { session, (checks.get(service)) } do
          assert.are.same({ k = moonpad.null }, object.state:getAll())
          assert.are.equal(moonpad.removed, object.events[2].actions.stateDelta.gone)
          assert.are.equal(moonpad.removed, object.events[2].actions.stateDelta["user:gone"])
          assert.are.equal(moonpad.null, object.events[1].actions.stateDelta.k)
        end
        assert.are.same({}, service:getUserState { appName = "app", userId = "u" })
      end)

      it("events in the order of their appends, whatever their times and ids", function()
        for index, timestamp in ipairs { 30, 10, 20, 10 } do
          checks.append(service, session, nil, { id = tostring(9 - index), timestamp = timestamp })
        end
        local found = {}
        for index, event in ipairs(checks.get(service).events) do
          assert.are.equal(index, event.revision)
          found[index] = event.id
        end
        assert.are.same({ "8", "7", "6", "5" }, found)
      end)

      it("events without a delta, and without anything but an author", function()
        service:appendEvent(session, { author = "a" })
        service:appendEvent(session, { author = "a", actions = {} })
        service:appendEvent(session, { author = "a", actions = { stateDelta = {} } })
        assert.are.equal(3, checks.get(service).revision)
      end)
    end)

    describe("changes the session object", function()
      it("only once the event is stored", function()
        checks.append(service, session, { k = "after", new = { 1 }, ["user:k"] = 2, ["temp:t"] = 3 },
          { timestamp = 9.5 })
        assert.are.same({ k = "after", new = { 1 }, ["user:k"] = 2, ["temp:t"] = 3 }, session.state:getAll())
        assert.are.equal(1, session.revision)
        assert.are.equal(9.5, session.lastUpdateTime)
        assert.are.equal(1, #session.events)
        assert.is_false(session.state:hasDelta())
      end)

      it("and takes in what others have changed up to its new revision", function()
        local other = checks.get(service)
        checks.append(service, other, { theirs = 1, k = moonpad.removed, ["user:x"] = { 2 } }, { id = "theirs" })
        checks.append(service, other, { theirs = 2 }, { id = "theirs too" })
        service:updateAppState { appName = "app", state = { y = 3 } }
        local event = checks.append(service, session, { mine = 1 }, { id = "mine" })
        assert.are.equal(3, event.revision)
        assert.are.equal(3, session.revision)
        assert.are.same({ mine = 1, theirs = 2, ["user:x"] = { 2 }, ["app:y"] = 3 }, session.state:getAll())
        local found = {}
        for index, each in ipairs(session.events) do found[index] = each.id end
        assert.are.same({ "theirs", "theirs too", "mine" }, found)
      end)

      it("and keeps its `temp:` keys", function()
        checks.append(service, session, { ["temp:t"] = 1, ["temp:u"] = 1 })
        checks.append(service, session, { ["temp:t"] = moonpad.removed })
        checks.append(service, session, { k = 1 })
        assert.are.same({ k = 1, ["temp:u"] = 1 }, session.state:getAll())
      end)
    end)

    describe("hands out", function()
      it("an event that is a copy: changing it changes no history", function()
        local event = checks.append(service, session, { list = { 1 } }, { content = text "Hi" })
        event.actions.stateDelta.list[1] = "changed"
        event.content.parts[1].text = "changed"
        event.author = "changed"
        local found = session.events[1]
        assert.are.equal(1, found.actions.stateDelta.list[1])
        assert.are.equal("Hi", found.content.parts[1].text)
        found.author = "changed"
        found.actions.stateDelta.list[1] = "changed"
        for _, object in ipairs { session, (checks.get(service)) } do
          assert.are.equal("agent", object.events[1].author)
          assert.are.equal(1, object.events[1].actions.stateDelta.list[1])
        end
        assert.are.equal(1, session.state.list[1])
      end)

      it("the revision with every event", function()
        for expected = 1, 3 do
          local event = checks.append(service, session)
          assert.are.equal(expected, event.revision)
          assert.are.equal("integer", math.type(event.revision))
        end
        for index, event in ipairs(checks.get(service).events) do assert.are.equal(index, event.revision) end
        assert.are.equal(2, session.events[2].revision)
      end)
    end)

    it("does not keep a `revision` that the caller's event carries", function()
      local event = service:appendEvent(session, { author = "agent", revision = 99 })
      assert.are.equal(1, event.revision)
      assert.are.equal(1, checks.get(service).events[1].revision)
    end)

    it("keeps large events whole", function()
      local parts = {}
      for index = 1, 2000 do parts[index] = { text = ("part %d "):format(index):rep(10) } end
      service:appendEvent(session, { author = "agent", content = { role = "model", parts = parts } })
      assert.are.same(parts, checks.get(service).events[1].content.parts)
    end)
  end)
end)
