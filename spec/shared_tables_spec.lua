-- Tables that hold the same tables again and again: a few of them are a text without end. What
-- takes a value stops at its limit, long before.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local turns = require "spec.support.turns"

local raises = checks.raises

-- 2 to the power of `levels` tables, in `levels` tables.
local function shared(levels)
  local value = { "x" }
  for _ = 1, levels do value = { value, value } end
  return value
end

local function named(levels)
  local value = { x = "x" }
  for _ = 1, levels do value = { a = value, b = value } end
  return value
end

-- Forms of what has no end.
local ENDLESS <const> = {
  ["lists"] = function() return shared(60) end,
  ["tables"] = function() return named(60) end,
  ["a long text, again and again"] = function()
    local text, list = ("x"):rep(100000), {}
    for index = 1, checks.scaled(100000) do list[index] = text end
    return list
  end,
  ["a state, again and again"] = function()
    local state, list = moonpad.state { text = ("x"):rep(100000) }, {}
    for index = 1, checks.scaled(100000) do list[index] = state end
    return list
  end,
  ["a node, again and again"] = function()
    local node, list = moonpad.state { k = { ("x"):rep(100000) } }.k, {}
    for index = 1, checks.scaled(100000) do list["k" .. index] = node end
    return list
  end,
}

support.any_store(function(open)
  for what, endless in pairs(ENDLESS) do
    describe("without end: " .. what, function()
      local service, session
      before_each(function()
        service = open { maxValueBytes = 100000, maxEventBytes = 200000 }
        session = checks.create(service, "s", { old = 1, list = {} })
      end)

      local function expectNothing()
        assert.are.same({ old = 1, list = {} }, checks.get(service).state:getAll())
        assert.are.equal(0, checks.get(service).revision)
        assert.is_false(session.state:hasDelta())
        assert.are.same({}, service:getAppState { appName = "app" })
      end

      it("is refused by the limit of a value", function()
        local value, state = endless(), session.state
        for _, write in ipairs {
          function() state.k = value end,
          function() state:set("k", value) end,
          function() state:update { a = 1, k = { value } } end,
          function() state:setDefault("k", value) end,
          function() state:append("k", value) end,
          function() checks.create(service, "other", { a = 1, k = value }) end,
          function() service:updateAppState { appName = "app", state = { a = 1, k = value } } end,
          function() service:updateUserState { appName = "app", userId = "u", state = { k = value } } end,
        } do
          raises("limit", { 'state["k"]', "100000", "maxValueBytes" }, write)
          expectNothing()
        end
        raises("limit", { 'state["list"]', "maxValueBytes" }, function() state.list[1] = value end)
        raises("limit", { 'state["list"]', "maxValueBytes" }, function() state.list.x = value end)
        raises("limit", { 'state["list"]', "maxValueBytes" }, function() table.insert(state.list, value) end)
        expectNothing()
        assert.is_nil(checks.get(service, "other"))
        state.k = { "as before" }
        service:updateSession(session)
        assert.are.same({ "as before" }, moonpad.toTable(checks.get(service).state.k))
      end)

      it("is refused by the limit of an event", function()
        local value = endless()
        for _, event in ipairs {
          { customMetadata = { k = value } },
          { content = { parts = { { functionResponse = { name = "f", response = { value } } } } } },
          { actions = { stateDelta = { k = value } } },
          { actions = { stateDelta = { ["temp:k"] = value } } },
        } do
          event.author = "a"
          raises("limit", { "event", "200000", "maxEventBytes" }, service.appendEvent, service, session, event)
          raises("limit", { "event", "200000", "maxEventBytes" }, service.updateSession, service, session, event)
          expectNothing()
        end
      end)
    end)
  end
end)

-- Four tests copy in Lua until the limit of a copy is reached: they take turns.
local function isDue(index)
  return turns.isSampleDue(index, 4)
end

describe("tables without end", function()
  -- A run of an agent whose model calls the tool `t` once, where it is given no other.
  local function run(definition, plugins)
    local service <close> = moonpad.open("memory:", { maxEventBytes = 200000 })
    definition.name = "A"
    definition.model = definition.model or moonpad.models.scripted { support.calls { "t", {}, "1" }, "done" }
    if definition.run then
      definition.tools = { moonpad.tool { name = "t", description = "d", run = definition.run } }
      definition.run = nil
    end
    local runner = moonpad.runner { appName = "app", agent = moonpad.agent(definition), sessionService = service,
      plugins = plugins }
    local events, err = {}, nil
    local ok, problem = pcall(function()
      for event in runner:run { userId = "u", sessionId = "s", newMessage = "go" } do events[#events + 1] = event end
    end)
    if not ok then err = problem end
    assert.are.equal("ok", support.run(moonpad.runner { appName = "app", sessionService = service,
      agent = moonpad.agent { name = "B", model = function() return "ok" end } })[1]:text())
    return events, err
  end

  it("as a tool's result are the error of that tool", function()
    for _, value in ipairs { shared(60), named(60), { again = shared(60) } } do
      local events, err = run { run = function() return value end }
      assert.is_nil(err)
      assert.matches("maxEventBytes", events[2]:functionResponses()[1].response.error)
      assert.are.equal("done", events[3]:text())
    end
  end)

  it("as what a tool raises are told shortly", function()
    local events, err = run { run = function() error(named(60), 0) end }
    assert.is_nil(err)
    assert.is_true(#events[2]:functionResponses()[1].response.error < 200000)
    assert.are.equal("done", events[3]:text())
  end)

  turns.rarely("as a tool's action or state are the error of that tool", function()
    for _, write in ipairs {
      function(context) context.state.k = shared(60) end,
      function(context) context.actions.mine = shared(60) end,
      function(context)
        context.actions.mine = {}
        context.actions.mine.more = named(60)
      end,
    } do
      local events, err = run { run = function(_, context) write(context) end }
      assert.is_nil(err)
      assert.is_string(events[2]:functionResponses()[1].response.error)
      assert.are.equal("done", events[3]:text())
    end
  end)

  turns.it("as a model's answer end the run", isDue(1), function()
    for _, answer in ipairs {
      { content = { parts = { { functionCall = { name = "t", args = shared(60) } } } } },
      { content = { parts = { { text = "x" } } }, partial = true, customMetadata = { shared(60) } },
    } do
      local _, err = run { model = function() return answer end }
      assert(err, "the run went on")
      assert(err.code == "limit" or err.code == "invalid_argument" or err.code == "model", tostring(err))
    end
  end)

  turns.it("that callbacks and plugins answer end the run", isDue(2), function()
    local response = { content = { parts = { { text = "x" } } }, customMetadata = named(60) }
    for _, definition in ipairs {
      { beforeModelCallback = function() return response end },
      { beforeAgentCallback = function() return { parts = { { text = "x", more = shared(60) } } } end },
      { beforeToolCallback = function() return shared(60) end },
      { afterToolCallback = function() return named(60) end },
    } do
      local what = next(definition)
      definition.run = function() return "fine" end
      local events, err = run(definition)
      assert(err ~= nil or tostring(events[2]:functionResponses()[1].response.error):find "maxEventBytes", what)
    end
    local _, err = run({ model = function() return "hi" end },
      { { name = "p", onEvent = function() return { customMetadata = shared(60) } end } })
    assert(err, "onEvent")
    _, err = run({ model = function() return "hi" end }, { { name = "p", onEvent = function()
      return { actions = { stateDelta = { k = shared(60) } } }
    end } })
    assert(err, "onEvent with state")
  end)
end)

describe("tables without end", function()
  turns.it("are not copied", isDue(3), function()
    raises("invalid_argument", { "toTable", "1000000 tables" }, moonpad.toTable, shared(60))
    raises("invalid_argument", "1000000 tables", require "moonpad.util.copy", shared(60))
    raises("invalid_argument", "event: more than 1000000 tables", moonpad.event, {
      author = "a", customMetadata = { k = shared(20) },
    })
    local nodes, node = {}, moonpad.state { k = { ("x"):rep(1000000) } }.k
    for index = 1, 10000 do nodes[index] = node end
    raises("invalid_argument", { "toTable", "1000000 tables" }, moonpad.toTable, nodes)
  end)

  turns.it("are no schema", isDue(4), function()
    local definition = { type = "object" }
    for _ = 1, 60 do definition = { type = "object", properties = { a = definition, b = definition } } end
    raises("invalid_argument", "schemas", moonpad.tool, { name = "t", description = "d", parameters = definition,
      run = function() end })
  end)

  it("are copied and encoded while they are few", function()
    local value = { shared(3), named(2) }
    local copy = moonpad.toTable(value)
    assert.are.same(value, copy)
    assert.are_not.equal(copy[1][1], copy[1][2])
    assert.are.same(value, moonpad.json.decode(moonpad.json.encode(value)))
  end)

  turns.rarely("take at most 256 MiB as JSON where no service has a limit", function()
    local text, list = ("x"):rep(1000000), {}
    for index = 1, 300 do list[index] = text end
    raises("invalid_argument", { "value: ", "256 MiB" }, moonpad.json.encode, list)
    raises("invalid_argument", { "event: ", "256 MiB" }, moonpad.event, { author = "a", customMetadata = list })
    raises("invalid_argument", { 'state["k"]: ', "256 MiB" }, function() moonpad.state().k = list end)
    assert.are.equal(250 * 1000003 + 1, #moonpad.json.encode(table.move(list, 1, 250, 1, {})))
  end)

  -- In a process of its own, which may take so many KiB.
  local function within(kilobytes, program)
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "w"))
    file:write(("package.path, package.cpath = %q, %q\n"):format(package.path, package.cpath), [[
      local moonpad = require "moonpad"
      local function shared(levels)
        local value = { "x" }
        for _ = 1, levels do value = { value, value } end
        return value
      end
      local function try(call, ...)
        local ok, err = pcall(call, ...)
        if ok then return print "no error" end
        print(err.code, err.message)
      end
    ]], program)
    file:close()
    local limit, errors = ("ulimit -v %d;"):format(kilobytes), "2>&1"
    -- AddressSanitizer itself takes more than any limit, and tells of what it refuses
    if os.getenv "ASAN_OPTIONS" then
      limit = ('ASAN_OPTIONS="$ASAN_OPTIONS:allocator_may_return_null=1:max_allocation_size_mb=%d"'):format(
        kilobytes // 1000)
      errors = "2>/dev/null"
    end
    local pipe <close> = assert(io.popen(("%s lua5.4 %s %s; rm %s"):format(limit, path, errors, path)))
    return pipe:read "a"
  end

  turns.rarely("cost a few times the limit while they are refused #native", function()
    assert.are.equal('limit\tstate["k"]: more than 16777216 bytes, and maxValueBytes is 16777216\n', within(200000, [[
      local service = moonpad.open "memory:"
      local session = service:createSession { appName = "app", userId = "u" }
      try(function() session.state.k = shared(60) end)
    ]]))
    assert.are.equal("limit\tevent: more than 1000000 bytes, and maxEventBytes is 1000000\n", within(100000, [[
      local service = moonpad.open("memory:", { maxEventBytes = 1000000 })
      local session = service:createSession { appName = "app", userId = "u" }
      try(service.appendEvent, service, session, { author = "a", customMetadata = { k = shared(60) } })
    ]]))
  end)

  turns.rarely("end with no_memory where there is no limit, and all works as before #native", function()
    local output = within(50000, [[
      local service = moonpad.open("memory:", { maxValueBytes = 0, maxEventBytes = 0, maxStateBytes = 0 })
      local session = service:createSession { appName = "app", userId = "u" }
      local state = moonpad.state {}
      try(moonpad.json.encode, { k = shared(60) })
      try(function() session.state.k = shared(60) end)
      try(function() state.k = shared(60) end)
      try(service.appendEvent, service, session, { author = "a", customMetadata = { k = shared(60) } })
      try(moonpad.event, { author = "a", customMetadata = { k = shared(60) } })
      session.state.k = { 1 }
      print(moonpad.json.encode { service:updateSession(session).revision, session.state.k })
    ]])
    local first = ("no_memory\tout of memory\n"):rep(5)
    assert.are.equal(first .. "[1,[1]]\n", output)
  end)
end)
