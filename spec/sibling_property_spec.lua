-- Tool calls side by side: whatever two of them do to state, it makes no difference whether the tool does it itself or
-- an agent in it, in one event or in several; and a failed tool leaves what its callback had written.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local TRIALS, LENGTH = checks.scaled(200), 6

-- MOONPAD_SEED looks elsewhere.
local seed = tonumber(os.getenv "MOONPAD_SEED") or 1

local KEYS = { "a", "b", "list", "tab" }
local START = { a = 1, list = { 1, 2 }, tab = { m0 = 1, m1 = { x0 = 1 } } }

local function isNode(value)
  return type(value) == "userdata" and value ~= moonpad.null
end

-- Each does something to a key with a number; what does not fit what is there raises an error, and does nothing.
local actions = {
  function(state, key, n) state[key] = n end,
  function(state, key) state[key] = nil end,
  function(state, key, n) state:increment(key, n) end,
  function(state, key, n) state:append(key, n) end,
  function(state, key) state[key] = {} end,
  function(state, key, n) table.insert(state[key], n) end,
  function(state, key, n) state:setDefault(key, {})["m" .. n % 3] = n end,
  function(state, key, n) state:setDefault(key, {})["m" .. n % 3] = { deep = n } end,
  function(state, key, n) if isNode(state[key]) then state[key].m1["x" .. n % 2] = n end end,
}

local function randomProgram()
  local program = {}
  for index = 1, LENGTH do
    program[index] = { math.random(#actions), KEYS[math.random(#KEYS)], math.random(100) }
  end
  return program
end

local function perform(state, program, first, last)
  for index = first or 1, last or LENGTH do
    local step = program[index]
    pcall(actions[step[1]], state, step[2], step[3])
  end
end

local function agent(name, fields)
  fields.name = name
  return moonpad.agent(fields)
end

-- Ways for a tool to run a program.
local ways = {}

function ways.itself(name, program)
  return moonpad.tool { name = name, run = function(_, context) perform(context.state, program) end }
end

function ways.anAgent(name, program)
  return moonpad.agentTool { agent = agent(name, { model = function(_, context)
    perform(context.state, program)
    return "done"
  end }) }
end

function ways.anAgentInSteps(name, program)
  return moonpad.agentTool { agent = moonpad.customAgent { name = name, run = function(context)
    for step = 1, LENGTH, 2 do
      perform(context.state, program, step, step + 1)
      context:emit "on the way"
    end
  end } }
end

-- What is stored after two calls in one answer.
local function outcome(tools, callbacks)
  local service <close> = moonpad.open "memory:"
  service:createSession { appName = "app", userId = "u", sessionId = "s", state = START }
  local model = moonpad.models.scripted {
    support.calls({ tools[1].name, { request = "x" } }, { tools[2].name, { request = "x" } }), "done",
  }
  local caller = { model = model, tools = tools }
  for name, value in pairs(callbacks or {}) do caller[name] = value end
  support.run(moonpad.runner { appName = "app", agent = agent("A", caller), sessionService = service }, "go")
  return moonpad.toTable(support.stored(service).state)
end

local function eachTrial(check)
  for trial = 1, TRIALS do
    math.randomseed(seed, trial)
    local programs = { randomProgram(), randomProgram() }
    local ok, message = pcall(check, programs)
    assert(ok, ("MOONPAD_SEED=%d, trial %d: %s"):format(seed, trial, tostring(message)))
  end
end

describe("two tool calls of one answer", function()
  for _, way in ipairs { "anAgent", "anAgentInSteps" } do
    it("leave the same whether the tool does it, or " .. way, function()
      eachTrial(function(programs)
        local function tools(make) return { make("One", programs[1]), make("Two", programs[2]) } end
        assert.same(outcome(tools(ways.itself)), outcome(tools(ways[way])))
      end)
    end)
  end

  it("leave what their callbacks have written when they fail", function()
    eachTrial(function(programs)
      local function callbacks()
        return { beforeToolCallback = function(context, tool)
          perform(context.state, programs[tool.name == "One" and 1 or 2])
        end }
      end
      local function tools(run)
        return { moonpad.tool { name = "One", run = run }, moonpad.tool { name = "Two", run = run } }
      end
      local expected = outcome(tools(function() end), callbacks())
      assert.same(expected, outcome(tools(function(_, context)
        perform(context.state, programs[1])
        perform(context.state, programs[2])
        error "failed"
      end), callbacks()))
    end)
  end)
end)
