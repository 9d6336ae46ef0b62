-- Toolsets: objects among an agent's tools that are asked which tools they have, once per model
-- request.
local moonpad = require "moonpad"
local support = require "spec.support"
local toolsets = require "moonpad.agents.toolsets"

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function runnerOf(agent)
    return moonpad.runner { appName = "app", agent = agent, sessionService = service }
  end

  local function tool(name, run)
    return { name = name, description = "Does " .. name, run = run or function() return name .. " did it" end }
  end

  -- A toolset that answers the same list each time.
  local function fixed(...)
    local list = { ... }
    return { tools = function() return list end }
  end

  -- A model that calls these one after the other, and then says "done".
  local function caller(...)
    local answers = {}
    for index, name in ipairs { ... } do answers[index] = support.calls { name, {}, "c" .. index } end
    answers[#answers + 1] = "done"
    return moonpad.models.scripted(answers)
  end

  local function namesIn(request)
    local names = {}
    for index, offered in ipairs(request.tools) do names[index] = offered.name end
    return names
  end

  -- The error of a run, and the invocation.
  local function failureOf(agent)
    local invocation <close> = runnerOf(agent):start { userId = "u", sessionId = "s", newMessage = "go" }
    local ok, err = pcall(function() repeat until invocation:wait() == nil end)
    assert.is_false(ok)
    return err, invocation
  end

  describe("a toolset", function()
    it("is asked once per model request, with itself and a context to read", function()
      local asked = {}
      local set = { name = "set" }
      function set.tools(...)
        asked[#asked + 1] = table.pack(...)
        return { tool "look" }
      end
      local model = caller("look", "look")
      local agent = moonpad.agent { name = "A", model = model, tools = { tool "own", set } }
      local events = support.run(runnerOf(agent), "go")
      assert.equal("done", events[#events]:text())
      assert.equal(3, #asked)
      assert.same({ 2, set, "A" }, { asked[1].n, asked[1][1], asked[1][2].agentName })
      assert.same({ "own", "look" }, namesIn(model.requests[1]))
      assert.equal("Does look", model.requests[1].tools[2].description)
      assert.same({ result = "look did it" }, events[2]:functionResponses()[1].response)
    end)

    it("reads the state in its context, and cannot write it", function()
      local seen, problem
      local set = { tools = function(_, context)
        seen = context.state.mode
        problem = select(2, pcall(function() context.state.mode = "other" end))
        return {}
      end }
      local agent = moonpad.agent { name = "A", model = caller(), tools = { set } }
      local atNight = { userId = "u", sessionId = "s", newMessage = "go", stateDelta = { mode = "night" } }
      support.run(runnerOf(agent), atNight)
      assert.equal("night", seen)
      assert.matches("read%-only", problem.message)
      assert.equal("night", support.stored(service).state.mode)
    end)

    it("may change its mind between requests: calls run with the list that the model was shown", function()
      local round = 0
      local set = { tools = function()
        round = round + 1
        if round == 1 then return { tool("look", function() return "the first" end) } end
        return { tool("search", function() return "the second" end) }
      end }
      local model = caller("look", "look", "search")
      local events = support.run(runnerOf(moonpad.agent { name = "A", model = model, tools = { set } }), "go")
      assert.same({ result = "the first" }, events[2]:functionResponses()[1].response)
      assert.same({ error = 'unknown tool "look"; available: search' }, events[4]:functionResponses()[1].response)
      assert.same({ result = "the second" }, events[6]:functionResponses()[1].response)
      assert.same({ { "look" }, { "search" } }, { namesIn(model.requests[1]), namesIn(model.requests[2]) })
    end)

    it("may wait, while the run is stepped", function()
      local ready, asked = false, 0
      local set = { tools = function()
        asked = asked + 1
        while not ready do coroutine.yield() end
        return { tool "look" }
      end }
      local agent = moonpad.agent { name = "A", model = caller "look", tools = { set } }
      local invocation <close> = runnerOf(agent):start { userId = "u", sessionId = "s", newMessage = "go" }
      support.stepUntil(invocation, function() return asked == 1 end)
      assert.equal("waiting", invocation:step())
      ready = true
      assert.equal("look", support.step(invocation):functionCalls()[1].name)
      assert.equal("look", support.step(invocation):functionResponses()[1].name)
      assert.equal("done", support.step(invocation):text())
      assert.equal(2, asked)
    end)

    it("is left where it waits when the run is cancelled, and asks no model", function()
      local asked, reason = 0, nil
      local set = { tools = function()
        asked = asked + 1
        reason = select(2, pcall(coroutine.yield))
        return {}
      end }
      local hasAnswered = false
      local agent = moonpad.agent { name = "A", tools = { set }, model = function()
        hasAnswered = true
        return "done"
      end }
      local invocation = runnerOf(agent):start { userId = "u", sessionId = "s", newMessage = "go" }
      support.stepUntil(invocation, function() return asked == 1 end)
      invocation:cancel()
      assert.is_nil(invocation:step())
      assert.equal("cancelled", reason and reason.code or "cancelled")
      assert.is_false(hasAnswered)
      assert.equal(1, #support.stored(service).events)
    end)

    it("may be any object with a method tools", function()
      local class = { tools = function() return { tool "look" } end }
      class.__index = class
      local strict = setmetatable({}, { __index = function(_, key)
        if key == "tools" then return function() return { tool "search" } end end
        error("no field " .. key)
      end })
      local model = caller()
      local agent = moonpad.agent { name = "A", model = model, tools = { setmetatable({}, class), strict } }
      support.run(runnerOf(agent), "go")
      assert.same({ "look", "search" }, namesIn(model.requests[1]))
    end)

    it("may be a userdata", function()
      local metatable = debug.getmetatable(io.stdout)
      local methods = metatable.__index
      methods.tools = function() return { tool "look" } end
      finally(function() methods.tools = nil end)
      local model = caller()
      support.run(runnerOf(moonpad.agent { name = "A", model = model, tools = { io.stdout } }), "go")
      assert.same({ "look" }, namesIn(model.requests[1]))
    end)

    it("may have an object that can be called in the place of the method", function()
      local set, given = { name = "set" }, nil
      set.tools = setmetatable({}, { __call = function(_, ...)
        given = { ... }
        return { tool "look" }
      end })
      local model = caller()
      support.run(runnerOf(moonpad.agent { name = "A", model = model, tools = { set } }), "go")
      assert.same({ "look" }, namesIn(model.requests[1]))
      assert.equal(set, given[1])
      assert.equal("A", given[2].agentName)
    end)

    it("may answer tools that were made, definitions, and agents as tools", function()
      local inner = moonpad.agent { name = "Inner", model = function() return "from within" end }
      local model = moonpad.models.scripted {
        support.calls({ "made", {} }, { "plain", {} }, { "Inner", { request = "go" } }), "done",
      }
      local set = fixed(moonpad.tool(tool "made"), tool "plain", moonpad.agentTool { agent = inner })
      local events = support.run(runnerOf(moonpad.agent { name = "A", model = model, tools = { set } }), "go")
      local answers = {}
      for index, response in ipairs(events[2]:functionResponses()) do answers[index] = response.response.result end
      assert.same({ "made did it", "plain did it", "from within" }, answers)
    end)

    it("may have nothing to offer", function()
      local model = caller()
      support.run(runnerOf(moonpad.agent { name = "A", model = model, tools = { fixed() } }), "go")
      assert.same({}, model.requests[1].tools)
    end)

    it("keeps its list: what moonpad makes of it is a copy", function()
      local definition = tool "look"
      local list = { definition }
      local set = { tools = function() return list end }
      support.run(runnerOf(moonpad.agent { name = "A", model = caller(), tools = { set } }), "go")
      assert.equal(definition, list[1])
      assert.is_nil(getmetatable(definition))
    end)

    it("says which of its tools are long-running, and is asked anew by the answer that comes late", function()
      local round, answered = 0, nil
      local set = { tools = function()
        round = round + 1
        local current = round
        return { { name = "approve", longRunning = true, run = function() end },
          tool("look", function() answered = current end) }
      end }
      local model = moonpad.models.scripted {
        support.calls { "approve", {}, "c1" }, support.calls { "look", {} }, "done",
      }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { set } })
      local events = support.run(runner, "go")
      assert.same({ "c1" }, events[1].longRunningToolIds)
      assert.equal(1, round)
      support.run(runner, { parts = { { functionResponse = { id = "c1", response = { ok = true } } } } })
      assert.same({ 3, 2 }, { round, answered })
    end)

    it("is asked where a sub-agent goes on, and by no other agent", function()
      local asked = {}
      local function set(name)
        return { tools = function(_, context)
          asked[#asked + 1] = name .. " for " .. context.agentName
          return { tool(name) }
        end }
      end
      local second = moonpad.agent { name = "B", model = caller(), tools = { set "b" } }
      local first = moonpad.agent { name = "A", subAgents = { second }, tools = { set "a" },
        model = function() return support.calls { "transfer_to_agent", { agent_name = "B" } } end }
      support.run(runnerOf(first), "go")
      assert.same({ "a for A", "b for B" }, asked)
    end)
  end)

  describe("two tools of one name", function()
    local function problemOf(agent)
      local err = failureOf(agent)
      assert.equal("invalid_argument", err.code)
      return err.message
    end

    it("are refused: the agent's own and a toolset's", function()
      assert.equal('agent "A": two tools are called "look": one is tools[1], one is of the toolset tools[2]',
        problemOf(moonpad.agent { name = "A", model = caller(), tools = { tool "look", fixed(tool "look") } }))
    end)

    it("are refused: of two toolsets", function()
      assert.equal('agent "A": two tools are called "look": one is of the toolset tools[1], '
        .. "one is of the toolset tools[3]",
        problemOf(moonpad.agent { name = "A", model = caller(),
          tools = { fixed(tool "look"), tool "own", fixed(tool "search", tool "look") } }))
    end)

    it("are refused: of one toolset", function()
      assert.equal('agent "A": two tools are called "look": one is of the toolset tools[1], '
        .. "one is of the toolset tools[1]",
        problemOf(moonpad.agent { name = "A", model = caller(), tools = { fixed(tool "look", tool "look") } }))
    end)

    it("are refused: a toolset's and moonpad's own to hand over", function()
      local other = moonpad.agent { name = "B", model = caller() }
      assert.equal('agent "A": two tools are called "transfer_to_agent": one is of the toolset tools[1], '
        .. "one is moonpad's to hand the conversation over",
        problemOf(moonpad.agent { name = "A", model = caller(), subAgents = { other },
          tools = { fixed(tool "transfer_to_agent") } }))
    end)

    it("are none where nobody can be handed over to", function()
      local model = caller()
      local set = fixed(tool "transfer_to_agent")
      support.run(runnerOf(moonpad.agent { name = "A", model = model, tools = { set } }), "go")
      assert.same({ "transfer_to_agent" }, namesIn(model.requests[1]))
    end)
  end)

  describe("a toolset that fails", function()
    it("ends the run: the caller gets its error and where it was", function()
      local reason = setmetatable({}, { __tostring = function() return "no network" end })
      local function unreachable() error(reason) end
      local set = { tools = function() unreachable() end }
      local wasAsked = false
      local agent = moonpad.agent { name = "A", tools = { set }, model = function()
        wasAsked = true
        return "done"
      end }
      local err, invocation = failureOf(agent)
      assert.equal(reason, err)
      assert.matches("in upvalue 'unreachable'", invocation.traceback, nil, true)
      assert.is_false(wasAsked)
      assert.equal(1, #support.stored(service).events)
      assert.equal("done", support.run(runnerOf(moonpad.agent { name = "A", model = caller() }), "again")[1]:text())
    end)

    it("asks no onModelErrorCallback and no onToolErrorCallback", function()
      local function never() return "saved" end
      local err = failureOf(moonpad.agent { name = "A", model = caller(), onModelErrorCallback = never,
        onToolErrorCallback = never, tools = { { tools = function() error("no network", 0) end } } })
      assert.equal("no network", err)
    end)

    it("may return nil and what went wrong", function()
      local function failing(reason)
        return (failureOf(moonpad.agent { name = "A", model = caller(), tools = { tool "own", {
          tools = function() return nil, reason end,
        } } }))
      end
      local err = failing "server \xFFaway"
      assert.same({ "tool", 'agent "A".tools[2]:tools(): server ?away' }, { err.code, err.message })
      assert.equal('agent "A".tools[2]:tools(): later', failing({ message = "later" }).message)
      local own = select(2, pcall(moonpad.open, "nowhere:"))
      assert.equal(own, failing(own))
    end)

    it("is told what is wrong with its list", function()
      local cases = {
        { nil, "expected a list of tools, got nothing" },
        { false, "expected a list of tools, got boolean" },
        { "look", "expected a list of tools, got string" },
        { moonpad.null, "expected a list of tools, got null" },
        { moonpad.tool(tool "look"), "expected a list of tools, got moonpad.tool" },
        { tool "look", 'expected a list of tools, got a table with the key "description"' },
        { { look = tool "look" }, 'expected a list of tools, got a table with the key "look"' },
      }
      for index = 1, #cases do
        local set = { tools = function() return cases[index][1] end }
        local err = failureOf(moonpad.agent { name = "A", model = caller(), tools = { tool "own", set } })
        assert.equal("invalid_argument", err.code)
        assert.matches('^agent "A"%.tools%[2%]:tools%(%): ', err.message)
        assert.equal(cases[index][2], err.message:match ": (.*)$", index)
      end
    end)

    it("is told what is wrong with an entry", function()
      local cases = {
        { "look", '[1]: expected a moonpad.tool, got string' },
        { {}, '[1]: tool.name: expected a non-empty string, got nil' },
        { { name = "look" }, '[1]: tool "look".run: expected a function, got nil' },
        { { name = "look", run = print, func = print }, '[1]: tool: func: unknown field, did you mean run?' },
        { fixed(tool "look"), '[1]: tool: tools: unknown field' },
      }
      for index, case in ipairs(cases) do
        local err = failureOf(moonpad.agent { name = "A", model = caller(), tools = { fixed(case[1]) } })
        assert.equal("invalid_argument", err.code)
        assert.is_truthy(err.message:find('agent "A".tools[1]:tools()' .. case[2], 1, true), index .. err.message)
      end
    end)
  end)
end)

describe("toolsets.of", function()
  local function set() return { tools = function() return {} end } end
  local function agent(name, tools, subAgents)
    return moonpad.agent { name = name, model = function() return "x" end, tools = tools, subAgents = subAgents }
  end

  it("lists the toolsets of a tree, each once", function()
    local shared, own, deep = set(), set(), set()
    local look = { name = "look", run = function() end }
    local tree = agent("A", { look, shared, own }, {
      moonpad.sequentialAgent { name = "S", subAgents = { agent("B", { shared, deep }), agent "C" } },
    })
    assert.same({ shared, own, deep }, toolsets.of(tree))
    assert.equal(shared, toolsets.of(tree)[1])
    assert.equal(deep, toolsets.of(tree)[3])
  end)

  it("looks into agents that are tools, and those below them", function()
    local first, second = set(), set()
    local inner = agent("Inner", { first }, { agent("Below", { second }) })
    local found = toolsets.of(agent("A", { moonpad.agentTool { agent = inner } }))
    assert.equal(2, #found)
    assert.is_true(found[1] == first and found[2] == second)
  end)

  it("takes no time for agents that share their tools many times over", function()
    local lowest = set()
    local left, right = agent("Left0", { lowest }), agent("Right0", { lowest })
    for level = 1, 30 do
      local tools = { moonpad.agentTool { agent = left }, moonpad.agentTool { agent = right } }
      left, right = agent("Left" .. level, tools), agent("Right" .. level, tools)
    end
    assert.same({ lowest }, toolsets.of(left))
  end)

  it("is empty where there are none", function()
    assert.same({}, toolsets.of(agent("A", { { name = "look", run = function() end } })))
  end)
end)
