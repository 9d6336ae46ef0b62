-- What state costs a game, frame by frame: 1,000 characters, each with a session of its own, 10 state writes and
-- 1 append each per second, at 60 frames per second.
--   lua5.4 bench/frames.lua FOLDER 0|1     (bench/run.sh does it; 1: a minute of the game instead of ten seconds)
-- The collector is stopped and gets its turn at the end of each frame, as much as the frame has allocated, so that its
-- share is seen. With SQLite time is that of the wall: a frame that waits for the disk is late. In memory nothing
-- waits, so it is what the process has worked. Where an append returns when it is stored, frames follow each other at
-- once; asynchronous appends are polled once a frame, and the frames come in real time.

local core = require "moonpad.core"
local limits = require "lua_limits"
local moonpad = require "moonpad"

local folder, full = assert(arg[1], "usage: frames.lua FOLDER 0|1"), arg[2] == "1"
local NPCS <const>, FRAMES_PER_SECOND <const>, WRITES <const> = 1000, 60, 10
local FRAMES <const> = (full and 60 or 10) * FRAMES_PER_SECOND
local BUDGET_MS <const> = 1000 / FRAMES_PER_SECOND
local KEYS <const> = { "x", "y", "mood", "target", "hunger", "path", "user:gold", "goal", "seen", "plan" }
assert(#KEYS == WRITES)

local function line(...) print(table.concat({ ... }, "\t")) end

-- A table now and then, as games have them; numbers and strings otherwise.
local function value(key, round)
  if key == "path" then return { { x = round, y = round + 1 }, { x = round + 2, y = round } } end
  if key == "mood" or key == "goal" then return "something " .. round % 7 end
  return round
end

local function populate(service)
  local sessions = {}
  for npc = 1, NPCS do
    sessions[npc] = service:createSession { appName = "game", userId = "npc " .. npc, sessionId = "life",
      state = { x = 0, y = 0, mood = "calm" } }
  end
  return sessions
end

-- What is due in each frame is spread evenly: one character after the other writes, one after the other is stored.
local function writeDue(sessions, frame, written)
  local due = frame * NPCS * WRITES // FRAMES_PER_SECOND
  while written < due do
    local key = KEYS[written // NPCS % WRITES + 1]
    sessions[written % NPCS + 1].state[key] = value(key, written // NPCS)
    written = written + 1
  end
  return written
end

local function storeDue(service, sessions, frame, stored, later)
  local due = frame * NPCS // FRAMES_PER_SECOND
  while stored < due do
    local session = sessions[stored % NPCS + 1]
    if later then service:updateSessionAsync(session) else service:updateSession(session) end
    stored = stored + 1
  end
  return stored
end

local function play(service, sessions, clock, later)
  local frames, collecting, written, stored, completed, lost = {}, 0, 0, 0, 0, 0
  local begin = core.monotonic()
  for frame = 1, FRAMES do
    local start, before = clock(), collectgarbage "count"
    written = writeDue(sessions, frame, written)
    stored = storeDue(service, sessions, frame, stored, later)
    if later then
      local some, failed = service:poll()
      completed, lost = completed + some, lost + failed
    end
    local worked = clock()
    collectgarbage("step", math.ceil(collectgarbage "count" - before))
    local finish = clock()
    frames[frame] = finish - start
    collecting = collecting + finish - worked
    if later then core.sleep(begin + frame / FRAMES_PER_SECOND - core.monotonic()) end
  end
  assert(stored == FRAMES * NPCS // FRAMES_PER_SECOND)
  while later and completed < stored do
    local some, failed = service:poll(60)
    assert(some > 0, "storing what is queued")
    completed, lost = completed + some, lost + failed
  end
  assert(lost == 0)
  return frames, collecting
end

local function measure(what, clock, url, config, promised)
  local service <close> = moonpad.open(url, config)
  local sessions = populate(service)
  collectgarbage()
  collectgarbage "stop"
  local held = collectgarbage "count"
  local frames, collecting = play(service, sessions, clock, promised)
  local grown = collectgarbage "count" - held
  collectgarbage "restart"
  local sum = 0
  for _, time in ipairs(frames) do sum = sum + time end
  table.sort(frames)
  local function ms(time) return ("%.3f ms"):format(time * 1e-3) end
  local worst = frames[#frames]
  local function report(name, time, most)
    line(most and "20" or "", ("a frame of 1,000 NPCs, %s, %s"):format(what, name), "", ms(time), "",
      most and ("<= %.1f ms"):format(most) or "", most and (time * 1e-3 <= most and "ok" or "MISS") or "")
  end
  report("mean", sum / #frames, promised and 1)
  report("p99", frames[math.ceil(#frames * 0.99)], promised and 2)
  line("", ("a frame of 1,000 NPCs, %s, worst of %d"):format(what, FRAMES), "", ms(worst), "",
    ("<= %.1f ms"):format(BUDGET_MS), worst * 1e-3 <= BUDGET_MS and "ok" or "MISS")
  line("", ("a frame of 1,000 NPCs, %s, share of the collector"):format(what), "",
    ("%.1f %%"):format(100 * collecting / sum), "", "", "")
  -- The collector keeps up: otherwise its share says nothing.
  assert(grown < 16 * 1024, ("%s: Lua's memory grew by %.0f KB"):format(what, grown))
end

measure("memory", limits.now, "memory:")
measure("SQLite NORMAL", limits.wall, "sqlite:" .. folder .. "/normal.db", { durability = "normal" })
measure("SQLite FULL", limits.wall, "sqlite:" .. folder .. "/full.db", { durability = "full" })
measure("SQLite NORMAL, asynchronous", limits.wall, "sqlite:" .. folder .. "/normal-async.db",
  { durability = "normal" }, true)
measure("SQLite FULL, asynchronous", limits.wall, "sqlite:" .. folder .. "/full-async.db",
  { durability = "full" }, true)
