--- A village in a game loop: three villagers think at the same time, sixty steps a second, and no step waits for any of
--- them. Run it twice on one file, and they remember what they saw the first time:
---   export LUA_PATH="lua/?.lua;lua/?/init.lua;;" LUA_CPATH="build/?.so;;"
---   lua5.4 examples/game_loop.lua --db /tmp/village.db
--- Options: --db FILE (default: memory only), --seconds N (default 6), --model NAME (a real model over HTTP, such as
--- "gpt-4o-mini", with its key in the environment; default: one in Lua that needs no network).
---
--- What a villager has seen belongs to that villager's session, what the village thinks of the player (`user:`) to all
--- of its sessions, the number of all rumours (`app:`) to the game.
local moonpad = require "moonpad"
local core = require "moonpad.core" -- for a clock and a sleep, which a game engine has of its own

local FRAMES_PER_SECOND = 60
local FRAME_SECONDS = 1 / FRAMES_PER_SECOND

---- The command line

local function readOptions(arguments)
  local options = { seconds = 6 }
  local index = 1
  while arguments[index] do
    local name, value = arguments[index]:match "^%-%-(%w+)$", arguments[index + 1]
    if not (name == "db" or name == "seconds" or name == "model") or not value then
      io.stderr:write("usage: game_loop.lua [--db FILE] [--seconds N] [--model NAME]\n")
      os.exit(2)
    end
    options[name] = value
    index = index + 2
  end
  options.seconds = tonumber(options.seconds) or 6
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
    -- Two villagers may gossip in the same frame: increments are added where they are stored, and none is lost.
    context.state:increment("user:reputation", args.good and 1 or -1)
    context.state:increment "app:rumours"
    return { reputation = context.state["user:reputation"] }
  end,
}

---- The stand-in for a model: it takes its time, as a real one does, and gives the frame back while it thinks

local FRAMES_TO_THINK, FRAMES_PER_WORD = 20, 4

local function waitFrames(count)
  for _ = 1, count do coroutine.yield() end
end

local function lastPart(request)
  return request.contents[#request.contents].parts[1]
end

-- An iterator over the words, each some frames after the one before: this is how streamed answers come.
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
      content = {
        role = "model",
        parts = {
          { functionCall = { name = "remember", args = { what = heard.text } } },
          { functionCall = { name = "gossip", args = { good = not heard.text:find "wolf" } } },
        },
      },
    }
  end
  local seen = heard.functionResponse.response.seen
  return stream(("That makes %d things I have seen. %s"):format(seen, request.systemInstruction:match "Say: ([^\n]*)"))
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

local function showEvent(villager, event)
  if event.errorCode then
    print(("%-6s is lost for words: %s"):format(villager.name, event.errorMessage))
  elseif not event.partial and event:text() ~= "" then
    print(("%-6s %s"):format(villager.name .. ":", event:text()))
  end
end

-- One frame of one villager: never more than one step, whatever is going on inside.
local function update(villager, frame)
  if not villager.thought then
    if (frame - villager.offset) % (2 * FRAMES_PER_SECOND) ~= 0 then return end
    villager.thoughts = villager.thoughts + 1
    villager.thought = villager.runner:start {
      userId = "player",
      sessionId = villager.name:lower(),
      newMessage = SIGHTS[(villager.thoughts + villager.offset) % #SIGHTS + 1],
    }
  end
  local event = villager.thought:step()
  if event == nil then
    villager.thought = nil
  elseif event ~= "waiting" then
    showEvent(villager, event)
  end
end

---- The loop

local function newTimes()
  return { steps = 0, sum = 0, worst = 0, collector = 0 }
end

-- How long each step took: the promise to a game is the worst of them.
local function timedUpdate(villager, frame, times)
  local start = core.monotonic()
  update(villager, frame)
  local took = core.monotonic() - start
  times.steps, times.sum = times.steps + 1, times.sum + took
  if took > times.worst then times.worst, times.worstOf = took, villager.name end
end

local function play(villagers, seconds)
  local times = newTimes()
  -- A game decides itself when garbage is collected: a little in each frame instead of much in some.
  collectgarbage "stop"
  local next = core.monotonic()
  for frame = 0, math.floor(seconds * FRAMES_PER_SECOND) - 1 do
    for _, villager in ipairs(villagers) do timedUpdate(villager, frame, times) end
    local start = core.monotonic()
    collectgarbage("step", 20)
    times.collector = math.max(times.collector, core.monotonic() - start)
    next = next + FRAME_SECONDS
    local left = next - core.monotonic()
    if left > 0 then core.sleep(left) end
  end
  collectgarbage "restart"
  return times
end

local options = readOptions(arg)
local service <close> = moonpad.open(options.db and "sqlite:" .. options.db or "memory:", { durability = "normal" })
local villagers = {}
for index, definition in ipairs(VILLAGERS) do
  villagers[index] = newVillager(definition, options.model or standIn, service)
  villagers[index].offset = index - 1 -- they begin a frame apart, and think at the same time
end

local times = play(villagers, options.seconds)
for _, villager in ipairs(villagers) do
  if villager.thought then villager.thought:cancel() end
end

print(("Rumours in the game: %d; what the village thinks of the player: %d"):format(
  service:getAppState({ appName = "village" }).rumours or 0,
  service:getUserState({ appName = "village", userId = "player" }).reputation or 0))
print(("%d steps at %d frames a second: %.3f ms on average, worst step %.3f ms (%s), worst collection %.3f ms"):format(
  times.steps, FRAMES_PER_SECOND, times.sum / times.steps * 1e3, times.worst * 1e3, times.worstOf or "-",
  times.collector * 1e3))
