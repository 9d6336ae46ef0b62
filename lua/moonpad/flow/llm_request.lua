--- Builds what a model is asked: instruction, history, tools.
local contents = require "moonpad.flow.contents"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local instructions = require "moonpad.agents.instructions"
local modelLike = require "moonpad.models.model_like"
local prompts = require "moonpad.flow.prompt"

---What a model is asked. A beforeModelCallback may change it; a model must not.
---@class moonpad.Request
---@field model string? the name of the model, where it has one
---@field systemInstruction string? the instructions, filled in
---@field contents moonpad.Content[] the conversation, oldest first
---@field tools { name: string, description: string, parameters: table }[] that it may call
---@field providerTools table[]? handed to the provider as they are
---@field config moonpad.ModelConfig settings
---@field streaming boolean? whether to stream; nil: as the model is set

local llmRequests = {}

local function describeTools(tools)
  local list = {}
  for index, tool in ipairs(tools) do
    list[index] = { name = tool.name, description = tool.description, parameters = copy(tool.parameters) }
  end
  return list
end

local function configOf(agent, isHeld)
  local config = copy(agent.config or {})
  if isHeld and config.responseSchema == nil then config.responseSchema = copy(agent.outputSchema) end
  return config
end

-- request -> true: its contents are those of other requests, too.
local sharesContents = setmetatable({}, { __mode = "k" })

---Lets a callback change the contents of a request as it likes: from now on they are its own.
---@param request table
function llmRequests.unshare(request)
  if not sharesContents[request] then return end
  sharesContents[request] = nil
  request.contents = prompts.copyOf(request.contents)
end

---The request of a model call. Everything in it is a copy, but for what is in `contents`: a
---callback may change that, too, after `unshare`; a model must not.
---@param callbackState moonpad.CallbackState
---@param offered moonpad.OfferedTools
---@return table
function llmRequests.build(callbackState, offered)
  local agent, tools = callbackState.agent, offered.list
  local providerTools = agent.providerTools and #agent.providerTools > 0 and copy(agent.providerTools) or nil
  local hasTools = #tools > 0 or providerTools ~= nil
  local model = callbackState.invocationContext:modelOf(agent)
  local isHeld = agent.outputSchema ~= nil and modelLike.takesSchema(model, agent.outputSchema, hasTools)
  local request = {
    model = modelLike.nameOf(model),
    systemInstruction = instructions.system(callbackState, isHeld),
    contents = contents.build(callbackState.invocationContext, agent),
    tools = describeTools(tools),
    providerTools = providerTools,
    config = configOf(agent, isHeld),
    streaming = callbackState.invocationContext.streaming,
  }
  sharesContents[request] = true
  for _, tool in ipairs(offered.all) do
    if tool.processLlmRequest then tool.processLlmRequest(callbackState.context, request) end
  end
  return request
end

---The id that the chunks of one streamed answer share with the event that completes it.
---@param callbackState moonpad.CallbackState
function llmRequests.newEventId(callbackState)
  return core.uuid7(callbackState.invocationContext.session)
end

---@param callbackState moonpad.CallbackState
---@return number seconds by the clock of the service
function llmRequests.now(callbackState)
  return core.now(callbackState.invocationContext.session)
end

return llmRequests
