-- What the state of a tool call shows between its functions and when it is over, and whom it stands
-- in the way of (contract 1.4).
local moonpad = require "moonpad"
local core = require "moonpad.core"
local checks = require "spec.support.checks"
local toolCalls = require "spec.support.tool_calls"

local waitFor = toolCalls.waitFor

-- A table without the order of its keys.
local function plain(value)
  return moonpad.toTable(value)
end

-- All that it shows, each time asked for in another way.
local looks = {
  getAll = function(state) return state:getAll() end,
  pairs = function(state)
    local all = {}
    for key, value in pairs(state) do all[key] = plain(value) end
    return all
  end,
  index = function(state)
    local all = {}
    for _, key in ipairs { "n", "gone", "prefs", "new", "count", "log", "later", "user:u" } do
      all[key] = plain(state[key])
    end
    return all
  end,
}

local function look(state)
  local all = looks.getAll(state)
  for name, of in pairs(looks) do assert.same(all, of(state), name) end
  return all
end

local START = { n = 1, gone = "here", prefs = { theme = "light" }, count = 5, log = { "x" }, ["user:u"] = 1 }

local function change(state)
  state.n, state.gone, state.new, state["user:u"] = state.n + 1, nil, { 1 }, 2
  state.prefs.theme = "dark"
  state:increment "count"
  state:append("log", "y")
end

local CHANGED = { n = 2, prefs = { theme = "dark" }, new = { 1 }, count = 6, log = { "x", "y" }, ["user:u"] = 2 }

local function with(state, fields)
  local all = {}
  for key, value in pairs(state) do all[key] = value end
  for key, value in pairs(fields) do all[key] = value end
  return all
end

describe("the state of a tool call", function()
  toolCalls.eachWay(function(play)
    it("shows to who has kept it what the call committed, and what came later", function()
      local kept
      local seen = {}
      local result = play { start = START, tools = {
        { "one", function(_, context)
          kept = context
          look(context.state)
          change(context.state)
        end },
        { "two", function(_, context)
          seen.over = look(kept.state)
          context.state.n, context.state.later = 7, true
          seen.unseen = look(kept.state)
        end },
        { "three", function() seen.committed = look(kept.state) end },
      }, fields = {
        afterModelCallback = function() seen.stored = kept and look(kept.state) end,
      } }
      assert.same({}, result.conflicts)
      assert.same({ CHANGED, CHANGED }, { seen.over, seen.unseen })
      local all = with(CHANGED, { n = 7, later = true })
      assert.same({ all, all, all }, { seen.committed, seen.stored, look(kept.state) })
      assert.same(all, result.state)
      local err = checks.failure(function() kept.state.n = 8 end)
      assert.equal("invalid_argument", err.code)
    end)

    it("shows to who has kept it nothing of what it lost", function()
      local kept, seen
      play { start = START, tools = {
        { "one", function(_, context)
          kept = context
          change(context.state)
          error "no"
        end },
        { "two", function() seen = look(kept.state) end },
      } }
      assert.same({ START, START }, { seen, look(kept.state) })
    end)

    it("stands in nobody's way where its writes come to nothing", function()
      local isOver, isWaiting = false, false
      local result = play { start = START, tools = {
        { "nothing", function(_, context)
          waitFor(function() return isWaiting end)
          context.state.prefs.lang = "no"
          context.state.prefs.lang = nil
          isOver = true
        end },
        { "all", function(_, context)
          assert.equal("light", context.state.prefs.theme)
          isWaiting = true
          waitFor(function() return isOver end)
          context.state.prefs = { lang = "lt" }
        end },
      } }
      assert.same({}, result.conflicts)
      assert.same({ lang = "lt" }, result.state.prefs)
    end)
  end)

  describe("from transaction to transaction", function()
    local service, session, answer, call, other
    before_each(function()
      service = moonpad.open "memory:"
      session = checks.create(service, "s", START)
      answer = core.beginChanges(session)
      call, other = core.beginCallChanges(answer), core.beginCallChanges(answer)
    end)
    after_each(function() service:close() end)

    it("shows what was there when the last of them ended", function()
      assert.same(START, look(call))
      core.beginTransaction(call)
      look(call)
      change(call)
      core.commitTransaction(call)
      assert.same(CHANGED, look(call))
      core.beginTransaction(other)
      other.n, other.later = 7, true
      core.commitTransaction(other)
      assert.same(CHANGED, look(call))
      core.beginTransaction(call)
      assert.same(with(CHANGED, { n = 7, later = true }), look(call))
      call.n, call.later = 8, nil
      core.rollbackTransaction(call)
      assert.same(with(CHANGED, { n = 7, later = true }), look(call))
    end)

    it("keeps its nodes, whether or not it was looked at in between", function()
      for _, looksAt in ipairs { function() end, look, function(state) return state.prefs.theme end } do
        core.beginTransaction(call)
        local prefs = call.prefs
        prefs.theme = "dark"
        core.commitTransaction(call)
        looksAt(call)
        core.beginTransaction(call)
        prefs.lang = "lt"
        assert.equal(prefs, call.prefs)
        core.commitTransaction(call)
        assert.same({ theme = "dark", lang = "lt" }, plain(answer.prefs))
        core.beginTransaction(call)
        call.prefs = { theme = "light" }
        core.commitTransaction(call)
      end
    end)

    it("shows what is there when it is over, whatever it was looked at before", function()
      core.beginTransaction(call)
      change(call)
      core.commitTransaction(call)
      core.endChanges(call, "it is over")
      assert.same(CHANGED, look(call))
      core.beginTransaction(other)
      other.n, other.later, other.new = 7, true, nil
      other.prefs.theme = "blue"
      core.commitTransaction(other)
      local now = { n = 7, later = true, prefs = { theme = "blue" }, count = 6, log = { "x", "y" }, ["user:u"] = 2 }
      assert.same({ now, now }, { look(call), look(answer) })
      assert.is_true(call:hasDelta())
      assert.equal("blue", plain(call:delta()).prefs.theme)
      core.commit(answer, { author = "agent" })
      assert.same({ now, {} }, { look(call), plain(call:delta()) })
      assert.is_false(call:hasDelta())
      checks.append(service, session, { n = 9, later = moonpad.removed, prefs = { theme = "red" } })
      assert.same(look(session.state), look(call))
      assert.equal("red", call.prefs.theme)
    end)
  end)
end)
