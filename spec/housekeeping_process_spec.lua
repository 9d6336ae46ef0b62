-- Processes that expire, trim, sweep and sum up on one file, and are killed: nothing is left half.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local quote = support.quote

local function start(url, seed, lives)
  local words = { "echo $$; exec env", "LUA_PATH=" .. quote(package.path), "LUA_CPATH=" .. quote(package.cpath),
    "lua5.4 spec/helpers/keep_house.lua", quote(url), seed, lives, "2>&1" }
  local pipe = assert(io.popen(table.concat(words, " "), "r"))
  return pipe, assert(pipe:read "n", "the process did not start"), pipe:read "l"
end

describe("a file on which processes keep house", function()
  local path, url
  before_each(function()
    path = support.tmpdir() .. "/test.db"
    url = "sqlite:" .. path
  end)
  after_each(support.cleanup)

  local function query(sql)
    local pipe <close> = assert(io.popen(("sqlite3 %s %s"):format(quote(path), quote(sql))))
    return (pipe:read "a":gsub("\n$", ""))
  end

  -- Each session has the state that its base and its events make, and nobody has left anything.
  local function expectWhole()
    assert.equal("ok", query "PRAGMA integrity_check")
    for _, leftover in ipairs {
      "SELECT count(*) FROM events WHERE session NOT IN (SELECT id FROM sessions)",
      "SELECT count(*) FROM base_state WHERE session NOT IN (SELECT id FROM sessions)",
      "SELECT count(*) FROM state WHERE scope = 0 AND owner NOT IN (SELECT id FROM sessions)",
      "SELECT count(*) FROM events e JOIN sessions s ON s.id = e.session WHERE e.revision <= s.base_revision",
      "SELECT count(*) FROM sessions s WHERE s.user > 0 AND s.revision - s.base_revision <> "
        .. "(SELECT count(*) FROM events e WHERE e.session = s.id)",
    } do
      assert.equal("0", query(leftover))
    end
    local service <close> = moonpad.open(url)
    local count, summaries = 0, 0
    for _, listed in ipairs(service:listSessions { appName = "app" }) do
      local found = service:getSession { appName = "app", userId = listed.userId, sessionId = listed.id }
      local own = {}
      for key, value in pairs(found.state:toTable()) do
        if not key:find "^%a+:" then own[key] = value end
      end
      assert.same(own, service:stateAt(found, found.revision))
      local summary = found:summary()
      assert.is_true(summary == nil or summary == "summary")
      count, summaries = count + 1, summaries + (summary and 1 or 0)
    end
    return count, summaries
  end

  it("is whole after each of them has been killed", function()
    local seen, summed, round = 0, 0, 0
    local ROUNDS = checks.scaled(16) * (tonumber(os.getenv "MOONPAD_FAULTS") or 1)
    -- On a busy machine state may expire before it is summed up: then some more rounds, in which it
    -- lives longer.
    while round < ROUNDS or round >= 16 and (seen == 0 or summed == 0) and round < 10 * ROUNDS do
      round = round + 1
      local lives = 0.1 * math.max(1, round - ROUNDS + 1)
      local pipe, process = start(url, round, lives)
      local other, otherProcess = start(url, -round, lives)
      for _ = 1, 10 + round * 37 % 90 do assert.truthy((pipe:read "l" or "nothing"):find "^[dr]") end
      assert.is_true(os.execute(("kill -9 %d %d"):format(process, otherProcess)))
      for line in pipe:lines() do assert.truthy(line == "" or ("done"):find(line, 1, true), line) end
      for line in other:lines() do
        assert.truthy(line == "" or line == "ready" or ("done"):find(line, 1, true), line)
      end
      pipe:close()
      other:close()
      local count, summaries = expectWhole()
      seen, summed = seen + count, summed + summaries
    end
    assert.is_true(seen > 0)
    if ROUNDS >= 16 then assert.is_true(summed > 0) end
  end)
end)
