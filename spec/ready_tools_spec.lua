-- The ready-made tools that have their part in what a model is asked: load_artifacts,
-- preload_memory, load_memory.
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

-- A model that keeps what it is asked.
local function asked(...)
  return moonpad.models.scripted { ... }
end

local function names(request)
  local list = {}
  for index, tool in ipairs(request.tools) do list[index] = tool.name end
  return table.concat(list, " ")
end

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function run(fields, definition, message)
    definition.name = definition.name or "A"
    local options = { appName = "app", sessionService = service, agent = moonpad.agent(definition) }
    for name, value in pairs(fields) do options[name] = value end
    return support.run(moonpad.runner(options), message or "go")
  end

  describe("moonpad.loadArtifacts", function()
    local artifacts
    before_each(function() artifacts = moonpad.artifactService "memory:" end)
    after_each(function() artifacts:close() end)

    local function save(filename, part)
      artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = filename, part = part }
    end

    local function ask(...)
      local model = asked(...)
      return model, run({ artifactService = artifacts }, { tools = { moonpad.loadArtifacts }, model = model })
    end

    it("tells the model which files there are, behind the agent's own instruction", function()
      save("a.txt", "A")
      save("user:b.txt", "B")
      local model = asked "done"
      run({ artifactService = artifacts },
        { instruction = "Be kind.", tools = { moonpad.loadArtifacts }, model = model })
      local request = model.requests[1]
      assert.equal("load_artifacts", names(request))
      assert.equal("array", request.tools[1].parameters.properties.artifact_names.type)
      assert.equal('Be kind.\n\nYou have a list of artifacts:\n  ["a.txt","user:b.txt"]\n\n',
        request.systemInstruction:match "^.-%]\n\n")
      assert.matches("you should call the\n`load_artifacts` function", request.systemInstruction, 1, true)
      assert.equal(1, #request.contents)
    end)

    it("says nothing where there is no file", function()
      local model = ask "done"
      assert.is_nil(model.requests[1].systemInstruction)
    end)

    it("puts the files asked for behind the answer, in that request alone", function()
      save("a.txt", "A text")
      save("user:photo.png", { inlineData = { mimeType = "image/png", data = "\137PNG\0" } })
      local model, events = ask(
        support.calls { "load_artifacts", { artifact_names = { "a.txt", "photo.png" } }, "c1" },
        support.calls { "load_artifacts", {}, "c2" }, "done")
      local contents = model.requests[2].contents
      assert.equal(5, #contents)
      assert.same({ "a.txt", "photo.png" }, contents[3].parts[1].functionResponse.response.artifact_names)
      assert.same({ role = "user", parts = { { text = "Artifact a.txt is:" }, { text = "A text" } } }, contents[4])
      assert.same({ role = "user", parts = {
        { text = "Artifact photo.png is:" }, { inlineData = { mimeType = "image/png", data = "iVBORwA=" } },
      } }, contents[5])
      assert.equal(5, #model.requests[3].contents)
      assert.is_nil(core.json.encode(model.requests[3].contents):find("A text", 1, true))
      assert.equal(5, #events)
      for _, event in ipairs(events) do assert.is_nil(event:text():find("A text", 1, true)) end
    end)

    it("finds its answer among those of other calls", function()
      save("a.txt", "A")
      local model = asked(support.calls({ "t", {} }, { "load_artifacts", { artifact_names = { "a.txt" } } }), "done")
      run({ artifactService = artifacts }, {
        tools = { { name = "t", run = function() return 1 end }, moonpad.loadArtifacts }, model = model,
      })
      assert.same({ { text = "Artifact a.txt is:" }, { text = "A" } }, model.requests[2].contents[4].parts)
    end)

    it("gives text as text, and tells of bytes that no model takes", function()
      save("a.json", { inlineData = { mimeType = "application/json", data = "{}" } })
      save("b.svg", { inlineData = { mimeType = "image/svg+xml", data = "<svg/>" } })
      save("c.txt", { inlineData = { mimeType = "text/plain; charset=latin1", data = "caf\xE9" } })
      save("d.zip", { inlineData = { mimeType = "application/zip", data = ("x"):rep(1536) } })
      local model = ask(support.calls { "load_artifacts",
        { artifact_names = { "a.json", "b.svg", "c.txt", "d.zip" } } }, "done")
      local texts = {}
      for index = 4, 7 do texts[index - 3] = model.requests[2].contents[index].parts[2] end
      assert.same({ { text = "{}" }, { text = "<svg/>" }, { text = "caf?" }, {
        text = "[Binary artifact: d.zip, type: application/zip, size: 1.5 KB. Content cannot be displayed inline.]",
      } }, texts)
    end)

    it("tells of files that are not there, whatever name the model has made up", function()
      save("a.txt", "A")
      local long = ("x"):rep(2000)
      local model = ask(support.calls { "load_artifacts", { artifact_names = { "b.txt", "", long } } }, "done")
      local contents = model.requests[2].contents
      assert.equal(6, #contents)
      assert.same({ { text = "There is no artifact b.txt." } }, contents[4].parts)
      assert.same({ { text = "There is no artifact ." } }, contents[5].parts)
    end)

    it("tells so where there is no file at all", function()
      local model = ask(support.calls { "load_artifacts", { artifact_names = { "b.txt" } } }, "done")
      local contents = model.requests[2].contents
      assert.equal(4, #contents)
      assert.same({ role = "user", parts = { { text = "There is no artifact b.txt." } } }, contents[4])
      assert.is_nil(model.requests[2].systemInstruction)
    end)

    it("lets callbacks see what it has added", function()
      save("a.txt", "A")
      local seen
      run({ artifactService = artifacts }, {
        tools = { moonpad.loadArtifacts }, model = function() return "done" end,
        beforeModelCallback = function(_, request) seen = request.systemInstruction end,
      })
      assert.matches("list of artifacts", seen)
    end)

    it("takes what callbacks make of its answer, and services of one's own", function()
      local model = asked(support.calls { "load_artifacts", { artifact_names = { "a" } } }, "done")
      run({ artifactService = {
        save = function() end, list = function() return { "a" } end, load = function() return { odd = 1 } end,
      } }, {
        tools = { moonpad.loadArtifacts }, model = model,
        afterToolCallback = function() return { artifact_names = { 5, "a", { "b" } } } end,
      })
      local contents = model.requests[2].contents
      assert.equal(4, #contents)
      assert.same({ text = "[Artifact: a. No inline data was provided.]" }, contents[4].parts[2])
    end)

    it("ends the run where there is no service, or where it fails", function()
      local definition = { tools = { moonpad.loadArtifacts }, model = function() return "x" end }
      checks.raises("unsupported", "the runner has no artifactService", run, {}, definition)
      local own = { save = print, load = print, list = function() error("disk on fire", 0) end }
      assert.equal("disk on fire", checks.failure(run, { artifactService = own }, definition))
    end)

    it("works step by step", function()
      save("big.png", { inlineData = { mimeType = "image/png", data = ("x"):rep(100000) } })
      local model = asked(support.calls { "load_artifacts", { artifact_names = { "big.png" } } }, "done")
      local runner = moonpad.runner {
        appName = "app", sessionService = service, artifactService = artifacts,
        agent = moonpad.agent { name = "A", tools = { moonpad.loadArtifacts }, model = model },
      }
      local invocation, count = runner:start { userId = "u", sessionId = "s", newMessage = "go" }, 0
      while support.step(invocation) do count = count + 1 end
      assert.equal(3, count)
      assert.equal(133336, #model.requests[2].contents[4].parts[2].inlineData.data)
    end)
  end)

  describe("moonpad.preloadMemory", function()
    local memory
    before_each(function() memory = moonpad.memoryService "memory:" end)
    after_each(function() memory:close() end)

    local function remember(text)
      local past = service:createSession { appName = "app", userId = "u", sessionId = "past" }
      service:appendEvent(past, { author = "user", content = { role = "user", parts = { { text = text } } } })
      memory:addSession(past)
    end

    local function ask(fields, message, definition)
      definition = definition or {}
      definition.tools, definition.model = definition.tools or { moonpad.preloadMemory }, asked("one", "two")
      run(fields, definition, message)
      return definition.model.requests[1]
    end

    it("puts what fits the message into the instruction, and declares no function", function()
      remember "My cat is called Tom."
      local request = ask({ memoryService = memory }, "What is the name of my cat?", { instruction = "Be kind." })
      assert.same({}, request.tools)
      assert.matches([[
Be kind.

The following content is from your previous conversations with the user.
They may be useful for answering the user's current query.
<PAST_CONVERSATIONS>
Time: ]], request.systemInstruction, 1, true)
      assert.matches("\nTime: %d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%dZ\n"
        .. "user: My cat is called Tom%.\n</PAST_CONVERSATIONS>$", request.systemInstruction)
    end)

    it("adds nothing where nothing fits, or nothing was asked", function()
      remember "My cat is called Tom."
      assert.is_nil(ask({ memoryService = memory }, "Rome?").systemInstruction)
      local searched = false
      local own = { searchMemory = function() searched = true return { memories = {} } end }
      ask({ memoryService = own }, " \n")
      ask({ memoryService = own }, { role = "user", parts = { { inlineData = { mimeType = "a/b", data = "" } } } })
      assert.is_false(searched)
    end)

    it("asks with all that the user has written", function()
      local query
      ask({ memoryService = { searchMemory = function(_, options) query = options.query end } },
        { role = "user", parts = { { text = "one" }, { inlineData = { mimeType = "a/b" } }, { text = "two" } } })
      assert.equal("one\ntwo", query)
    end)

    it("takes what a service of one's own answers, strange or not", function()
      local own = { searchMemory = function()
        return { memories = {
          { content = { parts = { { text = "a" }, { text = "100%s" } } }, timestamp = "yesterday" },
          { content = { parts = {} }, author = "nobody" }, 7, { author = "x" },
          { content = { parts = { { text = "b" } } }, author = "Ann", timestamp = 1e300 },
        } }
      end }
      assert.equal("Time: yesterday\na 100%s\nAnn: b",
        ask({ memoryService = own }, "x").systemInstruction:match "<PAST_CONVERSATIONS>\n(.*)\n</PAST")
    end)

    it("cannot be called: to a model it does not exist", function()
      local model = asked(support.calls { "preload_memory", {} }, "done")
      local events = run({ memoryService = memory }, { model = model, tools = { moonpad.preloadMemory } })
      assert.matches('unknown tool "preload_memory"; this agent has no tools',
        events[2]:functionResponses()[1].response.error)
      checks.raises("unsupported", "works by itself", moonpad.preloadMemory.run, {}, testing.toolContext())
    end)

    it("leaves an agent without other tools its schema", function()
      local request = ask({ memoryService = memory }, "x", { config = {}, instruction = "x" })
      assert.is_nil(request.config.responseSchema)
      local model = asked '{"a":1}'
      run({ memoryService = memory },
        { tools = { moonpad.preloadMemory }, model = model, outputSchema = { type = "object" } })
      assert.same({ type = "object" }, model.requests[1].config.responseSchema)
    end)

    it("ends the run where there is no service, or where it fails", function()
      checks.raises("unsupported", "the runner has no memoryService", ask, {}, "x")
      local own = { searchMemory = function() error("lost it", 0) end }
      assert.equal("lost it", checks.failure(ask, { memoryService = own }, "x"))
    end)
  end)

  it("moonpad.loadMemory tells the model what it is for", function()
    local model = asked "done"
    run({}, { tools = { moonpad.loadMemory }, model = model, instruction = "Be kind." })
    assert.equal("Be kind.\n\nYou have memory. You can use it to answer questions. If any questions need\n"
      .. "you to look up the memory, you should call load_memory function with a query.",
      model.requests[1].systemInstruction)
  end)

  it("no tool of one's own has a part in requests", function()
    checks.raises("invalid_argument", "processLlmRequest: unknown field", moonpad.tool,
      { name = "x", run = print, processLlmRequest = print })
  end)
end)
