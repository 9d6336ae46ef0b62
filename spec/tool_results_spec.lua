-- What a tool is, and what its run returns: anything that can be called, a name that providers
-- take, a result and files or nil and what went wrong.
local moonpad = require "moonpad"
local support = require "spec.support"

local PICTURE = { inlineData = { mimeType = "image/png", data = "iVBORw0KGgo=" } }
local FILE = { fileData = { fileUri = "https://example.com/a.pdf", mimeType = "application/pdf" } }

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  -- The function response of one call of a tool, its event, and the model.
  local function call(run, fields)
    fields = fields or {}
    local model = moonpad.models.scripted { support.calls { "look", {}, "c1" }, "done" }
    fields.name, fields.model = "A", model
    fields.tools = { { name = "look", run = run, longRunning = fields.longRunning } }
    fields.longRunning = nil
    local runner = moonpad.runner { appName = "app", agent = moonpad.agent(fields), sessionService = service }
    local event = support.run(runner, "go")[2]
    return event:functionResponses()[1], event, model
  end

  describe("nil and a message", function()
    it("is the tool's error, as if it had been raised", function()
      local asked
      local response, event = call(function(_, context)
        context.state.n = 1
        context.state["temp:n"] = 1
        return nil, "the shelf is empty"
      end, { onToolErrorCallback = function(_, _, _, err) asked = err end })
      assert.same({ error = "the shelf is empty" }, response.response)
      assert.equal("the shelf is empty", asked)
      assert.matches("^the shelf is empty\n", event.customMetadata.toolErrors.c1)
      assert.is_nil(support.stored(service).state.n)
    end)

    it("can be answered by onToolErrorCallback", function()
      local response = call(function() return nil, "oops" end, { onToolErrorCallback = function() return "saved" end })
      assert.same({ result = "saved" }, response.response)
    end)

    it("may be an error object of moonpad's", function()
      local response = call(function(_, context)
        local _, err = pcall(function() context.state.f = print end)
        return nil, err
      end)
      assert.matches("a function cannot be stored", response.response.error)
    end)

    it("is an error of a long-running tool, too", function()
      local response = call(function() return nil, "no answer will come" end, { longRunning = true })
      assert.same({ error = "no answer will come" }, response.response)
    end)

    it("of which the message may hold any bytes, or none", function()
      assert.same({ error = "caf?" }, call(function() return nil, "caf\xE9" end).response)
    end)

    it("is not false and a message, nor a message in a callback's answer", function()
      assert.matches("second value of run: expected a list of parts, got string",
        call(function() return false, "oops" end).response.error)
      local response = call(function() return "unused" end, { beforeToolCallback = function() return nil, "oops" end })
      assert.same({ result = "unused" }, response.response)
    end)
  end)

  describe("what is raised", function()
    local HERE <const> = "spec/tool_results_spec.lua:"

    it("is told to the model without where, and to the developer with it", function()
      for said, raise in pairs {
        ["no room"] = function() error "no room" end,
        ["no bed"] = function() error("no bed", 2) end,
        ["as it is: 12"] = function() error("as it is: 12", 0) end,
        ["attempt to index a nil value (field 'x')"] = function(args) return args.x.y end,
        ["in text"] = assert(load "error 'in text'"),
        ["in a file without .lua"] = assert(load("error 'in a file without .lua'", "=my chunk")),
        ["twice"] = function()
          local ok, err = pcall(error, "twice", 1)
          assert.is_false(ok)
          error(err, 1)
        end,
      } do
        local asked
        local response, event = call(raise, { onToolErrorCallback = function(_, _, _, err) asked = err end })
        assert.equal(said, response.response.error)
        assert.equal(asked, event.customMetadata.toolErrors.c1:sub(1, #asked))
        assert.equal(said, asked:sub(-#said))
      end
      local _, event = call(function() error "no room" end)
      assert.equal(HERE, event.customMetadata.toolErrors.c1:match "^[./]*(.-:)")
    end)

    it("keeps what only looks like a place, and a place alone", function()
      local function told(message)
        return call(function() error(message, 0) end).response.error
      end
      for _, message in ipairs { "http://h:80: refused", "cannot load /a/b.lua:3: no", "x.lua:1: ", "12: x", "" } do
        assert.equal(message, told(message))
      end
      assert.equal("no", told "/a/b.lua:3: no")
    end)

    it("is told as it says itself where it is no text", function()
      local mine = setmetatable({}, { __tostring = function() return "a.lua:1: mine" end })
      local response = call(function() error(mine) end)
      assert.equal("a.lua:1: mine", response.response.error)
    end)
  end)

  describe("a second value", function()
    it("of files goes along with the result, is stored, and is shown to the model", function()
      local response, _, model = call(function() return { rooms = 2 }, { PICTURE, FILE } end)
      assert.same({ rooms = 2 }, response.response)
      assert.same({ PICTURE, FILE }, response.parts)
      assert.same({ PICTURE, FILE }, support.stored(service).events[3]:functionResponses()[1].parts)
      assert.same({ PICTURE, FILE }, model.requests[2].contents[3].parts[1].functionResponse.parts)
    end)

    it("may be a single file", function()
      assert.same({ PICTURE }, call(function() return "x", PICTURE end).parts)
      local made = moonpad.inlineData("image/png", "\x89PNG\r\n\x1A\n")
      assert.same({ PICTURE }, call(function() return "x", made end).parts)
    end)

    it("that is nil, or a list of nothing, is none", function()
      assert.is_nil(call(function() return "x", nil end).parts)
    end)

    it("is an answer of a long-running tool that returns nothing else", function()
      local response = call(function() return nil, { PICTURE } end, { longRunning = true })
      assert.same({ { result = moonpad.null }, { PICTURE } }, { response.response, response.parts })
    end)

    it("that is a copy: what the tool does with its list later changes nothing", function()
      local list = { { inlineData = { mimeType = "image/png", data = "AAAA" } } }
      local response = call(function() return "x", list end, { afterToolCallback = function()
        list[1].inlineData.data = print
      end })
      assert.equal("AAAA", response.parts[1].inlineData.data)
    end)

    local wrong = {
      { 3, "expected a list of parts, got number %(brackets" },
      { "text", "expected a list of parts, got string" },
      { true, "expected a list of parts, got boolean" },
      { moonpad.null, "expected a list of parts, got userdata" },
      { { mimeType = "a/b", data = "" }, "expected a list of parts, got a table with the key" },
      { { { text = "x" } }, "parts%[1%]: expected a file" },
      { { "text" }, "parts%[1%]: expected a file" },
      { { PICTURE, {} }, "parts%[2%]: expected a file" },
      { { { inlineData = { data = "x" } } }, "parts%[1%]%.inlineData%.mimeType: expected a string, got nil" },
      { { { fileData = { fileUri = 1 } } }, "parts%[1%]%.fileData%.fileUri: expected a string, got number" },
      { { { inlineData = { mimeType = "a/b", data = "\xff" } } }, "data: is not base64: byte 1 " },
    }
    for index, case in ipairs(wrong) do
      it(("is refused where it is none: %d"):format(index), function()
        local response = call(function(_, context)
          context.state.n = 1
          return "x", case[1]
        end)
        assert.matches(case[2], response.response.error)
        assert.matches("^look: ", response.response.error)
        assert.is_nil(response.parts)
        assert.is_nil(support.stored(service).state.n)
      end)
    end

    it("stays where afterToolCallback changes nothing, and goes where it answers another result", function()
      local seen
      local response = call(function() return "x", { PICTURE } end, { afterToolCallback = function(_, _, _, result)
        seen = result
        return result
      end })
      assert.same({ "x", { PICTURE } }, { seen, response.parts })
      response = call(function() return "x", { PICTURE } end, { afterToolCallback = function() return "y" end })
      assert.same({ result = "y" }, response.response)
      assert.is_nil(response.parts)
    end)

    it("is not told to other agents", function()
      local second = moonpad.models.scripted { "done" }
      local first = moonpad.models.scripted { support.calls { "look", {} }, "seen" }
      local runner = moonpad.runner { appName = "app", sessionService = service, agent = moonpad.sequentialAgent {
        name = "S", subAgents = {
          moonpad.agent { name = "A", model = first, tools = {
            { name = "look", run = function() return "x", { PICTURE } end },
          } },
          moonpad.agent { name = "B", model = second },
        },
      } }
      support.run(runner, "go")
      local text = moonpad.json.encode(second.requests[1].contents)
      assert.is_truthy(text:find "`look`.* returned")
      assert.is_nil(text:find("iVBOR", 1, true))
    end)
  end)

  describe("a model", function()
    local function ask(model, fields)
      fields = fields or {}
      fields.name, fields.model = "A", model
      local runner = moonpad.runner { appName = "app", agent = moonpad.agent(fields), sessionService = service }
      return pcall(support.run, runner, "go")
    end

    it("may return nil and a message", function()
      local ok, err = ask(function() return nil, "the server is away" end)
      assert.is_false(ok)
      assert.same({ "model", "the server is away" }, { err.code, err.message })
    end)

    it("may be an object whose generate does", function()
      local _, err = ask { generate = function() return nil, "the server is away" end }
      assert.same({ "model", "the server is away" }, { err.code, err.message })
    end)

    it("is saved by onModelErrorCallback", function()
      local ok, events = ask(function() return nil, "the server is away" end, {
        onModelErrorCallback = function(_, _, err) return "rescued: " .. err.message end,
      })
      assert.is_true(ok)
      assert.equal("rescued: the server is away", events[1]:text())
    end)
  end)
end)

describe("a tool's run", function()
  it("may be an object that can be called", function()
    local object = setmetatable({}, { __call = function(self, args) return { self, args } end })
    local tool = moonpad.tool { name = "look", run = object }
    assert.same({ object, "x" }, tool.run "x")
    local answer = require("moonpad.testing").run { messages = "go", agent = moonpad.agent { name = "A",
      tools = { { name = "look", run = setmetatable({}, { __call = function(_, args) return args.n + 1 end }) } },
      model = moonpad.models.scripted { support.calls { "look", { n = 1 } }, "done" } } }
    assert.same({ result = 2 }, answer.events[2]:functionResponses()[1].response)
  end)

  it("is refused where it cannot be called", function()
    for _, value in ipairs { 1, "x", {}, setmetatable({}, {}), true } do
      local ok, err = pcall(moonpad.tool, { name = "look", run = value })
      assert.is_false(ok)
      assert.matches('tool "look".run: expected a function, got ' .. type(value), err.message, 1, true)
    end
  end)
end)

describe("the name of a tool", function()
  local function refusal(name)
    local ok, err = pcall(moonpad.tool, { name = name, run = print })
    assert.is_false(ok)
    assert.equal("invalid_argument", err.code)
    return err.message
  end

  it("is what every provider takes", function()
    for _, name in ipairs { "look", "_", "a-b", "A1_b-", ("x"):rep(64) } do
      assert.equal(name, moonpad.tool { name = name, run = print }.name)
    end
  end)

  it("is refused with one that would do", function()
    local cases = {
      ["look up"] = "look_up", ["a.b"] = "a_b", ["1st"] = "_1st", ["-x"] = "_-x", ["größe"] = "gr__e",
      ["a:b"] = "a_b", [("x"):rep(65)] = ("x"):rep(64), ["\xff"] = "_",
      ["a\nb"] = "a_b", ["a\n"] = "a_", ["a\0"] = "a_",
    }
    for name, fitted in pairs(cases) do
      local message = refusal(name)
      assert.is_truthy(message:find(('; "%s" would do'):format(fitted), 1, true), message)
      assert.equal(fitted, moonpad.tool { name = fitted, run = print }.name)
    end
  end)

  it("is that of an agent, where it is made a tool", function()
    local agent = moonpad.agent { name = "my helper", model = print }
    local ok, err = pcall(moonpad.agentTool, { agent = agent })
    assert.is_false(ok)
    assert.matches('^agentTool%.agent%.name: "my helper" is no name .* "my_helper" would do$', err.message)
  end)
end)
