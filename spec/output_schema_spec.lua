-- outputSchema and outputKey: what of an answer goes into state.
local moonpad = require "moonpad"
local support = require "spec.support"

local SCHEMA = {
  type = "object",
  properties = { city = { type = "string" }, days = { type = "integer", minimum = 1 } },
  required = { "city" },
}

local function failure(run, ...)
  local ok, err = pcall(run, ...)
  assert.is_false(ok)
  return err
end

support.each_store(function(open)
  local service
  before_each(function() service = open() end)

  local function run(fields)
    local definition = { name = "A", outputKey = "out" }
    for name, value in pairs(fields) do definition[name] = value end
    local agent = moonpad.agent(definition)
    return support.run(moonpad.runner { appName = "app", agent = agent, sessionService = service }, "go")
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
end)
