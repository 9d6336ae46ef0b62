-- Agents within agents, and calls within calls: how deep they go, and what happens beyond.
local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure
local rarely = require("spec.support.turns").rarely

local function answer(name, args)
  return support.calls { name, args or { request = "go on" } }
end

-- Asks a tool once, and says what that has answered.
local function asking(name)
  return function(request)
    local parts = request.contents[#request.contents].parts
    local response = parts[#parts].functionResponse
    if not response then return answer(name) end
    return response.response.result or "error: " .. response.response.error
  end
end

local wraps = {
  parallelAgent = function(name, child) return moonpad.parallelAgent { name = name, subAgents = { child } } end,
  customAgent = function(name, child)
    local function run(context) context:runAgent(child) end
    return moonpad.customAgent { name = name, subAgents = { child }, run = run }
  end,
  agentTool = function(name, child)
    return moonpad.agent { name = name, model = asking(child.name), tools = { moonpad.agentTool { agent = child } } }
  end,
  sequentialAgent = function(name, child) return moonpad.sequentialAgent { name = name, subAgents = { child } } end,
  loopAgent = function(name, child)
    return moonpad.loopAgent { name = name, subAgents = { child }, maxIterations = 1 }
  end,
  agent = function(name, child)
    return moonpad.agent { name = name, subAgents = { child },
      model = function() return answer("transfer_to_agent", { agent_name = child.name }) end }
  end,
}

local function nested(count, kinds, leaf)
  local agent = leaf or moonpad.agent { name = "Leaf", model = function(_, context)
    context.state.reached = true
    return "deep down"
  end }
  for level = 1, count do agent = wraps[kinds[level % #kinds + 1]]("A" .. level, agent) end
  return agent
end

local function runnerOf(agent)
  local service = moonpad.open "memory:"
  return moonpad.runner { appName = "app", agent = agent, sessionService = service, maxLlmCalls = 0 }, service
end

local function lastText(agent)
  local events = support.run((runnerOf(agent)), "go")
  return events[#events]:text()
end

describe("agents within agents", function()
  local deep = {
    { "parallelAgent" }, { "customAgent" }, { "agentTool" }, { "parallelAgent", "agentTool", "customAgent" },
    { "agentTool", "loopAgent", "sequentialAgent", "parallelAgent" },
  }
  for _, kinds in ipairs(deep) do
    local name = table.concat(kinds, ", ")
    local isFlat = name:find "loopAgent" ~= nil

    it("of the kind " .. name .. " go 32 levels deep, and are refused beyond", function()
      assert.equal("deep down", lastText(nested(isFlat and 64 or 32, kinds)))
      local err = failure(nested, isFlat and 67 or 33, kinds)
      assert.equal("invalid_argument", err.code)
      assert.matches("32", err.message)
      assert.matches('agent "A%d+"', err.message)
    end)
  end

  for _, kind in ipairs { "sequentialAgent", "loopAgent", "agent" } do
    rarely("of the kind " .. kind .. " go 1000 levels deep, and are refused beyond", function()
      -- Each of a thousand transfers is another request with all that was said before.
      assert.equal("deep down", lastText(nested(kind == "agent" and 200 or 999, { kind })))
      local agent = nested(999, { kind })
      local err = failure(wraps[kind], "Top", agent)
      assert.equal("invalid_argument", err.code)
      assert.matches('^agent "Top".subAgents: .*1000', err.message)
      assert.is_nil(agent.parent)
    end)
  end

  -- 100 levels are either refused when they are made, or they work: with an answer, with a tool
  -- that fails at the bottom, with one that waits there and is cancelled.
  local kindsOf = {
    { "sequentialAgent" }, { "loopAgent" }, { "agent" }, { "parallelAgent" }, { "customAgent" }, { "agentTool" },
    { "sequentialAgent", "loopAgent", "agent" }, { "agent", "agentTool" }, { "loopAgent", "customAgent" },
    { "parallelAgent", "customAgent", "agentTool" }, { "loopAgent", "sequentialAgent", "agent", "parallelAgent" },
  }
  local tools = {
    fails = function() error("no luck", 0) end,
    waits = function(seen)
      seen.hasBegun = true
      local ok, err = pcall(function() while true do coroutine.yield() end end)
      seen.err = not ok and err
      error(err, 0)
    end,
  }

  local function leafWith(name, seen)
    return moonpad.agent { name = "Leaf", model = asking(name), tools = {
      { name = name, parameters = { type = "object" }, run = function() return tools[name](seen) end },
    } }
  end

  local function stepToEnd(run)
    local last
    while true do
      local event = run:step()
      if event == nil then return last:text() end
      if event ~= "waiting" then last = event end
    end
  end

  local function start(agent)
    return (runnerOf(agent)):start { userId = "u", sessionId = "s", newMessage = "go" }
  end

  for _, kinds in ipairs(kindsOf) do
    local name = table.concat(kinds, ", ")

    rarely("of the kind " .. name .. ": 100 levels work, or are refused by name", function()
      for _, count in ipairs { 100, 150, 200 } do
        local ok, agent = pcall(nested, count, kinds)
        if not ok then
          assert.equal("invalid_argument", agent.code)
          assert.matches('agent "A%d+".*32', agent.message)
        else
          assert.equal("deep down", stepToEnd(start(agent)))
        end
      end
    end)

    it("of the kind " .. name .. ": what a tool at the bottom meets", function()
      local ok = pcall(nested, 100, kinds)
      local count = ok and 100 or 32
      assert.equal("error: no luck", stepToEnd(start(nested(count, kinds, leafWith "fails"))))
      local inCoroutine = coroutine.wrap(function()
        return lastText(nested(count, kinds, leafWith "fails"))
      end)
      assert.equal("error: no luck", inCoroutine())
      local seen = {}
      local run = start(nested(count, kinds, leafWith("waits", seen)))
      repeat until seen.hasBegun or run:step() == nil
      for _ = 1, 3 do assert.equal("waiting", run:step()) end
      assert.is_nil(seen.err)
      run:cancel()
      assert.equal("cancelled", seen.err and seen.err.code)
      assert.is_nil(run:step())
    end)
  end

  rarely("that hand over in a circle inside of loops: the error tells of a limit", function()
    local function handOver(context) context:transferToAgent "Top" end
    local inner = moonpad.agent { name = "Leaf", model = function() return "never" end, beforeAgentCallback = handOver }
    for level = 1, 9 do inner = wraps.loopAgent("L" .. level, inner) end
    local top = moonpad.loopAgent { name = "Top", subAgents = { inner }, maxIterations = 1 }
    local err = failure(support.run, (runnerOf(top)), "go")
    assert.is_true(core.isError(err))
    assert.equal("limit", err.code)
    assert.matches("within one another", err.message)
  end)

  it("that run one another without end: the error tells of a limit, and the session goes on", function()
    local isOver = false
    local function back(name)
      return function(context)
        if isOver then return context:emit "well" end
        context:runAgent(name)
      end
    end
    local runner, service = runnerOf(moonpad.customAgent { name = "Top", subAgents = {
      moonpad.customAgent { name = "A", run = back "B" }, moonpad.customAgent { name = "B", run = back "A" },
    }, run = back "A" })
    local err = failure(support.run, runner, "go")
    assert.is_true(core.isError(err))
    assert.equal("limit", err.code)
    isOver = true
    assert.equal("well", support.run(runner, "go")[1]:text())
    assert.equal(3, #support.stored(service).events)
  end)

  it("that call themselves as tools by a way around: the model is told of a limit", function()
    local inner, told
    local agent = moonpad.agent {
      name = "A", model = asking "again",
      tools = { { name = "again", run = function(args, context) return inner.run(args, context) end } },
      onToolErrorCallback = function(_, _, _, err) told = told or err end,
    }
    inner = moonpad.agentTool { agent = agent }
    agent.toolsByName.again.parameters = inner.parameters
    assert.matches("error: .*C stack overflow", lastText(agent))
    assert.is_true(core.isError(told))
    assert.equal("limit", told.code)
  end)
end)

describe("a function that calls itself without end", function()
  -- Where the stack ends, Lua cannot call finalizers either: what it collects there is lost with
  -- what it held.
  before_each(function() collectgarbage "stop" end)
  after_each(function() collectgarbage "restart" end)

  local function recursive() return 1 + recursive() end
  local function throughC() return (("x"):gsub("x", function() return throughC() end)) end
  local hooks = {
    model = function(run) return { model = run } end,
    stream = function(run) return { model = function() return run end } end,
    beforeAgentCallback = function(run) return { beforeAgentCallback = run } end,
    afterModelCallback = function(run) return { afterModelCallback = run } end,
    instruction = function(run) return { instruction = run } end,
  }
  local function endsTheRun(definition)
    definition.name, definition.model = "A", definition.model or function() return "x" end
    local runner, service = runnerOf(moonpad.agent(definition))
    local err = failure(support.run, runner, "go")
    assert.is_true(core.isError(err))
    assert.equal("limit", err.code)
    assert.equal(1, #support.stored(service).events)
  end

  local function isToldToTheModel(run)
    local seen
    local agent = moonpad.agent { name = "A", model = asking "go", tools = { { name = "go", run = run } },
      onToolErrorCallback = function(_, _, _, err) seen = err end }
    assert.matches("error: too many calls within one another.*stack overflow", lastText(agent))
    assert.equal("limit", seen.code)
  end

  for hook, definitionOf in pairs(hooks) do
    it("through C, as " .. hook .. ", ends the run with an error of its own", function()
      endsTheRun(definitionOf(throughC))
    end)
  end

  rarely("in Lua, as a model, ends the run with an error of its own", function()
    endsTheRun(hooks.model(recursive))
  end)

  rarely("as a tool is told to the model", function()
    isToldToTheModel(recursive)
    isToldToTheModel(throughC)
  end)
end)
