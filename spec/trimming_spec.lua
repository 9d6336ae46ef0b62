-- Trimming (contract 5): maxEvents and eventTtlSeconds delete the oldest turns.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local raises = checks.raises
local WHO <const> = { appName = "app", userId = "u", sessionId = "s" }
local START <const> = 1000

local function message(text, fields)
  local event = { author = "user", content = { role = "user", parts = { { text = text } } } }
  for key, value in pairs(fields or {}) do event[key] = value end
  return event
end

local function says(text, fields)
  local event = message(text, fields)
  event.author, event.content.role = "bot", "model"
  return event
end

local function textsOf(session)
  local texts = {}
  for _, event in ipairs(session.events) do texts[#texts + 1] = event:text() end
  return table.concat(texts, " ")
end

describe("trimming", function()
  support.each_store(function(open, store)
    local clock, service, session

    local function start(config)
      clock = testing.clock(START)
      config.clock = clock
      service = open(config)
      session = service:createSession { appName = "app", userId = "u", sessionId = "s", state = { base = 0 } }
    end

    local function stored() return textsOf(service:getSession(WHO)) end
    local function append(event) return service:appendEvent(session, event) end

    -- A turn of so many events, in one invocation.
    local function turn(name, count)
      append(message(name .. 1, { invocationId = name, actions = { stateDelta = { [name] = 1 } } }))
      for i = 2, count do
        local delta = { last = name .. i }
        append(says(name .. i, { invocationId = name, actions = { stateDelta = delta } }))
      end
    end

    it("deletes the oldest turns until at most so many events remain", function()
      start { maxEvents = 6 }
      turn("a", 3)
      turn("b", 3)
      assert.equal("a1 a2 a3 b1 b2 b3", stored())
      append(message("c1", { invocationId = "c" }))
      assert.equal("b1 b2 b3 c1", stored())
      append(says("c2", { invocationId = "c" }))
      assert.equal("b1 b2 b3 c1 c2", stored())
      turn("d", 4)
      assert.equal("c1 c2 d1 d2 d3 d4", stored())
      turn("e", 1)
      turn("f", 1)
      assert.equal("d1 d2 d3 d4 e1 f1", stored())
    end)

    it("leaves the newest turn, however long", function()
      start { maxEvents = 2 }
      turn("a", 5)
      assert.equal("a1 a2 a3 a4 a5", stored())
      turn("b", 3)
      assert.equal("b1 b2 b3", stored())
      turn("c", 300)
      assert.equal(300, #service:getSession(WHO).events)
      turn("d", 1)
      assert.equal("d1", stored())
    end)

    it("is off where it is 0", function()
      start { maxEvents = 0, eventTtlSeconds = 0 }
      for i = 1, 50 do turn("t" .. i, 1) end
      clock:advance(1e9)
      turn("last", 1)
      assert.equal(51, #service:getSession(WHO).events)
    end)

    it("takes an invocation without a message of the user for a part of the turn before it", function()
      start { maxEvents = 3 }
      turn("a", 2)
      session.state.x = 1
      service:updateSession(session)
      append(says "on its own")
      turn("b", 1)
      assert.equal("b1", stored())
      append(says "greeting")
      session.state.x = 2
      service:updateSession(session)
      assert.equal("b1 greeting ", stored())
      session.state.x = 3
      service:updateSession(session)
      assert.equal("b1 greeting  ", stored())
    end)

    it("takes what was said before the first message for a turn", function()
      start { maxEvents = 2 }
      append(says "hello")
      append(says "again")
      turn("a", 1)
      assert.equal("a1", stored())
    end)

    it("never parts a call from its response, nor an answer from its call", function()
      start { maxEvents = 3 }
      local call = { id = "c", name = "ask", args = {} }
      append(message("a1", { invocationId = "a" }))
      append { author = "bot", invocationId = "a", longRunningToolIds = { "c" },
        content = { role = "model", parts = { { functionCall = call } } } }
      append { author = "user", invocationId = "b", content = { role = "user",
        parts = { { functionResponse = { id = "c", name = "ask", response = { ok = true } } } } } }
      append(says("b2", { invocationId = "b" }))
      assert.equal(4, #service:getSession(WHO).events)
      turn("c", 1)
      assert.equal("c1", stored())
    end)

    it("takes invocations that overlap for one turn", function()
      start { maxEvents = 4 }
      append(message("a1", { invocationId = "a" }))
      append(message("b1", { invocationId = "b" }))
      append(says("a2", { invocationId = "a" }))
      append(says("b2", { invocationId = "b" }))
      append(says("b3", { invocationId = "b" }))
      assert.equal("a1 b1 a2 b2 b3", stored())
      turn("c", 2)
      assert.equal("c1 c2", stored())
    end)

    it("deletes turns whose last event is older than eventTtlSeconds", function()
      start { eventTtlSeconds = 100 }
      turn("a", 2)
      clock:advance(60)
      append(says("a3", { invocationId = "a" }))
      turn("b", 1)
      clock:advance(100)
      turn("c", 1)
      assert.equal("a1 a2 a3 b1 c1", stored())
      clock:advance(0.5)
      turn("d", 1)
      assert.equal("c1 d1", stored())
      clock:advance(1000)
      assert.equal("c1 d1", stored())
      append(says("d2", { invocationId = "d" }))
      assert.equal("d1 d2", stored())
    end)

    it("goes by the timestamps of events", function()
      start { eventTtlSeconds = 100 }
      append(message("a", { timestamp = START - 101 }))
      append(message("b", { timestamp = START - 100 }))
      append(message("c", { timestamp = START - 500 }))
      append(message "d")
      assert.equal("b c d", stored())
    end)

    it("finds the end of a long turn", function()
      start { eventTtlSeconds = 100 }
      turn("a", 200)
      clock:advance(101)
      turn("b", 1)
      assert.equal("b1", stored())
    end)

    it("joins both limits", function()
      start { maxEvents = 3, eventTtlSeconds = 100 }
      turn("a", 1)
      clock:advance(101)
      turn("b", 1)
      assert.equal("b1", stored())
      for name in ("cde"):gmatch "." do turn(name, 1) end
      assert.equal("c1 d1 e1", stored())
    end)

    it("leaves state, counts and revisions as they are", function()
      start { maxEvents = 2 }
      for name in ("abcd"):gmatch "." do turn(name, 2) end
      local found = service:getSession(WHO)
      assert.same({ base = 0, a = 1, b = 1, c = 1, d = 1, last = "d2" }, found.state:toTable())
      assert.equal(8, found.revision)
      assert.equal(4, found.conversationCount)
      assert.equal(7, found.events[1].revision)
      assert.equal(8, session.revision)
    end)

    it("moves the base state along, so that stateAt, fork and rewind are exact", function()
      start { maxEvents = 4 }
      append(message("x", { actions = { stateDelta = { gone = 1, base = moonpad.removed } } }))
      append(message("y", { actions = { stateDelta = { gone = moonpad.removed, kept = { 1, 2 } } } }))
      for name in ("abc"):gmatch "." do turn(name, 2) end
      assert.equal("b1 b2 c1 c2", stored())
      raises("not_found", "revisions 4 to 8", service.stateAt, service, session, 3)
      raises("not_found", "revisions 4 to 8", service.fork, service, session, { at = 3 })
      raises("not_found", "revisions 4 to 8", service.rewind, service, session, { revision = 3 })
      raises("not_found", "no event of invocation", service.rewind, service, session, { invocationId = "a" })
      assert.same({ a = 1, kept = { 1, 2 }, last = "a2" }, service:stateAt(session, 4))
      assert.same({ a = 1, b = 1, kept = { 1, 2 }, last = "a2" }, service:stateAt(session, 5))
      local forked = service:fork(session, { at = 6 })
      assert.equal("b1 b2", textsOf(forked))
      assert.same({ a = 1, b = 1, kept = { 1, 2 }, last = "b2" }, forked.state:toTable())
      assert.same({ a = 1, kept = { 1, 2 }, last = "a2" }, service:stateAt(forked, 4))
      assert.equal(4, forked.conversationCount)
      service:rewind(session, { invocationId = "b" })
      assert.same({ a = 1, kept = { 1, 2 }, last = "a2" }, session.state:toTable())
    end)

    it("is exported and imported as it is", function()
      start { maxEvents = 2 }
      for name in ("abc"):gmatch "." do turn(name, 2) end
      local lines = {}
      for line in service:export(session) do lines[#lines + 1] = line end
      local copy = service:import { lines = lines, sessionId = "copy" }
      assert.equal("c1 c2", textsOf(copy))
      assert.same(session.state:toTable(), copy.state:toTable())
      assert.same(service:stateAt(session, 4), service:stateAt(copy, 4))
      raises("not_found", "revisions 4 to 6", service.stateAt, service, copy, 3)
    end)

    it("makes an id that was trimmed unknown again", function()
      start { maxEvents = 1 }
      append(message("a", { id = "e" }))
      append(message "b")
      local again = append(message("c", { id = "e" }))
      assert.equal(3, again.revision)
      assert.equal("c", stored())
    end)

    -- Objects that know how far it is trimmed, by an append of their own, and have not read before.
    it("does not look for events that are gone, however many they are", function()
      for count = 1, 45 do
        start { maxEvents = 2 }
        local first = service:createSession { appName = "app", userId = "u", sessionId = "o" .. count }
        local last = service:getSession { appName = "app", userId = "u", sessionId = "o" .. count }
        for n = 1, count do
          service:appendEvent(first, message("m" .. n, { invocationId = "i" .. n }))
        end
        service:appendEvent(last, message("last", { invocationId = "last" }))
        for _, object in ipairs { first, last } do
          for index = 1, count - 1 do
            raises("not_found", ("event %d of this session is not stored any more"):format(index),
              function() return object.events[index] end)
          end
          assert.equal("m" .. count, object.events[count]:text())
        end
      end
    end)

    it("lets open session objects go on working", function()
      start { maxEvents = 3 }
      turn("a", 2)
      local old, unread = service:getSession(WHO), service:getSession(WHO)
      assert.equal("a1", old.events[1]:text())
      for name in ("bcd"):gmatch "." do turn(name, 2) end
      assert.equal("a1", old.events[1]:text())
      assert.equal(2, #unread.events)
      raises("not_found", "event 1 of this session is not stored any more", function() return unread.events[1] end)
      service:appendEvent(unread, message "e1")
      assert.equal(9, #unread.events)
      assert.equal("e1", unread.events[9]:text())
      raises("not_found", "not stored any more", function() return unread.events[3] end)
      service:refresh(old)
      assert.equal("e1", old.events[9]:text())
      assert.equal("d1 d2 e1", stored())
    end)

    it("does not happen for views", function()
      start {}
      for name in ("abc"):gmatch "." do turn(name, 2) end
      local view = service:getSession { appName = "app", userId = "u", sessionId = "s", numRecentEvents = 1 }
      service:appendEvent(view, message "d1")
      service:getSession { appName = "app", userId = "u", sessionId = "s", afterTimestamp = START + 1 }
      assert.equal(7, #service:getSession(WHO).events)
    end)

    it("happens with asynchronous appends as well", function()
      start { maxEvents = 4 }
      local pending
      for i = 1, 20 do
        pending = service:appendEventAsync(session, message("m" .. i, { actions = { stateDelta = { n = i } } }))
      end
      while not pending:result() do service:poll(1) end
      assert.equal("m17 m18 m19 m20", stored())
      assert.same({ base = 0, n = 16 }, service:stateAt(session, 16))
    end)

    it("goes on over several appends where very many are too many", function()
      if store == "memory:" then return end
      local path = support.tmpdir() .. "/many.db"
      local before <close> = moonpad.open("sqlite:" .. path, { durability = "normal" })
      local many = before:createSession(WHO)
      for i = 1, 3000 do before:appendEventAsync(many, message("m" .. i)) end
      while before:poll(1) > 0 do end
      local after <close> = moonpad.open("sqlite:" .. path, { maxEvents = 10 })
      local opened = after:getSession(WHO)
      local appends = 0
      repeat
        after:appendEvent(opened, message("n"))
        appends = appends + 1
        local count = #after:getSession(WHO).events
      until count == 10
      assert.is_true(appends <= 4)
    end)

    it("is also done by a sweep, by the time of the turns alone", function()
      start { eventTtlSeconds = 100, maxEvents = 100 }
      turn("a", 2)
      local other = service:createSession { appName = "other", userId = "u2", sessionId = "s2" }
      service:appendEvent(other, message "x")
      service:appendEvent(other, message "y")
      clock:advance(50)
      turn("b", 2)
      clock:advance(51)
      assert.same({ sessions = 0, users = 0, apps = 0, events = 3 }, service:sweep())
      assert.equal("b1 b2", stored())
      assert.equal("y", textsOf(service:getSession { appName = "other", userId = "u2", sessionId = "s2" }))
      assert.same({ sessions = 0, users = 0, apps = 0, events = 0 }, service:sweep())
      assert.same({ base = 0, a = 1, last = "a2" }, service:stateAt(session, 2))
    end)

    it("leaves a run what it needs", function()
      start { maxEvents = 4 }
      local runner = moonpad.runner { appName = "app", sessionService = service,
        agent = moonpad.agent { name = "bot", model = testing.scriptedModel {
          moonpad.functionCall("look", {}), "one", moonpad.functionCall("look", {}), "two", "three" },
          tools = { moonpad.tool { name = "look", run = function(_, context)
            context.state.looked = (context.state.looked or 0) + 1
            return "ok"
          end } } } }
      assert.equal("one", (runner:ask { userId = "u", sessionId = "s", newMessage = "m1" }))
      assert.equal("two", (runner:ask { userId = "u", sessionId = "s", newMessage = "m2" }))
      assert.equal("m2   two", stored())
      assert.equal("three", (runner:ask { userId = "u", sessionId = "s", newMessage = "m3" }))
      assert.equal("m3 three", stored())
      assert.equal(2, service:getSession(WHO).state.looked)
    end)
  end)

  it("is refused where it is no number of events", function()
    for _, wrong in ipairs { -1, 1.5, "10" } do
      raises("invalid_argument", "maxEvents", moonpad.open, "memory:", { maxEvents = wrong })
    end
  end)
end)
