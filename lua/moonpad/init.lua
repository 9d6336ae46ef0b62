--- moonpad: an agent state runtime. This facade re-exports the C core and loads the rest when it is
--- first used.

-- Older Luas can read this file, and so are told what is needed.
if _VERSION < "Lua 5.4" then
  local jit = rawget(_G, "jit")
  error(("moonpad needs Lua 5.4, and this is %s"):format(jit and jit.version or _VERSION), 0)
end

-- Hosts may open less than all standard libraries. What cannot be done without is named before
-- something else fails.
local NEEDED = {
  { "package", require }, { "coroutine", coroutine }, { "math", math }, { "string", string }, { "table", table },
  { "utf8", utf8 },
}
for _, library in ipairs(NEEDED) do
  if library[2] == nil then
    error("moonpad needs the standard library " .. library[1] .. ", which this Lua state has not opened", 0)
  end
end

local core = require "moonpad.core"
local open = require "moonpad.services.open"

-- `require` tells where this file was found. Errors name the user's line, so lines in this folder
-- are passed over.
local path = select(2, ...)
local folder = type(path) == "string" and path:match "^(.*[/\\])init%.lua$"
if folder then core.setFolder(folder) end

---What `require "moonpad"` gives.
---@class moonpad
---@field open fun(url: string, config?: moonpad.Config): moonpad.Service "sqlite:PATH", "memory:" or a server's URL
---@field sessionService fun(url: string, config?: moonpad.Config): moonpad.Service ADK's name of `open`
---@field artifactService fun(url: string, config?: moonpad.ArtifactServiceConfig): moonpad.ArtifactService
---@field memoryService fun(url: string, config?: moonpad.MemoryServiceConfig): moonpad.MemoryService
---@field agent fun(definition: moonpad.AgentDefinition): moonpad.Agent an agent that asks a model
---@field llmAgent fun(definition: moonpad.AgentDefinition): moonpad.Agent ADK's name of `agent`
---@field sequentialAgent fun(definition: moonpad.WorkflowDefinition): moonpad.Agent runs its agents one after the other
---@field parallelAgent fun(definition: moonpad.WorkflowDefinition): moonpad.Agent runs its agents side by side
---@field loopAgent fun(definition: moonpad.LoopDefinition): moonpad.Agent runs its agents again and again
---@field customAgent fun(definition: moonpad.CustomDefinition): moonpad.Agent an agent that is a function
---@field tool fun(definition: moonpad.ToolDefinition): moonpad.Tool what a model may call
---@field longRunningTool fun(definition: moonpad.ToolDefinition): moonpad.Tool its answer may come later
---@field agentTool fun(definition: moonpad.AgentToolDefinition): moonpad.Tool an agent as a tool
---@field exitLoop moonpad.Tool with it a model leaves the enclosing loopAgent
---@field loadArtifacts moonpad.Tool with it a model reads the files of the session and its user
---@field loadMemory moonpad.Tool with it a model searches the memory service of the runner
---@field preloadMemory moonpad.Tool what the memory service knows to the user's message goes into each request
---@field runner fun(definition: moonpad.RunnerDefinition): moonpad.Runner runs an agent on sessions
---@field summarizer fun(definition: moonpad.SummarizerDefinition): moonpad.Summarizer compacts long histories of runs
---@field models moonpad.Models models over HTTP, and one that follows a script
---@field plugins moonpad.Plugins plugins that come with moonpad
---@field http moonpad.Http HTTP without blocking
---@field mcp fun(definition: moonpad.McpOptions): moonpad.McpToolset the tools of an MCP server
---@field server fun(options: moonpad.ServerOptions): moonpad.Server agents over HTTP
---@field tracing moonpad.Tracing tracers of runners, by OpenTelemetry's conventions
---@field testing moonpad.Testing what specs of agents need
---@field text fun(text: string, ...: any): moonpad.Part with more arguments: a part with text:format(...)
---@field functionCall fun(name: string, args?: table, id?: string): moonpad.Part a part that calls a tool
---@field functionResponse fun(call: moonpad.FunctionCall|moonpad.Part, response: any): moonpad.Part a part that answers
---@field inlineData fun(mimeType: string, bytes: string, displayName?: string): moonpad.Part a part that is a file
---@field event fun(fields: moonpad.Event): moonpad.Event a copy of a table, with the methods of events
---@field state fun(values?: table): moonpad.State a state object that belongs to no session
---@field injectSessionState fun(template: string, context: moonpad.Context|moonpad.State): string fills in a template
---@field toTable fun(value: any): any a plain deep copy of a state proxy
---@field array fun(t?: table): table marks a table as an array, so that it stays one when it is empty
---@field null lightuserdata the JSON null that can be stored in state; the same value as `cjson.null`
---@field removed lightuserdata in a delta: this key is deleted
---@field json moonpad.Json the exact JSON codec
---@field base64 moonpad.Base64
---@field clock fun(): number seconds that never go back
---@field sleep fun(seconds: number) waits, in a run without holding up others
---@field StatePrefix moonpad.StatePrefix
---@field _VERSION string

---The prefixes of the keys of a state.
---@class moonpad.StatePrefix
---@field APP_PREFIX "app:"
---@field USER_PREFIX "user:"
---@field TEMP_PREFIX "temp:"

local moonpad = {
  open = open,
  sessionService = open,
  null = core.null,
  removed = core.removed,
  array = core.array,
  state = core.state,
  toTable = core.toTable,
  json = core.json,
  StatePrefix = core.StatePrefix,
  _VERSION = core._VERSION,
}

-- Events are handed out by the core, also to programs that never run an agent: their methods must
-- be there at once.
moonpad.event = require("moonpad.events.event").new

---The text of the newest summary (see moonpad.summarizer), or nil. One that a rewind has taken back
---does not count.
---@return string?
function core.sessionMethods:summary()
  return require("moonpad.flow.session_history").summaryOf(self, core.serviceOf(self, "session:summary"))
end

local loaders = {
  agent = function() return require("moonpad.agents.agent").define end,
  llmAgent = function() return require("moonpad.agents.agent").define end,
  sequentialAgent = function() return require("moonpad.agents.workflow").sequential end,
  loopAgent = function() return require("moonpad.agents.workflow").loop end,
  parallelAgent = function() return require("moonpad.agents.workflow").parallel end,
  customAgent = function() return require("moonpad.agents.custom").define end,
  agentTool = function() return require("moonpad.tools.agent_tool").define end,
  exitLoop = function() return require "moonpad.tools.exit_loop" end,
  tool = function() return require("moonpad.tools.tool").define end,
  longRunningTool = function() return require("moonpad.tools.tool").defineLongRunning end,
  runner = function() return require("moonpad.runtime.runner").define end,
  summarizer = function() return require("moonpad.agents.summarizer").define end,
  artifactService = function() return require("moonpad.services.artifacts").open end,
  memoryService = function() return require("moonpad.services.memory").open end,
  loadArtifacts = function() return require "moonpad.tools.load_artifacts" end,
  loadMemory = function() return require "moonpad.tools.load_memory" end,
  preloadMemory = function() return require "moonpad.tools.preload_memory" end,
  injectSessionState = function() return require("moonpad.agents.instructions").injectSessionState end,
  models = function() return require "moonpad.models" end,
  plugins = function() return require "moonpad.plugins" end,
  testing = function() return require "moonpad.testing" end,
  text = function() return require("moonpad.events.parts").text end,
  functionCall = function() return require("moonpad.events.parts").functionCall end,
  functionResponse = function() return require("moonpad.events.parts").functionResponse end,
  inlineData = function() return require("moonpad.events.parts").inlineData end,
  base64 = function()
    local base64 = require "moonpad.util.base64"
    return { encode = base64.encode, decode = base64.decode }
  end,
  clock = function() return require("moonpad.runtime.time").clock end,
  sleep = function() return require("moonpad.runtime.time").sleep end,
  http = function() return require "moonpad.http" end,
  server = function() return require("moonpad.server").define end,
  tracing = function() return require "moonpad.tracing" end,
  mcp = function() return require("moonpad.mcp").define end,
}

-- ADK's names of classes: Agent, Runner, SequentialAgent.
local function hint(name)
  local own = type(name) == "string" and name:gsub("^%u", string.lower)
  if not own or own == name or not loaders[own] then return nil end
  return function()
    core.error("invalid_argument", ("moonpad.%s: unknown name, did you mean moonpad.%s?"):format(name, own))
  end
end

-- All names, also those that nothing has asked for yet.
local function sortedNames(self)
  local names, list = {}, {}
  for _, some in ipairs { self, loaders } do
    for name in next, some do names[name] = true end
  end
  for name in next, names do list[#list + 1] = name end
  table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
  return list
end

local function walk(self)
  local names, index = sortedNames(self), 0
  return function()
    index = index + 1
    local name = names[index]
    if name ~= nil then return name, self[name] end
  end
end

return setmetatable(moonpad, {
  __name = "moonpad", -- by which a call with a colon in the place of a dot is known
  __index = function(self, name)
    local load = loaders[name]
    if not load then return hint(name) end
    local value = load()
    rawset(self, name, value)
    return value
  end,
  __pairs = walk,
}) --[[@as moonpad]]
