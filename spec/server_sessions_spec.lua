-- moonpad.server: sessions, artifacts, memory and graphs in the dialect of adk-python, and what its
-- web UI sends.
local moonpad = require "moonpad"
local serving = require "spec.support.serving"
local slowStore = require "spec.support.slow_store"

local SESSIONS <const> = "/apps/shop/users/ann/sessions"

local server, runner

local function start(fields)
  local definition = {
    appName = "shop", sessionService = moonpad.open "memory:", artifactService = moonpad.artifactService "memory:",
    agent = moonpad.agent { name = "clerk", model = function() return "ok" end },
  }
  for name, value in pairs(fields or {}) do definition[name] = value end
  runner = moonpad.runner(definition)
  server = serving.start { apps = { shop = runner } }
end

local function stored(id)
  return runner.sessionService:getSession { appName = "shop", userId = "ann", sessionId = id }
end

before_each(function() start() end)
after_each(function() server:close() end)

describe("sessions over HTTP", function()
  it("are made with an id, without one, and by their path", function()
    local made = server:request("POST", SESSIONS).json
    assert.are.equal(36, #made.id)
    assert.are.same({ {}, {}, "shop", "ann" }, { made.state, made.events, made.appName, made.userId })
    local state = { a = 1, ["user:b"] = 2, ["app:c"] = 3, ["temp:d"] = 4 }
    local named = server:request("POST", SESSIONS, { sessionId = "s1", state = state }).json
    assert.are.same({ "s1", { a = 1, ["user:b"] = 2, ["app:c"] = 3 } }, { named.id, named.state })
    assert.are.same({ "s2", 1 }, (function(one) return { one.id, one.state.a } end)(
      server:request("POST", SESSIONS .. "/s2", { state = { a = 1 } }).json))
    -- The older shape: the body is the state.
    assert.are.equal(5, server:request("POST", SESSIONS .. "/s3", { a = 5, b = true }).json.state.a)
    assert.are.equal("snake", server:request("POST", SESSIONS, { session_id = "snake" }).json.id)
  end)

  it("that are there already are 409", function()
    server:request("POST", SESSIONS .. "/s", {})
    for _, answer in ipairs {
      server:request("POST", SESSIONS .. "/s", {}), server:request("POST", SESSIONS, { sessionId = "s" }),
    } do
      assert.are.equal(409, answer.status)
    end
  end)

  it("are listed as a bare list with merged state, and seconds", function()
    server:request("POST", SESSIONS .. "/s1", { state = { a = 1, ["user:b"] = 2 } })
    server:request("POST", SESSIONS .. "/s2", { state = { a = 3 } })
    local list = server:request("GET", SESSIONS).json
    assert.are.equal(2, #list)
    assert.are.same({ "s1", { a = 1, ["user:b"] = 2 }, {} }, { list[1].id, list[1].state, list[1].events })
    assert.is_true(math.abs(list[1].lastUpdateTime - os.time()) < 1000)
    local first = server:request("GET", SESSIONS .. "?limit=1&order=newest")
    assert.are.equal("s2", first.json[1].id)
    local cursor = first.headers["x-next-cursor"]
    local escaped = cursor:gsub("[^%w]", function(char) return ("%%%02X"):format(char:byte()) end)
    assert.are.equal("s1", server:request("GET", SESSIONS .. "?limit=1&order=newest&after=" .. escaped).json[1].id)
    assert.are.equal(422, server:request("GET", SESSIONS .. "?limit=x").status)
  end)

  it("are read with their events, and 404 where there is none", function()
    server:request("POST", SESSIONS .. "/s", {})
    server:request("POST", "/run", {
      appName = "shop", userId = "ann", sessionId = "s", newMessage = { parts = { { text = "hi" } } },
    })
    local session = server:request("GET", SESSIONS .. "/s").json
    assert.are.same({ "user", "clerk" }, { session.events[1].author, session.events[2].author })
    assert.are.equal("user", session.events[1].content.role)
    assert.are.equal(1, #server:request("GET", SESSIONS .. "/s?num_recent_events=1").json.events)
    local missing = server:request("GET", SESSIONS .. "/nope")
    assert.are.same({ 404, "Session not found: nope" }, { missing.status, missing.json.error })
  end)

  it("are changed by an event of the user", function()
    server:request("POST", SESSIONS .. "/s", { state = { a = 1, b = 2 } })
    local rename = { stateDelta = { ["__session_metadata__"] = { displayName = "renamed" }, ["temp:x"] = 1 } }
    local session = server:request("PATCH", SESSIONS .. "/s", rename).json
    assert.are.equal("renamed", session.state["__session_metadata__"].displayName)
    local event = session.events[1]
    assert.are.same({ "user", true }, { event.author, event.invocationId:find "^p%-" ~= nil })
    assert.is_nil(event.actions.stateDelta["temp:x"])
    -- A null is a value; what is to go is named.
    local changed = server:request("PATCH", SESSIONS .. "/s", {
      state_delta = { a = moonpad.null }, removedStateKeys = { "b" },
    }).json
    assert.are.equal(moonpad.null, changed.state.a)
    assert.is_nil(changed.state.b)
    assert.are.same({ "b" }, changed.events[2].removedStateKeys)
    assert.are.equal(422, server:request("PATCH", SESSIONS .. "/s", {}).status)
    assert.are.equal(422, server:request("PATCH", SESSIONS .. "/s", { stateDelta = 1 }).status)
    assert.are.equal(404, server:request("PATCH", SESSIONS .. "/nope", { stateDelta = { a = 1 } }).status)
  end)

  it("are deleted, also twice", function()
    server:request("POST", SESSIONS .. "/s", {})
    for _ = 1, 2 do
      local answer = server:request("DELETE", SESSIONS .. "/s")
      assert.are.same({ 200, "null" }, { answer.status, answer.body })
    end
    assert.is_nil(stored "s")
  end)

  it("are imported as they were exported", function()
    local service = runner.sessionService
    local session = service:createSession { appName = "shop", userId = "ann", sessionId = "s", state = {
      before = 1, gone = 2, changed = 3,
    } }
    session.state.gone, session.state.changed, session.state["user:name"] = nil, 4, "Ann"
    service:updateSession(session)
    service:appendEvent(session, { author = "clerk", content = { parts = { { text = "hi" } } } })
    local exported = server:request("GET", SESSIONS .. "/s").json
    local imported = server:request("POST", SESSIONS, {
      sessionId = "copy", state = exported.state, events = exported.events,
    }).json
    assert.are.same(exported.state, imported.state)
    assert.are.same(exported.events, imported.events)
    -- What the events do not explain stands in the state, too.
    exported.state.added = 1
    local edited = server:request("POST", SESSIONS, { state = exported.state, events = exported.events }).json
    assert.are.equal(1, edited.state.added)
    -- Nobody else's state is changed by a file.
    exported.state["user:name"], exported.state["app:rate"] = "Bob", 1
    server:request("POST", SESSIONS, { sessionId = "other", state = exported.state, events = exported.events })
    assert.are.same({ name = "Ann" }, service:getUserState { appName = "shop", userId = "ann" })
    assert.are.same({}, service:getAppState { appName = "shop" })
  end)

  it("that cannot be imported leave nothing behind", function()
    local event = { id = "e", author = "user", invocationId = "i", timestamp = 1 }
    for _, bad in ipairs { { author = 1 }, 5, { author = "a", timestamp = "x" } } do
      local answer = server:request("POST", SESSIONS, { sessionId = "s", events = { event, bad } })
      assert.is_true(answer.status == 400 or answer.status == 422, answer.body)
      assert.is_truthy(answer.json.error:find("events[1]", 1, true), answer.body)
      assert.is_nil(stored "s")
    end
  end)

  it("of many events hold up nobody for long", function()
    local service = runner.sessionService
    local session = service:createSession { appName = "shop", userId = "ann", sessionId = "s" }
    for index = 1, 5000 do
      service:appendEvent(session, { author = "clerk", actions = { stateDelta = { n = index } } })
    end
    -- What the collector does with the events of this loop would be counted as well.
    collectgarbage()
    collectgarbage "stop"
    -- The best of a few: a step that the system interrupts seems long.
    local share = 1
    for _ = 1, 10 do
      local job, worst, all = server:begin("GET", SESSIONS .. "/s"), 0, 0
      local isDone, answer
      repeat
        local before = os.clock()
        server.server:step(0)
        local taken = os.clock() - before
        worst, all = math.max(worst, taken), all + taken
        isDone, answer = job:poll()
      until isDone
      assert.are.equal(5000, #moonpad.json.decode(answer.body).events)
      share = math.min(share, worst / all)
      if share < 0.5 then break end
    end
    collectgarbage "restart"
    assert.is_true(share < 0.5, ("%f of the time in one step"):format(share))
  end)
end)

describe("a store behind a slow link", function()
  it("holds up nobody but who asked it", function()
    local service <close> = slowStore.open "slow:5:memory:"
    local agent = moonpad.agent { name = "clerk", model = function() return "Hello!" end }
    local function authorize(request)
      local users = service:getAppState { appName = "shop" }
      return { userId = users[request.headers.authorization or "nobody"] or "ann" }
    end
    local shop = moonpad.runner { appName = "shop", agent = agent, sessionService = service }
    local other = moonpad.agent { name = "other", model = function() return "Hi!" end }
    local slow = serving.start { authorize = authorize, apps = {
      shop = shop, other = moonpad.runner { appName = "other", agent = other, sessionService = moonpad.open "memory:" },
    } }
    local waitedFor = slowStore.roundTripsHere()
    local function expect(status, method, path, body)
      assert.are.equal(status, slow:request(method, path, body).status)
      assert.are.equal(waitedFor, slowStore.roundTripsHere(), method .. " " .. path)
    end
    local message = { role = "user", parts = { { text = "hi" } } }
    local event = { id = "e", author = "user", invocationId = "i", timestamp = 1 }
    expect(200, "POST", SESSIONS .. "/s", {})
    expect(200, "GET", SESSIONS .. "/s")
    expect(200, "GET", SESSIONS)
    expect(200, "PATCH", SESSIONS .. "/s", { stateDelta = { a = 1 } })
    expect(200, "POST", "/run", { appName = "shop", userId = "ann", sessionId = "s", newMessage = message })
    expect(200, "POST", SESSIONS, { sessionId = "imported", events = { event } })
    expect(200, "DELETE", SESSIONS .. "/s")
    assert.is_true(slowStore.roundTrips() > 0)
    slow:close()
  end)
end)

describe("artifacts over HTTP", function()
  local FILES <const> = SESSIONS .. "/s/artifacts"

  before_each(function() server:request("POST", SESSIONS .. "/s", {}) end)

  it("are saved, listed, loaded and deleted", function()
    local bytes = "\0\1\255PNG"
    local saved = server:request("POST", FILES, { filename = "a/b.png", artifact = {
      inline_data = { mime_type = "image/png", data = moonpad.base64.encode(bytes) },
    } })
    assert.are.same({ 200, 0, "image/png" }, { saved.status, saved.json.version, saved.json.mimeType })
    server:request("POST", FILES, { filename = "a/b.png", artifact = { text = "second" } })
    server:request("POST", FILES, { filename = "user:photo", artifact = { text = "me" } })
    assert.are.same({ "a/b.png", "user:photo" }, server:request("GET", FILES).json)
    for _, path in ipairs { "/a%2Fb.png", "/a/b.png" } do
      assert.are.equal("second", server:request("GET", FILES .. path).json.text)
      assert.are.same({ 0, 1 }, server:request("GET", FILES .. path .. "/versions").json)
      local first = server:request("GET", FILES .. path .. "/versions/0").json
      assert.are.equal(bytes, moonpad.base64.decode(first.inlineData.data))
      assert.are.equal("image/png", server:request("GET", FILES .. path .. "/versions/metadata").json[1].mimeType)
    end
    assert.are.equal("image/png", server:request("GET", FILES .. "/a%2Fb.png/versions/0/metadata").json.mimeType)
    assert.are.equal(404, server:request("GET", FILES .. "/a%2Fb.png/versions/7").status)
    assert.are.equal(404, server:request("GET", FILES .. "/nope").status)
    assert.are.equal(200, server:request("DELETE", FILES .. "/a/b.png").status)
    assert.are.same({ "user:photo" }, server:request("GET", FILES).json)
  end)

  it("that are none are refused", function()
    for _, body in ipairs {
      {}, { filename = "a" }, { artifact = { text = "a" } }, { filename = "a", artifact = {} },
      { filename = "a", artifact = { inlineData = { mimeType = "a/b", data = "!!" } } },
    } do
      local status = server:request("POST", FILES, body).status
      assert.is_true(status == 422 or status == 400, status)
    end
    assert.are.same({}, server:request("GET", FILES).json)
  end)
end)

describe("an app without artifacts and memory", function()
  it("says so", function()
    server:close()
    runner = moonpad.runner {
      appName = "shop", sessionService = moonpad.open "memory:",
      agent = moonpad.agent { name = "clerk", model = function() return "ok" end },
    }
    server = serving.start { apps = { shop = runner } }
    server:request("POST", SESSIONS .. "/s", {})
    assert.are.same({}, server:request("GET", SESSIONS .. "/s/artifacts").json)
    assert.are.equal(501, server:request("GET", SESSIONS .. "/s/artifacts/a").status)
    assert.are.equal(501, server:request("PATCH", "/apps/shop/users/ann/memory", { sessionId = "s" }).status)
  end)
end)

describe("memory over HTTP", function()
  it("takes a session in", function()
    server:close()
    local memory = moonpad.memoryService "memory:"
    start { memoryService = memory }
    server:request("POST", SESSIONS .. "/s", {})
    server:request("POST", "/run", {
      appName = "shop", userId = "ann", sessionId = "s", newMessage = { parts = { { text = "I like tea" } } },
    })
    assert.are.equal(200, server:request("PATCH", "/apps/shop/users/ann/memory", { session_id = "s" }).status)
    assert.are.equal(1, #memory:searchMemory { appName = "shop", userId = "ann", query = "tea" }.memories)
    assert.are.equal(404, server:request("PATCH", "/apps/shop/users/ann/memory", { sessionId = "nope" }).status)
  end)
end)

describe("what the developer's view asks for", function()
  before_each(function()
    server:close()
    local function leaf(name) return moonpad.agent { name = name, model = function() return name end } end
    local look = moonpad.tool { name = "look_up", description = "Looks", run = function() return {} end }
    start { agent = moonpad.sequentialAgent { name = "team", subAgents = {
      moonpad.agent { name = "first", model = function() return "1" end, tools = { look } }, leaf 'sec"ond',
    } } }
  end)

  it("is the graph of the agents, as JSON and as DOT", function()
    local graph = server:request("GET", "/dev/apps/shop/build_graph").json
    assert.are.equal("sequential", graph.root_agent.type)
    assert.are.equal("look_up", graph.root_agent.sub_agents[1].tools[1].name)
    local image = server:request("GET", "/dev/apps/shop/build_graph_image?dark_mode=true").json
    assert.are.equal(image.dotSrc, image[""].dotSrc)
    assert.is_truthy(image.dotSrc:find([["first" -> "sec\"ond"]], 1, true))
    assert.is_truthy(image.dotSrc:find("look_up", 1, true))
  end)

  it("is that of an event", function()
    server:request("POST", SESSIONS .. "/s", {})
    local events = server:request("POST", "/run", {
      appName = "shop", userId = "ann", sessionId = "s", newMessage = { parts = { { text = "go" } } },
    }).json
    for _, prefix in ipairs { "", "/dev" } do
      local path = prefix .. SESSIONS .. "/s/events/"
      assert.is_truthy(server:request("GET", path .. events[1].id .. "/graph").json.dotSrc:find "digraph")
      assert.are.equal(404, server:request("GET", path .. "nope/graph").status)
    end
  end)

  it("is nothing where there are no evaluations, and no builder", function()
    for _, name in ipairs { "eval_sets", "eval_results", "eval-sets", "metrics-info" } do
      assert.are.same({}, server:request("GET", "/dev/apps/shop/" .. name).json)
    end
    assert.are.equal(404, server:request("GET", "/dev/apps/shop/builder?ts=1").status)
  end)

  it("is what a run did", function()
    server:request("POST", SESSIONS .. "/s", {})
    local events = server:request("POST", "/run", {
      appName = "shop", userId = "ann", sessionId = "s", newMessage = { parts = { { text = "go" } } },
    }, { traceparent = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01" }).json
    local spans = server:request("GET", "/dev/apps/shop/debug/trace/session/s").json
    local names = {}
    for index, span in ipairs(spans) do names[index] = span.name end
    assert.are.same({
      "invocation", "invoke_agent team", "invoke_agent first", "call_llm", 'invoke_agent sec"ond', "call_llm",
    }, names)
    assert.are.equal("0123456789abcdef0123456789abcdef", spans[1].trace_id)
    assert.are.equal("0123456789abcdef", spans[1].parent_span_id)
    assert.is_truthy(spans[4].attributes["gcp.vertex.agent.llm_request"]:find '"go"')
    local one = server:request("GET", "/debug/trace/" .. events[1].id).json
    assert.are.equal(events[1].id, one["gcp.vertex.agent.event_id"])
    assert.are.equal(404, server:request("GET", "/debug/trace/nope").status)
    -- With the session goes what was said in it.
    server:request("DELETE", SESSIONS .. "/s")
    assert.are.same({}, server:request("GET", "/dev/apps/shop/debug/trace/session/s").json)
  end)
end)
