-- runner:ask, runner:close, and a runner that opens its services by a url.
local moonpad = require "moonpad"
local support = require "spec.support"

local calls = support.calls

local OPTIONS = { userId = "u", sessionId = "s", newMessage = "Hi" }

local function agentOf(model, fields)
  fields = fields or {}
  fields.name, fields.model = fields.name or "clerk", model
  return moonpad.agent(fields)
end

local function says(text)
  return function() return text end
end

local function fails(action, ...)
  local ok, err = pcall(action, ...)
  assert.is_false(ok)
  return err
end

local function runnerOf(service, agent, more)
  local definition = { appName = "app", agent = agent, sessionService = service }
  for name, value in pairs(more or {}) do definition[name] = value end
  return moonpad.runner(definition)
end

describe("runner:ask", function()
  support.each_store(function(open)
    it("answers the final texts, a line for each, and all events", function()
      local look = moonpad.tool { name = "look", run = function() return "empty" end }
      local agent = moonpad.sequentialAgent { name = "flow", subAgents = {
        moonpad.agent { name = "one", tools = { look },
          model = moonpad.models.scripted { calls { "look", {} }, "first" } },
        moonpad.agent { name = "two", model = function()
          local chunks = { "sec", "ond" }
          return function() return table.remove(chunks, 1) end
        end },
      } }
      local text, events = runnerOf(open(), agent):ask(OPTIONS)
      assert.are.equal("first\nsecond", text)
      local partials = 0
      for _, event in ipairs(events) do partials = partials + (event.partial and 1 or 0) end
      assert.are.equal(6, #events)
      assert.are.equal(2, partials)
    end)

    it("answers an empty text where nobody says anything", function()
      local agent = moonpad.customAgent { name = "mute", run = function(context) context.state.seen = true end }
      local text, events = runnerOf(open(), agent):ask(OPTIONS)
      assert.are.equal("", text)
      assert.are.equal(1, #events)
    end)

    it("raises as run does, and lets the session be used at once", function()
      local count = 0
      local runner = runnerOf(open(), agentOf(function()
        count = count + 1
        if count == 1 then error(setmetatable({ code = "own" }, {})) end
        return "fine"
      end))
      assert.are.equal("own", fails(runner.ask, runner, OPTIONS).code)
      assert.are.equal("fine", (runner:ask(OPTIONS)))
      assert.are.equal("invalid_argument", fails(runner.ask, runner, { userId = "u", mesage = "Hi" }).code)
      assert.is_truthy(fails(runner.ask, OPTIONS).message:find("with a colon", 1, true))
    end)

    it("works within a tool, and in a run that is stepped", function()
      local service = open()
      local inner = runnerOf(service, agentOf(function()
        coroutine.yield()
        return "from within"
      end))
      local ask = moonpad.tool { name = "ask", run = function()
        return { said = (inner:ask { userId = "u", sessionId = "other", newMessage = "Hi" }) }
      end }
      local outer = runnerOf(service, agentOf(moonpad.models.scripted { calls { "ask", {} }, "done" },
        { name = "outer", tools = { ask } }))
      local invocation = outer:start(OPTIONS)
      support.step(invocation)
      assert.are.equal("from within", support.step(invocation):functionResponses()[1].response.said)
      assert.are.equal("done", support.step(invocation):text())
    end)

    it("cannot wait for the run that it is called in", function()
      local runner
      local ask = moonpad.tool { name = "ask", run = function() return runner:ask(OPTIONS) end }
      runner = runnerOf(open(), agentOf(moonpad.models.scripted { calls { "ask", {} }, "done" }, { tools = { ask } }))
      local text, events = runner:ask(OPTIONS)
      assert.are.equal("done", text)
      assert.is_truthy(events[2]:functionResponses()[1].response.error:find("never begin", 1, true))
    end)
  end)
end)

describe("runner:close", function()
  support.each_store(function(open)
    it("refuses what comes later; closing twice is fine", function()
      local runner = runnerOf(open(), agentOf(says "Hello"))
      runner:close()
      runner:close()
      for _, method in ipairs { "run", "start", "ask" } do
        local err = fails(runner[method], runner, OPTIONS)
        assert.are.equal("closed", err.code)
        assert.is_truthy(err.message:find(method, 1, true))
      end
      assert.is_truthy(fails(runner.close).message:find("with a colon", 1, true))
    end)

    it("cancels its runs, those that wait for their turn too, and no other runner's", function()
      local service = open()
      local log = {}
      local function slow(name)
        return function()
          log[#log + 1] = name .. " begins"
          local ok, err = pcall(function() while true do coroutine.yield() end end)
          log[#log + 1] = ("%s: %s"):format(name, not ok and err.code or "?")
          error(err, 0)
        end
      end
      local runner, other = runnerOf(service, agentOf(slow "own")), runnerOf(service, agentOf(says "Hello"))
      local first, second = runner:start(OPTIONS), runner:start(OPTIONS)
      local elsewhere = runner:start { userId = "u", sessionId = "elsewhere", newMessage = "Hi" }
      local behind = other:start(OPTIONS)
      support.stepUntil(first, function() return #log == 1 end)
      support.stepUntil(elsewhere, function() return #log == 2 end)
      assert.are.equal("waiting", second:step())
      runner:close()
      assert.are.same({ "own begins", "own begins", "own: cancelled", "own: cancelled" }, log)
      for _, invocation in ipairs { first, second, elsewhere } do
        assert.is_nil(invocation:step())
        assert.is_nil(invocation:wait())
      end
      assert.are.equal("Hello", support.step(behind):text())
      assert.is_nil(support.step(behind))
    end)

    it("ends a loop over one of its runs", function()
      local runner = runnerOf(open(), moonpad.loopAgent { name = "loop", subAgents = { agentOf(says "more") } })
      local count = 0
      for _ in runner:run(OPTIONS) do
        count = count + 1
        if count == 3 then runner:close() end
      end
      assert.are.equal(3, count)
    end)

    it("leaves the services that it was given", function()
      local service <close> = open()
      local artifacts <close> = moonpad.artifactService "memory:"
      do
        local runner <close> = runnerOf(service, agentOf(says "Hello"), { artifactService = artifacts })
        runner:ask(OPTIONS)
      end
      assert.are.equal(2, #support.stored(service).events)
      assert.are.same({}, artifacts:list { appName = "app", userId = "u" })
    end)

    it("is what <close> does, in an error too", function()
      local service, kept = open(), nil
      local err = fails(function()
        local runner <close> = runnerOf(service, agentOf(says "Hello"))
        kept = runner
        error("my own", 0)
      end)
      assert.are.equal("my own", err)
      assert.are.equal("closed", fails(kept.ask, kept, OPTIONS).code)
    end)

    it("lets nothing start while it ends what is under way", function()
      local runner, isAsked, tried
      runner = runnerOf(open(), agentOf(function()
        local _ <close> = setmetatable({}, { __close = function() tried = fails(runner.start, runner, OPTIONS) end })
        isAsked = true
        while true do coroutine.yield() end
      end))
      support.stepUntil(runner:start(OPTIONS), function() return isAsked end)
      runner:close()
      assert.are.equal("closed", tried.code)
    end)

    -- A runner of its own services that is closed by a tool of its own run.
    local function closedFromWithin(drive)
      local runner, after
      local close = moonpad.tool { name = "close", run = function(_, context)
        context.state.before = true
        runner:close()
        after = fails(runner.start, runner, OPTIONS).code
        context.state.after = true
        return "ok"
      end }
      runner = runnerOf(open(), agentOf(moonpad.models.scripted { calls { "close", {} }, "never" },
        { tools = { close } }))
      local service = runner.sessionService
      local events = drive(runner)
      assert.are.equal("closed", after)
      assert.are.equal(1, #events)
      assert.is_nil(support.stored(service).state.before)
      -- The session can be used by others.
      assert.are.equal("Hello", (runnerOf(service, agentOf(says "Hello")):ask(OPTIONS)))
    end

    it("from within its own run cancels that one, too", function()
      closedFromWithin(function(runner) return select(2, runner:ask(OPTIONS)) end)
    end)

    it("from within its own run, stepped", function()
      closedFromWithin(function(runner)
        local invocation, events = runner:start(OPTIONS), {}
        for event in function() return support.step(invocation) end do events[#events + 1] = event end
        return events
      end)
    end)

    it("from a callback, a model and a custom agent of its own run", function()
      local service, runner = open(), nil
      local function close() runner:close() end
      local agents = {
        agentOf(says "Hello", { beforeAgentCallback = close }),
        agentOf(says "Hello", { afterModelCallback = close }),
        agentOf(function() runner:close() return "Hello" end),
        moonpad.customAgent { name = "clerk", run = function(context)
          runner:close()
          context:emit "Hello"
        end },
      }
      for index, agent in ipairs(agents) do
        runner = runnerOf(service, agent)
        local text, events = runner:ask(OPTIONS)
        assert.are.equal("", text, index)
        assert.are.equal(0, #events, index)
      end
    end)

    it("of another runner than that of the run that calls it", function()
      local service = open()
      local other = runnerOf(service, agentOf(function() while true do coroutine.yield() end end))
      local held = other:start { userId = "u", sessionId = "held", newMessage = "Hi" }
      for _ = 1, 20 do held:wait(0.001) end
      local close = moonpad.tool { name = "close", run = function()
        other:close()
        return "ok"
      end }
      local runner = runnerOf(service, agentOf(moonpad.models.scripted { calls { "close", {} }, "done" },
        { tools = { close } }))
      assert.are.equal("done", (runner:ask(OPTIONS)))
      assert.is_nil(held:step())
    end)
  end)

  it("does not keep runs that were dropped", function()
    local runner = runnerOf(moonpad.open "memory:", agentOf(function() while true do coroutine.yield() end end))
    local kept = setmetatable({}, { __mode = "k" })
    for _ = 1, 3 do
      local invocation = runner:start { userId = "u", newMessage = "Hi" }
      invocation:step()
      kept[invocation] = true
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(kept))
    runner:close()
  end)
end)

describe("runner:close and toolsets", function()
  local closed

  before_each(function() closed = {} end)

  local function toolsetOf(name, more)
    local toolset = { tools = function() return {} end }
    function toolset.close(self)
      assert.are.equal(toolset, self)
      closed[#closed + 1] = name
      if more then return more() end
    end
    return toolset
  end

  it("closes each once, those of sub-agents and of agents that are tools too", function()
    local shared = toolsetOf "shared"
    local inner = agentOf(says "Hello", { name = "inner", tools = { toolsetOf "inner" } })
    local runner = runnerOf(moonpad.open "memory:", agentOf(says "Hello", {
      tools = { shared, moonpad.agentTool { agent = inner }, { tools = function() return {} end } },
      subAgents = { agentOf(says "Hello", { name = "sub", tools = { shared, toolsetOf "sub" } }) },
    }))
    assert.are.equal("Hello", (runner:ask(OPTIONS)))
    assert.are.same({}, closed)
    runner:close()
    runner:close()
    table.sort(closed)
    assert.are.same({ "inner", "shared", "sub" }, closed)
  end)

  it("raises the first error when all is closed, once", function()
    local runner = moonpad.runner { appName = "app", url = "memory:", agent = agentOf(says "Hello", { tools = {
      toolsetOf("one", function() error("first", 0) end), toolsetOf("two", function() error("second", 0) end),
      toolsetOf "three",
    } }) }
    assert.are.equal("first", fails(runner.close, runner))
    assert.are.same({ "one", "two", "three" }, closed)
    assert.are.equal("closed", fails(support.stored, runner.sessionService).code)
    runner:close()
    assert.are.equal(3, #closed)
    assert.are.equal("closed", fails(runner.ask, runner, OPTIONS).code)
  end)

  it("keeps an error that is nil", function()
    local runner = runnerOf(moonpad.open "memory:",
      agentOf(says "Hello", { tools = { toolsetOf("one", function() error(nil) end) } }))
    assert.is_nil(fails(runner.close, runner))
  end)

  it("ends its runs before it closes the toolsets", function()
    local runner = runnerOf(moonpad.open "memory:", agentOf(function()
      local _ <close> = setmetatable({}, { __close = function() closed[#closed + 1] = "run" end })
      while true do coroutine.yield() end
    end, { tools = { toolsetOf "toolset" } }))
    local invocation = runner:start(OPTIONS)
    for _ = 1, 5 do invocation:step() end
    runner:close()
    assert.are.same({ "run", "toolset" }, closed)
  end)

  it("waits for them in its own run, stepped or not", function()
    for _, drives in ipairs { "ask", "start" } do
      closed = {}
      local runner, isClosed
      local function wait() for _ = 1, 3 do coroutine.yield() end end
      local close = moonpad.tool { name = "close", run = function()
        runner:close()
        isClosed = true
        coroutine.yield()
        error "is not reached"
      end }
      runner = moonpad.runner { appName = "app", url = "memory:", agent = agentOf(
        moonpad.models.scripted { calls { "close", {} }, "never" },
        { tools = { close, toolsetOf("one", wait), toolsetOf("two", wait) } }) }
      if drives == "ask" then
        assert.are.equal("", (runner:ask(OPTIONS)))
      else
        local invocation, count = runner:start(OPTIONS), 0
        while support.step(invocation) do count = count + 1 end
        assert.are.equal(1, count)
      end
      assert.is_true(isClosed)
      assert.are.same({ "one", "two" }, closed)
    end
  end)

  it("goes on closing at the next call where it was cancelled in the middle", function()
    local runner
    local function hang() while true do coroutine.yield() end end
    local close = moonpad.tool { name = "close", run = function() runner:close() end }
    runner = runnerOf(moonpad.open "memory:", agentOf(moonpad.models.scripted { calls { "close", {} }, "never" },
      { tools = { close, toolsetOf("one", hang), toolsetOf("two", hang), toolsetOf "three" } }))
    local invocation = runner:start(OPTIONS)
    support.step(invocation)
    support.stepUntil(invocation, function() return #closed == 1 end)
    invocation:cancel()
    assert.are.same({ "one", "two" }, closed)
    runner:close()
    assert.are.same({ "one", "two", "three" }, closed)
    assert.are.equal("closed", fails(runner.ask, runner, OPTIONS).code)
  end)
end)

describe("a runner with a url", function()
  after_each(support.cleanup)

  local function urls() return { "memory:", "sqlite:" .. support.tmpdir() .. "/app.db" } end

  it("opens the three services and closes them", function()
    for _, url in ipairs(urls()) do
      local runner = moonpad.runner { appName = "app", url = url, agent = moonpad.agent {
        name = "clerk", model = says "I sell tea", afterAgentCallback = function(context)
          context:saveArtifact("note.txt", "tea")
        end,
      } }
      assert.are.equal("I sell tea", (runner:ask(OPTIONS)))
      local session = support.stored(runner.sessionService)
      runner.memoryService:addSession(session)
      local who = { appName = "app", userId = "u" }
      assert.are.equal(1, #runner.memoryService:searchMemory { appName = "app", userId = "u", query = "tea" }.memories)
      assert.are.same({ "note.txt" }, runner.artifactService:list { appName = "app", userId = "u", sessionId = "s" })
      runner:close()
      assert.are.equal("closed", fails(support.stored, runner.sessionService).code)
      assert.are.equal("closed", fails(runner.artifactService.list, runner.artifactService, who).code)
      who.query = "tea"
      assert.are.equal("closed", fails(runner.memoryService.searchMemory, runner.memoryService, who).code)
      runner:close()
    end
  end)

  it("has them on one store", function()
    local url = urls()[2]
    do
      local runner <close> = moonpad.runner { appName = "app", url = url, agent = agentOf(says "Hello") }
      runner:ask(OPTIONS)
      runner.artifactService:save { appName = "app", userId = "u", filename = "user:a", part = "x" }
    end
    local service <close> = moonpad.open(url)
    assert.are.equal(2, #support.stored(service).events)
    local artifacts <close> = moonpad.artifactService(url)
    assert.are.same({ "user:a" }, artifacts:list { appName = "app", userId = "u" })
  end)

  it("takes no services beside it, and no url of another kind", function()
    local agent = agentOf(says "Hello")
    local given = {
      sessionService = moonpad.open "memory:", artifactService = moonpad.artifactService "memory:",
      memoryService = moonpad.memoryService "memory:",
    }
    for field, service in pairs(given) do
      local err = fails(moonpad.runner, { appName = "app", agent = agent, url = "memory:", [field] = service })
      assert.are.equal("invalid_argument", err.code)
      assert.is_truthy(err.message:find(field, 1, true))
    end
    for _, url in ipairs { 1, true, { "memory:" } } do
      local err = fails(moonpad.runner, { appName = "app", agent = agent, url = url })
      assert.are.equal("invalid_argument", err.code)
      assert.is_truthy(err.message:find("runner.url", 1, true))
    end
    assert.are.equal("unsupported", fails(moonpad.runner, { appName = "app", agent = agent, url = "mongodb://h" }).code)
    assert.is_truthy(fails(moonpad.runner, { appName = "app", agent = agent }).message:find("url", 1, true))
  end)

  it("closes what it has opened where another cannot be opened", function()
    local closed = {}
    local artifacts, memory = require "moonpad.services.artifacts", require "moonpad.services.memory"
    local openArtifacts, openMemory = artifacts.open, memory.open
    local opened
    artifacts.open = function(...)
      opened = openArtifacts(...)
      return setmetatable({}, { __index = { close = function()
        closed[#closed + 1] = "artifacts"
        opened:close()
      end } })
    end
    memory.open = function() error("no memory", 0) end
    local path = support.tmpdir() .. "/app.db"
    local err = fails(moonpad.runner, { appName = "app", agent = agentOf(says "Hello"), url = "sqlite:" .. path })
    artifacts.open, memory.open = openArtifacts, openMemory
    assert.are.equal("no memory", err)
    assert.are.same({ "artifacts" }, closed)
    -- A service that is open keeps its file open.
    local list <close> = assert(io.popen "ls -l /proc/self/fd /proc/$PPID/fd")
    assert.is_nil(list:read("a"):find(path, 1, true))
  end)

  it("opens nothing where the definition is refused", function()
    local path = support.tmpdir() .. "/app.db"
    fails(moonpad.runner, { appName = "app", url = "sqlite:" .. path, agent = moonpad.agent { name = "clerk" } })
    assert.is_nil(io.open(path))
  end)

  it("can be closed from within its own run", function()
    for _, url in ipairs(urls()) do
      for _, drives in ipairs { "ask", "start" } do
        local runner
        local close = moonpad.tool { name = "close", run = function(_, context)
          context.state.before = true
          runner:close()
          context.state.after = true
          return { got = context.state.before }
        end }
        runner = moonpad.runner { appName = "app", url = url, agent = agentOf(
          moonpad.models.scripted { calls { "close", {} }, "never" }, { tools = { close } }) }
        if drives == "ask" then
          assert.are.equal("", (runner:ask(OPTIONS)))
        else
          local invocation, count = runner:start(OPTIONS), 0
          while support.step(invocation) do count = count + 1 end
          assert.are.equal(1, count)
        end
        runner:close()
      end
    end
  end)
end)
