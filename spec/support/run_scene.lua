--- A run that does everything that a run may do with stores, and a log of what began and ended
--- when: for specs that compare stores and ways to drive a run.
local copyOf = require "moonpad.util.copy"
local moonpad = require "moonpad"
local slow_store = require "spec.support.slow_store"
local support = require "spec.support"

local scene = {}

---@param service moonpad.Service
---@param agent moonpad.Agent
---@param more table? further fields of the runner
---@return moonpad.Runner
local function runnerOf(service, agent, more)
  local definition = { appName = "app", agent = agent, sessionService = service }
  for name, value in pairs(more or {}) do definition[name] = value end
  return moonpad.runner(definition)
end

local function options(sessionId)
  return { userId = "u", sessionId = sessionId or "s", newMessage = "go" }
end

---- Everything that a run may do with stores, and a log of what began and ended when

local World = {}
World.__index = World

-- Asks a store in between: whatever else begins or goes on meanwhile stands between the two lines.
function World:asking(what, context)
  self.log[#self.log + 1] = what .. " asks"
  self.service:incrementState { appName = "app", userId = "u", key = "asked" }
  local state = self.service:getUserState { appName = "app", userId = "u" }
  self.log[#self.log + 1] = ("%s was answered: %d, %s"):format(what, state.asked, context.agentName)
end

function World:hook(what)
  return function(context) self:asking(what, context) end
end

-- A tool that asks, waits once where it is told to, and asks again.
function World:tool(name, waits)
  return moonpad.tool { name = name, run = function(args, context)
    local state = context.state
    local seen = state.n or 0
    state:increment "n"
    self:asking(name, context)
    local version = context:saveArtifact(name .. ".txt", "by " .. name)
    if waits then
      self.log[#self.log + 1] = name .. " waits"
      coroutine.yield()
      self.log[#self.log + 1] = name .. " goes on"
    end
    state[name] = { at = args.at, texts = {} }
    for index = 1, #context.session.events do
      table.insert(state[name].texts, context.session.events[index]:text())
    end
    self:asking(name .. " again", context)
    return {
      seen = seen, version = version, text = context:loadArtifact(name .. ".txt").text,
      files = context:listArtifacts(), found = #context:searchMemory("go").memories,
    }
  end }
end

-- Its error comes from the store.
function World:failing()
  return moonpad.tool { name = "failing", run = function(_, context)
    context.state.lost = true
    self.service:createSession { appName = "app", userId = "u", sessionId = context.session.id }
  end }
end

function World:worker(name, more)
  local definition = {
    name = name,
    instruction = function(context)
      self:asking(name .. "'s instruction", context)
      return "{artifact.slow.txt?}"
    end,
    model = moonpad.models.scripted {
      support.calls({ "slow", { at = 1 }, name .. 1 }, { "quick", { at = 2 }, name .. 2 }, { "failing", {}, name .. 3 },
        { "slower", { at = 3 }, name .. 4 }),
      name .. " is done",
    },
    tools = { self:tool("slow", true), self:tool "quick", self:failing(), self:tool("slower", true) },
    outputKey = "said_by_" .. name,
  }
  for _, hook in ipairs {
    "beforeAgentCallback", "afterAgentCallback", "beforeModelCallback", "afterModelCallback", "beforeToolCallback",
    "afterToolCallback", "onToolErrorCallback",
  } do definition[hook] = self:hook(name .. "'s " .. hook) end
  for field, value in pairs(more or {}) do definition[field] = value end
  return moonpad.agent(definition)
end

-- A model that asks before each piece of its answer.
function World:streaming(name)
  return moonpad.agent { name = name, instruction = "You know {artifact.quick.txt}.", model = function(_, context)
    local pieces = { "one ", "two" }
    return function()
      self:asking(name .. "'s model", context)
      return table.remove(pieces, 1)
    end
  end }
end

function World:plugin()
  local plugin = {}
  for _, hook in ipairs { "onUserMessage", "beforeRun", "onEvent" } do plugin[hook] = self:hook("plugin's " .. hook) end
  function plugin.afterRun(context)
    self:asking("plugin's afterRun", context)
    self.memory:addSession(context.session)
  end
  return plugin
end

function World:agent()
  return moonpad.sequentialAgent { name = "Team", subAgents = {
    self:worker "First",
    moonpad.parallelAgent { name = "Both", subAgents = { self:worker "Left", self:worker "Right" } },
    moonpad.agent { name = "Caller",
      model = moonpad.models.scripted {
        support.calls({ "Helper", { request = "help" }, "h" }, { "quick", {}, "q" }), "called",
      },
      tools = { moonpad.agentTool { agent = self:worker "Helper" }, self:tool "quick" },
    },
    self:streaming "Streamer",
    moonpad.customAgent { name = "Custom", run = function(context)
      self:asking("Custom", context)
      context.state.custom = 1
      context:emit "emitted"
      self:asking("Custom, after its event", context)
    end },
  } }
end

-- An event as it is in every run.
function scene.told(event)
  local kept = copyOf(event)
  kept.id, kept.timestamp, kept.invocationId = nil, nil, nil
  return kept
end

---@param store string as of `support.freshUrl`, slow ones as well
function scene.open(store)
  local world = setmetatable({ log = {}, events = {} }, World)
  local url = support.freshUrl(store)
  world.service = url:find "^slow:" and slow_store.open(url) or moonpad.open(url)
  local beside = support.urlBeside(store, url)
  world.artifacts, world.memory = moonpad.artifactService(beside), moonpad.memoryService(beside)
  world.runner = runnerOf(world.service, world:agent(), {
    plugins = { world:plugin() }, artifactService = world.artifacts, memoryService = world.memory,
  })
  return world
end

function scene.close(world)
  world.service:close()
  world.artifacts:close()
  world.memory:close()
end

-- Ways to drive a run; `take` gets each event.
local drivers = {}
scene.drivers = drivers

function drivers.run(runner, take)
  for event in runner:run(options()) do take(event) end
end

function drivers.step(runner, take)
  local invocation = runner:start(options())
  for event in support.step, invocation do take(event) end
end

drivers["wait with a limit"] = function(runner, take)
  local invocation = runner:start(options())
  for event in function() return invocation:wait(0.002) end do
    if event ~= "waiting" then take(event) end
  end
end

-- The second tool must not begin before the run in the first is over: nothing in it waits but for
-- stores and tools.
drivers["a tool of a stepped run"] = function(runner, take)
  local outside = moonpad.open "memory:"
  local outer = runnerOf(outside, moonpad.customAgent { name = "Outer", run = function()
    drivers.run(runner, take)
  end }):start(options())
  assert(support.step(outer) == nil)
  outside:close()
end

drivers["a tool of a run in a loop"] = function(runner, take)
  local outside = moonpad.open "memory:"
  local agent = moonpad.customAgent { name = "Outer", run = function() drivers.run(runner, take) end }
  assert(#support.run(runnerOf(outside, agent)) == 0)
  outside:close()
end

---Plays it once.
---@param store string as of `open`
---@param driver string of `drivers`
---@return { log: string[], events: table[], stored: table[], state: table }
function scene.play(store, driver)
  local world = scene.open(store)
  drivers[driver](world.runner, function(event)
    world.log[#world.log + 1] = "event of " .. event.author
    world.events[#world.events + 1] = scene.told(event)
  end)
  local session = support.stored(world.service)
  local stored = {}
  for index = 1, #session.events do stored[index] = scene.told(session.events[index]) end
  local result = { log = world.log, events = world.events, stored = stored, state = session.state:getAll() }
  scene.close(world)
  return result
end

scene.runnerOf, scene.options = runnerOf, options

---@param name string
---@param run fun(context: moonpad.Context)
---@return moonpad.Agent
function scene.custom(name, run)
  return moonpad.customAgent { name = name, run = run }
end

return scene
