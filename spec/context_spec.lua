-- What a context allows, and for how long.
local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local failure = require("spec.support.checks").failure

-- All ways to change something by a context.
local writes = {
  ["an index of state"] = function(context) context.state.x = 1 end,
  ["a method of state"] = function(context) context.state:increment "x" end,
  ["an action"] = function(context) context.actions.escalate = true end,
  ["an action that is cleared"] = function(context) context.actions.escalate = nil end,
  ["an action of one's own"] = function(context) context.actions.mine = { 1 } end,
  ["a delta"] = function(context) context.actions.stateDelta = { x = 1 } end,
  ["an index of the delta"] = function(context) context.actions.stateDelta.x = 1 end,
  ["a transfer by hand"] = function(context) context.actions.transferToAgent = "Top" end,
  ["transferToAgent"] = function(context) context:transferToAgent "Top" end,
  ["escalate"] = function(context) context:escalate() end,
  ["saveArtifact"] = function(context) context:saveArtifact("file", "text") end,
  ["emit"] = function(context) context:emit "more" end,
  ["runAgent"] = function(context) context:runAgent "Top" end,
  ["a field"] = function(context) context.invocationId = "other" end,
  ["the session"] = function(context) context.session.appName = "other" end,
  ["the state of the session"] = function(context) context.session.state.x = 1 end,
}

describe("a context that has ended", function()
  local kept, answered, service, artifacts

  -- Keeps the context of every function that gets one.
  local function keep(name)
    return function(context) kept[name] = kept[name] or context end
  end

  before_each(function()
    kept, answered = {}, 0
    service, artifacts = moonpad.open "memory:", moonpad.artifactService "memory:"
    local look = { name = "look", run = function(_, context) keep "tool"(context) end }
    local definition = { name = "A", tools = { look } }
    for _, hook in ipairs {
      "beforeAgentCallback", "afterAgentCallback", "beforeModelCallback", "afterModelCallback", "beforeToolCallback",
      "afterToolCallback", "instruction",
    } do definition[hook] = keep(hook) end
    function definition.model(_, context)
      keep "model"(context)
      answered = answered + 1
      return answered == 1 and support.calls({ "look" }, { "look" }) or "done"
    end
    local plugin = {}
    for _, hook in ipairs { "onUserMessage", "beforeRun", "onEvent", "afterRun" } do plugin[hook] = keep(hook) end
    local runner = moonpad.runner {
      appName = "app", sessionService = service, artifactService = artifacts, plugins = { plugin },
      agent = moonpad.customAgent { name = "Top", subAgents = { moonpad.agent(definition) }, run = function(context)
        keep "custom"(context)
        context:runAgent "A"
      end },
    }
    support.run(runner, "go")
  end)

  for what, write in pairs(writes) do
    it("refuses " .. what, function()
      local count = 0
      for name, context in pairs(kept) do
        count = count + 1
        local err = failure(write, context)
        assert.is_true(core.isError(err), name)
        assert.equal("invalid_argument", err.code, name)
      end
      assert.equal(14, count)
      local session = support.stored(service)
      assert.is_nil(session.state.x)
      assert.is_nil(artifacts:load { appName = "app", userId = "u", sessionId = "s", filename = "file" })
    end)
  end

  it("says that it has ended, and why", function()
    assert.equal("context:escalate(): this context has ended: its tool call is over",
      failure(kept.tool.escalate, kept.tool).message)
    assert.matches("^context.actions: this context has ended: ", failure(writes["an action"], kept.model).message)
    assert.matches("^context:emit%(...%): this context has ended: its agent is done",
      failure(kept.custom.emit, kept.custom, "more").message)
    assert.matches("read%-only", failure(kept.instruction.escalate, kept.instruction).message)
  end)
end)

describe("the actions of a context", function()
  it("can be read when it has ended, down to what they hold, and not be written there", function()
    local kept, raw
    local agent = moonpad.agent { name = "A", model = moonpad.models.scripted {
      support.calls({ "look" }, { "other" }), "done",
    }, tools = {
      { name = "look", run = function(_, context)
        kept = context
        context.actions.mine = { list = { 1, { deep = true } } }
        context.actions.escalate = true
        table.insert(context.actions.mine.list, "open")
      end },
      { name = "other", run = function() end },
    } }
    local events = support.run(moonpad.runner {
      appName = "app", agent = agent, sessionService = moonpad.open "memory:",
    }, "go")
    assert.same({ list = { 1, { deep = true }, "open" } }, events[2].actions.mine)
    local mine = kept.actions.mine
    assert.is_true(kept.actions.escalate)
    assert.is_true(mine.list[2].deep)
    assert.equal(3, #mine.list)
    for _, write in ipairs {
      function() mine.more = 1 end, function() mine.list[2].deep = nil end, function() table.insert(mine.list, 1) end,
      function() for _, value in pairs(kept.actions) do if type(value) ~= "boolean" then value.more = 1 end end end,
    } do
      assert.matches("this context has ended: its tool call is over", failure(write).message)
    end
    raw = {}
    for key in pairs(kept.actions) do raw[#raw + 1] = key end
    table.sort(raw)
    assert.same({ "escalate", "mine" }, raw)
  end)

  it("are plain tables as long as it is open", function()
    local context = testing.toolContext {}
    context.actions.mine = { list = { 1 } }
    context.actions.mine.list[2] = 2
    assert.same({ list = { 1, 2 } }, context.actions.mine)
    for key, value in pairs(context.actions) do assert.same({ "mine", { list = { 1, 2 } } }, { key, value }) end
  end)
end)

describe("a field of a context", function()
  local function context()
    return testing.toolContext { appName = "shop", userId = "ann", sessionId = "s1" }
  end

  it("says whose session it is", function()
    local shown = context()
    assert.same({ "shop", "ann", "s1" }, { shown.appName, shown.userId, shown.sessionId })
    assert.is_nil(shown.branch)
    assert.is_nil(shown.userContent)
  end)

  it("says which branch it is of", function()
    local branches = {}
    local function child(name)
      return moonpad.agent { name = name, model = function(_, of) branches[name] = of.branch return "x" end }
    end
    local agent = moonpad.parallelAgent { name = "P", subAgents = { child "A", child "B" } }
    support.run(moonpad.runner { appName = "app", agent = agent, sessionService = moonpad.open "memory:" }, "go")
    assert.same({ A = "P.A", B = "P.B" }, branches)
  end)

  it("that is unknown is an error that names the nearest", function()
    local cases = {
      { "usrId", "context.usrId: unknown field, did you mean userId?" },
      { "user_id", "context.user_id: unknown field, did you mean userId?" },
      { "saveArtefact", "context.saveArtefact: unknown field, did you mean saveArtifact?" },
    }
    for _, case in ipairs(cases) do
      local err = failure(function() return context()[case[1]] end)
      assert.same({ "invalid_argument", case[2] }, { err.code, err.message })
      err = failure(function() context()[case[1]] = 1 end)
      assert.same({ "invalid_argument", case[2] }, { err.code, err.message })
    end
    assert.matches("^context%.colour: unknown field, known are actions, agentName, ",
      failure(function() return context().colour end).message)
    assert.equal("context.colour: cannot be assigned; write to context.state",
      failure(function() context().colour = 1 end).message)
    assert.equal("context.userId: cannot be assigned; write to context.state",
      failure(function() context().userId = "bob" end).message)
    assert.is_nil(context()[1])
  end)

  it("of its session or its actions is looked at as closely", function()
    assert.equal("context.session.apName: unknown field, did you mean appName?",
      failure(function() return context().session.apName end).message)
    assert.equal("context.session.apName: unknown field, did you mean appName?",
      failure(function() context().session.apName = 1 end).message)
    assert.is_nil(context().session[1])
    assert.matches("^context.actions.skip_summarization: unknown field, did you mean skipSummarization?",
      failure(function() return context().actions.skip_summarization end).message)
    -- An event may have actions of one's own.
    assert.is_nil(context().actions.mine)
    assert.is_nil(context().actions.escalate)
    assert.is_nil(context().actions[1])
  end)

  it("may be looked for by those that print and compare", function()
    local shown = context()
    assert.matches("moonpad.context", tostring(shown))
    assert.same(shown, shown)
    assert.not_equal(shown, context())
    assert.is_table(shown)
    for _ in pairs(shown) do end
    local noted = spy.new(function() end)
    noted(shown, 1)
    assert.spy(noted).was_called_with(shown, 1)
    assert.matches("agentName", failure(assert.equal, shown, 1), nil, true)
    assert.is_false(pcall(function() assert.spy(noted).was_called_with(shown, 2) end))
  end)

  it("is walked over by pairs, where it has a value", function()
    local names, session = {}, {}
    local given = context()
    for name, value in pairs(given) do
      names[#names + 1] = name
      if name ~= "userContent" then assert.equal(given[name], value) end
    end
    assert.same({ "actions", "agentName", "appName", "functionCallId", "invocationId", "session", "sessionId", "state",
      "userId" }, names)
    for name in pairs(given.session) do session[name] = true end
    assert.is_true(session.id and session.events and session.state)
    assert.same({ "shop", "ann" }, { given.session.appName, given.session.userId })
  end)

  -- Encoders and copies go past what a metatable says, and would take all three for empty tables.
  for name, read in pairs {
    context = function(of) return of end, session = function(of) return of.session end,
    actions = function(of) return of.actions end,
  } do
    local says = ("a moonpad.%s, which is no data"):format(name)

    it("is not lost where data is wanted: " .. name, function()
      local given = context()
      for _, write in ipairs {
        function() given.state.x = read(given) end, function() given.state:set("x", { { read(given) } }) end,
        function() given.actions.mine = { read(given) } end, function() return moonpad.json.encode(read(given)) end,
        function() return require("cjson").encode(read(given)) end,
      } do
        local ok, err = pcall(write)
        assert.is_false(ok)
        assert.matches("function", tostring(err))
      end
      assert.matches(("state[\"x\"].y[\"%s\"]: a function cannot be stored"):format(says),
        failure(function() given.state.x = { y = read(given) } end).message, nil, true)
      assert.is_nil(given.state.x)
      assert.is_nil(given.actions.mine)
    end)

    it("is not answered to a model: " .. name, function()
      local tools = { { name = "t", run = function(_, of) return read(of) end } }
      local model = moonpad.models.scripted { support.calls { "t" }, "done" }
      local result = testing.run { messages = "go", agent = moonpad.agent { name = "A", model = model, tools = tools } }
      local answer = result.events[2]:functionResponses()[1].response.error
      assert.matches("t: cannot be answered to the model: ", answer, nil, true)
      assert.matches(says, answer, nil, true)
    end)
  end
end)
