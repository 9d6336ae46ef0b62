-- The ready-made plugins: logging, and reflecting on the errors of tools.
local checks = require "spec.support.checks"
local failureCounts = require "moonpad.plugins.failure_counts"
local moonpad = require "moonpad"
local support = require "spec.support"

local service
before_each(function() service = moonpad.open "memory:" end)
after_each(function() service:close() end)

local function runnerOf(plugins, definition)
  definition.name = "A"
  return moonpad.runner {
    appName = "app", sessionService = service, agent = moonpad.agent(definition), plugins = plugins,
  }
end

describe("moonpad.plugins", function()
  it("has two, each with ADK's name or one's own", function()
    assert.equal("logging_plugin", moonpad.plugins.logging().name)
    assert.equal("reflect_retry_tool_plugin", moonpad.plugins.reflectAndRetryTool().name)
    assert.equal("mine", moonpad.plugins.logging { name = "mine" }.name)
    assert.equal("mine", moonpad.plugins.reflectAndRetryTool { name = "mine" }.name)
    assert.is_nil(moonpad.plugins.other)
  end)

  it("refuses what is no option", function()
    local logging, reflect = moonpad.plugins.logging, moonpad.plugins.reflectAndRetryTool
    checks.raises("invalid_argument", "plugins.logging: expected a table, got string", logging, "x")
    checks.raises("invalid_argument", "did you mean log?", logging, { logs = print })
    checks.raises("invalid_argument", "plugins.logging.log: expected a function, got string", logging, { log = "x" })
    checks.raises("invalid_argument", "plugins.logging.name: expected a non-empty string, got number", logging,
      { name = 1 })
    for _, wrong in ipairs { -1, 1.5, "3", moonpad.null } do
      checks.raises("invalid_argument", "plugins.reflectAndRetryTool.maxRetries: expected an integer from 0",
        reflect, { maxRetries = wrong })
    end
    checks.raises("invalid_argument", "throwExceptionIfRetryExceeded: expected a boolean", reflect,
      { throwExceptionIfRetryExceeded = 1 })
  end)
end)

describe("moonpad.plugins.logging", function()
  local lines
  before_each(function() lines = {} end)

  local function logging()
    return moonpad.plugins.logging { log = function(line) lines[#lines + 1] = line end }
  end

  -- The lines without the name of the plugin and without ids.
  local function told()
    local list = {}
    for index, line in ipairs(lines) do
      list[index] = line:gsub("^%[logging_plugin%] ", ""):gsub("invocation=%S+", "invocation=ID"):gsub(" id=%S+", "")
    end
    return list
  end

  it("tells of all that happens, a line each", function()
    local first = support.calls { "t", { a = 1 }, "c1" }
    first.usageMetadata = { promptTokenCount = 3, candidatesTokenCount = 4 }
    local runner = runnerOf({ logging() }, {
      instruction = "Be kind.", model = moonpad.models.scripted { first, "done" },
      tools = { { name = "t", run = function() return { ok = true } end } },
    })
    local events = support.run(runner, "hi")
    assert.equal("done", events[3]:text())
    local request = "MODEL REQUEST agent=A model=scripted tools=t systemInstruction=Be kind."
    assert.same({
      'USER MESSAGE invocation=ID session=s user=u app=app agent=A content=text: "hi"',
      "RUN START invocation=ID agent=A",
      "AGENT START agent=A invocation=ID",
      request,
      "MODEL ANSWER agent=A tokens=3 in, 4 out content=functionCall: t",
      "EVENT author=A final=false content=functionCall: t",
      'TOOL START tool=t agent=A call=c1 args={"a":1}',
      'TOOL END tool=t agent=A call=c1 result={"ok":true}',
      "EVENT author=A final=false content=functionResponse: t",
      request,
      'MODEL ANSWER agent=A content=text: "done"',
      'EVENT author=A final=true content=text: "done"',
      "AGENT END agent=A invocation=ID",
      "RUN END invocation=ID agent=A",
    }, told())
  end)

  it("tells of errors, and changes nothing about them", function()
    local runner = runnerOf({ logging() }, {
      model = moonpad.models.scripted { support.calls({ "t", {}, "c1" }, { "none", {}, "c2" }) },
      tools = { { name = "t", run = function() error("broken", 0) end } },
    })
    checks.raises("model", "the script", support.run, runner, "hi")
    local list = table.concat(told(), "\n")
    assert.matches("\nTOOL ERROR tool=t agent=A call=c1 args={} error=broken\n", list, 1, true)
    assert.matches("\nTOOL ERROR tool=none agent=A call=c2 args={} error=unknown tool", list, 1, true)
    assert.matches("\nMODEL ERROR agent=A error=[^\n]*the script", list)
    assert.is_nil(list:find("RUN END", 1, true))
  end)

  it("tells of a model's error code, of pieces, of thoughts and of other parts", function()
    local runner = runnerOf({ logging() }, { model = function()
      local index, chunks = 0, {
        { partial = true, content = "a" },
        { content = { parts = { { text = "hm", thought = true }, { inlineData = { mimeType = "a/b", data = "" } } } },
          errorCode = "SAFETY", errorMessage = "no" },
      }
      return function()
        index = index + 1
        return chunks[index]
      end
    end })
    support.run(runner, "hi")
    local list = table.concat(told(), "\n")
    assert.matches('\nMODEL ANSWER agent=A partial=true content=text: "a"\n', list, 1, true)
    assert.matches('\nMODEL ANSWER agent=A error=SAFETY: no content=thought: "hm" | inlineData\n', list, 1, true)
  end)

  it("cuts long values between characters", function()
    support.run(runnerOf({ logging() }, {
      instruction = ("ü"):rep(201), model = function() return ("é"):rep(200) end,
    }), ("€"):rep(5000))
    local list = table.concat(told(), "\n")
    assert.matches('content=text: "' .. ("€"):rep(200) .. '..."\n', list, 1, true)
    assert.matches("systemInstruction=" .. ("ü"):rep(200) .. "...\n", list, 1, true)
    assert.matches('content=text: "' .. ("é"):rep(200) .. '"\n', list, 1, true)
    for _, line in ipairs(lines) do assert.is_truthy(utf8.len(line)) end
  end)

  it("shows control characters, so that no value makes a line or moves the cursor", function()
    local odd = "a\nb\27[2J\127\u{85}\u{202E}\u{2028}\u{2066}\t\0z"
    support.run(runnerOf({ logging() }, {
      instruction = function() return odd end,
      model = moonpad.models.scripted { support.calls { "no\nsuch", { [odd] = odd } }, odd },
    }), odd)
    for _, line in ipairs(lines) do
      assert.is_nil(line:find "[%c]", line)
      for _, character in ipairs { "\u{85}", "\u{202E}", "\u{2028}", "\u{2066}" } do
        assert.is_nil(line:find(character, 1, true))
      end
    end
    assert.matches("systemInstruction=a\\nb\\u001B[2J\\u007F\\u0085\\u202E\\u2028\\u2066\\t\\u0000z",
      table.concat(lines, "\n"), 1, true)
  end)

  it("writes to standard error by default", function()
    local written, own = {}, io.stderr
    rawset(io, "stderr", { write = function(_, ...) written[#written + 1] = table.concat { ... } end })
    local ok, err = pcall(support.run, runnerOf({ moonpad.plugins.logging { name = "p" } },
      { model = function() return "x" end }), "hi")
    rawset(io, "stderr", own)
    assert.is_true(ok, err)
    assert.matches("^%[p%] USER MESSAGE [^\n]*\n$", written[1])
    assert.matches("^%[p%] RUN END [^\n]*\n$", written[#written])
  end)
end)

describe("moonpad.plugins.reflectAndRetryTool", function()
  -- A tool that fails as often as it is told, called again and again.
  local function run(options, calls, definition)
    definition = definition or {}
    local answers = {}
    for index, call in ipairs(calls) do answers[index] = support.calls(table.unpack(call)) end
    answers[#answers + 1] = "done"
    definition.model = moonpad.models.scripted(answers)
    definition.tools = {
      { name = "t", run = function(args) if args.bad then error("boom", 0) end return { ok = true } end },
      { name = "other", run = function() error "x" end },
      { name = "typed", parameters = { type = "object", required = { "a" } }, run = function() return 1 end },
    }
    local runner = runnerOf({ moonpad.plugins.reflectAndRetryTool(options) }, definition)
    local responses = {}
    for _, event in ipairs(support.run(runner, "go")) do
      for _, response in ipairs(event:functionResponses()) do responses[#responses + 1] = response.response end
    end
    return responses
  end
  local BAD, GOOD = { { "t", { bad = true } } }, { { "t", {} } }

  it("gives the model guidance in place of the error", function()
    local response = run({}, { BAD })[1]
    assert.equal("ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN", response.response_type)
    assert.equal("ToolError", response.error_type)
    assert.equal("boom", response.error_details)
    assert.equal(1, response.retry_count)
    local guidance = response.reflection_guidance
    assert.matches("^The call to tool `t` failed%.\n\n%*%*Error Details:%*%*\n```\nboom\n```\n", guidance)
    assert.matches('```json\n{"bad":true}\n```', guidance, 1, true)
    assert.matches("This is retry attempt **1 of 3**.", guidance, 1, true)
    assert.matches("or different approach%.$", guidance)
  end)

  it("knows the kinds of moonpad's errors, unknown tools and wrong arguments among them", function()
    local responses = run({}, { { { "typed", {} } }, { { "nothing", {} } } })
    assert.equal("tool", responses[1].error_type)
    assert.matches("bad arguments", responses[1].error_details)
    assert.matches("tool: typed: bad arguments", responses[1].reflection_guidance, 1, true)
    assert.matches('unknown tool "nothing"', responses[2].error_details, 1, true)
  end)

  it("counts the failures in a row of each tool", function()
    local counts = {}
    for index, response in ipairs(run({}, { BAD, BAD, { { "other", {} } }, GOOD, BAD, BAD, BAD })) do
      counts[index] = response.retry_count or "ok"
    end
    assert.same({ 1, 2, 1, "ok", 1, 2, 3 }, counts)
    local both = run({}, { { { "t", { bad = true } }, { "t", { bad = true } } } })
    assert.same({ 1, 2 }, { both[1].retry_count, both[2].retry_count })
  end)

  it("raises the tool's error beyond maxRetries", function()
    assert.equal("boom", checks.failure(run, { maxRetries = 2 }, { BAD, BAD, BAD }))
    service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
    assert.equal("boom", checks.failure(run, { maxRetries = 0 }, { BAD }))
  end)

  it("or tells the model to stop", function()
    local options = { maxRetries = 1, throwExceptionIfRetryExceeded = false }
    local responses = run(options, { BAD, BAD, BAD, GOOD, BAD })
    assert.equal(1, responses[3].retry_count)
    assert.matches("^The tool `t` has failed consecutively 1 times", responses[2].reflection_guidance)
    assert.matches("^The tool `t` has failed", responses[3].reflection_guidance)
    assert.matches("Do not attempt to use the `t` tool again for this task.", responses[3].reflection_guidance, 1, true)
    assert.same({ ok = true }, responses[4])
    assert.matches("retry attempt **1 of 1**", responses[5].reflection_guidance, 1, true)
  end)

  it("begins anew with each run, and writes nothing to state", function()
    local plugin = moonpad.plugins.reflectAndRetryTool { maxRetries = 1 }
    for turn = 1, 3 do
      local events = support.run(runnerOf({ plugin }, {
        model = moonpad.models.scripted { support.calls { "t", {} }, "done" },
        tools = { { name = "t", run = function() error "x" end } },
      }), "go")
      assert.equal(1, events[2]:functionResponses()[1].response.retry_count, "turn " .. turn)
    end
    assert.same({}, support.stored(service).state:toTable())
  end)

  it("puts into the guidance what the arguments have become", function()
    local responses = run({}, { BAD }, { beforeToolCallback = function(_, _, args) args.fn = print end })
    assert.matches("```json\ntable: ", responses[1].reflection_guidance, 1, true)
  end)

  it("comes before the agent's own callback, which may change what it says", function()
    local asked = false
    local responses = run({}, { BAD }, {
      onToolErrorCallback = function() asked = true end,
      afterToolCallback = function(_, _, _, result) return { short = result.error_details } end,
    })
    assert.is_false(asked)
    assert.same({ short = "boom" }, responses[1])
  end)

  it("forgets runs that never end", function()
    local counts, limit = failureCounts.new(), failureCounts.MAX_INVOCATIONS
    for index = 1, 5 * limit do assert.equal(1, counts:add("e" .. index, "t")) end
    local kept = 0
    for _, generation in ipairs { counts.recent, counts.older } do
      for _ in pairs(generation) do kept = kept + 1 end
    end
    assert.is_true(kept >= limit and kept <= 2 * limit)
    assert.equal(2, counts:add("e" .. 4 * limit + 1, "t"))
    assert.equal(1, counts:add("e1", "t"))
  end)

  it("keeps counting what is used, however many others come", function()
    local counts = failureCounts.new()
    for index = 1, 20 do
      assert.equal(index, counts:add("kept", "t"))
      for other = 1, failureCounts.MAX_INVOCATIONS // 2 do counts:add(index .. "/" .. other, "t") end
    end
    counts:reset("kept", "t")
    assert.equal(1, counts:add("kept", "t"))
    counts:forget "kept"
    assert.equal(1, counts:add("kept", "t"))
  end)
end)
