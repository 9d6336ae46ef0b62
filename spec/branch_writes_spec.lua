-- What branches of a parallelAgent see and write, tool calls in them included, in each way to drive
-- a run (contract 1.4 point 5).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local toolCalls = require "spec.support.tool_calls"

local failure, waitFor = checks.failure, toolCalls.waitFor

local function agent(name, fields)
  local definition = { name = name, model = function() return name end }
  for field, value in pairs(fields or {}) do definition[field] = value end
  return moonpad.agent(definition)
end

local function tool(name, run)
  return moonpad.tool { name = name, run = function(args, context) return run(context.state, context, args) end }
end

-- An agent that calls each tool once, with the ids "1", "2", ...
local function caller(name, tools, fields)
  local calls, definition = {}, {}
  for index, called in ipairs(tools) do calls[index] = { called.name, {}, tostring(index) } end
  for field, value in pairs(fields or {}) do definition[field] = value end
  definition.tools = tools
  definition.model = definition.model or moonpad.models.scripted { support.calls(table.unpack(calls)), "done" }
  return agent(name, definition)
end

local function custom(name, body)
  return moonpad.customAgent { name = name, run = body }
end

local function parallel(...)
  return moonpad.parallelAgent { name = "P", subAgents = { ... } }
end

-- A custom agent that goes through steps; between two of them the others go on.
local function steps(name, ...)
  local list = { ... }
  return custom(name, function(context)
    for index, step in ipairs(list) do
      if index > 1 then coroutine.yield() end
      step(context.state, context)
    end
  end)
end

toolCalls.everywhere(function(way, open)
  local service
  before_each(function() service = open { durability = "normal" } end)

  -- `start` is stored when the run begins, but for temp:, which the run brings along.
  local function run(root, start)
    local stored, ofRun = {}, {}
    for key, value in pairs(start or {}) do
      (key:find "^temp:" and ofRun or stored)[key] = value
    end
    service:createSession { appName = "app", userId = "u", sessionId = "s", state = stored }
    local runner = moonpad.runner { appName = "app", agent = root, sessionService = service }
    return toolCalls.run(way, runner, {
      userId = "u", sessionId = "s", newMessage = "go", stateDelta = next(ofRun) and ofRun or nil,
    })
  end

  local function stored()
    return support.stored(service).state:getAll()
  end

  describe("state of branches", function()
    it("that one has stored is seen by the others, temp: included; what is pending is not", function()
      local seen = {}
      local function look(state) seen[#seen + 1] = { state.n or 0, state["temp:n"] or 0 } end
      run(parallel(
        steps("A", function(state) state.n, state["temp:n"] = 1, 2 end, function(_, context) context:emit "x" end),
        steps("B", look, look, look)
      ))
      assert.same({ { 0, 0 }, { 1, 2 } }, { seen[1], seen[#seen] })
    end)

    it("of different keys comes together", function()
      run(parallel(agent("A", { outputKey = "a" }), agent("B", { outputKey = "b" })))
      assert.same({ a = "A", b = "B" }, stored())
    end)

    for _, key in ipairs { "n", "user:n", "app:n", "temp:n" } do
      it("written without a read: the last stored event wins (" .. key .. ")", function()
        local seen
        run(moonpad.sequentialAgent { name = "S", subAgents = {
          parallel(
            steps("A", function(state) state[key] = 1 end, function() end, function() end),
            steps("B", function(state) state[key] = 2 end)
          ),
          custom("Last", function(context) seen = context.state[key] end),
        } }, { [key] = 0 })
        assert.equal(1, seen)
      end)

      it("written after a read that has been overtaken: conflict (" .. key .. ")", function()
        local function add(state) state[key] = state[key] + 1 end
        local err = failure(run, parallel(
          steps("A", add, function() end, function() end), steps("B", add)
        ), { [key] = 0 })
        assert.equal("conflict", err.code)
        assert.same({ key }, err.keys)
      end)

      it("read anew by a later context of the branch is no conflict (" .. key .. ")", function()
        local function add(name)
          return agent(name, { afterAgentCallback = function(context)
            context.state[key] = (context.state[key] or 0) + 1
          end })
        end
        local seen
        run(moonpad.sequentialAgent { name = "S", subAgents = {
          parallel(add "A", add "B"), custom("Last", function(context) seen = context.state[key] end),
        } })
        assert.equal(2, seen)
      end)
    end

    it("counted with increment and append loses nothing", function()
      local function add(name)
        return steps(name, function(state) state:increment "n" state:append("log", name) end, function() end)
      end
      run(parallel(add "A", add "B", add "C"))
      local state = support.stored(service).state
      assert.equal(3, state.n)
      assert.equal(3, #state.log)
    end)

    it("of tools that run in different branches is merged within each branch, and checked between them", function()
      local function both(name)
        return caller(name, {
          tool("one", function(state)
            state[name].a = 1
            coroutine.yield()
          end),
          tool("two", function(state) state[name].b = 2 end),
        })
      end
      run(parallel(both "A", both "B"), { A = {}, B = {} })
      assert.same({ A = { a = 1, b = 2 }, B = { a = 1, b = 2 } }, stored())
    end)

    it("changed from outside conflicts as ever", function()
      local err = failure(run, parallel(steps("A", function(state) state.n = 1 end, function()
        local other = support.stored(service)
        other.state.n = 50
        service:updateSession(other)
      end)), { n = 0 })
      assert.equal("conflict", err.code)
      assert.equal(50, support.stored(service).state.n)
    end)

    it("of the agent around them conflicts with none of them", function()
      local root = moonpad.customAgent { name = "Root", subAgents = { parallel(
        steps("A", function(state) state.n = state.n + 1 end)
      ) }, run = function(context)
        local before = context.state.n
        context:runAgent "P"
        context.state.n = before + 10
      end }
      run(root, { n = 0 })
      assert.equal(10, support.stored(service).state.n)
    end)
  end)

  describe("a tool call in a branch", function()
    local START = {
      n = 1, gone = 1, prefs = { theme = "light" }, list = { "a" }, count = 5, ["user:u"] = 1, ["app:a"] = 1,
    }

    -- `work` is what a call of A does, with a function that waits until B has stored what it wrote.
    local function beside(work, fields, more)
      local isStored, hasBegun = false, false
      local function wait() waitFor(function() return isStored end) end
      local function body(state, context)
        hasBegun = true
        return work(state, context, wait)
      end
      local tools = { tool("work", body), table.unpack(more or {}) }
      return run(parallel(
        caller("A", tools, fields),
        custom("B", function(context)
          waitFor(function() return hasBegun end)
          local state = context.state
          state.n, state.gone, state.new = 2, nil, 2
          state["temp:t"], state["user:u"], state["app:a"] = 2, 2, 2
          state.prefs = { theme = "dark" }
          table.insert(state.list, "b")
          state:increment("count", 10)
          context:emit "B has stored"
          isStored = true
        end)
      ), START)
    end

    local looks = {
      { "getAll", function(state) return state:getAll() end },
      { "index",
        function(state) return { state.n, state.gone or "none", state.new or "none", state["temp:t"] or "none" } end },
      { "has", function(state) return { state:has "gone", state:has "new", state:has "temp:t" } end },
      { "pairs", function(state)
        local keys = {}
        for key in pairs(state) do keys[#keys + 1] = key end
        return keys
      end },
      { "nodes", function(state) return { state.prefs.theme, #state.list, moonpad.toTable(state.list) } end },
      { "counters", function(state) return { state.count, state["user:u"], state["app:a"] } end },
      { "a template", function(_, context)
        return moonpad.injectSessionState("{n} {gone?} {new?} {prefs.theme} {list} {count} {user:u} {temp:t?}", context)
      end },
    }
    for _, look in ipairs(looks) do
      it("sees what its branch saw when it began, whatever is stored while it waits, by " .. look[1], function()
        for _, looksFirst in ipairs { true, false } do
          service = open { durability = "normal" }
          local seen, before, after, later = {}, nil, nil, nil
          beside(function(state, context, wait)
            before = looksFirst and look[2](state, context)
            wait()
            seen = { look[2](state, context), look[2](state, context) }
          end, {
            afterToolCallback = function(context) after = look[2](context.state, context) end,
            afterAgentCallback = function(context) later = look[2](context.state, context) end,
          })
          -- What a session shows that nobody changes.
          local expected = look[2](moonpad.state(START), moonpad.state(START))
          assert.same({ expected, expected }, seen)
          if looksFirst then assert.same(expected, before) end
          -- Its callbacks belong to the call; who begins after it was stored sees it.
          assert.same(expected, after)
          assert.are_not.same(expected, later)
        end
      end)
    end

    it("hides it no longer when the call is over", function()
      local seen
      beside(function(_, _, wait) wait() end, {
        afterAgentCallback = function(context)
          seen = context.state.n
          context.state.n = seen + 10
        end,
      })
      assert.same({ 2, 12 }, { seen, stored().n })
    end)

    it("begins with what its branch sees then, and may write that", function()
      local seen = {}
      beside(function(state, _, wait)
        wait()
        seen[#seen + 1] = { state.n, state.gone or "none", state["temp:t"] or "none" }
        if #seen == 2 then state.n, state["temp:t"] = state.n + 10, state["temp:t"] + 10 end
      end, {
        model = moonpad.models.scripted { support.calls { "work", {} }, support.calls { "work", {} }, "done" },
        afterAgentCallback = function(context) seen[3] = { context.state.n, context.state["temp:t"] } end,
      })
      assert.same({ { 1, 1, "none" }, { 2, "none", 2 }, { 12, 12 } }, seen)
      assert.equal(12, stored().n)
    end)

    it("conflicts in a callback that comes after what was stored while its tool waited", function()
      local err = failure(beside, function(_, _, wait) wait() end, {
        afterToolCallback = function(context) context.state.n = context.state.n + 10 end,
      })
      assert.same({ "conflict", { "n" } }, { err.code, err.keys })
    end)

    it("conflicts with what was stored while it ran, where it had read, before or after that", function()
      for _, moment in ipairs { "before", "after" } do
        for _, key in ipairs { "n", "user:u", "app:a", "temp:t", "prefs" } do
          service = open { durability = "normal" }
          local err = failure(beside, function(state, _, wait)
            if moment == "before" then local _ = state[key] end
            wait()
            local held = state[key]
            if key == "prefs" then held.lang = "no" else state[key] = (held or 0) + 10 end
          end)
          assert.same({ "conflict", { key } }, { err.code, err.keys })
          assert.equal(2, stored().n)
        end
      end
    end)

    it("overwrites what was stored while it ran, where it had not read", function()
      local shown
      beside(function(state, _, wait)
        wait()
        state.n, state.gone, state.prefs = 10, 10, { theme = "none" }
        state["user:u"], state["app:a"], state["temp:t"] = 10, 10, 10
      end, { afterAgentCallback = function(context) shown = context.state:getAll() end })
      local expected = {
        n = 10, gone = 10, new = 2, prefs = { theme = "none" }, list = { "a", "b" }, count = 15, ["user:u"] = 10,
        ["app:a"] = 10,
      }
      assert.same(expected, stored())
      expected["temp:t"] = 10
      assert.same(expected, shown)
    end)

    it("overwrites or conflicts with the same value as with any other", function()
      beside(function(state, _, wait)
        wait()
        state.n = 2
      end)
      assert.equal(2, stored().n)
      service = open { durability = "normal" }
      local err = failure(beside, function(state, _, wait)
        local _ = state.n
        wait()
        state.n = 2
      end)
      assert.same({ "conflict", { "n" } }, { err.code, err.keys })
    end)

    it("adds to what was stored while it ran", function()
      beside(function(state, _, wait)
        local seen = state.count
        wait()
        state:increment("count", seen)
        state:append("list", "c")
      end)
      local state = stored()
      assert.same({ 20, { "a", "b", "c" } }, { state.count, state.list })
    end)

    it("shares what it has committed with the other branches when its event is stored, temp: included", function()
      local told = {}
      local isAsked, canEnd = false, false
      run(parallel(
        caller("A", {
          tool("one", function(state) state.one, state["temp:one"] = 1, 1 end),
          tool("two", function()
            isAsked = true
            waitFor(function() return canEnd end)
          end),
        }),
        custom("B", function(context)
          waitFor(function() return isAsked end)
          told[1] = { context.state.one or "none", context.state["temp:one"] or "none" }
          canEnd = true
          waitFor(function() return context.state.one end)
          told[2] = context.state["temp:one"]
        end)
      ))
      assert.same({ { "none", "none" }, 1 }, told)
    end)

    it("overlaps with its siblings as elsewhere, whatever the other branch stores", function()
      local answers
      beside(function(state, _, wait)
        local mine = state.mine or 0
        wait()
        state.mine, state.other = mine + 1, 1
      end, { afterAgentCallback = function(context)
        local events = context.session.events
        for index = 1, #events do
          local list = events[index]:functionResponses()
          if #list > 0 then answers = list end
        end
      end }, { tool("sibling", function(state) state.mine = (state.mine or 0) + 1 end) })
      assert.equal(1, stored().mine)
      assert.is_nil(stored().other)
      assert.matches('"mine"', answers[1].response.error, nil, true)
      assert.is_nil(answers[2].response.error)
    end)
  end)

end)
