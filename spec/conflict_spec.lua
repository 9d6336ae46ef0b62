-- Two writers who both looked at a value must not silently undo each other (contract 2.2).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

describe("two writers", function()
  support.each_store(function(open)
    -- `mine` and `theirs` are objects of one session that hold the same revision.
    local service, mine, theirs
    local function start(state, config)
      service = open(config)
      checks.create(service, "s", state)
      mine, theirs = checks.get(service), checks.get(service)
    end

    before_each(function()
      start { k = "old", j = "old", n = 1, list = { 1 }, ["user:k"] = "old", ["user:n"] = 1, ["user:list"] = { 1 },
        ["app:k"] = "old" }
    end)

    local function stored(key) return checks.get(service).state[key] end

    -- Somebody else stores this delta.
    local function elsewhere(delta) checks.append(service, theirs, delta) end

    local function expectConflict(keys, run, ...)
      local revision = checks.get(service).revision
      local before = checks.get(service).state:getAll()
      local err = raises("conflict", keys[1], run or service.updateSession, service, mine, ...)
      table.sort(err.keys)
      assert.are.same(keys, err.keys)
      assert.is_table(err.event)
      assert.are.equal(revision, checks.get(service).revision)
      assert.are.same(before, checks.get(service).state:getAll())
      return err
    end

    local function byHand(delta)
      return { author = "agent", actions = { stateDelta = delta } }
    end

    describe("on a session key", function()
      it("conflict when the second had read it", function()
        mine.state.k = mine.state.k .. " and mine"
        elsewhere { k = "theirs" }
        expectConflict { "k" }
      end)

      it("conflict also when neither had read it", function()
        mine.state.k = "mine"
        elsewhere { k = "theirs" }
        expectConflict { "k" }
      end)

      it("conflict when the second writes after the first has stored", function()
        elsewhere { k = "theirs" }
        mine.state.k = "mine"
        expectConflict { "k" }
      end)

      it("conflict when one changes a place inside the value", function()
        mine.state.list[1] = "mine"
        theirs.state.list[2] = "theirs"
        service:updateSession(theirs)
        expectConflict { "list" }
        assert.are.equal('[1,"theirs"]', tostring(stored "list"))
      end)

      it("conflict when both store the same value", function()
        mine.state.k = "same"
        elsewhere { k = "same" }
        expectConflict { "k" }
      end)

      it("conflict when the first removed it", function()
        mine.state.k = "mine"
        elsewhere { k = moonpad.removed }
        expectConflict { "k" }
        assert.is_nil(stored "k")
      end)

      it("conflict when the second removes it", function()
        mine.state.k = nil
        elsewhere { k = "theirs" }
        expectConflict { "k" }
        assert.are.equal("theirs", stored "k")
      end)

      it("conflict when the first made it", function()
        mine.state.new = "mine"
        elsewhere { new = "theirs" }
        expectConflict { "new" }
      end)

      it("conflict when the first made it and took it away again", function()
        mine.state.new = "mine"
        elsewhere { new = "theirs" }
        elsewhere { new = moonpad.removed }
        expectConflict { "new" }
        assert.is_nil(stored "new")
      end)

      it("conflict when the first removed it and put the same back", function()
        mine.state.k = "mine"
        elsewhere { k = moonpad.removed }
        elsewhere { k = "old" }
        expectConflict { "k" }
      end)

      it("do not conflict when they write different keys, and the second catches up", function()
        mine.state.j = mine.state.k .. " and mine"
        elsewhere { k = "theirs" }
        local event = service:updateSession(mine)
        assert.are.equal(2, event.revision)
        assert.are.equal("theirs", mine.state.k)
        assert.are.equal("old and mine", stored "j")
      end)

      it("conflict only by the keys that were changed", function()
        mine.state:update { k = "mine", j = "mine", new = "mine", ["user:k"] = "mine" }
        elsewhere { k = "theirs", new = "theirs", other = "theirs" }
        expectConflict { "k", "new" }
        assert.are.equal("old", stored "j")
        assert.are.equal("old", stored "user:k")
      end)

      it("do not conflict when the second only reads", function()
        local _ = { mine.state.k, mine.state:getAll() }
        elsewhere { k = "theirs" }
        assert.is_nil(service:updateSession(mine))
        checks.append(service, mine, { other = 1 })
        assert.are.equal("theirs", mine.state.k)
      end)
    end)

    describe("after a conflict", function()
      before_each(function()
        mine.state.k = "mine"
        elsewhere { k = "theirs", more = 1 }
        expectConflict { "k" }
      end)

      it("the second still has its pending writes and its own view", function()
        assert.are.same({ k = "mine" }, mine.state:delta())
        assert.are.equal("mine", mine.state.k)
        assert.is_nil(mine.state.more)
        assert.are.equal(0, mine.revision)
        assert.are.equal(0, #mine.events)
      end)

      it("the second conflicts again until it has refreshed", function()
        expectConflict { "k" }
        service:refresh(mine)
        assert.are.equal("mine", mine.state.k)
        assert.are.equal(1, mine.state.more)
        service:updateSession(mine)
        assert.are.equal("mine", stored "k")
      end)

      it("the second may start over from a fresh object", function()
        local fresh = checks.get(service)
        assert.are.equal("theirs", fresh.state.k)
        fresh.state.k = fresh.state.k .. " and mine"
        service:updateSession(fresh)
        assert.are.equal("theirs and mine", stored "k")
      end)

      it("a change that comes after the refresh conflicts again", function()
        service:refresh(mine)
        elsewhere { k = "theirs again" }
        expectConflict { "k" }
        service:refresh(mine)
        service:updateSession(mine)
        assert.are.equal("mine", stored "k")
      end)

      it("the error carries the event that was not stored", function()
        local err = expectConflict { "k" }
        assert.are.equal("system", err.event.author)
        assert.are.same({ k = "mine" }, err.event.actions.stateDelta)
        local given = byHand { k = "by hand" }
        given.customMetadata = { note = 1 }
        err = expectConflict({ "k" }, service.appendEvent, given)
        assert.are.same({ k = "by hand" }, err.event.actions.stateDelta)
        assert.are.same({ note = 1 }, err.event.customMetadata)
      end)
    end)

    -- The keys of users and of the app behave alike; what stores a change of one elsewhere, and
    -- what it is called.
    local shared = {
      { "user:k", function(value) service:updateUserState { appName = "app", userId = "u",
        state = { k = value } } end },
      { "app:k", function(value) service:updateAppState { appName = "app", state = { k = value } } end },
    }

    for _, scope in ipairs(shared) do
      local key, update = scope[1], scope[2]

      describe("on " .. key, function()
        it("do not conflict without a read: the last one wins", function()
          mine.state[key] = "mine"
          elsewhere { [key] = "theirs" }
          service:updateSession(mine)
          assert.are.equal("mine", stored(key))
        end)

        it("do not conflict without a read, whichever way it is written", function()
          local writes = {
            function(state) state:set(key, "mine") end,
            function(state) state:update { [key] = "mine" } end,
            function(state) state[key] = nil; state[key] = "mine" end,
            function(state) state[key] = "first"; state[key] = "mine" end,
          }
          for index, write in ipairs(writes) do
            local writer = checks.get(service)
            write(writer.state)
            update("theirs " .. index)
            service:updateSession(writer)
            assert.are.equal("mine", stored(key))
          end
        end)

        -- Everything that tells about the key.
        local reads = {
          ["by index"] = function(state) return state[key] end,
          ["with get"] = function(state) return state:get(key) end,
          ["with get and a default"] = function(state) return state:get(key, "default") end,
          ["with has"] = function(state) return state:has(key) end,
          ["by iteration"] = function(state) for _ in pairs(state) do end end,
          ["with getAll"] = function(state) return state:getAll() end,
          ["with toTable"] = function(state) return state:toTable() end,
          ["by the answer of setDefault"] = function(state) return state:setDefault(key, "default") end,
          ["by the answer of delete"] = function(state) return state:delete(key) end,
        }
        for how, read in pairs(reads) do
          it("conflict when it was read " .. how, function()
            read(mine.state)
            mine.state[key] = "mine"
            elsewhere { [key] = "theirs" }
            expectConflict { key }
            service:refresh(mine)
            service:updateSession(mine)
            assert.are.equal("mine", stored(key))
          end)
        end

        it("conflict when a place inside it was read or written", function()
          for _, write in ipairs {
            function(state) state[key].x = 2 end,
            function(state) state[key] = { x = state[key].x + 1 } end,
            function(state) table.insert(state[key].list, 1) end,
          } do
            update { x = 1, list = {} }
            mine = checks.get(service)
            write(mine.state)
            update { x = 9, list = { 9 } }
            expectConflict { key }
          end
        end)

        it("conflict by what is not in the session's events too", function()
          mine.state[key] = mine.state[key] .. " and mine"
          update "theirs"
          expectConflict { key }
          service:refresh(mine)
          service:updateSession(mine)
          assert.are.equal("old and mine", stored(key))
        end)

        it("conflict when it was removed meanwhile", function()
          mine.state[key] = mine.state[key] .. " and mine"
          update(moonpad.removed)
          expectConflict { key }
          assert.is_nil(stored(key))
        end)

        it("conflict when it was absent and somebody made it", function()
          update(moonpad.removed)
          mine = checks.get(service)
          assert.is_false(mine.state:has(key))
          mine.state[key] = "mine"
          update "theirs"
          expectConflict { key }
          assert.are.equal("theirs", stored(key))
        end)

        it("conflict when it was absent and somebody made and removed it", function()
          update(moonpad.removed)
          mine = checks.get(service)
          mine.state:setDefault(key, "mine")
          update "theirs"
          update(moonpad.removed)
          expectConflict { key }
        end)

        it("conflict when what was read is older than the last change", function()
          update "theirs"
          mine.state[key] = mine.state[key] .. " and mine"
          expectConflict { key }
        end)

        it("do not conflict when another key was read", function()
          local _ = { mine.state.k, mine.state["user:n"], mine.state:has "app:other" }
          mine.state[key] = "mine"
          update "theirs"
          elsewhere { ["user:n"] = 2 }
          service:updateSession(mine)
          assert.are.equal("mine", stored(key))
        end)

        it("do not conflict when a template read it", function()
          assert.are.equal("It is old.", moonpad.injectSessionState("It is {" .. key .. "}.", mine.state))
          mine.state[key] = "mine"
          update "theirs"
          service:updateSession(mine)
          assert.are.equal("mine", stored(key))
        end)

        it("do not conflict when only pending changes were looked at", function()
          local _ = { mine.state:hasDelta(), mine.state:delta(), tostring(mine.state) }
          mine.state[key] = "mine"
          update "theirs"
          service:updateSession(mine)
          assert.are.equal("mine", stored(key))
        end)

        it("conflict with a new session that brings a value of its own", function()
          mine.state[key] = mine.state[key] .. " and mine"
          service:createSession { appName = "app", userId = "u", sessionId = "new", state = { [key] = "theirs" } }
          expectConflict { key }
        end)

        it("conflict with an event of another session", function()
          mine.state[key] = mine.state[key] .. " and mine"
          local other = checks.create(service, "other")
          checks.append(service, other, { [key] = "theirs" })
          expectConflict { key }
        end)
      end)
    end

    it("on a user key of different users do not meet", function()
      mine.state["user:k"] = mine.state["user:k"] .. " and mine"
      service:updateUserState { appName = "app", userId = "v", state = { k = "theirs" } }
      service:updateUserState { appName = "other", userId = "u", state = { k = "theirs" } }
      service:updateSession(mine)
      assert.are.equal("old and mine", stored "user:k")
    end)

    it("on different keys of one user do not meet", function()
      mine.state["user:k"] = mine.state["user:k"] .. " and mine"
      service:updateUserState { appName = "app", userId = "u", state = { other = "theirs" } }
      service:incrementState { appName = "app", userId = "u", key = "n" }
      service:updateSession(mine)
      assert.are.equal("old and mine", stored "user:k")
      assert.are.equal(2, stored "user:n")
    end)

    it("conflict when incrementState changed what was read", function()
      mine.state["user:n"] = mine.state["user:n"] + 1
      service:incrementState { appName = "app", userId = "u", key = "n", by = 10 }
      expectConflict { "user:n" }
      assert.are.equal(11, stored "user:n")
    end)

    describe("who increment", function()
      for _, key in ipairs { "n", "user:n", "app:n" } do
        it("never conflict on " .. key, function()
          local before = stored(key) or 0
          mine.state:increment(key, 2)
          theirs.state:increment(key, 3)
          service:updateSession(theirs)
          service:updateSession(mine)
          assert.are.equal(before + 5, stored(key))
          assert.are.equal(before + 5, mine.state[key])
        end)

        it("never conflict on " .. key .. ", whatever was read and stored before", function()
          local before = mine.state[key] or 0
          mine.state:increment(key, 2)
          assert.are.equal(before + 2, mine.state[key])
          elsewhere { [key] = 100 }
          service:updateSession(mine)
          assert.are.equal(102, stored(key))
        end)
      end

      it("count from 0 when it was removed meanwhile", function()
        mine.state:increment("n", 2)
        elsewhere { n = moonpad.removed }
        service:updateSession(mine)
        assert.are.equal(2, stored "n")
      end)

      it("fail without a trace when it is no number any more", function()
        mine.state:increment "n"
        mine.state.other = 1
        elsewhere { n = "text" }
        raises("invalid_argument", "n", service.updateSession, service, mine)
        assert.are.equal("text", stored "n")
        assert.is_nil(stored "other")
        assert.are.equal(1, checks.get(service).revision)
        assert.is_true(mine.state:hasDelta())
      end)

      it("fail without a trace when the sum overflows by then", function()
        mine.state:increment "n"
        elsewhere { n = math.maxinteger }
        raises("invalid_argument", "n", service.updateSession, service, mine)
        assert.are.equal(math.maxinteger, stored "n")
      end)

      it("conflict as any other writer when they set the key first", function()
        mine.state.n = 5
        mine.state:increment "n"
        elsewhere { n = 100 }
        expectConflict { "n" }
      end)

      it("do not shield another key", function()
        mine.state:increment "n"
        mine.state.k = "mine"
        elsewhere { n = 100, k = "theirs" }
        expectConflict { "k" }
        assert.are.equal(100, stored "n")
        service:refresh(mine)
        service:updateSession(mine)
        assert.are.equal(101, stored "n")
      end)

      it("make those conflict who set what they had read", function()
        mine.state["user:n"] = mine.state["user:n"] + 1
        theirs.state:increment "user:n"
        service:updateSession(theirs)
        expectConflict { "user:n" }
      end)
    end)

    describe("who append", function()
      for _, key in ipairs { "list", "user:list", "app:list" } do
        it("never conflict on " .. key .. " and keep both items", function()
          local before = moonpad.toTable(mine.state[key]) or {}
          mine.state:append(key, "mine")
          theirs.state:append(key, "theirs")
          service:updateSession(theirs)
          service:updateSession(mine)
          before[#before + 1] = "theirs"
          before[#before + 1] = "mine"
          assert.are.same(before, moonpad.toTable(stored(key)))
          assert.are.same(before, moonpad.toTable(mine.state[key]))
        end)
      end

      it("start a new list when it was removed meanwhile", function()
        mine.state:append("list", "mine")
        elsewhere { list = moonpad.removed }
        service:updateSession(mine)
        assert.are.equal('["mine"]', tostring(stored "list"))
      end)

      it("fail without a trace when it is no list any more", function()
        mine.state:append("list", "mine")
        elsewhere { list = { a = 1 } }
        raises("invalid_argument", "list", service.updateSession, service, mine)
        assert.are.equal('{"a":1}', tostring(stored "list"))
      end)

      it("conflict when they insert into the node instead", function()
        table.insert(mine.state.list, "mine")
        elsewhere { list = { 1, "theirs" } }
        expectConflict { "list" }
      end)
    end)

    describe("with a delta by hand", function()
      it("conflict on a session key that the object holds an older revision of", function()
        elsewhere { k = "theirs" }
        expectConflict({ "k" }, service.appendEvent, byHand { k = "mine" })
        service:refresh(mine)
        service:appendEvent(mine, byHand { k = "mine" })
        assert.are.equal("mine", stored "k")
      end)

      it("conflict on a deletion too", function()
        elsewhere { k = "theirs" }
        expectConflict({ "k" }, service.appendEvent, byHand { k = moonpad.removed })
      end)

      it("go through on keys that nobody changed", function()
        elsewhere { k = "theirs" }
        service:appendEvent(mine, byHand { j = "mine", new = 1 })
        assert.are.equal("theirs", mine.state.k)
        service:appendEvent(mine, byHand { k = "mine" })
        assert.are.equal("mine", stored "k")
      end)

      it("overwrite a user key that the object has not read", function()
        elsewhere { ["user:k"] = "theirs" }
        service:appendEvent(mine, byHand { ["user:k"] = "mine" })
        assert.are.equal("mine", stored "user:k")
      end)

      it("conflict on a user key that the object has read", function()
        local value = mine.state["user:k"]
        elsewhere { ["user:k"] = "theirs" }
        expectConflict({ "user:k" }, service.appendEvent, byHand { ["user:k"] = value .. " and mine" })
        service:refresh(mine)
        service:appendEvent(mine, byHand { ["user:k"] = "mine" })
        assert.are.equal("mine", stored "user:k")
      end)

      it("never conflict on `temp:` keys", function()
        elsewhere { ["temp:t"] = "theirs" }
        service:appendEvent(mine, byHand { ["temp:t"] = "mine" })
        assert.are.equal("mine", mine.state["temp:t"])
      end)
    end)

    describe("with own appends in between", function()
      it("never conflict with themselves", function()
        for index = 1, 3 do
          mine.state.k = (mine.state.k or "") .. index
          mine.state["user:k"] = mine.state["user:k"] .. index
          service:updateSession(mine)
          service:appendEvent(mine, byHand { k = "by hand " .. index, ["user:k"] = mine.state["user:k"] .. "!" })
          mine.state.k = nil
          service:updateSession(mine)
        end
        assert.are.equal("old1!2!3!", stored "user:k")
      end)

      it("never conflict with themselves after a look at everything", function()
        for _, look in ipairs {
          function(state) return state:getAll() end,
          function(state) for _ in pairs(state) do end end,
        } do
          for index = 1, 3 do
            look(mine.state)
            mine.state:update { k = index, ["user:k"] = index, ["app:k"] = index }
            service:updateSession(mine)
            mine.state.k = { index }
            service:updateSession(mine)
            service:appendEvent(mine, byHand { k = "by hand", ["user:k"] = "by hand" })
          end
        end
        assert.are.equal("by hand", stored "k")
      end)

      it("do not conflict with their own delta on a key that is pending", function()
        mine.state.k = "pending"
        service:appendEvent(mine, byHand { k = "by hand" })
        assert.are.equal("pending", mine.state.k)
        service:updateSession(mine)
        assert.are.equal("pending", stored "k")
      end)

      it("keep the base of a key that is pending", function()
        mine.state.k = mine.state.k .. " and mine"
        elsewhere { k = "theirs" }
        checks.append(service, mine, { j = "mine" })
        assert.are.equal("old and mine", mine.state.k)
        expectConflict { "k" }
        service:refresh(mine)
        service:updateSession(mine)
        assert.are.equal("old and mine", stored "k")
      end)

      it("keep the base of a user key that was read and is pending", function()
        mine.state["user:k"] = mine.state["user:k"] .. " and mine"
        elsewhere { ["user:k"] = "theirs" }
        checks.append(service, mine, { j = "mine" })
        expectConflict { "user:k" }
      end)

      it("see what they took in: a first look after it is a look at the new value", function()
        elsewhere { k = "theirs", ["user:k"] = "theirs" }
        checks.append(service, mine, { j = "mine" })
        mine.state.k = mine.state.k .. " and mine"
        mine.state["user:k"] = mine.state["user:k"] .. " and mine"
        service:updateSession(mine)
        assert.are.equal("theirs and mine", stored "k")
        assert.are.equal("theirs and mine", stored "user:k")
      end)

      for _, key in ipairs { "k", "user:k", "app:k" } do
        it("take in a change of " .. key .. " that was read before: later writes have seen it", function()
          local _ = mine.state[key]
          elsewhere { [key] = 2 }
          mine.state.j = "mine"
          service:updateSession(mine)
          mine.state[key] = mine.state[key] + 1
          service:updateSession(mine)
          assert.are.equal(3, stored(key))
        end)

        it("take in a change of " .. key .. " by an event by hand as well", function()
          mine.state:getAll()
          elsewhere { [key] = 2 }
          checks.append(service, mine, { j = "mine" })
          mine.state[key] = mine.state[key] + 1
          service:updateSession(mine)
          assert.are.equal(3, stored(key))
        end)

        it("conflict with what comes after they took in a change of " .. key, function()
          local _ = mine.state[key]
          elsewhere { [key] = 2 }
          mine.state.j = "mine"
          service:updateSession(mine)
          elsewhere { [key] = 4 }
          mine.state[key] = 3
          expectConflict { key }
          assert.are.equal(4, stored(key))
        end)
      end

      it("conflict when what they write was computed before they took in a change", function()
        local value = mine.state["user:n"]
        service:incrementState { appName = "app", userId = "u", key = "n", by = 10 }
        mine.state["user:n"] = value + 1
        checks.append(service, mine, { j = "mine" })
        expectConflict { "user:n" }
        assert.are.equal(11, stored "user:n")
      end)

      it("start again with the base of their last commit", function()
        mine.state.k = "mine"
        service:updateSession(mine)
        service:refresh(theirs)
        elsewhere { k = "theirs" }
        mine.state.k = mine.state.k .. " again"
        expectConflict { "k" }
        assert.are.equal("theirs", stored "k")
      end)
    end)

    describe("with a refresh in between", function()
      it("do not conflict: what is pending counts as written after the new values were seen", function()
        mine.state:update { k = "mine" }
        mine.state["user:k"] = mine.state["user:k"] .. " and mine"
        elsewhere { k = "theirs", ["user:k"] = "theirs" }
        service:refresh(mine)
        service:updateSession(mine)
        assert.are.equal("mine", stored "k")
        assert.are.equal("old and mine", stored "user:k")
      end)

      it("do not conflict on a pending deletion", function()
        mine.state.k = nil
        elsewhere { k = "theirs" }
        service:refresh(mine)
        assert.is_nil(mine.state.k)
        service:updateSession(mine)
        assert.is_nil(stored "k")
      end)

      it("do not conflict on a key that somebody removed", function()
        mine.state.list[2] = "mine"
        elsewhere { list = moonpad.removed }
        service:refresh(mine)
        service:updateSession(mine)
        assert.are.equal('[1,"mine"]', tostring(stored "list"))
      end)
    end)

    it("never conflict when conflicts overwrite", function()
      start({ k = "old", ["user:k"] = "old", list = { 1 } }, { onConflict = "overwrite" })
      mine.state.k = mine.state.k .. " and mine"
      mine.state["user:k"] = mine.state["user:k"] .. " and mine"
      mine.state.list[2] = "mine"
      elsewhere { k = "theirs", ["user:k"] = "theirs", list = { "theirs" }, new = "theirs" }
      service:updateSession(mine)
      service:appendEvent(theirs, byHand { new = "by hand", k = moonpad.removed })
      assert.are.same({ ["user:k"] = "old and mine", list = { 1, "mine" }, new = "by hand" },
        checks.get(service).state:getAll())
    end)

    it("lose nothing in a long mixture of retries", function()
      local writers = { mine, theirs, checks.get(service) }
      local conflicts = 0
      for round = 1, 60 do
        local writer = writers[round % 3 + 1]
        writer.state.n = writer.state.n + 1
        local ok, err = pcall(service.updateSession, service, writer)
        while not ok do
          assert.are.equal("conflict", err.code)
          conflicts = conflicts + 1
          writer = checks.get(service)
          writers[round % 3 + 1] = writer
          writer.state.n = writer.state.n + 1
          ok, err = pcall(service.updateSession, service, writer)
        end
      end
      assert.are.equal(61, stored "n")
      assert.is_true(conflicts > 20)
      assert.are.equal(60, checks.get(service).revision)
    end)
  end)

  it("in two services on one file follow the same rules", function()
    finally(support.cleanup)
    local url = "sqlite:" .. support.tmpdir() .. "/test.db"
    local one <close> = moonpad.open(url)
    local two <close> = moonpad.open(url)
    checks.create(one, "s", { k = "old", n = 1, ["user:k"] = "old" })
    local mine, theirs = checks.get(one), checks.get(two)
    mine.state.k = mine.state.k .. " and mine"
    mine.state:increment "n"
    theirs.state.k = "theirs"
    theirs.state:increment "n"
    two:updateSession(theirs)
    raises("conflict", "k", one.updateSession, one, mine)
    one:refresh(mine)
    one:updateSession(mine)
    assert.are.same({ k = "old and mine", n = 3, ["user:k"] = "old" }, checks.get(two).state:getAll())
    mine.state["user:k"] = mine.state["user:k"] .. " and mine"
    two:updateUserState { appName = "app", userId = "u", state = { k = "theirs" } }
    raises("conflict", "user:k", one.updateSession, one, mine)
  end)
end)
