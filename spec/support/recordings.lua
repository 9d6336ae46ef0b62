--- What providers have answered, and what it means (spec/fixtures/recorded/README.md).
local files = require "spec.support.files"
local memory = require "spec.support.memory_http"
local moonpad = require "moonpad"

local recordings = {}

local FOLDER <const> = "spec/fixtures/recorded/"
local KEY <const> = "a-key-that-nobody-has"

---@class spec.Recording
---@field api string the folder
---@field name string
---@field body string as it came
---@field isStream boolean
---@field expected table what it means
---@field rest spec.Recording? what came when the rest of a paused answer was asked for

local function read(api, name, extension)
  local path = FOLDER .. api .. "/" .. name
  local recording = {
    api = api, name = name, isStream = extension == "sse", body = files.read(path .. "." .. extension),
    expected = moonpad.json.decode(files.read(path .. ".expected.json")),
  }
  local rest = recording.expected.rest
  if rest then recording.rest = { body = files.read(FOLDER .. api .. "/" .. rest) } end
  return recording
end

---@return spec.Recording[]
function recordings.all()
  local list = {}
  local pipe <close> = assert(io.popen("find " .. FOLDER .. " -name '*.expected.json' | sort"))
  for path in pipe:lines() do
    local api, name = path:match "([^/]+)/([^/]+)%.expected%.json$"
    local isStream = files.read(FOLDER .. api .. "/" .. name .. ".sse") ~= ""
    list[#list + 1] = read(api, name, isStream and "sse" or "json")
  end
  return list
end

local MAKERS = { chat = "openai", responses = "openai", anthropic = "anthropic", gemini = "gemini" }

---The model that gave a recorded answer.
---@param recording spec.Recording
---@param server string? another server than the one that it is from
function recordings.model(recording, server)
  local maker = MAKERS[recording.api]
  return moonpad.models[maker] {
    model = recording.expected.model, baseUrl = server or recording.expected.server, apiKey = KEY,
    stream = recording.isStream, maxRetries = 0, api = maker == "openai" and recording.api or nil,
  }
end

---@class spec.Outcome
---@field response table? the whole answer
---@field shown table[] parts that were shown before
---@field error moonpad.Error?
---@field request table the body of the request

local function collect(model, contents)
  local shown, last = {}, nil
  local answer, state, control, closing = model:generate { contents = contents }
  if type(answer) ~= "function" then return answer, shown end
  for response in answer, state, control, closing do
    last = response
    if response.partial then table.move(response.content.parts, 1, #response.content.parts, #shown + 1, shown) end
  end
  return last, shown
end

local function replyOf(recording, pieces)
  return {
    status = recording.expected.status, pieces = pieces,
    mime = recording.isStream and "text/event-stream" or "application/json",
  }
end

local QUESTION = { role = "user", parts = { { text = "a question" } } }

---Asks a model, which gets what was recorded.
---@param recording spec.Recording
---@param pieces string[]? of the recorded body
---@param contents table[]?
---@param server string?
---@return spec.Outcome
function recordings.ask(recording, pieces, contents, server)
  local outcome = { shown = {} }
  local replies = { replyOf(recording, pieces or { recording.body }) }
  if recording.rest then replies[2] = replyOf(recording, { recording.rest.body }) end
  local requests = memory.serve(replies, function()
    local ok, response, shown = pcall(collect, recordings.model(recording, server), contents or { QUESTION })
    if ok then
      outcome.response, outcome.shown = response, shown
    else
      outcome.error = response
    end
  end)
  outcome.request = moonpad.json.decode(requests[1].body)
  return outcome
end

---@param parts table[]
---@return string text
---@return string thoughts
---@return table[] calls
function recordings.split(parts)
  local texts, thoughts, calls = {}, {}, {}
  for _, part in ipairs(parts) do
    if part.functionCall then calls[#calls + 1] = part.functionCall end
    local list = part.thought and thoughts or texts
    list[#list + 1] = part.text
  end
  return table.concat(texts), table.concat(thoughts), calls
end

---@param outcome spec.Outcome
---@return table[] parts of the answer
function recordings.parts(outcome)
  local content = outcome.response and outcome.response.content
  return content and content.parts or {}
end

---The contents of the next request: each call is answered, or the user goes on.
---@param outcome spec.Outcome
---@return table[]
function recordings.continued(outcome)
  local parts = recordings.parts(outcome)
  local _, _, calls = recordings.split(parts)
  local answers = {}
  for index, call in ipairs(calls) do
    answers[index] = { functionResponse = { id = call.id, name = call.name, response = { result = index } } }
  end
  if #answers == 0 then answers[1] = { text = "go on" } end
  return { QUESTION, { role = "model", parts = parts }, { role = "user", parts = answers } }
end

return recordings
