-- Searching memory finds the same in the same order on every store, whatever others have said.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local random = require "spec.support.random_values"
local support = require "spec.support"

-- Words that are one after stemming, and after their accents and case are gone; characters that are
-- words; some that only punctuation joins; long ones, two of which differ at their end alone.
local LONG <const> = ("x"):rep(400)
local WORDS <const> = { "tea", "TEA", "teas", "run", "running", "runs", "café", "cafe", "green", "house", "of", "the",
  "绿", "茶", "绿茶", "東京", "tea—green", "green—tea", "naïve", "don't", "a\u{300}b", "42", "4.2", "🌙", "—",
  LONG .. "a", LONG .. "b", ("é"):rep(200), "Straße", "ΣΊΣΥΦΟΣ", "σίσυφος", "xyzzy", "rare", "rarer" }
local USERS <const> = { "ann", "bob", "cy" }
local SEED = checks.seed()
local ROUNDS <const> = checks.scaled(3)

local STORES = support.withServers {
  { name = "memory:", url = function() return "memory:" end },
  { name = "sqlite:PATH", url = function() return "sqlite:" .. support.tmpdir() .. "/test.db" end },
}

local function text(values)
  local words = {}
  for index = 1, 1 + values:below(12) do words[index] = values:pick(WORDS) end
  return table.concat(words, values:pick { " ", " ", ", ", "\n", "\0" })
end

local function add(memory, userId, number, values)
  local session = { appName = "app", userId = userId, id = "s" .. number, createTime = number + 0.5, events = {} }
  for revision = 1, 1 + values:below(30) do
    session.events[revision] = {
      id = "e" .. revision, revision = revision, timestamp = revision, invocationId = "i", author = "user",
      content = { role = "user", parts = { { text = text(values) } } },
    }
  end
  memory:addSession(session)
end

local function search(memory, userId, query, limit)
  return memory:searchMemory({ appName = "app", userId = userId, query = query, limit = limit }).memories
end

-- What a search tells, but for ids, which are each store's own.
local function found(memory, userId, query, limit)
  local list = {}
  for index, each in ipairs(search(memory, userId, query, limit)) do
    list[index] = ("%s %g %s"):format(each.sessionId, each.timestamp, each.content.parts[1].text)
  end
  return list
end

-- The same life on each store: what was said, and what was deleted of it.
local function live(memory, seed)
  local values = random.new(seed)
  for number = 1, 12 do
    local userId = values:pick(USERS)
    add(memory, userId, number, values)
    local query = values:pick(WORDS)
    local best = search(memory, userId, query)[1]
    if best and values:below(3) == 0 then
      assert.is_true(memory:deleteMemory { appName = "app", userId = userId, memoryId = best.id })
    end
    if values:below(6) == 0 then
      memory:deleteSession { appName = "app", userId = userId, sessionId = "s" .. values:below(number) }
    end
  end
  return values
end

local function questions(values)
  local list = {}
  for index = 1, 80 do list[index] = { values:pick(USERS), text(values), values:pick { 1, 3, 10, 1000 } } end
  return list
end

describe("searching memory", function()
  after_each(support.cleanup)

  for seed = SEED, SEED + ROUNDS - 1 do
    it("finds the same in the same order on every store, seed " .. seed, function()
      local asked, answers
      for _, store in ipairs(STORES) do
        local memory <close> = moonpad.memoryService(store.url())
        asked = questions(live(memory, seed))
        local given, count = {}, 0
        for index, question in ipairs(asked) do
          given[index] = found(memory, table.unpack(question))
          count = count + #given[index]
        end
        assert.is_true(count > 100)
        answers = answers or given
        for index, question in ipairs(asked) do
          assert.same(answers[index], given[index], store.name .. ": " .. question[2])
        end
      end
    end)
  end

  for _, store in ipairs(STORES) do
    it("does not depend on what other users have said, on " .. store.name, function()
      local memory <close> = moonpad.memoryService(store.url())
      local function say(userId, texts)
        local session = { appName = "app", userId = userId, id = "s", createTime = 1, events = {} }
        for revision, said in ipairs(texts) do
          session.events[revision] = { id = "e" .. revision, revision = revision, timestamp = revision,
            invocationId = "i", author = "user", content = { role = "user", parts = { { text = said } } } }
        end
        memory:addSession(session)
      end
      say("ann", { "one apple", "one pear", "another pear", "something else", "and more", "and more of it" })
      local before = found(memory, "ann", "apple pear")
      assert.equal("s 1 one apple", before[1])
      local many = {}
      for index = 1, 50 do many[index] = "apple " .. index end
      say("bob", many)
      assert.same(before, found(memory, "ann", "apple pear"))
    end)
  end
end)
