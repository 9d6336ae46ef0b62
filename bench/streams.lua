-- What streamed answers cost: many runs at once whose models say one token after the other, stepped
-- by a game once in each frame; and one long answer, which must cost time in proportion to its
-- length.
--   lua5.4 bench/streams.lua FOLDER 0|1     (bench/run.sh does it)
-- Time is what the thread has worked. In the frames, the collector is incremental and works as Lua
-- has set it, inside the steps; once more it is stopped and does one small piece in each frame,
-- which is measured with the frame. Long answers are measured with the collector as Lua sets it.

local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "bench.support"

local _, isFull = support.arguments()
local RUNS <const>, TOKENS_PER_SECOND <const>, FRAMES_PER_SECOND <const> = 50, 50, 60
local SECONDS <const> = isFull and 10 or 4
local FRAMES <const> = SECONDS * FRAMES_PER_SECOND
local TOKEN <const> = " token"

---- 21: 50 runs, 50 tokens a second each

-- One token as soon as it is due; until then it waits.
local function speak()
  local begin, said = core.monotonic(), 0
  return function()
    while core.monotonic() < begin + said / TOKENS_PER_SECOND do coroutine.yield() end
    said = said + 1
    return TOKEN
  end
end

local function startAll(runner)
  local runs = {}
  for number = 1, RUNS do
    runs[number] = runner:start { userId = "ann", sessionId = "s" .. number, newMessage = "Talk." }
  end
  return runs
end

-- All that there is of each run: its step is repeated until it waits.
local function stepAll(runs, played)
  for _, run in ipairs(runs) do
    repeat
      local before = support.worked()
      local event = run:step()
      played.worst = math.max(played.worst, (support.worked() - before) * 1e-3)
      if type(event) == "table" then played.tokens = played.tokens + 1 end
    until event == "waiting"
  end
end

local function play(runs, inPieces)
  local played = { frames = {}, worst = 0, tokens = 0 }
  local begin = core.monotonic()
  for frame = 1, FRAMES do
    local before = support.worked()
    stepAll(runs, played)
    if inPieces then collectgarbage("step", 0) end
    played.frames[frame] = (support.worked() - before) * 1e-3
    core.sleep(begin + frame / FRAMES_PER_SECOND - core.monotonic())
  end
  assert(played.tokens >= 0.9 * RUNS * TOKENS_PER_SECOND * SECONDS, "the frames kept up with the tokens")
  return played
end

local function measureFrames(what, inPieces)
  local service <close> = moonpad.open "memory:"
  local runner = moonpad.runner { appName = "game", agent = moonpad.agent { name = "Villager", model = speak },
    sessionService = service }
  local runs = startAll(runner)
  -- The first frame begins the runs.
  stepAll(runs, { worst = 0, tokens = 0 })
  collectgarbage()
  if inPieces then
    collectgarbage("incremental", 0, 0, 9)
    collectgarbage "stop"
  end
  local played = play(runs, inPieces)
  collectgarbage("incremental", 0, 0, 13)
  collectgarbage "restart"
  for _, run in ipairs(runs) do run:cancel() end
  what = ("%d runs that stream %d tokens a second%s"):format(RUNS, TOKENS_PER_SECOND, what)
  support.bounded("21", what .. ", worst step", "ms", played.worst, 4)
  support.bounded("21", what .. ", all steps of a frame, worst", "ms", support.percentile(played.frames, 1), 4)
  support.noted("21", what .. ", all steps of a frame, mean / p99", "ms", support.mean(played.frames),
    support.percentile(played.frames, 0.99))
  support.noted("21", what .. ", a token", "us", support.mean(played.frames) * FRAMES / played.tokens * 1e3)
end

---- 21: one long answer

local SHORT <const>, LONG <const> = 500000, 5000000
local ROUNDS <const> = 3

-- Microseconds that a run works whose answer has so many bytes.
local function answer(model, length)
  local service <close> = moonpad.open "memory:"
  local runner = moonpad.runner { appName = "app", agent = moonpad.agent { name = "A", model = model },
    sessionService = service }
  collectgarbage()
  local before, last = support.worked(), nil
  for event in runner:run { userId = "ann", sessionId = "s", newMessage = "Talk." } do last = event end
  local took = support.worked() - before
  assert(#last:text() == length)
  return took
end

-- `modelOf(length)` makes the model. What counts is the ratio: the long text is ten times as long.
local function measureAnswer(what, modelOf)
  local short, long = {}, {}
  for round = 1, ROUNDS do
    short[round] = answer(modelOf(SHORT), SHORT)
    long[round] = answer(modelOf(LONG), LONG)
  end
  support.atMost("21", ("a streamed answer, %s: 5 MB / 0.5 MB"):format(what), "ms", short, long, 12)
end

local function inChunks(size)
  return function(length)
    local chunk <const> = ("x"):rep(size)
    return function()
      local left = length
      return function()
        if left <= 0 then return nil end
        left = left - size
        return chunk
      end
    end
  end
end

---- The same from servers, through the adapters

local CHUNK <const> = 100

-- What a server of each provider streams before, for each piece of text, and at the end.
local PROVIDERS <const> = {
  openai = {
    path = "/chat/completions",
    piece = '{"choices":[{"index":0,"delta":{"content":"%s"}}]}',
    last = { '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}', "[DONE]" },
  },
  anthropic = {
    path = "/messages",
    first = {
      '{"type":"message_start","message":{"model":"m","usage":{"input_tokens":1,"output_tokens":1}}}',
      '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    },
    piece = '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}',
    last = {
      '{"type":"content_block_stop","index":0}', '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}',
      '{"type":"message_stop"}',
    },
  },
  gemini = {
    path = "/models/m:streamGenerateContent?alt=sse",
    piece = '{"candidates":[{"content":{"role":"model","parts":[{"text":"%s"}]}}]}',
    last = { '{"candidates":[{"content":{"role":"model","parts":[{"text":""}]},"finishReason":"STOP"}]}' },
  },
}

local function streamOf(provider, length)
  local data = table.move(provider.first or {}, 1, #(provider.first or {}), 1, {})
  local piece = provider.piece:format(("x"):rep(CHUNK))
  for _ = 1, length // CHUNK do data[#data + 1] = piece end
  return table.move(provider.last, 1, #provider.last, #data + 1, data)
end

local function measureServers()
  local servers = require "spec.support.http"
  local server = servers.start()
  -- While it runs, this process cannot end.
  local _ <close> = setmetatable({}, { __close = function() server:stop() end })
  for _, name in ipairs { "openai", "anthropic", "gemini" } do
    local provider = PROVIDERS[name]
    measureAnswer(("%s, events of %d bytes of text"):format(name, CHUNK), function(length)
      server:script { [provider.path] = servers.stream(streamOf(provider, length)) }
      return moonpad.models[name] { model = "m", apiKey = "no-key-at-all", baseUrl = server.url }
    end)
  end
end

collectgarbage "incremental"
measureFrames("")
measureFrames(", collector in pieces", true)
for _, size in ipairs { 10, 100, 1000, 50000 } do
  measureAnswer(("a function, pieces of %d bytes"):format(size), inChunks(size))
end
if pcall(require, "moonpad.http_core") and pcall(require, "socket") then measureServers() end
