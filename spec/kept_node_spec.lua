-- A node proxy that was kept is looked at without asking the state for its key. That is a read of
-- the key all the same (contract 1.4 point 3, 2.2).
local checks = require "spec.support.checks"
local kept = require "spec.support.kept_nodes"
local moonpad = require "moonpad"
local support = require "spec.support"

-- What is there, and what somebody else puts in its place.
local function mineAtFirst() return { x = 1, list = { "c", "a", "b" }, sub = { y = 1 } } end
local function theirValue(mark) return { x = mark, list = { mark } } end

local function waitFor(service, pending)
  return support.waitUntil("the append", function()
    service:poll(0.01)
    return pending:result()
  end)
end

-- How a key becomes clean while its nodes live on. `node` is what the key holds.
local CLEAN = {
  ["updateSession"] = function(service, session, node)
    node.kept = true
    service:updateSession(session)
  end,
  ["updateSession with an event, and appendEvent"] = function(service, session, node)
    node.kept = true
    service:updateSession(session, { author = "agent" })
    checks.append(service, session, { j = 1 })
  end,
  ["updateSessionAsync"] = function(service, session, node)
    node.kept = true
    waitFor(service, service:updateSessionAsync(session))
  end,
  ["updateSession and refresh"] = function(service, session, node)
    node.kept = true
    service:updateSession(session)
    service:refresh(session)
  end,
}

-- Where the key is, over what its nodes are kept, and when there is a look.
local KEPT = {}
for _, prefix in ipairs { "user:", "app:" } do
  for clean in pairs(CLEAN) do
    for _, moment in ipairs { "before", "after" } do
      KEPT[#KEPT + 1] = { key = ("%st over %s, %s others"):format(prefix, clean, moment), clean = CLEAN[clean],
        isBefore = moment == "before" }
    end
  end
end
table.sort(KEPT, function(a, b) return a.key < b.key end)

describe("a node that was kept", function()
  support.any_store(function(open)
    -- `mine` and `theirs` are objects of one session; `root` and `list` are nodes of `mine` under a
    -- key that is clean.
    local service, mine, theirs, root, list
    before_each(function() service = open { durability = "normal" } end)

    local function keep(key, clean)
      checks.create(service, key, { [key] = mineAtFirst() })
      mine = checks.get(service, key)
      root = mine.state[key]
      list = root.list
      local makeClean = clean or CLEAN.updateSession
      makeClean(service, mine, root)
      theirs = checks.get(service, key)
    end

    local function stored(key) return checks.get(service, mine.id).state:getAll()[key] end

    -- Somebody else stores that key.
    local function elsewhere(key, value) checks.append(service, theirs, { [key] = value }) end

    local function expectConflict(key)
      local before, pending = checks.get(service, mine.id).state:getAll(), mine.state:delta()
      local ok, err = pcall(service.updateSession, service, mine)
      assert.is_false(ok, key .. ": an update was lost")
      assert.are.equal("conflict", err.code)
      assert.are.same({ key }, err.keys)
      assert.are.same(before, checks.get(service, mine.id).state:getAll())
      assert.are.same(pending, mine.state:delta())
      service:refresh(mine)
      service:updateSession(mine)
      assert.are.same(pending[key], stored(key))
    end

    local function expectOverwritten(key)
      mine.state[key] = "mine"
      service:updateSession(mine)
      assert.are.equal("mine", stored(key))
    end

    -- Does that to the nodes of each kind of key that was kept, before or after others store it.
    local function afterEachWay(action, write)
      for _, case in ipairs(checks.chosen(KEPT)) do
        keep(case.key, case.clean)
        if case.isBefore then action(root, list, mine.state) end
        elsewhere(case.key, theirValue "theirs")
        if not case.isBefore then action(root, list, mine.state) end
        write(case.key)
      end
    end

    for _, read in ipairs(kept.READS) do
      it("counts as read by " .. read[1], function()
        afterEachWay(read[2], function(key)
          mine.state[key] = "mine"
          expectConflict(key)
        end)
      end)
    end

    for _, write in ipairs(kept.WRITES) do
      it("counts as read by writing " .. write[1], function() afterEachWay(write[2], expectConflict) end)
    end

    it("counts not as read where nobody looks: the last one wins", function()
      afterEachWay(function() end, expectOverwritten)
    end)

    it("can be compared, and put into its own place, without a look", function()
      afterEachWay(function(_, _, state)
        assert.is_false(root == list)
        local key = mine.id
        state:update { [key] = root }
        state[key] = root
        assert.is_false(state:hasDelta())
      end, expectOverwritten)
    end)

    it("counts as read by what goes into an event that is appended", function()
      keep "user:t"
      checks.append(service, mine, { copy = root })
      elsewhere("user:t", theirValue "theirs")
      mine.state["user:t"] = "mine"
      expectConflict "user:t"
    end)

    it("does not conflict with its own object, which writes through it and beside it", function()
      for _, key in ipairs { "t", "user:t", "app:t" } do
        keep(key)
        for _ = 1, 3 do
          root.x = root.x + 1
          service:updateSession(mine)
          list[1] = root.x
          local pending = service:updateSessionAsync(mine)
          root.x = root.x + 1
          checks.append(service, mine, { j = root.x })
          waitFor(service, pending)
          service:updateSession(mine)
        end
        assert.are.same({ x = 7, list = { 6, "a", "b" }, sub = { y = 1 }, kept = true }, stored(key))
        mine.state[key] = root.x + 1
        service:updateSession(mine)
        assert.are.equal(8, stored(key))
      end
    end)

    it("does not conflict with what others store under other keys", function()
      for _, key in ipairs { "t", "user:t", "app:t" } do
        keep(key)
        checks.append(service, theirs, { j = 1, ["user:j"] = 1, ["app:j"] = 1 })
        local before = root.x
        service:refresh(mine)
        root.x = before + 1
        service:updateSession(mine)
        mine.state[key] = root.x + 1
        service:updateSession(mine)
        assert.are.equal(3, stored(key))
      end
    end)

    it("does not stand in the way of who only looks", function()
      keep "user:t"
      local before = root.x
      elsewhere("user:t", theirValue "theirs")
      mine.state.j = { before, root.x }
      service:updateSession(mine)
      assert.are.same({ 1, 1 }, stored "j")
      assert.are.same(theirValue "theirs", stored "user:t")
    end)

    it("changes nothing for session keys: they conflict with a look and without", function()
      for key, look in pairs { looked = function(node) return node.x end, blind = function() end } do
        keep(key)
        elsewhere(key, theirValue "theirs")
        look(root)
        mine.state[key] = "mine"
        expectConflict(key)
      end
    end)

    it("changes nothing where conflicts overwrite", function()
      service = open { durability = "normal", onConflict = "overwrite" }
      keep "user:t"
      elsewhere("user:t", theirValue "theirs")
      root.x = root.x + 1
      service:updateSession(mine)
      assert.are.equal(2, stored "user:t".x)
    end)

    it("changes nothing for what is asked of the state", function()
      for key, ask in pairs {
        ["user:get"] = function(state, key) return state:get(key) end,
        ["user:has"] = function(state, key) return state:has(key) end,
        ["user:index"] = function(state, key) return state[key].x end,
        ["user:all"] = function(state) return state:getAll() end,
      } do
        keep(key)
        elsewhere(key, theirValue "theirs")
        ask(mine.state, key)
        mine.state[key] = "mine"
        expectConflict(key)
      end
    end)

    it("counts not as read by a template", function()
      keep "user:t"
      assert.are.equal("1", moonpad.injectSessionState("{user:t.x}", mine.state))
      elsewhere("user:t", theirValue "theirs")
      expectOverwritten "user:t"
    end)

    -- How the object comes to show what others have stored.
    local OVERTAKEN = {
      ["by refresh"] = function() service:refresh(mine) end,
      ["by appendEvent"] = function() checks.append(service, mine, { j = 1 }) end,
      ["by updateSession"] = function()
        mine.state.j = 1
        service:updateSession(mine)
      end,
    }
    for how, overtake in pairs(OVERTAKEN) do
      describe("and was overtaken " .. how, function()
        before_each(function()
          keep "user:t"
          elsewhere("user:t", theirValue "theirs")
          overtake()
        end)

        it("is a copy: whatever tells what is in it is no read", function()
          for _, read in ipairs(kept.READS) do
            mine.state.copy = nil
            read[2](root, list, mine.state)
            elsewhere("user:t", theirValue(read[1]))
            expectOverwritten "user:t"
          end
          assert.are.same({ "c", "a", "b" }, moonpad.toTable(list))
        end)

        it("takes no writes", function()
          for _, write in ipairs(kept.WRITES) do
            local err = checks.failure(write[2], root, list)
            assert.are.equal("invalid_argument", err.code, write[1])
            assert.matches("stale", err.message, nil, true)
          end
          assert.is_false(mine.state:hasDelta())
          assert.are.same(theirValue "theirs", moonpad.toTable(mine.state["user:t"]))
        end)
      end)
    end

    describe("under an append that is pending", function()
      before_each(function()
        checks.create(service, "s", { ["user:l"] = { 1 } })
        mine, theirs = checks.get(service), checks.get(service)
        list = mine.state["user:l"]
        list[2] = 2
        service:updateSession(mine)
        mine.state:append("user:l", 3)
        elsewhere("user:l", { 9 })
        assert.are.equal("[1,2,3]", tostring(list))
      end)

      it("may be looked at: an append never conflicts", function()
        mine.state:append("user:l", #list + 1)
        service:updateSession(mine)
        assert.are.same({ 9, 3, 4 }, stored "user:l")
      end)

      it("counts as read when the key is written in its place", function()
        mine.state["user:l"] = { #list }
        expectConflict "user:l"
      end)

      it("counts as read when it is written itself", function()
        list[1] = "mine"
        expectConflict "user:l"
      end)
    end)

    -- What a writer does now and then. `node` is what it keeps; `added` is how much it counts up in
    -- what is pending.
    local STEPS = {
      function(writer, key) -- through the node; where that was overtaken it takes the new one
        local ok, err = pcall(function() writer.node.n = writer.node.n + 1 end)
        if ok then
          writer.added = writer.added + 1
        else
          assert.are.equal("invalid_argument", err.code)
          writer.node = writer.session.state[key]
        end
      end,
      function(writer, key) -- the whole key, by a node that was not overtaken
        local shown = moonpad.injectSessionState("{" .. key .. ".n}", writer.session.state)
        if tostring(writer.node.n) ~= shown then return end
        writer.session.state[key] = { n = writer.node.n + 1 }
        writer.node, writer.added = writer.session.state[key], writer.added + 1
      end,
      function(writer) if writer.added == 0 then service:refresh(writer.session) end end,
      function(writer) if writer.added == 0 then checks.append(service, writer.session) end end,
    }

    it("loses nothing in a long mixture of writers", function()
      math.randomseed(checks.seed())
      local conflicts = 0
      for round = 1, checks.scaled(60, 8) do
        local key = ({ "user:", "app:" })[round % 2 + 1] .. round
        local id = checks.create(service, key, { [key] = { n = 0 } }).id
        local function newWriter()
          local session = checks.get(service, id)
          return { session = session, node = session.state[key], added = 0 }
        end
        local writers, counted = { newWriter(), newWriter(), newWriter() }, 0
        for _ = 1, 40 do
          local index = math.random(#writers)
          local writer, step = writers[index], STEPS[math.random(#STEPS)]
          step(writer, key)
          if math.random(3) == 1 then
            local ok, err = pcall(service.updateSession, service, writer.session)
            if ok then
              counted, writer.added = counted + writer.added, 0
            else
              assert.are.equal("conflict", err.code)
              conflicts = conflicts + 1
              writers[index] = newWriter()
            end
          end
        end
        assert.are.equal(counted, checks.get(service, id).state[key].n, "round " .. round)
      end
      assert.is_true(conflicts > 0)
    end)
  end)
end)
