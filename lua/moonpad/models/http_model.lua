--- What all models behind HTTP have in common: options, keys, sending, streaming, and errors that
--- tell no secrets.
local bodyText = require "moonpad.models.body_text"
local core = require "moonpad.core"
local http = require "moonpad.http"
local redact = require "moonpad.models.redact"
local requestCheck = require "moonpad.models.request_check"
local sse = require "moonpad.models.sse"

local provider = {}

---@class moonpad.ModelOptions
---@field model string the provider's name of the model
---@field apiKey string? default: from the environment
---@field baseUrl string? of the API
---@field stream boolean? default true
---@field timeoutMs integer? for one answer, retries included; default 600000, 0 for none
---@field idleTimeoutMs integer? without a single byte coming; default 300000
---@field maxRetries integer? default 3
---@field headers table<string, string>? to be sent as well
---@field caFile string? certificates to trust instead of the system's
---@field maxResponseBytes integer? of one answer, streamed or whole; default 64 MiB, 0 for none

---@class moonpad.ProviderAdapter
---@field name string
---@field keyVariables string[] environment variables, the first that is set counts
---@field baseVariable string?
---@field defaultBase string
---@field path fun(model: string, stream: boolean): string
---@field headers fun(apiKey: string?): table<string, string>
---@field body fun(request: table, settings: table): table
---@field conversation string the field of the body that holds the messages
---@field newAnswer fun(): moonpad.ResponseBuilder

---@class moonpad.HttpModel: moonpad.Model
---@field name string
---@field provider string
---@field baseUrl string
local Model = { __name = "moonpad.model" }
Model.__index = Model

-- model -> what it needs to send. Apart from the model: whoever prints or walks a model must not
-- find its key.
local settingsOf = setmetatable({}, { __mode = "k" })

local FIELDS = {
  "model", "apiKey", "baseUrl", "stream", "timeoutMs", "idleTimeoutMs", "maxRetries", "headers", "caFile",
  "maxResponseBytes",
}

local BODY_SHOWN = 4096
local BODY_READ = 65536
local WORDS_SHOWN = 300
-- What looks like a key may be long.
local MARGIN = 512
local DEFAULT_MAX_RESPONSE = 64 * 1024 * 1024

---- Options

local function refuse(spec, field, message)
  core.error("invalid_argument", ("models.%s: %s: %s"):format(spec.name, field, message))
end

local function expect(spec, options, field, kind)
  local value = options[field]
  if value ~= nil and type(value) ~= kind then
    refuse(spec, field, ("expected a %s, got %s"):format(kind, type(value)))
  end
  return value
end

local function environment(name)
  local value = name and os and os.getenv(name)
  return value ~= "" and value or nil
end

---Refuses a model whose key is nowhere.
---@param model string its name
---@param adapter string
---@param variables string[] of the environment, that could hold it
function provider.refuseWithoutKey(model, adapter, variables)
  core.error("invalid_argument", ('model "%s": no API key: set the environment variable %s, or give '
    .. "moonpad.models.%s an apiKey"):format(model, table.concat(variables, " or "), adapter))
end

---The first of these variables that is set.
---@param variables string[]
---@return string?
function provider.keyOfEnvironment(variables)
  local key
  for _, variable in ipairs(variables) do key = key or environment(variable) end
  return key
end

-- The environment's key belongs to the provider, and to the server that the environment names in
-- its place, which may want none. An address from the options gets the key from the options.
local function findKey(spec, options, address)
  local key = expect(spec, options, "apiKey", "string")
  if key == nil and address ~= "options" then key = provider.keyOfEnvironment(spec.keyVariables) end
  if key == nil and address == "provider" then
    provider.refuseWithoutKey(options.model, spec.name, spec.keyVariables)
  end
  if key ~= nil and (key == "" or key:find "[%c%s]") then
    refuse(spec, "apiKey", "must not be empty, and contains neither blanks nor line ends")
  end
  return key
end

-- The address, and whose it is: of the "options", the "environment" or the "provider".
local function findBase(spec, options)
  local given, set = expect(spec, options, "baseUrl", "string"), environment(spec.baseVariable)
  local base = given or set or spec.defaultBase
  local source = given and "baseUrl" or spec.baseVariable
  if not base:lower():find "^https?://[^/?#@]+" or base:find "[%c%s?#]" then
    refuse(spec, source, "expected an address like " .. spec.defaultBase)
  end
  if base:match "^%a+://([^/]*)":find("@", 1, true) then
    refuse(spec, source, "must not contain a user or a password; give apiKey or headers")
  end
  return (base:gsub("/+$", "")), given and "options" or set and "environment" or "provider"
end

-- What a header may be called, by RFC 9110.
local HEADER_NAME = "^[%w!#$%%&'*+%-.^_`|~]+$"

local function findHeaders(spec, options)
  local headers = expect(spec, options, "headers", "table")
  for name, value in pairs(headers or {}) do
    if type(name) ~= "string" or not name:find(HEADER_NAME) then
      refuse(spec, "headers", ("%s is no name of a header"):format(tostring(name)))
    elseif type(value) ~= "string" or value:find "[\r\n%z]" then
      refuse(spec, "headers", ("%s: expected a string of one line"):format(name))
    end
  end
  return headers
end

local function integerOption(spec, options, field, default)
  local value = options[field]
  if value == nil then return default end
  if math.type(value) ~= "integer" or value < 0 then
    refuse(spec, field, "expected an integer from 0, got " .. tostring(value))
  end
  return value
end

local function findLimit(spec, options)
  local limit = integerOption(spec, options, "maxResponseBytes", DEFAULT_MAX_RESPONSE)
  return limit > 0 and limit or math.maxinteger
end

local function mergeHeaders(target, source)
  for name, value in pairs(source or {}) do target[type(name) == "string" and name:lower() or name] = value end
  return target
end

-- The values of headers that may be keys: all but the few that a provider documents as
-- something else.
local HARMLESS = { ["content-type"] = true, ["accept"] = true, ["anthropic-version"] = true, ["user-agent"] = true }

local function secretsOf(apiKey, headers)
  local secrets = { apiKey }
  for name, value in pairs(headers) do
    if not HARMLESS[name] and type(value) == "string" then secrets[#secrets + 1] = value end
  end
  return secrets
end

-- What a model says is somebody's text: there, only what is surely a key is taken out. Servers that
-- want none get a word such as "ollama", and a header may say what the program is about.
local SHORTEST_KEY = 8
local FOR_KEYS = { "auth", "key", "token", "secret", "cookie", "password", "credential" }

local function keysOf(apiKey, headers)
  local keys = { apiKey }
  for name, value in pairs(headers) do
    for _, word in ipairs(FOR_KEYS) do
      if type(value) == "string" and tostring(name):find(word, 1, true) then keys[#keys + 1] = value end
    end
  end
  for index = #keys, 1, -1 do
    local key = keys[index]:match "%s(%S+)$" or keys[index]
    if #key < SHORTEST_KEY then table.remove(keys, index) end
  end
  return keys
end

---Makes a model of a provider.
---@param spec moonpad.ProviderAdapter
---@param options moonpad.ModelOptions
---@return moonpad.HttpModel
function provider.new(spec, options)
  if type(options) ~= "table" then
    core.error("invalid_argument",
      ("models.%s: expected a table of options, got %s"):format(spec.name, type(options)))
  end
  core.checkFields(options, "models." .. spec.name, FIELDS)
  local name = expect(spec, options, "model", "string")
  if name == nil or not name:find "%S" then refuse(spec, "model", "the name of a model is needed") end
  local baseUrl, address = findBase(spec, options)
  local apiKey = findKey(spec, options, address)
  local headers = mergeHeaders(spec.headers(apiKey), findHeaders(spec, options))
  headers["content-type"] = headers["content-type"] or "application/json"
  local self = setmetatable({ name = name, provider = spec.name, baseUrl = baseUrl }, Model)
  settingsOf[self] = {
    spec = spec, baseUrl = baseUrl, headers = headers, hasKey = apiKey ~= nil,
    stream = expect(spec, options, "stream", "boolean") ~= false,
    timeoutMs = integerOption(spec, options, "timeoutMs"),
    idleTimeoutMs = integerOption(spec, options, "idleTimeoutMs"),
    caFile = expect(spec, options, "caFile", "string"),
    attempts = integerOption(spec, options, "maxRetries", 3) + 1, maxBytes = findLimit(spec, options),
    secrets = redact.new(secretsOf(apiKey, headers)), keys = redact.new(keysOf(apiKey, headers)),
  }
  http.prepare()
  return self
end

---- Errors

-- First the secrets, then the length: of what is cut off, half a key could stay. `isCut`: that has
-- happened already.
local function show(call, text, limit, isCut)
  local shown = call.settings.secrets:text(text, limit + MARGIN, isCut)
  return redact.shorten(redact.shapes(shown), limit)
end

local function newError(call, text, fields)
  fields = fields or {}
  fields.provider, fields.model = call.settings.spec.name, call.model
  local message = ('%s "%s": %s'):format(fields.provider, call.model, text)
  return core.newError("model", show(call, message, BODY_SHOWN), fields)
end

local function raise(call, text, fields)
  error(newError(call, text, fields), 0)
end

local function showBody(call, body)
  return show(call, body, BODY_SHOWN)
end

local function text(value)
  return type(value) == "string" and value ~= "" and value or nil
end

-- The words of a provider: { error = { message } }, the same in a list, or what other servers make
-- of it.
local function errorText(object)
  if type(object) ~= "table" then return nil end
  if object[1] then return errorText(object[1]) end
  local problem = object.error
  if type(problem) == "table" then return text(problem.message) or text(problem.type) or core.json.encode(problem) end
  return text(problem) or text(object.message) or text(object.detail)
end

local function decode(body)
  local ok, value = pcall(core.json.decode, body)
  if ok then return value end
  return nil, core.isError(value) and value.message or tostring(value)
end

local function raiseStatus(call, job)
  local status = job.status
  local body, isCut = job:collect(BODY_READ)
  body, isCut = body or "", isCut == true
  local said = errorText(decode(body)) or body:find "%S" and show(call, body, WORDS_SHOWN, isCut) or "no message"
  if (status == 401 or status == 403) and not call.settings.hasKey then said = said .. " (no API key was given)" end
  local attempts = job.attempts > 1 and (" (after %d attempts)"):format(job.attempts) or ""
  local shown = show(call, body, BODY_SHOWN, isCut)
  raise(call, ("HTTP %d: %s%s"):format(status, said, attempts), { status = status, body = shown })
end

local function raiseProblem(call, object, raw)
  local code = type(object.error) == "table" and object.error.code
  raise(call, errorText(object) or "an error without a message",
    { status = math.type(code) == "integer" and code or nil, body = showBody(call, raw) })
end

---- Sending

local function send(call, request)
  local settings = call.settings
  local body = settings.spec.body(request, settings)
  local headers = mergeHeaders({}, settings.headers)
  headers.accept = headers.accept or (settings.stream and "text/event-stream" or "application/json")
  return http.request {
    url = settings.baseUrl .. settings.spec.path(call.model, settings.stream),
    method = "POST", headers = headers, body = bodyText.encode(body, settings.spec.conversation),
    timeoutMs = settings.timeoutMs, idleTimeoutMs = settings.idleTimeoutMs, attempts = settings.attempts,
    caFile = settings.caFile,
  }
end

local function waitForAnswer(call, job)
  local status, message, kind = job:wait()
  if not status then raise(call, message, { kind = kind }) end
  if status < 200 or status > 299 then raiseStatus(call, job) end
end

-- A server that takes the liberty to answer in another form must not be the cause of an error that
-- nobody understands.
local function addTo(call, answer, object, raw)
  local ok, shown = pcall(answer.add, answer, object)
  if ok then return shown end
  if core.isError(shown) and shown.code == "model" then
    raise(call, "the answer is not what the API documents: " .. shown.message, { body = showBody(call, raw) })
  end
  return raise(call, "the answer does not have the form that the API documents", { body = showBody(call, raw) })
end

local function raiseTooLong(call, job)
  job:close()
  raise(call, ("the answer is longer than %d bytes (maxResponseBytes)"):format(call.settings.maxBytes),
    { kind = "limit", status = job.status })
end

-- An answer that is one object.
local function receiveWhole(call, job)
  local body, problem, kind = job:collect(call.settings.maxBytes)
  if not body then raise(call, problem, { kind = kind }) end
  if problem then raiseTooLong(call, job) end
  local object, reason = decode(body)
  if type(object) ~= "table" then
    local mime = job.headers["content-type"] or "no content type"
    raise(call, ("the answer is not a JSON object (%s): %s"):format(mime, reason or type(object)),
      { status = job.status, body = showBody(call, body) })
  end
  if object.error ~= nil and object.error ~= core.null then raiseProblem(call, object, body) end
  local answer = call.settings.spec.newAnswer()
  addTo(call, answer, object, body)
  if not answer:isComplete() and #answer.parts == 0 then
    raise(call, "the answer has neither content nor a reason to end", { body = showBody(call, body) })
  end
  return answer
end

-- An error that an answer raises about its own content gets the name of the model as well.
local function respond(call, answer)
  local ok, response = pcall(answer.response, answer)
  if ok then return call.settings.keys:value(response) end
  if core.isError(response) and response.code == "model" then raise(call, response.message) end
  error(response, 0)
end

---- Streaming

local function takeEvent(call, answer, event)
  if event.data == "[DONE]" then
    answer.isOver = true
    return nil
  end
  local object, reason = decode(event.data)
  if type(object) ~= "table" then
    raise(call, "an event of the stream is not a JSON object: " .. (reason or type(object)),
      { body = showBody(call, event.data) })
  end
  if object.error ~= nil and object.error ~= core.null then raiseProblem(call, object, event.data) end
  return addTo(call, answer, object, event.data)
end

local function nextEvents(call, job, stream, answer)
  local chunk, message, kind = job:receive()
  if message then raise(call, message, { kind = kind, status = job.status }) end
  if chunk then
    call.received = call.received + #chunk
    if call.received > call.settings.maxBytes then raiseTooLong(call, job) end
    local ok, events = pcall(stream.feed, stream, chunk)
    if not ok then raise(call, core.isError(events) and events.message or tostring(events)) end
    return events
  end
  if not answer:isComplete() then
    raise(call, "the stream ended before the answer was complete", { kind = "transfer", status = job.status })
  end
  answer.isOver = true
  return {}
end

local function partial(parts)
  return { content = { role = "model", parts = parts }, partial = true }
end

local function streamed(call, job)
  local answer, stream = call.settings.spec.newAnswer(), sse.new(call.settings.maxBytes)
  local filter = call.settings.keys:parts()
  local events, position, isFinished, response = {}, 0, false, nil
  return function()
    while not isFinished do
      position = position + 1
      local event = events[position]
      if response then
        isFinished = true
        return response
      elseif answer.isOver then
        job:release()
        response = respond(call, answer)
        local rest = filter(nil)
        if rest then return partial(rest) end
      elseif event then
        local shown = takeEvent(call, answer, event)
        shown = shown and filter(shown)
        if shown then return partial(shown) end
      else
        events, position = nextEvents(call, job, stream, answer), 0
      end
    end
    return nil
  end
end

local function isEventStream(job)
  local mime = job.headers["content-type"]
  return mime == nil or mime:lower():find "^%s*text/event%-stream" ~= nil
end

-- A server that does not stream answers in one piece, and anything else is not from a model at all.
local function receive(call, job)
  waitForAnswer(call, job)
  if isEventStream(job) then return streamed(call, job) end
  local mime = job.headers["content-type"]
  if not mime:lower():find "json" then
    local body = job:collect(BODY_SHOWN) or ""
    raise(call, ("expected a stream of events, got %s"):format(mime),
      { status = job.status, body = showBody(call, body) })
  end
  local response = respond(call, receiveWhole(call, job))
  return function()
    local once = response
    response = nil
    return once
  end
end

local function iterate(call, job)
  local nextResponse
  return function()
    nextResponse = nextResponse or receive(call, job)
    return nextResponse()
  end
end

-- A request may say whether to stream, in place of the model's own `stream`.
local function settingsFor(settings, request)
  if request.streaming == nil then return settings end
  return setmetatable({ stream = request.streaming }, { __index = settings })
end

---Asks the model. With `stream`, gives an iterator and what closes it; else the response.
---@param request table
---@return table|function
function Model:generate(request)
  local settings = settingsOf[self]
  if settings == nil then
    core.error("invalid_argument", "model:generate(request): call it with a colon, not with a dot")
  end
  local checked = requestCheck.check(request, "model:generate")
  checked.model = checked.model or self.name
  settings = settingsFor(settings, checked)
  local call = { settings = settings, model = checked.model, received = 0 }
  local job = send(call, checked)
  if settings.stream then return iterate(call, job), nil, nil, job end
  local _ <close> = job
  waitForAnswer(call, job)
  return respond(call, receiveWhole(call, job))
end

function Model:__tostring()
  return ('moonpad.models.%s "%s"'):format(self.provider, self.name)
end

return provider
