--- A village in a game loop: three villagers think at the same time, sixty steps a second, and no
--- step waits for any of them. Run it twice on one file, and they remember what they saw the
--- first time:
---   export LUA_PATH="lua/?.lua;lua/?/init.lua;;" LUA_CPATH="build/?.so;;"
---   lua5.4 examples/game_loop.lua --db /tmp/village.db
--- Options: --db FILE (SQLite; default: a temporary file), --seconds N (default 6), --model NAME (a
--- real model over HTTP, such as "gpt-4o-mini", with its key in the environment; default: one in
--- Lua that needs no network).
---
--- What a villager has seen belongs to that villager's session, what the village thinks of the
--- player (`user:`) to all of its sessions, the number of all rumours (`app:`) to the game.
local moonpad = require "moonpad"

local FRAMES_PER_SECOND = 60
local FRAME_SECONDS = 1 / FRAMES_PER_SECOND

---- The command line

local function refuseArguments()
  io.stderr:write("usage: game_loop.lua [--db FILE] [--seconds N] [--model NAME]\n")
  os.exit(2)
end

local function readOptions(arguments)
  local options = { seconds = 6 }
  for index = 1, #arguments, 2 do
    local name, value = arguments[index]:match "^%-%-(%w+)$", arguments[index + 1]
    if name == "seconds" then value = tonumber(value) end
    if not (name == "db" or name == "seconds" or name == "model") or not value then refuseArguments() end
    options[name] = value
  end
  return options
end

---- Tools: what a villager can do

local remember = moonpad.tool {
  name = "remember",
  description = "Keeps something that you have seen in mind.",
  parameters = { type = "object", properties = { what = { type = "string" } }, required = { "what" } },
  run = function(args, context)
    context.state:append("seen", args.what)
    return { seen = #context.state.seen }
  end,
}

local gossip = moonpad.tool {
  name = "gossip",
  description = "Tells the village about the player. good: whether it speaks for them.",
  parameters = { type = "object", properties = { good = { type = "boolean" } }, required = { "good" } },
  run = function(args, context)
    -- Two villagers may gossip in the same frame: increments are added where they are stored, and
    -- none is lost.
    context.state:increment("user:reputation", args.good and 1 or -1)
    context.state:increment "app:rumours"
    return { reputation = context.state["user:reputation"] }
  end,
}

---- The stand-in for a model: it takes its time, as a real one does, and yields while it thinks

local FRAMES_TO_THINK, FRAMES_PER_WORD = 20, 3

local function waitFrames(count)
  for _ = 1, count do coroutine.yield() end
end

local function lastPart(request)
  return request.contents[#request.contents].parts[1]
end

-- An iterator over the words, each some frames after the one before: this is how streamed
-- answers come.
local function stream(sentence)
  local words = sentence:gmatch "%S+%s*"
  return function()
    local word = words()
    if word then waitFrames(FRAMES_PER_WORD) end
    return word
  end
end

local function standIn(request)
  waitFrames(FRAMES_TO_THINK)
  local heard = lastPart(request)
  if heard.text then
    return {
      moonpad.functionCall("remember", { what = heard.text }),
      moonpad.functionCall("gossip", { good = not heard.text:find "wolf" }),
    }
  end
  local seen = heard.functionResponse.response.seen
  return stream(("That is number %d on my list. %s"):format(seen, request.systemInstruction:match "Say: ([^\n]*)"))
end

---- The villagers

local VILLAGERS = {
  { name = "Mira", says = "The sheep are restless tonight." },
  { name = "Oswin", says = "I had better light the forge." },
  { name = "Tilda", says = "There is soup for whoever is cold." },
}

local SIGHTS = {
  "the player walks by with a lamp", "a wolf howls behind the hill", "the miller's cart has lost a wheel",
  "the player mends the miller's wheel", "smoke rises over the wood",
}

local function newVillager(definition, model, service)
  local agent = moonpad.agent {
    name = definition.name,
    model = model,
    instruction = "You are {name}, a villager. What the village thinks of the player: {user:reputation?}.\nSay: "
      .. definition.says,
    tools = { remember, gossip },
    beforeAgentCallback = function(context) context.state:setDefault("name", definition.name) end,
  }
  return {
    name = definition.name,
    thoughts = 0,
    runner = moonpad.runner { appName = "village", agent = agent, sessionService = service },
  }
end

local function showEvent(villager, frame, event)
  if event.errorCode then
    print(("frame %4d  %s is lost for words: %s"):format(frame, villager.name, event.errorMessage))
  elseif not event.partial and event:text() ~= "" then
    print(("frame %4d  %-6s %s"):format(frame, villager.name .. ":", event:text()))
  end
end

-- One frame of one villager: never more than one step, whatever is going on inside.
local function update(villager, frame)
  if not villager.thought then
    if (frame - villager.offset) % (2 * FRAMES_PER_SECOND) ~= 0 then return end
    local sight = SIGHTS[(villager.thoughts + villager.offset) % #SIGHTS + 1]
    villager.thoughts = villager.thoughts + 1
    print(("frame %4d  (%s sees: %s)"):format(frame, villager.name, sight))
    villager.thought = villager.runner:start {
      userId = "player",
      sessionId = villager.name:lower(),
      newMessage = sight,
    }
  end
  local event = villager.thought:step()
  if event == nil then
    villager.thought = nil
  elseif event ~= "waiting" then
    showEvent(villager, frame, event)
  end
end

---- The loop

-- A game decides itself when garbage is collected: a little in each frame instead of much in some.
local COLLECTOR_STEP_KB = 20

local function newTimes()
  return { steps = 0, frames = 0, sum = 0, worst = 0, worstFrame = 0, collector = 0 }
end

-- How long each step took: the promise to a game is the worst of them.
local function timedUpdate(villager, frame, times)
  local start = moonpad.clock()
  update(villager, frame)
  local took = moonpad.clock() - start
  times.steps, times.sum = times.steps + 1, times.sum + took
  if took > times.worst then times.worst, times.worstOf = took, ("%s in frame %d"):format(villager.name, frame) end
end

local function playFrame(villagers, frame, times)
  local start = moonpad.clock()
  for _, villager in ipairs(villagers) do timedUpdate(villager, frame, times) end
  local stepped = moonpad.clock()
  collectgarbage("step", COLLECTOR_STEP_KB)
  local finish = moonpad.clock()
  times.frames = times.frames + 1
  times.collector = math.max(times.collector, finish - stepped)
  times.worstFrame = math.max(times.worstFrame, finish - start)
end

local function play(villagers, seconds)
  local times = newTimes()
  collectgarbage "stop"
  local next = moonpad.clock()
  for frame = 0, math.floor(seconds * FRAMES_PER_SECOND) - 1 do
    playFrame(villagers, frame, times)
    next = next + FRAME_SECONDS
    local left = next - moonpad.clock()
    if left > 0 then moonpad.sleep(left) end
  end
  collectgarbage "restart"
  return times
end

---- What came of it

local function showTimes(times)
  local function share(seconds) return seconds / FRAME_SECONDS * 100 end
  local perFrame = times.sum / math.max(times.frames, 1)
  print(("%d steps in %d frames, %d frames a second"):format(times.steps, times.frames, FRAMES_PER_SECOND))
  print(("step: %.3f ms on average, worst step %.3f ms (%s)"):format(
    times.sum / math.max(times.steps, 1) * 1e3, times.worst * 1e3, times.worstOf or "-"))
  print(("share of a frame's %.1f ms: %.2f %% on average; in the worst frame %.1f %%, its collection included"):format(
    FRAME_SECONDS * 1e3, share(perFrame), share(times.worstFrame)))
  print(("worst collection %.3f ms, a step of %d KB in every frame"):format(times.collector * 1e3, COLLECTOR_STEP_KB))
end

local function removeDatabase(path)
  for _, suffix in ipairs { "", "-wal", "-shm" } do os.remove(path .. suffix) end
end

local function main(options)
  local path = options.db or os.tmpname()
  local _ <close> = setmetatable({}, {
    __close = function()
      if not options.db then removeDatabase(path) end
    end,
  })
  local service <close> = moonpad.open("sqlite:" .. path, { durability = "normal" })
  local villagers = {}
  for index, definition in ipairs(VILLAGERS) do
    villagers[index] = newVillager(definition, options.model or standIn, service)
    villagers[index].offset = index - 1 -- they begin a frame apart, and think at the same time
  end
  -- The first write after a file has been opened waits for the disk. A game does it while it loads,
  -- not in a frame.
  print(("Night %d in the village"):format(service:incrementState { appName = "village", key = "nights" }))
  local times = play(villagers, options.seconds)
  for _, villager in ipairs(villagers) do
    if villager.thought then villager.thought:cancel() end
  end
  print(("Rumours in the game: %d; what the village thinks of the player: %d"):format(
    service:getAppState({ appName = "village" }).rumours or 0,
    service:getUserState({ appName = "village", userId = "player" }).reputation or 0))
  showTimes(times)
end

main(readOptions(arg))
