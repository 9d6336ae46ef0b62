--- The one HTTP client of a Lua state, and the jobs that it works for.
local core = require "moonpad.core"
local wakeSources = require "moonpad.runtime.wake_sources"

local driver = {}

-- Made when it is first needed. Collected with the Lua state, which breaks off what is under way.
local client

-- In a page nothing comes in before Lua has returned to it.
local canBeAwaited = true

-- Jobs that are not over. Weak: a job that nobody holds any more is broken off.
local jobs = setmetatable({}, { __mode = "k" })

-- Requests whose owner has what it wants, with the time until which they may go on.
local draining = {}
local DRAIN_SECONDS = 1

-- What the client's count of activity was when somebody last woke up from `poll`.
local seen = 0

local function loadModule()
  local ok, module = pcall(require, "moonpad.http_core")
  if ok then return module end
  return core.error("unsupported",
    "HTTP needs moonpad's module moonpad.http_core, which is built where libcurl is installed: "
      .. tostring(module):gsub("\n.*", ""))
end

local function theClient()
  if client then return client end
  local module = loadModule()
  local made, message = module.client()
  if not made then core.error("no_memory", "the HTTP client could not be made: " .. message) end
  client, canBeAwaited = made, module.canBeAwaited
  return client
end

local function closeDrained()
  local now = core.monotonic()
  for request, deadline in pairs(draining) do
    if request:done() or now >= deadline then
      draining[request] = nil
      request:close()
    end
  end
end

---Lets a request come to its end by itself, so that its connection can serve again. Not for long.
---@param request userdata
function driver.drain(request)
  draining[request] = core.monotonic() + DRAIN_SECONDS
end

---@param options table what `client:start` of moonpad.http_core takes
---@return userdata|nil request
---@return string? message
---@return string? kind
function driver.start(options)
  closeDrained()
  local request, message, kind = theClient():start(options)
  if request or kind ~= "closed" then return request, message, kind end
  -- This process was forked from the one that made the client.
  client, seen = nil, 0
  return theClient():start(options)
end

---@return integer activity a number that has changed whenever something has happened to a request
function driver.activity()
  return client and client:activity() or 0
end

---@param job moonpad.HttpJob
function driver.enlist(job)
  jobs[job] = true
end

---@param job moonpad.HttpJob
function driver.dismiss(job)
  jobs[job] = nil
end

---@return integer
function driver.count()
  local count = 0
  for _ in pairs(jobs) do count = count + 1 end
  return count
end

---The requests that wait for their next attempt.
---@return moonpad.HttpRetry[]
function driver.retries()
  local list, now = {}, core.monotonic()
  for job in pairs(jobs) do
    if job.retryAt then
      list[#list + 1] = { attempt = job.attempts, seconds = math.max(job.retryAt - now, 0), reason = job.retryReason }
    end
  end
  return list
end

local function advanceAll()
  local moved = false
  local list = {}
  for job in pairs(jobs) do list[#list + 1] = job end
  for _, job in ipairs(list) do moved = job:advance() or moved end
  return moved
end

---- As a source of news for waits

---@type moonpad.WakeSource
local source = {}

function source.isActive()
  return next(jobs) ~= nil
end

-- A retry that is due must not be slept through.
local function untilNextRetry()
  local seconds, now = math.huge, core.monotonic()
  for job in pairs(jobs) do
    local due = job.retryAt or job.errorAnswer and job.errorAnswer.deadline
    if due then seconds = math.min(seconds, due - now) end
  end
  return seconds
end

function source.prepare(_, readable)
  -- What came in while others were stepped is news to those that were stepped before.
  if driver.activity() ~= seen then return 0 end
  if not canBeAwaited and source.isActive() then
    core.error("unsupported", "HTTP in a page: nothing comes in while Lua waits. Step the run once a frame, or yield")
  end
  readable[#readable + 1] = client and client:descriptor()
  return untilNextRetry()
end

function source.advance()
  closeDrained()
  local before = seen
  seen = client and client:drain() or 0
  return advanceAll() or seen ~= before
end

-- Held here: the registry is weak.
driver.wakeSource = source
wakeSources.add(source)

---@param seconds number
---@return boolean moved
function driver.poll(seconds)
  return wakeSources.wait(seconds)
end

return driver
