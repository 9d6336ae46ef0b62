-- What rewinds took back: neither prompts nor the memory nor the command's /rewind show it, however
-- much of the history is in view.
local history = require "moonpad.flow.history"
local moonpad = require "moonpad"
local support = require "spec.support"

-- A model that keeps what it was told: the texts of each request.
local function listener()
  local model = { told = {} }
  function model:generate(request)
    local texts = {}
    for _, content in ipairs(request.contents) do
      for _, part in ipairs(content.parts) do texts[#texts + 1] = part.text end
    end
    self.told = texts
    return "ok"
  end
  return model
end

support.each_store(function(open)
  local service
  before_each(function() service = open() end)

  -- A session with two events in each turn (messages "a" to "z", answers in capitals); "-a" rewinds
  -- to before turn "a", "-2" to after revision 2.
  local function sessionWith(turns)
    local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
    for turn in turns:gmatch "%S+" do
      local target = turn:match "^%-(.+)"
      if target then
        local revision = math.tointeger(tonumber(target))
        service:rewind(session, revision and { revision = revision } or { invocationId = target })
      else
        service:appendEvent(session, { author = "user", invocationId = turn,
          content = { role = "user", parts = { { text = turn } } } })
        service:appendEvent(session, { author = "A", invocationId = turn,
          content = { role = "model", parts = { { text = turn:upper() } } } })
      end
    end
    return session
  end

  -- What a model is told when the run sees so many events; without the new message.
  local function told(window)
    local model = listener()
    local agent = moonpad.agent { name = "A", model = model }
    local fork = "copy" .. tostring(window)
    service:fork(support.stored(service), { at = support.stored(service).revision, sessionId = fork })
    support.run(moonpad.runner { appName = "app", agent = agent, sessionService = service },
      { userId = "u", sessionId = fork, newMessage = "now", numRecentEvents = window })
    assert.equal("now", table.remove(model.told))
    return table.concat(model.told, " ")
  end

  describe("a prompt", function()
    it("shows no rewound turn where the one rewound to lies before what the run sees", function()
      sessionWith "a b c d -b e"
      assert.equal("a A e E", told())
      for window = 0, 12 do
        local expected = ({ [0] = "", "E", "e E" })[window] or window < 10 and "e E" or window == 10 and "A e E"
        assert.equal(expected or "a A e E", told(window), "with " .. window .. " events")
      end
    end)

    for turns, expected in pairs {
      ["a b -b c -c d"] = "a A d D",
      ["a b c -c -b d"] = "a A d D",
      ["a b c -b d -a e"] = "e E",
      -- The second rewind takes the first one back, for its target was rewound: "b" counts again.
      ["a b c -b d -c e"] = "a A b B e E",
      ["a b -a c -b d"] = "a A d D",
      ["a b -b"] = "a A",
      ["a b c -2 d"] = "a A d D",
      ["a b c -3 d"] = "a A b d D",
      ["a b -0 c"] = "c C",
      ["a b -4 c"] = "a A b B c C",
      ["a b -2 c -4 d"] = "a A b B d D",
      ["a b -b c -5 d"] = "a A d D",
      ["a b -2 c -b d"] = "a A d D",
      ["a b -1 c -0"] = "",
    } do
      it("of " .. turns .. " is the end of what it is in full, however much the run sees", function()
        local session = sessionWith(turns)
        assert.equal(expected, told())
        local count = #session.events
        local kept = history.kept(history.ofEvents(session.events))
        for window = 0, count do
          local texts = {}
          for index = count - window + 1, count do
            if kept[index] then texts[#texts + 1] = session.events[index]:text() end
          end
          assert.equal(table.concat(texts, " "), told(window), "with " .. window .. " events")
        end
      end)
    end

    it("passes over a rewind that names nothing", function()
      local session = sessionWith "a"
      for _, actions in ipairs { { rewindBeforeInvocationId = "nobody" }, { rewindToRevision = 3 },
        { rewindToRevision = math.maxinteger }, { rewindToRevision = 0.5 } } do
        service:appendEvent(session, { author = "x", actions = actions })
      end
      assert.equal("a A", told())
    end)

    it("passes over all there was where a rewind by hand names what was never there", function()
      local session = sessionWith "a"
      service:appendEvent(session, { author = "x", actions = { rewindToRevision = math.mininteger } })
      assert.equal("", told())
    end)
  end)

  describe("memory", function()
    local function remembered(memory)
      local texts = {}
      for _, word in ipairs { "a", "b", "c", "d", "e" } do
        local query = { appName = "app", userId = "u", query = word, limit = 100 }
        for _, found in ipairs(memory:searchMemory(query).memories) do
          if found.author == "user" then texts[#texts + 1] = found.content.parts[1].text end
        end
      end
      return table.concat(texts, " ")
    end

    it("is told no rewound turn by a session object that shows the end only", function()
      sessionWith "a b c d -b e"
      for window, expected in pairs { [5] = "e", [9] = "e", [11] = "a e" } do
        local memory <close> = moonpad.memoryService "memory:"
        memory:addSession(service:getSession {
          appName = "app", userId = "u", sessionId = "s", numRecentEvents = window,
        })
        assert.equal(expected, remembered(memory))
      end
    end)

    it("forgets what was rewound before the part that is shown, once it is shown", function()
      local memory <close> = moonpad.memoryService "memory:"
      local name = { appName = "app", userId = "u", sessionId = "s" }
      local session = sessionWith "a b c"
      memory:addSession(session)
      service:rewind(session, { invocationId = "b" })
      name.numRecentEvents = 1
      memory:addSession(service:getSession(name))
      memory:addSession(support.stored(service))
      assert.equal("a", remembered(memory))
    end)

    for _, filter in ipairs { { numRecentEvents = 1 }, { numRecentEvents = 3 }, { afterTimestamp = 0 } } do
      it("forgets what was rewound to a revision, too, once it is shown: " .. (next(filter)), function()
        local memory <close> = moonpad.memoryService "memory:"
        local session = sessionWith "a b c"
        -- What a view after a time leaves out in the middle.
        service:appendEvent(session, { author = "user", timestamp = -1, content = { parts = { { text = "d" } } } })
        memory:addSession(session)
        assert.equal("a b c d", remembered(memory))
        service:rewind(session, { revision = 2 })
        filter.appName, filter.userId, filter.sessionId = "app", "u", "s"
        memory:addSession(service:getSession(filter))
        memory:addSession(support.stored(service))
        assert.equal("a", remembered(memory))
      end)
    end
  end)
end)
