local core = require "moonpad.core"
local driver = require "moonpad.http.client"
local http = require "moonpad.http"
local moonpad = require "moonpad"
local server = require "spec.support.http"
local socket = require "socket"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

-- A sleep that nobody sits out: whoever has slept for half of it was not woken up.
local LONG <const> = 300

describe("HTTP", function()
  local web

  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local function request(path, options)
    options = options or {}
    options.url = web.url .. path
    options.retryDelayMs = options.retryDelayMs or 10
    return http.request(options)
  end

  local function fetch(path, options)
    local job <close> = request(path, options)
    local status, message, kind = job:wait()
    if not status then return nil, message, kind end
    return status, job:collect(), job
  end

  local function elapsed(run)
    local start = core.monotonic()
    run()
    return core.monotonic() - start
  end

  describe("an answer", function()
    it("has a status, headers with names in lower case, and a body", function()
      web:script { ["/a"] = { headers = { ["X-Some-Thing"] = "1" }, body = "hello" } }
      local status, body, job = fetch "/a"
      assert.are.equal(200, status)
      assert.are.equal("hello", body)
      assert.are.equal("1", job.headers["x-some-thing"])
      local sent = web:requests()[1]
      assert.are.equal("GET", sent.method)
      assert.are.equal("moonpad/" .. moonpad._VERSION, sent.headers["user-agent"])
    end)

    it("has headers of a bounded size: beyond it, that is what the failure says", function()
      local long = ("x"):rep(3000000)
      local head, chunked = "HTTP/1.1 200 OK\r\n", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n"
      for what, raw in pairs {
        ["a value"] = head .. "X-A: " .. long .. "\r\n\r\nbody",
        ["a value, not much too long"] = head .. "X-A: " .. long:sub(1, 150000) .. "\r\n\r\nbody",
        ["a name"] = head .. long .. ": a\r\n\r\nbody",
        ["the status"] = "HTTP/1.1 200 " .. long .. "\r\n\r\nbody",
        ["an address"] = "HTTP/1.1 302 Found\r\nLocation: /" .. long .. "\r\n\r\n",
        ["a trailer"] = head .. chunked .. "X-T: " .. long .. "\r\n\r\n",
        ["many lines"] = head .. ("X-A: " .. long:sub(1, 1000) .. "\r\n"):rep(400) .. "\r\nbody",
      } do
        web:script { ["/a"] = { raw = raw } }
        local job <close> = request("/a", { attempts = 1 })
        local body, message, kind = job:collect()
        assert.are.same({ "limit" }, { body or kind }, what)
        local expected = what == "many lines" and "256 KiB of headers" or "a header line that is too large"
        assert.is_truthy(message:find(expected, 1, true), message)
      end
      web:script { ["/a"] = { headers = { ["X-A"] = long:sub(1, 90000) }, body = "body" } }
      local status, body = fetch "/a"
      assert.are.same({ 200, "body" }, { status, body })
    end)

    it("follows a body with its headers, NUL bytes included", function()
      web:script { ["/a"] = { body = "" } }
      assert.are.equal(200, (fetch("/a", { body = "a\0b", headers = { ["Content-Type"] = "x/y", Empty = "" } })))
      local sent = web:requests()[1]
      assert.are.equal("POST", sent.method)
      assert.are.equal("a\0b", sent.body)
      assert.are.equal("x/y", sent.headers["content-type"])
      assert.are.equal("", sent.headers.empty)
      assert.is_nil(sent.headers.expect)
    end)

    it("follows a body in pieces, also when it is asked again", function()
      local pieces = { "a", "", "b\0", ("x"):rep(100000) }
      web:script { ["/a"] = { { status = 500 }, { body = "ok" } } }
      local job <close> = request("/a", { body = pieces, method = "PUT" })
      pieces[1] = "changed"
      assert.are.equal(200, (job:wait()))
      for _, sent in ipairs(web:requests()) do
        assert.are.same({ "PUT", true }, { sent.method, sent.body == "ab\0" .. ("x"):rep(100000) })
      end
      for _, body in ipairs { {}, { "" }, "" } do
        web:script { ["/a"] = { body = "ok" } }
        assert.are.equal(200, (fetch("/a", { body = body })))
        assert.are.same({ "POST", "", "0" }, { web:requests()[1].method, web:requests()[1].body,
          web:requests()[1].headers["content-length"] })
      end
    end)

    it("is the same whatever pieces it comes in", function()
      local text = ("0123456789"):rep(50)
      for _, size in ipairs { 1, 7, 100 } do
        web:script { ["/a"] = { body = text, split = size } }
        assert.are.equal(text, select(2, fetch "/a"))
      end
    end)

    it("may be long", function()
      local text = ("x"):rep(100 * 1024)
      web:script { ["/a"] = { body = text }, ["/b"] = { body = text, split = 1000 } }
      assert.are.equal(text, select(2, fetch "/a"))
      assert.are.equal(text, select(2, fetch "/b"))
    end)

    it("may be an error, which is an answer too", function()
      web:script { ["/a"] = { status = 404, body = "gone" } }
      local status, body = fetch "/a"
      assert.are.same({ 404, "gone" }, { status, body })
      assert.are.equal(1, #web:requests())
    end)

    it("is cut where only so much of it is wanted", function()
      web:script { ["/a"] = { body = "0123456789" } }
      local job <close> = request "/a"
      for _, limit in ipairs { 0.5, "4", false } do
        local ok, err = pcall(job.collect, job, limit)
        assert.are.same({ false, "invalid_argument" }, { ok, err.code })
      end
      assert.are.same({ "0123", true }, { job:collect(4) })
    end)

    it("comes over a connection that is used again", function()
      web:script { ["/a"] = { body = "x" } }
      fetch "/a"
      fetch "/a"
      local sent = web:requests()
      assert.are.equal(sent[1].connection, sent[2].connection)
    end)
  end)

  describe("waiting", function()
    it("never blocks a step", function()
      web:script { ["/a"] = { body = "done", held = true } }
      -- A step that waited for the answer would wait until it is given up.
      local job <close> = request("/a", { timeoutMs = support.TIMEOUT_MS })
      local thread = coroutine.create(function() return job:collect() end)
      local function step() return select(2, assert(coroutine.resume(thread))) end
      support.waitUntil("the request", function()
        step()
        return #web:requests() == 1
      end)
      for _ = 1, 5 do step() end
      assert.are.equal("suspended", coroutine.status(thread))
      web:release()
      local answer
      while coroutine.status(thread) ~= "dead" do
        answer = step()
        http.poll(0.01)
      end
      assert.are.equal("done", answer)
    end)

    it("gives way between two pieces of a fast answer", function()
      web:script { ["/a"] = { body = ("x"):rep(65536), times = 64 } }
      local job <close> = request("/a", { maxUnreadBytes = 65536 })
      local thread = coroutine.create(function() return #job:collect() end)
      local yields, length = 0, nil
      while coroutine.status(thread) ~= "dead" do
        length = select(2, assert(coroutine.resume(thread)))
        yields = yields + 1
      end
      assert.are.equal(4 * 1024 * 1024, length)
      assert.is_true(yields > 16)
    end)

    it("shows the first bytes before the last are sent", function()
      web:script { ["/a"] = { body = "abcdef", split = 1, hold = 1 } }
      local job <close> = request "/a"
      assert.are.equal("a", job:receive())
      assert.are.equal(1, web:requests()[1].sent)
      web:release()
      assert.are.equal("bcdef", job:collect())
    end)

    it("goes on side by side", function()
      web:script { ["/a"] = { body = "x", held = true } }
      local found, threads = 0, {}
      for index = 1, 10 do
        threads[index] = coroutine.create(function()
          local _, body = fetch "/a"
          if body == "x" then found = found + 1 end
        end)
      end
      local function stepAll()
        for _, thread in ipairs(threads) do
          if coroutine.status(thread) == "suspended" then assert(coroutine.resume(thread)) end
        end
        http.poll(0.01)
      end
      -- The first is answered when all have asked.
      support.waitUntil("ten requests at the same time", function()
        stepAll()
        return #web:requests() == 10
      end)
      assert.are.equal(0, found)
      web:release()
      support.waitUntil("ten answers", function()
        stepAll()
        return found == 10
      end)
    end)

    it("pauses the transfer when nobody reads", function()
      local size = 24 * 1024 * 1024
      web:script { ["/a"] = { body = ("x"):rep(65536), times = size // 65536, split = 65536 } }
      local job <close> = request("/a", { maxUnreadBytes = 65536 })
      job:wait()
      for _ = 1, 20 do
        job:step()
        http.poll(0.01)
      end
      assert.is_true(web:requests()[1].sent < size)
      local length = 0
      for chunk in function() return job:receive() end do
        assert.is_true(#chunk <= 2 * 65536)
        length = length + #chunk
      end
      assert.are.equal(size, length)
    end)

    it("is for context:await as well", function()
      web:script { ["/a"] = { body = "hello", split = 1, pause = 0.01 } }
      local job <close> = request "/a"
      local done, answer
      repeat
        done, answer = job:poll()
        http.poll(0.1)
      until done
      assert.are.equal("hello", answer.body)
      assert.are.equal(200, answer.status)
      done, answer = job:poll()
      assert.are.same({ true, "hello" }, { done, answer.body })
    end)

    it("raises what context:await cannot answer", function()
      web:script { ["/a"] = { body = ("x"):rep(100) }, ["/b"] = { hang = true } }
      local function await(path, options)
        local job <close> = request(path, options)
        local ok, err
        repeat
          ok, err = pcall(job.poll, job)
          http.poll(0.1)
        until not ok
        return err.code
      end
      assert.are.equal("limit", await("/a", { maxBodyBytes = 10 }))
      assert.are.equal("tool", await("/b", { timeoutMs = 50 }))
    end)

    it("puts no more together than maxBodyBytes, in job:collect as well", function()
      web:script { ["/a"] = { body = ("x"):rep(100) } }
      local function collect(options, limit)
        local job <close> = request("/a", options)
        return { job:collect(limit) }
      end
      assert.are.same({ nil, "the answer is longer than 99 bytes", "limit" }, collect { maxBodyBytes = 99 })
      assert.are.same({ ("x"):rep(100), false }, collect { maxBodyBytes = 100 })
      assert.are.same({ "xxxxxxxxxx", true }, collect({ maxBodyBytes = 99 }, 10))
      assert.are.same({ ("x"):rep(100), false }, collect({ maxBodyBytes = 99 }, 200))
      assert.are.equal(0, http.active())
    end)
  end)

  describe("http.poll", function()
    it("sleeps while nothing happens, and no longer than it may", function()
      web:script { ["/a"] = { hang = true } }
      local job <close> = request "/a"
      support.waitUntil("the request", function()
        job:step()
        http.poll(0.01)
        return #web:requests() == 1
      end)
      -- Something of an earlier request may still come.
      local moved, slept
      repeat
        slept = elapsed(function() moved = http.poll(0.2) end)
        job:step()
      until not moved
      assert.is_true(slept > 0.15 and slept < LONG / 2, "slept " .. slept)
    end)

    it("wakes up when bytes come", function()
      -- The pause goes on after the sleep has begun.
      web:script { ["/a"] = { body = "xy", split = 1, pause = 0.1 } }
      local job <close> = request "/a"
      local seconds = elapsed(function()
        while not job.isOver do
          http.poll(LONG)
          job:step()
          while job:read() do end
        end
      end)
      assert.is_true(seconds < LONG / 2, "took " .. seconds)
    end)

    it("does not sleep through what came in while others were stepped", function()
      web:script { ["/a"] = { body = "x", held = true }, ["/b"] = { hang = true } }
      local first <close> = request "/a"
      support.waitUntil("the first request", function() return #web:requests() == 1 end)
      local second <close> = request "/b"
      support.waitUntil("the second request", function() return #web:requests() == 2 end)
      while http.poll(0.01) do assert.is_nil(first.status) end
      first:step()
      local before, last = driver.activity(), nil
      web:release()
      support.waitUntil("all of the answer", function()
        second:step()
        local now = driver.activity()
        local isCalm = now ~= before and now == last
        last = now
        return isCalm and web:requests()[1].answered
      end)
      local seconds = elapsed(function()
        while not first.status do http.poll(LONG) end
      end)
      assert.is_true(seconds < LONG / 2, "took " .. seconds)
      assert.are.equal(200, first.status)
    end)

    it("starts a retry that is due", function()
      web:script { ["/a"] = { { status = 500 }, { body = "x" } } }
      local job <close> = request("/a", { retryDelayMs = 100 })
      local seconds = elapsed(function()
        while not job.status do http.poll(LONG) end
      end)
      assert.is_true(seconds < LONG / 2, "took " .. seconds)
    end)
  end)

  describe("another attempt", function()
    it("is made after 429, when the server says", function()
      web:script { ["/a"] = { { status = 429, headers = { ["Retry-After"] = "17" } }, { body = "ok" } } }
      local status, body
      local waits = server.waitsOf(function() status, body = fetch("/a", { body = "same" }) end)
      assert.are.same({ 200, "ok" }, { status, body })
      assert.are.equal(1, #waits)
      assert.is_near(17, waits[1], 0.001)
      local sent = web:requests()
      assert.are.equal(2, #sent)
      assert.are.equal("same", sent[2].body)
    end)

    it("is made when so much time has passed", function()
      web:script { ["/a"] = { { status = 429, headers = { ["Retry-After"] = "1" } }, { body = "ok" } } }
      local took = elapsed(function() assert.are.equal(200, (fetch "/a")) end)
      assert.is_true(took >= 1 and took < LONG / 2, "took " .. took)
    end)

    it("understands dates", function()
      local before = os.time()
      local due = before + 3000
      local date = os.date("!%a, %d %b %Y %H:%M:%S GMT", due)
      web:script { ["/a"] = { { status = 503, headers = { ["Retry-After"] = date } }, { body = "ok" } } }
      local status
      local waits = server.waitsOf(function() status = fetch("/a", { maxRetryDelayMs = 3600000, timeoutMs = 0 }) end)
      assert.are.same({ 200, 1 }, { status, #waits })
      -- It is counted in whole seconds.
      assert.is_true(waits[1] < due - before + 0.001 and waits[1] >= due - os.time() - 1, waits[1])
    end)

    it("is not made when the server asks for a longer pause than is allowed", function()
      local reply = { status = 429, headers = { ["Retry-After"] = "3600" }, body = "later" }
      web:script { ["/a"] = { reply, { body = "ok" } } }
      local status, body = fetch "/a"
      assert.are.same({ 429, "later" }, { status, body })
    end)

    it("is not made when it would come after the deadline", function()
      web:script { ["/a"] = { { status = 429, headers = { ["Retry-After"] = "500" } }, { body = "ok" } } }
      assert.are.equal(429, (fetch("/a", { timeoutMs = 400000, maxRetryDelayMs = 600000 })))
    end)

    it("ends when there have been enough", function()
      web:script { ["/a"] = { status = 500, body = "broken" } }
      local status, body = fetch "/a"
      assert.are.same({ 500, "broken" }, { status, body })
      assert.are.equal(4, #web:requests())
    end)

    it("waits longer each time", function()
      web:script { ["/a"] = { status = 500 } }
      local waits = server.waitsOf(function() fetch("/a", { retryDelayMs = 1000 }) end)
      assert.are.equal(3, #waits)
      for index, seconds in ipairs(waits) do
        local most = 2 ^ (index - 1)
        assert.is_true(seconds >= most / 2 - 0.001 and seconds <= most + 0.001, seconds)
      end
    end)

    it("is made when the connection broke before the first byte", function()
      local cut = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
      web:script { ["/a"] = { { raw = "" }, { raw = cut }, { body = "ok" } } }
      local status, body = fetch "/a"
      assert.are.same({ 200, "ok" }, { status, body })
      assert.are.equal(3, #web:requests())
    end)

    it("is never made once the answer has begun", function()
      web:script { ["/a"] = { { body = "0123456789", split = 1, hold = 1, drop = 5 }, { body = "ok" } } }
      local job <close> = request "/a"
      local text = job:receive()
      assert.are.equal("0", text)
      web:release()
      local chunk, message, kind
      repeat
        chunk, message, kind = job:receive()
        text = text .. (chunk or "")
      until not chunk
      assert.are.equal("01234", text)
      assert.is_string(message)
      assert.are.equal("transfer", kind)
      assert.are.equal(1, #web:requests())
    end)

    it("is made when nobody listens, and says how often", function()
      local status, message, kind = http.request({ url = "http://127.0.0.1:1/", retryDelayMs = 1 }):wait()
      assert.is_nil(status)
      assert.are.equal("connect", kind)
      assert.is_truthy(message:find("after 4 attempts", 1, true))
    end)

    it("is not made for other errors of the client", function()
      for _, code in ipairs { 400, 401, 403, 404, 422 } do
        web:script { ["/a"] = { status = code } }
        assert.are.equal(code, (fetch "/a"))
        assert.are.equal(1, #web:requests())
      end
    end)

    -- How often it is tried when the first error has these headers. Waits that nobody asks for are
    -- endless.
    local function attemptsAfter(status, headers, options)
      web:script { ["/a"] = { { status = status, headers = headers }, { body = "ok" } } }
      options = options or {}
      options.retryDelayMs = options.retryDelayMs or 59000
      fetch("/a", options)
      return #web:requests()
    end

    it("knows the three forms of dates", function()
      for _, text in ipairs {
        "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
      } do
        assert.are.equal(2, attemptsAfter(503, { ["Retry-After"] = text }), text)
        local later = text:gsub("1994", "2037"):gsub("%-94", "-37")
        assert.are.equal(1, attemptsAfter(503, { ["Retry-After"] = later }), later)
      end
    end)

    it("waits as always when what the server says of waiting makes no sense", function()
      for _, text in ipairs { "soon", "", "Sun, 99 Nov 2037", "0", "nan", ("x"):rep(1000) } do
        local headers = { ["Retry-After"] = text, ["retry-after-ms"] = text == "0" and "-1" or text }
        assert.are.equal(2, attemptsAfter(503, headers, { retryDelayMs = 1 }), text)
      end
      assert.are.equal(1, attemptsAfter(503, { ["Retry-After"] = ("9"):rep(9) }, { retryDelayMs = 1 }))
    end)

    it("is made after as many milliseconds as the server says", function()
      assert.are.equal(2, attemptsAfter(429, { ["retry-after-ms"] = "20.5", ["Retry-After"] = "3600" }))
      assert.are.equal(1, attemptsAfter(429, { ["retry-after-ms"] = "3600000", ["Retry-After"] = "0" }))
      local took = elapsed(function() attemptsAfter(429, { ["retry-after-ms"] = "300" }, { retryDelayMs = 1 }) end)
      assert.is_true(took >= 0.3, "took " .. took)
    end)

    it("is made after a conflict, and after a request that took too long", function()
      for _, status in ipairs { 408, 409, 429, 500, 502, 503, 504, 529 } do
        assert.are.equal(2, attemptsAfter(status, {}, { retryDelayMs = 1 }), status)
      end
    end)

    it("is made or not as the server says, whatever the error", function()
      assert.are.equal(2, attemptsAfter(400, { ["X-Should-Retry"] = "true" }, { retryDelayMs = 1 }))
      assert.are.equal(1, attemptsAfter(503, { ["x-should-retry"] = "false" }))
      assert.are.equal(1, attemptsAfter(200, { ["x-should-retry"] = "true" }))
      assert.are.equal(2, attemptsAfter(503, { ["x-should-retry"] = "perhaps" }, { retryDelayMs = 1 }))
    end)

    it("leaves the host's random numbers alone", function()
      math.randomseed(42)
      local expected = math.random(1000000)
      math.randomseed(42)
      web:script { ["/a"] = { { status = 500 }, { body = "x" } } }
      fetch "/a"
      assert.are.equal(expected, math.random(1000000))
    end)
  end)

  describe("retryAdvice", function()
    local asked

    -- Fetches with an advice; first come errors that say `reply`.
    local function advised(advice, reply, options)
      asked = {}
      reply.status = reply.status or 429
      web:script { ["/a"] = { reply, { body = "ok" } } }
      options = options or {}
      options.retryAdvice = function(...)
        asked[#asked + 1] = { ... }
        if type(advice) == "function" then return advice(...) end
        return advice
      end
      -- By the clock, the whole of an error would not be waited for on a machine that is very busy.
      local answer
      local waits = server.waitsOf(function() answer = table.pack(fetch("/a", options)) end)
      answer[answer.n + 1] = waits
      return table.unpack(answer, 1, answer.n + 1)
    end

    it("is asked what an error says, and told how long to wait", function()
      local reply = { headers = { ["Retry-After"] = "3600", ["X-A"] = "1" }, body = "later", split = 1 }
      local status, body, _, waits = advised(20, reply)
      assert.are.same({ 200, "ok", 1 }, { status, body, #waits })
      assert.is_near(20, waits[1], 0.001)
      assert.are.equal(1, #asked)
      assert.are.same({ 429, "1", "later" }, { asked[1][1], asked[1][2]["x-a"], asked[1][3] })
    end)

    it("may say that it is pointless: then the error is the answer", function()
      local status, body, job = advised(false, { headers = { ["X-A"] = "1" }, body = "no money" })
      assert.are.same({ 429, "no money", "1", 1 }, { status, body, job.headers["x-a"], job.attempts })
      status, body = advised(61, { body = "tomorrow" })
      assert.are.same({ 429, "tomorrow" }, { status, body })
      assert.are.equal(1, #web:requests())
    end)

    it("may leave it to the headers", function()
      assert.are.equal(200, (advised(nil, { body = "x" })))
      assert.are.equal(429, (advised(nil, { headers = { ["Retry-After"] = "3600" } })))
    end)

    it("is asked only when there may be another attempt", function()
      assert.are.equal(400, (advised(0, { status = 400 })))
      assert.are.equal(429, (advised(0, {}, { attempts = 1 })))
      assert.are.equal(200, (advised(0, { status = 200 })))
      assert.are.same({}, asked)
    end)

    it("is asked with no more than 64 KiB, and the answer is whole all the same", function()
      local text = ("0123456789"):rep(30000)
      local status, body = advised(false, { body = text, split = 50000 })
      assert.are.same({ 429, true, 65536 }, { status, body == text, #asked[1][3] })
    end)

    it("is asked with what there is, when the rest is long in coming or never comes", function()
      web:script { ["/a"] = { { status = 429, body = "12345", hold = 3 }, { body = "ok" } } }
      do
        local clock <close> = support.stopClock()
        local heard
        local job <close> = request("/a", { retryAdvice = function(_, _, text)
          heard = text
          return 0
        end })
        local function step()
          http.poll(0.01)
          job:step()
        end
        support.waitUntil("the first part", function()
          step()
          return job.errorAnswer and job.errorAnswer:body() == "123"
        end)
        clock:advance(1.9)
        for _ = 1, 5 do step() end
        assert.is_nil(heard)
        clock:advance(0.2)
        assert.are.same({ 200, "ok" }, { (job:wait()), (job:collect()) })
        assert.are.equal("123", heard)
      end
      assert.are.equal(200, (advised(0, { body = "12345", split = 1, drop = 3 })))
      assert.are.equal("123", asked[1][3])
    end)

    it("ends the request when it fails, and says why", function()
      for advice, text in pairs {
        [function() error("oh", 0) end] = "retryAdvice: oh", [function() return "soon" end] = "false or nil, got soon",
        [function() return -1 end] = "got -1", [function() return 0 / 0 end] = "nan",
        [function() return true end] = "got true",
      } do
        local status, message, kind = advised(advice, {})
        assert.are.same({ nil, "advice" }, { status, kind })
        assert.is_truthy(message:find(text, 1, true), message)
      end
    end)
  end)

  describe("a time limit", function()
    it("ends a request that is never answered", function()
      web:script { ["/a"] = { hang = true } }
      local status, message, kind
      local took = elapsed(function() status, message, kind = fetch("/a", { timeoutMs = 200 }) end)
      assert.is_nil(status)
      assert.are.equal("timeout", kind)
      assert.is_string(message)
      assert.is_true(took >= 0.19 and took < LONG / 2, "took " .. took)
    end)

    it("ends an answer that never ends", function()
      web:script { ["/a"] = { body = ("x"):rep(1000), split = 1, pause = 0.05 } }
      local job <close> = request("/a", { timeoutMs = 300 })
      local body, message, kind = job:collect()
      assert.is_nil(body)
      assert.is_string(message)
      assert.are.equal("timeout", kind)
    end)

    it("ends a connection on which nothing comes, after the time that was given", function()
      for _, milliseconds in ipairs { 200, 1000 } do
        web:script { ["/a"] = { hang = true } }
        local wanted = milliseconds / 1000
        local status, message, kind
        local took = elapsed(function()
          status, message, kind = fetch("/a", { idleTimeoutMs = milliseconds, attempts = 1 })
        end)
        assert.are.same({ nil, "timeout" }, { status, kind })
        assert.matches(("nothing was sent or received for %d ms"):format(milliseconds), message)
        assert.is_true(took >= wanted - 0.01 and took < LONG / 2, "took " .. took)
      end
    end)

    it("ends an answer that stops coming", function()
      web:script { ["/a"] = { body = "0123456789", hold = 5 } }
      local job <close> = request("/a", { idleTimeoutMs = 300 })
      local body, message, kind
      local took = elapsed(function() body, message, kind = job:collect() end)
      assert.are.same({ nil, "timeout" }, { body, kind })
      assert.is_string(message)
      assert.is_true(took >= 0.29 and took < LONG / 2, "took " .. took)
    end)

    -- Tries it with a limit of some milliseconds, and with longer ones as long as what was awaited
    -- does not come: on a machine that is busy, there may be silence although nobody is silent.
    local function within(try)
      local expected, got
      for _, milliseconds in ipairs { 600, 2400, 9600, 38400 } do
        expected, got = try(milliseconds)
        if expected == got then return end
      end
      assert.are.equal(expected, got)
    end

    it("for silence ends no answer of which something comes now and then", function()
      within(function(milliseconds)
        web:script { ["/a"] = { body = "0123456789abcdef", split = 1, pause = milliseconds / 1000 / 8 } }
        local job <close> = request("/a", { idleTimeoutMs = milliseconds, attempts = 1 })
        local body, message = job:collect()
        return "0123456789abcdef", body or message
      end)
    end)

    it("for silence does not run while nobody reads", function()
      within(function(milliseconds)
        local size = 24 * 1024 * 1024
        web:script { ["/a"] = { body = ("x"):rep(65536), times = size // 65536, split = 65536 } }
        local job <close> = request("/a", { maxUnreadBytes = 65536, idleTimeoutMs = milliseconds, attempts = 1 })
        job:wait()
        core.sleep(1.5 * milliseconds / 1000)
        local body, message = job:collect()
        return size, body and #body or message
      end)
    end)

    local function listen()
      local listener = assert(socket.bind("127.0.0.1", 0))
      return listener, select(2, listener:getsockname())
    end

    -- To a server that reads a megabyte now and then, with so many seconds in between, and then, if
    -- there was more than one, the rest.
    local function upload(pieces, pause, options)
      local listener, port = listen()
      options.url, options.attempts = "http://127.0.0.1:" .. port .. "/", 1
      options.body = ("x"):rep(16 * 1024 * 1024)
      local job <close> = http.request(options)
      local connection = assert(listener:accept())
      local isThere = true
      for _ = 1, pieces do
        isThere = isThere and connection:receive(1024 * 1024)
        core.sleep(pause)
      end
      if pieces > 1 and isThere and connection:receive(#options.body - pieces * 1024 * 1024) then
        connection:send "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
      end
      local status, message, kind = job:wait()
      connection:close()
      listener:close()
      return status, message, kind
    end

    it("for silence takes into account what is sent", function()
      within(function(milliseconds)
        local status, message = upload(12, milliseconds / 1000 / 8, { idleTimeoutMs = milliseconds })
        return 200, status or message
      end)
      local status, _, kind = upload(1, 0, { idleTimeoutMs = 300 })
      assert.are.same({ nil, "timeout" }, { status, kind })
    end)

    -- Requests that begin together wait for one connection, which is never secured: nobody accepts
    -- it, the system does that for the server.
    it("for connecting, and for everything, is that of each request", function()
      local listener, port = listen()
      finally(function() listener:close() end)
      for _, limit in ipairs { "connectTimeoutMs", "timeoutMs" } do
        local jobs, begin = {}, core.monotonic()
        -- One after the other, they would take 90 s.
        for number = 1, 300 do
          jobs[number] = http.request {
            url = ("https://127.0.0.1:%d/"):format(port), attempts = 1, idleTimeoutMs = 100, [limit] = 300,
          }
        end
        for _, job in ipairs(jobs) do
          local status, message, kind = job:wait()
          assert.are.same({ nil, "timeout" }, { status, kind }, message)
          assert.is_true(core.monotonic() - begin >= 0.29)
        end
        assert.is_true(core.monotonic() - begin < 60)
      end
    end)
  end)

  describe("a redirection", function()
    local function secrets()
      return { Authorization = "Bearer secret-1", ["x-api-key"] = "secret-2", ["X-Goog-Api-Key"] = "secret-3" }
    end

    it("is followed on the same server with everything", function()
      web:script { ["/a"] = { status = 307, headers = { Location = "/b" } }, ["/b"] = { body = "there" } }
      local status, body = fetch("/a", { body = "text", headers = secrets() })
      assert.are.same({ 200, "there" }, { status, body })
      local sent = web:requests()[2]
      assert.are.same({ "POST", "text", "secret-2" }, { sent.method, sent.body, sent.headers["x-api-key"] })
    end)

    it("tells another host no secrets", function()
      local other = server.start()
      finally(function() other:stop() end)
      other:script { ["/b"] = { body = "there" } }
      web:script { ["/a"] = { status = 307, headers = { Location = other.url .. "/b" } } }
      assert.are.equal(200, (fetch("/a", { body = "text", headers = secrets() })))
      local text = moonpad.json.encode(other:requests())
      assert.is_nil(text:find("secret", 1, true))
      assert.is_truthy(text:find("text", 1, true))
    end)

    it("makes a GET of a POST where the standard says so", function()
      web:script { ["/a"] = { status = 302, headers = { Location = "/b" } }, ["/b"] = { body = "there" } }
      assert.are.equal(200, (fetch("/a", { body = "text" })))
      local sent = web:requests()[2]
      assert.are.same({ "GET", "" }, { sent.method, sent.body })
    end)

    it("may say something on the way", function()
      web:script {
        ["/a"] = { status = 307, headers = { Location = "/b" }, body = ("x"):rep(65536), times = 40, split = 65536 },
        ["/b"] = { body = "there" },
      }
      assert.are.equal("there", select(2, fetch("/a", { maxUnreadBytes = 1000 })))
    end)

    it("to another scheme is refused", function()
      for _, target in ipairs { "https://localhost:1/", "file:///etc/passwd", "ftp://127.0.0.1/" } do
        web:script { ["/a"] = { status = 302, headers = { Location = target } } }
        local status, message, kind = fetch "/a"
        assert.are.same({ nil, "redirect" }, { status, kind })
        assert.is_truthy(message:find("refused", 1, true))
      end
    end)

    it("from http to https is followed on the same host, with secrets only from port 80 to 443", function()
      local redirect = require "moonpad.http.redirect"
      local function follow(from, to)
        local plan = { url = from, headers = { authorization = "secret", accept = "text/html" }, method = "GET" }
        local problem = redirect.follow(plan, 301, to)
        if problem then return assert(problem:find("refused", 1, true)) and "refused" end
        assert.are.same({ to, "text/html" }, { plan.url, plan.headers.accept })
        return plan.headers.authorization or "without"
      end
      for _, case in ipairs {
        { "http://example.com/a", "https://example.com/a", "secret" },
        { "http://example.com:80/", "https://EXAMPLE.com:443/", "secret" },
        { "http://h1/", "https://h1/", "secret" }, { "http://127.0.0.1/", "https://127.0.0.1/", "secret" },
        { "http://[::1]/", "https://[::1]/", "secret" }, { "http://[::1]:81/", "http://[::1]:82/", "without" },
        { "http://h:8080/", "https://h:8080/", "secret" }, { "http://h:8080/", "https://h/", "without" },
        { "http://h/", "https://h:8443/", "without" }, { "http://h:8080/", "https://h:8443/", "without" },
        { "http://h/", "https://www.h/", "refused" }, { "http://h1/", "https://h/", "refused" },
        { "http://h/", "https://h.evil/", "refused" }, { "http://h/", "https://h@evil/", "refused" },
        { "https://h/", "http://h/", "refused" }, { "https://h:443/", "http://h:443/", "refused" },
      } do
        assert.are.equal(case[3], follow(case[1], case[2]), case[1] .. " to " .. case[2])
      end
      -- Nobody answers there, but it was tried.
      web:script { ["/a"] = { status = 301, headers = { Location = "https://127.0.0.1:1/" } } }
      local status, _, kind = fetch("/a", { attempts = 1 })
      assert.are.same({ nil, "connect" }, { status, kind })
    end)

    it("in a circle ends", function()
      web:script { ["/a"] = { status = 302, headers = { Location = "/a" } } }
      local status, message = fetch "/a"
      assert.is_nil(status)
      assert.is_truthy(message:find("more than 5 times", 1, true))
    end)
  end)

  describe("breaking off", function()
    local function assertClosed()
      support.waitUntil("the end of the connection", function() return web:requests()[1].closed end)
    end

    local function hang()
      web:script { ["/a"] = { hang = true } }
      local job = request "/a"
      while #web:requests() == 0 do
        job:step()
        http.poll(0.01)
      end
      return job
    end

    it("closes the connection", function()
      local job = hang()
      job:close()
      job:close()
      assertClosed()
      assert.are.same({ nil, "closed" }, { (job:wait()), (select(3, job:wait())) })
      assert.is_nil(job:read())
      assert.is_false(job:step())
    end)

    it("happens to a job that nobody holds any more", function()
      hang()
      collectgarbage()
      collectgarbage()
      assertClosed()
      assert.are.equal(0, http.active())
    end)
  end)

  describe("options", function()
    local function refused(options)
      local ok, err = pcall(http.request, options)
      assert.is_false(ok)
      assert.are.equal("invalid_argument", err.code)
      return err.message
    end

    it("are checked, and keys are not quoted", function()
      assert.is_truthy(refused({ url = "http://x/", timeoutMS = 1 }):find("timeoutMs", 1, true))
      assert.is_truthy(refused({}):find("url", 1, true))
      for _, url in ipairs { "ftp://x/", "file:///etc/passwd", "http://", "x", "http://a b/", "http://a/\n" } do
        refused { url = url }
      end
      refused { url = "http://x/", timeoutMs = -1 }
      refused { url = "http://x/", timeoutMs = 1.5 }
      refused { url = "http://x/", attempts = 0 }
      refused { url = "http://x/", method = "GET /" }
      refused { url = "http://x/", headers = { ["a b"] = "c" } }
      local message = refused { url = "http://x/", headers = { Authorization = "Bearer secret\r\nX: y" } }
      assert.is_nil(message:find("secret", 1, true))
      refused { url = "http://x/", headers = { a = 1 } }
      for body, text in pairs {
        [5] = "body: expected a string", [{ "a", 5 }] = "body[2]: expected a string", [{ a = "b" }] = "body: expected",
        [{ "a", nil, "b" }] = "body: expected a list of strings",
      } do
        assert.is_truthy(refused({ url = "http://x/", body = body }):find(text, 1, true))
      end
      refused(nil)
      assert.has_error(function() http.poll "1" end)
    end)
  end)

  describe("a program", function()
    local function lua(code, environment)
      local command = ("%s lua5.4 -e %s 2>&1"):format(environment or "", support.quote(code))
      local pipe = assert(io.popen(command))
      local text = pipe:read "a"
      pipe:close()
      return text
    end

    local PATHS = ("package.path, package.cpath = %q, %q; "):format(package.path, package.cpath)

    it("is told when the module is not there, and can wait for others", function()
      local text = lua(PATHS .. [[
        collectgarbage "stop"
        package.preload["moonpad.http_core"] = function() error "no libcurl here" end
        local http = require "moonpad.http"
        local _, err = pcall(http.request, { url = "http://x/" })
        print(err.code, err.message)
        print(http.poll(0), http.active())]])
      assert.is_truthy(text:find("^unsupported\t"))
      assert.is_truthy(text:find("moonpad.http_core", 1, true))
      assert.is_truthy(text:find "\nfalse\t0\n$")
    end)

    it("does not need it to run agents without HTTP", function()
      assert.are.equal("nil\n", lua(PATHS .. [[
        local moonpad = require "moonpad"
        moonpad.agent { name = "a", model = moonpad.models.scripted { "hi" } }
        print(package.loaded["moonpad.http_core"])]]))
    end)

    it("goes through the proxy of its environment, save to hosts that need none", function()
      web:script {
        ["http://example.invalid/a"] = { body = "by the proxy" }, ["/a"] = { body = "from the host" },
      }
      local function fetchFrom(url)
        return lua(PATHS .. ([[
          local job = require("moonpad.http").request { url = "%s", attempts = 1 }
          print(job:wait(), (job:collect()))]]):format(url), "no_proxy=127.0.0.1 NO_PROXY= http_proxy=" .. web.url)
      end
      assert.are.equal("200\tby the proxy\n", fetchFrom "http://example.invalid/a")
      assert.are.equal("200\tfrom the host\n", fetchFrom(web.url .. "/a"))
    end)

    it("is never told the password of a proxy", function()
      for _, proxy in ipairs { "foo://user:secret@localhost:1", "http://user:secret@localhost:1", "user:secret@[::" } do
        local text = lua(PATHS .. [[
          local http = require "moonpad.http"
          print(http.request({ url = "http://example.invalid/", attempts = 1 }):wait())]], "http_proxy=" .. proxy)
        assert.is_truthy(text:find "^nil")
        assert.is_nil(text:find("secret", 1, true))
      end
    end)

    it("may end in the middle of requests, in Lua states that come and go", function()
      assert.are.equal("ok\n", lua(PATHS .. ([[
        local http = require "moonpad.http"
        held = {}
        for i = 1, 5 do held[i] = http.request { url = "http://127.0.0.1:%d/nothing" } end
        http.poll(0)
        print "ok"]]):format(web.port)))
    end)
  end)
end)
