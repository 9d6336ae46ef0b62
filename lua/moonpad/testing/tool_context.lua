--- A context as a tool gets it, without a run.
local confirmation = require "moonpad.flow.confirmation"
local content = require "moonpad.events.content"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local invocationContexts = require "moonpad.runtime.invocation_context"
local services = require "moonpad.services.of_context"
local sessions = require "moonpad.testing.session"

local function userContent(value, where)
  return content.normalize(value, "user", where)
end

local function confirmationOf(given, where)
  local hint = type(given) == "table" and type(given.hint) == "string" and given.hint or ""
  return confirmation.ofAnswer(given, hint, where)
end

local FIELDS = sessions.FIELDS:with {
  { "agentName", "string", default = "agent" },
  { "functionCallId", "string", default = "call-1" },
  { "userContent", userContent },
  { "artifactService", services.artifactService },
  { "memoryService", services.memoryService },
  { "toolConfirmation", confirmationOf },
}:describes "moonpad.ToolContextOptions"

---What `testing.toolContext` and `testing.callTool` take.
---@class moonpad.ToolContextOptions
---@field state table? what the tool finds
---@field appName string? default "app"
---@field userId string? default "user"
---@field sessionId string? default "session"
---@field agentName string? default "agent"
---@field functionCallId string? default "call-1"
---@field userContent moonpad.ContentLike? the message of the run
---@field artifactService moonpad.ArtifactService?
---@field memoryService moonpad.MemoryService?
---@field toolConfirmation { confirmed: boolean, payload: any, hint: string? }? what the user has said to the call

---A context as a tool gets it, over a session of its own in memory: to call `tool.run(args,
---context)` in a test. What the tool writes is pending in `context.state` and can be looked
---at there.
---@param options moonpad.ToolContextOptions?
---@return moonpad.Context
local function toolContext(options)
  local read = FIELDS:take(options == nil and {} or options, "testing.toolContext")
  local kept, temporary = sessions.split(read.state)
  local service = core.open "memory:"
  local session = sessions.create(service, sessions.nameOf(read), kept)
  -- They come with an event, as they do in a run.
  if next(temporary) then service:appendEvent(session, { author = "user", actions = { stateDelta = temporary } }) end
  local invocationContext = invocationContexts.new {
    id = "e-" .. core.uuid7(session), session = session, userContent = read.userContent,
    artifactService = read.artifactService, memoryService = read.memoryService,
  }
  local callbackState = contexts.begin(invocationContext, { name = read.agentName }, read.functionCallId)
  callbackState.isRunningTool, callbackState.toolConfirmation = true, read.toolConfirmation
  return callbackState.context
end

return toolContext
