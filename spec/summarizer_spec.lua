-- Summaries of long conversations (contract 5): moonpad.summarizer, session:summary().
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local randomValues = require "spec.support.random_values"
local support = require "spec.support"
local testing = require "moonpad.testing"

local raises = checks.raises
local WHO <const> = { appName = "app", userId = "u", sessionId = "s" }

describe("a summarizer", function()
  support.each_store(function(open, store)
    local clock, service, prompts, asked, answers

    before_each(function()
      clock = testing.clock(1000)
      service = open { clock = clock }
      prompts, asked, answers = {}, {}, nil
    end)

    local function contentsOf(request)
      local texts = {}
      for _, content in ipairs(request.contents) do
        for _, part in ipairs(content.parts) do
          texts[#texts + 1] = part.text or (part.functionCall and "CALL" or "RESPONSE")
        end
      end
      return table.concat(texts, "|")
    end

    local function agentOf(fields)
      local definition = {
        name = "bot",
        model = function(request)
          prompts[#prompts + 1] = contentsOf(request)
          return "a" .. #prompts
        end,
      }
      for key, value in pairs(fields or {}) do definition[key] = value end
      return moonpad.agent(definition)
    end

    -- The model of the summaries: S1, S2... unless `answers` says otherwise.
    local function summarizerOf(fields)
      local definition = {
        model = function(request, context)
          asked[#asked + 1] = request
          local answer = answers and answers(#asked, context)
          if answer == nil then return "S" .. #asked end
          return answer
        end,
      }
      for key, value in pairs(fields or { maxTurns = 3, keepRecentTurns = 1 }) do definition[key] = value end
      return moonpad.summarizer(definition)
    end

    local function runnerOf(fields, agent)
      return moonpad.runner { appName = "app", sessionService = service, agent = agent or agentOf(),
        summarizer = summarizerOf(fields) }
    end

    local function say(runner, text, more)
      local options = { userId = "u", sessionId = "s", newMessage = text }
      for key, value in pairs(more or {}) do options[key] = value end
      local events = {}
      for event in runner:run(options) do events[#events + 1] = event end
      return events
    end

    local function get(more)
      local query = { appName = "app", userId = "u", sessionId = "s" }
      for key, value in pairs(more or {}) do query[key] = value end
      return service:getSession(query)
    end

    it("is asked after the run, and its event is the last one", function()
      local runner = runnerOf()
      say(runner, "m1")
      assert.equal(1, #say(runner, "m2"))
      local events = say(runner, "m3")
      assert.equal(2, #events)
      local event = events[2]
      assert.equal("user", event.author)
      assert.same({ role = "model", parts = { { text = "S1" } } }, event.actions.compaction.compactedContent)
      local stored = get().events
      assert.equal(stored[1].timestamp, event.actions.compaction.startTimestamp)
      assert.equal(stored[4].timestamp, event.actions.compaction.endTimestamp)
      assert.same({ startRevision = 1, endRevision = 4, revision = 6 }, event.customMetadata.compaction)
      assert.is_nil(event.content)
      assert.is_false(event:isFinalResponse())
      assert.equal(events[1].invocationId, event.invocationId)
      assert.equal(7, #stored)
      assert.equal("user: m1\nbot: a1\nuser: m2\nbot: a2\n",
        asked[1].contents[1].parts[1].text:match "^The conversation:\n(.*)$")
      assert.truthy(asked[1].systemInstruction:find "Write a summary")
    end)

    it("stands for what it covers in later prompts, and what follows stays", function()
      local runner = runnerOf()
      for i = 1, 5 do say(runner, "m" .. i) end
      assert.equal("m1|a1|m2|a2|m3", prompts[3])
      assert.equal("Summary of the conversation so far:\nS1|m3|a3|m4", prompts[4])
      assert.equal("Summary of the conversation so far:\nS1|m3|a3|m4|a4|m5", prompts[5])
    end)

    it("takes in the summary before", function()
      local runner = runnerOf()
      for i = 1, 6 do say(runner, "m" .. i) end
      assert.equal(2, #asked)
      local text = asked[2].contents[1].parts[1].text
      assert.truthy(text:find("The summary so far:\nS1\n\nThe conversation:\nuser: m3", 1, true))
      assert.equal("Summary of the conversation so far:\nS2|m5|a5|m6", prompts[6])
      assert.equal(1, get().events[12].customMetadata.compaction.startRevision)
    end)

    it("is told in its own words", function()
      local runner = runnerOf { maxTurns = 1, keepRecentTurns = 0, prompt = "Be brief." }
      say(runner, "m1")
      assert.equal("Be brief.", asked[1].systemInstruction)
      say(runner, "m2")
      assert.equal("Summary of the conversation so far:\nS1|m2", prompts[2])
    end)

    it("leaves state, counts and whose turn it is alone", function()
      local appName, ok, err
      answers = function(_, context)
        appName = context.appName
        ok, err = pcall(function() context.state.x = 1 end)
      end
      local runner = runnerOf { maxTurns = 1, keepRecentTurns = 0 }
      say(runner, "m1", { stateDelta = { n = 1 } })
      local found = get()
      assert.same({ "app", false, "invalid_argument" }, { appName, ok, err.code })
      assert.same({ n = 1 }, found.state:toTable())
      assert.equal(1, found.conversationCount)
      assert.equal(3, #found.events)
      assert.same({}, found.events[3].actions.stateDelta)
    end)

    describe("is due when", function()
      local function turnsUntil(fields, message, before)
        local runner = runnerOf(fields)
        for turn = 1, 10 do
          if before then before(turn) end
          say(runner, message or "m")
          if #asked > 0 then return turn end
        end
        return nil
      end

      it("maxTurns is reached", function()
        assert.equal(4, turnsUntil { maxTurns = 4 })
      end)

      it("maxEvents is reached", function()
        assert.equal(3, turnsUntil { maxEvents = 5, keepRecentTurns = 1 })
      end)

      it("maxChars is reached, in characters", function()
        -- "user: ééé\n" and "bot: a1\n"
        assert.equal(3, turnsUntil({ maxChars = 50, keepRecentTurns = 1 }, "ééé"))
      end)

      it("maxSeconds have passed since the oldest event that no summary covers", function()
        assert.equal(4, turnsUntil({ maxSeconds = 30, keepRecentTurns = 1 }, "m", function() clock:advance(10) end))
      end)

      it("the last prompt had maxTokens", function()
        local tokens = 0
        local agent = agentOf { model = function()
          tokens = tokens + 10
          return { content = "a", usageMetadata = { promptTokenCount = tokens, candidatesTokenCount = 1000 } }
        end }
        local runner = runnerOf({ maxTokens = 40, keepRecentTurns = 1 }, agent)
        for turn = 1, 4 do
          assert.equal(0, #asked)
          say(runner, "m" .. turn)
        end
        assert.equal(1, #asked)
      end)

      it("any of several is reached, or all of them", function()
        assert.equal(3, turnsUntil { maxTurns = 3, maxEvents = 100 })
        asked = {}
        service:deleteSession(WHO)
        assert.equal(5, turnsUntil { maxTurns = 3, maxEvents = 10, combine = "all" })
        asked = {}
        service:deleteSession(WHO)
        assert.is_nil(turnsUntil { maxTurns = 3, maxTokens = 10, combine = "all" })
      end)

      it("something may be covered: the last turns stay", function()
        assert.equal(3, turnsUntil { maxTurns = 1, keepRecentTurns = 2 })
      end)
    end)

    describe("that fails", function()
      local FAILURES <const> = {
        ["raises"] = function() error "no model" end,
        ["answers with an error"] = function() return { errorCode = "OVERLOADED", errorMessage = "later" } end,
        ["says nothing"] = function() return " \n" end,
        ["only thinks"] = function() return { content = { parts = { { text = "hm", thought = true } } } } end,
        ["answers with no response"] = function() return 5 end,
      }
      for what, fail in pairs(FAILURES) do
        it("loses nothing and is asked again after the next run, if it " .. what, function()
          answers = function(count) return count == 1 and fail() or nil end
          local runner = runnerOf()
          for i = 1, 3 do assert.equal(1, #say(runner, "m" .. i)) end
          assert.equal(1, #asked)
          assert.equal(2, #say(runner, "m4"))
          assert.equal("m1|a1|m2|a2|m3|a3|m4", prompts[4])
          say(runner, "m5")
          assert.equal("Summary of the conversation so far:\nS2|m4|a4|m5", prompts[5])
        end)
      end
    end)

    it("never blocks: a slow one is a run that waits, and may be cancelled", function()
      local isReady = false
      answers = function()
        while not isReady do coroutine.yield() end
      end
      local runner = runnerOf { maxTurns = 1, keepRecentTurns = 0 }
      local function start() return runner:start { userId = "u", sessionId = "s", newMessage = "m" } end
      local run, seen = start(), 0
      while seen < 1 do
        local event = run:step()
        if event ~= "waiting" then seen = seen + 1 end
      end
      -- It waits for the store first, and then for the model.
      repeat assert.equal("waiting", run:step()) until #asked == 1
      for _ = 1, 3 do assert.equal("waiting", run:step()) end
      run:cancel()
      assert.is_nil(run:step())
      assert.equal(2, #get().events)
      run = start()
      repeat local event = run:step() until event == "waiting" and #asked == 2
      isReady = true
      local last
      for event in function() return run:wait() end do last = event end
      assert.equal("S2", last.actions.compaction.compactedContent.parts[1].text)
      assert.is_nil(run:step())
    end)

    it("is not asked where the invocation has been ended, nor in the run of an agent that is a tool", function()
      local inner = moonpad.agent { name = "inner", model = function() return "done" end }
      local outer = agentOf {
        model = testing.scriptedModel { moonpad.functionCall("inner", { request = "x" }), "over" },
        tools = { moonpad.agentTool { agent = inner } },
      }
      say(runnerOf({ maxEvents = 1, keepRecentTurns = 0 }, outer), "m1")
      assert.equal(1, #asked)
      local ending = agentOf { beforeModelCallback = function(context) context:endInvocation() end }
      say(runnerOf({ maxEvents = 1, keepRecentTurns = 0 }, ending), "m2")
      assert.equal(1, #asked)
    end)

    it("does not count as a call of maxLlmCalls", function()
      local runner = runnerOf { maxTurns = 1, keepRecentTurns = 0 }
      say(runner, "m1", { maxLlmCalls = 1 })
      assert.equal(1, #asked)
    end)

    it("covers no turn in which a call waits for its answer", function()
      local agent = agentOf {
        model = testing.scriptedModel { moonpad.functionCall("ask", {}, "c1"), "wait", "a2", "a3", "thanks" },
        tools = { moonpad.longRunningTool { name = "ask", run = function() return { status = "pending" } end } },
      }
      local runner = runnerOf({ maxTurns = 2, keepRecentTurns = 1 }, agent)
      local first = say(runner, "m1")
      say(runner, "m2")
      say(runner, "m3")
      assert.equal(0, #asked)
      local call = first[1]:functionCalls()[1]
      say(runner, moonpad.functionResponse(call, { ok = true }))
      assert.equal(1, #asked)
      assert.truthy(asked[1].contents[1].parts[1].text:find("bot calls ask with {}", 1, true))
    end)

    describe("and rewinds:", function()
      it("one to before a summary takes it out of the prompt, and brings the events back", function()
        local runner = runnerOf()
        local first = {}
        for i = 1, 4 do first[i] = say(runner, "m" .. i)[1].invocationId end
        assert.truthy(get():summary())
        service:rewind(get(), { invocationId = first[3] })
        assert.is_nil(get():summary())
        say(runner, "n1")
        assert.equal("m1|a1|m2|a2|n1", prompts[#prompts])
        -- The next one is a new summary.
        say(runner, "n2")
        say(runner, "n3")
        assert.equal("S3", get():summary())
        assert.truthy(prompts[#prompts]:find("S2|", 1, true))
      end)

      it("one to behind a summary leaves it", function()
        local runner = runnerOf()
        local first = {}
        for i = 1, 5 do first[i] = say(runner, "m" .. i)[1].invocationId end
        service:rewind(get(), { invocationId = first[5] })
        say(runner, "n1")
        assert.equal("Summary of the conversation so far:\nS1|m3|a3|m4|a4|n1", prompts[#prompts])
        -- The one that was made with the turn that is gone has gone with it.
        assert.equal("S3", get():summary())
      end)

      it("one that comes while the summary is made takes it back", function()
        local runner = runnerOf()
        answers = function(count)
          if count > 1 then return nil end
          local other = get()
          service:rewind(other, { invocationId = other.events[3].invocationId })
          return "what is gone"
        end
        for i = 1, 3 do say(runner, "m" .. i) end
        assert.is_nil(get():summary())
        say(runner, "n1")
        assert.equal("m1|a1|n1", prompts[#prompts])
      end)
    end)

    it("is seen through any view of the session, as its object knows it", function()
      local runner = runnerOf()
      local before
      for i = 1, 3 do
        say(runner, "m" .. i)
        if i == 2 then before = get() end
      end
      assert.is_nil(before:summary())
      service:refresh(before)
      assert.equal("S1", before:summary())
      assert.equal("S1", get { numRecentEvents = 0 }:summary())
      assert.equal("S1", get { numRecentEvents = 1 }:summary())
      assert.equal("S1", service:listSessions { appName = "app" }[1]:summary())
      local held = get()
      for i = 4, 6 do say(runner, "m" .. i) end
      assert.equal("S1", held:summary())
      assert.equal("S2", get():summary())
      assert.is_nil(service:createSession { appName = "app", userId = "u" }:summary())
      service:deleteSession(WHO)
      raises("not_found", "does not exist", held.summary, held)
      raises("invalid_argument", "session:summary: expects a session object, got nil", held.summary)
    end)

    it("is told by the session of a context", function()
      local told, wrong = {}, nil
      local runner = runnerOf(nil, agentOf { beforeAgentCallback = function(context)
        told[#told + 1] = context.session:summary() or "none"
        wrong = wrong or select(2, pcall(context.session.summary))
      end })
      for i = 1, 4 do say(runner, "m" .. i) end
      assert.same({ "none", "none", "none", "S1" }, told)
      assert.equal("invalid_argument", wrong.code)
      assert.matches("with a colon", wrong.message)
    end)

    it("goes along with forks, exports and imports", function()
      local runner = runnerOf()
      for i = 1, 4 do say(runner, "m" .. i) end
      local lines = {}
      for line in service:export(get()) do lines[#lines + 1] = line end
      local imported = service:import { lines = lines, sessionId = "i" }
      local forked = service:fork(get(), { at = 8, sessionId = "f" })
      local early = service:fork(get(), { at = 6, sessionId = "e" })
      assert.same({ "S1", "S1", nil }, { imported:summary(), forked:summary(), early:summary() })
      say(runner, "n", { sessionId = "i" })
      assert.equal("Summary of the conversation so far:\nS1|m3|a3|m4|a4|n", prompts[#prompts])
    end)

    it("works with a part of the history, and with the turn alone", function()
      local runner = runnerOf()
      for i = 1, 4 do say(runner, "m" .. i) end
      say(runner, "n1", { numRecentEvents = 2 })
      assert.equal("m4|a4|n1", prompts[#prompts])
      say(runner, "n2", { numRecentEvents = 8 })
      assert.equal("Summary of the conversation so far:\nS1|m3|a3|m4|a4|n1|a5|n2", prompts[#prompts])
      local alone = runnerOf(nil, agentOf { includeContents = "none" })
      say(alone, "n3")
      assert.equal("n3", prompts[#prompts])
    end)

    it("outlives the events that it covers", function()
      service = open { clock = clock, maxEvents = 6 }
      local runner = runnerOf { maxTurns = 2, keepRecentTurns = 1 }
      for i = 1, 8 do say(runner, "m" .. i) end
      assert.truthy(prompts[8]:find "^Summary of the conversation so far:\nS%d|m%d|a%d|m8$")
      assert.is_true(#get().events <= 6)
    end)

    it("made by ADK, whose events say by times what they cover, counts as well", function()
      local session = service:createSession(WHO)
      local function append(author, text, time)
        service:appendEvent(session, { author = author, timestamp = time, invocationId = "i" .. time,
          content = { role = author == "user" and "user" or "model", parts = { { text = text } } } })
      end
      for i = 1, 4 do
        append("user", "m" .. i, 100 + 2 * i)
        append("bot", "a" .. i, 101 + 2 * i)
        if i == 2 or i == 3 then
          service:appendEvent(session, { author = "user", timestamp = 101.5 + 2 * i, actions = { compaction = {
            startTimestamp = 100 + 2 * i, endTimestamp = 101 + 2 * i,
            compactedContent = { role = "model", parts = { { text = "T" .. i } } },
          } } })
        end
      end
      say(moonpad.runner { appName = "app", sessionService = service, agent = agentOf() }, "n")
      local lead = "Summary of the conversation so far:\n"
      assert.equal("m1|a1|" .. lead .. "T2|" .. lead .. "T3|m4|a4|n", prompts[1])
      assert.equal("T3", get():summary())
    end)

    it("stored by one of two processes is stored once", function()
      if store == "memory:" then return end
      local path = support.tmpdir() .. "/two.db"
      local one <close> = moonpad.open("sqlite:" .. path)
      local other <close> = moonpad.open("sqlite:" .. path)
      service = one
      local runner = runnerOf()
      for i = 1, 2 do say(runner, "m" .. i) end
      -- The other one is as far while this one asks its model.
      answers = function(count)
        if count > 1 then return nil end
        service = other
        for event in runnerOf():run { userId = "u", sessionId = "s", newMessage = "o" } do assert(event) end
        service = one
        return "late"
      end
      assert.equal(1, #say(runner, "m3"))
      local count = 0
      for _, event in ipairs(get().events) do
        if event.actions.compaction then count = count + 1 end
      end
      assert.equal(1, count)
      assert.equal("S2", get():summary())
    end)

    -- Against a second reading of the whole history, which knows no short cuts.
    it("and rewinds, forks and limits in any order leave each event in a prompt once, or in its summary", function()
      local random = randomValues.new(checks.seed())
      local function expected(events)
        local gone, summary = {}, nil
        for i = #events, 1, -1 do
          local event = events[i]
          local target = event.actions.rewindBeforeInvocationId
          if not gone[i] and target then
            local first = i
            for j = 1, i do
              if events[j].invocationId == target then first = math.min(first, j) end
            end
            for j = first, i do gone[j] = true end
          end
        end
        for i = #events, 1, -1 do
          if not gone[i] and events[i].actions.compaction and not summary then summary = events[i] end
        end
        local texts = {}
        if summary then
          local content = summary.actions.compaction.compactedContent
          texts[1] = "Summary of the conversation so far:\n" .. content.parts[1].text
        end
        local last = summary and summary.customMetadata.compaction.endRevision or 0
        for i, event in ipairs(events) do
          if not gone[i] and event.revision > last and event:text() ~= "" then texts[#texts + 1] = event:text() end
        end
        return table.concat(texts, "|")
      end
      local id, summed = "s", 0
      local runner = runnerOf { maxTurns = 4, maxEvents = 11, keepRecentTurns = 2 }
      for step = 1, checks.scaled(120, 60) do
        local choice = random:below(10)
        local found = service:getSession { appName = "app", userId = "u", sessionId = id }
        if found and choice == 0 and #found.events > 0 then
          local event = found.events[1 + random:below(#found.events)]
          service:rewind(found, { invocationId = event.invocationId })
        elseif found and choice == 1 then
          id = service:fork(found, { at = random:below(found.revision + 1) }).id
        else
          say(runner, "m" .. step, { sessionId = id })
          local after = service:getSession { appName = "app", userId = "u", sessionId = id }
          local before, events = {}, after.events
          -- As the model saw it: up to the message of this run.
          for i, event in ipairs(events) do
            before[i] = event
            if event:text() == "m" .. step then break end
          end
          assert.equal(expected(before), prompts[#prompts])
          if after:summary() then summed = summed + 1 end
        end
      end
      assert.is_true(summed > 0)
    end)

    it("is no part of what memory knows", function()
      local memory = moonpad.memoryService "memory:"
      local runner = runnerOf()
      answers = function() return "pineapple" end
      for i = 1, 4 do say(runner, "m" .. i) end
      memory:addSession(get())
      assert.same({}, memory:searchMemory({ appName = "app", userId = "u", query = "pineapple" }).memories)
      memory:close()
    end)
  end)

  it("is refused where it says nothing of when, or nonsense", function()
    local model = function() return "" end
    raises("invalid_argument", "at least one of maxTurns", moonpad.summarizer, { model = model })
    raises("invalid_argument", "summarizer.model", moonpad.summarizer, { maxTurns = 1 })
    raises("invalid_argument", "did you mean maxTurns", moonpad.summarizer, { model = model, maxTurn = 1 })
    for field, wrong in pairs { maxTurns = 0, maxEvents = 1.5, maxChars = -1, maxSeconds = 0, maxTokens = "10",
      combine = "some", keepRecentTurns = -1, prompt = "" } do
      local definition = { model = model, maxTurns = 1 }
      definition[field] = wrong
      raises("invalid_argument", field, moonpad.summarizer, definition)
    end
    raises("invalid_argument", "runner.summarizer: expected a moonpad.summarizer", moonpad.runner,
      { appName = "a", agent = moonpad.agent { name = "a", model = model }, url = "memory:", summarizer = {} })
  end)
end)
