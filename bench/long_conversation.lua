-- A long conversation, scripted: what a turn costs, how long its prompt is, and how large the file
-- is, with a summarizer and maxEvents and without.
--   lua5.4 bench/long_conversation.lua FOLDER 0|1 [SVG]     (bench/run.sh does it)
-- With SVG it draws docs/long.svg as well. Then what appends cost that trim.

local moonpad = require "moonpad"
local support = require "bench.support"

local folder, isFull = support.arguments()
local TURNS <const> = isFull and 5000 or 1000
local SAMPLES <const> = 20
local MAX_EVENTS <const> = 100
local WHO <const> = { appName = "chat", userId = "ann", sessionId = "s" }

local function charsOf(request)
  local chars = 0
  for _, content in ipairs(request.contents) do
    for _, part in ipairs(content.parts) do chars = chars + #(part.text or "") end
  end
  return chars
end

local function fileBytes(path)
  local bytes = 0
  for _, suffix in ipairs { "", "-wal" } do
    local file <close> = io.open(path .. suffix, "rb")
    bytes = bytes + (file and file:seek "end" or 0)
  end
  return bytes
end

-- One point for each twentieth of the conversation: { turn, prompt characters, us a turn, bytes }.
local function converse(name, keepsHouse)
  local path = ("%s/%s.db"):format(folder, name)
  local service <close> = moonpad.open("sqlite:" .. path, {
    durability = "normal", maxEvents = keepsHouse and MAX_EVENTS or 0,
  })
  local chars = 0
  local runner = moonpad.runner {
    appName = WHO.appName, sessionService = service,
    agent = moonpad.agent {
      name = "bot",
      model = function(request)
        chars = charsOf(request)
        return support.TEXT
      end,
    },
    summarizer = keepsHouse and moonpad.summarizer {
      maxTurns = 20, keepRecentTurns = 5, model = function() return ("What was said. "):rep(40) end,
    } or nil,
  }
  local points, times = {}, {}
  for turn = 1, TURNS do
    local before = support.worked()
    for event in runner:run { userId = WHO.userId, sessionId = WHO.sessionId, newMessage = support.TEXT } do
      assert(event.author)
    end
    times[#times + 1] = support.worked() - before
    if turn % (TURNS // SAMPLES) == 0 then
      points[#points + 1] = { turn, chars, support.median(times), fileBytes(path) }
      times = {}
    end
  end
  return points
end

---- The plot: three panels, the turns to the right

local WIDTH <const>, HEIGHT <const>, TOP <const>, PANEL <const>, PLOT <const> = 960, 330, 56, 300, 210
local COLOURS <const> = { "#c2410c", "#0b7a3b" }
local PANELS <const> = {
  { "characters of the prompt", function(point) return point[2] end },
  { "one turn, µs", function(point) return point[3] end },
  { "the file, KiB", function(point) return point[4] / 1024 end },
}

local function draw(path, series)
  local file <close> = assert(io.open(path, "w"))
  local function put(format, ...) file:write(format:format(...), "\n") end
  put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">', WIDTH, HEIGHT)
  put '<rect width="100%%" height="100%%" fill="white"/>'
  for index, panel in ipairs(PANELS) do
    local left, most = 50 + (index - 1) * (PANEL + 10), 0
    for _, points in ipairs(series) do
      for _, point in ipairs(points) do most = math.max(most, panel[2](point)) end
    end
    put('<text x="%d" y="%d" font-size="15">%s</text>', left, TOP - 18, panel[1])
    for part = 0, 2 do
      local y = TOP + PLOT * (1 - part / 2)
      put('<line x1="%d" y1="%.0f" x2="%d" y2="%.0f" stroke="#e5e7eb"/>', left, y, left + PANEL - 50, y)
      put('<text x="%d" y="%.0f" font-size="11" text-anchor="end" fill="#6b7280">%.0f</text>', left - 4, y + 4,
        most * part / 2)
    end
    for number, points in ipairs(series) do
      local places = {}
      for i, point in ipairs(points) do
        places[i] = ("%.1f,%.1f"):format(left + point[1] / TURNS * (PANEL - 50),
          TOP + PLOT * (1 - panel[2](point) / most))
      end
      put('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>', table.concat(places, " "),
        COLOURS[number])
    end
    put('<text x="%d" y="%d" font-size="11" text-anchor="end" fill="#6b7280">%d turns</text>', left + PANEL - 50,
      TOP + PLOT + 18, TURNS)
  end
  for number, name in ipairs { "nothing set", "a summarizer and maxEvents = " .. MAX_EVENTS } do
    put('<rect x="%d" y="%d" width="12" height="12" fill="%s"/>', 50 + (number - 1) * 160, HEIGHT - 30, COLOURS[number])
    put('<text x="%d" y="%d" font-size="12">%s</text>', 68 + (number - 1) * 160, HEIGHT - 20, name)
  end
  put "</svg>"
end

local function measureConversation()
  local plain, kept = converse("plain", false), converse("kept", true)
  local early, last = kept[SAMPLES // 4], kept[SAMPLES]
  support.noted("", ("prompt, turn %d / %d, with a summarizer"):format(early[1], TURNS), "chars", early[2], last[2])
  support.noted("", ("the same with nothing set, turn %d"):format(TURNS), "chars", plain[SAMPLES][2])
  support.noted("", ("a turn, %d / %d, with a summarizer"):format(early[1], TURNS), "us", early[3], last[3])
  support.noted("", ("the same with nothing set, turn %d"):format(TURNS), "us", plain[SAMPLES][3])
  support.noted("", ("the file, turn %d / %d, with maxEvents"):format(early[1], TURNS), "KiB", early[4] / 1024,
    last[4] / 1024)
  support.noted("", ("the same with nothing set, turn %d"):format(TURNS), "KiB", plain[SAMPLES][4] / 1024)
  if arg[3] then draw(arg[3], { plain, kept }) end
end

---- What an append costs that trims, in turns of four events

local ROUNDS <const>, APPENDS <const> = 15, 400

local function appender(url, config)
  config.durability = "normal"
  local service = moonpad.open(url, config)
  local session = service:createSession(WHO)
  local number = 0
  local function append()
    number = number + 1
    service:appendEvent(session, {
      author = number % 4 == 1 and "user" or "bot", invocationId = "i" .. (number + 3) // 4,
      content = { parts = { { text = support.TEXT } } },
      actions = { stateDelta = { step = number, ["user:wish"] = number, ["app:served"] = number } },
    })
  end
  for _ = 1, 1200 do append() end
  return function()
    local before = support.worked()
    for _ = 1, APPENDS do append() end
    return (support.worked() - before) / APPENDS
  end, service
end

local function measureTrimming(what, url)
  local SETTINGS <const> = {
    { "nothing set", {} }, { "maxEvents = 1000", { maxEvents = 1000 } },
    { "eventTtlSeconds", { eventTtlSeconds = 1e6 } },
    { "times to live", { sessionTtlSeconds = 1e6, userTtlSeconds = 1e6, appTtlSeconds = 1e6 } },
  }
  local times, appenders = {}, {}
  for i, setting in ipairs(SETTINGS) do
    appenders[i], times[i] = table.pack(appender((url:gsub("N", i)), setting[2])), {}
  end
  for round = 1, ROUNDS do
    for i = 1, #SETTINGS do times[i][round] = appenders[i][1]() end
  end
  for i = 2, #SETTINGS do
    support.atMost("", ("append, %s, %s / nothing set"):format(what, SETTINGS[i][1]), "us", times[1], times[i],
      i == 2 and 1.4 or 1.15)
  end
  for _, made in ipairs(appenders) do made[2]:close() end
end

measureConversation()
measureTrimming("memory", "memory:")
measureTrimming("SQLite NORMAL", ("sqlite:%s/trimN.db"):format(folder))
