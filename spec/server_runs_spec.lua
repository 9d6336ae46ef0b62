-- moonpad.server: runs over HTTP, their streams, and how they end.
local moonpad = require "moonpad"
local serving = require "spec.support.serving"
local support = require "spec.support"

local KEY <const> = "sk-abcdefghijklmnopqrstuvwxyz123456"

local server, service, cancelled

local tools = {
  note = moonpad.tool {
    name = "note", description = "Saves a file", parameters = { type = "object", properties = {} },
    run = function(_, context) return { version = context:saveArtifact("note.txt", "words") } end,
  },
  pay = moonpad.tool {
    name = "pay", description = "Pays", parameters = { type = "object", properties = {} }, requireConfirmation = true,
    run = function() return { paid = true } end,
  },
}

local function words(list, seconds)
  local index = 0
  return function()
    index = index + 1
    if seconds then moonpad.sleep(seconds) end
    return list[index] and list[index] .. " "
  end
end

local function waitForEver()
  local _ <close> = setmetatable({}, { __close = function() cancelled = cancelled + 1 end })
  while true do moonpad.sleep(1000) end
end

local function model(request)
  local part = request.contents[#request.contents].parts[1]
  if part.functionResponse then return "after " .. part.functionResponse.name end
  if tools[part.text] then return moonpad.functionCall(part.text, {}) end
  if part.text == "stream" then return words({ "one", "two", "three" }, 0.01) end
  if part.text == "fail" then error({ code = "model", message = "the key " .. KEY .. " is bad" }) end
  if part.text == "fail late" then
    local next = words { "begun" }
    return function() return next() or error("broke off", 0) end
  end
  if part.text == "hang" then waitForEver() end
  if part.text == "yield" then
    for _ = 1, 3 do coroutine.yield() end
    return "yielded"
  end
  if part.text == "large" then return ("x"):rep(1000000) end
  return "You said: " .. tostring(part.text)
end

local RUN <const> = { appName = "shop", userId = "ann", sessionId = "s" }

local function body(text, more)
  local made = { newMessage = { role = "user", parts = { { text = text } } } }
  for name, value in pairs(RUN) do made[name] = value end
  for name, value in pairs(more or {}) do made[name] = value end
  return made
end

local function stored()
  return service:getSession { appName = "shop", userId = "ann", sessionId = "s" }
end

-- A request over a connection of its own, which can be left.
local function leavable(path, text)
  local client, json = server:connect(), moonpad.json.encode(body(text))
  client:send(("POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: %d\r\n\r\n%s"):format(path,
    server.server.port, #json, json))
  return client
end

-- The stream of a message, as events.
local function stream(text, more)
  local answer = server:request("POST", "/run_sse", body(text, more))
  assert.are.equal(200, answer.status, answer.body)
  assert.are.equal("text/event-stream", answer.headers["content-type"])
  return serving.events(answer.body), answer.body
end

for _, url in ipairs { "memory:", "sqlite:" } do
  describe("runs over HTTP on " .. url, function()
    before_each(function()
      cancelled = 0
      local path = url == "sqlite:" and url .. support.tmpdir() .. "/s.db" or url
      service = moonpad.open(path)
      server = serving.start { apps = { shop = moonpad.runner {
        appName = "shop", sessionService = service, artifactService = moonpad.artifactService(path),
        agent = moonpad.agent { name = "clerk", model = model, tools = { tools.note, tools.pay } },
      } } }
      server:request("POST", "/apps/shop/users/ann/sessions/s", {})
    end)

    after_each(function()
      server:close()
      service:close()
      support.cleanup()
    end)

    it("answer with their events, without the user's own", function()
      local answer = server:request("POST", "/run", body "hello")
      assert.are.equal(1, #answer.json)
      assert.are.equal("You said: hello", answer.json[1].content.parts[1].text)
      assert.are.equal(2, #stored().events)
    end)

    it("take names in snake_case, a delta of the state and files", function()
      server:request("POST", "/run", {
        app_name = "shop", user_id = "ann", session_id = "s", state_delta = { mood = "good", ["user:x"] = 1 },
        new_message = { role = "user", parts = { { text = "see" }, { inline_data = {
          mime_type = "text/plain", data = moonpad.base64.encode "bytes", display_name = "a.txt",
        } } } },
      })
      local event = stored().events[1]
      assert.are.same({ mood = "good", ["user:x"] = 1 }, event.actions.stateDelta)
      assert.are.same({ "text/plain", "a.txt" },
        { event.content.parts[2].inlineData.mimeType, event.content.parts[2].inlineData.displayName })
    end)

    it("need a session, and say of a bad message what is wrong", function()
      assert.are.equal(404, server:request("POST", "/run", body("hi", { sessionId = "nope" })).status)
      assert.are.equal(404, server:request("POST", "/run_sse", body("hi", { sessionId = "nope" })).status)
      local bad = server:request("POST", "/run", body(nil, { newMessage = { parts = {} } }))
      assert.are.equal(400, bad.status, bad.body)
      assert.are.equal(0, #stored().events)
    end)

    it("stream each event as one line of data", function()
      local events, text = stream("stream", { streaming = true })
      assert.are.same({ "one ", "two ", "three ", "one two three " }, {
        events[1].content.parts[1].text, events[2].content.parts[1].text, events[3].content.parts[1].text,
        events[4].content.parts[1].text,
      })
      assert.are.same({ true, true, true }, { events[1].partial, events[2].partial, events[3].partial })
      assert.is_nil(events[4].partial)
      assert.are.equal(4, select(2, text:gsub("data: [^\n]*\n\n", "")))
      assert.are.equal("", (text:gsub("data: [^\n]*\n\n", "")))
      -- What is not streamed comes whole.
      assert.are.equal(1, #stream("stream", { streaming = false }))
    end)

    it("send what has words and files in two", function()
      local events = stream "note"
      local answered = {}
      for _, event in ipairs(events) do
        if next(event.actions.artifactDelta or {}) then answered[#answered + 1] = event end
      end
      assert.are.equal(1, #answered)
      assert.is_nil(answered[1].content)
      assert.are.equal(0, answered[1].actions.artifactDelta["note.txt"])
    end)

    it("ask for a confirmation, and go on with the answer", function()
      local events = stream "pay"
      local call
      for _, event in ipairs(events) do
        for _, part in ipairs(event.content and event.content.parts or {}) do
          local asked = part.functionCall
          if asked and asked.name == "adk_request_confirmation" then call = asked end
        end
      end
      local response = { id = call.id, name = call.name, response = { confirmed = true } }
      local answer = body(nil, {
        functionCallEventId = "e", newMessage = { role = "user", parts = { { functionResponse = response } } },
      })
      local told = server:request("POST", "/run_sse", answer).body
      assert.is_truthy(told:find('"paid":true', 1, true))
      assert.is_truthy(told:find "after pay")
    end)

    it("that fail are 500, and in a stream an event; no key is in either", function()
      local answer = server:request("POST", "/run", body "fail")
      assert.are.equal(500, answer.status)
      assert.is_truthy(answer.json.error:find "is bad")
      assert.is_nil(answer.body:find "sk%-abc")
      local events = stream "fail"
      assert.is_truthy(events[#events].error:find "is bad")
      local late = stream("fail late", { streaming = true })
      assert.are.equal("begun ", late[1].content.parts[1].text)
      assert.is_truthy(late[#late].error:find "broke off")
      assert.is_true(#server.errors >= 3)
    end)

    it("of models that yield by themselves go on", function()
      assert.are.equal("yielded", stream("yield")[1].content.parts[1].text)
    end)

    for _, path in ipairs { "/run", "/run_sse" } do
      it("are cancelled by the client's leaving: " .. path, function()
        local client = leavable(path, "hang")
        server:waitUntil(function() return #stored().events == 1 end)
        for _ = 1, 20 do server.server:step(0.002) end
        client:close()
        server:waitUntil(function() return cancelled == 1 end)
        -- The session can be used at once.
        assert.are.equal("You said: next", stream("next")[1].content.parts[1].text)
        assert.are.same({}, server.errors)
      end)
    end

    it("on one session queue, those on others do not wait", function()
      server:request("POST", "/apps/shop/users/ann/sessions/other", {})
      local hanging = leavable("/run", "hang")
      server:waitUntil(function() return #stored().events == 1 end)
      local queued = server:begin("POST", "/run", body "queued")
      assert.are.equal(200, server:request("POST", "/run", body("hi", { sessionId = "other" })).status)
      assert.is_false((queued:poll()))
      hanging:close()
      local answer = server:waitUntil(function()
        local isDone, answer = queued:poll()
        return isDone and answer
      end)
      assert.are.equal(200, answer.status)
    end)

    it("of a client that does not read are held, and cancelled with it", function()
      local client = leavable("/run_sse", "large")
      client.socket:setoption("linger", { on = true, timeout = 0 })
      server:waitUntil(function() return #stored().events == 2 end)
      for _ = 1, 20 do server.server:step(0.002) end
      client:close()
      assert.are.equal("You said: next", stream("next")[1].content.parts[1].text)
    end)

    it("that are under way when it is closed get their time, and no more", function()
      local job = server:begin("POST", "/run_sse", body("stream", { streaming = true }))
      server:waitUntil(function() return #stored().events == 1 end)
      server.server:close(30)
      support.waitUntil("the answer", function() return (job:poll()) end)
      assert.are.equal("one two three ", stored().events[2].content.parts[1].text)
    end)

    it("that do not end in time are cancelled", function()
      local client = leavable("/run", "hang")
      server:waitUntil(function() return #stored().events == 1 end)
      for _ = 1, 20 do server.server:step(0.002) end
      server.server:close(0.05)
      client:close()
      assert.are.equal(1, cancelled)
      assert.are.equal(1, #stored().events)
    end)
  end)
end
