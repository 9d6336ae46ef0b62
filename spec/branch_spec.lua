-- Branches of a parallel agent as writers of their own (contract 1.4 point 5), at the level of the
-- change sets.
local core = require "moonpad.core"
local support = require "spec.support"

support.any_store(function(open)
  local service, session
  before_each(function()
    service = open()
    session = service:createSession { appName = "app", userId = "u", sessionId = "s", state = {
      n = 1, list = { "x" }, ["user:n"] = 1, ["app:n"] = 1,
    } }
    service:appendEvent(session, { author = "user", actions = { stateDelta = { ["temp:n"] = 1 } } })
  end)

  local KEYS = { "n", "user:n", "app:n", "temp:n" }

  local function commit(state)
    return core.commit(state, { author = "A", invocationId = "e-1" })
  end

  local function write(branch, key, value)
    local state = core.beginChanges(session, branch)
    state[key] = value
    commit(state)
  end

  -- Changes the key from outside: another session object, the same user and app.
  local function writeOutside(key, value)
    local other = service:getSession { appName = "app", userId = "u", sessionId = "s" }
    other.state[key] = value
    service:updateSession(other)
  end

  local function conflictOf(state)
    local ok, err = pcall(commit, state)
    if ok then return nil end
    assert.equal("conflict", err.code)
    return err.keys
  end

  for _, key in ipairs(KEYS) do
    describe(key .. " of a sibling branch", function()
      it("is overwritten by a write without a read: the last stored event wins", function()
        local state = core.beginChanges(session, "p.a")
        state[key] = 10
        write("p.b", key, 20)
        assert.is_nil(conflictOf(state))
        assert.equal(10, session.state[key])
      end)

      it("conflicts with a write that depends on a read which it has overtaken", function()
        local state = core.beginChanges(session, "p.a")
        state[key] = state[key] + 1
        write("p.b", key, 20)
        assert.same({ key }, conflictOf(state))
        assert.equal(20, session.state[key])
      end)

      it("conflicts also when the write comes after the sibling's, and after looking at everything", function()
        local first, second = core.beginChanges(session, "p.a"), core.beginChanges(session, "p.a")
        local seen = first[key]
        second:getAll()
        write("p.b", key, 20)
        first[key] = seen + 1
        second[key] = 3
        assert.same({ key }, conflictOf(first))
        assert.same({ key }, conflictOf(second))
      end)

      it("is no conflict when it was stored before the first look", function()
        write("p.b", key, 20)
        local state = core.beginChanges(session, "p.a")
        assert.equal(20, state[key])
        state[key] = state[key] + 1
        assert.is_nil(conflictOf(state))
        assert.equal(21, session.state[key])
      end)

      it("is no conflict for branches above, below, the same, and none at all", function()
        local pairs_ = { { "p", "p.a" }, { "p.a", "p.a.q.c" }, { "p.a", "p.a" }, { "p.a" }, { nil, "p.a" } }
        for index, pair in ipairs(pairs_) do
          local state = core.beginChanges(session, pair[1])
          state[key] = state[key] + 1
          write(pair[2], key, index * 100)
          assert.is_nil(conflictOf(state))
        end
      end)

      it("tells names apart by whole steps", function()
        local state = core.beginChanges(session, "p.a")
        state[key] = state[key] + 1
        write("p.ab", key, 20)
        assert.same({ key }, conflictOf(state))
      end)

      it("still counts after a later write of the own branch", function()
        local state = core.beginChanges(session, "p.a")
        local seen = state[key]
        write("p.b", key, 20)
        write("p.a", key, 30)
        state[key] = seen + 1
        assert.same({ key }, conflictOf(state))
      end)

      it("never stands in the way of an increment", function()
        local state = core.beginChanges(session, "p.a")
        assert.equal(1, state[key])
        state:increment(key, 5)
        write("p.b", key, 20)
        assert.is_nil(conflictOf(state))
        assert.equal(25, session.state[key])
      end)

      it("goes along with what a tool call commits", function()
        local function call(change)
          local answer = core.beginChanges(session, "p.a")
          local state = core.beginCallChanges(answer)
          core.beginTransaction(state)
          change(state)
          write("p.b", key, 20)
          core.commitTransaction(state)
          return answer
        end
        assert.same({ key }, conflictOf(call(function(state) state[key] = state[key] + 1 end)))
        assert.is_nil(conflictOf(call(function(state) state[key] = 5 end)))
        assert.equal(5, session.state[key])
      end)

      it("counts as decided upon after a refresh", function()
        local state = core.beginChanges(session, "p.a")
        state[key] = state[key] + 1
        write("p.b", key, 20)
        service:refresh(session)
        assert.is_nil(conflictOf(state))
        assert.equal(2, session.state[key])
      end)
    end)
  end

  describe("somebody outside the run", function()
    it("conflicts on a session key with a write without a read, as ever", function()
      local state = core.beginChanges(session, "p.a")
      state.n = 10
      writeOutside("n", 50)
      assert.same({ "n" }, conflictOf(state))
    end)

    it("conflicts also where a sibling has written before or behind it", function()
      for _, order in ipairs { "before", "behind" } do
        local state = core.beginChanges(session, "p.a")
        state.n = 10
        if order == "before" then write("p.b", "n", 20) end
        writeOutside("n", 50)
        service:appendEvent(session, { author = "A" })
        if order == "behind" then write("p.b", "n", 20) end
        assert.same({ "n" }, conflictOf(state))
      end
    end)
  end)

  it("takes nested access for a read", function()
    local state = core.beginChanges(session, "p.a")
    table.insert(state.list, "a")
    write("p.b", "list", { "y" })
    assert.same({ "list" }, conflictOf(state))
  end)

  it("never conflicts with onConflict = \"overwrite\"", function()
    local free = open { onConflict = "overwrite" }
    local object = free:createSession { appName = "app", userId = "u", state = { n = 1 } }
    local state, sibling = core.beginChanges(object, "p.a"), core.beginChanges(object, "p.b")
    for _, key in ipairs { "n", "temp:n" } do
      state[key] = (state[key] or 0) + 1
      sibling[key] = 20
    end
    commit(sibling)
    commit(state)
    assert.equal(2, object.state.n)
    assert.equal(1, object.state["temp:n"])
  end)
end)
