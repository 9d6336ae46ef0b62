--- The loop of a server: a coroutine for each request, waked by what it waits for. Connections, the
--- stores, transfers and child processes are waited for in one place, by their descriptors.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local waits = require "moonpad.runtime.wait"
local wakeSources = require "moonpad.runtime.wake_sources"

local loops = {}

---@class moonpad.server.Task a request under way
---@field thread thread
---@field exchange userdata of moonpad.server_core
---@field service moonpad.Service whose workers do what it asks of stores
---@field wait moonpad.Wait
---@field isDue boolean it goes on at the next turn
---@field blindPause number? how long it is left alone where only a step tells whether there is news

---@class moonpad.server.Loop
---@field package core userdata
---@field package tasks table<userdata, moonpad.server.Task> by exchange
---@field package order moonpad.server.Task[] in which they take turns
---@field package services moonpad.Service[]
---@field package handle fun(exchange: userdata, task: moonpad.server.Task)
local Loop = {}
Loop.__index = Loop

-- Between two looks at somebody who waits for what only he knows.
local SHORTEST_BLIND, LONGEST_BLIND = 0.001, 0.01

-- A turn that has taken so long lets connections be served, and the host draw, before it goes on.
local SLICE = 0.002

---@param server userdata of moonpad.server_core
---@param services moonpad.Service[]
---@param handle fun(exchange: userdata, task: moonpad.server.Task) answers a request
---@return moonpad.server.Loop
function loops.new(server, services, handle)
  return setmetatable({ core = server, tasks = {}, order = {}, services = services, handle = handle }, Loop)
end

---@return integer
function Loop:count()
  return #self.order
end

---- Tasks

local function remove(self, task)
  self.tasks[task.exchange] = nil
  for index, other in ipairs(self.order) do
    if other == task then return table.remove(self.order, index) end
  end
end

local function start(self, exchange)
  -- Whose app it is about is not known yet. Any service's workers can ask any store.
  local task = { exchange = exchange, service = self.services[1], wait = waits.new(), isDue = true }
  task.thread = coroutines.newThread(function() self.handle(exchange, task) end)
  self.tasks[exchange], self.order[#self.order + 1] = task, task
end

-- Its run, if it has one, is cancelled.
local function stop(self, task)
  remove(self, task)
  coroutines.interrupt(task.thread)
end

local function step(self, task)
  task.isDue = false
  task.wait:clear()
  local ok, signal, _, gaveWay = coroutines.step(task.thread, task.service, task.wait)
  if not ok or coroutine.status(task.thread) == "dead" then
    remove(self, task)
    -- What it has not answered, it never will.
    task.exchange:abort()
    return
  end
  if gaveWay then task.isDue = true end
  if signal == coroutines.STORE then task.wait.asksStore = true end
  if task.wait.isBlind then
    task.blindPause = math.min((task.blindPause or SHORTEST_BLIND) * 1.5, LONGEST_BLIND)
    task.wait:untilTime(core.monotonic() + task.blindPause)
  else
    task.blindPause = nil
  end
end

---- Waiting

-- (These two loops are gone through for each token of each stream.)
local function secondsToSleep(self, seconds)
  local nearest = math.huge
  for _, task in ipairs(self.order) do
    if task.isDue then return 0 end
    local deadline = task.wait.deadline
    if deadline < nearest then nearest = deadline end
  end
  return math.min(seconds, math.max(nearest - core.monotonic(), 0))
end

-- Which of the descriptors are ready, by their numbers.
local function sleep(self, seconds, readable)
  local writable, sources = {}, {}
  for _, service in ipairs(self.services) do readable[#readable + 1] = service:fd() end
  seconds = math.min(secondsToSleep(self, seconds), wakeSources.prepare(sources, readable, writable))
  local ready = self.core:wait(seconds < math.huge and seconds or -1, readable, writable)
  return ready, wakeSources.advance(sources)
end

local function pollServices(self, ready)
  local isReady = false
  for _, service in ipairs(self.services) do
    if ready[service:fd()] then
      service:poll(0)
      isReady = true
    end
  end
  return isReady
end

-- Those that have been told of: new ones begin, and of others the client may be gone.
local function takeNews(self)
  local exchange = self.core:news()
  while exchange do
    local task = self.tasks[exchange]
    if not exchange:isOpen() then
      if task then stop(self, task) end
    elseif task then
      task.isDue = true
    else
      start(self, exchange)
    end
    exchange = self.core:news()
  end
end

local function findDue(self, hasStoreNews, hasNews)
  local due, now = {}, core.monotonic()
  for _, task in ipairs(self.order) do
    local wait = task.wait
    if task.isDue or now >= wait.deadline or hasStoreNews and wait.asksStore or hasNews and wait.isForNews
      or wait.jobs[1] and wait:hasReadyJob() then
      task.isDue = true
      due[#due + 1] = task
    end
  end
  return due
end

-- Each of those that are due, once. What does not get its turn in time is the first one next time.
local function stepDue(self, due)
  local began = core.monotonic()
  for index, task in ipairs(due) do
    if self.tasks[task.exchange] == task then step(self, task) end
    if index < #due and core.monotonic() - began > SLICE then
      table.sort(self.order, function(one, other) return one.isDue and not other.isDue end)
      return
    end
  end
end

---Waits until there is something to do, at most so long, and does it.
---@param seconds number math.huge for no end
---@param readable integer[]? descriptors of others that end the wait
---@return table<integer, boolean> ready which descriptors are ready
function Loop:turn(seconds, readable)
  local ready, hasNews = sleep(self, seconds, readable or {})
  local hasStoreNews = pollServices(self, ready)
  takeNews(self)
  stepDue(self, findDue(self, hasStoreNews, hasNews))
  return ready
end

---Ends what is under way.
function Loop:cancel()
  while self.order[1] do stop(self, self.order[1]) end
end

return loops
