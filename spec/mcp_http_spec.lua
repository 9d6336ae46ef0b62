-- moonpad.mcp with an address: servers on loopback that answer what they are told to.
local checks = require "spec.support.checks"
local headerValues = require "moonpad.mcp.header_values"
local moonpad = require "moonpad"
local servers = require "spec.support.mcp"
local support = require "spec.support"
local web = require "spec.support.http"

local call, failure, late, toolsOf = servers.call, servers.failure, servers.late, servers.toolsOf

local json = moonpad.json

-- What toolsets of other tests still have to say goes to paths of their own.
local server, path
local tests = 0
setup(function() server = web.start() end)
teardown(function() server:stop() end)
before_each(function()
  tests = tests + 1
  path = "/mcp" .. tests
end)
after_each(function()
  servers.closeAll()
  support.cleanup()
end)

---- What servers answer

local function result(id, value, more)
  return web.json({ jsonrpc = "2.0", id = id, result = value }, more)
end

local function problem(id, code, message, more)
  return web.json({ jsonrpc = "2.0", id = id, error = { code = code, message = message } }, more)
end

local function tools(...)
  local list = {}
  for index, name in ipairs { ... } do
    list[index] = type(name) == "table" and name or { name = name, inputSchema = { type = "object" } }
  end
  return { tools = list }
end

local function text(value)
  return { content = { { type = "text", text = value } } }
end

local CAPABILITIES = { tools = {}, prompts = {}, resources = {} }
local ACCEPTED = { status = 202 }

local function discovery(id)
  return result(id, { supportedVersions = { "2026-07-28" }, capabilities = CAPABILITIES, resultType = "complete" })
end

local function handshake(id, session)
  local reply = result(id, { protocolVersion = "2025-11-25", capabilities = CAPABILITIES })
  reply.headers["Mcp-Session-Id"] = session
  return reply
end

-- A server that gives these replies in order.
local function answers(...)
  server:script { [path] = { ... } }
end

-- One of today, or of old with a session, that is greeted before.
local function modern(...)
  answers(discovery(1), ...)
end

local function legacy(...)
  answers(problem(nil, -32000, "Bad Request", { status = 400 }), handshake(2, "s-1"), ACCEPTED, ...)
end

local function open(more)
  local options = { url = server.url .. path }
  for name, value in pairs(more or {}) do options[name] = value end
  return servers.open(options)
end

-- The server's name in messages.
local function name()
  return ('MCP server "%s": '):format(server.url)
end

local function requests()
  local list = {}
  for _, request in ipairs(server:requests()) do
    if request.path == path then list[#list + 1] = request end
  end
  return list
end

local function sent(number)
  return json.decode(requests()[number].body)
end

-- What was asked for, by what it is about.
local function asked()
  local list = {}
  for index, request in ipairs(requests()) do
    list[index] = request.body ~= "" and json.decode(request.body).method or request.method
  end
  return list
end

---- Specs

describe("a server of today behind an address", function()
  it("is told with each request who asks, and for what", function()
    modern(result(2, tools "look"), result(3, text "seen"))
    assert.same({ result = "seen" }, (call(open(), "look", { at = "it" })))
    local all = requests()
    assert.same({ "server/discover", "tools/list", "tools/call" }, asked())
    for index, request in ipairs(all) do
      local body, meta = sent(index), sent(index).params._meta
      assert.same({ "POST", "2.0", index }, { request.method, body.jsonrpc, body.id })
      assert.equal("2026-07-28", meta["io.modelcontextprotocol/protocolVersion"])
      assert.equal("moonpad", meta["io.modelcontextprotocol/clientInfo"].name)
      assert.same({}, meta["io.modelcontextprotocol/clientCapabilities"])
      assert.equal("2026-07-28", request.headers["mcp-protocol-version"])
      assert.equal(body.method, request.headers["mcp-method"])
      assert.equal("application/json, text/event-stream", request.headers.accept)
      assert.equal("application/json", request.headers["content-type"])
      assert.is_nil(request.headers["mcp-session-id"])
    end
    assert.same({ "look", nil }, { all[3].headers["mcp-name"], all[2].headers["mcp-name"] })
    assert.same({ at = "it" }, sent(3).params.arguments)
  end)

  it("gets arguments in headers where its schema says so", function()
    local schema = { type = "object", properties = {
      region = { type = "string", ["x-mcp-header"] = "Region" },
      inner = { type = "object", properties = { count = { type = "integer", ["x-mcp-header"] = "Count" } } },
      flag = { type = "boolean", ["x-mcp-header"] = "Flag" }, absent = { type = "string", ["x-mcp-header"] = "Absent" },
    } }
    modern(result(2, tools { name = "größe", inputSchema = schema }), result(3, text "seen"))
    call(open(), "gr__e", { region = " Süd", inner = { count = 42.0 }, flag = false })
    local headers = requests()[3].headers
    assert.equal("=?base64?IFPDvGQ=?=", headers["mcp-param-region"])
    assert.same({ "42", "false", nil },
      { headers["mcp-param-count"], headers["mcp-param-flag"], headers["mcp-param-absent"] })
    assert.equal("=?base64?Z3LDtsOfZQ==?=", headers["mcp-name"])
  end)

  it("may answer by a stream", function()
    local notification = json.encode { jsonrpc = "2.0", method = "notifications/progress", params = { progress = 1 } }
    modern(result(2, tools "look"),
      web.stream({ notification, json.encode { jsonrpc = "2.0", id = 3, result = text "seen" } }, { split = 7 }))
    assert.same({ result = "seen" }, (call(open(), "look")))
  end)

  it("refuses in words of its own", function()
    modern(result(2, tools "look"), problem(3, -32020, "Header mismatch", { status = 400 }))
    local err = failure(call, open(), "look")
    assert.same({ "tool", name() .. "Header mismatch (error -32020)" }, { err.code, err.message })
  end)

  it("that speaks no version that is known is refused", function()
    answers(result(1, { supportedVersions = { "2030-01-01" }, capabilities = {} }))
    assert.matches("speaks none of the versions of MCP that moonpad knows .* but 2030%-01%-01",
      failure(toolsOf, open()).message)
    answers(web.json({ jsonrpc = "2.0", id = 1, error = {
      code = -32022, message = "Unsupported protocol version", data = { supported = { "2030-01-01" } },
    } }, { status = 400 }))
    assert.matches("but 2030%-01%-01", failure(toolsOf, open()).message)
    assert.same({ "server/discover" }, asked())
  end)

  it("that knows the handshake only is greeted by it", function()
    answers(web.json({ jsonrpc = "2.0", id = 1, error = {
      code = -32022, message = "Unsupported", data = { supported = { "2025-11-25" } },
    } }, { status = 400 }), handshake(2), ACCEPTED, result(3, tools "look"))
    assert.is_truthy(toolsOf(open()).look)
  end)

  it("is believed as long as it says", function()
    local list = tools "look"
    list.ttlMs = 3600000
    modern(result(2, list))
    local set = open()
    set:tools()
    set:tools()
    assert.equal(2, #requests())
  end)

  it("sees that nobody waits any more", function()
    local message = late(function(timeoutMs)
      modern(result(2, tools "look"), { hang = true })
      return open { timeoutMs = timeoutMs }
    end, "look", "tools/call")
    assert.equal(name() .. "did not answer tools/call within its time", message)
    support.waitUntil("the end of the connection", function() return requests()[3].closed end)
    assert.equal(3, #requests())
  end)
end)

describe("a server of old behind an address", function()
  it("is greeted, and keeps a session until the toolset is closed", function()
    legacy(result(3, tools "look"), result(4, text "seen"), {})
    local set = open()
    assert.same({ result = "seen" }, (call(set, "look")))
    set:close()
    support.waitUntil("the farewell", function() return #requests() == 6 end)
    assert.same({ "server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call", "DELETE" },
      asked())
    local all = requests()
    assert.same({ nil, nil }, { all[2].headers["mcp-session-id"], all[2].headers["mcp-protocol-version"] })
    assert.equal("2025-11-25", sent(2).params.protocolVersion)
    assert.is_nil(sent(2).params._meta)
    for index = 3, 6 do
      assert.equal("s-1", all[index].headers["mcp-session-id"])
      assert.equal("2025-11-25", all[index].headers["mcp-protocol-version"])
      assert.is_nil(all[index].headers["mcp-method"])
    end
    assert.is_nil(sent(4).params._meta)
  end)

  it("may answer by streams that begin with an empty event", function()
    local function stream(id, value)
      return "id: 1\r\nretry: 10\r\ndata:\r\n\r\n: a comment\r\n\r\nevent: message\r\nid: 2\r\ndata: "
        .. json.encode { jsonrpc = "2.0", id = id, result = value } .. "\r\n\r\n"
    end
    legacy(web.stream(stream(3, tools "look"), { split = 1 }), web.stream(stream(4, text "seen")))
    assert.same({ result = "seen" }, (call(open(), "look")))
  end)

  it("may ask things back, which we have not", function()
    local question = json.encode { jsonrpc = "2.0", id = "q", method = "roots/list" }
    legacy(result(3, tools "look"),
      web.stream({ question, json.encode { jsonrpc = "2.0", id = 4, result = text "seen" } }), ACCEPTED)
    call(open(), "look")
    support.waitUntil("the answer", function() return #requests() == 6 end)
    assert.same({ jsonrpc = "2.0", id = "q", error = { code = -32601, message = "Method not found" } }, sent(6))
  end)

  it("is not asked a call again when it has forgotten the session; the next request begins a new one", function()
    legacy(result(3, tools "look"), { status = 404, body = "Session not found" },
      handshake(5, "s-2"), ACCEPTED, result(6, tools "look"), result(7, text "seen"))
    local set = open()
    local err = failure(call, set, "look")
    assert.equal(name()
      .. "it has forgotten the session (HTTP 404); a new one begins with the next request", err.message)
    assert.same({ result = "seen" }, (call(set, "look")))
    assert.same({ "server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call",
      "initialize", "notifications/initialized", "tools/list", "tools/call" }, asked())
    assert.same({ nil, "s-2" },
      { requests()[6].headers["mcp-session-id"], requests()[9].headers["mcp-session-id"] })
  end)

  it("that was started anew is asked for its lists in a new session", function()
    legacy(result(3, tools "look"), { status = 404 }, handshake(5, "s-2"), ACCEPTED, result(6, tools("look", "see")),
      { status = 404 }, handshake(8, "s-3"), ACCEPTED, { status = 404 })
    local set = open()
    assert.equal(1, #set:tools())
    assert.is_truthy(toolsOf(set).look)
    assert.equal("s-2", requests()[8].headers["mcp-session-id"])
    assert.matches("it has forgotten the session", failure(set.tools, set).message)
  end)

  it("is told that nobody waits any more", function()
    local message = late(function(timeoutMs)
      legacy(result(3, tools "look"), { hang = true }, ACCEPTED)
      return open { timeoutMs = timeoutMs }
    end, "look", "tools/call")
    assert.equal(name() .. "did not answer tools/call within its time", message)
    support.waitUntil("the notification", function() return #requests() == 6 end)
    assert.same({ "notifications/cancelled", 4 }, { sent(6).method, sent(6).params.requestId })
  end)
end)

describe("a server behind an address", function()
  -- What becomes of a call that is answered so, and how often the server is asked.
  local function outcome(reply)
    modern(result(2, tools "look"), reply, result(4, text "too late"))
    local err = failure(call, open(), "look")
    return err.message:sub(#name() + 1), #requests() - 2
  end

  it("is not asked the same call twice, whatever comes", function()
    local page = "<html><head><title>502</title></head><body>Bad\n<b>Gateway</b></body></html>"
    for _, case in ipairs {
      { { status = 502, body = page }, "HTTP 502: 502 Bad Gateway" },
      { { status = 503, body = ("x"):rep(1000) }, "HTTP 503: " .. ("x"):rep(300) .. "..." },
      { { status = 429, headers = { ["Retry-After"] = "0" } }, "HTTP 429: " },
      { { raw = "" }, "its answer broke off: " },
      { { raw = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{" },
        "its answer broke off: " },
      { web.stream({}), "its answer ended without a result" },
      { web.stream { "{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}" }, "its answer ended without a result" },
      { web.stream "data: {\"jsonrpc\":", "its answer ended without a result" },
      { { headers = { ["Content-Type"] = "text/html" }, body = "<p>Please log in</p>" },
        "answered with what is no message: Please log in" },
      { web.json "[]", "answered with what is no message: []" }, { ACCEPTED, "answered with what is no message: " },
    } do
      local message, count = outcome(case[1])
      assert.same({ case[2], 1 }, { message:sub(1, #case[2]), count })
    end
  end)

  it("is asked again for what has no effect", function()
    modern({ status = 503 }, { status = 500 }, result(2, tools "look"))
    assert.is_truthy(toolsOf(open()).look)
    assert.same({ "server/discover", "tools/list", "tools/list", "tools/list" }, asked())
  end)

  it("that lets nobody in, or is not there, ends the run with an error that tells why", function()
    local agent = moonpad.agent { name = "A", model = moonpad.models.scripted { "done" }, tools = { open() } }
    local runner = moonpad.runner { appName = "app", agent = agent, sessionService = moonpad.open "memory:" }
    answers({ status = 401, body = "who are you?" })
    local err = failure(support.run, runner, "go")
    assert.same({ "tool", name() .. "refuses access: HTTP 401: who are you?" }, { err.code, err.message })
    assert.same({ "server/discover" }, asked())
    answers({ status = 404, body = "no such page" })
    assert.equal(name() .. "refuses the handshake: HTTP 404: no such page", failure(support.run, runner, "go").message)
    local nowhere = servers.open { url = "http://127.0.0.1:1/mcp?key=secret" }
    assert.matches('^MCP server "http://127.0.0.1:1": cannot be reached: ', failure(nowhere.tools, nowhere).message)
  end)

  it("is given the headers that a function has, for each request", function()
    local count = 0
    modern(result(2, tools "look"), result(3, text "seen"))
    call(open { headers = function()
      count = count + 1
      return { Authorization = "Bearer " .. count, Accept = "nothing" }
    end }, "look")
    local seen = {}
    for index, request in ipairs(requests()) do seen[index] = request.headers.authorization end
    assert.same({ "Bearer 1", "Bearer 2", "Bearer 3" }, seen)
    assert.equal("application/json, text/event-stream", requests()[1].headers.accept)
  end)

  it("waits for a function that waits", function()
    modern(result(2, tools "look"), result(3, text "seen"))
    local ready = false
    local set = open { headers = function()
      while not ready do coroutine.yield() end
      return { ["X-Key"] = "k" }
    end }
    local model = moonpad.models.scripted { support.calls { "look", {} }, "done" }
    local agent = moonpad.agent { name = "A", model = model, tools = { set } }
    local runner = moonpad.runner { appName = "app", agent = agent, sessionService = moonpad.open "memory:" }
    local invocation <close> = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
    for _ = 1, 3 do assert.equal("waiting", invocation:step()) end
    ready = true
    support.step(invocation)
    assert.same({ result = "seen" }, support.step(invocation):functionResponses()[1].response)
  end)

  it("is asked nothing when its headers cannot be had", function()
    modern(result(2, tools "look"))
    for _, case in ipairs {
      { function() error("no token today", 0) end, name() .. "headers: no token today" },
      { function() error "no token today" end, name() .. "headers: no token today" },
      { function() error { message = "no token today" } end, name() .. "headers: no token today" },
      { function() error() end, name() .. "headers: it failed without an error value" },
      { function() error "sk-1234567890secret is no token" end, name() .. "headers: [redacted] is no token" },
      { function() return nil, "no token today" end, name() .. "headers: no token today" },
      { function() end, "moonpad.mcp.headers(): expected a table, got nil" },
      { function() return { A = 1 } end, "moonpad.mcp.headers().A: expected a string, got number" },
      { function() return { ["A B"] = "1" } end, "moonpad.mcp.headers(): A B is no name of a header" },
      { function() return { A = "secret\n" } end, "moonpad.mcp.headers().A: must not contain line ends" },
    } do
      local err = failure(toolsOf, open { headers = case[1] })
      assert.equal(case[2], err.message:sub(1, #case[2]))
      assert.equal(case[2]:find("MCP", 1, true) and "tool" or "invalid_argument", err.code)
      assert.is_nil(err.message:find "secret")
    end
    assert.equal(0, #requests())
  end)

  it("may not need itself for its headers", function()
    local set
    set = open { headers = function()
      set:tools()
      return {}
    end }
    assert.matches("its headers cannot ask the server that they are for", failure(toolsOf, set).message)
  end)

  it("is not let to tell what it was told", function()
    for _, headers in ipairs {
      { Authorization = "Bearer the-secret-key" }, function() return { Authorization = "Bearer the-secret-key" } end,
    } do
      modern(result(2, tools "look"), { status = 403, body = "the-secret-key is no key" },
        result(4, tools "look"), problem(5, -32000, "no the-secret-key"), result(6, tools "look"),
        result(7, { isError = true, content = { { type = "text", text = "bad the-secret-key" } } }))
      local set = open { headers = headers }
      assert.equal(name() .. "HTTP 403: [redacted] is no key", failure(call, set, "look").message)
      assert.equal(name() .. "no [redacted] (error -32000)", failure(call, set, "look").message)
      assert.equal("bad [redacted]", select(2, call(set, "look")))
    end
  end)

  it("is not let to tell what stands in its address, which is sent as it is", function()
    path = path .. "/path-secret/in%20two%20words?key=query-secret&n=1&whole%2Dsecret"
    local page = ("%s: in two words, path-secret, query-secret, whole-secret, n=1"):format(path)
    answers({ status = 401, body = page }, { status = 401, body = "no path-secret in /mcp" })
    local set = open()
    assert.equal(name() .. "refuses access: HTTP 401: [redacted]: [redacted], [redacted], [redacted], [redacted], n=1",
      failure(set.tools, set).message)
    assert.equal(1, #requests())
    assert.equal(name() .. "refuses access: HTTP 401: no [redacted] in /mcp", failure(set.tools, set).message)
  end)

  it("is asked side by side, and holds no frame", function()
    -- Which of the two requests comes first is open: whichever it is, each answer is there.
    local both = web.json(moonpad.array {
      { jsonrpc = "2.0", id = 3, result = text "one" }, { jsonrpc = "2.0", id = 4, result = text "two" },
    }, { held = true })
    modern(result(2, tools "look"), both, both)
    local model = moonpad.models.scripted { support.calls({ "look", {}, "c1" }, { "look", {}, "c2" }), "done" }
    local agent = moonpad.agent { name = "A", model = model, tools = { open() } }
    local runner = moonpad.runner { appName = "app", agent = agent, sessionService = moonpad.open "memory:" }
    local invocation <close> = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
    support.step(invocation)
    support.stepUntil(invocation, function() return #requests() == 4 end)
    server:release()
    local texts = {}
    for index, response in ipairs(support.step(invocation):functionResponses()) do
      texts[index] = response.response.result
    end
    assert.same({ "one", "two" }, texts)
  end)

  it("costs nothing that stays", function()
    modern(result(2, tools "look"))
    local set = open()
    local look = toolsOf(set).look
    local replies = {}
    for index = 1, 350 do replies[index] = result(2 + index, text "seen") end
    answers(table.unpack(replies))
    local function lookOnce() assert(look.run {}) end
    for _ = 1, 20 do lookOnce() end
    local grown = checks.growth(lookOnce, 100)
    assert.is_true(grown < 10, ("%.1f KB stay"):format(grown))
    assert.equal(0, moonpad.http.active())
  end)
end)

describe("the value of a header", function()
  it("is the text itself where that is plain, else in base64", function()
    for given, expected in pairs {
      ["us-west1"] = "us-west1", ["Hello, 世界"] = "=?base64?SGVsbG8sIOS4lueVjA==?=",
      [" padded "] = "=?base64?IHBhZGRlZCA=?=",
      ["line1\nline2"] = "=?base64?bGluZTEKbGluZTI=?=", ["=?base64?literal?="] = "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
      ["a\tb"] = "=?base64?YQli?=", [""] = "", ["in between"] = "in between",
    } do
      assert.equal(expected, headerValues.encode(given))
    end
  end)

  it("is taken of arguments by a schema that keeps the rules", function()
    local marked = { type = "string", ["x-mcp-header"] = "A" }
    local function of(properties, more)
      local schema = { type = "object", properties = properties }
      for key, value in pairs(more or {}) do schema[key] = value end
      return headerValues.ofSchema(schema)
    end
    assert.same({ { path = { "a" }, name = "mcp-param-a" } }, of { a = marked })
    -- A property of that name, and what is no schema, are no marks.
    assert.same({}, of { ["x-mcp-header"] = { type = "string" }, b = { const = { ["x-mcp-header"] = "A" } } })
    assert.same({}, (headerValues.ofSchema(nil)))
    for _, case in ipairs {
      { { a = { type = "number", ["x-mcp-header"] = "A" } }, nil, "A is not of type string, integer or boolean" },
      { { a = { type = "string", ["x-mcp-header"] = "" } }, nil, "is no name of a header" },
      { { a = { type = "string", ["x-mcp-header"] = "A B" } }, nil, "is no name of a header" },
      { { a = { type = "string", ["x-mcp-header"] = 1 } }, nil, "is no name of a header" },
      { { a = marked, b = { type = "string", ["x-mcp-header"] = "a" } }, nil, "is there twice" },
      { { a = { type = "array", items = marked } }, nil, "A stands where no argument has a fixed place" },
      { { a = { anyOf = { marked } } }, nil, "A stands where no argument has a fixed place" },
      { {}, { ["$defs"] = { x = marked } }, "A stands where no argument has a fixed place" },
      { {}, { ["if"] = { properties = { a = marked } } }, "A stands where no argument has a fixed place" },
    } do
      local found, message = of(case[1], case[2])
      assert.is_nil(found)
      assert.is_truthy(message:find(case[3], 1, true), message)
    end
  end)
end)
