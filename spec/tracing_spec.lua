-- moonpad.tracing: which spans a run makes, what stands in them, and who gets them.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local servers = require "spec.support.http"
local support = require "spec.support"

local service

before_each(function() service = moonpad.open "memory:" end)
after_each(function()
  service:close()
  support.cleanup()
end)

local add = moonpad.tool {
  name = "add", description = "Adds", parameters = { type = "object", properties = { n = { type = "integer" } } },
  run = function(args)
    moonpad.sleep(0.002)
    if args.n == 9 then error("nine is secret", 0) end
    return { sum = args.n }
  end,
}

local function ask(agent, tracer, text, session)
  local runner = moonpad.runner { appName = "shop", agent = agent, sessionService = service, tracer = tracer }
  return pcall(runner.ask, runner, { userId = "ann", sessionId = session or "s", newMessage = text or "hi" })
end

-- The spans as a tree: "name(child child)", children by when they began; those that began at the
-- same time, as a clock tells it, by when they ended.
local function treeOf(spans, parent)
  local names, position = {}, {}
  for index, span in ipairs(spans) do position[span] = index end
  local sorted = table.move(spans, 1, #spans, 1, {})
  table.sort(sorted, function(a, b)
    if a.startTime ~= b.startTime then return a.startTime < b.startTime end
    return position[a] < position[b]
  end)
  for _, span in ipairs(sorted) do
    if span.parentSpanId == parent then
      local inner = treeOf(spans, span.spanId)
      names[#names + 1] = span.name .. (inner ~= "" and "(" .. inner .. ")" or "")
    end
  end
  return table.concat(names, " ")
end

local function named(spans, name)
  for _, span in ipairs(spans) do
    if span.name == name then return span end
  end
  error("there is no span " .. name)
end

local function scripted(...)
  return moonpad.models.scripted { ... }
end

describe("the spans of a run", function()
  it("form a tree, calls that overlap side by side", function()
    local tracer = moonpad.tracing.memory {}
    local inner = moonpad.agent { name = "inner", model = function() return "from inside" end }
    ask(moonpad.agent {
      name = "root", tools = { add, moonpad.agentTool { agent = inner } }, model = scripted({
        content = { parts = {
          moonpad.functionCall("add", { n = 1 }), moonpad.functionCall("inner", { request = "x" }),
        } },
      }, "done"),
    }, tracer)
    assert.are.equal("invocation(invoke_agent root(chat scripted execute_tool add "
      .. "execute_tool inner(invocation(invoke_agent inner(chat))) chat scripted))", treeOf(tracer:spans()))
    local ids = {}
    for _, span in ipairs(tracer:spans()) do
      assert.is_truthy(span.spanId:find "^%x+$" and #span.spanId == 16 and #span.traceId == 32)
      assert.is_nil(ids[span.spanId])
      assert.are.equal(tracer:spans()[1].traceId, span.traceId)
      assert.is_true(math.type(span.startTime) == "integer" and span.endTime >= span.startTime)
      ids[span.spanId] = true
    end
  end)

  it("name workflow agents, branches and transfers", function()
    local tracer = moonpad.tracing.memory {}
    local function leaf(name)
      return moonpad.agent { name = name, model = function()
        moonpad.sleep(0.002)
        return name
      end }
    end
    ask(moonpad.sequentialAgent { name = "seq", subAgents = {
      moonpad.parallelAgent { name = "par", subAgents = { leaf "a", leaf "b" } }, leaf "c",
    } }, tracer)
    assert.are.equal("invocation(invoke_agent seq(invoke_agent par(invoke_agent a(chat) invoke_agent b(chat)) "
      .. "invoke_agent c(chat)))", treeOf(tracer:spans()))
  end)

  it("carry what OpenTelemetry's conventions name", function()
    local tracer = moonpad.tracing.memory {}
    ask(moonpad.agent {
      name = "root", description = "Root", tools = { add }, config = { temperature = 0.5, maxOutputTokens = 9 },
      model = scripted({
        content = { parts = { moonpad.functionCall("add", { n = 1 }) } }, finishReason = "STOP", modelVersion = "v1",
        usageMetadata = { promptTokenCount = 5, candidatesTokenCount = 7 },
      }, "done"),
    }, tracer)
    local spans = tracer:spans()
    local chat, tool, agent = named(spans, "chat scripted"), named(spans, "execute_tool add"),
      named(spans, "invoke_agent root")
    assert.are.same({ "client", "internal", "internal" }, { chat.kind, tool.kind, agent.kind })
    local attributes = chat.attributes
    assert.are.same({ "chat", "scripted", "v1", 5, 7, 0.5, 9, { "stop" }, "s" }, {
      attributes["gen_ai.operation.name"], attributes["gen_ai.request.model"], attributes["gen_ai.response.model"],
      attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"],
      attributes["gen_ai.request.temperature"], attributes["gen_ai.request.max_tokens"],
      attributes["gen_ai.response.finish_reasons"], attributes["gen_ai.conversation.id"],
    })
    assert.are.same({ "add", "Adds" },
      { tool.attributes["gen_ai.tool.name"], tool.attributes["gen_ai.tool.description"] })
    assert.is_truthy(tool.attributes["gen_ai.tool.call.id"])
    assert.are.same({ "root", "Root" },
      { agent.attributes["gen_ai.agent.name"], agent.attributes["gen_ai.agent.description"] })
    assert.are.same({}, chat.contents)
    -- The event that came of it.
    local session = service:getSession { appName = "shop", userId = "ann", sessionId = "s" }
    assert.are.equal(session.events[2].id, chat.eventId)
    assert.are.equal(session.events[3].id, tool.eventId)
  end)

  it("hold what was said only when asked for", function()
    for _, content in ipairs { true, false } do
      local tracer = moonpad.tracing.memory { content = content }
      ask(moonpad.agent {
        name = "root", tools = { add }, instruction = "Be quick.",
        model = scripted({ content = { parts = { moonpad.functionCall("add", { n = 4 }) } } }, "done"),
      }, tracer, "a secret")
      local chat, tool = named(tracer:spans(), "chat scripted"), named(tracer:spans(), "execute_tool add")
      if content then
        assert.are.same({ { role = "user", parts = { { type = "text", content = "a secret" } } } },
          moonpad.json.decode(chat.contents["gen_ai.input.messages"]))
        assert.are.same({ { type = "text", content = "Be quick." } },
          moonpad.json.decode(chat.contents["gen_ai.system_instructions"]))
        assert.are.same({ n = 4 }, moonpad.json.decode(tool.contents["gen_ai.tool.call.arguments"]))
        assert.are.same({ sum = 4 }, moonpad.json.decode(tool.contents["gen_ai.tool.call.result"]))
        assert.are.equal("tool_call",
          moonpad.json.decode(chat.contents["gen_ai.output.messages"])[1].parts[1].type)
      else
        assert.are.same({}, chat.contents)
        assert.are.same({}, tool.contents)
      end
    end
  end)

  it("leave long contents out", function()
    local tracer = moonpad.tracing.memory { content = true }
    ask(moonpad.agent { name = "root", model = function() return "ok" end }, tracer, ("x"):rep(1000000))
    assert.is_true(#named(tracer:spans(), "chat").contents["gen_ai.input.messages"] < 100)
  end)

  it("tell failures of tools and models, and that a run was cancelled", function()
    local tracer = moonpad.tracing.memory {}
    ask(moonpad.agent {
      name = "root", tools = { add },
      model = scripted({ content = { parts = { moonpad.functionCall("add", { n = 9 }) } } }, "done"),
    }, tracer)
    local tool = named(tracer:spans(), "execute_tool add")
    assert.are.same({ "error", "tool" }, { tool.status, tool.attributes["error.type"] })
    assert.are.equal("unset", named(tracer:spans(), "invocation").status)

    tracer:clear()
    assert.is_false(ask(moonpad.agent { name = "root", model = function() error("broken", 0) end }, tracer))
    for _, name in ipairs { "chat", "invoke_agent root", "invocation" } do
      assert.are.equal("error", named(tracer:spans(), name).status)
    end

    tracer:clear()
    local runner = moonpad.runner { appName = "shop", sessionService = service, tracer = tracer, agent = moonpad.agent {
      name = "root", model = function() while true do moonpad.sleep(1) end end,
    } }
    local invocation = runner:start { userId = "ann", sessionId = "s2", newMessage = "hi" }
    for _ = 1, 5 do invocation:step() end
    invocation:cancel()
    local spans = tracer:spans()
    assert.are.equal("invocation(invoke_agent root(chat))", treeOf(spans))
    for _, span in ipairs(spans) do assert.are.equal("cancelled", span.attributes["error.type"]) end
  end)

  it("of a streamed answer end with its last piece, whoever takes his time with it", function()
    local tracer = moonpad.tracing.memory {}
    local runner = moonpad.runner { appName = "shop", sessionService = service, tracer = tracer, agent = moonpad.agent {
      name = "root", model = function()
        local count = 0
        return function()
          count = count + 1
          return count < 3 and "piece" or nil
        end
      end,
    } }
    local clock <close> = support.stopClock()
    for event in runner:run { userId = "ann", sessionId = "s", newMessage = "hi" } do
      clock:advance(event.partial and 1 or 1000)
    end
    local chat = named(tracer:spans(), "chat")
    assert.is_true(chat.attributes["gen_ai.response.time_to_first_chunk"] >= 0)
    assert.is_true(chat.endTime - chat.startTime < 1000000000000)
  end)
end)

describe("tracers", function()
  local agent = moonpad.agent { name = "root", model = function() return "ok" end }

  it("are checked", function()
    local ok, err = pcall(moonpad.runner, { appName = "a", agent = agent, sessionService = service, tracer = {} })
    assert.is_false(ok)
    assert.is_truthy(err.message:find "runner.tracer: expected a tracer")
    assert.is_truthy(select(2, pcall(moonpad.tracing.otlp, { url = "localhost" })).message:find "http://")
    assert.is_truthy(select(2, pcall(moonpad.tracing.memory, { limt = 1 })).message:find "did you mean limit")
    assert.are.equal("storage", select(2, pcall(moonpad.tracing.file, { path = "/nowhere/spans" })).code)
  end)

  it("of your own are told of each span, and may fail", function()
    local seen = {}
    assert.is_true(ask(agent, { record = function(_, span)
      seen[#seen + 1] = span.name
      error "a tracer that fails"
    end }))
    assert.are.same({ "chat", "invoke_agent root", "invocation" }, seen)
  end)

  it("in memory keep the last ones", function()
    local tracer = moonpad.tracing.memory { limit = 2 }
    ask(agent, tracer)
    assert.are.same({ 2, 1 }, { #tracer:spans(), tracer:dropped() })
    assert.are.equal("invocation", tracer:spans()[2].name)
    local small = moonpad.tracing.memory { content = true, maxBytes = 10 }
    ask(agent, small)
    assert.is_true(small:dropped() > 0)
  end)

  it("to a file write a line for each span", function()
    local path = support.tmpdir() .. "/spans.jsonl"
    local tracer <close> = moonpad.tracing.file { path = path }
    ask(agent, tracer)
    local names = {}
    for line in files.read(path):gmatch "[^\n]+" do names[#names + 1] = moonpad.json.decode(line).name end
    assert.are.same({ "chat", "invoke_agent root", "invocation" }, names)
  end)
end)

describe("the OTLP tracer", function()
  local collector
  local agent = moonpad.agent { name = "root", model = function() return "ok" end }

  before_each(function() collector = servers.start() end)
  after_each(function() collector:stop() end)

  it("sends many spans at once, with the headers that it was given #http", function()
    collector:script { ["/v1/traces"] = servers.json "{}" }
    local tracer <close> = moonpad.tracing.otlp {
      url = collector.url .. "/v1/traces", headers = { Authorization = "Bearer x" }, serviceName = "shop",
      timeoutMs = support.TIMEOUT_MS,
    }
    do
      -- What came first waits for the others, however long they take.
      local _ <close> = support.stopClock()
      for _ = 1, 3 do ask(agent, tracer) end
    end
    assert.is_true(tracer:flush(support.TIMEOUT_SECONDS))
    local requests = collector:requests()
    assert.are.equal(1, #requests)
    assert.are.equal("Bearer x", requests[1].headers.authorization)
    local body = moonpad.json.decode(requests[1].body)
    assert.are.equal(9, #body.resourceSpans[1].scopeSpans[1].spans)
    assert.are.equal("shop", body.resourceSpans[1].resource.attributes[1].value.stringValue)
  end)

  it("drops and counts what a collector does not take, and holds up nobody #http", function()
    collector:script { ["/v1/traces"] = servers.json("no", { status = 400 }) }
    local tracer <close> = moonpad.tracing.otlp { url = collector.url .. "/v1/traces", timeoutMs = support.TIMEOUT_MS }
    ask(agent, tracer)
    tracer:flush(support.TIMEOUT_SECONDS)
    assert.are.equal(3, tracer:dropped())
    assert.is_truthy(tracer.lastError:find "400")

    local down <close> = moonpad.tracing.otlp { url = "http://127.0.0.1:1/v1/traces", timeoutMs = 500 }
    for _ = 1, 10 do assert.is_true(ask(agent, down)) end
    down:flush(support.TIMEOUT_SECONDS)
    assert.are.equal(30, down:dropped())
  end)

  it("holds up nobody while a collector takes its time #http", function()
    collector:script { ["/v1/traces"] = servers.json("{}", { held = true }) }
    local tracer <close> = moonpad.tracing.otlp { url = collector.url .. "/v1/traces", timeoutMs = support.TIMEOUT_MS }
    ask(agent, tracer)
    support.waitUntil("the first request", function()
      assert.is_false(tracer:flush(0.01))
      return #collector:requests() == 1
    end)
    for _ = 1, 10 do assert.is_true(ask(agent, tracer)) end
    assert.is_nil(collector:requests()[1].answered)
    assert.are.equal(0, tracer:dropped())
    collector:release()
    assert.is_true(tracer:flush(support.TIMEOUT_SECONDS))
    assert.are.equal(0, tracer:dropped())
  end)

  it("sends large contents in several pieces, and bounds what waits #http", function()
    collector:script { ["/v1/traces"] = { servers.json "{}", servers.json "{}", servers.json "{}", servers.json "{}" } }
    local tracer <close> = moonpad.tracing.otlp { url = collector.url .. "/v1/traces", content = true,
      timeoutMs = support.TIMEOUT_MS }
    for index = 1, 6 do ask(agent, tracer, ("x"):rep(200000), "s" .. index) end
    assert.is_true(tracer:flush(support.TIMEOUT_SECONDS))
    local requests, spans = collector:requests(), 0
    for _, request in ipairs(requests) do
      assert.is_true(#request.body < 1500000)
      spans = spans + #moonpad.json.decode(request.body).resourceSpans[1].scopeSpans[1].spans
    end
    assert.is_true(#requests > 1)
    assert.are.equal(18, spans)
  end)

  it("takes nothing after it was closed #http", function()
    collector:script { ["/v1/traces"] = servers.json "{}" }
    local tracer = moonpad.tracing.otlp { url = collector.url .. "/v1/traces", timeoutMs = support.TIMEOUT_MS }
    ask(agent, tracer)
    do
      -- The seconds that it waits for the collector do not pass.
      local _ <close> = support.stopClock()
      tracer:close()
      tracer:close()
    end
    assert.are.equal(0, tracer:dropped())
    assert.is_true(ask(agent, tracer))
    assert.are.equal(1, #collector:requests())
  end)
end)
