-- Stepping a run whose model answers over HTTP: no step waits for the network.
local core = require "moonpad.core"
local moonpad = require "moonpad"
local server = require "spec.support.http"

local LIMIT_SECONDS = 0.002
-- A machine that is busy with something else takes the processor away for longer than a step may last.
local TRIES = 10

describe("a step while a model answers over HTTP", function()
  local web, service
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)
  before_each(function() service = moonpad.open "memory:" end)
  after_each(function() service:close() end)

  local function newRunner()
    local model = moonpad.models.openai { model = "gpt-test", apiKey = "test-key", baseUrl = web.url }
    local agent = moonpad.agent { name = "Clerk", model = model }
    return moonpad.runner { appName = "office", agent = agent, sessionService = service }
  end

  local function chunk(text, reason)
    return moonpad.json.encode { choices = moonpad.array { { delta = { content = text }, finish_reason = reason } } }
  end

  -- The longest step, and what it all came to. Between two steps it sleeps, as a game does.
  local function stepThrough()
    web:script { ["/chat/completions"] = server.stream({ chunk "Hel", chunk("lo", "stop"), "[DONE]" },
                                                       { split = 20, pause = 0.005 }) }
    local invocation = newRunner():start { userId = "u", newMessage = "Hi" }
    local worst, waited, last = 0, 0, nil
    while true do
      local start = core.monotonic()
      local event = invocation:step()
      worst = math.max(worst, core.monotonic() - start)
      if event == nil then return worst, waited, last end
      if event == "waiting" then waited = waited + 1 else last = event end
      core.sleep(0.001)
    end
  end

  it("ends within 2 ms", function()
    local best = math.huge
    for _ = 1, TRIES do
      local worst, waited, last = stepThrough()
      assert.equal("Hello", last:text())
      assert.is_true(waited > 10, "only " .. waited .. " steps were waiting")
      best = math.min(best, worst)
      if best <= LIMIT_SECONDS or os.getenv "MOONPAD_GC" == "aggressive" then return end
    end
    assert.is_true(best <= LIMIT_SECONDS, ("the longest step took %.2f ms at best"):format(best * 1e3))
  end)

  -- In a process of its own: only there nothing has been loaded yet. Prints how long the first step took.
  local FIRST_STEP = [[
    local core, moonpad = require "moonpad.core", require "moonpad"
    local agent = moonpad.agent { name = "Clerk", model = "gpt-test" }
    local service = moonpad.open "memory:"
    local runner = moonpad.runner { appName = "office", agent = agent, sessionService = service }
    local invocation = runner:start { userId = "u", newMessage = "Hi" }
    core.sleep(0.001) -- whoever has just been loading may be interrupted at once
    local start = core.monotonic()
    local event = invocation:step()
    print(event, core.monotonic() - start)
    assert(invocation:wait(10):text() == "Hello")
  ]]

  local function firstStep()
    web:script { ["/chat/completions"] = server.stream { chunk("Hello", "stop"), "[DONE]" } }
    local line = ("OPENAI_API_KEY=key OPENAI_BASE_URL=%s lua5.4 -e '%s' 2>&1"):format(web.url, FIRST_STEP)
    local pipe <close> = assert(io.popen(line))
    local output = pipe:read "a"
    assert.is_true((pipe:close()), output)
    local event, seconds = output:match "^(%w+)\t([%d.e-]+)\n$"
    assert.equal("waiting", event, output)
    return tonumber(seconds)
  end

  it("ends within 2 ms, also when it is the first of the process", function()
    local best = math.huge
    for _ = 1, TRIES do
      best = math.min(best, firstStep())
      if best <= LIMIT_SECONDS then return end
    end
    assert.is_true(best <= LIMIT_SECONDS, ("the first step took %.2f ms at best"):format(best * 1e3))
  end)

  it("has nothing to load any more, where the model is a name", function()
    local program = [[
      local moonpad = require "moonpad"
      moonpad.agent { name = "A", model = "claude-sonnet-4" }
      moonpad.agent { name = "B", model = "nobody-knows" }
      assert(package.loaded["moonpad.models.anthropic"] and package.loaded["moonpad.http_core"])
      assert(not package.loaded["moonpad.models.openai"])
    ]]
    assert.is_true((os.execute(("lua5.4 -e '%s'"):format(program))))
  end)
end)
