-- What becomes of the writes of tool calls: of claims, where runs end early, of agents as
-- tools, and that it is the same on every store and in each way to drive a run (contract 1.4
-- points 2 to 6).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local runScene = require "spec.support.run_scene"
local slow_store = require "spec.support.slow_store"
local support = require "spec.support"
local toolCalls = require "spec.support.tool_calls"
local turns = require "spec.support.turns"

local waitFor = toolCalls.waitFor

local function agent(name, fields)
  fields.name = name
  return moonpad.agent(fields)
end

local function tool(name, run)
  return moonpad.tool { name = name, run = function(args, context) return run(context.state, context, args) end }
end

-- An agent that calls each tool once, with the ids "1", "2", ...
local function caller(name, tools, fields)
  local calls, definition = {}, {}
  for index, called in ipairs(tools) do calls[index] = { called.name, { request = "x" }, tostring(index) } end
  for field, value in pairs(fields or {}) do definition[field] = value end
  definition.tools = tools
  definition.model = moonpad.models.scripted { support.calls(table.unpack(calls)), "done" }
  return agent(name, definition)
end

---- Claims

-- What must happen once, and waits in its middle: docs/agents.md, "Several calls in one answer".
local function claim(context, called)
  if called.name ~= "charge" then return end
  if context.state["temp:charging"] then return { error = "a payment is under way" } end
  context.state["temp:charging"] = context.functionCallId
end

local function release(context)
  if context.state["temp:charging"] == context.functionCallId then context.state["temp:charging"] = nil end
end

toolCalls.eachWay(function(play)
  describe("a claim in beforeToolCallback", function()
    local UNDER_WAY <const> = { error = "a payment is under way" }
    local CHARGED <const> = { charged = true }

    local log
    before_each(function() log = {} end)

    -- Each answer of the model is a list of ids: "last-1" calls the tool "last" (of `more`), any
    -- other id calls "charge", which does what `charge` has for it.
    local function charging(charge, answers, more)
      local tools = { { "charge", function(_, context)
        local id = context.functionCallId
        log[#log + 1] = id
        charge[id](context.state, context)
        return { charged = true }
      end } }
      for _, other in ipairs(more or {}) do tools[#tools + 1] = other end
      for index, ids in ipairs(answers) do
        local calls = {}
        for place, id in ipairs(ids) do calls[place] = { id:match "^(%a+)%-" or "charge", {}, id } end
        answers[index] = support.calls(table.unpack(calls))
      end
      answers[#answers + 1] = "done"
      return play { start = { n = 1 }, tools = tools, fields = {
        model = moonpad.models.scripted(answers), beforeToolCallback = claim, afterToolCallback = release,
        onToolErrorCallback = release,
      } }
    end

    local function expectReleased(result)
      assert.is_nil(result.shown["temp:charging"])
      assert.is_nil(result.state["temp:charging"])
    end

    it("lets one of the calls that overlap through, and refuses the others", function()
      local isOver = false
      local result = charging({ first = function() waitFor(function() return isOver end) end },
        { { "first", "second", "third", "last-1" } }, { { "last", function() isOver = true end } })
      assert.same({ "first" }, log)
      assert.same({ CHARGED, UNDER_WAY, UNDER_WAY }, table.move(result.responses, 1, 3, 1, {}))
      expectReleased(result)
    end)

    it("is given back when the tool is done: the next call may have it", function()
      local function nothing() end
      local function wait() coroutine.yield() end
      local result = charging({ first = nothing, second = wait, third = nothing },
        { { "first", "second" }, { "third" } })
      assert.same({ "first", "second", "third" }, log)
      assert.same({ CHARGED, CHARGED, CHARGED }, result.responses)
      expectReleased(result)
    end)

    it("is given back in onToolErrorCallback when the tool fails: the next attempt may have it", function()
      local isRefused = false
      local result = charging({
        first = function(state)
          state.n = 100
          waitFor(function() return isRefused end)
          error("no network", 0)
        end,
        again = function(state)
          state.n = state.n + 1
          error("still none", 0)
        end,
        atOnce = function(state) state.n = state.n + 1 end,
      }, { { "first", "second", "look-1" }, { "again", "atOnce" } }, { { "look", function(_, context)
        isRefused = true
        return { claimed = context.state["temp:charging"], n = context.state.n }
      end } })
      assert.same({ "first", "again", "atOnce" }, log)
      assert.same({
        { error = "no network" }, UNDER_WAY, { claimed = "first", n = 1 }, { error = "still none" }, CHARGED,
      }, result.responses)
      assert.same({ n = 2 }, result.state)
      expectReleased(result)
    end)

    it("is given back when what the tool wrote conflicts", function()
      local isOver = false
      local result = charging({
        first = function(state)
          local n = state.n
          waitFor(function() return isOver end)
          state.n = n + 1
        end,
        again = function(state) state.n = state.n + 1 end,
      }, { { "first", "set-1" }, { "again" } }, { { "set", function(_, context)
        context.state.n, isOver = 10, true
      end } })
      assert.same({ first = { "n" } }, result.conflicts)
      assert.is_string(result.responses[1].error)
      assert.same({ CHARGED, 11 }, { result.responses[3], result.state.n })
      expectReleased(result)
    end)
  end)
end)

---- Ends

toolCalls.eachWay(function(play)
  describe("a tool that fails", function()
    it("loses what it wrote, temp: included, whether or not an error callback answers", function()
      for _, answers in ipairs { false, true } do
        local isOver = false
        local result = play { start = { n = 1, list = { 0 }, gone = 1 }, tools = {
          { "bad", function(_, context)
            local state = context.state
            state.n, state.gone, state["temp:t"], state["user:u"] = 2, nil, 2, 2
            table.insert(state.list, 1)
            state:increment "count"
            state:append("log", "bad")
            waitFor(function() return isOver end)
            error "no"
          end },
          { "good", function(_, context)
            context.state.good = context.state.n
            isOver = true
          end },
        }, fields = {
          beforeToolCallback = function(context, called) context.state["before " .. called.name] = 1 end,
          onToolErrorCallback = function(context)
            context.state["temp:rescued"] = context.state.n
            return answers and { ok = true } or nil
          end,
        } }
        local expected = {
          n = 1, list = { 0 }, gone = 1, good = 1, ["before bad"] = 1, ["before good"] = 1,
        }
        assert.same(expected, result.state)
        expected["temp:rescued"] = 1
        assert.same(expected, result.shown)
        assert.same(answers and {} or { "1" }, checks.keys(result.errors))
      end
    end)
  end)
end)

support.each_store(function(open)
  local service
  before_each(function() service = open { durability = "normal" } end)

  local function start(root, state, plugins)
    service:createSession { appName = "app", userId = "u", sessionId = "s", state = state }
    local runner = moonpad.runner { appName = "app", agent = root, sessionService = service, plugins = plugins }
    return runner, { userId = "u", sessionId = "s", newMessage = "go" }
  end

  local function run(root, state, plugins)
    local runner, options = start(root, state, plugins)
    return support.run(runner, options)
  end

  local function stored()
    return support.stored(service).state:getAll()
  end

  describe("what tool calls have committed", function()
    local seen, isOver, heard
    before_each(function() seen, isOver, heard = nil, false, nil end)

    -- "one" waits for ever, or until it hears of the end; "two" has ended by then.
    local function waiting(fields)
      return caller("A", {
        tool("one", function(state)
          state.one, state["temp:one"] = 1, 1
          local ok, err = pcall(waitFor, function() return false end)
          heard = not ok and err.code
          error(err, 0)
        end),
        tool("two", function(state)
          state.two, state["temp:two"], state["user:two"], state.n = 2, 2, 2, state.n + 1
          state:append("log", "two")
          isOver = true
        end),
      }, fields)
    end

    local function expectNothingStored()
      assert.same({ n = 1 }, stored())
      assert.equal(2, #support.stored(service).events)
      local runner = moonpad.runner { appName = "app", sessionService = service, agent = agent("A", {
        model = function(_, context)
          seen = context.state:getAll()
          return "again"
        end,
      }) }
      assert.equal("again", support.run(runner, "again")[1]:text())
      assert.same({ n = 1 }, seen)
    end

    it("is dropped when the run is cancelled, temp: included", function()
      local runner, options = start(waiting(), { n = 1 })
      local invocation = runner:start(options)
      assert.equal(2, #support.step(invocation):functionCalls())
      support.stepUntil(invocation, function() return isOver end)
      invocation:cancel()
      assert.is_nil(invocation:step())
      assert.equal("cancelled", heard)
      expectNothingStored()
    end)

    it("is dropped when a callback raises an error, which ends the run", function()
      for _, hook in ipairs { "beforeToolCallback", "afterToolCallback" } do
        service = open { durability = "normal" }
        isOver, heard = false, nil
        local root = waiting { [hook] = function(context, called)
          context.state[hook] = 1
          if called.name == "two" then error("broken", 0) end
        end }
        assert.equal("broken", checks.failure(run, root, { n = 1 }))
        assert.equal("cancelled", heard)
        expectNothingStored()
      end
    end)

    it("is dropped when onToolErrorCallback raises an error, which ends the run", function()
      local root = caller("A", {
        tool("one", function(state) state.one, state["temp:one"] = 1, 1 end),
        tool("two", function() error "no" end),
      }, { onToolErrorCallback = function() error("broken", 0) end })
      assert.equal("broken", checks.failure(run, root, { n = 1 }))
      expectNothingStored()
    end)

    it("is dropped when its event cannot be stored", function()
      local root = caller("A", {
        tool("one", function(state)
          state.n, state["temp:one"] = state.n + 1, 1
          local other = support.stored(service)
          other.state.n = 50
          service:updateSession(other)
        end),
        tool("two", function(state) state.two = 2 end),
      })
      local err = checks.failure(run, root, { n = 1 })
      assert.same({ "conflict", { "n" } }, { err.code, err.keys })
      assert.same({ n = 50 }, stored())
    end)
  end)

  ---- Agents as tools

  describe("an agent as a tool", function()
    -- An agent whose model does something and says "done"; with `pause` it waits in the middle.
    local function child(name, work, fields)
      fields = fields or {}
      fields.model = function(_, context)
        work(context.state, context)
        return "by " .. name
      end
      return moonpad.agentTool { agent = agent(name, fields) }
    end

    local function answersOf(tools, state, fields)
      for _, event in ipairs(run(caller("Caller", tools, fields), state)) do
        local answers = event:functionResponses()
        if #answers > 0 then
          for index, answer in ipairs(answers) do answers[index] = answer.response end
          return answers, event.actions.stateDelta
        end
      end
    end

    it("writes increments, appends and places, which overlap as a tool's own do", function()
      local isOver, hasBegun = false, false
      local function write(state, name)
        state:increment "n"
        state:increment("user:n", 2)
        state:append("log", name)
        table.insert(state.list, name)
        state.t[name] = 1
        state:setDefault("fresh", {})[name] = 1
      end
      local answers, delta = answersOf({
        child("M", function(state)
          hasBegun = true
          write(state, "M")
          waitFor(function() return isOver end)
          state:increment "n"
        end),
        child("N", function(state)
          assert.is_true(hasBegun)
          assert.same({ 10, 0 }, { state.n, #state.list })
          write(state, "N")
          isOver = true
        end),
      }, { n = 10, list = {}, t = { z = 1 } })
      assert.same({ { result = "by M" }, { result = "by N" } }, answers)
      assert.same({
        n = 13, ["user:n"] = 4, log = { "N", "M" }, list = { "N", "M" }, t = { z = 1, M = 1, N = 1 },
        fresh = { M = 1, N = 1 },
      }, delta)
      assert.same(delta, stored())
    end)

    -- "M" does its work when "N", which sets a to "N", has ended.
    local function overtaken(work, fields)
      local isOver = false
      local function wait() waitFor(function() return isOver end) end
      return answersOf({
        child("M", function(state, context) work(state, context, wait) end, fields),
        child("N", function(state) state.a, isOver = "N", true end),
      }, { a = "start", b = "start" })
    end

    it("conflicts where it had read what it writes: its state is the one that it began with", function()
      for _, moment in ipairs { "before", "after" } do
        service = open { durability = "normal" }
        local seen
        local answers, delta = overtaken(function(state, _, wait)
          seen = moment == "before" and state.a or nil
          wait()
          seen = state.a
          state.a, state.b, state.c = seen .. "M", "M", "M"
        end)
        assert.equal("start", seen)
        assert.matches('"a"', answers[1].error, nil, true)
        assert.same({ a = "N" }, delta)
      end
    end)

    it("conflicts where its agent had read in an event before, and in a tool of its own", function()
      local isOver = false
      local steps = moonpad.agentTool { agent = moonpad.customAgent { name = "Steps", run = function(context)
        context:emit(context.state.a)
        waitFor(function() return isOver end)
        context.state.a = "Steps"
        context:emit "done"
      end } }
      local inner = moonpad.agentTool { agent = caller("Inner", {
        tool("read", function(state) return state.b end),
        tool("write", function(state)
          waitFor(function() return isOver end)
          state.b = "Inner"
        end),
      }) }
      local answers, delta = answersOf({ steps, inner, tool("last", function(state)
        state.a, state.b, isOver = "last", "last", true
      end) }, { a = "start", b = "start" })
      assert.matches('"a"', answers[1].error, nil, true)
      assert.matches('"b"', answers[2].error, nil, true)
      assert.same({ a = "last", b = "last" }, delta)
    end)

    it("wins where it had not read, and where a template alone had", function()
      for _, fields in ipairs { { instruction = "a is {a}" }, {} } do
        service = open { durability = "normal" }
        local answers, delta = overtaken(function(state, _, wait)
          wait()
          state.a = "M"
        end, fields)
        assert.same({ { result = "by M" }, { result = "by N" } }, answers)
        assert.same({ a = "M" }, delta)
      end
    end)

    it("wins with its outputKey", function()
      local _, delta = overtaken(function(_, _, wait) wait() end, { outputKey = "a" })
      assert.same({ a = "by M" }, delta)
    end)

    it("has looked at no key but those that its agent has looked at", function()
      local answers, delta = overtaken(function(state, _, wait)
        wait()
        state.b = state.a .. "M"
      end)
      assert.same({ result = "by M" }, answers[1])
      assert.same({ a = "N", b = "startM" }, delta)
    end)

    it("loses everything when it fails, after any number of events", function()
      local answers, delta = answersOf({
        moonpad.agentTool { agent = moonpad.customAgent { name = "Steps", run = function(context)
          context.state.a = 1
          context:emit "one"
          context.state:increment "n"
          context:emit { actions = { stateDelta = { byHand = 1 } } }
          coroutine.yield()
          error("no", 0)
        end } },
        child("N", function(state) state.b = state.a end),
      }, { a = 0, n = 1 })
      assert.equal("no", answers[1].error)
      assert.same({ b = 0 }, delta)
    end)

    it("has tools whose calls overlap as elsewhere", function()
      local isOver = false
      local answers, delta = answersOf({
        moonpad.agentTool { agent = caller("Inner", {
          tool("slow", function(state)
            local n = state.n
            waitFor(function() return isOver end)
            state.n = n + 1
          end),
          tool("fast", function(state) state.n, state.t.x, isOver = state.n + 10, 1, true end),
        }) },
        tool("beside", function(state) state.t.y = 2 end),
      }, { n = 1, t = {} })
      assert.same({ result = "done" }, answers[1])
      assert.same({ n = 11, t = { x = 1, y = 2 } }, delta)
    end)
  end)
end)

---- The same everywhere

describe("what tool calls come to", function()
  local services = {}
  after_each(function()
    for index = #services, 1, -1 do
      services[index]:close()
      services[index] = nil
    end
    support.cleanup()
  end)

  -- Calls that ask the service, wait, overlap and conflict, in two branches that store in between,
  -- and after them.
  local function busy(log, service)
    local function ask(what)
      log[#log + 1] = what .. " asks"
      service:incrementState { appName = "asked", userId = "u", key = "asked" }
      log[#log + 1] = what .. " was answered"
    end
    local function counting(where, name, times)
      return tool(name, function(state)
        ask(where .. name)
        local n = state[where].n
        for _ = 1, times do coroutine.yield() end
        state[where][name] = n
        if name ~= "d" then state[where].n = n + 1 end
        state:append("log", where .. name)
        state:increment "count"
        ask(where .. name .. ", in the end,")
        if name == "c" then error("no", 0) end
        return { saw = n }
      end)
    end
    local function worker(name)
      local function hook(what)
        return function(context)
          ask(name .. "'s " .. what)
          context.state[name].hooks = (context.state[name].hooks or 0) + 1
        end
      end
      return caller(name, {
        counting(name, "a", 2), counting(name, "b", 0), counting(name, "c", 1), counting(name, "d", 1),
        moonpad.agentTool { agent = agent("helper_of_" .. name, { model = function(_, context)
          ask("helper_of_" .. name)
          coroutine.yield()
          context.state[name].helped = true
          return "helped"
        end }) },
      }, {
        beforeToolCallback = hook "before", afterToolCallback = hook "after", onToolErrorCallback = hook "on error",
      })
    end
    return moonpad.sequentialAgent { name = "Team", subAgents = {
      moonpad.parallelAgent { name = "Both", subAgents = { worker "Left", worker "Right" } }, worker "Last",
    } }
  end

  local function play(url, way)
    url = support.freshUrl(url)
    local service = url:find "^slow:" and slow_store.open(url) or moonpad.open(url, { durability = "normal" })
    services[#services + 1] = service
    local log, events = {}, {}
    service:createSession { appName = "app", userId = "u", sessionId = "s", state = {
      Left = { n = 0 }, Right = { n = 0 }, Last = { n = 0 },
    } }
    local runner = moonpad.runner { appName = "app", agent = busy(log, service), sessionService = service }
    toolCalls.drive[way](runner, { userId = "u", sessionId = "s", newMessage = "go" }, function(event)
      log[#log + 1] = "event of " .. event.author
      events[#events + 1] = runScene.told(event)
    end)
    return { log = log, events = events, state = support.stored(service).state:getAll() }
  end

  local STORES <const> = support.servers { "memory:", "sqlite:FILE", "slow:0:memory:", "slow:1:sqlite:FILE" }
  local expected
  for number, url in ipairs(STORES) do
    for wayNumber, way in ipairs(toolCalls.WAYS) do
      local isDue = turns.isDue(number, #STORES) and turns.isDue(wayNumber, #toolCalls.WAYS)
      turns.it(("is the same on %s in %s"):format(url, way), isDue, function()
        expected = expected or play("memory:", "run")
        for _, name in ipairs { "Left", "Right", "Last" } do
          local part = expected.state[name]
          assert.same({ 1, 0, 1, true }, { part.n, part.b, part.d, part.helped })
          assert.is_nil(part.a)
          assert.is_nil(part.c)
        end
        assert.equal(6, expected.state.count)
        assert.equal(6, #expected.state.log)
        assert.same(expected, play(url, way))
      end)
    end
  end
end)
