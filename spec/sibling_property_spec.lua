-- Tool calls of one answer: whatever two of them do to state, it makes no difference whether the
-- tool does it itself or an agent in it, in one event or in several; a failed tool leaves what its
-- callback had written; and where they wait at random places, they see and leave what a small model
-- of transactions says.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local newModel = require "spec.support.transaction_model"
local random = require "spec.support.random_values"
local support = require "spec.support"
local toolCalls = require "spec.support.tool_calls"

local TRIALS, LENGTH = checks.scaled(200), 6

-- MOONPAD_SEED looks elsewhere.
local seed = checks.seed()

local KEYS = { "a", "b", "list", "tab" }
local START = { a = 1, list = { 1, 2 }, tab = { m0 = 1, m1 = { x0 = 1 } } }

local function isNode(value)
  return type(value) == "userdata" and value ~= moonpad.null
end

-- Each does something to a key with a number; what does not fit what is there raises an error, and
-- does nothing.
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

---- Calls that wait, against a model

-- Of each key what it holds: a scalar, a number that is counted, a list, or a table with numbers
-- m0, m1 and tables s0, s1 of numbers x0, x1. Half of them are not there in the beginning.
local SHAPES = {
  ["a"] = "scalar", ["b"] = "scalar", ["user:a"] = "scalar", ["temp:a"] = "scalar", ["n"] = "counter",
  ["app:n"] = "counter", ["fresh"] = "list", ["list"] = "list", ["new"] = "table", ["tab"] = "table",
}
local BEGINNING = {
  a = 1, n = 1, list = { 1, 2 }, tab = { m0 = 1, s0 = { x0 = 1 } }, ["user:a"] = 1,
}
local ALL_KEYS = checks.keys(SHAPES)

local function sameAs(expected, actual)
  if isNode(actual) then actual = moonpad.toTable(actual) end
  checks.identical({ expected }, { actual })
end

-- Each does the same to a state and to the model's transaction. `n` is a number to write.
local deeds = { scalar = {}, counter = {}, list = {}, table = {} }

local function deed(shape, action)
  table.insert(deeds[shape], action)
end

local function read(state, tx, key)
  if not tx:onlyAdds(key) then sameAs(tx:get(key), state[key]) end
end

local function setBlindly(state, tx, key, n)
  state[key] = n
  tx:set(key, n)
end

deed("scalar", setBlindly)
deed("scalar", read)
deed("scalar", function(state, tx, key)
  assert.equal(tx:get(key) ~= nil, state:has(key))
end)
deed("scalar", function(state, tx, key, n)
  local value = n + (tx:get(key) or 0)
  state[key] = n + (state[key] or 0)
  tx:set(key, value)
end)
deed("scalar", function(state, tx, key, n)
  local held = tx:get(key)
  sameAs(held or n, state:setDefault(key, n))
  if held == nil then tx:set(key, n) end
end)
deed("scalar", function(state, tx, key)
  if tx.snapshot[key] == nil or tx.values[key] == nil then return end
  state[key] = nil
  tx:set(key, nil)
end)

deed("counter", read)
deed("counter", setBlindly)
for _ = 1, 2 do
  deed("counter", function(state, tx, key, n)
    state:increment(key, n)
    tx:add(key, n)
  end)
end
deed("counter", function(state, tx, key)
  if tx:onlyAdds(key) then return end
  local value = (tx:get(key) or 0) + 1
  state[key] = (state[key] or 0) + 1
  tx:set(key, value)
end)

-- The list is there, and can be written into.
local function hasList(tx, key)
  return not tx:onlyAdds(key) and tx.values[key] ~= nil
end

deed("list", read)
deed("list", function(state, tx, key, n)
  state:append(key, n)
  tx:add(key, { n })
end)
deed("list", function(state, tx, key, n)
  if tx:onlyAdds(key) then return end
  table.insert(state:setDefault(key, moonpad.array {}), n)
  if tx:get(key) == nil then tx:set(key, moonpad.array {}) end
  tx:insert(key, n)
end)
deed("list", function(state, tx, key, n)
  if not hasList(tx, key) then return end
  state[key][#state[key] + 1] = n
  tx:insert(key, n)
end)
deed("list", function(state, tx, key, n)
  if not hasList(tx, key) or #tx.values[key] == 0 then return end
  local index = n % #tx.values[key] + 1
  state[key][index] = n
  tx:setBelow(key, { index }, n)
end)
deed("list", function(state, tx, key, n)
  if tx.snapshot[key] == nil then read(state, tx, key) end
  if tx:onlyAdds(key) then return end
  state[key] = { n }
  tx:set(key, { n })
end)
local function shorten(state, tx, key)
  if not hasList(tx, key) or #tx.values[key] == 0 then return end
  state[key][#state[key]] = nil
  tx:shorten(key)
end
deed("list", shorten)

-- The table, put there where there is none.
local function tableIn(state, tx, key)
  if tx:get(key) == nil then tx:set(key, {}) end
  return state:setDefault(key, {}), tx.values[key]
end

deed("table", read)
deed("table", function(state, tx, key, n)
  tableIn(state, tx, key)["m" .. n % 2] = n
  tx:setBelow(key, { "m" .. n % 2 }, n)
end)
deed("table", function(state, tx, key, n)
  local node, held = tableIn(state, tx, key)
  local name, inner = "s" .. n % 2, "x" .. n // 2 % 2
  if held[name] then
    node[name][inner] = n
    tx:setBelow(key, { name, inner }, n)
  else
    node[name] = { [inner] = n }
    tx:setBelow(key, { name }, { [inner] = n })
  end
end)
deed("table", function(state, tx, key, n)
  local node = tableIn(state, tx, key)
  node["s" .. n % 2] = { x0 = n }
  tx:setBelow(key, { "s" .. n % 2 }, { x0 = n })
end)
deed("table", function(state, tx, key, n)
  local name = (n % 2 == 0 and "m" or "s") .. n // 2 % 2
  local before, now = tx.snapshot[key], tx.values[key]
  if not (before and before[name] ~= nil and now and now[name] ~= nil) then return end
  state[key][name] = nil
  tx:setBelow(key, { name }, nil)
end)
deed("table", function(state, tx, key, n)
  if tx.snapshot[key] == nil then return end
  state[key] = n % 3 > 0 and { m0 = n } or nil
  tx:set(key, n % 3 > 0 and { m0 = n } or nil)
end)

local function readAll(state, tx)
  for _, key in ipairs(ALL_KEYS) do
    if tx:onlyAdds(key) then return end
  end
  sameAs(tx:getAll(), state:getAll())
end

-- What a call does: "wait", "read all", "fail", or a deed with its key and number.
local function randomCall(values, avoids)
  local call = {}
  for index = 1, 1 + values:below(2 * LENGTH) do
    local kind = values:below(12)
    local key, n = values:pick(ALL_KEYS), 1 + values:below(1000)
    local action = values:pick(deeds[SHAPES[key]])
    if kind < 3 then
      call[index] = { "wait" }
    elseif kind == 3 then
      call[index] = { "read all" }
    elseif avoids[key] or avoids[action] then
      call[index] = { "read all" }
    else
      call[index] = { action, key, n }
    end
  end
  if values:below(12) == 0 then call[#call + 1] = { "fail" } end
  return call
end

local function doStep(state, tx, step)
  if step[1] == "read all" then
    readAll(state, tx)
  elseif step[1] == "wait" then
    coroutine.yield()
  elseif step[1] == "fail" then
    tx.model:abandon(tx)
    error("failed on purpose", 0)
  else
    step[1](state, tx, step[2], step[3])
  end
end

-- Ways to play a call: each begins the model's transaction, and ends it.
local players = {}

function players.itself(name, call, model, finish)
  return moonpad.tool { name = name, run = function(_, context)
    local tx = model:begin()
    for _, step in ipairs(call) do doStep(context.state, tx, step) end
    finish(name, tx)
  end }
end

function players.anAgent(name, call, model, finish)
  return moonpad.agentTool { agent = agent(name, { model = function(_, context)
    local tx = model:begin()
    for _, step in ipairs(call) do doStep(context.state, tx, step) end
    finish(name, tx)
    return "done"
  end }) }
end

function players.anAgentInSteps(name, call, model, finish)
  return moonpad.agentTool { agent = moonpad.customAgent { name = name, run = function(context)
    local tx = model:begin()
    for index, step in ipairs(call) do
      doStep(context.state, tx, step)
      if index % 2 == 0 then context:emit "on the way" end
    end
    finish(name, tx)
  end } }
end

-- Each step in a tool call of its own, one after the other.
function players.anAgentByItsTools(name, call, model, finish)
  local tx, last, broken = nil, 0, nil
  local step = moonpad.tool { name = "step", run = function(_, context)
    local ok, err = pcall(doStep, context.state, tx, call[last])
    broken = not ok and err or nil
  end }
  return moonpad.agentTool { agent = agent(name, { tools = { step }, model = function(_, context)
    tx = tx or model:begin()
    if broken then error(broken, 0) end
    last = last + 1
    if last <= #call and call[last][1] ~= "fail" then return support.calls { "step", {} } end
    if call[last] then doStep(context.state, tx, call[last]) end
    finish(name, tx)
    return "done"
  end }) }
end

-- An agent as a tool has no temp: of its caller, and what it takes from a list in one event it had
-- stored before that.
local AVOIDS = {
  itself = {}, anAgent = { ["temp:a"] = true }, anAgentInSteps = { ["temp:a"] = true, [shorten] = true },
  anAgentByItsTools = { ["temp:a"] = true, [shorten] = true },
}

local function playTrial(service, way, values, drive)
  local model, expected, tools = newModel(ALL_KEYS, BEGINNING), {}, {}
  -- Each calls the tool of its number.
  local function finish(name, tx) expected[name:match "%d+$"] = tx:commit() end
  for index = 1, 2 + values:below(2) do
    tools[index] = players[way]("tool" .. index, randomCall(values, AVOIDS[way]), model, finish)
  end
  local result = toolCalls.play(service, drive, { start = BEGINNING, tools = tools })
  for id, err in pairs(result.failures) do
    if not result.conflicts[id] then
      local told = tostring(err)
      assert(told:find("failed on purpose", 1, true), ("call %s: %s\n%s"):format(id, told, result.errors[id]))
    end
  end
  assert.same(expected, result.conflicts)
  checks.identical(model.values, result.shown)
end

describe("calls of one answer that wait at random places", function()
  support.each_store(function(open)
    for _, way in ipairs { "itself", "anAgent", "anAgentInSteps", "anAgentByItsTools" } do
      it("see and leave what a model of transactions says, the work being done by " .. way, function()
        local service = open { durability = "normal" }
        for trial = 1, TRIALS do
          local values = random.new(seed * 1000003 + trial)
          local drive = toolCalls.WAYS[trial % 2 + 1]
          local ok, message = pcall(playTrial, service, way, values, drive)
          assert(ok, ("MOONPAD_SEED=%d, trial %d, in %s: %s"):format(seed, trial, drive, tostring(message)))
        end
      end)
    end
  end)
end)
