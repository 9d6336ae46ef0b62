-- The names in the module, and ADK's names for what moonpad calls otherwise.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

describe("pairs(moonpad)", function()
  it("shows all names, sorted, also those that nothing has asked for yet", function()
    local command = [[lua5.4 -e '
      local moonpad = require "moonpad"
      for name, value in pairs(moonpad) do
        assert(value == moonpad[name])
        io.write(name, " ")
      end']]
    local pipe <close> = assert(io.popen(command))
    assert.equal("StatePrefix _VERSION agent agentTool array artifactService base64 clock customAgent event exitLoop "
      .. "functionCall functionResponse http injectSessionState inlineData json llmAgent loadArtifacts loadMemory "
      .. "longRunningTool loopAgent mcp memoryService models null open parallelAgent plugins preloadMemory removed "
      .. "runner sequentialAgent server sessionService sleep state summarizer testing text toTable tool tracing ",
      (pipe:read "a"))
  end)

  it("shows what a program has added", function()
    moonpad.mine = 1
    local seen = {}
    for name, value in pairs(moonpad) do seen[name] = value end
    moonpad.mine = nil
    assert.equal(1, seen.mine)
    assert.is_nil(moonpad.agnet)
  end)
end)

describe("a class of ADK's", function()
  it("is refused with the name here, when it is called", function()
    for class, name in pairs { Agent = "agent", Runner = "runner", SequentialAgent = "sequentialAgent" } do
      raises("invalid_argument", "did you mean moonpad." .. name .. "?", function() moonpad[class] {} end)
      assert.is_nil(rawget(moonpad, class))
    end
    assert.same({}, { moonpad.Foo, moonpad[1] })
  end)
end)

describe("ADK's name", function()
  local service
  before_each(function() service = moonpad.open "memory:" end)
  after_each(function() service:close() end)

  local function run(definition, method)
    definition.name = "A"
    local runner = moonpad.runner { appName = "app", agent = moonpad.llmAgent(definition), sessionService = service }
    local events = {}
    for event in runner[method or "run"](runner, { userId = "u", sessionId = "s", newMessage = "go" }) do
      events[#events + 1] = event
    end
    return events
  end

  it("of functions and methods is the same function", function()
    local other <close> = moonpad.sessionService "memory:"
    assert.equal("s", checks.create(other).id)
    assert.equal("hi", run({ model = function() return "hi" end }, "runAsync")[1]:text())
    local artifacts <close> = moonpad.artifactService "memory:"
    local file = { appName = "app", userId = "u", sessionId = "s", filename = "a.txt" }
    assert.equal(0, artifacts:saveArtifact {
      appName = "app", userId = "u", sessionId = "s", filename = "a.txt", artifact = { text = "A" },
    })
    assert.same({ text = "A" }, artifacts:loadArtifact(file))
    assert.same({ "a.txt" }, artifacts:listArtifactKeys { appName = "app", userId = "u", sessionId = "s" })
    assert.same({ 0 }, artifacts:listVersions(file))
    assert.is_true(artifacts:deleteArtifact(file))
    assert.is_nil(artifacts:load(file))
    local memory <close> = moonpad.memoryService "memory:"
    memory:addSessionToMemory(support.stored(service))
    assert.equal(1, #memory:searchMemory({ appName = "app", userId = "u", query = "hi" }).memories)
  end)

  it("generateContentConfig is the config of an agent", function()
    local seen
    run { generateContentConfig = { temperature = 0 }, model = function(request)
      seen = request.config
      return "hi"
    end }
    assert.same({ temperature = 0 }, seen)
    raises("invalid_argument", { 'agent "A".generateContentConfig', "temperature" }, run,
      { generateContentConfig = { temperature = "hot" }, model = function() return "hi" end })
  end)

  it("execute is what a tool runs", function()
    local tool = moonpad.tool { name = "t", execute = function(args) return args.x end }
    assert.equal(5, tool.run({ x = 5 }))
    assert.is_nil(rawget(tool, "execute"))
    raises("invalid_argument", 'tool "t".execute: is called without self', moonpad.tool,
      { name = "t", execute = function(self) return self end })
    raises("invalid_argument", 'tool "t".run: expected a function, got nil', moonpad.tool, { name = "t" })
  end)

  it("of a long-running tool is a function that makes one", function()
    local tool = moonpad.longRunningTool { name = "t", run = function() end }
    assert.is_true(tool.longRunning)
    local events = run {
      tools = { tool }, model = moonpad.models.scripted { moonpad.functionCall("t", {}, "c1"), "wait" },
    }
    assert.same({ "c1" }, events[1].longRunningToolIds)
    raises("invalid_argument", "longRunning: is true for a longRunningTool", moonpad.longRunningTool,
      { name = "t", run = function() end, longRunning = false })
  end)

  it("beside moonpad's is refused, and both are named", function()
    local function work() end
    raises("invalid_argument", 'tool "t": run and execute are two names of one field; give one', moonpad.tool,
      { name = "t", run = work, execute = work })
    raises("invalid_argument", 'agent "A": config and generateContentConfig are two names of one field', moonpad.agent,
      { name = "A", config = {}, generateContentConfig = {} })
    local artifacts <close> = moonpad.artifactService "memory:"
    raises("invalid_argument", "artifacts:save: part and artifact are two names of one field", artifacts.save,
      artifacts, { appName = "app", userId = "u", filename = "user:a", part = "x", artifact = "x" })
  end)

  it("in Python's spelling is answered with the right one", function()
    for given, meant in pairs {
      before_agent_callback = "beforeAgentCallback", sub_agents = "subAgents", output_key = "outputKey",
      generate_content_config = "generateContentConfig", include_contents = "includeContents",
      disallow_transfer_to_peers = "disallowTransferToPeers", global_instruction = "globalInstruction",
    } do
      raises("invalid_argument", ("agent: %s: unknown field, did you mean %s?"):format(given, meant), moonpad.agent,
        { name = "A", [given] = {} })
    end
    raises("invalid_argument", "on_event_callback: unknown field, did you mean onEventCallback?", moonpad.runner, {
      appName = "app", agent = moonpad.agent { name = "A" }, sessionService = service,
      plugins = { { on_event_callback = function() end } },
    })
  end)
end)
