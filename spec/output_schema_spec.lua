-- outputSchema and outputKey: what of an answer goes into state.
local moonpad = require "moonpad"
local support = require "spec.support"

local SCHEMA = {
  type = "object",
  properties = { city = { type = "string" }, days = { type = "integer", minimum = 1 } },
  required = { "city" },
}

local failure = require("spec.support.checks").failure

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function run(fields, plugins)
    local definition = { name = "A", outputKey = "out" }
    for name, value in pairs(fields) do definition[name] = value end
    return support.run(moonpad.runner {
      appName = "app", agent = moonpad.agent(definition), sessionService = service, plugins = plugins,
    }, "go")
  end

  local function answering(text)
    return { outputSchema = SCHEMA, model = function() return text end }
  end

  local function stored()
    return support.stored(service).state:getAll()
  end

  describe("outputSchema", function()
    it("stores the value that the text holds, on the event itself", function()
      local events = run(answering '{"city": "Bergen", "days": 3}')
      assert.same({ out = { city = "Bergen", days = 3 } }, events[1].actions.stateDelta)
      assert.same({ out = { city = "Bergen", days = 3 } }, stored())
      assert.equal('{"city": "Bergen", "days": 3}', events[1]:text())
    end)

    it("takes the code fence off that models like to put around", function()
      for _, text in ipairs {
        '```json\n{"city":"Bergen"}\n```', '```\n{"city":"Bergen"}```', '  \n```JSON\r\n{"city":"Bergen"}\r\n```\n',
        ' {"city":"Bergen"}\n',
      } do
        run(answering(text))
        assert.same({ out = { city = "Bergen" } }, stored())
      end
    end)

    it("takes any value that a schema describes", function()
      run { outputSchema = { type = "array", items = { type = "string" } }, model = function() return '["a", "b"]' end }
      assert.same({ out = { "a", "b" } }, stored())
      run { outputSchema = { type = "integer" }, model = function() return "7" end }
      assert.same({ out = 7 }, stored())
    end)

    for name, case in pairs {
      ["that is no JSON"] = { "Bergen, I think", "Bergen, I think" },
      ["that misses a field"] = { "{}", "city: is required" },
      ["with a value of the wrong kind"] = { '{"city": "B", "days": 0}', "days: 0 is below" },
      ["with something around the JSON"] = { 'Here: {"city": "B"}', "Here" },
    } do
      it("fails on an answer " .. name, function()
        local err = failure(run, answering(case[1]))
        assert.equal("model", err.code)
        assert.matches('agent "A".outputSchema', err.message)
        assert.matches(case[2], err.message)
        assert.same({}, stored())
        -- The answer is no history either.
        assert.equal(1, #support.stored(service).events)
      end)
    end

    it("shows of a long answer the beginning, and no half characters", function()
      local err = failure(run, answering(("é"):rep(1000)))
      assert.is_true(#err.message < 500)
      assert.is_truthy(utf8.len(err.message))
    end)

    it("checks the answer also without an outputKey", function()
      local agent = moonpad.agent { name = "A", outputSchema = SCHEMA, model = function() return "{}" end }
      local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
      assert.equal("model", failure(support.run, runner, "go").code)
    end)

    it("skips blank text, such as the last piece of a stream", function()
      local events = run { outputSchema = SCHEMA, model = function() return " \n" end }
      assert.same({}, events[1].actions.stateDelta)
    end)

    it("leaves thoughts and the text beside a function call alone", function()
      run {
        outputSchema = SCHEMA, tools = { { name = "look", run = function() end } },
        model = moonpad.models.scripted {
          { content = { parts = { { text = "Let me look." }, support.calls({ "look", {} }).content.parts[1] } } },
          { content = { parts = { { text = "hm", thought = true }, { text = '{"city":' }, { text = '"Oslo"}' } } } },
        },
      }
      assert.same({ out = { city = "Oslo" } }, stored())
    end)

    it("is told to the model: in the config, or where there are tools in the instruction", function()
      local seen = {}
      local function model(request)
        seen[#seen + 1] = request
        return '{"city":"x"}'
      end
      run { outputSchema = SCHEMA, model = model, instruction = "Hi." }
      local tools = { { name = "t", run = function() end } }
      run { outputSchema = SCHEMA, model = model, instruction = "Hi.", tools = tools }
      run { outputSchema = SCHEMA, model = model, config = { responseSchema = { type = "string" } } }
      assert.same(SCHEMA, seen[1].config.responseSchema)
      assert.equal("Hi.", seen[1].systemInstruction)
      assert.is_nil(seen[2].config.responseSchema)
      assert.matches("^Hi%.\n\nYour final answer must be JSON.*\"city\"", seen[2].systemInstruction)
      assert.same({ type = "string" }, seen[3].config.responseSchema)
    end)

    it("is told to models of providers beside tools as well, where they can be held to it", function()
      local function asked(model, schema)
        local request
        run {
          model = model, outputSchema = schema or SCHEMA, tools = { { name = "t", run = function() end } },
          beforeModelCallback = function(_, given)
            request = given
            return '{"city":"x"}'
          end,
        }
        assert.equal(request.config.responseSchema == nil, request.systemInstruction ~= nil)
        return request.config.responseSchema ~= nil
      end
      for name, isHeld in pairs {
        ["gpt-4o"] = true, ["openai/gpt-5"] = true, ["claude-sonnet-4-5"] = true, ["gemini-3-pro"] = true,
        ["gemini-2.5-pro"] = false, ["deepseek-chat"] = false, ["ollama/llama3"] = false, ["groq/x"] = false,
      } do
        assert.same({ name, isHeld }, { name, asked(name) })
      end
      -- What cannot be said strictly is asked for in words.
      assert.is_false(asked("gpt-4o", { type = "object", additionalProperties = { type = "string" } }))
      local model = moonpad.models.openai { model = "gpt-4o", apiKey = "k" }
      assert.is_true(asked(model))
      assert.is_false(asked(moonpad.models.openai { model = "gpt-4o", baseUrl = "http://127.0.0.1:1/v1" }))
    end)

    it("takes null for what may be absent: a strict server has no other way to leave it out", function()
      local inner = { type = "object", properties = { n = { type = "integer" }, m = { type = { "integer", "null" } } } }
      local schema = {
        type = "object", required = { "city" },
        properties = {
          city = { type = "string" }, days = { type = "integer" }, list = { type = "array", items = inner },
        },
      }
      run {
        outputSchema = schema,
        model = function() return '{"city":"x","days":null,"list":[{"n":null,"m":null},{"n":1,"m":2}]}' end,
      }
      assert.same({ out = { city = "x", list = { { m = moonpad.null }, { n = 1, m = 2 } } } }, stored())
      assert.matches("city: expected a string, got null", failure(run, {
        outputSchema = schema, model = function() return '{"city":null}' end,
      }).message)
    end)

    it("must be a table", function()
      assert.matches("outputSchema", failure(moonpad.agent, { name = "A", outputSchema = "x" }).message)
    end)
  end)

  describe("outputKey", function()
    it("gets the text of all parts, and may have a prefix", function()
      run { outputKey = "user:bio", model = function()
        return { content = { parts = { { text = "I am " }, { text = "hm", thought = true }, { text = "Ann." } } } }
      end }
      assert.equal("I am Ann.", support.stored(service).state["user:bio"])
    end)

    it("temp: is there for the next agent, and gone afterwards", function()
      local seen
      support.run(moonpad.runner { appName = "app", sessionService = service, agent = moonpad.sequentialAgent {
        name = "S", subAgents = {
          moonpad.agent { name = "A", outputKey = "temp:draft", model = function() return "x" end },
          moonpad.agent { name = "B", instruction = "<temp:draft>", model = function(request)
            seen = request.systemInstruction
            return "y"
          end },
        },
      } }, "go")
      assert.equal("x", seen)
      assert.same({}, stored())
    end)

    it("gets an empty text where the answer is one, and nothing where there is no text", function()
      run { model = function() return { content = { parts = { { text = "" } } } } end }
      assert.same({ out = "" }, stored())
    end)

    it("is left alone by a function response that ends the run", function()
      run {
        model = moonpad.models.scripted { support.calls { "t", {} } },
        tools = { { name = "t", run = function(_, context)
          context.state.out = "by the tool"
          context.actions.skipSummarization = true
        end } },
      }
      assert.same({ out = "by the tool" }, stored())
    end)

    it("is not filled by partial events, by errors without text, nor by another agent's answer", function()
      run { model = function() return { errorCode = "SAFETY" } end }
      assert.same({}, stored())
      local root = moonpad.agent { name = "A", outputKey = "a", subAgents = {
        moonpad.agent { name = "B", outputKey = "b", model = function() return "by B" end },
      }, model = function() return support.calls { "transfer_to_agent", { agent_name = "B" } } end }
      support.run(moonpad.runner { appName = "app", agent = root, sessionService = service }, "go")
      assert.same({ b = "by B" }, stored())
    end)

    it("never conflicts", function()
      run { model = function(_, context)
        assert.is_nil(context.state.out)
        local other = support.stored(service)
        other.state.out = "from outside"
        service:updateSession(other)
        return "mine"
      end }
      assert.same({ out = "mine" }, stored())
    end)
  end)

  -- What the caller sees in words, one entry for each event.
  local function texts(events)
    local list = {}
    for index, event in ipairs(events) do list[index] = event:text() end
    return list
  end

  local function saying(words) return function() return words end end

  describe("the output", function()
    it("is not what the callbacks around an agent say, its own or those of a plugin", function()
      for _, way in ipairs { "agent", "plugin" } do
        local before, after = { beforeAgentCallback = saying "closed" }, { afterAgentCallback = saying "(checked)" }
        local function runWith(hooks)
          local fields = { model = saying "the draft" }
          if way == "agent" then
            for name, hook in pairs(hooks) do fields[name] = hook end
          end
          return run(fields, way == "plugin" and { hooks } or nil)
        end
        assert.same({ "the draft", "(checked)" }, texts(runWith(after)))
        assert.same({ out = "the draft" }, stored())
        local events = runWith(before)
        assert.same({ "closed", "A", {} }, { events[1]:text(), events[1].author, events[1].actions.stateDelta })
        assert.same({ out = "the draft" }, stored())
      end
    end)

    it("is what the callbacks around the model put in the place of its answer", function()
      run { beforeModelCallback = saying "cached" }
      assert.same({ out = "cached" }, stored())
      run { model = saying "hello", afterModelCallback = saying "HELLO" }
      assert.same({ out = "HELLO" }, stored())
      run { model = function() error "away" end, onModelErrorCallback = saying "later" }
      assert.same({ out = "later" }, stored())
    end)

    it("of an agent with a schema: a callback may answer in other words, which are not stored", function()
      for name, hooks in pairs {
        before = { beforeModelCallback = saying "Sorry, no." },
        after = { model = saying '{"city":"Bergen"}', afterModelCallback = saying "Sorry, no." },
        failed = { model = function() error "away" end, onModelErrorCallback = saying "Sorry, no." },
        agent = { model = saying "no", beforeAgentCallback = saying "Sorry, no." },
      } do
        for _, isPlugins in ipairs { false, true } do
          local fields, plugin = { outputSchema = SCHEMA }, {}
          for hook, value in pairs(hooks) do
            if isPlugins and hook ~= "model" then plugin[hook] = value else fields[hook] = value end
          end
          assert.same({ name, "Sorry, no." }, { name, texts(run(fields, { plugin }))[1] })
          assert.same({}, stored())
        end
      end
      assert.same({ '{"city":"Oslo"}', "(checked)" },
        texts(run { outputSchema = SCHEMA, model = saying '{"city":"Oslo"}', afterAgentCallback = saying "(checked)" }))
      assert.same({ out = { city = "Oslo" } }, stored())
    end)

    it("of an agent with a schema is parsed where a callback's words fit it", function()
      run { outputSchema = SCHEMA, beforeModelCallback = saying '```json\n{"city":"Bergen"}\n```' }
      assert.same({ out = { city = "Bergen" } }, stored())
    end)

    it("must fit where a callback only adds something to the model's own words", function()
      for _, callback in ipairs {
        function(_, response) response.customMetadata = { seen = true } end,
        function(_, response) return { content = response.content, customMetadata = { seen = true } } end,
      } do
        local err = failure(run, { outputSchema = SCHEMA, model = saying "Bergen", afterModelCallback = callback })
        assert.equal("model", err.code)
      end
    end)

    it("may be put into words by onEvent", function()
      local plugin = { onEvent = function(_, event)
        return { content = { role = "model", parts = { { text = event:text():gsub("Bergen", "[city]") } } } }
      end }
      run({ model = saying "To Bergen" }, { plugin })
      assert.same({ out = "To [city]" }, stored())
      run({ outputSchema = SCHEMA, model = saying '{"city":"Bergen"}' }, { plugin })
      assert.same({ out = { city = "[city]" } }, stored())
      local refused = { onEvent = function() return { content = { parts = { { text = "Sorry." } } } } end }
      assert.same({ "Sorry." }, texts(run({ outputSchema = SCHEMA, model = saying "no JSON" }, { refused })))
      assert.same({ out = { city = "[city]" } }, stored())
    end)

    it("beside a long-running call is stored where it fits a schema; the call happens in any case", function()
      for said, expected in pairs {
        ["Let me ask."] = {}, ['{"city":"Oslo"}'] = { out = { city = "Oslo" } },
      } do
        local asked = 0
        local events = run {
          outputSchema = SCHEMA,
          tools = { { name = "ask", longRunning = true, run = function() asked = asked + 1 end } },
          model = function() return { content = { parts = {
            { text = said }, support.calls({ "ask", {}, "c" .. said }).content.parts[1],
          } } } end,
        }
        assert.same({ 1, said, 1 }, { #events, events[1]:text(), asked })
        assert.same(expected, events[1].actions.stateDelta)
      end
    end)

    it("is not what a plugin says before or after the whole run", function()
      assert.same({ "closed" }, texts(run({ outputSchema = SCHEMA, model = saying "no" },
        { { beforeRun = saying "closed" } })))
      assert.same({}, stored())
      assert.same({ "done", "bye" }, texts(run({ model = saying "done" }, { { afterRun = saying "bye" } })))
      assert.same({ out = "done" }, stored())
    end)
  end)
end)
