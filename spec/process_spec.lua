-- Several processes on one SQLite file: some are killed, some write at the same time.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local quote = support.quote

-- The command of a Lua script that finds the modules of this process.
local function script(name, ...)
  local words = { "exec env", "LUA_PATH=" .. quote(package.path), "LUA_CPATH=" .. quote(package.cpath), "lua5.4",
    quote("spec/helpers/" .. name) }
  for _, word in ipairs { ... } do words[#words + 1] = quote(tostring(word)) end
  return table.concat(words, " ")
end

-- Starts a command; the first line that it prints is its process id.
local function start(command)
  local pipe = assert(io.popen("echo $$; " .. command, "r"))
  return pipe, assert(pipe:read "n", "the process did not start"), pipe:read "l"
end

describe("a SQLite file", function()
  local folder, path, url
  before_each(function()
    folder = support.tmpdir()
    path = folder .. "/test.db"
    url = "sqlite:" .. path
  end)
  after_each(support.cleanup)

  local function expectSound()
    local pipe <close> = assert(io.popen("sqlite3 " .. quote(path)
      .. " 'PRAGMA integrity_check; PRAGMA foreign_key_check'"))
    assert.are.equal("ok\n", pipe:read "a")
  end

  -- Every event up to the revision is there, and exactly what it said.
  local function expectWhole(acknowledged)
    local service <close> = moonpad.open(url)
    local session = checks.get(service)
    local revision = session.revision
    assert(revision >= acknowledged, ("revision %d was acknowledged, %d is stored"):format(acknowledged, revision))
    assert.are.equal(revision, #session.events)
    local expected = { last = revision, n = revision, ["user:n"] = revision, ["app:n"] = revision }
    for number = math.max(1, revision - 99), revision do expected["k" .. number % 100] = number end
    assert.are.same(revision > 0 and expected or {}, session.state:getAll())
    for index, event in ipairs(session.events) do
      assert(event.revision == index)
      local delta = event.actions.stateDelta
      assert(delta.last == index and delta.n == index and delta["user:n"] == index
        and delta["k" .. index % 100] == index)
    end
    return revision
  end

  it("keeps every acknowledged event of a writer that is killed, twenty times", function()
    do
      local service <close> = moonpad.open(url)
      checks.create(service)
    end
    local acknowledged = 0
    local ROUNDS = checks.scaled(20) * (tonumber(os.getenv "MOONPAD_FAULTS") or 1)
    for round = 1, ROUNDS do
      local pipe, process = start(script("append_and_tell.lua", url, "s", 10000, round % 2 == 0 and "full" or "normal",
        round % 3 == 0 and "steps" or "on the spot"))
      -- Somewhere in the middle: the writer goes on until the signal arrives.
      for _ = 1, 7 + round * 53 % 400 do acknowledged = pipe:read "n" end
      assert.is_true(os.execute(("kill -9 %d"):format(process)))
      for line in pipe:lines() do acknowledged = tonumber(line:match "^%d+$") or acknowledged end
      pipe:close()
      expectSound()
      local revision = expectWhole(acknowledged)
      assert(revision <= acknowledged + 1, "more was stored than the writer can have sent")
    end
    assert.is_true(acknowledged > ROUNDS * 7)
  end)

  it("loses nothing of several processes that write to one session and one user", function()
    local WRITERS, COUNT = 4, checks.scaled(150, 30)
    do
      local service <close> = moonpad.open(url)
      checks.create(service)
    end
    local pipes = {}
    for writer = 1, WRITERS do pipes[writer] = assert(io.popen(script("share_counters.lua", url, "s", writer, COUNT)
      .. " 2>&1", "r")) end
    local seen, events = {}, 0
    for _, pipe in ipairs(pipes) do
      local last = 0
      for line in pipe:lines() do
        local revision = assert(tonumber(line), line)
        assert(revision > last and not seen[revision], "a revision was given twice or out of order")
        last, seen[revision], events = revision, true, events + 1
      end
      assert.is_true(pipe:close())
    end
    assert.are.equal(WRITERS * COUNT, events)
    expectSound()
    local service <close> = moonpad.open(url)
    local session = checks.get(service)
    assert.are.equal(events, session.revision)
    assert.are.equal(events, #session.events)
    assert.are.equal(events, session.state.n)
    assert.are.equal(events, session.state["user:n"])
    assert.are.equal(events, session.state["user:direct"])
    local items = {}
    for _, writer in ipairs(session.state.log) do items[writer] = (items[writer] or 0) + 1 end
    for writer = 1, WRITERS do
      assert.are.equal(COUNT, items[tostring(writer)])
      assert.are.equal(COUNT, session.state["of " .. writer])
    end
    local ids = {}
    for index, event in ipairs(session.events) do
      assert(event.revision == index and not ids[event.id])
      assert(event.actions.stateDelta.n == index)
      ids[event.id] = true
    end
  end)

  it("keeps each acknowledged event exactly once while writers are killed and others take their place", function()
    local WRITERS, ROUNDS <const> = 3, checks.scaled(20) * (tonumber(os.getenv "MOONPAD_FAULTS") or 1)
    local seed = checks.seed()
    math.randomseed(seed)
    do
      local service <close> = moonpad.open(url)
      checks.create(service)
    end
    local names, acknowledged, running = 0, {}, {}
    local function begin(place)
      names = names + 1
      local pipe, process = start(script("share_counters.lua", url, "s", names, 100000))
      acknowledged[names] = {}
      running[place] = { name = names, pipe = pipe, process = process }
    end
    local function take(writer)
      local revision = assert(tonumber(writer.pipe:read "l"), "a writer ended by itself")
      table.insert(acknowledged[writer.name], revision)
    end
    local function kill(writer)
      assert.is_true(os.execute(("kill -9 %d"):format(writer.process)))
      for line in writer.pipe:lines "L" do
        -- The last line may have been cut short with the writer.
        local revision = line:find "\n" and tonumber(line)
        if revision then table.insert(acknowledged[writer.name], revision) end
      end
      writer.pipe:close()
    end
    for place = 1, WRITERS do begin(place) end
    for _ = 1, ROUNDS do
      local place = math.random(WRITERS)
      for _ = 1, math.random(25) do take(running[place]) end
      kill(running[place])
      begin(place)
    end
    for place = 1, WRITERS do
      take(running[place])
      kill(running[place])
    end

    expectSound()
    local service <close> = moonpad.open(url)
    local session = checks.get(service)
    local where = ("with MOONPAD_SEED=%d"):format(seed)
    local stored, ids = {}, {}
    for index, event in ipairs(session.events) do
      local delta, writer = event.actions.stateDelta, nil
      for key in pairs(delta) do writer = writer or tonumber(key:match "^of (.*)") end
      stored[writer] = stored[writer] or {}
      table.insert(stored[writer], index)
      assert(delta["of " .. writer] == #stored[writer] and delta.n == index and delta["user:n"] == index, where)
      assert(event.revision == index and not ids[event.id], where)
      ids[event.id] = true
    end
    local total, direct = 0, 0
    for writer = 1, names do
      local said, found = acknowledged[writer], stored[writer] or {}
      -- The last event may be stored and not have been acknowledged any more.
      assert(#found == #said or #found == #said + 1, where)
      assert.are.same(said, table.move(found, 1, #said, 1, {}), where)
      total, direct = total + #found, direct + math.max(0, #said - 1)
    end
    assert.are.equal(total, session.revision, where)
    assert.are.equal(total, session.state.n, where)
    assert.are.equal(total, session.state["user:n"], where)
    assert.are.equal(total, #session.state.log, where)
    local counted = session.state["user:direct"]
    assert(counted >= direct and counted <= total, where)
  end)

  it("takes 10,000 events of each of four processes while others read whole events", function()
    -- "normal", because it is the order and the wholeness that are looked at: "full" waits for the
    -- disk 40,000 times.
    local WRITERS, COUNT <const> = 4, os.getenv "ASAN_OPTIONS" and 1000 or checks.scaled(10000)
    local TOTAL <const> = WRITERS * COUNT
    do
      local service <close> = moonpad.open(url)
      checks.create(service)
    end
    local reader = assert(io.popen(script("read_together.lua", url, "s", TOTAL) .. " 2>&1", "r"))
    local pipes = {}
    for writer = 1, WRITERS do
      pipes[writer] = assert(io.popen(script("write_together.lua", url, "s", writer, COUNT, "normal") .. " 2>&1", "r"))
    end
    for _, pipe in ipairs(pipes) do
      assert.are.equal("ok\n", pipe:read "a")
      assert.is_true(pipe:close())
    end
    local looks = reader:read "a"
    assert(tonumber(looks), looks)
    assert.is_true(reader:close())
    expectSound()
    local service <close> = moonpad.open(url)
    local session = checks.get(service)
    local expected = {}
    for _, prefix in ipairs { "", "user:", "app:" } do
      expected[prefix .. "n"] = TOTAL
      for writer = 1, WRITERS do expected[prefix .. "of " .. writer] = COUNT end
    end
    assert.are.same(expected, session.state:getAll())
    assert.are.equal(TOTAL, #session.events)
    local last, ids = {}, {}
    for index, event in ipairs(session.events) do
      local delta, writer = event.actions.stateDelta, nil
      for key, number in pairs(delta) do
        local found = key:match "^of (.*)"
        if found then
          assert(not writer and number == (last[found] or 0) + 1, "an event is lost, doubled or out of order")
          writer, last[found] = found, number
        end
      end
      assert(writer and event.revision == index and delta.n == index and not ids[event.id])
      ids[event.id] = true
    end
    for writer = 1, WRITERS do assert.are.equal(COUNT, last[tostring(writer)]) end
  end)

  it("is opened for the first time by several processes at once", function()
    local command = script("open_and_append.lua", url)
    local pipes = {}
    for index = 1, 4 do pipes[index] = assert(io.popen(command .. " 2>&1", "r")) end
    for _, pipe in ipairs(pipes) do
      assert.are.equal("ok\n", pipe:read "a")
      assert.is_true(pipe:close())
    end
    expectSound()
    local service <close> = moonpad.open(url)
    assert.are.equal(4, #service:listSessions { appName = "app" })
    assert.are.same({ n = 4 }, service:getAppState { appName = "app" })
  end)
end)
