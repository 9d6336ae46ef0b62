-- What models answer, taken as it comes: JSON nulls, wrong types, ids of calls, streams.
local moonpad = require "moonpad"
local support = require "spec.support"

local null = moonpad.null

local failure = require("spec.support.checks").failure

local function parts(...)
  return { content = { role = "model", parts = { ... } } }
end

-- A model whose first answer is given, and what it is asked after it.
local function answering(first)
  local model = { requests = {} }
  function model:generate(request)
    self.requests[#self.requests + 1] = request
    if #self.requests == 1 then return first end
    return "over"
  end
  return model
end

support.any_store(function(open)
  local service, ran
  before_each(function() service, ran = open(), 0 end)

  local function runnerOf(fields, plugins)
    local definition = { name = "A", tools = { { name = "t", run = function()
      ran = ran + 1
      return { ok = true }
    end } } }
    for name, value in pairs(fields) do definition[name] = value end
    return moonpad.runner {
      appName = "app", agent = moonpad.agent(definition), sessionService = service, plugins = plugins,
    }
  end

  local function run(answer)
    local model = answering(answer)
    return support.run(runnerOf { model = model }, "go"), model
  end

  describe("JSON nulls in an answer", function()
    it("are fields that are absent: event, tools and the next prompt agree", function()
      local model = answering(parts(
        { text = "Look", thought = null, functionCall = null, functionResponse = null, inlineData = null },
        { text = "ing.", thought = false },
        { text = null, functionCall = { id = null, name = "t", args = null, willContinue = null } }))
      local events = support.run(runnerOf { model = model }, "go")
      assert.same({ "Looking.", 1, 0 },
        { events[1]:text(), #events[1]:functionCalls(), #events[1]:functionResponses() })
      assert.same({ "string", 1 }, { type(events[1]:functionCalls()[1].id), ran })
      local shown = model.requests[2].contents[2].parts
      assert.same({ { text = "Look" }, { text = "ing.", thought = false } }, { shown[1], shown[2] })
      assert.equal("t", shown[3].functionCall.name)
      for _, part in ipairs(support.stored(service).events[2].content.parts) do
        for _, value in pairs(part) do assert.not_equal(null, value) end
      end
    end)

    it("leave no part where nothing else is in it", function()
      local events, model = run(parts({ text = null }, { text = "hi" }, { functionCall = null, thought = null }))
      assert.same({ { text = "hi" } }, events[1].content.parts)
      support.run(runnerOf { model = model }, { parts = { { text = null }, { text = "go" } } })
      assert.same({ { text = "go" } }, model.requests[2].contents[3].parts)
    end)

    it("are absent at the top of it as well", function()
      local events = run {
        content = { role = null, parts = { { text = "hi" } } }, partial = null, errorCode = null, errorMessage = null,
        finishReason = null, usageMetadata = null, interrupted = null, turnComplete = null,
      }
      assert.same({ 1, "hi" }, { #events, events[1]:text() })
      assert.is_true(events[1]:isFinalResponse())
      assert.equal("hi", support.stored(service).events[2]:text())
      assert.equal("model", support.stored(service).events[2].content.role)
    end)

    it("are absent in the pieces of a stream", function()
      local list, index = {
        { partial = true, content = { parts = { { text = "He", thought = null } } } },
        { partial = true, content = { parts = { { text = null } } } },
        { partial = true, content = null },
        { partial = true, content = { parts = { { text = "llo", functionCall = null } } } },
        { content = null, finishReason = "STOP" },
      }, 0
      local events = run(function()
        index = index + 1
        return list[index]
      end)
      assert.equal("Hello", events[#events]:text())
      assert.is_nil(events[#events].partial)
      assert.equal("Hello", support.stored(service).events[2]:text())
    end)

    it("stay what they are in arguments, responses and metadata", function()
      local model = answering { customMetadata = { a = null }, content = { parts = {
        { functionCall = { name = "t", args = { a = null } } },
      } } }
      local events = support.run(runnerOf { model = model }, "go")
      assert.same({ { a = null }, { a = null } }, { events[1]:functionCalls()[1].args, events[1].customMetadata })
    end)

    it("are absent in what callbacks and users say", function()
      local model = answering "hello"
      local events = support.run(runnerOf {
        model = model,
        beforeAgentCallback = function(context)
          if context.userContent.parts[1].text == "stop" then return { parts = { { text = "no", thought = null } } } end
        end,
        afterModelCallback = function(_, response) response.content.parts[1].thought = null end,
      }, { parts = { { text = "go", thought = null, functionCall = null } } })
      assert.equal("hello", events[1]:text())
      assert.same({ text = "go" }, model.requests[1].contents[1].parts[1])
      local runner = runnerOf { model = model }
      support.run(runner, "again")
      assert.same({ text = "hello" }, model.requests[2].contents[2].parts[1])
      assert.equal("no", support.run(runnerOf { model = model,
        beforeAgentCallback = function() return { parts = { { text = "no", thought = null } } } end }, "x")[1]:text())
    end)

    it("are absent in events that were appended by hand", function()
      local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
      service:appendEvent(session, { author = "A", content = { role = null, parts = {
        { text = "by hand", thought = null, functionCall = null, functionResponse = null },
        { functionCall = { id = "c1", name = "t", args = null } },
      } } })
      local event = support.stored(service).events[1]
      assert.same({ 1, 0, "by hand" }, { #event:functionCalls(), #event:functionResponses(), event:text() })
      service:appendEvent(session, { author = "A", content = { parts = { { text = "last", functionCall = null } } } })
      assert.is_true(support.stored(service).events[2]:isFinalResponse())
      local model = answering "ok"
      support.run(runnerOf { model = model }, "go")
      local contents = model.requests[1].contents
      assert.equal("model", contents[1].role)
      assert.same({ { text = "by hand" }, { functionCall = { id = "c1", name = "t" } } }, contents[1].parts)
      assert.same({ { text = "last" } }, contents[3].parts)
    end)
  end)

  describe("an answer with a value of a wrong type", function()
    for what, answer in pairs {
      ["content.parts[2].text: expected a string, got number"] = parts({ text = "a" }, { text = 5 }),
      ["content.parts[1].thought: expected a boolean, got string"] = parts { text = "a", thought = "yes" },
      ["content.parts[1].functionCall: expected a table, got string"] = parts { functionCall = "t" },
      ["content.parts[1].functionCall.name: expected a string, got boolean"] =
        parts { functionCall = { name = true } },
      ["content.parts[1].functionCall.id: expected a string, got number"] =
        parts { functionCall = { id = 1, name = "t", args = {} } },
      ["content.parts[1].functionCall.id: expected a string, got boolean"] =
        parts { functionCall = { id = true, name = "t", args = {} } },
      ["content.parts[1].functionCall.id: expected a string, got table"] =
        parts { functionCall = { id = {}, name = "t", args = {} } },
      ["content.parts[1].functionResponse: expected a table, got boolean"] = parts { functionResponse = true },
      ["content.parts[1].inlineData: expected a table, got string"] = parts { inlineData = "x" },
      ["content.parts[1]: a part is a table, not a number"] = parts(5),
      ["content.role: expected a string, got number"] = { content = { role = 1, parts = { { text = "x" } } } },
      ["partial: expected a boolean, got string"] = { partial = "yes", content = { parts = {} } },
      ["finishReason: expected a string, got number"] = { finishReason = 1, content = { parts = { { text = "x" } } } },
      ["errorCode: expected a string, got number"] = { errorCode = 500 },
      ["usageMetadata: expected a table, got number"] = {
        usageMetadata = 3, content = { parts = { { text = "x" } } },
      },
      ["content: expected a string, a part, a list of parts or a Content"] = { content = 5 },
      ["content.parts[1].function_call: unknown field, did you mean functionCall?"] = parts {
        function_call = { name = "t" },
      },
      ["content.parts[1].functionCall.Name: unknown field, did you mean name?"] = parts {
        functionCall = { Name = "t" },
      },
      ["content.parts[1].text: the string is not valid UTF-8"] = parts { text = "\xFF" },
      ["customMetadata.f: a function cannot be"] = {
        customMetadata = { f = print }, content = { parts = { { text = "x" } } },
      },
    } do
      it("is the error model, and nothing runs: " .. what, function()
        for _, isStreamed in ipairs { false, true } do
          local given = answer
          if isStreamed then
            local isOver = false
            given = function()
              if isOver then return nil end
              isOver = true
              return answer
            end
          end
          local err = failure(run, given)
          assert.equal("model", err.code)
          assert.matches(what, err.message, 1, true)
          assert.matches('agent "A"', err.message, 1, true)
          assert.equal(0, ran)
          local stored = support.stored(service).events
          assert.equal("user", stored[#stored].author)
        end
      end)
    end

    it("may be answered for by onModelErrorCallback", function()
      local events = support.run(runnerOf {
        model = function() return parts { text = 5 } end, onModelErrorCallback = function() return "sorry" end,
      }, "go")
      assert.equal("sorry", events[1]:text())
    end)

    it("is the fault of a callback that gives it", function()
      for _, hook in ipairs { "beforeModelCallback", "afterModelCallback", "beforeAgentCallback" } do
        local err = failure(support.run, runnerOf {
          model = function() return "x" end, [hook] = function() return { parts = { { text = 5 } } } end,
        }, "go")
        assert.equal("invalid_argument", err.code)
        assert.matches(hook .. ".*parts%[1%].text: expected a string, got number", err.message)
      end
      local err = failure(support.run, runnerOf {
        model = function() return support.calls { "t", {}, "c" } end,
        afterModelCallback = function(_, response) response.content.parts[1].functionCall.id = 5 end,
      }, "go")
      assert.matches("afterModelCallback.*functionCall.id: expected a string, got number", err.message)
      assert.equal(0, ran)
    end)

    it("is the fault of a user who sends it", function()
      local err = failure(support.run, runnerOf { model = function() return "x" end }, { parts = { { text = 5 } } })
      assert.same({ "invalid_argument", "runner:run: newMessage.parts[1].text: expected a string, got number" },
        { err.code, err.message })
    end)
  end)

  describe("a model that returns nil", function()
    it("and an error object ends with that", function()
      local busy = failure(moonpad.open, "nowhere:")
      local function returning(reason) return runnerOf { model = function() return nil, reason end } end
      assert.equal(busy, failure(support.run, returning(busy), "go"))
      local err = failure(support.run, returning { code = "busy", message = "later" }, "go")
      assert.same({ "busy", "later" }, { err.code, err.message })
      err = failure(support.run, returning { status = 503 }, "go")
      assert.equal("model", err.code)
      assert.matches('the model of agent "A" failed: {"status":503}', err.message, nil, true)
      assert.same({ status = 503 }, err.cause)
    end)

    it("and nothing that tells why has returned nothing", function()
      for _, reason in ipairs { null, 5, false, function() end } do
        local err = failure(support.run, runnerOf { model = function() return nil, reason end }, "go")
        assert.equal("model", err.code)
        assert.equal('the model of agent "A" returned nothing; expected a response, a string or an iterator',
          err.message)
      end
    end)
  end)

  describe("calls without an id", function()
    it("get one each, whatever stands in its place", function()
      local model = answering(parts({ functionCall = { name = "t", id = null } }, { functionCall = { name = "t" } },
        { functionCall = { name = "t", id = "" } }))
      local events = support.run(runnerOf { model = model }, "go")
      local seen = {}
      for index, call in ipairs(events[1]:functionCalls()) do
        assert.is_nil(seen[call.id])
        seen[call.id] = true
        assert.equal(call.id, events[2]:functionResponses()[index].id)
      end
      assert.equal(3, ran)
    end)
  end)

  describe("a stream", function()
    local function streaming(...)
      local list, index = { ... }, 0
      return function()
        index = index + 1
        return list[index]
      end
    end

    it("that goes on after a complete answer is completed once more", function()
      local events = run(streaming("Hel", parts { text = "Hello." }, "And ", "more."))
      local whole = {}
      for _, event in ipairs(events) do
        if not event.partial then whole[#whole + 1] = event:text() end
      end
      assert.same({ "Hello.", "And more." }, whole)
      assert.equal("And more.", support.stored(service).events[3]:text())
    end)

    it("comes in whole characters", function()
      for _, piece in ipairs { "caf\xC3", { partial = true, content = "caf\xC3" } } do
        local err = failure(run, streaming(piece, "\xA9"))
        assert.equal("model", err.code)
        assert.matches('agent "A": a chunk of the model\'s answer: .*not valid UTF%-8 %(byte 4%)', err.message)
      end
    end)

    it("that ends with an error has answered nothing: no call, no output", function()
      local call = { partial = true, content = { parts = { { functionCall = { name = "t" } } } } }
      for _, ending in ipairs { { errorCode = "SAFETY", errorMessage = "no" }, { interrupted = true } } do
        local chunks = streaming(call, '{"a":', ending)
        local events = support.run(runnerOf {
          outputKey = "said", outputSchema = { type = "object" }, model = function() return chunks end,
        }, "go")
        local last = events[#events]
        assert.same({ "", ending.errorCode, ending.interrupted }, { last:text(), last.errorCode, last.interrupted })
        assert.same({}, last:functionCalls())
        assert.same({}, support.stored(service).state:getAll())
      end
      assert.equal(0, ran)
    end)

    it("that gives nil and a message is broken off: the error model, and nothing is stored", function()
      local function breaking(...)
        local chunks, count = streaming(...), select("#", ...)
        return function()
          count = count - 1
          if count >= 0 then return chunks() end
          return nil, "connection re\xFFset"
        end
      end
      for _, chunks in ipairs { {}, { "Hel" }, { "Hel", "lo" } } do
        local err = failure(run, breaking(table.unpack(chunks)))
        assert.same({ "model", "connection re?set" }, { err.code, err.message })
        local events = support.stored(service).events
        assert.equal("user", events[#events].author)
        -- The caller has seen the pieces; a callback may go on from there.
        events = support.run(runnerOf { model = answering(breaking(table.unpack(chunks))), outputKey = "said",
          onModelErrorCallback = function(_, _, reason) return "saved: " .. reason.message end }, "go")
        assert.equal("saved: connection re?set", events[#events]:text())
        assert.equal("saved: connection re?set", support.stored(service).state.said)
      end
      -- Whole answers before it stand.
      assert.equal("model", failure(run, breaking(parts { text = "Hello." }, "And")).code)
      local events = support.stored(service).events
      assert.equal("Hello.", events[#events]:text())
    end)

    it("that gives nil and an error object ends with that", function()
      local object = setmetatable({}, { __tostring = function() return "refused" end })
      assert.equal(object, failure(run, function() return nil, object end))
      local err = failure(run, function() return nil, { code = "busy", message = "later" } end)
      assert.same({ "busy", "later" }, { err.code, err.message })
    end)

    it("that ends with blanks after a complete answer has said all", function()
      run(streaming(parts { text = "Hello." }, "\n", " "))
      assert.equal(2, #support.stored(service).events)
    end)

    it("that ends in empty pieces after a complete answer has said all", function()
      local events = run(streaming("Hel", parts { text = "Hello." }, "", { partial = true, usageMetadata = { n = 1 } }))
      assert.same({ 2, "Hello." }, { #support.stored(service).events, support.stored(service).events[2]:text() })
      assert.equal("Hello.", events[2]:text())
    end)
  end)
end)
