-- What a step of an agent's run costs a game: one step in each frame, 60 frames per second, in
-- real time, one run after the other. The model is a function that answers at once: first it
-- calls a tool, then it says a line. The tool writes state, reads an artifact, searches the
-- memory, and counts up and reads what belongs to the user. A run gets to see the last 20 events
-- of its session.
--   lua5.4 bench/steps.lua FOLDER     (bench/run.sh does it)
-- The collector works as Lua has set it (incremental), inside the steps; once more, it is stopped
-- and does one small piece in each frame, which is measured with the step. A frame that begins a
-- run measures its start together with its first step. What a step works is the processor time of
-- its thread; model and tool are too short to count in it.

local core = require "moonpad.core"
local moonpad = require "moonpad"
local slow_store = require "spec.support.slow_store"
local support = require "bench.support"

local folder, isFull = support.arguments()
local FRAMES_PER_SECOND <const>, FRAMES <const> = 60, 600
local HISTORY <const>, WINDOW <const> = isFull and 100000 or 20000, 20
local GAME <const>, PLAYER <const>, SESSION <const> = "game", "ann", "village"

-- Some lines of another session, to search in.
local function remember(service, memory)
  local session = service:createSession { appName = GAME, userId = PLAYER, sessionId = "before" }
  for i = 1, 10 do service:appendEvent(session, support.newEvent(i, 1)) end
  memory:addSession(session)
end

local function newAgent(service, includeContents)
  local user = { appName = GAME, userId = PLAYER }
  local count = { appName = GAME, userId = PLAYER, key = "nights" }
  local look = moonpad.tool {
    name = "look",
    run = function(_, context)
      context.state.seen = "a taxi"
      context.state:increment "looks"
      assert(context:loadArtifact "map.txt".text == "here")
      assert(#context:searchMemory("taxi").memories > 0)
      assert(service:incrementState(count) == service:getUserState(user).nights)
      return { seen = context.state.seen }
    end,
  }
  return moonpad.agent {
    name = "Villager", instruction = "You have seen {seen?}.", tools = { look }, includeContents = includeContents,
    model = function(request)
      local last = request.contents[#request.contents].parts[1]
      if last.functionResponse then return "I have seen " .. last.functionResponse.response.seen .. "." end
      return { content = { parts = { { functionCall = { name = "look", args = {} } } } } }
    end,
  }
end

-- What docs/agents.md tells games: small pieces instead of a whole cycle now and then.
local function collectInPieces()
  collectgarbage("incremental", 0, 0, 9)
  collectgarbage "stop"
end

local function collectAsLuaDoes()
  collectgarbage("incremental", 0, 0, 13)
  collectgarbage "restart"
end

-- One step in each frame. Returns the milliseconds of each, and how many runs ended.
local function play(runner, inPieces)
  local played, run, runs, answered = { wall = {}, worked = {} }, nil, 0, 0
  local begin = core.monotonic()
  for frame = 1, FRAMES do
    local start, worked = support.wall(), support.worked()
    run = run or runner:start {
      userId = PLAYER, sessionId = SESSION, newMessage = "What do you see?", numRecentEvents = WINDOW,
    }
    local event = run:step()
    if inPieces then collectgarbage("step", 0) end
    played.worked[frame] = (support.worked() - worked) * 1e-3
    played.wall[frame] = (support.wall() - start) * 1e-3
    if event == nil then
      run, runs = nil, runs + 1
    elseif event ~= "waiting" and event:isFinalResponse() then
      assert(event:text() == "I have seen a taxi.")
      answered = answered + 1
    end
    core.sleep(begin + frame / FRAMES_PER_SECOND - core.monotonic())
  end
  if run then run:cancel() end
  assert(runs > 0 and answered >= runs, "every run says its line")
  return played, runs
end

local function report(what, played, runs)
  local wall, worked = played.wall, played.worked
  support.bounded("19", what .. ", wall, p99", "ms", support.percentile(wall, 0.99), 2)
  support.bounded("19", what .. ", what it works, worst", "ms", support.percentile(worked, 1), 2)
  support.noted("19", what .. ", wall, mean / p50 / worst", "ms", support.mean(wall), support.median(wall),
    support.percentile(wall, 1))
  support.noted("19", what .. ", what it works, mean / p50 / p99", "ms", support.mean(worked),
    support.median(worked), support.percentile(worked, 0.99))
  support.noted("19", what .. ", frames for a run", "frames", FRAMES / runs)
end

-- A game that has gone on for `history` events.
local function prepare(service, artifacts, memory, history)
  remember(service, memory)
  artifacts:save { appName = GAME, userId = PLAYER, sessionId = SESSION, filename = "map.txt", part = "here" }
  local session = service:createSession { appName = GAME, userId = PLAYER, sessionId = SESSION }
  support.fill(service, session, history)
end

local FULL <const> = { durability = "full" }

-- Artifacts and memories are in a file of their own.
local function measure(what, service, artifacts, memory, includeContents)
  local runner = moonpad.runner {
    appName = GAME, agent = newAgent(service, includeContents), sessionService = service,
    artifactService = artifacts, memoryService = memory,
  }
  collectgarbage()
  report("step(), " .. what, play(runner))
  collectInPieces()
  report("step(), " .. what .. ", collector in pieces", play(runner, true))
  collectAsLuaDoes()
end

local function withStores(file, run)
  local url = ("sqlite:%s/%s"):format(folder, file)
  local artifacts <close> = moonpad.artifactService(url .. "-beside.db", FULL)
  local memory <close> = moonpad.memoryService(url .. "-beside.db", FULL)
  run(url .. ".db", artifacts, memory)
end

local function measureFile(what, file, history, includeContents, open)
  withStores(file, function(url, artifacts, memory)
    do
      local quick <close> = moonpad.open(url, { durability = "normal" })
      prepare(quick, artifacts, memory, history)
    end
    local service <close> = open(url, FULL)
    measure(what, service, artifacts, memory, includeContents)
  end)
end

local function measureMemory(what, history)
  withStores("memory", function(_, artifacts, memory)
    local service <close> = moonpad.open "memory:"
    prepare(service, artifacts, memory, history)
    measure(what, service, artifacts, memory, "default")
  end)
end

local function openSlow(url) return slow_store.open("slow:50:" .. url) end

local long = HISTORY .. " events"
collectgarbage "incremental"
measureFile("SQLite FULL", "full", 0, "default", moonpad.open)
measureFile("a link of 50 ms", "slow", 0, "default", openSlow)
measureMemory("memory, " .. long, HISTORY)
measureFile("SQLite FULL, " .. long, "default", HISTORY, "default", moonpad.open)
measureFile("a link of 50 ms, " .. long, "slow-long", HISTORY, "default", openSlow)
measureFile(("SQLite FULL, %s, includeContents = \"none\""):format(long), "none", HISTORY, "none", moonpad.open)
