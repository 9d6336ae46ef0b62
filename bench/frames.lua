-- What state costs a game, frame by frame: 1,000 characters, each with a session of its own, 10
-- state writes and 1 append each per second, at 60 frames per second.
--   lua5.4 bench/frames.lua FOLDER     (bench/run.sh does it)
-- The collector is stopped and gets its turn at the end of each frame, as much as the frame has
-- allocated, so that its share is seen. With SQLite time is that of the wall: a frame that waits
-- for the disk is late. In memory nothing waits, so it is what the thread has worked. Where an
-- append returns when it is stored, frames follow each other at once; asynchronous appends are
-- polled once a frame, and the frames come in real time. What a frame works is told beside it then:
-- on a machine that others use, the wall measures their turns, too.

local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "bench.support"

local folder = support.arguments()
local NPCS <const>, FRAMES_PER_SECOND <const>, WRITES <const> = 1000, 60, 10
local FRAMES <const> = 10 * FRAMES_PER_SECOND
local BUDGET_MS <const> = 1000 / FRAMES_PER_SECOND
local KEYS <const> = { "x", "y", "mood", "target", "hunger", "path", "user:gold", "goal", "seen", "plan" }
assert(#KEYS == WRITES)

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

-- What is due in each frame is spread evenly: one character after the other writes, one after the
-- other is stored.
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

local function playFrame(service, sessions, frame, later, played)
  local before = collectgarbage "count"
  played.written = writeDue(sessions, frame, played.written)
  played.stored = storeDue(service, sessions, frame, played.stored, later)
  if later then
    local some, failed = service:poll()
    played.completed, played.lost = played.completed + some, played.lost + failed
  end
  local worked = support.worked()
  collectgarbage("step", math.ceil(collectgarbage "count" - before))
  played.collecting = played.collecting + support.worked() - worked
end

local function play(service, sessions, later)
  local played = { wall = {}, worked = {}, collecting = 0, written = 0, stored = 0, completed = 0, lost = 0 }
  local begin = core.monotonic()
  for frame = 1, FRAMES do
    local start, worked = support.wall(), support.worked()
    playFrame(service, sessions, frame, later, played)
    played.worked[frame] = (support.worked() - worked) * 1e-3
    played.wall[frame] = (support.wall() - start) * 1e-3
    if later then core.sleep(begin + frame / FRAMES_PER_SECOND - core.monotonic()) end
  end
  assert(played.stored == FRAMES * NPCS // FRAMES_PER_SECOND)
  while later and played.completed < played.stored do
    local some, failed = service:poll(60)
    assert(some > 0, "storing what is queued")
    played.completed, played.lost = played.completed + some, played.lost + failed
  end
  assert(played.lost == 0)
  return played
end

local function report(what, frames, promised)
  local mean, p99 = support.mean(frames), support.percentile(frames, 0.99)
  if promised then
    support.bounded("20", what .. ", mean", "ms", mean, 1)
    support.bounded("20", what .. ", p99", "ms", p99, 2)
  else
    support.noted("", what .. ", mean / p99", "ms", mean, p99)
  end
  support.bounded("", ("%s, worst of %d"):format(what, FRAMES), "ms", support.percentile(frames, 1), BUDGET_MS)
end

local function measure(store, url, config, later)
  local what = "a frame of 1,000 NPCs, " .. store
  local service <close> = moonpad.open(url, config)
  local sessions = populate(service)
  collectgarbage()
  collectgarbage "stop"
  local held = collectgarbage "count"
  local played = play(service, sessions, later)
  local grown = collectgarbage "count" - held
  collectgarbage "restart"
  local share = 100 * played.collecting / FRAMES / support.mean(played.worked) * 1e-3
  report(what, config and played.wall or played.worked, later)
  if later then
    support.noted("20", what .. ", what it works, mean / p99", "ms", support.mean(played.worked),
      support.percentile(played.worked, 0.99))
  end
  support.noted("", what .. ", share of the collector in its work", "%", share)
  -- The collector keeps up: otherwise its share says nothing.
  assert(grown < 16 * 1024, ("%s: Lua's memory grew by %.0f KB"):format(what, grown))
end

measure("memory", "memory:")
for _, durability in ipairs { "normal", "full" } do
  local what, url = "SQLite " .. durability:upper(), ("sqlite:%s/%s"):format(folder, durability)
  measure(what, url .. ".db", { durability = durability })
  measure(what .. ", asynchronous", url .. "-async.db", { durability = durability }, true)
end
