--- Bodies of requests: what each adapter makes of many conversations, for many models and servers.
local checks = require "spec.support.checks"
local conversations = require "spec.support.conversations"
local memory = require "spec.support.memory_http"
local moonpad = require "moonpad"
local recordings = require "spec.support.recordings"

local bodies = {}

---@class spec.Body
---@field conversation string its name
---@field name string that, and who gets it
---@field text string JSON
---@field server string
---@field model string

local OPENAI <const>, ELSEWHERE <const> = "https://api.openai.com/v1", "https://models.example/v1"

-- The makers' own models, one of each kind; and of other servers those that want something else.
local TARGETS = {
  chat = {
    {
      OPENAI, "gpt-4o", "gpt-5", "gpt-5.2", "gpt-5.6", "gpt-5-pro", "gpt-5-chat-latest", "gpt-5.1-codex", "o1",
      "o3-mini",
    },
    { "https://x.openai.azure.com/openai/v1", "gpt-4o", "gpt-5" },
    { "https://api.deepseek.com", "deepseek-chat" },
    { "https://api.mistral.ai/v1", "magistral-medium-latest" },
    { "https://api.x.ai/v1", "grok-4" },
    { "https://api.groq.com/openai/v1", "openai/gpt-oss-120b" },
    { "https://openrouter.ai/api/v1", "openai/gpt-5", "google/gemini-3-pro-preview" },
    { "https://generativelanguage.googleapis.com/v1beta/openai", "gemini-3-pro-preview" },
    { "https://api.moonshot.ai/v1", "kimi-k2" },
    { "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "qwen3-max" },
    { "http://localhost:11434/v1", "llama3.2" },
    { ELSEWHERE, "some-model" },
  },
  responses = {
    {
      OPENAI, "gpt-4o", "gpt-5", "gpt-5.2", "gpt-5.6", "gpt-5-pro", "gpt-5.1-codex-max", "o3", "o4-mini-deep-research",
    },
    { "https://x.openai.azure.com/openai/v1", "gpt-5" },
    { ELSEWHERE, "some-model" },
  },
  anthropic = {
    {
      "https://api.anthropic.com/v1", "claude-3-haiku-20240307", "claude-sonnet-4-5", "claude-opus-4-5",
      "claude-opus-4-6", "claude-opus-4-7", "claude-haiku-4-5", "claude-sonnet-5", "claude-opus-5",
    },
  },
  gemini = {
    {
      "https://generativelanguage.googleapis.com/v1beta", "gemini-2.0-flash", "gemini-2.5-flash", "gemini-2.5-pro",
      "gemini-3-pro-preview", "gemini-3-flash-preview",
    },
  },
}

local MAKERS = { chat = "openai", responses = "openai", anthropic = "anthropic", gemini = "gemini" }

-- The body that goes out, or the error that says why nothing does.
local function bodyOf(api, server, name, request, stream)
  local problem
  local requests = memory.serve({ { mime = "application/json", pieces = { "{}" } } }, function()
    local model = moonpad.models[MAKERS[api]] {
      model = name, baseUrl = server, apiKey = "a-key-that-nobody-has", stream = stream, maxRetries = 0,
      api = MAKERS[api] == "openai" and api or nil,
    }
    local ok, err = pcall(model.generate, model, request)
    problem = not ok and err or nil
  end)
  if requests[1] then return requests[1].body end
  return nil, problem
end

local function isFor(conversation, api)
  for _, one in ipairs(conversation.apis or { api }) do
    if one == api then return true end
  end
  return false
end

-- The conversation that goes on from each of the recorded answers, of whatever provider.
local function afterRecordings(recorded)
  local list = {}
  for _, recording in ipairs(recorded) do
    local outcome = not recording.expected.error and recordings.ask(recording) or {}
    if outcome.response then
      list[#list + 1] = {
        name = ("after %s/%s"):format(recording.api, recording.name),
        request = { contents = recordings.continued(outcome) }, api = recording.api, target = recording.expected,
      }
    end
  end
  return list
end

local function eachTarget(api, act)
  for _, target in ipairs(TARGETS[api]) do
    for index = 2, #target do act(target[1], target[index]) end
  end
end

---All that is different, for one API, and the requests that were refused.
---@param api string
---@param chosen (fun(list: any[]): any[])? which of the conversations, default: those whose turn it is
---@return spec.Body[] list
---@return { name: string, problem: any }[] refused
function bodies.of(api, chosen)
  local list, refused, seen = {}, {}, {}
  chosen = chosen or checks.chosen
  local function take(conversation, server, model, request, stream)
    local text, problem = bodyOf(api, server, model, request, stream)
    local name = ("%s%s (%s, %s)"):format(conversation, stream and ", streamed" or "", server, model)
    if not text then
      refused[#refused + 1] = { name = name, problem = problem }
      return
    end
    if not seen[text] then
      list[#list + 1] = { conversation = conversation, name = name, text = text, server = server, model = model }
    end
    seen[text] = true
  end
  for _, conversation in ipairs(chosen(conversations)) do
    if isFor(conversation, api) then
      eachTarget(api, function(server, model)
        take(conversation.name, server, model, conversation.request, false)
        take(conversation.name, server, model, conversation.request, true)
      end)
    end
  end
  for _, after in ipairs(afterRecordings(chosen(recordings.all()))) do
    if after.api == api then
      take(after.name, after.target.server, after.target.model, after.request, true)
    end
    local first = TARGETS[api][1]
    take(after.name .. ", elsewhere", first[1], first[3], after.request, true)
  end
  return list, refused
end

return bodies
