--- `moonpad eval`: plays conversations with an agent and compares what happens with what is
--- expected.
local agentFile = require "moonpad.cli.agent_file"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"
local output = require "moonpad.cli.output"
local testing = require "moonpad.testing"

-- What evaluate takes besides agent and cases, and a file of cases may say.
local SETTINGS = { "runs", "passRate" }

local function loadCases(path)
  local chunk, problem = loadfile(path, "t")
  if not chunk then failure.raise("%s", problem) end
  local ok, cases = pcall(chunk)
  if not ok then failure.raise("%s: %s", path, failure.text(cases)) end
  if type(cases) ~= "table" then failure.raise("%s: must return a list of cases, returned %s", path, type(cases)) end
  return cases.cases and cases or { cases = cases }
end

-- The services of the file, if any, are for real conversations.
local function optionsFor(file, cases, options)
  local given = { agent = file.agent, cases = cases.cases, model = options.model }
  for _, name in ipairs { "plugins", "maxLlmCalls", "templateSyntax" } do
    given[name] = (file.runner or file.definition)[name]
  end
  for _, name in ipairs(SETTINGS) do given[name] = cases[name] end
  given.runs = options.runs or given.runs
  given.artifactService = moonpad.artifactService "memory:"
  local ok, memory = pcall(moonpad.memoryService, "memory:")
  given.memoryService = ok and memory or nil
  return given
end

---@param options table of the command line
---@return "failed"|nil
return function(options)
  local file, cases = agentFile.load(options), loadCases(options.cases)
  local function onCase(case)
    if options.json then io.stdout:write(moonpad.json.encode(case), "\n"):flush() end
  end
  local evaluation = testing.evaluate(optionsFor(file, cases, options), onCase)
  if not options.json then
    for line in (tostring(evaluation) .. "\n"):gmatch "([^\n]*)\n" do print(output.name(line)) end
  end
  return evaluation.failed > 0 and "failed" or nil
end
