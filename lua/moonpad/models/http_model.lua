--- What all models behind HTTP have in common: sending, streaming, and errors that tell no secrets.
local bodyText = require "moonpad.models.body_text"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local credentials = require "moonpad.models.credentials"
local http = require "moonpad.http"
local modelOptions = require "moonpad.models.options"
local origin = require "moonpad.models.origin"
local redact = require "moonpad.models.redact"
local requestCheck = require "moonpad.models.request_check"
local retryAdvice = require "moonpad.models.retry_advice"
local secrets = require "moonpad.models.secrets"
local sse = require "moonpad.models.sse"

local provider = {}

---@class moonpad.ProviderAdapter
---@field name string of the adapter
---@field provider string the row of moonpad.models.providers whose API it speaks
---@field apis boolean? it takes the option `api`
---@field path fun(call: moonpad.ModelCall): string
---@field headers fun(call: moonpad.ModelCall): table<string, string>
---@field body fun(request: table, call: moonpad.ModelCall): table
---@field conversation string the field of the body that holds the messages
---@field newAnswer fun(call: moonpad.ModelCall): moonpad.ResponseBuilder
---@field problem (fun(object: table): table?)? what in an event or an answer holds an `error`, where that is another
---object than itself
---@field takesSchema fun(settings: moonpad.ModelSettings, schema: table, hasTools: boolean): boolean can its answers be
---held to this schema, also beside tools? Else the instruction asks for it

---One request and its answer.
---@class moonpad.ModelCall
---@field settings moonpad.ModelSettings
---@field model string
---@field stream boolean
---@field apiKey string?
---@field leftOut string[] settings that the model would refuse
---@field headers table<string, string>
---@field secrets moonpad.ModelSecrets
---@field began number (core.monotonic)
---@field received integer bytes
---@field body table of the first request
---@field exchange moonpad.ModelExchange
---@field continued integer how often the rest of the answer has been asked for

---What a caller closes who leaves before the end: the request that is under way.
---@class moonpad.ModelExchange
---@field job moonpad.HttpJob
local Exchange = { __name = "moonpad.model exchange" }
Exchange.__close = function(exchange) exchange.job:close() end

---@class moonpad.HttpModel: moonpad.Model
---@field name string
---@field provider string
---@field baseUrl string
local Model = { __name = "moonpad.model" }
Model.__index = Model

-- model -> what it needs to send. Apart from the model: whoever prints or walks a model must not
-- find its key.
local settingsOf = setmetatable({}, { __mode = "k" })

local BODY_SHOWN = 4096
local BODY_READ = 65536
local WORDS_SHOWN = 300
-- A provider may pause a long answer, to be asked for the rest.
local MAX_CONTINUED = 5
-- What looks like a key may be long.
local MARGIN = 512
-- Of a text: to read them takes as long as an event of ordinary size takes elsewhere.
local ORDINARY_BYTES = 1024

local function mergeHeaders(target, source)
  for name, value in pairs(source or {}) do target[name:lower()] = value end
  return target
end

-- What the user has given wins.
local function headersOf(call)
  local headers = mergeHeaders(call.settings.spec.headers(call), call.settings.headers)
  headers["content-type"] = headers["content-type"] or "application/json"
  return headers
end

-- To prepare the search for keys costs time, and most often they are those of the last call.
local function secretsOf(settings, apiKey, headers)
  if not settings.secrets or settings.secrets.apiKey ~= apiKey then
    settings.secrets = secrets.new(apiKey, headers, settings.query)
  end
  return settings.secrets
end

---Makes a model of a provider.
---@param spec moonpad.ProviderAdapter
---@param options moonpad.ModelOptions
---@param row moonpad.Provider? that the name of the model has said
---@return moonpad.HttpModel
function provider.new(spec, options, row)
  local settings = modelOptions.read(spec, options, row)
  local self = setmetatable({ name = settings.model, provider = spec.name, baseUrl = settings.baseUrl }, Model)
  settingsOf[self] = settings
  http.prepare()
  return self
end

---- Errors

-- First the secrets, then the length: of what is cut off, half a key could stay. `isCut`: that has
-- happened already.
local function show(call, text, limit, isCut)
  local shown = call.secrets.said:text(text, limit + MARGIN, isCut)
  return redact.shorten(redact.shapes(shown), limit)
end

local function newError(call, text, fields)
  fields = fields or {}
  local row = call.settings.provider
  fields.provider, fields.model = row and row.name or call.settings.spec.name, call.model
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

-- Whatever is done to an image of megabytes takes its time: a step may end before and after it.
local function keepPace(body) coroutines.keepPace(#body // ORDINARY_BYTES) end

local function decode(body)
  keepPace(body)
  local ok, value = pcall(core.json.decode, body)
  keepPace(body)
  if ok then return value end
  return nil, core.isError(value) and value.message or tostring(value)
end

local function raiseStatus(call, job)
  local status = job.status
  local body, isCut = job:collect(BODY_READ)
  body, isCut = body or "", isCut == true
  local said = errorText(decode(body)) or body:find "%S" and show(call, body, WORDS_SHOWN, isCut) or "no message"
  if (status == 401 or status == 403) and not call.apiKey then said = said .. " (no API key was given)" end
  local attempts = job.attempts > 1 and (" (after %d attempts)"):format(job.attempts) or ""
  local shown = show(call, body, BODY_SHOWN, isCut)
  raise(call, ("HTTP %d: %s%s"):format(status, said, attempts), { status = status, body = shown })
end

-- The object that holds an `error`, if there is one.
local function problemOf(call, object)
  local find = call.settings.spec.problem
  local holder = find and find(object) or object
  return holder.error ~= nil and holder.error ~= core.null and holder or nil
end

local function raiseProblem(call, object, raw)
  local code = type(object.error) == "table" and object.error.code
  raise(call, errorText(object) or "an error without a message",
    { status = math.type(code) == "integer" and code or nil, body = showBody(call, raw) })
end

---- Sending

local function addressOf(call)
  local settings = call.settings
  local address = settings.baseUrl .. settings.spec.path(call)
  if not settings.query then return address end
  return address .. (address:find("?", 1, true) and "&" or "?") .. settings.query
end

-- The key, and what came before a pause, have taken their time as well.
local function timeLeft(call)
  local limit = call.settings.timeoutMs
  if limit == 0 then return 0 end
  return math.max(1, math.ceil(limit - (core.monotonic() - call.began) * 1000))
end

local function send(call, body)
  local settings = call.settings
  local headers = mergeHeaders({}, call.headers)
  headers.accept = headers.accept or (call.stream and "text/event-stream" or "application/json")
  return http.request {
    url = addressOf(call), method = "POST", headers = headers, body = bodyText.encode(body, settings.spec.conversation),
    timeoutMs = timeLeft(call), idleTimeoutMs = settings.idleTimeoutMs, attempts = settings.attempts,
    caFile = settings.caFile, retryAdvice = retryAdvice.of,
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

-- An error that an answer raises about its own content gets the name of the model as well.
local function ofAnswer(call, answer, method, ...)
  local ok, result = pcall(answer[method], answer, ...)
  if ok then return result end
  if core.isError(result) and result.code == "model" then raise(call, result.message) end
  error(result, 0)
end

-- Asks for the rest of an answer that has been paused. false: it is over.
local function goOn(call, answer)
  if not answer.continued or call.continued == MAX_CONTINUED then return false end
  local body = ofAnswer(call, answer, "continued", call.body)
  if not body then return false end
  call.continued = call.continued + 1
  call.exchange.job:release()
  call.exchange.job = send(call, body)
  waitForAnswer(call, call.exchange.job)
  return true
end

-- An answer that is one object, and is added to what came before.
local function receiveObject(call, answer)
  local job = call.exchange.job
  local body, message, kind = job:collect(call.settings.maxBytes)
  if not body then raise(call, message, { kind = kind }) end
  if message then raiseTooLong(call, job) end
  local object, reason = decode(body)
  if type(object) ~= "table" then
    local mime = job.headers["content-type"] or "no content type"
    raise(call, ("the answer is not a JSON object (%s): %s"):format(mime, reason or type(object)),
      { status = job.status, body = showBody(call, body) })
  end
  local problem = problemOf(call, object)
  if problem then raiseProblem(call, problem, body) end
  addTo(call, answer, object, body)
  if not answer:isComplete() and answer:isEmpty() then
    raise(call, "the answer has neither content nor a reason to end", { body = showBody(call, body) })
  end
end

local function respond(call, answer)
  local response = ofAnswer(call, answer, "response")
  origin.mark(response.content and response.content.parts or {}, call.settings.server)
  if #call.leftOut > 0 then
    response.customMetadata = response.customMetadata or {}
    response.customMetadata.leftOut = core.array(call.leftOut)
  end
  return call.secrets.answered:value(response)
end

local function receiveWhole(call)
  local answer = call.settings.spec.newAnswer(call)
  repeat receiveObject(call, answer) until not goOn(call, answer)
  return respond(call, answer)
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
  local problem = problemOf(call, object)
  if problem then raiseProblem(call, problem, event.data) end
  return addTo(call, answer, object, event.data)
end

local function nextEvents(call, stream, answer)
  local job = call.exchange.job
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

local function streamed(call)
  local answer, stream = call.settings.spec.newAnswer(call), sse.new(call.settings.maxBytes)
  local filter = call.secrets.answered:parts()
  local events, position, isFinished, response = {}, 0, false, nil
  return function()
    while not isFinished do
      position = position + 1
      local event = events[position]
      if response then
        isFinished = true
        return response
      elseif answer.isOver and goOn(call, answer) then
        stream, events, position = sse.new(call.settings.maxBytes), {}, 0
      elseif answer.isOver then
        call.exchange.job:release()
        response = respond(call, answer)
        local rest = filter(nil)
        if rest then return partial(rest) end
      elseif event then
        local shown = takeEvent(call, answer, event)
        shown = shown and filter(shown)
        if shown then return partial(shown) end
      else
        events, position = nextEvents(call, stream, answer), 0
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
local function receive(call)
  local job = call.exchange.job
  waitForAnswer(call, job)
  if isEventStream(job) then return streamed(call) end
  local mime = job.headers["content-type"]
  if not mime:lower():find "json" then
    local body = job:collect(BODY_SHOWN) or ""
    raise(call, ("expected a stream of events, got %s"):format(mime),
      { status = job.status, body = showBody(call, body) })
  end
  local response = receiveWhole(call)
  return function()
    local once = response
    response = nil
    return once
  end
end

local function iterate(call)
  local nextResponse
  return function()
    nextResponse = nextResponse or receive(call)
    return nextResponse()
  end
end

-- A request may say whether to stream, in place of the model's own `stream`.
local function newCall(settings, request)
  local stream = request.streaming
  if stream == nil then stream = settings.stream end
  local call = {
    settings = settings, model = request.model, stream = stream, began = core.monotonic(), leftOut = {}, received = 0,
    continued = 0,
  }
  call.apiKey = credentials.of(settings, request.model)
  call.headers = headersOf(call)
  call.secrets = secretsOf(settings, call.apiKey, call.headers)
  return call
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
  origin.keepOwn(checked.contents, settings.server)
  local call = newCall(settings, checked)
  call.body = settings.spec.body(checked, call)
  local exchange = setmetatable({ job = send(call, call.body) }, Exchange)
  call.exchange = exchange
  if call.stream then return iterate(call), nil, nil, exchange end
  local _ <close> = exchange
  waitForAnswer(call, exchange.job)
  return receiveWhole(call)
end

---Can an answer be held to this schema, also beside tools? Else the instruction has to ask for it.
---@param schema table
---@param hasTools boolean
---@return boolean
function Model:takesSchema(schema, hasTools)
  local settings = settingsOf[self]
  return settings.spec.takesSchema(settings, schema, hasTools)
end

function Model:__tostring()
  return ('moonpad.models.%s "%s"'):format(self.provider, self.name)
end

return provider
