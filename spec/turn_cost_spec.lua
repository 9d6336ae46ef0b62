-- A turn costs what is new (contract 4): which events a run reads and decodes, what it keeps, and
-- that what was kept is never wrong.
local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "spec.support"

local APP, USER = "app", "u"

-- The revisions that runs read and decode while `action` runs.
local function readDuring(action)
  local readEvent, read = core.readEvent, {}
  core.readEvent = function(session, revision)
    read[#read + 1] = revision
    return readEvent(session, revision)
  end
  local ok, err = pcall(action)
  core.readEvent = readEvent
  assert(ok, err)
  return read
end

-- The texts of a request, a word for each content.
local function wordsOf(request)
  local words = {}
  for index, content in ipairs(request.contents) do words[index] = content.parts[1].text end
  return table.concat(words, " ")
end

support.each_store(function(open)
  local service, seen

  before_each(function() service, seen = nil, {} end)

  local function session(sessionId)
    local name = { appName = APP, userId = USER, sessionId = sessionId or "s" }
    return service:getSession(name) or service:createSession(name)
  end

  -- So many turns of two events; the words are "a1", "A1", ...
  local function fill(turns, sessionId)
    local filled = session(sessionId)
    for turn = 1, turns do
      local invocationId = "turn" .. turn
      service:appendEvent(filled, { author = "user", invocationId = invocationId,
        content = { role = "user", parts = { { text = "a" .. turn } } } })
      service:appendEvent(filled, { author = "A", invocationId = invocationId,
        content = { role = "model", parts = { { text = "A" .. turn } } }, actions = { stateDelta = { turn = turn } } })
    end
    return filled
  end

  local function runnerOf(fields)
    local definition = { name = "A", model = function(request)
      seen[#seen + 1] = wordsOf(request)
      return "ok"
    end }
    for name, value in pairs(fields or {}) do definition[name] = value end
    return moonpad.runner { appName = APP, agent = moonpad.agent(definition), sessionService = service }
  end

  local function ask(runner, message, more)
    local options = { userId = USER, sessionId = "s", newMessage = message }
    for name, value in pairs(more or {}) do options[name] = value end
    return support.run(runner, options)
  end

  describe("a run", function()
    it("reads each event once, also for later runs and other runners", function()
      service = open()
      fill(40)
      local runner = runnerOf()
      assert.equal(81, #readDuring(function() ask(runner, "x") end))
      -- The answer of the run before, and its own message.
      assert.same({ 82, 83 }, readDuring(function() ask(runner, "y") end))
      assert.same({ 84, 85 }, readDuring(function() ask(runnerOf(), "z") end))
      assert.matches("^a1 A1 .* a40 A40 x ok y ok z$", seen[3])
    end)

    it("reads an event that it has shown to no model only when one is to see it", function()
      service = open()
      fill(40)
      local runner = runnerOf()
      local few = readDuring(function() ask(runner, "x", { numRecentEvents = 4 }) end)
      assert.equal(5, #few)
      assert.equal("a39 A39 a40 A40 x", seen[1])
      assert.equal(81 - 5 + 2, #readDuring(function() ask(runner, "y") end))
      assert.matches("^a1 A1 .* a40 A40 x ok y$", seen[2])
    end)

    it('with includeContents = "none" reads the end of the history', function()
      service = open()
      fill(300)
      local runner = runnerOf { includeContents = "none" }
      assert.is_true(#readDuring(function() ask(runner, "x") end) < 40)
      assert.is_true(#readDuring(function() ask(runner, "y") end) <= 2)
      assert.same({ "x", "y" }, seen)
    end)

    it("that asks who goes on reads back to the one who spoke last", function()
      service = open()
      fill(300)
      local child = moonpad.agent { name = "Child", model = function() return "child" end }
      local runner = runnerOf { subAgents = { child }, includeContents = "none" }
      assert.is_true(#readDuring(function() ask(runner, "x") end) < 40)
    end)

    it("that answers an earlier call reads back to the call", function()
      service = open { historyCacheBytes = 0 }
      fill(300)
      local runner = runnerOf {
        includeContents = "none", tools = { { name = "later", longRunning = true, run = function() end } },
        model = function(request)
          seen[#seen + 1] = moonpad.json.encode(request.contents)
          local last = request.contents[#request.contents].parts[1]
          return last.text == "go" and support.calls { "later", {}, "L" } or "ok"
        end,
      }
      ask(runner, "go")
      ask(runner, "and what else?")
      local answer = { parts = { { functionResponse = { id = "L", response = { done = true } } } } }
      local read = readDuring(function() ask(runner, answer) end)
      assert.is_true(math.min(table.unpack(read)) > 500)
      assert.matches('"done":true', seen[3])
    end)

    it("keeps what another process has stored meanwhile", function()
      service = open()
      fill(2)
      local runner = runnerOf()
      ask(runner, "x")
      service:appendEvent(session(), { author = "user", content = { role = "user", parts = { { text = "between" } } } })
      assert.same({ 6, 7, 8 }, readDuring(function() ask(runner, "y") end))
      assert.equal("a1 A1 a2 A2 x ok between y", seen[2])
    end)

    it("knows nothing of a session of the same name that was deleted", function()
      service = open()
      fill(3)
      local runner = runnerOf()
      ask(runner, "x")
      service:deleteSession { appName = APP, userId = USER, sessionId = "s" }
      ask(runner, "y")
      assert.equal("y", seen[2])
    end)

    it("sees what rewinds left, whenever they came", function()
      service = open()
      fill(4)
      local runner = runnerOf()
      ask(runner, "x")
      service:rewind(session(), { invocationId = "turn3" })
      assert.equal(3, #readDuring(function() ask(runner, "y") end))
      assert.equal("a1 A1 a2 A2 y", seen[2])
      ask(runner, "z")
      assert.equal("a1 A1 a2 A2 y ok z", seen[3])
      service:rewind(session(), { revision = 2 })
      ask(runner, "w", { numRecentEvents = 3 })
      ask(runner, "v")
      assert.equal("a1 A1 w ok v", seen[5])
    end)

    it("sees its part of the history, whatever parts others have seen", function()
      service = open()
      fill(6)
      local runner, windows = runnerOf(), { 2, 12, 5, 0, 7, 3 }
      for number, window in ipairs(windows) do ask(runner, "x" .. number, { numRecentEvents = window }) end
      assert.equal("a6 A6 x1", seen[1])
      assert.equal("a2 A2 a3 A3 a4 A4 a5 A5 a6 A6 x1 ok x2", seen[2])
      assert.equal("A6 x1 ok x2 ok x3", seen[3])
      assert.equal("x4", seen[4])
      assert.equal("ok x2 ok x3 ok x4 ok x5", seen[5])
    end)

    it("shows calls and answers that were made by hand, whatever they lack", function()
      service = open()
      local kept = session()
      local calls = { { functionCall = {} }, { functionCall = { id = "x" } }, { functionCall = { name = "y" } } }
      local answers = { { functionResponse = {} }, { functionResponse = { id = "x" } },
        { functionResponse = { name = "y", response = { n = 1 } } } }
      service:appendEvent(kept, { author = "A", content = { parts = calls } })
      service:appendEvent(kept, { author = "A", content = { parts = answers } })
      for _, includeContents in ipairs { "default", "none" } do
        local shown
        ask(runnerOf { includeContents = includeContents, model = function(request)
          shown = request.contents
          return "ok"
        end })
        assert.equal(3, #shown[1].parts)
        assert.same({ { functionResponse = { response = { error = "cancelled" } } }, answers[2], answers[3] },
          shown[2].parts)
      end
    end)

    it("that is cancelled in the middle leaves the next one a whole history", function()
      service = open()
      fill(600)
      local runner = runnerOf()
      for steps = 1, 4 do
        local run = runner:start { userId = USER, sessionId = "s", newMessage = "x" }
        for _ = 1, steps do
          run:step()
          core.idle(0.001)
        end
        run:cancel()
      end
      ask(runner, "y")
      local words = {}
      for word in seen[#seen]:gmatch "%S+" do words[#words + 1] = word end
      -- All but the answer. They are counted now, because what a cancelled run was storing is still
      -- stored.
      assert.equal(session().revision - 1, #words)
      for turn = 1, 600 do
        assert.equal("a" .. turn, words[2 * turn - 1])
        assert.equal("A" .. turn, words[2 * turn])
      end
    end)

    it("goes over a long history in several steps", function()
      service = open()
      fill(2000)
      local run = runnerOf():start { userId = USER, sessionId = "s", newMessage = "x" }
      local steps, event = 0
      repeat
        event = run:step()
        steps = steps + 1
        if event == "waiting" then core.idle(0.0001) end
      until event ~= "waiting"
      assert.is_true(steps > 3, "it took " .. steps .. " steps")
      assert.equal("ok", event:text())
    end)
  end)

  describe("what a callback changes in a request", function()
    local function spoil(_, request)
      for _, content in ipairs(request.contents) do
        content.role = "model"
        for _, part in ipairs(content.parts) do
          part.text = "spoilt"
          if part.functionCall then part.functionCall.args.deep.er = "spoilt" end
          if part.functionResponse then part.functionResponse.response.deep.er = "spoilt" end
        end
      end
      table.remove(request.contents, 1)
    end

    local original
    local function modelThat(answer)
      return function(request)
        seen[#seen + 1] = moonpad.json.encode(request.contents)
        return answer and answer(request) or "ok"
      end
    end

    before_each(function()
      service = open()
      local kept = session()
      service:appendEvent(kept, { author = "user", content = { role = "user", parts = { { text = "hello" } } } })
      service:appendEvent(kept, { author = "A", content = { role = "model", parts = {
        { functionCall = { id = "1", name = "f", args = { deep = { er = 1 } } } } } } })
      service:appendEvent(kept, { author = "A", content = { role = "user", parts = {
        { functionResponse = { id = "1", name = "f", response = { deep = { er = 2 } } } } } } })
      ask(runnerOf { model = modelThat() }, "first")
      original, seen = seen[1], {}
    end)

    local function shows(request)
      assert.equal(original:sub(1, -2), request:sub(1, #original - 1))
    end

    it("is seen in that request alone, where an agent's callback does it", function()
      ask(runnerOf { model = modelThat(), beforeModelCallback = spoil }, "x")
      assert.matches("spoilt", seen[1])
      ask(runnerOf { model = modelThat() }, "y")
      shows(seen[2])
      assert.is_nil(seen[2]:find "spoilt")
    end)

    it("is seen in that request alone, where a plugin does it", function()
      local agent = moonpad.agent { name = "A", model = modelThat() }
      local runner = moonpad.runner { appName = APP, agent = agent, sessionService = service,
        plugins = { { beforeModelCallback = spoil } } }
      ask(runner, "x")
      assert.matches("spoilt", seen[1])
      ask(runnerOf { model = modelThat() }, "y")
      shows(seen[2])
    end)

    it("is seen nowhere else, where it comes after an error of the model", function()
      local rescued
      local runner = runnerOf {
        model = modelThat(function() error "no" end),
        onModelErrorCallback = function(context, request)
          spoil(context, request)
          rescued = moonpad.json.encode(request.contents)
          return "rescued"
        end,
      }
      ask(runner, "x")
      assert.matches("spoilt", rescued)
      ask(runnerOf { model = modelThat() }, "y")
      shows(seen[2])
      assert.is_nil(seen[2]:find "spoilt")
    end)

    it("is not seen in what the session keeps", function()
      ask(runnerOf { model = modelThat(), beforeModelCallback = spoil }, "x")
      assert.equal("hello", session().events[1]:text())
    end)

    it("is not undone by a list that a model keeps", function()
      local lists = {}
      local runner = runnerOf { model = function(request)
        lists[#lists + 1] = request.contents
        return "ok"
      end }
      ask(runner, "x")
      local count = #lists[1]
      table.remove(lists[1])
      ask(runner, "y")
      assert.equal(count + 2, #lists[2])
    end)
  end)

  describe("historyCacheBytes", function()
    local function rereads(runner, sessionId)
      local read = readDuring(function() ask(runner, "again", { sessionId = sessionId }) end)
      return #read > 10
    end

    it("0 keeps nothing", function()
      service = open { historyCacheBytes = 0 }
      fill(10)
      local runner = runnerOf()
      ask(runner, "x")
      assert.is_true(rereads(runner))
      assert.matches("^a1 A1 .* a10 A10 x ok again$", seen[2])
    end)

    it("lets the sessions go first that were used least recently", function()
      service = open { historyCacheBytes = 60000 }
      local runner = runnerOf()
      for _, sessionId in ipairs { "one", "two", "three" } do fill(15, sessionId) end
      for _, sessionId in ipairs { "one", "two", "one", "three" } do ask(runner, "x", { sessionId = sessionId }) end
      assert.is_false(rereads(runner, "one"))
      assert.is_true(rereads(runner, "two"))
      assert.is_false(rereads(runner, "two"))
    end)

    it("that one session exceeds alone leaves it to the run that reads it", function()
      service = open { historyCacheBytes = 20000 }
      fill(100)
      local runner = runnerOf { tools = { { name = "look", run = function() return 1 end } }, model = function(request)
        seen[#seen + 1] = #request.contents
        return #seen % 2 == 1 and support.calls { "look", {} } or "ok"
      end }
      -- A run with two requests reads each event once.
      local read = readDuring(function() ask(runner, "x") end)
      assert.equal(203, #read)
      assert.is_true(rereads(runner))
      assert.same({ 201, 203, 205, 207 }, seen)
      -- Nor does it take the room of others.
      fill(6, "small")
      ask(runner, "x", { sessionId = "small" })
      assert.is_false(rereads(runner, "small"))
    end)

    it("counts a long session no less than it takes", function()
      service = open { historyCacheBytes = 1 << 40 }
      fill(400)
      local runner = runnerOf()
      ask(runner, "warm", { numRecentEvents = 0 })
      collectgarbage()
      collectgarbage()
      local before = collectgarbage "count"
      ask(runner, "x")
      collectgarbage()
      collectgarbage()
      local taken = (collectgarbage "count" - before) * 1024
      local counted = core.historyCache(service).bytes
      assert.is_true(counted > 0.7 * taken, ("%d bytes, counted as %d"):format(taken, counted))
      assert.is_true(counted < 3 * taken, ("%d bytes, counted as %d"):format(taken, counted))
    end)

    it("is refused where it is no count", function()
      for _, wrong in ipairs { -1, 0.5, "64", true } do
        local ok, err = pcall(open, { historyCacheBytes = wrong })
        assert.is_false(ok)
        assert.equal("invalid_argument", err.code)
        assert.matches("historyCacheBytes", err.message)
      end
    end)
  end)
end)
