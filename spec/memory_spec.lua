-- Memory across sessions: what is remembered, what a search finds, and for whom.
local checks = require "spec.support.checks"
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local failure = require("spec.support.checks").failure

local STORES = support.withServers {
  { name = "memory:", url = function() return "memory:" end },
  { name = "sqlite:PATH", url = function() return "sqlite:" .. support.tmpdir() .. "/test.db" end },
}

for _, store in ipairs(STORES) do
  describe("a memory service on " .. store.name, function()
    local service, memory
    before_each(function()
      local url = store.url()
      service = moonpad.open(url)
      memory = moonpad.memoryService(url)
    end)
    after_each(function()
      memory:close()
      service:close()
      support.cleanup()
    end)

    local function create(id, who)
      who = who or {}
      return service:createSession { appName = who.appName or "app", userId = who.userId or "u", sessionId = id }
    end

    local function say(session, text, more)
      local event = { author = "user", content = { role = "user", parts = { { text = text } } } }
      for key, value in pairs(more or {}) do event[key] = value end
      return service:appendEvent(session, event)
    end

    -- A session in which these texts were said, remembered.
    local function told(id, texts, who)
      local session = create(id, who)
      for _, text in ipairs(texts) do say(session, text) end
      memory:addSession(session)
      return session
    end

    local function search(query, more)
      local options = { appName = "app", userId = "u", query = query }
      for key, value in pairs(more or {}) do options[key] = value end
      return memory:searchMemory(options).memories
    end

    local function found(query, more)
      local texts = {}
      for index, entry in ipairs(search(query, more)) do texts[index] = entry.content.parts[1].text end
      return texts
    end

    it("finds what was said, by whom, when and where", function()
      local session = create "s1"
      say(session, "My dog is called Rex.", { timestamp = 1700000000.25 })
      say(session, "A fine name.", { author = "helper", content = { role = "model", parts = {
        { text = "hidden thought about names", thought = true }, { text = "Rex is" }, { text = "a fine name." },
      } } })
      memory:addSession(session)
      local first, second = search("Rex called")[1], search("Rex fine")[1]
      assert.equal("user", first.author)
      assert.equal(1700000000.25, first.timestamp)
      assert.equal("s1", first.sessionId)
      assert.same({ role = "user", parts = { { text = "My dog is called Rex." } } }, first.content)
      assert.equal("helper", second.author)
      assert.same({ role = "model", parts = { { text = "Rex is" }, { text = "a fine name." } } }, second.content)
      assert.same({}, search "thought")
      assert.equal('{"memories":[]}', moonpad.json.encode(
        memory:searchMemory { appName = "app", userId = "u", query = "nothing" }))
    end)

    it("ranks: more and rarer words first", function()
      told("s", {
        "I drink tea in the morning", "tea or coffee", "coffee with milk", "the milk is in the kitchen",
        "oolong tea from Taiwan", "the garden is green", "the house is old",
      })
      assert.equal("oolong tea from Taiwan", found("which oolong tea did I buy in Taiwan?")[1])
      assert.equal("coffee with milk", found("milk coffee")[1])
      assert.same({ "oolong tea from Taiwan" }, found("tea oolong", { limit = 1 }))
      local numbers = {}
      for index = 1, 15 do numbers[index] = "number " .. index end
      told("many", numbers)
      assert.equal(10, #found "number")
      assert.equal(15, #found("number", { limit = 100 }))
    end)

    it("takes forms of a word, case and accents for the same", function()
      told("s", { "Café in MÜNCHEN", "two dogs running" })
      assert.same({ "Café in MÜNCHEN" }, found "cafe")
      assert.same({ "Café in MÜNCHEN" }, found "münchen")
      assert.same({ "two dogs running" }, found "dog")
      assert.same({ "two dogs running" }, found "run")
    end)

    it("finds words in languages without blanks between them", function()
      told("s", { "我喜欢绿茶。", "他喝红酒", "東京に住んでいます", "저는 서울에 살아요", "𠀀𠀁 rare" })
      assert.same({ "我喜欢绿茶。" }, found "绿茶好不好？")
      assert.same({ "他喝红酒" }, found "红酒")
      assert.same({ "東京に住んでいます" }, found "東京")
      assert.same({ "저는 서울에 살아요" }, found "서울")
      assert.same({ "我喜欢绿茶。" }, found "茶")
      assert.same({ "𠀀𠀁 rare" }, found "𠀀𠀁")
    end)

    it("takes a query for plain text, whatever is in it", function()
      told("s", { "salt AND pepper NEAR the stove", 'a "quoted" word', "text : owner", "100% sure_thing c++" })
      for _, query in ipairs {
        '"', '""', "'", "AND", "OR OR", "NOT", "NEAR(", "pepper*", "(pepper", "pepper)", "^pepper", "owner:u1",
        '" OR owner : "u1', "{text} : pepper", "-pepper", "pepper + salt", "*", "", " ", "\0", "pepper\0salt", "—",
        "🌙", "; DROP TABLE memories; --", ("pepper "):rep(checks.scaled(2000)), ("w%d "):rep(300),
      } do
        for _, text in ipairs(found(query)) do assert.matches("pepper", text .. "pepper") end
      end
      assert.same({ "salt AND pepper NEAR the stove" }, found 'NEAR("pepper" "salt", 2)')
      assert.same({ 'a "quoted" word' }, found '"quoted')
      assert.same({ "100% sure_thing c++" }, found "100%")
      assert.same({ "text : owner" }, found "owner:u1")
      assert.same({}, found "u1")
    end)

    it("shows each user of each app his own", function()
      told("s", { "secret of Ann" }, { userId = "ann" })
      told("s", { "secret of Bob" }, { userId = "bob" })
      told("s", { "secret of Ann elsewhere" }, { userId = "ann", appName = "other" })
      told("s", { "secret of %" }, { userId = "%" })
      assert.same({ "secret of Ann" }, found("secret", { userId = "ann" }))
      assert.same({ "secret of Bob" }, found("secret", { userId = "bob" }))
      assert.same({ "secret of Ann elsewhere" }, found("secret", { userId = "ann", appName = "other" }))
      assert.same({ "secret of %" }, found("secret", { userId = "%" }))
      assert.same({}, found "secret")
      for index = 3, 25 do told("s", { "secret of " .. index }, { userId = tostring(index) }) end
      for index = 3, 25 do assert.same({ "secret of " .. index }, found("secret", { userId = tostring(index) })) end
    end)

    it("forgets a user, and nobody else", function()
      local session = told("s", { "secret of Ann", "and more" }, { userId = "ann" })
      told("t", { "another secret of Ann" }, { userId = "ann" })
      told("s", { "secret of Bob" }, { userId = "bob" })
      told("s", { "secret of Ann elsewhere" }, { userId = "ann", appName = "other" })
      assert.equal(3, memory:deleteUser { appName = "app", userId = "ann" })
      assert.equal(0, memory:deleteUser { appName = "app", userId = "ann" })
      assert.equal(0, memory:deleteUser { appName = "app", userId = "nobody" })
      assert.same({}, found("secret", { userId = "ann" }))
      assert.same({ "secret of Bob" }, found("secret", { userId = "bob" }))
      assert.same({ "secret of Ann elsewhere" }, found("secret", { userId = "ann", appName = "other" }))
      memory:addSession(session) -- is there once more when it is told again
      assert.same({ "secret of Ann" }, found("secret", { userId = "ann" }))
    end)

    it("forgets one memory for good", function()
      local session = told("s1", { "the cat is grey", "the cat sleeps" })
      local grey = search("grey")[1]
      assert.equal("the cat is grey", grey.content.parts[1].text)
      local function forget(more)
        local options = { appName = "app", userId = "u", memoryId = grey.id }
        for key, value in pairs(more or {}) do options[key] = value end
        return memory:deleteMemory(options)
      end
      assert.is_false(forget { userId = "other" })
      assert.is_false(forget { appName = "other" })
      told("s", { "mine" }, { userId = "other" })
      assert.is_false(forget { userId = "other" })
      for _, id in ipairs { "0", "999999", "x", "1x", " " .. grey.id, grey.id .. ".0", "0" .. grey.id,
        ("9"):rep(200) } do
        assert.is_false(forget { memoryId = id }, id)
      end
      assert.same({ "the cat is grey" }, found "grey")
      assert.is_true(forget())
      assert.is_false(forget())
      assert.same({ "the cat sleeps" }, found "cat")
      -- The session still has it.
      say(session, "grey again", { invocationId = "i" })
      memory:addSession(session)
      service:rewind(session, { invocationId = "i" })
      memory:addSession(session)
      assert.same({}, found "grey")
      assert.equal(1, memory:deleteUser { appName = "app", userId = "u" })
      memory:addSession(session)
      assert.same({ "the cat is grey" }, found "grey")
    end)

    it("forgets one memory for good, though its event was rewound and has come back", function()
      local session = create "s1"
      say(session, "the cat is grey", { invocationId = "a" })
      say(session, "the cat sleeps", { invocationId = "b" })
      memory:addSession(session)
      assert.is_true(memory:deleteMemory { appName = "app", userId = "u", memoryId = search("sleeps")[1].id })
      service:rewind(session, { invocationId = "b" })
      memory:addSession(session)
      service:rewind(session, { revision = 2 })
      memory:addSession(session)
      assert.same({ "the cat is grey" }, found "cat")
    end)

    it("forgets a session, and no other", function()
      local session = told("s1", { "the cat is grey", "the cat sleeps" })
      told("s2", { "the cat eats" })
      told("s1", { "the cat runs" }, { userId = "other" })
      local id = search("grey")[1].id
      assert.is_true(memory:deleteMemory { appName = "app", userId = "u", memoryId = id })
      local which = { appName = "app", userId = "u", sessionId = "s1" }
      assert.equal(1, memory:deleteSession(which))
      assert.equal(0, memory:deleteSession(which))
      assert.equal(0, memory:deleteSession { appName = "app", userId = "nobody", sessionId = "s1" })
      assert.same({ "the cat eats" }, found "cat")
      assert.same({ "the cat runs" }, found("cat", { userId = "other" }))
      memory:addSession(session)
      assert.equal(3, #found "cat")
    end)

    it("forgets a session with all that had its id", function()
      told("s1", { "first cat" })
      service:deleteSession { appName = "app", userId = "u", sessionId = "s1" }
      told("s1", { "second cat" })
      assert.equal(2, memory:deleteSession { appName = "app", userId = "u", sessionId = " s1 " })
      assert.same({}, found "cat")
    end)

    it("adds a session again without telling anything twice", function()
      local session = told("s", { "red apple" })
      memory:addSession(session)
      memory:addSession(service:getSession { appName = "app", userId = "u", sessionId = "s" })
      assert.same({ "red apple" }, found "apple")
      say(session, "green apple")
      memory:addSession(session)
      memory:addSession(session)
      assert.equal(2, #found "apple")
    end)

    it("fills in later what a part of a session did not show", function()
      local session = create "s"
      for _, text in ipairs { "apple one", "apple two", "apple three", "apple four" } do say(session, text) end
      local function get(more)
        local options = { appName = "app", userId = "u", sessionId = "s" }
        for key, value in pairs(more or {}) do options[key] = value end
        return service:getSession(options)
      end
      memory:addSession(get { numRecentEvents = 0 })
      assert.equal(0, #found "apple")
      memory:addSession(get { numRecentEvents = 1 })
      assert.same({ "apple four" }, found "apple")
      memory:addSession(get { numRecentEvents = 2 })
      assert.equal(2, #found "apple")
      memory:addSession(get())
      assert.equal(4, #found "apple")
      say(session, "apple five")
      memory:addSession(get { numRecentEvents = 1 })
      assert.equal(5, #found "apple")
    end)

    it("goes through long sessions, and does so once", function()
      local session = create "s"
      local COUNT = checks.scaled(450)
      for index = 1, COUNT do say(session, "word" .. index .. " common") end
      memory:addSession(session)
      assert.equal(COUNT, #found("common", { limit = 1000 }))
      assert.same({ "word" .. COUNT .. " common" }, found("word" .. COUNT))
      say(session, "the last is common")
      -- Only what is new is read: it is told apart by the number of events that are read.
      local reads = 0
      local list = session.events
      local spy = setmetatable({}, {
        __index = function(_, index)
          reads = reads + 1
          return list[index]
        end,
        __len = function() return #list end,
      })
      memory:addSession {
        appName = "app", userId = "u", id = "s", createTime = session.createTime, events = spy,
      }
      assert.equal(COUNT + 1, #found("common", { limit = 1000 }))
      assert.is_true(reads < 20)
    end)

    it("forgets what was rewound", function()
      local session = create "s"
      say(session, "apple of the first", { invocationId = "i1" })
      say(session, "apple of the second", { invocationId = "i2" })
      say(session, "apple of the third", { invocationId = "i3" })
      memory:addSession(session)
      assert.equal(3, #found "apple")
      service:rewind(session, { invocationId = "i2" })
      say(session, "apple of the fourth", { invocationId = "i4" })
      memory:addSession(session)
      local texts = found "apple"
      table.sort(texts)
      assert.same({ "apple of the first", "apple of the fourth" }, texts)
      memory:addSession(session)
      assert.equal(2, #found "apple")
      service:rewind(session, { invocationId = "i1" })
      memory:addSession(session)
      assert.same({}, found "apple")
    end)

    it("keeps what a deleted session said apart from one that takes its id", function()
      told("s", { "apple before" })
      service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
      told("s", { "apple after" })
      local texts = found "apple"
      table.sort(texts)
      assert.same({ "apple after", "apple before" }, texts)
    end)

    it("remembers text alone", function()
      local session = create "s"
      service:updateSession(session)
      session.state.word = "apple"
      service:updateSession(session)
      say(session, "", { content = { role = "model", parts = { { functionCall = { name = "apple", args = {} } } } } })
      say(session, "", { content = { role = "user", parts = { { text = "apple pie" },
        { inlineData = { mimeType = "image/png", data = "AAAA" } } } } })
      memory:addSession(session)
      assert.same({ { role = "user", parts = { { text = "apple pie" } } } },
        { search("apple")[1].content, search("apple")[2] and search("apple")[2].content })
    end)

    it("is searched by a context and by the tool load_memory", function()
      told("old", { "The spare key is under the mat." })
      told("other", { "The key of Bob is lost." }, { userId = "bob" })
      local seen
      local runner = moonpad.runner {
        appName = "app", sessionService = service, memoryService = memory,
        agent = moonpad.agent {
          name = "A", tools = { moonpad.loadMemory },
          beforeAgentCallback = function(context)
            seen = context:searchMemory("key").memories
          end,
          afterAgentCallback = function(context) memory:addSession(context.session) end,
          model = function(request)
            local response = request.contents[#request.contents].parts[1].functionResponse
            if not response then return support.calls { "load_memory", { query = "where is my key?" } } end
            return response.response.memories[1].content.parts[1].text
          end,
        },
      }
      local events = support.run(runner, "Where is it?")
      assert.equal(1, #seen)
      assert.equal("old", seen[1].sessionId)
      assert.equal("The spare key is under the mat.", events[#events]:text())
      local response = events[2].content.parts[1].functionResponse.response
      assert.equal(1, #response.memories)
      assert.same({ "Where is it?" }, found "where")
    end)

    it("holds what was said to the user and by him, not what an agent as a tool was told", function()
      -- The clock of a game may stand still in a frame: sessions that begin in it have the
      -- same time.
      local beside <close> = moonpad.open("memory:", { clock = testing.clock(1000) })
      local muse = moonpad.agent { name = "Muse", model = function() return "tea from the inside" end }
      local runner = moonpad.runner {
        appName = "app", sessionService = beside, memoryService = memory,
        plugins = { { afterRun = function(context) memory:addSession(context.session) end } },
        agent = moonpad.agent {
          name = "Poet", tools = { moonpad.agentTool { agent = muse } },
          model = function(request)
            if request.contents[#request.contents].parts[1].functionResponse then return "tea for you" end
            return support.calls { "Muse", { request = "tea, quick" } }
          end,
        },
      }
      support.run(runner, "some tea")
      support.run(runner, "more tea")
      local texts = found "tea"
      table.sort(texts)
      assert.same({ "more tea", "some tea", "tea for you", "tea for you" }, texts)
    end)

    it("refuses what is no memory, and says what", function()
      local function refused(says, method, options)
        local err = failure(memory[method], memory, options)
        assert.equal("invalid_argument", err.code)
        assert.matches(says, err.message, 1, true)
      end
      refused("memory:deleteMemory: memoryId: expected a string, got nil", "deleteMemory",
        { appName = "app", userId = "u" })
      refused("memory:deleteMemory: memoryId: expected a string, got number", "deleteMemory",
        { appName = "app", userId = "u", memoryId = 1 })
      refused("memory:deleteMemory: id", "deleteMemory", { appName = "app", userId = "u", id = "1" })
      refused("memory:deleteSession: sessionId: expected a string, got nil", "deleteSession",
        { appName = "app", userId = "u" })
      refused("memory:deleteSession: sessionId: must not be empty", "deleteSession",
        { appName = "app", userId = "u", sessionId = " " })
    end)

    it("refuses what is wrong, and says what", function()
      local function refused(pattern, options)
        local err = failure(memory.searchMemory, memory, options)
        assert.equal("invalid_argument", err.code)
        assert.matches(pattern, err.message)
      end
      refused("query: expected a string, got nil", { appName = "app", userId = "u" })
      refused("query: is not valid UTF%-8", { appName = "app", userId = "u", query = "\255" })
      refused("did you mean query", { appName = "app", userId = "u", qery = "x" })
      refused("userId: expected a string", { appName = "app", query = "x" })
      refused("limit: expected .* 1 to 1000, got 0", { appName = "app", userId = "u", query = "x", limit = 0 })
      refused("expected a table", "x")
      assert.matches("memory:deleteUser: userId: expected a string",
        failure(memory.deleteUser, memory, { appName = "app" }).message)
      assert.matches("did you mean userId", failure(memory.deleteUser, memory, { userID = "u" }).message)
      assert.matches("colon", failure(memory.searchMemory, { query = "x" }).message)
      assert.matches("expected a session, got nil", failure(memory.addSession, memory).message)
      assert.matches("expected a session", failure(memory.addSession, memory, {}).message)
      assert.matches("colon", failure(memory.addSession, create "s").message)
      memory:close()
      memory:close()
      assert.equal("closed", failure(found, "x").code)
    end)
  end)
end

describe("moonpad.memoryService", function()
  after_each(support.cleanup)

  it("keeps memories in the file, for every process and service", function()
    local url = "sqlite:" .. support.tmpdir() .. "/test.db"
    do
      local service <close> = moonpad.open(url)
      local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
      service:appendEvent(session, { author = "user", content = { role = "user", parts = { { text = "apple" } } } })
      local memory <close> = moonpad.memoryService(url)
      local artifacts <close> = moonpad.artifactService(url)
      memory:addSession(session)
      artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "f", part = "x" }
    end
    local memory <close> = moonpad.memoryService(url)
    assert.equal(1, #memory:searchMemory({ appName = "app", userId = "u", query = "apple" }).memories)
    local service <close> = moonpad.open(url)
    assert.equal(1, service:getSession({ appName = "app", userId = "u", sessionId = "s" }).revision)
  end)

  it("says which field of the runner is missing", function()
    local err = failure(function() testing.toolContext():searchMemory "x" end)
    assert.equal("unsupported", err.code)
    assert.matches("the runner has no memoryService", err.message)
    err = failure(moonpad.loadMemory.run, { query = "x" }, testing.toolContext())
    assert.equal("unsupported", err.code)
  end)

  it("is busy, and nothing is half remembered, while somebody else writes #together", function()
    local folder = support.tmpdir()
    local path = folder .. "/test.db"
    local service <close> = moonpad.open("sqlite:" .. path)
    local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
    service:appendEvent(session, { author = "user", content = { role = "user", parts = { { text = "apple" } } } })
    local memory <close> = moonpad.memoryService("sqlite:" .. path, { busyTimeoutMs = 20 })
    local release = lock(path, folder)
    assert.equal("busy", failure(memory.addSession, memory, session).code)
    assert.same({}, memory:searchMemory({ appName = "app", userId = "u", query = "apple" }).memories)
    release()
    memory:addSession(session)
    assert.equal(1, #memory:searchMemory({ appName = "app", userId = "u", query = "apple" }).memories)
  end)
end)
