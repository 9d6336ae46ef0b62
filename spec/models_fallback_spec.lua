-- Models that stand in for one another.
local checks = require "spec.support.checks"
local model = require "spec.support.model"
local moonpad = require "moonpad"
local server = require "spec.support.http"

local fallback = moonpad.models.fallback

-- Runs an agent with the model; the final text, and the last event.
local function ask(instance, fields)
  local agent = moonpad.agent { name = "A", model = instance }
  local runner <close> = moonpad.runner { appName = "shop", agent = agent, sessionService = moonpad.open "memory:" }
  local run = { userId = "ann", newMessage = "Hi" }
  for name, value in pairs(fields or {}) do run[name] = value end
  local text, events = runner:ask(run)
  return text, events[#events], events
end

local function failing(text)
  return function() error(text, 0) end
end

describe("models.fallback", function()
  it("asks the first model, and no other while it answers", function()
    local asked = 0
    local text, event = ask(fallback { function() return "first" end, function() asked = asked + 1 end })
    assert.are.same({ "first", 0 }, { text, asked })
    assert.is_nil(event.customMetadata)
  end)

  it("asks the next where one fails, and tells what it failed of", function()
    local text, event = ask(fallback { failing "one", function() return nil, "two" end, function() return "third" end })
    assert.are.equal("third", text)
    assert.are.same({ "one", "two" }, moonpad.toTable(event.customMetadata.failedModels))
  end)

  it("asks over HTTP, streamed and whole, each model by its own name #http", function()
    local web = server.start()
    finally(function() web:stop() end)
    local whole = { choices = { { message = { role = "assistant", content = "from b" }, finish_reason = "stop" } } }
    local function make(name, stream)
      return moonpad.models.openai { model = name, baseUrl = web.url .. "/" .. name, maxRetries = 0, stream = stream }
    end
    for _, stream in ipairs { true, false } do
      web:script {
        ["/a/chat/completions"] = server.json('{"error":{"message":"overloaded"}}', { status = 503 }),
        ["/b/chat/completions"] = stream and server.stream {
          '{"choices":[{"delta":{"content":"from "}}]}',
          '{"choices":[{"delta":{"content":"b"},"finish_reason":"stop"}]}', "[DONE]",
        } or server.json(whole),
      }
      local text, event, events = ask(fallback { make("a", stream), make("b", stream) })
      assert.are.equal("from b", text)
      assert.are.equal(stream and 3 or 1, #events)
      assert.are.same({ 'openai "a": HTTP 503: overloaded' }, moonpad.toTable(event.customMetadata.failedModels))
      assert.are.same({ "a", "b" }, { web:sent(1).model, web:sent(2).model })
    end
  end)

  it("does not begin anew once something of an answer has been shown", function()
    local asked = false
    local instance = fallback {
      function()
        local count = 0
        return function()
          count = count + 1
          if count == 1 then return { content = "Hel", partial = true } end
          return nil, "broken off"
        end
      end,
      function() asked = true end,
    }
    checks.raises("model", "broken off", ask, instance)
    assert.is_false(asked)
  end)

  it("tells what all have failed of, where none has answered #http", function()
    local err = checks.raises("model", "no model has answered: one; two; three", ask,
      fallback { failing "one", fallback { failing "two", failing "three" } })
    assert.are.same({ "one", "two", "three" }, moonpad.toTable(err.failedModels))
    local known = moonpad.models.openai { model = "m", baseUrl = "http://127.0.0.1:1/v1", maxRetries = 0 }
    err = checks.raises("model", "no model has answered: one; openai", ask, fallback { failing "one", known })
    assert.are.same({ "m", "connect" }, { err.model, err.kind })
    checks.raises("model", "failed: only", ask, fallback { failing "only" })
  end)

  it("tells what those have failed of that stand for several", function()
    local function good() return "good" end
    local text, event = ask(fallback { failing "one", fallback { failing "two", good } })
    assert.are.equal("good", text)
    assert.are.same({ "one", "two" }, moonpad.toTable(event.customMetadata.failedModels))
    event = select(2, ask(fallback { fallback { failing "one", failing "two" }, good }))
    assert.are.same({ "one", "two" }, moonpad.toTable(event.customMetadata.failedModels))
  end)

  it("takes an answer with nothing in it for none, as it is without a fallback", function()
    local text, event = ask(fallback { function() return {} end, function() return "second" end })
    assert.are.equal("second", text)
    assert.are.same({ "the model returned an empty table" }, moonpad.toTable(event.customMetadata.failedModels))
  end)

  it("takes names, whose keys may be missing", function()
    local said = model.lua({ ANTHROPIC_API_KEY = "" }, [[
      local moonpad = require "moonpad"
      local instance = moonpad.models.fallback { "anthropic/claude-sonnet-4", function() return "here" end }
      print(instance)
      local agent = moonpad.agent { name = "A", model = instance }
      local runner = moonpad.runner { appName = "a", agent = agent, sessionService = moonpad.open "memory:" }
      local text, events = runner:ask { userId = "u", newMessage = "Hi" }
      print(text, events[#events].customMetadata.failedModels[1])]])
    assert.matches("^moonpad.models.fallback anthropic/claude%-sonnet%-4, function", said)
    assert.matches('here\tmodel "claude%-sonnet%-4": no API key: set the environment variable ANTHROPIC_API_KEY', said)
  end)

  it("asks nobody else for a run that has been cancelled", function()
    local asked = false
    local instance = fallback {
      function() while true do coroutine.yield() end end, function() asked = true end,
    }
    local agent = moonpad.agent { name = "A", model = instance }
    local runner = moonpad.runner { appName = "shop", agent = agent, sessionService = moonpad.open "memory:" }
    local invocation = runner:start { userId = "ann", newMessage = "Hi" }
    for _ = 1, 3 do assert.are.equal("waiting", invocation:step()) end
    invocation:cancel()
    assert.is_nil(invocation:step())
    assert.is_false(asked)
  end)

  it("asks nobody else where the fault is none of the model's", function()
    local asked = false
    local storage = moonpad.open "memory:"
    storage:close()
    local instance = fallback {
      function() storage:getAppState { appName = "shop" } end, function() asked = true end,
    }
    checks.raises("closed", "", ask, instance)
    assert.is_false(asked)
  end)

  it("closes what a failed answer has left open", function()
    local closed = 0
    local closing = setmetatable({}, { __close = function() closed = closed + 1 end })
    local text = ask(fallback {
      function() return function() error("no", 0) end, nil, nil, closing end, function() return "yes" end,
    })
    assert.are.same({ "yes", 1 }, { text, closed })
  end)

  it("holds answers to a schema where each of the models can be", function()
    local schema = { type = "object", properties = { a = { type = "string" } }, required = { "a" } }
    local function plain() return "x" end
    assert.is_true(fallback { "claude-sonnet-5", plain }:takesSchema(schema, false))
    assert.is_false(fallback { "claude-sonnet-5", plain }:takesSchema(schema, true))
    assert.is_true(fallback { "openai/gpt-5", "gemini-3-pro" }:takesSchema(schema, true))
    assert.is_false(fallback { "openai/gpt-5", "gemini-2.5-pro" }:takesSchema(schema, true))
    assert.is_false(fallback { "deepseek-chat" }:takesSchema(schema, false))
  end)

  it("refuses what is no list of models, and says which", function()
    checks.raises("invalid_argument", "models.fallback: expected a list of models", fallback, "gpt-4o")
    checks.raises("invalid_argument", "models.fallback: expected at least one model", fallback, {})
    checks.raises("invalid_argument", "models.fallback[2]: expected a function, a model object or", fallback,
      { function() end, 5 })
    checks.raises("invalid_argument", 'model "nobody/knows": no model of that name is known', fallback,
      { "nobody/knows" })
    checks.raises("invalid_argument", "cannot call them all by one name", function()
      fallback { function() return "x" end }:generate { model = "other", contents = {} }
    end)
  end)
end)
