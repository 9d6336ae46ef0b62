-- What a large image costs a game: an answer of Gemini with 7 MB of base64, streamed and whole, and
-- a request with 5 MB in its history. No step may take long. What has to be done at least is to
-- decode the answer and to encode it for the store, each in one call of the codec.
--   lua5.4 bench/images.lua FOLDER 0|1     (bench/run.sh does it)
-- Time is what the thread has worked, in runs that are stepped; the collector works as Lua sets it.
local moonpad = require "moonpad"
local support = require "bench.support"

support.arguments()
if not (pcall(require, "moonpad.http_core") and pcall(require, "socket")) then os.exit(0) end
local http = require "moonpad.http"
local servers = require "spec.support.http"

local ROUNDS <const> = 7
local RECEIVED <const>, SENT <const> = 7000000, 5000000
local STREAMED <const>, WHOLE <const> = "/models/m:streamGenerateContent?alt=sse", "/models/m:generateContent"

local function image(bytes) return ("iVBORw0KGgoAAAANSUhEUgAA"):rep(bytes // 24) end

local function answerWith(part)
  return ('{"candidates":[{"content":{"role":"model","parts":[%s]},"finishReason":"STOP"}]}'):format(part)
end

-- Microseconds of the least that an answer takes.
local function decodeAndEncode(answer)
  collectgarbage()
  local before = support.worked()
  moonpad.json.encode(moonpad.json.decode(answer))
  return support.worked() - before
end

-- Plays a run. The result is how long each step worked.
local function play(runner, message)
  local run, steps = runner:start { userId = "ann", sessionId = "s", newMessage = message }, {}
  local last
  repeat
    local before = support.worked()
    local event = run:step()
    steps[#steps + 1] = support.worked() - before
    if event == "waiting" then http.poll(0.01) end
    if type(event) == "table" then last = event end
  until event == nil
  assert(last.content.parts[1], "the model has answered")
  return steps
end

local function newRunner(service, server, isStreamed)
  local model = moonpad.models.gemini {
    model = "m", apiKey = "no-key-at-all", baseUrl = server.url, stream = isStreamed,
  }
  local agent = moonpad.agent { name = "A", model = model }
  return moonpad.runner { appName = "app", agent = agent, sessionService = service }
end

-- Whether memory is new to the process makes much of a difference: both take turns.
local function measure(what, answer, bound, playOnce)
  local limits, worst, sums = {}, {}, {}
  for round = 1, ROUNDS do
    limits[round] = decodeAndEncode(answer)
    collectgarbage()
    local steps = playOnce()
    worst[round], sums[round] = support.percentile(steps, 1), support.mean(steps) * #steps
  end
  support.atMost("", what .. ", worst step", "ms", limits, worst, bound)
  support.noted("", what .. ", all steps", "ms", support.median(sums) * 1e-3)
end

local function measureAnswers(server)
  local answer = answerWith(('{"inlineData":{"mimeType":"image/png","data":"%s"}}'):format(image(RECEIVED)))
  server:script { [STREAMED] = servers.stream { answer }, [WHOLE] = servers.json(answer) }
  for what, isStreamed in pairs { streamed = true, whole = false } do
    measure(("an answer with an image of 7 MB, %s"):format(what), answer, 4, function()
      local service <close> = moonpad.open "memory:"
      return play(newRunner(service, server, isStreamed), "Paint.")
    end)
  end
end

local function measureRequest(server)
  local picture = image(SENT)
  server:script { [STREAMED] = servers.stream { answerWith '{"text":"A house."}' } }
  local service <close> = moonpad.open "memory:"
  local runner = newRunner(service, server, true)
  local shown = { { text = "What is this?" }, { inlineData = { mimeType = "image/png", data = picture } } }
  play(runner, { parts = shown })
  measure("a request with an image of 5 MB in its history", moonpad.json.encode(picture), 2, function()
    return play(runner, "And now?")
  end)
end

collectgarbage "incremental"
local server = servers.start()
local _ <close> = setmetatable({}, { __close = function() server:stop() end })
measureAnswers(server)
measureRequest(server)
