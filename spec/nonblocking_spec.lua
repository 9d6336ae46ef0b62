-- Stepping a run whose model answers over HTTP: no step waits for the network. What a step takes is
-- measured in bench/streams.lua and bench/small.lua.
local moonpad = require "moonpad"
local processes = require "spec.support.processes"
local server = require "spec.support.http"
local support = require "spec.support"

-- A model that does not answer for so many steps.
local STEPS <const> = 30

describe("a step while a model answers over HTTP", function()
  local web, service
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)
  before_each(function() service = moonpad.open "memory:" end)
  after_each(function() service:close() end)

  local function newRunner()
    -- A step that waited would do so until the request is given up.
    local model = moonpad.models.openai {
      model = "gpt-test", apiKey = "test-key", baseUrl = web.url, timeoutMs = support.TIMEOUT_MS, maxRetries = 0,
    }
    local agent = moonpad.agent { name = "Clerk", model = model }
    return moonpad.runner { appName = "office", agent = agent, sessionService = service }
  end

  local function chunk(text, reason)
    return moonpad.json.encode { choices = moonpad.array { { delta = { content = text }, finish_reason = reason } } }
  end

  local function script(more)
    web:script { ["/chat/completions"] = server.stream({ chunk "Hel", chunk("lo", "stop"), "[DONE]" }, more) }
  end

  -- The server answers when the steps are done.
  local function stepThrough(more)
    script(more)
    local invocation = newRunner():start { userId = "u", newMessage = "Hi" }
    local texts = {}
    local function stepUntil(what, condition)
      support.waitUntil(what, function()
        local event = invocation:step()
        if event ~= "waiting" then texts[#texts + 1] = event:text() end
        return condition()
      end)
      for _ = 1, STEPS do assert.equal("waiting", invocation:step()) end
    end
    if more.held then
      stepUntil("the request", function() return #web:requests() == 1 end)
      assert.same({}, texts)
    else
      stepUntil("the first part of the answer", function() return #texts == 1 end)
      assert.same({ "Hel" }, texts)
    end
    web:release()
    local last
    for event in function() return support.step(invocation) end do last = event end
    assert.equal("Hello", last:text())
  end

  it("waits for no answer", function() stepThrough { held = true, split = 20, pause = 0.005 } end)

  it("waits for no rest of an answer", function()
    local first = "data: " .. chunk "Hel" .. "\n\n"
    stepThrough { split = 20, hold = #first }
  end)

  -- In a process of its own: only there nothing has been loaded yet.
  it("neither waits nor loads anything when it is the first of the process", function()
    script { held = true }
    local before = ("OPENAI_API_KEY=key OPENAI_BASE_URL=%s"):format(web.url)
    local line = processes.start([[
      local core, moonpad = require "moonpad.core", require "moonpad"
      local agent = moonpad.agent { name = "Clerk", model = "gpt-test" }
      local service = moonpad.open "memory:"
      local runner = moonpad.runner { appName = "office", agent = agent, sessionService = service }
      local invocation = runner:start { userId = "u", newMessage = "Hi" }
      local loaded = {}
      for name in pairs(package.loaded) do loaded[name] = true end
      local event = invocation:step()
      for name in pairs(package.loaded) do
        if not loaded[name] then io.write("loads ", name, "\n") end
      end
      print(event)
      io.stdout:flush()
      local last
      for event in function() return invocation:wait() end do last = event:text() end
      print(last)
    ]], before)
    assert.equal("waiting", line:read "l")
    web:release()
    assert.equal("Hello\n", line:read "a")
    line:close()
  end)

  it("has nothing to load any more, where the model is a name", function()
    local program = [[
      local moonpad = require "moonpad"
      moonpad.agent { name = "A", model = "claude-sonnet-4" }
      assert(package.loaded["moonpad.models.anthropic"] and package.loaded["moonpad.http_core"])
      assert(not package.loaded["moonpad.models.openai"])
    ]]
    assert.is_true((os.execute(("lua5.4 -e '%s'"):format(program))))
  end)
end)
