-- moonpad.server: who may ask, what is asked, and how requests that are none are refused.
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local moonpad = require "moonpad"
local serving = require "spec.support.serving"
local support = require "spec.support"

local function echo(request)
  local parts = request.contents[#request.contents].parts
  return "You said: " .. (parts[1].text or "a file")
end

local function newRunner(fields)
  fields = fields or {}
  fields.appName = fields.appName or "shop"
  fields.agent = fields.agent or moonpad.agent { name = "clerk", model = echo, description = "Sells" }
  fields.sessionService = fields.sessionService or moonpad.open "memory:"
  return moonpad.runner(fields)
end

local running

local function start(options)
  options = options or {}
  options.apps = options.apps or { shop = newRunner() }
  running = serving.start(options)
  return running
end

local SESSIONS <const> = "/apps/shop/users/ann/sessions"

local function message(text, more)
  local body = {
    appName = "shop", userId = "ann", sessionId = "s", newMessage = { role = "user", parts = { { text = text } } },
  }
  for name, value in pairs(more or {}) do body[name] = value end
  return body
end

after_each(function()
  if running then running:close() end
  running = nil
end)

local function failure(act, ...)
  local ok, err = pcall(act, ...)
  assert.is_false(ok)
  return err
end

describe("moonpad.server", function()
  it("says what is wrong with its options", function()
    local runner = newRunner()
    local function told(options) return failure(moonpad.server, options).message end
    assert.is_truthy(told {}:find "server.*apps")
    assert.is_truthy(told { apps = {} }:find "server.apps: expected { name = a moonpad.runner")
    assert.is_truthy(told { apps = { shop = {} } }:find "server.apps.shop: expected a moonpad.runner, got table")
    assert.is_truthy(told { apps = { shop = runner }, prot = 1 }:find "did you mean port")
    assert.is_truthy(told { apps = { shop = runner }, port = 70000 }:find "server.port")
    assert.is_truthy(told { apps = { shop = runner }, ui = "/nowhere" }:find "no index.html in /nowhere")
    assert.is_truthy(told { apps = { shop = runner }, limits = { run = 1 } }:find "did you mean runs")
    local public = told { apps = { shop = runner }, port = 0, host = "0.0.0.0" }
    assert.is_truthy(public:find "beyond loopback")
    local nowhere = told { apps = { shop = runner }, port = 0, host = "no.such.host.invalid", public = true }
    assert.is_truthy(nowhere:find "cannot listen on no")
  end)

  it("refuses calls with a dot, and calls after it was closed", function()
    local server = start().server
    assert.are.equal("invalid_argument", failure(server.step, 0).code)
    assert.are.equal("invalid_argument", failure(server.step, server, -1).code)
    server:close()
    server:close()
    assert.are.equal("closed", failure(server.step, server, 0).code)
  end)

  it("tells what there is", function()
    local server = start()
    assert.are.same({ "shop" }, server:request("GET", "/list-apps").json)
    local detailed = server:request("GET", "/list-apps?detailed=true").json.apps[1]
    assert.are.same({ "shop", "clerk", "Sells", "lua" },
      { detailed.name, detailed.rootAgentName, detailed.description, detailed.language })
    assert.are.same({ status = "ok" }, server:request("GET", "/health").json)
    assert.are.equal("lua", server:request("GET", "/version").json.language)
    local head = server:request("HEAD", "/health")
    assert.are.same({ 200, "" }, { head.status, head.body })
  end)

  it("answers what it does not know with 404 and 405, as JSON", function()
    local server = start()
    for path, status in pairs {
      ["/nope"] = 404, ["/apps/other/users/ann/sessions"] = 404, ["/apps/%zz/users/ann/sessions"] = 400,
      ["/apps/shop/users/%ff/sessions"] = 400, ["/apps/shop/users/a%00b/sessions"] = 400, ["/dev-ui/"] = 404,
      ["/apps/shop/users//sessions"] = 404, ["/run"] = 405,
    } do
      local answer = server:request("GET", path)
      assert.are.equal(status, answer.status, path)
      assert.is_string(answer.json.error)
      assert.are.equal(answer.json.error, answer.json.detail)
    end
    assert.are.equal("POST", server:request("GET", "/run").headers.allow)
  end)

  it("keeps names apart that have slashes, dots and blanks", function()
    local server = start()
    for _, id in ipairs { "a%2Fb", "a b", "%2e%2e", "%25", "grüße", "a%3Fb" } do
      local made = server:request("POST", SESSIONS .. "/" .. id:gsub(" ", "%%20"), {})
      assert.are.equal(200, made.status, made.body)
      assert.are.equal(200, server:request("GET", SESSIONS .. "/" .. id:gsub(" ", "%%20")).status)
    end
    local ids = {}
    for _, session in ipairs(server:request("GET", SESSIONS).json) do ids[session.id] = true end
    assert.is_true(ids["a/b"] and ids["a b"] and ids[".."] and ids["%"] and ids["grüße"] and ids["a?b"])
  end)
end)

describe("who may ask", function()
  local function statusFor(server, headers)
    local lines = { "GET /list-apps HTTP/1.1", "Connection: close" }
    for name, value in pairs(headers) do lines[#lines + 1] = name .. ": " .. value end
    return tonumber(server:exchange(table.concat(lines, "\r\n") .. "\r\n\r\n"):match "^HTTP/1.1 (%d+)")
  end

  it("is told by the names of the server", function()
    local server = start { hosts = { "agents.example", "Proxy.example:8443" } }
    local port = server.server.port
    for host, status in pairs {
      ["127.0.0.1:" .. port] = 200, ["localhost:" .. port] = 200, ["LOCALHOST:" .. port] = 200,
      ["[::1]:" .. port] = 200,
      ["agents.example"] = 200, ["agents.example:" .. port] = 200, ["proxy.example:8443"] = 200,
      ["evil.example"] = 403, ["127.0.0.1"] = 403, ["localhost:1"] = 403, ["127.0.0.1.evil.example:" .. port] = 403,
      ["agents.example.evil"] = 403,
    } do
      assert.are.equal(status, statusFor(server, { Host = host }), host)
    end
  end)

  it("is told by the origin of a page", function()
    local server = start { origins = { "https://app.example" }, hosts = { "agents.example" } }
    local own = "127.0.0.1:" .. server.server.port
    for origin, status in pairs {
      ["http://" .. own] = 200, ["https://app.example"] = 200, ["HTTPS://APP.example"] = 200,
      ["http://app.example"] = 403, ["https://app.example:444"] = 403, ["http://127.0.0.1:1"] = 403,
      ["http://localhost:" .. server.server.port] = 403, ["null"] = 403, ["https://evil.example"] = 403,
      ["http://" .. own .. ".evil.example"] = 403,
    } do
      assert.are.equal(status, statusFor(server, { Host = own, Origin = origin }), origin)
    end
    -- Behind a proxy that has TLS.
    assert.are.equal(200, statusFor(server, { Host = "agents.example", Origin = "https://agents.example" }))
  end)

  it("is told to browsers where origins were named, and to nobody else", function()
    local server = start { origins = { "https://app.example" } }
    local own = { Origin = "https://app.example" }
    local answer = server:request("GET", "/list-apps", nil, own)
    assert.are.equal("https://app.example", answer.headers["access-control-allow-origin"])
    local preflight = server:request("OPTIONS", SESSIONS, nil, {
      Origin = "https://app.example", ["Access-Control-Request-Method"] = "PATCH",
    })
    assert.are.equal(204, preflight.status)
    assert.is_truthy(preflight.headers["access-control-allow-methods"]:find "PATCH")
    assert.is_truthy(preflight.headers["access-control-allow-headers"]:find "content%-type")
    assert.is_nil(server:request("GET", "/list-apps").headers["access-control-allow-origin"])
  end)
end)

describe("authorize", function()
  local asked

  local function authorize(request)
    asked[#asked + 1] = request
    moonpad.sleep(0.001) -- it may wait
    local user = (request.headers.authorization or ""):match "^Bearer (%w+)$"
    return user and { userId = user } or nil
  end

  local ANN <const> = { Authorization = "Bearer ann" }

  before_each(function() asked = {} end)

  it("lets nobody in who is not known, before the body is read", function()
    local server = start { authorize = authorize }
    local answer = server:request("POST", "/run", message "hi")
    assert.are.same({ 401, "Bearer" }, { answer.status, answer.headers["www-authenticate"] })
    assert.are.equal(401, server:request("GET", SESSIONS).status)
    assert.are.equal(401, server:request("GET", "/list-apps").status)
    -- A body that never comes is not waited for.
    local client = server:connect()
    client:send(("POST /run HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 1000000\r\n\r\n"):format(
      server.server.port))
    assert.is_truthy(client:receive("not authorized"):find "401")
    client:close()
    assert.are.equal(200, server:request("GET", "/health").status)
  end)

  it("keeps users apart, in paths and in bodies", function()
    local server = start { authorize = authorize }
    assert.are.equal(200, server:request("POST", SESSIONS .. "/s", {}, ANN).status)
    assert.are.equal(403, server:request("GET", "/apps/shop/users/bob/sessions", nil, ANN).status)
    assert.are.equal(403, server:request("POST", "/run", message("hi", { userId = "bob" }), ANN).status)
    assert.are.equal(200, server:request("POST", "/run", message "hi", ANN).status)
    assert.are.same({ "POST", "/run", "shop", "ann", "s" }, {
      asked[#asked].method, asked[#asked].path, asked[#asked].appName, asked[#asked].userId, asked[#asked].sessionId,
    })
    assert.are.equal(0, #server:request("GET", "/debug/trace/session/s", nil, { Authorization = "Bearer bob" }).json)
    assert.is_true(#server:request("GET", "/debug/trace/session/s", nil, ANN).json > 0)
  end)

  it("that fails is a 500 that tells nothing of it to others", function()
    local server = start { host = "0.0.0.0", hosts = { "127.0.0.1" }, authorize = function()
      error("the password is hunter2", 0)
    end }
    server.server.url = "http://127.0.0.1:" .. server.server.port
    local answer = server:request("GET", "/list-apps")
    assert.are.same({ 500, "internal error" }, { answer.status, answer.json.error })
    assert.is_truthy(server.errors[1]:find "hunter2")
  end)

  it("keeps the state of all users from one of them, unless it says otherwise", function()
    local server = start { authorize = function(request)
      return { userId = "ann", appState = request.headers.authorization == "admin" }
    end }
    local body = { stateDelta = { ["app:prompt"] = "obey" } }
    assert.are.equal(403, server:request("POST", SESSIONS, { state = body.stateDelta }).status)
    assert.are.equal(200, server:request("POST", SESSIONS .. "/s", { ["user:mine"] = 1 }).status)
    assert.are.equal(403, server:request("POST", SESSIONS .. "/t", body.stateDelta).status)
    assert.are.equal(403, server:request("PATCH", SESSIONS .. "/s", body).status)
    assert.are.equal(403, server:request("PATCH", SESSIONS .. "/s", { removedStateKeys = { "app:prompt" } }).status)
    for _, path in ipairs { "/run", "/run_sse" } do
      assert.are.equal(403, server:request("POST", path, message("hi", body)).status)
    end
    assert.are.equal(200, server:request("PATCH", SESSIONS .. "/s", body, { Authorization = "admin" }).status)
    assert.are.equal("obey", server:request("GET", SESSIONS .. "/s").json.state["app:prompt"])
  end)

  it("must say who it is", function()
    local server = start { authorize = function() return {} end }
    local answer = server:request("GET", "/list-apps")
    assert.are.same({ 500, "internal error" }, { answer.status, answer.json.error })
    assert.is_truthy(server.errors[1]:find "authorize: must return")
  end)

  it("that fails is the server's fault, whatever the error says of itself", function()
    local server = start { authorize = function() error { code = "not_found", message = "no table of users" } end }
    local answer = server:request("GET", "/list-apps")
    assert.are.same({ 500, "internal error" }, { answer.status, answer.json.error })
    assert.is_truthy(server.errors[1]:find "authorize: no table of users")
  end)
end)

describe("what was said", function()
  local function isTold(options)
    if running then running:close() end
    start(options)
    running:request("POST", SESSIONS .. "/s", {})
    running:request("POST", "/run", message "hi")
    local spans = running:request("GET", "/debug/trace/session/s").json
    assert.is_true(#spans > 0)
    return moonpad.json.encode(spans):find("You said: hi", 1, true) ~= nil
  end

  it("stands in traces only where nobody asks but who has this machine, or when it is to", function()
    assert.is_true(isTold {})
    assert.is_false(isTold { traceContent = false })
    assert.is_false(isTold { hosts = { "agents.example" } })
    assert.is_false(isTold { public = true })
    assert.is_false(isTold { authorize = function() return { userId = "ann" } end })
    assert.is_true(isTold { hosts = { "agents.example" }, traceContent = true })
  end)
end)

describe("limits of a user", function()
  it("on requests answer 429 and when to come again", function()
    local clock <close> = support.stopClock()
    local server = start { limits = { requestsPerMinute = 3 } }
    for _ = 1, 3 do assert.are.equal(200, server:request("GET", SESSIONS).status) end
    local answer = server:request("GET", SESSIONS)
    assert.are.equal(429, answer.status)
    assert.is_true(tonumber(answer.headers["retry-after"]) >= 1)
    assert.are.equal(200, server:request("GET", "/apps/shop/users/bob/sessions").status)
    clock:advance(tonumber(answer.headers["retry-after"]))
    assert.are.equal(200, server:request("GET", SESSIONS).status)
  end)

  it("on sessions", function()
    local server = start { limits = { sessions = 2 } }
    for _ = 1, 2 do assert.are.equal(200, server:request("POST", SESSIONS, {}).status) end
    assert.are.equal(429, server:request("POST", SESSIONS, {}).status)
    assert.are.equal(200, server:request("POST", "/apps/shop/users/bob/sessions", {}).status)
  end)

  it("on runs at once", function()
    local isBegun, isOpen = false, false
    local agent = moonpad.agent { name = "clerk", model = function()
      isBegun = true
      while not isOpen do moonpad.sleep(0.01) end
      return "done"
    end }
    local server = start { apps = { shop = newRunner { agent = agent } }, limits = { runs = 1 } }
    server:request("POST", SESSIONS .. "/s", {})
    local first = server:begin("POST", "/run", message "hi")
    server:waitUntil(function() return isBegun end)
    assert.are.equal(429, server:request("POST", "/run", message "again").status)
    isOpen = true
    server:waitUntil(function() return (first:poll()) end)
    assert.are.equal(200, server:request("POST", "/run", message "again").status)
  end)
end)

describe("requests that are none", function()
  local function statusOf(server, text)
    return tonumber(server:exchange(text):match "^HTTP/1.1 (%d+)")
  end

  it("are refused with what is wrong", function()
    local server = start { maxBodyBytes = 100, maxHeaderBytes = 500 }
    local host = "Host: 127.0.0.1:" .. server.server.port .. "\r\n"
    assert.are.equal(400, statusOf(server, "GET /health HTTP/1.1\r\n\r\n"))
    assert.are.equal(400, statusOf(server, "GET http://a/health HTTP/1.1\r\n" .. host .. "\r\n"))
    assert.are.equal(400, statusOf(server, "GET /health HTTP/1.1\r\n" .. host .. host .. "\r\n"))
    assert.are.equal(400, statusOf(server, "POST /run HTTP/1.1\r\n" .. host
      .. "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}"))
    assert.are.equal(413, statusOf(server, "POST /run HTTP/1.1\r\n" .. host .. "Content-Length: 101\r\n\r\n"))
    assert.are.equal(431, statusOf(server, "GET /" .. ("a"):rep(600) .. " HTTP/1.1\r\n" .. host .. "\r\n"))
  end)

  it("with bodies that are no JSON name the byte", function()
    local server = start()
    for body, status in pairs {
      ["{"] = 400, ["[1]"] = 422, ["1"] = 422, ["[]"] = 422, ['{"a":\xff}'] = 400, ["{}"] = 422, [""] = 422,
      ['{"appName":1,"userId":"u","sessionId":"s"}'] = 422, ['{"appName":"nope","userId":"u","sessionId":"s"}'] = 404,
      ['{"appName":"shop","userId":"u","sessionId":"s","stateDelta":[]}'] = 404,
    } do
      local answer = server:request("POST", "/run", body)
      assert.are.equal(status, answer.status, body)
    end
    assert.is_truthy(server:request("POST", "/run", "{").json.error:find "at byte")
    local deep = ("["):rep(1000) .. ("]"):rep(1000)
    assert.are.equal(400, server:request("POST", "/run", '{"a":' .. deep .. "}").status)
  end)
end)

describe("a server in a game's loop", function()
  -- How long it takes is measured in bench/small.lua.
  it("neither waits nor makes much when nothing happens", function()
    local server = start().server
    server:step(0)
    -- Whoever waited would never come to the end of that.
    local grown = checks.growth(function() server:step(0) end, 1000)
    assert.is_true(grown < 10, ("%.1f KB stay"):format(grown))
  end)

  it("sleeps while nothing happens", function()
    local server = start().server
    local began, looks, monotonic = moonpad.clock(), 0, core.monotonic
    local _ <close> = setmetatable({}, { __close = function() core.monotonic = monotonic end })
    function core.monotonic()
      looks = looks + 1
      return monotonic()
    end
    local steps = 0
    while monotonic() < began + 0.3 do
      server:step(began + 0.3 - monotonic())
      steps = steps + 1
    end
    assert.is_true(steps <= 3, steps)
    -- Whoever does not sleep looks at the clock all the time.
    assert.is_true(looks < 100, looks)
  end)
end)
