-- Who sees a write, and when: contract 1.4, point by point.
local moonpad = require "moonpad"
local support = require "spec.support"

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  -- Runs the given tools, each called once, in one answer; `fields` go to the agent. Returns the
  -- events and the state.
  local function runTools(tools, fields, start)
    local calls = {}
    for index, tool in ipairs(tools) do calls[index] = { tool.name, {}, "id" .. index } end
    local definition = {
      name = "A", tools = tools, model = moonpad.models.scripted { support.calls(table.unpack(calls)), "done" },
    }
    for name, value in pairs(fields or {}) do definition[name] = value end
    local runner = moonpad.runner { appName = "app", agent = moonpad.agent(definition), sessionService = service }
    local events = support.run(runner, { userId = "u", sessionId = "s", newMessage = "go", stateDelta = start })
    return events, support.stored(service).state
  end

  local function tool(name, run)
    return { name = name, run = function(_, context) return run(context.state, context) end }
  end

  describe("1. code in sequence", function()
    it("sees every write at once, from the first callback to the last", function()
      local seen = {}
      local function step(name)
        return function(context)
          seen[#seen + 1] = context.state.trail or ""
          context.state.trail = (context.state.trail or "") .. name
        end
      end
      local _, state = runTools({ { name = "t", run = function(_, context) step "t" (context) end } }, {
        beforeAgentCallback = { step "a", step "b" }, beforeModelCallback = step "m", afterModelCallback = step "n",
        beforeToolCallback = step "x", afterToolCallback = step "y", afterAgentCallback = step "z",
      })
      assert.same({ "", "a", "ab", "abm", "abmn", "abmnx", "abmnxt", "abmnxty", "abmnxtym", "abmnxtymn" }, seen)
      assert.equal("abmnxtymnz", state.trail)
    end)

    it("in templates too", function()
      local seen
      runTools({ tool("t", function(state) state.place = "sea" end) }, {
        instruction = "At <place>.",
        beforeModelCallback = function(_, request) seen = request.systemInstruction end,
      })
      assert.equal("At sea.", seen)
    end)
  end)

  describe("2. the tool calls of one answer", function()
    it("see what is committed when they begin, and their own writes, and nothing that is pending elsewhere", function()
      local seen = {}
      local function call(name)
        return tool(name, function(state)
          state[name], state["temp:" .. name] = 1, 1
          coroutine.yield()
          seen[name] = { state.start, state.one or 0, state.two or 0, state["temp:one"] or 0, state["temp:two"] or 0 }
        end)
      end
      local _, state = runTools({ call "one", call "two" }, nil, { start = 7 })
      assert.same({ 7, 1, 0, 1, 0 }, seen.one)
      assert.same({ 7, 0, 1, 0, 1 }, seen.two)
      assert.same({ 1, 1 }, { state.one, state.two })
    end)

    it("see at once what one has written that has ended, temp: included", function()
      local seen
      local function add(state)
        state.n, state["temp:n"] = (state.n or 0) + 1, (state["temp:n"] or 0) + 1
        seen = { state.n, state["temp:n"] }
      end
      local _, state = runTools { tool("one", add), tool("two", add), tool("three", add) }
      assert.same({ 3, 3 }, seen)
      assert.equal(3, state.n)
    end)

    it("share temp: with what comes after them", function()
      local seen
      runTools({ tool("one", function(state) state["temp:x"] = 5 end), tool("two", function() end) }, {
        beforeModelCallback = function(context) seen = context.state["temp:x"] end,
      })
      assert.equal(5, seen)
    end)
  end)

  describe("3. what calls that overlap have committed goes out", function()
    -- Writes something, and lets the others go on before it ends.
    local function slow(name, write)
      return tool(name, function(state)
        write(state)
        coroutine.yield()
      end)
    end

    it("in one event, the call that ends later winning where none had read", function()
      local events, state = runTools {
        slow("slow", function(state) state.who = "slow" state.a = 1 end),
        tool("fast", function(state) state.who = "fast" state.b = 2 end),
      }
      assert.same({ who = "slow", a = 1, b = 2 }, events[2].actions.stateDelta)
      assert.equal("slow", state.who)
      assert.equal(3, #events)
    end)

    it("without what one has written that had read what another one changed: that is a conflict", function()
      local events, state = runTools({
        slow("slow", function(state) state.a, state.n = 1, state.n + 1 end),
        tool("fast", function(state) state.n = state.n + 10 end),
      }, nil, { n = 1 })
      assert.same({ n = 11 }, events[2].actions.stateDelta)
      assert.matches('"n"', events[2]:functionResponses()[1].response.error, nil, true)
      assert.is_nil(state.a)
    end)

    it("with different places of one table side by side", function()
      local _, state = runTools({
        slow("one", function(state) state.prefs.theme = "dark" end),
        tool("two", function(state) state.prefs.lang = "no" end),
      }, nil, { prefs = { size = 1 } })
      assert.same({ size = 1, theme = "dark", lang = "no" }, moonpad.toTable(state.prefs))
    end)

    it("with the sum of increments and appends", function()
      local function add(state)
        state:increment("count", 2)
        state:increment "user:total"
        state:append("log", "x")
      end
      local _, state = runTools({ slow("one", add), tool("two", add) }, nil, { count = 1 })
      assert.equal(5, state.count)
      assert.equal(2, state["user:total"])
      assert.same({ "x", "x" }, moonpad.toTable(state.log))
    end)

    it("with the items that each put at an array's end, in the order in which they ended", function()
      local function extend(item)
        return function(state)
          table.insert(state.cart, item)
          table.insert(state:setDefault("fresh", {}), item)
        end
      end
      local _, state = runTools({ slow("one", extend "a"), tool("two", extend "b") }, nil, { cart = { "0" } })
      assert.same({ "0", "b", "a" }, moonpad.toTable(state.cart))
      assert.same({ "b", "a" }, moonpad.toTable(state.fresh))
    end)

    it("without what one did to an array that another one had changed in any other way", function()
      local _, state = runTools({
        slow("one", function(state) table.insert(state.cart, "a") end),
        tool("two", function(state) table.remove(state.cart, 1) end),
      }, nil, { cart = { "0", "1" } })
      assert.same({ "1" }, moonpad.toTable(state.cart))
    end)

    it("with the actions of all of them", function()
      local events = runTools {
        tool("one", function(_, context) context:escalate() end),
        tool("two", function(_, context) context.actions.skipSummarization = true end),
      }
      assert.is_true(events[2].actions.escalate)
      assert.is_true(events[2].actions.skipSummarization)
    end)
  end)

  describe("4. a failed tool", function()
    it("loses its own writes, temp: included, and those of its callbacks stay", function()
      local temp
      local events, state = runTools({
        tool("bad", function(state)
          state.before = "spoilt"
          state.half, state["temp:half"] = 1, 1
          state:increment("count")
          error "no"
        end),
        tool("good", function(state) state.good = true end),
      }, {
        beforeToolCallback = function(context, called)
          if called.name == "bad" then context.state.before = "kept" end
        end,
        beforeModelCallback = function(context) temp = context.state["temp:half"] end,
      })
      assert.same({ before = "kept", good = true }, events[2].actions.stateDelta)
      assert.is_nil(state.half)
      assert.is_nil(state.count)
      assert.is_nil(temp)
    end)

    it("loses them also when an error callback answers for it", function()
      local events = runTools({ tool("bad", function(state) state.half = 1 error "no" end) }, {
        onToolErrorCallback = function(context)
          assert.is_nil(context.state.half)
          context.state.rescued = true
          return { ok = true }
        end,
      })
      assert.same({ rescued = true }, events[2].actions.stateDelta)
    end)

    it("leaves a node proxy that it made stale, not silently lost", function()
      local kept, err
      runTools({ tool("bad", function(state) state.box = {} kept = state.box error "no" end) }, {
        afterAgentCallback = function() local _ _, err = pcall(function() kept.x = 1 end) end,
      })
      assert.equal("invalid_argument", err.code)
    end)
  end)

  describe("5. a run", function()
    it("never conflicts with itself in sequence", function()
      local _, state = runTools({
        tool("one", function(state) state.n = (state.n or 0) + 1 end),
        tool("two", function(state) state.n = (state.n or 0) + 1 end),
      }, {
        beforeAgentCallback = function(context) context.state.n = 1 end,
        afterAgentCallback = function(context) context.state.n = context.state.n + 10 end,
      })
      assert.equal(13, state.n)
    end)
  end)

  describe("6. a write becomes history when its event is appended", function()
    it("and never when the run ends before", function()
      local waits = false
      local runner = moonpad.runner { appName = "app", sessionService = service, agent = moonpad.agent {
        name = "A",
        model = moonpad.models.scripted { support.calls { "t" }, "done" },
        tools = { tool("t", function(state)
          state.lost, state["user:lost"] = 1, 1
          waits = true
          coroutine.yield()
        end) },
      } }
      local invocation = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
      support.step(invocation)
      support.stepUntil(invocation, function() return waits end)
      assert.is_nil(support.stored(service).state.lost)
      invocation:cancel()
      local state = support.stored(service).state
      assert.is_nil(state.lost)
      assert.is_nil(state["user:lost"])
    end)
  end)
end)
