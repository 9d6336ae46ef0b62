-- What fails in a user's spec: busted, as a process of its own, says failure, where, and why.
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

describe("in busted, moonpad.testing", function()
  local folder

  before_each(function() folder = support.tmpdir() end)
  after_each(support.cleanup)

  -- Runs the body of a test; `LINE` in it is the line that is to be named.
  local function runBody(body)
    local path = folder .. "/agent_spec.lua"
    local text = ([[
local moonpad, testing = require "moonpad", require "moonpad.testing"
local crash = moonpad.tool { name = "crash", run = function(args) return args.none.field end }
local function caller(model) return moonpad.agent { name = "Caller", model = model, tools = { crash } } end
describe("a user's spec", function()
  it("fails", function()
%s
  end)
end)
]]):format(body)
    local file <close> = assert(io.open(path, "w"))
    file:write(text)
    file:flush()
    local line, number = 0, nil
    for content in text:gmatch "[^\n]*\n" do
      line = line + 1
      if content:find("LINE", 1, true) then number = line end
    end
    local pipe <close> = assert(io.popen(("lua5.4 /usr/bin/busted --ignore-lua --no-auto-insulate --cpath=%s %s 2>&1")
      :format(support.quote(package.cpath), support.quote(path))))
    return pipe:read "a", ("agent_spec.lua:%d: "):format(number or 0)
  end

  local function assertFailure(body, ...)
    local printed, place = runBody(body)
    assert.matches("0 successes / 1 failure / 0 errors", printed, 1, true)
    assert.matches(place, printed, 1, true)
    for _, text in ipairs { ... } do assert.matches(text, printed, 1, true) end
  end

  it("fails at testing.run where the model was asked something else", function()
    assertFailure([[
    local model = testing.scriptedModel { { expect = { text = "tea" }, reply = "yes" } }
    testing.run { agent = caller(model), messages = "coffee" } -- LINE]],
      'scriptedModel, call 1: expected to be asked "tea", was asked "coffee"')
  end)

  it("fails where the script has too few or too many steps", function()
    assertFailure([[
    testing.run { agent = caller(testing.scriptedModel { "one" }), messages = { "a", "b" } } -- LINE]],
      "the script ends after step 1")
    assertFailure([[
    local model = testing.scriptedModel { "one", "two" }
    testing.run { agent = caller(model), messages = "a" }
    model:assertDone() -- LINE]], "1 of 2 steps were asked for")
  end)

  it("names the line of the script where a run was begun without testing.run", function()
    assertFailure([[
    local model = testing.scriptedModel { { expect = { text = "tea" }, reply = "yes" } } -- LINE
    local runner <close> = moonpad.runner { appName = "a", agent = caller(model), url = "memory:" }
    runner:ask { userId = "u", newMessage = "coffee" } ]], 'expected to be asked "tea"')
  end)

  it("fails with the error of a run, its code and where it was raised", function()
    assertFailure([[
    local function broken() return nil .. "x" end
    testing.run { agent = caller(broken), messages = "a" } -- LINE]],
      "attempt to concatenate a nil value", "agent_spec.lua:6:")
  end)

  it("tells in has_state what a tool raised", function()
    assertFailure([[
    local model = testing.scriptedModel { moonpad.functionCall("crash", {}), "sorry" }
    local result = testing.run { agent = caller(model), messages = "a" }
    assert.has_state(result.session, { done = true }) -- LINE]],
      "done: expected true, there is nothing", 'the tool "crash" failed: ', "attempt to index a nil value")
  end)

  it("has an assertion that no tool has failed", function()
    assertFailure([[
    local model = testing.scriptedModel { moonpad.functionCall("crash", {}), "sorry" }
    local result = testing.run { agent = caller(model), messages = "a" }
    assert.no_tool_errors(result) -- LINE]], "Tools have failed:", "attempt to index a nil value")
  end)

  it("fails at callTool with what the tool raised, and where", function()
    assertFailure([[
    testing.callTool(crash, {}) -- LINE]], 'the tool "crash" failed: ', "attempt to index a nil value",
      "agent_spec.lua:2:")
    assertFailure([[
    local add = moonpad.tool { name = "add", run = function() end, parameters = {
      type = "object", properties = { n = { type = "integer" } } } }
    testing.callTool(add, { n = "one" }) -- LINE]], "add: bad arguments: n: expected an integer")
  end)

  it("fails with the table of an evaluation", function()
    assertFailure([[
    local agent = caller(function() return "Hello." end)
    local cases = { { name = "greets", user = "Hi", expect = { answer = "Good day." } } }
    testing.evaluate { agent = agent, cases = cases }:assertPassed() -- LINE]],
      "FAILED  greets", 'expected the answer "Good day.", got "Hello."', "0 passed, 1 failed")
  end)

  it("shows clean text, without what luassert puts around values", function()
    local printed = runBody [[
    assert.has_state(moonpad.state { a = 1 }, { a = 2 }) ]]
    assert.matches("The state is not as expected:\n  a: expected 2, there is 1\n", printed, 1, true)
  end)

  it("compares values of state with assert.same", function()
    local printed = runBody [[
    local state = moonpad.state { cart = { 1, 2 }, deep = { x = { y = {} } } }
    assert.are.same({ 1, 2 }, state.cart)
    assert.are.same(state.cart, { 1, 2 })
    assert.same({ here = { { y = {} } } }, { here = { state.deep.x } })
    assert.same({ cart = { 1, 2 }, deep = { x = { y = {} } } }, state)
    assert.are_not.same({ 1, 3 }, state.cart)
    assert.are.same({ 1, 3 }, state.cart) ]]
    assert.matches("0 successes / 1 failure / 0 errors", printed, 1, true)
    assert.matches("agent_spec.lua:12:", printed, 1, true)
    assert.matches("[2] = 2", printed, 1, true)
  end)
end)
