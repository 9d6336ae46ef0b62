-- Events (contract 3).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

local function content(...)
  return { role = "model", parts = { ... } }
end

local text, thought = { text = "Hello" }, { text = "Hm.", thought = true }
local call = { functionCall = { id = "1", name = "add", args = { a = 1 } } }
local response = { functionResponse = { id = "1", name = "add", response = { result = 2 } } }
local image = { inlineData = { mimeType = "image/png", data = "iVBORw0=" } }
local code = { executableCode = { language = "LUA", code = "return 1" } }
local result = { codeExecutionResult = { outcome = "OUTCOME_OK", output = "1" } }

describe("an event as JSON", function()
  support.each_store(function(open)
    it("says a removal as null and in removedStateKeys, and can be read back", function()
      local service = open()
      local session = checks.create(service, "s", { b = 1, k = 1, ["user:k"] = 1, other = 1 })
      session.state["user:k"], session.state.k, session.state.b, session.state.other = nil, nil, nil, moonpad.null
      local stored = service:updateSession(session)
      for _, event in ipairs { stored, session.events[1], checks.get(service).events[1] } do
        local json = moonpad.json.encode(event)
        assert.matches('"stateDelta":{"b":null,"k":null,"other":null,"user:k":null}', json, 1, true)
        assert.matches('"removedStateKeys":["b","k","user:k"]', json, 1, true)
        assert.matches('"revision":1', json, 1, true)
        local again = moonpad.event(moonpad.json.decode(json))
        assert.are.equal(moonpad.removed, again.actions.stateDelta.k)
        assert.are.equal(moonpad.null, again.actions.stateDelta.other)
        assert.are.equal(stored.id, again.id)
      end
    end)
  end)

  it("says every removal, whatever stands beside it", function()
    local delta, keys = {}, {}
    for index = 1, 20 do
      local key = ("k%02d"):format(index)
      delta[key], keys[index] = moonpad.removed, key
      delta["list" .. index], delta["table" .. index] = { index, { x = 1 } }, { a = { b = index }, c = {} }
    end
    local encoded = moonpad.json.decode(moonpad.json.encode(moonpad.event { actions = { stateDelta = delta } }))
    assert.are.same(keys, encoded.removedStateKeys)
    assert.are.equal(moonpad.null, encoded.actions.stateDelta.k07)
    local service <close> = moonpad.open "memory:"
    local session = service:createSession { appName = "app", userId = "u", state = { k01 = 1, k20 = 1 } }
    service:appendEvent(session, { author = "a", actions = { stateDelta = delta } })
    assert.is_nil(session.state.k01)
    assert.is_false(session.state:has "k20")
  end)

  it("of one that is not stored has no revision", function()
    local json = moonpad.json.encode(moonpad.event { actions = { stateDelta = { k = moonpad.removed } } })
    assert.are.equal('{"actions":{"stateDelta":{"k":null}},"removedStateKeys":["k"]}', json)
  end)

  it("names what cannot be encoded", function()
    local event = moonpad.event {}
    event.customMetadata = { f = print }
    raises("invalid_argument", "value.customMetadata.f: a function cannot be encoded", moonpad.json.encode, event)
    event.customMetadata = { k = moonpad.removed }
    raises("invalid_argument", "value.customMetadata.k: moonpad.removed has a meaning only", moonpad.json.encode, event)
  end)
end)

describe("an event's methods", function()
  -- What, the event's fields, is it final?
  local final = {
    { "text", { content = content(text) }, true },
    { "a thought and text", { content = content(thought, text) }, true },
    { "an image", { content = content(image) }, true },
    { "empty text", { content = content { text = "" } }, true },
    { "no content", {}, false },
    { "content without parts", { content = { role = "model" } }, false },
    { "an empty list of parts", { content = content() }, false },
    { "a state change alone", { actions = { stateDelta = { k = 1 } } }, false },
    { "a function call", { content = content(text, call) }, false },
    { "a function response", { content = content(response) }, false },
    { "a partial text", { content = content(text), partial = true }, false },
    { "a text that is not partial", { content = content(text), partial = false }, true },
    { "code to run", { content = content(text, code) }, true },
    { "a code execution result at the end", { content = content(code, result) }, false },
    { "a code execution result and text after it", { content = content(code, result, text) }, true },
    { "a response with skipSummarization", { content = content(response), actions = { skipSummarization = true } },
      true },
    { "skipSummarization = false", { content = content(response), actions = { skipSummarization = false } }, false },
    { "skipSummarization alone", { actions = { skipSummarization = true } }, true },
    { "a long-running call", { content = content(call), longRunningToolIds = { "1" } }, true },
    { "no long-running call", { content = content(call), longRunningToolIds = moonpad.array {} }, false },
  }

  for _, row in ipairs(final) do
    it(("isFinalResponse: %s is%s"):format(row[1], row[3] and "" or " not"), function()
      assert.are.equal(row[3], moonpad.event(row[2]):isFinalResponse())
    end)
  end

  it("text: joins the texts that are no thoughts", function()
    assert.are.equal("Hello, world", moonpad.event({ content = content(thought, text, call,
      { text = ", world" }) }):text())
    assert.are.equal("", moonpad.event({ content = content(thought) }):text())
    assert.are.equal("", moonpad.event({}):text())
    assert.are.equal("a\0b🌙", moonpad.event({ content = content { text = "a\0b🌙" } }):text())
  end)

  it("the methods say so when they are called with a dot", function()
    local event = moonpad.event { content = content(text) }
    for _, method in ipairs { "text", "functionCalls", "functionResponses", "isFinalResponse" } do
      for _, self in ipairs { false, "x" } do
        local ok, err = pcall(event[method], self or nil)
        assert.is_false(ok)
        assert.are.same({ "invalid_argument", ("event:%s(): call it with a colon, not with a dot"):format(method) },
          { err.code, err.message })
      end
    end
  end)

  it("the methods pass over parts that are none, and over nulls", function()
    local event = moonpad.event { content = content {
      text = "a", functionCall = moonpad.null, functionResponse = moonpad.null, thought = moonpad.null,
    } }
    table.move({ 5, "x" }, 1, 2, 2, event.content.parts)
    assert.are.same({ "a", 0, 0, true },
      { event:text(), #event:functionCalls(), #event:functionResponses(), event:isFinalResponse() })
  end)

  it("functionCalls and functionResponses: what is in the parts, in order", function()
    local other = { functionCall = { id = "2", name = "sub", args = {} } }
    local event = moonpad.event { content = content(text, call, other, response) }
    assert.are.same({ call.functionCall, other.functionCall }, event:functionCalls())
    assert.are.same({ response.functionResponse }, event:functionResponses())
    assert.are.same({}, moonpad.event({}):functionCalls())
    assert.are.same({}, moonpad.event({}):functionResponses())
  end)

  it("moonpad.event copies what it is given", function()
    local given = { author = "me", content = content { text = "Hello" } }
    local event = moonpad.event(given)
    event.content.parts[1].text = "changed"
    assert.are.equal("Hello", given.content.parts[1].text)
    assert.is_nil(getmetatable(given))
    assert.are.equal("table", type(event))
  end)

  it("moonpad.event wants a table", function()
    raises("invalid_argument", nil, moonpad.event)
    raises("invalid_argument", nil, moonpad.event, "Hello")
  end)
end)

describe("an event", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open()
      session = checks.create(service)
    end)

    it("comes back as it was, with every field and part", function()
      local given = {
        id = "e", invocationId = "i", author = "agent", timestamp = 12.5,
        content = content({ text = "a\0b🌙" }, thought, call, response, image, code, result, { myPart = { 1, 2.0 } }),
        actions = {
          stateDelta = { k = { 1, 2.0, moonpad.array {}, {} }, gone = moonpad.removed, null = moonpad.null,
            ["user:k"] = 1 },
          artifactDelta = { ["plan.txt"] = 3 }, transferToAgent = "other", escalate = true, skipSummarization = false,
        },
        partial = false, turnComplete = true, interrupted = false, errorCode = "MODEL", errorMessage = "It broke.",
          branch = "root.child",
        longRunningToolIds = { "1" }, usageMetadata = { totalTokenCount = 9007199254740993, rate = 1.0 },
          customMetadata = { mine = { true } },
        something = "new",
      }
      local function plain(event)
        local copy = moonpad.toTable(event)
        copy.revision = nil
        return copy
      end
      checks.identical(given, plain(service:appendEvent(session, given)))
      checks.identical(given, plain(session.events[1]))
      checks.identical(given, plain(checks.get(service).events[1]))
    end)

    it("has its methods wherever it is handed out", function()
      local returned = checks.append(service, session, nil, { content = content(text, call) })
      local again = checks.get(service)
      local iterated = {}
      for _, event in ipairs(again.events) do iterated[#iterated + 1] = event end
      for _, event in pairs(again.events) do iterated[#iterated + 1] = event end
      for _, event in ipairs { returned, session.events[1], again.events[1], iterated[1], iterated[2],
        moonpad.event(returned) } do
        assert.are.equal("Hello", event:text())
        assert.are.equal("add", event:functionCalls()[1].name)
        assert.are.same({}, event:functionResponses())
        assert.is_false(event:isFinalResponse())
      end
    end)

    it("is a table all the way down", function()
      checks.append(service, session, { k = { 1 } }, { content = content(call) })
      local function walk(value)
        assert.are_not.equal("userdata", value ~= moonpad.null and type(value) or "")
        if type(value) ~= "table" then return end
        for _, inner in next, value do walk(inner) end
      end
      walk(session.events[1])
      walk(checks.get(service).events[1])
    end)

    it("is a copy each time it is read", function()
      checks.append(service, session, { k = { 1 } }, { content = content { text = "Hello" } })
      local first = session.events[1]
      first.content.parts[1].text = "changed"
      first.actions.stateDelta.k[1] = 2
      first.author = nil
      local second = session.events[1]
      assert.are.equal("Hello", second:text())
      assert.are.equal(1, second.actions.stateDelta.k[1])
      assert.are.equal("agent", second.author)
    end)

    it("is not changed by later events or writes", function()
      checks.append(service, session, { k = { 1 } })
      session.state.k[1] = 2
      service:updateSession(session)
      assert.are.equal(1, session.events[1].actions.stateDelta.k[1])
      assert.are.equal(2, session.events[2].actions.stateDelta.k[1])
    end)

    it("made by moonpad.event can be appended", function()
      local event = moonpad.event { author = "agent", content = content(text), actions = { stateDelta = { k = 1 } } }
      local stored = service:appendEvent(session, event)
      assert.is_nil(event.id)
      assert.is_string(stored.id)
      assert.are.equal(1, session.state.k)
    end)

    it("keeps what looks like a mark of moonpad's", function()
      checks.append(service, session, { removed = "removed", removedStateKeys = { "k" } },
        { customMetadata = { removed = { "k" } } })
      local event = checks.get(service).events[1]
      assert.are.same({ removed = "removed", removedStateKeys = { "k" } }, event.actions.stateDelta)
      assert.are.same({ removed = { "k" } }, event.customMetadata)
    end)

    it("may delete keys with odd names", function()
      local keys = { "", "a.b", "\"quoted\"", "a\0b", "🌙", "app:x", "user:", "removedStateKeys", "\\" }
      local delta, removal = {}, {}
      for index, key in ipairs(keys) do delta[key], removal[key] = index, moonpad.removed end
      checks.append(service, session, delta)
      assert.are.equal(#keys, #checks.keys(checks.get(service).state:getAll()))
      checks.append(service, session, removal)
      assert.are.same({}, checks.get(service).state:getAll())
      assert.are.same(removal, checks.get(service).events[2].actions.stateDelta)
    end)
  end)

  it("is stored as JSON in which a deletion is null plus the key in removedStateKeys", function()
    finally(support.cleanup)
    local path = support.tmpdir() .. "/test.db"
    local service <close> = moonpad.open("sqlite:" .. path)
    local session = checks.create(service, "s", { gone = 1 })
    checks.append(service, session, { gone = moonpad.removed, null = moonpad.null })
    local pipe <close> = assert(io.popen("sqlite3 " .. support.quote(path) .. " .dump"))
    local dump = pipe:read "a"
    assert.is_truthy(dump:find('"gone":null', 1, true))
    assert.is_truthy(dump:find('"null":null', 1, true))
    assert.is_truthy(dump:find('"removedStateKeys":["gone"]', 1, true))
  end)
end)
