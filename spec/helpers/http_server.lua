-- An HTTP server for specs, in a process of its own: lua5.4 spec/helpers/http_server.lua
-- It prints its port, answers each path as it was told to, and keeps every request.
--
--   POST /_script     { "path": [ REPLY, ... ] }
--                     the replies to a path, in order; the last is repeated. Those to
--                     "OPTIONS" are for all requests of that method: browsers ask so before
--   GET  /_requests   what it has been asked: a JSON list of
--                     { method, path, headers, body, connection, sent, closed, answered }
--   POST /_release    replies that are held go on
--   GET  /_quit
--
-- REPLY: { status = 200, headers = {}, body = "" } and
--   times = N      the body that many times over
--   split = N      the body goes out in chunks of N bytes, each written by itself
--   pause = S      seconds between two chunks
--   held = true    before the answer it waits for /_release
--   hold = N       after N bytes of the body it waits for /_release
--   drop = N       after N bytes of the body the connection is closed
--   hang = true    there is never an answer
--   raw = "..."    these bytes, and then the connection is closed
local cjson = require "cjson"
local socket = require "socket"

-- Whoever is gone without a word is noticed by this where the system does not tell.
local IDLE_SECONDS = 900
local MAX_REPLY_REPEATS = 1000000

local script, requests, isOver, isReleased = {}, {}, false, false
local connections = 0
local lastActivity = socket.gettime()

---- Waiting, inside the coroutine of a connection

local function sleep(seconds)
  coroutine.yield(nil, socket.gettime() + seconds)
end

local function readable(client)
  coroutine.yield(client)
end

local function send(client, data)
  local position = 1
  while position <= #data do
    local sent, problem, partial = client:send(data, position)
    if sent then return true end
    position = partial + 1
    if problem ~= "timeout" then return false end
    sleep(0.001)
  end
  return true
end

---- Requests

local function fill(reader)
  while true do
    local data, problem, partial = reader.client:receive(65536)
    data = data or partial
    if data ~= "" then
      reader.buffer = reader.buffer .. data
      return true
    end
    if problem == "closed" then return false end
    readable(reader.client)
  end
end

local function readUntil(reader, mark)
  while true do
    local first, last = reader.buffer:find(mark, 1, true)
    if first then
      local text = reader.buffer:sub(1, first - 1)
      reader.buffer = reader.buffer:sub(last + 1)
      return text
    end
    if not fill(reader) then return nil end
  end
end

local function readBytes(reader, count)
  while #reader.buffer < count do
    if not fill(reader) then return nil end
  end
  local text = reader.buffer:sub(1, count)
  reader.buffer = reader.buffer:sub(count + 1)
  return text
end

local function readRequest(reader)
  local head = readUntil(reader, "\r\n\r\n")
  if not head then return nil end
  local method, path = head:match "^(%S+) (%S+)"
  local headers = {}
  for name, value in head:gmatch "\r\n([^:]+):[ \t]*([^\r]*)" do headers[name:lower()] = value end
  local body = readBytes(reader, tonumber(headers["content-length"] or 0))
  return body and { method = method, path = path, headers = headers, body = body }
end

---- Replies

local REASONS = { [200] = "OK", [302] = "Found", [307] = "Temporary Redirect", [429] = "Too Many Requests" }

local function headOf(reply, extra)
  local lines = { ("HTTP/1.1 %d %s"):format(reply.status or 200, REASONS[reply.status or 200] or "Status") }
  for name, value in pairs(reply.headers or {}) do lines[#lines + 1] = name .. ": " .. value end
  lines[#lines + 1] = extra
  return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- Where the next chunk ends: at the latest where the reply is held.
local function endOfChunk(reply, first, size, stop)
  local last = math.min(first + size - 1, stop)
  local hold = reply.hold or 0
  return first <= hold and math.min(last, hold) or last
end

local function waitForRelease()
  while not isReleased do sleep(0.002) end
end

local function sendChunks(client, body, reply, request)
  local stop = reply.drop or #body
  local size = reply.split or math.max(#body, 1)
  local first = 1
  while first <= stop do
    local last = endOfChunk(reply, first, size, stop)
    local chunk = body:sub(first, last)
    if not send(client, ("%x\r\n%s\r\n"):format(#chunk, chunk)) then return false end
    request.sent = last
    if reply.pause then sleep(reply.pause) end
    if reply.hold == last then waitForRelease() end
    first = last + 1
  end
  return not reply.drop and send(client, "0\r\n\r\n")
end

local function waitForClose(reader, request)
  while fill(reader) do reader.buffer = "" end
  request.closed = true
end

-- Returns whether the connection may be used again.
local function answer(reader, request, reply)
  local client = reader.client
  if reply.held then waitForRelease() end
  if reply.hang then
    waitForClose(reader, request)
    return false
  end
  if reply.raw then
    send(client, reply.raw)
    return false
  end
  local body = (reply.body or ""):rep(reply.times or 1)
  if reply.split or reply.drop or reply.pause or reply.hold then
    local isComplete = send(client, headOf(reply, "Transfer-Encoding: chunked"))
      and sendChunks(client, body, reply, request)
    if not isComplete then request.closed = not reply.drop end
    return isComplete
  end
  return send(client, headOf(reply, "Content-Length: " .. #body) .. body)
end

---- Control

local control = {}

control["/_script"] = function(request)
  script, requests, isReleased = cjson.decode(request.body), {}, false
  return "{}"
end

control["/_release"] = function()
  isReleased = true
  return "{}"
end

control["/_requests"] = function()
  return #requests > 0 and cjson.encode(requests) or "[]"
end

control["/_quit"] = function()
  isOver = true
  return "{}"
end

local function nextReply(request)
  local path = request.path
  local replies = request.method == "OPTIONS" and script.OPTIONS or script[path]
  if not replies then return { status = 404, body = "nothing is scripted for " .. path } end
  replies.position = math.min((replies.position or 0) + 1, MAX_REPLY_REPEATS)
  return replies[math.min(replies.position, #replies)]
end

local function serve(client, number)
  local reader = { client = client, buffer = "" }
  local mayGoOn = true
  while mayGoOn do
    local request = readRequest(reader)
    if not request then break end
    lastActivity = socket.gettime()
    local run = control[request.path]
    if run then
      mayGoOn = answer(reader, request, { body = run(request) })
    else
      request.connection = number
      requests[#requests + 1] = request
      mayGoOn = answer(reader, request, nextReply(request))
      request.answered = true
    end
  end
  client:close()
end

---- The loop

-- Who has started it; where the system does not tell, always the same.
local function parent()
  local file = io.open "/proc/self/stat"
  if not file then return "" end
  local text = file:read "a"
  file:close()
  return text:match "^%d+ %b() %S (%d+)"
end

local server = assert(socket.bind("127.0.0.1", 0))
server:settimeout(0)
local _, port = server:getsockname()
io.stdout:write(port, "\n"):flush()

-- thread -> { socket =, time = } that it waits for
local waiting = {}

local function resume(thread, ...)
  local ok, wanted, time = coroutine.resume(thread, ...)
  if not ok then io.stderr:write(debug.traceback(thread, tostring(wanted)), "\n") end
  waiting[thread] = coroutine.status(thread) ~= "dead" and { socket = wanted, time = time } or nil
end

local function accept()
  local client = server:accept()
  if not client then return end
  client:settimeout(0)
  client:setoption("tcp-nodelay", true)
  connections = connections + 1
  resume(coroutine.create(serve), client, connections)
end

local function step()
  local sockets, timeout, now = { server }, 0.5, socket.gettime()
  for _, wait in pairs(waiting) do
    if wait.socket then sockets[#sockets + 1] = wait.socket end
    if wait.time then timeout = math.max(0, math.min(timeout, wait.time - now)) end
  end
  local ready = socket.select(sockets, nil, timeout)
  now = socket.gettime()
  local due = {}
  for thread, wait in pairs(waiting) do
    if wait.time and wait.time <= now or wait.socket and ready[wait.socket] then due[#due + 1] = thread end
  end
  if ready[server] then accept() end
  for _, thread in ipairs(due) do resume(thread) end
end

local starter = parent()
while not isOver and parent() == starter and socket.gettime() - lastActivity < IDLE_SECONDS do step() end
