-- What providers say about another attempt in the body of an error.
local moonpad = require "moonpad"
local retryAdvice = require "moonpad.models.retry_advice"
local server = require "spec.support.http"
local support = require "spec.support"
local models = require "spec.support.model"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(3)

describe("an error of a provider", function()
  local function adviceOf(body)
    return retryAdvice.of(429, {}, type(body) == "string" and body or moonpad.json.encode(body))
  end

  local function google(...)
    return { error = { code = 429, status = "RESOURCE_EXHAUSTED", message = "Quota", details = moonpad.array { ... } } }
  end

  local function quota(id)
    local violation = { quotaId = id, quotaMetric = "generativelanguage.googleapis.com/generate_requests" }
    return { ["@type"] = "type.googleapis.com/google.rpc.QuotaFailure", violations = { violation } }
  end

  local function retryInfo(delay)
    return { ["@type"] = "type.googleapis.com/google.rpc.RetryInfo", retryDelay = delay }
  end

  it("of Google says how long to wait, unless today's quota is used up", function()
    local perMinute, perDay = quota "GenerateRequestsPerMinutePerProject", quota "GenerateRequestsPerDayPerProject"
    assert.equal(3.5, adviceOf(google(perMinute, retryInfo "3.5s")))
    assert.equal(39, adviceOf(moonpad.array { google(retryInfo "39s") }))
    assert.is_false(adviceOf(google(perDay, retryInfo "3.5s")))
    assert.is_false(adviceOf(google(retryInfo "3.5s", perDay)))
    assert.is_nil(adviceOf(google(perMinute)))
    for _, delay in ipairs { "", "s", "soon", "-3s", "1e9s", 3, {}, "3.5", "0x10s" } do
      assert.is_nil(adviceOf(google(retryInfo(delay))))
    end
  end)

  it("says when another attempt is pointless", function()
    for _, problem in ipairs {
      { type = "insufficient_quota", code = "insufficient_quota" }, { code = "billing_hard_limit_reached" },
      { type = "billing_not_active", code = moonpad.null }, { type = "exceeded_current_quota_error" },
      { type = "rate_limit_error", code = "1113" },
    } do
      assert.is_false(adviceOf { error = problem })
    end
    assert.is_nil(adviceOf { error = { type = "tokens", code = "rate_limit_exceeded" } })
    assert.is_nil(adviceOf { type = "error", error = { type = "overloaded_error", message = "Overloaded" } })
  end)

  it("may say anything", function()
    for _, body in ipairs {
      "", "null", "[]", "{}", "[[]]", "5", '"insufficient_quota"', '{"error":"insufficient_quota"}', '{"error":null}',
      '{"error":{"details":5}}', '{"error":{"details":[null,5,{"violations":5},{"violations":[5,{"quotaId":5}]}]}}',
      '{"error":{"details":{"a":1}}}', '{"error":{"code":{},"type":[]}}', '{"error":{"code":null}}', "{\"error", "\xff",
    } do
      assert.is_nil(adviceOf(body), body)
    end
  end)

  describe("over HTTP", function()
    local web

    setup(function() web = server.start() end)
    teardown(function() web:stop() end)

    -- How often it is asked when the first answer is this error, and how long it waits in between.
    local function ask(body, options)
      local path = "/models/m:generateContent"
      local content = { role = "model", parts = { { text = "Hi" } } }
      local whole = { candidates = { { content = content, finishReason = "STOP" } } }
      web:script { [path] = { server.json(body, { status = 429 }), server.json(whole) } }
      options = options or {}
      options.model, options.apiKey, options.baseUrl, options.stream = "m", "some-key-0123456789", web.url, false
      local ok, result
      local waits = server.waitsOf(function() ok, result = pcall(models.ask, moonpad.models.gemini(options)) end)
      return ok, result, #web:requests(), waits
    end

    it("is heeded", function()
      for text, seconds in pairs { ["0.05s"] = 0.05, ["17.0s"] = 17 } do
        local ok, _, count, waits = ask(google(retryInfo(text)))
        assert.same({ true, 2, 1 }, { ok, count, #waits })
        assert.is_near(seconds, waits[1], 0.001)
      end
    end)

    it("that never ends is read as far as it is shown", function()
      local path = "/models/m:generateContent"
      -- More than the buffers between here and there hold.
      web:script { [path] = { status = 500, body = ("x"):rep(65536), times = 1000, split = 65536 } }
      local model = moonpad.models.gemini { model = "m", apiKey = "some-key", baseUrl = web.url, stream = false,
        maxRetries = 1 }
      local err = models.failure(model)
      assert.same({ "model", 500 }, { err.code, err.status })
      assert.is_true(#err.body <= 4096)
      assert.equal(2, #web:requests())
      for number = 1, 2 do
        support.waitUntil("the end of the connection", function() return web:requests()[number].closed end)
      end
    end)

    it("ends the request at once where nothing else helps", function()
      for _, body in ipairs {
        google(retryInfo "3600s"), google(quota "RequestsPerDay", retryInfo "0.01s"),
        { error = { message = "Pay first.", type = "insufficient_quota" } },
      } do
        local ok, err, count = ask(body)
        assert.same({ false, "model", 429, 1 }, { ok, err.code, err.status, count })
        assert.matches(body.error.message, err.message)
        assert.equal("string", type(err.body))
      end
    end)
  end)
end)
