-- What moonpad.tracing.otlp sends, read by OpenTelemetry's own packages.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local servers = require "spec.support.http"
local support = require "spec.support"

local function agentOf()
  local tool = moonpad.tool {
    name = "add", description = "Adds", parameters = { type = "object", properties = { n = { type = "integer" } } },
    run = function(args)
      if args.n == 9 then error("nine", 0) end
      return { sum = args.n }
    end,
  }
  return moonpad.agent {
    name = "adder", description = "Adds numbers", tools = { tool }, instruction = "Add.",
    config = { temperature = 0.5, maxOutputTokens = 100, topP = 0.9, stopSequences = { "END" } },
    model = moonpad.models.scripted {
      {
        content = { role = "model", parts = {
          moonpad.functionCall("add", { n = 1 }), moonpad.functionCall("add", { n = 9 }),
        } },
        usageMetadata = { promptTokenCount = 5, candidatesTokenCount = 7, cachedContentTokenCount = 1 },
        finishReason = "STOP", modelVersion = "scripted-1",
      },
      "done",
    },
  }
end

describe("what the OTLP tracer sends", function()
  local collector

  before_each(function() collector = servers.start() end)
  after_each(function()
    collector:stop()
    support.cleanup()
  end)

  -- What OpenTelemetry's packages say of the one request that a run makes.
  local function sent(withContent)
    collector:script { ["/v1/traces"] = servers.json "{}" }
    local tracer <close> = moonpad.tracing.otlp {
      url = collector.url .. "/v1/traces", content = withContent, serviceName = "shop",
      timeoutMs = support.TIMEOUT_MS,
    }
    local service <close> = moonpad.open "memory:"
    local runner = moonpad.runner { appName = "shop", agent = agentOf(), sessionService = service, tracer = tracer }
    runner:ask { userId = "ann", sessionId = "s", newMessage = "Add 1 and 9" }
    assert.is_true(tracer:flush(support.TIMEOUT_SECONDS))
    assert.are.equal(0, tracer:dropped())
    local path = support.tmpdir() .. "/body.json"
    files.write(path, collector:requests()[1].body)
    local pipe <close> = assert(io.popen("node spec/peers/otel.cjs " .. support.quote(path)))
    return moonpad.json.decode(pipe:read "a"), files.read(path)
  end

  for _, withContent in ipairs { false, true } do
    it(("is read by OpenTelemetry's packages, %s contents"):format(withContent and "with" or "without"), function()
      local read, body = sent(withContent)
      assert.are.same({}, read.problems)
      if not read.isSame then assert.are.equal(read.sent, read.back) end
      assert.are.same({}, read.unknown)
      assert.are.same({
        "chat scripted", "execute_tool add", "execute_tool add", "chat scripted", "invoke_agent adder", "invocation",
      }, read.spans)
      assert.are.equal(withContent, body:find("Add 1 and 9", 1, true) ~= nil)
      assert.are.equal(withContent, body:find("nine", 1, true) ~= nil)
    end)
  end
end)
