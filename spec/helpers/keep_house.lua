--- A process that keeps house, until it is killed:
---   lua5.4 keep_house.lua URL SEED SECONDS
-- Creates sessions, appends to them, talks to an agent and has that summed up, waits till they
-- expire (SECONDS), sweeps, and deletes. It prints a line for each thing that it has done.
local moonpad = require "moonpad"

local url, seed = arg[1], tonumber(arg[2])
-- Nothing lives longer than that. Long enough for a few turns, and so for a summary, on a machine
-- that is not very busy.
local LIVES <const> = tonumber(arg[3])
math.randomseed(seed)
local service = moonpad.open(url, {
  durability = "normal", busyTimeoutMs = 600000, sessionTtlSeconds = LIVES, userTtlSeconds = LIVES,
  appTtlSeconds = LIVES, eventTtlSeconds = LIVES / 2, maxEvents = 5, maxSessionsPerUser = 3,
  onMaxSessions = "deleteOldest", sweepIntervalSeconds = LIVES / 3,
})

local function name()
  return { appName = "app", userId = "u" .. math.random(3), sessionId = "s" .. math.random(5) }
end

local function create()
  local given = name()
  given.state = { base = math.random(9), ["user:n"] = 1, ["app:n"] = 1 }
  pcall(service.createSession, service, given)
end

local function append()
  local session = service:getSession(name())
  if not session then return create() end
  for i = 1, math.random(8) do
    local ok = pcall(service.appendEvent, service, session, {
      author = i % 2 == 1 and "user" or "bot", invocationId = "i" .. math.random(1 << 40),
      content = { parts = { { text = ("x"):rep(math.random(2000)) } } },
      actions = { stateDelta = { ["k" .. math.random(4)] = i, gone = moonpad.removed, ["user:n"] = i } },
    })
    if not ok then return end
  end
end

local runner = moonpad.runner {
  appName = "app", sessionService = service,
  agent = moonpad.agent { name = "bot", model = function() return "Yes." end },
  summarizer = moonpad.summarizer {
    model = function()
      moonpad.sleep(0.001)
      return "summary"
    end,
    maxTurns = 2, keepRecentTurns = 1,
  },
}

-- Several turns, so that they are summed up.
local function talk()
  local given = name()
  for turn = 1, 4 do
    local ok = pcall(runner.ask, runner, {
      userId = given.userId, sessionId = given.sessionId, newMessage = "question " .. turn,
    })
    if not ok then return end
  end
end

local ACTIONS <const> = {
  create, append, append, append, append, talk, talk,
  function() service:sweep() end,
  function() service:deleteSession(name()) end,
  function() moonpad.sleep(LIVES / 2) end,
}

io.stdout:setvbuf "line"
print "ready"
while true do
  ACTIONS[math.random(#ACTIONS)]()
  print "done"
end
