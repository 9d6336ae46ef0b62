-- What a tool call waits for: while moonpad asks a store for it, nothing else of the run begins or
-- goes on; while it waits for an HTTP answer, others do (contract 1.4 point 2).
local http = require "moonpad.http"
local moonpad = require "moonpad"
local runScene = require "spec.support.run_scene"
local server = require "spec.support.http"
local slow_store = require "spec.support.slow_store"
local support = require "spec.support"
local toolCalls = require "spec.support.tool_calls"
local turns = require "spec.support.turns"

local waitFor = toolCalls.waitFor

---- Artifacts, memory, history

local WHO = { appName = "app", userId = "u", sessionId = "s" }

-- What a call may ask, in the order in which they are called.
local ASKS = {
  { "saveArtifact", function(context) return context:saveArtifact("note.txt", "tea") end, answer = 0 },
  { "loadArtifact", function(context) return context:loadArtifact("note.txt").text end, answer = "tea" },
  { "listArtifacts", function(context) return context:listArtifacts() end, answer = { "note.txt" } },
  { "searchMemory", function(context) return #context:searchMemory("kettle").memories end, answer = 1 },
  { "events", function(context)
    local texts = {}
    for index = 1, #context.session.events do texts[index] = context.session.events[index]:text() end
    return texts
  end, answer = { "the kettle", "the cup", "go", "" } },
  { "stateAt", function(_, service) return service:stateAt(service:getSession(WHO), 1) end, answer = { n = 1 } },
  { "template", function(context) return moonpad.injectSessionState("{artifact.note.txt}, {n}", context) end,
    answer = "tea, 2" },
}

describe("calls that ask for artifacts, memory and history", function()
  local closed = {}
  after_each(function()
    for index = #closed, 1, -1 do
      closed[index]:close()
      closed[index] = nil
    end
    support.cleanup()
  end)

  local function opened(service)
    closed[#closed + 1] = service
    return service
  end

  -- A session with a history, which the memory knows.
  local function openStores(store)
    local url = support.freshUrl(store)
    local service = opened(url:find "^slow:" and slow_store.open(url) or moonpad.open(url, { durability = "normal" }))
    local beside = support.urlBeside(store, url)
    local artifacts, memory = opened(moonpad.artifactService(beside)), opened(moonpad.memoryService(beside))
    local session = service:createSession(WHO)
    for n, text in ipairs { "the kettle", "the cup" } do
      service:appendEvent(session, {
        author = "user", content = { role = "user", parts = { { text = text } } }, actions = { stateDelta = { n = n } },
      })
    end
    memory:addSession(session)
    return service, artifacts, memory
  end

  -- Every call asks, and so do its callbacks. The first one waits before that, and one fails.
  local function play(store, way)
    local service, artifacts, memory = openStores(store)
    local log, events = {}, {}
    local function note(what) log[#log + 1] = what end
    local function asking(what, ask, context)
      note(what .. " asks")
      local answer = ask(context, service)
      note(what .. " was answered")
      return answer
    end

    local tools, calls = {}, {}
    local function add(name, run)
      tools[#tools + 1] = moonpad.tool { name = name, run = function(_, context)
        note("begin " .. name)
        context.state:append("order", name)
        local answer = run(context)
        note("end " .. name)
        return { result = answer }
      end }
      calls[#calls + 1] = { name, {}, tostring(#tools) }
    end
    add("waits", function(context)
      coroutine.yield()
      return asking("waits", ASKS[3][2], context)
    end)
    for _, ask in ipairs(ASKS) do
      add(ask[1], function(context) return asking(ask[1], ask[2], context) end)
    end
    add("fails", function(context)
      context:loadArtifact "note.txt"
      service:createSession(WHO)
    end)

    local function hook(what)
      return function(context, tool)
        for index = 1, 3 do asking(what .. " " .. tool.name, ASKS[index + 1][2], context) end
      end
    end
    local runner = moonpad.runner {
      appName = "app", sessionService = service, artifactService = artifacts, memoryService = memory,
      agent = moonpad.agent {
        name = "A", tools = tools, model = moonpad.models.scripted { support.calls(table.unpack(calls)), "done" },
        beforeToolCallback = function(context, tool)
          asking("before " .. tool.name, ASKS[3][2], context)
        end,
        afterToolCallback = hook "after", onToolErrorCallback = hook "error of",
      },
    }
    toolCalls.drive[way](runner, { userId = "u", sessionId = "s", newMessage = "go" }, function(event)
      note(("event: %d calls, %d answers"):format(#event:functionCalls(), #event:functionResponses()))
      events[#events + 1] = runScene.told(event)
    end)
    return { log = log, events = events, state = service:getSession(WHO).state:getAll() }
  end

  -- What a log is, written by hand.
  local function expectedLog()
    local log = { ("event: %d calls, 0 answers"):format(#ASKS + 2) }
    local function asks(what)
      log[#log + 1], log[#log + 2] = what .. " asks", what .. " was answered"
    end
    local function hook(what)
      for _ = 1, 3 do asks(what) end
    end
    local function finish(name)
      asks(name)
      log[#log + 1] = "end " .. name
      hook("after " .. name)
    end
    local function begin(name)
      asks("before " .. name)
      log[#log + 1] = "begin " .. name
    end
    begin "waits"
    for _, ask in ipairs(ASKS) do
      begin(ask[1])
      finish(ask[1])
    end
    begin "fails"
    hook "error of fails"
    finish "waits"
    log[#log + 1] = ("event: 0 calls, %d answers"):format(#ASKS + 2)
    log[#log + 1] = "event: 0 calls, 0 answers"
    return log
  end

  local STORES <const> = support.servers { "memory:", "sqlite:FILE", "slow:0:memory:", "slow:1:sqlite:FILE" }
  local expected
  for number, store in ipairs(STORES) do
    for wayNumber, way in ipairs(toolCalls.WAYS) do
      local isDue = turns.isDue(number, #STORES) and turns.isDue(wayNumber, #toolCalls.WAYS)
      turns.it(("let nothing else begin or go on meanwhile: on %s, in %s"):format(store, way), isDue, function()
        expected = expected or play("memory:", "run")
        local result = play(store, way)
        assert.same(expectedLog(), result.log)
        assert.same(expected.events, result.events)
        assert.same(expected.state, result.state)
        for index, ask in ipairs(ASKS) do
          local part = result.events[2].content.parts[index + 1]
          assert.same({ result = ask.answer }, part.functionResponse.response)
        end
        assert.equal("fails", result.events[2].content.parts[#ASKS + 2].functionResponse.name)
        assert.is_string(result.events[2].content.parts[#ASKS + 2].functionResponse.response.error)
      end)
    end
  end
end)

---- HTTP

describe("two calls #http", function()
  local web
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local function request()
    return http.request { url = web.url .. "/a", attempts = 1, timeoutMs = support.TIMEOUT_MS }
  end

  -- Each waits until the other call has ended, and returns the text that it got.
  local WAITS = {
    ["coroutine.yield"] = function(_, isOver)
      waitFor(isOver)
      return "text"
    end,
    ["context:await of a request"] = function(context)
      local job <close> = request()
      return context:await(job).body
    end,
    ["the whole answer to a request"] = function()
      local job <close> = request()
      return job:collect()
    end,
    ["the pieces of the answer to a request"] = function()
      local job <close> = request()
      local pieces = {}
      for piece in function() return job:receive() end do pieces[#pieces + 1] = piece end
      return table.concat(pieces)
    end,
  }

  toolCalls.eachWay(function(play)
    for name, wait in pairs(WAITS) do
      describe("of which one waits by " .. name .. (name:find "request" and " #http:" or ":"), function()
        local log, isOver
        before_each(function()
          log, isOver = {}, false
          -- Without the other call there is no answer.
          web:script { ["/a"] = { body = "text", held = true } }
        end)

        -- "one" waits in `place`; "two" begins, does `work` and ends.
        local function overlap(place, before, after, work)
          local function waiting(context)
            log[#log + 1] = "one waits"
            before(context.state)
            local text = wait(context, function() return isOver end)
            log[#log + 1] = "one goes on"
            after(context.state)
            return text
          end
          local fields = {}
          if place ~= "run" then
            fields[place] = function(context, tool)
              if tool.name == "one" then return { text = waiting(context) } end
            end
          end
          return play { start = { n = 1, t = { x = 0, y = 0 }, list = { "a" } }, fields = fields, tools = {
            { "one", function(_, context)
              log[#log + 1] = "one runs"
              return { text = place == "run" and waiting(context) }
            end },
            { "two", function(_, context)
              log[#log + 1] = "two begins"
              work(context.state)
              isOver = true
              web:release()
              log[#log + 1] = "two ends"
            end },
          } }
        end

        local orders = {
          run = { "one runs", "one waits", "two begins", "two ends", "one goes on" },
          beforeToolCallback = { "one waits", "two begins", "two ends", "one goes on" },
          afterToolCallback = { "one runs", "one waits", "two begins", "two ends", "one goes on" },
        }
        for place, order in pairs(orders) do
          it("the other one begins and ends meanwhile, and neither sees the other: in " .. place, function()
            local seen = {}
            local result = overlap(place, function(state)
              state.t.x, state["temp:one"] = 1, 1
              state:increment "n"
              seen.before = state:getAll()
            end, function(state)
              seen.after = state:getAll()
              table.insert(state.list, "one")
            end, function(state)
              seen.two = state:getAll()
              state.t.y, state["temp:two"] = 2, 2
              state:increment("n", 10)
              table.insert(state.list, "two")
            end)
            assert.same(order, log)
            assert.same({ n = 2, t = { x = 1, y = 0 }, list = { "a" }, ["temp:one"] = 1 }, seen.before)
            assert.same(seen.before, seen.after)
            assert.same({ n = 1, t = { x = 0, y = 0 }, list = { "a" } }, seen.two)
            assert.same({}, result.conflicts)
            assert.same({ n = 12, t = { x = 1, y = 2 }, list = { "a", "two", "one" } }, result.state)
            assert.same({ 1, 2 }, { result.shown["temp:one"], result.shown["temp:two"] })
            assert.same({ text = "text" }, result.responses[1])
            assert.equal(3, #result.events)
          end)

          it("a place that both wrote is a conflict of that which had read it: in " .. place, function()
            local held
            local result = overlap(place, function(state) held = state.n end,
              function(state) state.n, state.lost = held + 1, 1 end, function(state) state.n = state.n + 10 end)
            assert.same(order, log)
            assert.same({ ["1"] = { "n" } }, result.conflicts)
            assert.same({ n = 11, t = { x = 0, y = 0 }, list = { "a" } }, result.state)
          end)
        end
      end)
    end
  end)
end)
