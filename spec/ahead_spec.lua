-- Session objects that are ahead of their store, because it has lost events (contract 2): their
-- next append or refresh brings them to what is stored.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local setBack = require "spec.support.set_back"
local support = require "spec.support"

local STORES = support.servers { "sqlite:FILE" }

local function user(text) return { role = "user", parts = { { text = text } } } end

for _, store in ipairs(STORES) do
  describe("a session object that is ahead of its store, on " .. store, function()
    local service, session, place
    before_each(function()
      local url = support.freshUrl(store)
      service, place = moonpad.open(url), setBack.of(url)
      session = checks.create(service, "s", { k = 0, n = 0, same = 0, ["user:k"] = 0, ["app:k"] = 0 })
      checks.append(service, session, { k = 1 })
      place.keep()
      checks.append(service, session, { k = 7, new = 7, ["user:k"] = 7, ["app:k"] = 7 })
      checks.append(service, session, { n = 7 })
      assert.are.equal(3, session.revision)
      assert.are.equal(3, #session.events)
      place.putBack()
    end)
    after_each(function()
      service:close()
      support.cleanup()
    end)

    local function expectAsStored(revision)
      local stored = checks.get(service)
      assert.are.equal(revision, stored.revision)
      assert.are.equal(revision, session.revision)
      assert.are.same(stored.state:getAll(), session.state:getAll())
      assert.are.equal(#stored.events, #session.events)
      for index, event in ipairs(stored.events) do assert.are.same(event, session.events[index]) end
    end

    it("is brought to it by refresh", function()
      service:refresh(session)
      assert.are.same({ k = 1, n = 0, same = 0, ["user:k"] = 0, ["app:k"] = 0 }, session.state:getAll())
      expectAsStored(1)
    end)

    it("is brought to it by an append", function()
      checks.append(service, session, { more = 1 })
      expectAsStored(2)
      checks.append(service, session, { k = 2 })
      expectAsStored(3)
    end)

    it("keeps what is pending: what is added is added, what was read and is lost conflicts", function()
      session.state:increment("n", 1)
      service:updateSession(session)
      assert.are.equal(1, session.state.n)
      expectAsStored(2)
    end)

    it("conflicts where a write looked at what is lost", function()
      session.state.k = session.state.k + 1
      local err = checks.raises("conflict", "k", service.updateSession, service, session)
      assert.are.same({ "k" }, err.keys)
      assert.are.equal(8, session.state.k)
      service:refresh(session)
      session.state.k = 5
      service:updateSession(session)
      expectAsStored(2)
    end)

    it("is brought to it by asynchronous appends", function()
      local pending
      for number = 1, 3 do
        pending = service:appendEventAsync(session, { author = "a", actions = { stateDelta = { same = number } } })
      end
      while not pending:result() do service:poll(1) end
      expectAsStored(4)
      assert.are.equal(3, session.state.same)
    end)
  end)

  describe("runs of a session whose store has lost events, on " .. store, function()
    local service, place, prompts, atModel
    before_each(function()
      local url = support.freshUrl(store)
      service, place, prompts, atModel = moonpad.open(url), setBack.of(url), {}, nil
    end)
    after_each(function()
      service:close()
      support.cleanup()
    end)

    local function textsOf(request)
      local texts = {}
      for _, content in ipairs(request.contents) do
        for _, part in ipairs(content.parts) do texts[#texts + 1] = part.text end
      end
      return table.concat(texts, " ")
    end

    local function newRunner()
      local agent = moonpad.llmAgent {
        name = "clerk",
        model = function(request)
          prompts[#prompts + 1] = textsOf(request)
          if atModel then atModel(#prompts) end
          return { content = { role = "model", parts = { { text = "a" .. #prompts } } } }
        end,
      }
      return moonpad.runner { agent = agent, appName = "app", sessionService = service }
    end

    local function ask(runner, text)
      for _ in runner:run { userId = "u", sessionId = "s", newMessage = user(text) } do end
    end

    it("show the model what is stored, however many events are lost", function()
      checks.create(service)
      local runner = newRunner()
      ask(runner, "one")
      place.keep()
      ask(runner, "two")
      place.putBack()
      ask(runner, "three")
      assert.are.same({ "one", "one a1 two", "one a1 three" }, prompts)
    end)

    it("go on while they are under way", function()
      checks.create(service)
      local runner = newRunner()
      ask(runner, "one")
      place.keep()
      -- The message of this turn is lost, and the answer takes its revision.
      atModel = function(number) if number == 2 then place.putBack() end end
      ask(runner, "two")
      ask(runner, "three")
      assert.are.same({ "one", "one a1 two", "one a1 a2 three" }, prompts)
      assert.are.equal(5, checks.get(service).revision)
    end)
  end)
end
