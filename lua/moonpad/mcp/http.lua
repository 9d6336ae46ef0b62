--- A server behind an address ("streamable HTTP"): each request is a POST of its own, answered by
--- one message or by a stream of events whose last message is the answer.
local connections = require "moonpad.mcp.connection"
local core = require "moonpad.core"
local headerValues = require "moonpad.mcp.header_values"
local http = require "moonpad.http"
local jsonrpc = require "moonpad.mcp.jsonrpc"
local luaError = require "moonpad.util.lua_error"
local sse = require "moonpad.models.sse"
local wakeSources = require "moonpad.runtime.wake_sources"

local streamable = {}

---@class moonpad.McpHttpConnection: moonpad.McpConnection
---@field url string
---@field readHeaders fun(): table<string, string> of the user's; may wait
---@field sessionId string?
---@field exchanges table<moonpad.McpCall, moonpad.McpExchange>
local Connection = {}
Connection.__index = Connection

---@class moonpad.McpExchange
---@field job moonpad.HttpJob
---@field events moonpad.EventStream? where the answer is a stream
---@field pieces string[]? where it is not
---@field size integer

local MAX_ANSWER_BYTES = 64 * 1024 * 1024
local MAX_SHOWN_BYTES = 300

-- So often a request is tried that has no effect; a call of a tool has one chance.
local ATTEMPTS = 3

-- So much longer than those who wait for it a request may take.
local SLACK_MS = 1000

-- What nobody waits for is given so much time.
local FAREWELL_MS = 2000

---- Requests

local NAMED = { ["tools/call"] = "name", ["prompts/get"] = "name", ["resources/read"] = "uri" }

-- The user's headers, when nobody can wait for them: those of the last request.
local function lastHeaders(self)
  local headers = {}
  for name, value in pairs(self.userHeaders or {}) do headers[name] = value end
  return headers
end

local function addOwn(self, headers, method, params)
  headers.accept, headers["content-type"] = "application/json, text/event-stream", "application/json"
  headers["mcp-protocol-version"] = self.version
  headers["mcp-session-id"] = self.sessionId
  if self.era ~= "modern" then return headers end
  headers["mcp-method"] = method
  local name = NAMED[method] and params[NAMED[method]]
  if name then headers["mcp-name"] = headerValues.encode(name) end
  return headers
end

local function headersOf(self, method, params)
  self.userHeaders = self.readHeaders()
  return addOwn(self, lastHeaders(self), method, params)
end

-- What is wrong with an address or a header is said of what the user has given.
local function request(options)
  local ok, job = pcall(http.request, options)
  if ok then return job end
  luaError.passOn(job)
  if core.isError(job) then core.error(job.code, (job.message:gsub("^http%.request", "moonpad.mcp"))) end
  error(job, 0)
end

---@param call moonpad.McpCall
function Connection:start(call)
  local headers = headersOf(self, call.method, call.params)
  for name, value in pairs(call.headers or {}) do headers[name] = value end
  -- The user's function may have taken its time. Whoever waits for the answer looks at the clock.
  local left = math.max(1, math.ceil((call.deadline - core.monotonic()) * 1000)) + SLACK_MS
  local body = jsonrpc.encode(call.method, call.params, call.id)
  -- What a call has done cannot be undone.
  local isCall = call.method == "tools/call"
  local job = request {
    url = self.url, headers = headers, body = body, timeoutMs = left, idleTimeoutMs = 0,
    attempts = isCall and 1 or ATTEMPTS, sendOnce = isCall,
  }
  self.calls[call.id] = call
  self.exchanges[call] = { job = job, size = 0 }
end

---- What nobody waits for

---@type table<moonpad.HttpJob, boolean>
local farewells = {}

-- Their answers interest nobody.
local farewellSource = {}

function farewellSource.isActive()
  return false
end

function farewellSource.prepare()
  return nil
end

function farewellSource.advance()
  for job in pairs(farewells) do
    job:step()
    if job.status or job.isOver then
      job:close()
      farewells[job] = nil
    end
  end
  return false
end

wakeSources.add(farewellSource)

local function sendAlone(self, options)
  options.url, options.timeoutMs, options.attempts = self.url, FAREWELL_MS, 1
  options.headers = addOwn(self, lastHeaders(self), options.about or "", {})
  options.about = nil
  local job = request(options)
  farewells[job] = true
  return job
end

---@param method string
---@param params table?
---@return fun(): boolean isUnderWay
function Connection:notify(method, params)
  local job = sendAlone(self, { about = method, body = jsonrpc.encode(method, params) })
  return function()
    job:step()
    return not job.status and not job.isOver
  end
end

local function reply(self, text)
  sendAlone(self, { body = text })
end

---- Answers

local function endExchange(self, call)
  local exchange = self.exchanges[call]
  self.exchanges[call] = nil
  -- What is still to come of the stream is none of the answer.
  if exchange then exchange.job:close() end
end

-- A text of the server's that is no message: a page of a proxy, say.
local function shortened(text)
  text = text:gsub("<[^>]*>", " "):gsub("%s+", " "):match "^%s*(.-)%s*$"
  return #text > MAX_SHOWN_BYTES and text:sub(1, MAX_SHOWN_BYTES) .. "..." or text
end

local function takeMessages(self, text)
  local messages = jsonrpc.read(text)
  for _, message in ipairs(messages or {}) do
    local answer = connections.take(self, message)
    if answer then reply(self, answer) end
  end
  return messages ~= nil
end

-- A server that answers 404 to what names a session has forgotten it.
local function noteSession(self, call, job)
  if call.method == "initialize" and job.status // 100 == 2 then
    self.sessionId = job.headers["mcp-session-id"]
  elseif job.status == 404 and self.sessionId then
    self.isForgotten = true
    self.ending = "it has forgotten the session (HTTP 404); a new one begins with the next request"
  end
end

-- An error of JSON-RPC may come without the number of the request.
local function errorIn(text)
  local messages = jsonrpc.read(text)
  local err = messages and messages[1].error
  return type(err) == "table" and jsonrpc.errorOf(err) or nil
end

local function takeBody(self, call, job, text)
  if self.ending then return connections.fail(self, call, self.ending) end
  if job.status // 100 == 2 then
    if not takeMessages(self, text) then
      connections.fail(self, call, ("answered with what is no message: %s"):format(shortened(text)))
    end
    return
  end
  local err = errorIn(text) or { message = ("HTTP %d: %s"):format(job.status, shortened(text)) }
  err.status = job.status
  connections.refuse(self, call, err)
end

local function takeEvents(self, exchange, chunk)
  for _, event in ipairs(exchange.events:feed(chunk)) do
    -- The first one of a stream may be empty.
    if event.data ~= "" then takeMessages(self, event.data) end
  end
end

local function takeChunk(self, call, exchange, chunk)
  exchange.size = exchange.size + #chunk
  if exchange.size > MAX_ANSWER_BYTES then
    return connections.fail(self, call, ("its answer has more than %d bytes"):format(MAX_ANSWER_BYTES))
  end
  if not exchange.events then
    exchange.pieces[#exchange.pieces + 1] = chunk
    return
  end
  local ok, err = pcall(takeEvents, self, exchange, chunk)
  if not ok then connections.fail(self, call, "its answer cannot be read: " .. tostring(err)) end
end

local function begin(self, call, exchange)
  local job = exchange.job
  noteSession(self, call, job)
  local kind = job.headers["content-type"] or ""
  if job.status // 100 == 2 and kind:lower():find("text/event-stream", 1, true) then
    exchange.events = sse.new(MAX_ANSWER_BYTES)
  else
    exchange.pieces = {}
  end
end

local function finish(self, call, exchange)
  local job = exchange.job
  if job.failure then
    connections.fail(self, call, ("%s: %s"):format(job.failure.kind == "transfer" and "its answer broke off"
      or "cannot be reached", job.failure.message))
  elseif exchange.pieces then
    takeBody(self, call, job, table.concat(exchange.pieces))
  end
  connections.fail(self, call, "its answer ended without a result")
end

local function advanceExchange(self, call, exchange)
  local job = exchange.job
  local moved = job:step()
  if job.status and not exchange.events and not exchange.pieces then begin(self, call, exchange) end
  local chunk = job:read()
  while chunk and not call.isDone do
    moved = true
    takeChunk(self, call, exchange, chunk)
    chunk = job:read()
  end
  if job.isOver and not call.isDone then finish(self, call, exchange) end
  if call.isDone then endExchange(self, call) end
  return moved or call.isDone == true
end

---@return boolean moved
function Connection:advance()
  local moved, list = false, {}
  farewellSource.advance()
  for call, exchange in pairs(self.exchanges) do list[#list + 1] = { call, exchange } end
  for _, entry in ipairs(list) do moved = advanceExchange(self, entry[1], entry[2]) or moved end
  return moved
end

---- The end

---@param call moonpad.McpCall
function Connection:giveUp(call)
  self.calls[call.id] = nil
  -- For a server of today that is the word that nobody waits any more.
  endExchange(self, call)
  if self.era == "legacy" and call.method ~= "initialize" then
    self:notify("notifications/cancelled", { requestId = call.id, reason = "nobody waits for the answer any more" })
  end
end

function Connection:close()
  if self.closed then return end
  self.closed = true
  for call in pairs(self.exchanges) do endExchange(self, call) end
  if self.sessionId and not self.ending then sendAlone(self, { method = "DELETE" }) end
  self.ending = self.ending or "it was closed"
  connections.failAll(self, self.ending)
end

---- Beginning

---@param options { url: string, readHeaders: fun(): table<string, string> }
---@return moonpad.McpHttpConnection
function streamable.open(options)
  local self = setmetatable(connections.new(), Connection)
  self.url, self.readHeaders, self.exchanges, self.notifiesChanges = options.url, options.readHeaders, {}, false
  return self
end

return streamable
