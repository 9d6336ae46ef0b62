-- usage: close_in_the_middle.lua HOW FOLDER: a Lua state that is closed while calls of steps are
-- under way. A finalizer of something older runs when what they wait for has been finalized, and
-- prints what then becomes of them.
local core = require "moonpad.core"
local moonpad = require "moonpad"

local how, folder = arg[1], arg[2]
local NAMES = { appName = "a", userId = "u", sessionId = "s" }
local EVENT = { author = "x", content = { role = "user", parts = { { text = "hello" } } } }

local early = moonpad.open "memory:"
local service, session, driven, invocation

local function told(...)
  local words = table.pack(...)
  words[1] = tostring(words[1])
  for index = 2, words.n do
    words[index] = core.isError(words[index]) and words[index].code or type(words[index])
  end
  print(table.concat(words, " ", 1, words.n))
end

local function ask()
  if how == "at once" then told(pcall(early.getAppState, early, { appName = "a" })) end
  if how == "step" then told(pcall(invocation.step, invocation)) end
  if driven then told(coroutine.resume(driven, how == "cancelled" and core.CANCEL or nil)) end
end

-- Finalizers run in the reverse order: what is older than this can still be used by it.
package.loaded.older = setmetatable({}, { __gc = ask })

service = moonpad.open("sqlite:" .. folder .. "/" .. how .. ".db")
session = service:createSession(NAMES)

local function drive(body)
  local thread = coroutine.create(body)
  core.threads[thread] = true
  core.stepWith(service)
  assert(coroutine.resume(thread))
  core.stepWith(nil)
  return thread
end

local function agentThat(act)
  return moonpad.agent { name = "A", model = act }
end

if how == "call" or how == "cancelled" then
  driven = drive(function() return service:getSession(NAMES) end)
elseif how == "append" then
  driven = drive(function() return service:appendEvent(session, EVENT) end)
elseif how == "drain" then
  service:appendEventAsync(session, EVENT)
  driven = drive(function() return service:appendEvent(session, EVENT) end)
elseif how == "step" then
  -- A tool ends the program while its run is stepped.
  local runner = moonpad.runner { appName = "a", agent = agentThat(function() os.exit(true, true) end),
    sessionService = service }
  invocation = moonpad.runner { appName = "b", agent = agentThat(function() return "x" end), sessionService = service }
    :start { userId = "u", newMessage = "Hi" }
  local ending = runner:start { userId = "u", newMessage = "Hi" }
  while true do
    ending:step()
    core.idle(60)
  end
end
os.exit(true, true)
