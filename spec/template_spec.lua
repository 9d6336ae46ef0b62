local moonpad = require "moonpad"
local support = require "spec.support"

-- What every row of the table in contract 4.1 finds in state.
local function state()
  return moonpad.state {
    topic = "tea", ["user:name"] = "Ann", ["app:hotel"] = "Moonpad", ["temp:mood"] = "calm",
    yes = true, no = false, count = 3, float = 1.0, third = 0.5, null = moonpad.null, ["größe"] = "XL",
    profile = { address = { city = "Oslo" } }, cart = { { item = "cup" }, "pot" }, empty = moonpad.array {},
    tricky = "{topic} <topic> \\{topic}",
  }
end

local function render(template)
  return moonpad.injectSessionState(template, state())
end

local failure = require("spec.support.checks").failure

describe("an instruction template", function()
  local rendered = {
    -- the value, in both forms
    { "{topic}", "tea" }, { "<topic>", "tea" }, { "{ topic }", "tea" }, { "{\n topic\t}", "tea" },
    { "< topic >", "< topic >" },
    { "{user:name}", "Ann" }, { "<user:name>", "Ann" }, { "{app:hotel}", "Moonpad" }, { "<temp:mood>", "calm" },
    { "{größe}", "XL" }, { "{topic}{topic}", "teatea" }, { "", "" }, { "plain", "plain" },
    -- optional
    { "{missing?}", "" }, { "<missing?>", "" }, { "{nobody.name?}", "" }, { "<nobody.name?>", "" },
    { "{topic?}", "tea" }, { "{user:missing?}", "" },
    -- lenient
    { "<missing>", "<missing>" },
    -- left as it is, or escaped
    { "{{topic}}", "{{topic}}" }, { "\\{topic}", "{topic}" }, { "\\<topic>", "<topic>" },
    { '{"a": {topic}}', '{"a": tea}' },
    -- paths
    { "{profile.address.city}", "Oslo" }, { "<profile.address.city>", "Oslo" }, { "{cart[1].item}", "cup" },
    { "{cart[2]}", "pot" }, { "{nobody.name}", "{nobody.name}" }, { "<nobody.name>", "<nobody.name>" },
    { "{profile.age?}", "" },
    -- no placeholders
    { "{1x}", "{1x}" }, { "{a b}", "{a b}" }, { "{foo:k}", "{foo:k}" }, { "{}", "{}" },
    { '<a href="x">', '<a href="x">' }, { "a < b > c", "a < b > c" }, { "</topic>", "</topic>" },
    { "{topic", "{topic" }, { "<topic>x</topic>", "<topic>x</topic>" }, { "{topic}</topic>", "tea</topic>" },
    -- values
    { "{yes} {no}", "true false" }, { "{count}", "3" }, { "{float} {third}", "1.0 0.5" }, { "[{null}]", "[]" },
    { "{profile}", '{"address":{"city":"Oslo"}}' }, { "{empty}", "[]" },
    -- one pass
    { "{tricky}", "{topic} <topic> \\{topic}" },
    -- artifacts
    { "{artifact.menu.txt?}", "" },
  }
  for _, case in ipairs(rendered) do
    it(("makes %q of %q"):format(case[2], case[1]), function() assert.equal(case[2], render(case[1])) end)
  end

  local failing = {
    { "{missing}", "missing" }, { "{user:missing}", "user:missing" }, { "<user:missing>", "user:missing" },
    { "{profile.age}", "age" }, { "{cart[9]}", "cart" }, { "{artifact.menu.txt}", "menu.txt" },
  }
  for _, case in ipairs(failing) do
    it(("fails on %q, naming %q"):format(case[1], case[2]), function()
      local err = failure(render, "Dear " .. case[1])
      assert.equal("template", err.code)
      assert.is_truthy(tostring(err):find(case[2], 1, true))
    end)
  end

  it("must be a string, over something with state", function()
    assert.equal("invalid_argument", failure(moonpad.injectSessionState, 1, state()).code)
    assert.equal("invalid_argument", failure(moonpad.injectSessionState, "x", {}).code)
  end)
end)

support.any_store(function(open)
  local function instructionOf(fields, runnerFields)
    local seen
    local definition = { name = "A", model = function(request) seen = request.systemInstruction return "ok" end }
    for name, value in pairs(fields) do definition[name] = value end
    local options = { appName = "app", agent = moonpad.agent(definition), sessionService = open() }
    for name, value in pairs(runnerFields or {}) do options[name] = value end
    support.run(moonpad.runner(options), {
      userId = "u", sessionId = "s", newMessage = "Hi",
      stateDelta = { topic = "tea", ["user:name"] = "Ann", ["temp:mood"] = "calm" },
    })
    return seen
  end

  it("an agent's instruction sees the state of the run, temp: and fresh writes included", function()
    assert.equal("tea for Ann, calm, new", instructionOf {
      instruction = "{topic} for <user:name>, {temp:mood}, <fresh>",
      beforeAgentCallback = function(context) context.state.fresh = "new" end,
    })
  end)

  it("the syntax may be chosen by the agent, or by the runner for all agents", function()
    assert.equal("tea <topic>", instructionOf { instruction = "{topic} <topic>", templateSyntax = "braces" })
    assert.equal("{topic} tea", instructionOf { instruction = "{topic} <topic>", templateSyntax = "angles" })
    assert.equal("tea <topic>", instructionOf({ instruction = "{topic} <topic>" }, { templateSyntax = "braces" }))
    assert.equal("{topic} tea", instructionOf({
      instruction = "{topic} <topic>", templateSyntax = "angles",
    }, { templateSyntax = "braces" }))
  end)

  it("the angles form is strict when it is the only one", function()
    local err = failure(instructionOf, { instruction = "<nobody>", templateSyntax = "angles" })
    assert.equal("template", err.code)
  end)

  it("no instruction is no instruction", function()
    assert.is_nil(instructionOf {})
    assert.is_nil(instructionOf { instruction = "" })
  end)
end)
