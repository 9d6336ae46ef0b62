--- A server and its clients in one Lua state: whoever waits for an answer steps the server.
local moonpad = require "moonpad"
local socket = require "socket"
local support = require "spec.support"

local serving = {}

---@class spec.Serving
---@field server moonpad.Server
---@field errors string[] what onError was told
local Serving = {}
Serving.__index = Serving

---@param options table of moonpad.server
---@return spec.Serving
function serving.start(options)
  local self = setmetatable({ errors = {} }, Serving)
  options.port = options.port or 0
  options.onError = options.onError or function(message) table.insert(self.errors, message) end
  self.server = moonpad.server(options)
  return self
end

---Steps the server until the condition holds.
---@param condition fun(): any
---@return any what it returned
function Serving:waitUntil(condition)
  local deadline = socket.gettime() + support.TIMEOUT_SECONDS
  while true do
    local result = condition()
    if result then return result end
    assert(socket.gettime() < deadline, "the server does not answer")
    self.server:step(0.005)
  end
end

---Begins a request with moonpad's own client.
---@param method string
---@param path string
---@param body string|table|nil a table is sent as JSON
---@param headers table<string, string>?
---@return moonpad.HttpJob
function Serving:begin(method, path, body, headers)
  if type(body) == "table" then body = moonpad.json.encode(body) end
  return moonpad.http.request {
    method = method, url = self.server.url .. path, body = body, headers = headers, attempts = 1,
  }
end

---A request and its whole answer.
---@return { status: integer, headers: table, body: string, json: any } answer json: where it is JSON
function Serving:request(method, path, body, headers)
  local job = self:begin(method, path, body, headers)
  local answer = self:waitUntil(function()
    local isDone, answer = job:poll()
    return isDone and answer
  end)
  local isJson = (answer.headers["content-type"] or ""):find "^application/json"
  if isJson and answer.body ~= "" then answer.json = moonpad.json.decode(answer.body) end
  return answer
end

---The events of a stream, as they were sent.
---@return table[]
function serving.events(text)
  local events = {}
  for data in text:gmatch "data: ([^\n]*)\n\n" do events[#events + 1] = moonpad.json.decode(data) end
  return events
end

---@class spec.RawClient bytes over a socket, for what no client sends
local RawClient = {}
RawClient.__index = RawClient

---@return spec.RawClient
function Serving:connect()
  local client = assert(socket.connect("127.0.0.1", self.server.port))
  client:settimeout(0)
  return setmetatable({ serving = self, socket = client, received = "" }, RawClient)
end

---Sends all of it.
function RawClient:send(bytes)
  local sent = 0
  self.serving:waitUntil(function()
    local last, reason, part = self.socket:send(bytes, sent + 1)
    sent = last or part
    return sent == #bytes or reason == "closed"
  end)
end

---What has come, without waiting.
function RawClient:take()
  local data, reason, part = self.socket:receive(65536)
  self.received = self.received .. (data or part or "")
  if reason == "closed" then self.isClosed = true end
  return self.received
end

---Waits until what has come matches the pattern, or the other side has closed.
---@return string received
function RawClient:receive(pattern)
  self.serving:waitUntil(function() return self:take():find(pattern) or self.isClosed end)
  return self.received
end

---Waits for the end.
---@return string received
function RawClient:receiveAll()
  self.serving:waitUntil(function() return self:take() and self.isClosed end)
  return self.received
end

function RawClient:close()
  self.socket:close()
end

---Bytes on a new connection, and all that comes back until it is closed.
---@return string
function Serving:exchange(bytes)
  local client = self:connect()
  client:send(bytes)
  local answer = client:receiveAll()
  client:close()
  return answer
end

function Serving:close()
  self.server:close()
end

return serving
