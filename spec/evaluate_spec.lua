-- testing.evaluate and testing.callTool.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local testing = require "moonpad.testing"

local order = moonpad.tool {
  name = "order",
  parameters = {
    type = "object", properties = { drink = { type = "string" }, count = { type = "integer" } }, required = { "drink" },
  },
  run = function(args, context)
    context.state:append("drinks", args.drink)
    return { drinks = #context.state.drinks }
  end,
}

-- Orders each word of the message that is a drink, then says how many there are.
local function waiter(request)
  local parts, calls = request.contents[#request.contents].parts, {}
  if parts[1].functionResponse then
    return ("%d drinks."):format(parts[#parts].functionResponse.response.drinks)
  end
  for word in parts[1].text:gmatch "%a+" do
    local isDrink = word == "tea" or word == "ale"
    calls[#calls + 1] = isDrink and moonpad.functionCall("order", { drink = word, count = 1 }) or nil
  end
  return #calls > 0 and calls or "What will it be?"
end

local function newAgent(model) return moonpad.agent { name = "Waiter", model = model or waiter, tools = { order } } end

local function evaluate(...)
  return testing.evaluate { agent = newAgent(), cases = { ... } }
end

-- The only failure of the only case; nil where it passes.
local function failureOf(expect, user)
  local evaluation = evaluate { user = user or "tea and ale", expect = expect }
  assert.is_true(#evaluation.cases[1].failures <= 1)
  assert.equal(evaluation.cases[1].failures[1] == nil, evaluation.cases[1].passed)
  return evaluation.cases[1].failures[1]
end

describe("testing.evaluate", function()
  it("compares answers: exactly, by what they hold, by a pattern, by a function", function()
    assert.is_nil(failureOf { answer = "2 drinks." })
    assert.equal('expected the answer "3 drinks.", got "2 drinks."', failureOf { answer = "3 drinks." })
    assert.is_nil(failureOf { answer = { contains = "drinks", matches = "^%d" } })
    assert.is_nil(failureOf { answer = { contains = { "2", "drinks" } } })
    assert.equal('expected an answer with "tea", got "2 drinks."', failureOf { answer = { contains = { "2", "tea" } } })
    assert.equal('expected an answer that matches "^%a", got "2 drinks."', failureOf { answer = { matches = "^%a" } })
    assert.is_nil(failureOf { answer = function(text, turn) return text == "2 drinks." and #turn.toolCalls == 2 end })
    assert.equal('the answer "2 drinks.": too few', failureOf { answer = function() return false, "too few" end })
  end)

  it("compares tool calls: these and no others, in this order, or in any", function()
    local tea, ale = { name = "order", args = { drink = "tea" } }, { name = "order", args = { drink = "ale" } }
    assert.is_nil(failureOf { toolCalls = { tea, ale } })
    assert.is_nil(failureOf { toolCalls = { "order", "order" } })
    assert.is_nil(failureOf({ toolCalls = {} }, "hello"))
    local made = 'got order {"count":1,"drink":"tea"}, order {"count":1,"drink":"ale"}'
    assert.equal('expected the tool calls order {"drink":"ale"}, order {"drink":"tea"} (exact), ' .. made,
      failureOf { toolCalls = { ale, tea } })
    assert.equal('expected the tool calls order {"drink":"tea"} (exact), ' .. made, failureOf { toolCalls = { tea } })
    assert.equal("expected the tool calls none (exact), " .. made, failureOf { toolCalls = {} })
    assert.is_nil(failureOf { toolCalls = { ale }, toolOrder = "inOrder" })
    assert.is_string(failureOf { toolCalls = { ale, tea }, toolOrder = "inOrder" })
    assert.is_nil(failureOf { toolCalls = { ale, tea }, toolOrder = "anyOrder" })
    assert.is_string(failureOf { toolCalls = { tea, tea }, toolOrder = "anyOrder" })
  end)

  it("compares the state afterwards", function()
    assert.is_nil(failureOf { state = { drinks = { "tea", "ale" }, paid = moonpad.removed } })
    assert.equal('state drinks: expected ["tea"], there is ["tea","ale"]', failureOf { state = { drinks = { "tea" } } })
    assert.equal("state paid: expected true, there is nothing", failureOf { state = { paid = true } })
  end)

  it("plays the turns of a case on one session, each case on its own, from its state", function()
    local evaluation = evaluate({
      name = "two rounds", state = { drinks = { "water" } },
      turns = {
        { user = "tea", expect = { answer = "2 drinks." } }, { user = "ale", expect = { answer = "3 drinks." } },
      },
    }, { name = "another guest", user = "ale", expect = { answer = "1 drinks." } }, {
      name = "a wrong one",
      turns = {
        { user = "tea" }, { user = "tea", expect = { answer = "5 drinks." } },
        { user = "tea", expect = { answer = "" } },
      },
    })
    assert.same({ 2, 1 }, { evaluation.passed, evaluation.failed })
    assert.equal([[
passed  two rounds
passed  another guest
FAILED  a wrong one
        turn 2: expected the answer "5 drinks.", got "2 drinks."
2 passed, 1 failed]], tostring(evaluation))
  end)

  it("plays each case several times, and asks for a share of them", function()
    local count = 0
    local agent = newAgent(function()
      count = count + 1
      return count % 4 == 0 and "no" or "yes"
    end)
    local case = { name = "moody", user = "?", expect = { answer = "yes" } }
    local evaluation = testing.evaluate { agent = agent, cases = { case }, runs = 4, passRate = 0.75 }
    assert.same({ 1, 0, 3 }, { evaluation.passed, evaluation.failed, evaluation.cases[1].passedRuns })
    assert.matches("passed  moody  3 of 4 runs\n        run 4: expected", tostring(evaluation), 1, true)
    assert.equal(1, testing.evaluate({ agent = agent, cases = { case }, runs = 4 }).failed)
  end)

  it("counts an error of a run as a failure of its case, and goes on", function()
    local evaluation = testing.evaluate {
      agent = newAgent(), model = function(request)
        assert(request.contents[1].parts[1].text ~= "boom", "it broke")
        return "fine"
      end,
      cases = { { user = "boom" }, { user = "ok", expect = { answer = "fine" } } },
    }
    assert.same({ false, true }, { evaluation.cases[1].passed, evaluation.cases[2].passed })
    assert.matches("it broke", evaluation.cases[1].failures[1], 1, true)
  end)

  it("refuses what is misspelt, with its place", function()
    local function refused(says, case) checks.raises("invalid_argument", says, evaluate, { user = "x" }, case) end
    refused({ "cases[2]", "expct", "did you mean expect?" }, { user = "x", expct = {} })
    refused({ "cases[2].expect", "anwser", "did you mean answer?" }, { user = "x", expect = { anwser = "y" } })
    refused({ "cases[2].user", "got a nil" }, {})
    refused({ "cases[2].turns", "at least one turn" }, { turns = {} })
    refused({ "cases[2]", "belong into the turns" }, { user = "x", turns = { { user = "y" } } })
    refused({ "turns[1].expect.toolOrder", '"exact", "inOrder" or "anyOrder"' },
      { turns = { { user = "y", expect = { toolOrder = "any" } } } })
    refused({ "expect.answer.matches", "malformed pattern" }, { user = "x", expect = { answer = { matches = "%" } } })
    refused("expect.toolCalls[1].name", { user = "x", expect = { toolCalls = { { args = {} } } } })
    checks.raises("invalid_argument", { "runs", "from 1" }, testing.evaluate,
      { agent = newAgent(), cases = {}, runs = 0 })
    checks.raises("invalid_argument", { "service", "unknown field" }, testing.evaluate,
      { agent = newAgent(), cases = {}, service = moonpad.open "memory:" })
  end)
end)

describe("testing.callTool", function()
  it("calls a tool, and gives its result, the context and the files", function()
    local result, context = testing.callTool(order, { drink = "tea" }, { state = { drinks = { "ale" } } })
    assert.same({ drinks = 2 }, result)
    assert.has_state(context, { drinks = { "ale", "tea" } })
    result = testing.callTool(order, { drink = "tea" }, context)
    assert.same({ drinks = 3 }, result)
    local drawing = { name = "draw", run = function()
      return "done", { moonpad.inlineData("image/png", "\137PNG") }
    end }
    local _, _, parts = testing.callTool(drawing)
    assert.equal("image/png", parts[1].inlineData.mimeType)
  end)

  it("checks the arguments, and what is returned", function()
    local says = "order: bad arguments: drink: is required"
    assert.error_matches(function() testing.callTool(order, {}) end, says, 1, true)
    local broken = { name = "broken", run = function() return { f = print } end }
    assert.error_matches(function() testing.callTool(broken) end, "a function cannot be", 1, true)
    checks.raises("invalid_argument", "testing.callTool: args", testing.callTool, order, 5)
    checks.raises("invalid_argument", "testing.callTool: tool", testing.callTool, nil)
  end)

  it("raises what the tool says is wrong, with the code of an error object", function()
    local refusing = { name = "refuse", run = function() return nil, "no such drink" end }
    assert.error_matches(function() testing.callTool(refusing) end, 'the tool "refuse" failed: no such drink', 1, true)
    local reading = { name = "read", run = function(_, context) context.state["x"] = print end }
    local err = checks.failure(testing.callTool, reading)
    assert.equal("invalid_argument", err.code)
    assert.equal("invalid_argument", err.cause.code)
  end)

  it("lets a tool wait", function()
    local slow = { name = "slow", run = function()
      coroutine.yield()
      moonpad.sleep(0.001)
      return "done"
    end }
    assert.equal("done", (testing.callTool(slow)))
  end)

  it("asks for a confirmation as a run does", function()
    local pay = { name = "pay", requireConfirmation = true, run = function(_, context)
      return { paid = context.toolConfirmation.payload }
    end }
    assert.matches("requires confirmation", testing.callTool(pay).error)
    assert.same({ paid = 5 }, (testing.callTool(pay, {}, { toolConfirmation = { confirmed = true, payload = 5 } })))
    assert.matches("rejected", testing.callTool(pay, {}, { toolConfirmation = { confirmed = false } }).error)
  end)
end)

describe("testing.run with a model", function()
  it("asks it in place of the models of all agents, agents that are tools included", function()
    local asked = {}
    local function stub(request)
      asked[#asked + 1] = request.systemInstruction
      local last = request.contents[#request.contents].parts[1]
      if request.systemInstruction == "root" and last.text then
        return moonpad.functionCall("Inner", { request = "x" })
      end
      return "stubbed"
    end
    local inner = moonpad.agent { name = "Inner", instruction = "inner", model = "gpt-4o" }
    local root = moonpad.agent {
      name = "Root", instruction = "root", model = "gemini-2.0-flash", tools = { moonpad.agentTool { agent = inner } },
    }
    assert.equal("stubbed", testing.run({ agent = root, model = stub, messages = "go" }).text)
    assert.same({ "root", "inner", "root" }, asked)
    assert.same({ "gemini-2.0-flash", "gpt-4o" }, { root.model, inner.model })
    checks.raises("invalid_argument", "testing.run.model", testing.run, { agent = root, model = 5, messages = "go" })
  end)

  it("runs an agent that has no model", function()
    assert.equal("yes", testing.run({ agent = moonpad.agent { name = "A" }, model = testing.scriptedModel { "yes" },
      messages = "go" }).text)
  end)
end)
