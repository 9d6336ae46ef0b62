-- What a turn costs against the length of its session's history: one message, a model that is a
-- function and answers one line.
--   lua5.4 bench/turns.lua FOLDER 0|1     (bench/run.sh does it)
-- Time is what the thread has worked. A turn appends two events, so that a history of 10 grows
-- while it is measured; the turns of the three lengths take turns. The collector works as Lua has
-- set it, inside the turns: it is part of what they cost.

local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "bench.support"

local folder, isFull = support.arguments()
local WINDOW <const>, TURNS <const> = 20, 40
local LENGTHS <const> = { 10, 10000, isFull and 100000 or 20000 }
local WHOLE <const>, FIRST_TURNS <const> = 10000, 5
local APP <const>, USER <const> = "hotel", "ann"

-- Its name is that of the typical event's author: its own words are in the prompt as they are.
local function newRunner(service, definition)
  local fields = { name = "concierge", instruction = "Be kind.", model = function() return "Yes, at once." end }
  for name, value in pairs(definition) do fields[name] = value end
  return moonpad.runner { appName = APP, agent = moonpad.agent(fields), sessionService = service }
end

local function fill(service, sessionId, length)
  support.fill(service, service:createSession { appName = APP, userId = USER, sessionId = sessionId }, length)
end

-- Microseconds of one turn.
local function turn(runner, sessionId, window)
  local before, said = support.worked(), nil
  for event in runner:run { userId = USER, sessionId = sessionId, newMessage = "A taxi?", numRecentEvents = window } do
    said = event
  end
  local took = support.worked() - before
  assert(said:text() == "Yes, at once.")
  return took
end

---- 17: what the model is not shown costs nothing

-- 1 to `count` in any order: in a fixed one, the collector's work may fall on the same turn always.
local function shuffled(count)
  local order = {}
  for index = 1, count do table.insert(order, math.random(index), index) end
  return order
end

local function measureShort(what, prefix, runner, window, boundMs)
  local times = { {}, {}, {} }
  for round = 0, TURNS do
    for _, index in ipairs(shuffled(#LENGTHS)) do
      local took = turn(runner, prefix .. LENGTHS[index], window)
      if round > 0 then times[index][round] = took end
    end
  end
  for index = 2, #LENGTHS do
    support.atMost("17", ("a turn, %s: with %d events / with 10"):format(what, LENGTHS[index]), "us", times[1],
      times[index], 1.5)
  end
  if boundMs then
    support.bounded("17", ("a turn, %s, %d events"):format(what, LENGTHS[#LENGTHS]), "ms",
      support.median(times[#LENGTHS]) * 1e-3, boundMs)
  end
end

local function measureStore(what, service, boundMs)
  -- Sessions of their own each: a window of 20 must not find what the other has read.
  local function fillAll(prefix)
    for _, length in ipairs(LENGTHS) do fill(service, prefix .. length, length) end
    -- What filling has left is none of the turns'.
    collectgarbage()
  end
  fillAll "none "
  measureShort(what .. ', includeContents = "none"', "none ", newRunner(service, { includeContents = "none" }), nil,
    boundMs)
  fillAll "window "
  measureShort(("%s, a window of %d"):format(what, WINDOW), "window ", newRunner(service, {}), WINDOW, boundMs)
end

---- 18: the whole history in the prompt

local function perEvent(times)
  return support.median(times) / WHOLE
end

local function measureWhole(what, service)
  local kinds = {
    { "without beforeModelCallback", newRunner(service, {}), 0.3 },
    { "with one", newRunner(service, { beforeModelCallback = function() end }), 5 },
  }
  local first = {}
  for number = 1, FIRST_TURNS do
    fill(service, "whole " .. number, WHOLE)
    collectgarbage()
    first[number] = turn(kinds[1][2], "whole " .. number)
  end
  what = ("a turn with all of %d events in the prompt, %s"):format(WHOLE, what)
  support.bounded("18", what .. ", the first, for an event", "us", perEvent(first), 5)
  for _, kind in ipairs(kinds) do
    local later = {}
    for round = 1, 10 do later[round] = turn(kind[2], "whole 1") end
    support.bounded("18", ("%s, a later one %s, for an event"):format(what, kind[1]), "us", perEvent(later), kind[3])
  end
end

---- 19: a long history in steps

-- Milliseconds of the steps of one turn.
local function step(runner, sessionId)
  local run, steps = runner:start { userId = USER, sessionId = sessionId, newMessage = "A taxi?" }, {}
  repeat
    local before = support.worked()
    local event = run:step()
    steps[#steps + 1] = (support.worked() - before) * 1e-3
    if event == "waiting" then core.idle(0.001) end
  until event == nil
  return steps
end

-- With the collector stopped, what is left is moonpad's own work; else a step may have a cycle of
-- the collector in it, which goes over all that the program holds. The worst step of each turn is
-- taken, and of these the median: memory that is new to the process is slow.
local function measureSteps(what, service)
  local runner, worst = newRunner(service, {}), { stopped = {}, running = {} }
  for round = 1, FIRST_TURNS do
    for collector, list in pairs(worst) do
      local sessionId = ("steps %s %d"):format(collector, round)
      fill(service, sessionId, WHOLE)
      collectgarbage()
      if collector == "stopped" then collectgarbage "stop" end
      list[round] = support.percentile(step(runner, sessionId), 1)
      collectgarbage "restart"
    end
  end
  what = ("step(), the first turn with all of %d events in the prompt, %s, worst"):format(WHOLE, what)
  support.bounded("19", what .. ", collector stopped", "ms", support.median(worst.stopped), 2)
  support.noted("19", what .. ", collector as Lua sets it", "ms", support.median(worst.running))
end

do
  local memory <close> = moonpad.open "memory:"
  local sqlite <close> = moonpad.open("sqlite:" .. folder .. "/turns.db", { durability = "normal" })
  measureStore("memory", memory, 0.4)
  measureStore("SQLite", sqlite)
  measureWhole("memory", memory)
  measureWhole("SQLite", sqlite)
  measureSteps("memory", memory)
  measureSteps("SQLite", sqlite)
end
