--- A server on loopback that answers as a spec tells it to (spec/helpers/http_server.lua).
local http = require "moonpad.http"
local moonpad = require "moonpad"
local socket = require "socket"

local server = {}
server.__index = server

---Starts a server in a process of its own.
function server.start()
  local pipe = assert(io.popen("exec lua5.4 spec/helpers/http_server.lua", "r"))
  local port = assert(pipe:read "n", "the server has not started")
  return setmetatable({ pipe = pipe, port = port, url = "http://127.0.0.1:" .. port }, server)
end

-- One request to the server itself, by other means than those under test.
function server:control(method, path, body)
  local connection = assert(socket.connect("127.0.0.1", self.port))
  -- It may be writing a long answer on a machine that is busy.
  connection:settimeout(120)
  body = body or ""
  assert(connection:send(("%s %s HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s"):format(method, path, #body, body)))
  local length
  for line in function() return connection:receive "*l" end do
    length = length or tonumber(line:match "^Content%-Length: (%d+)")
    if line == "" then break end
  end
  local answer = assert(connection:receive((assert(length, "the server says nothing"))))
  connection:close()
  return moonpad.json.decode(answer)
end

---Tells how to answer: `{ [path] = { reply, ... } }`. Forgets what has been asked so far.
function server:script(replies)
  local lists = {}
  for path, list in pairs(replies) do lists[path] = moonpad.array(list[1] and list or { list }) end
  self:control("POST", "/_script", moonpad.json.encode(lists))
end

---What has been asked since the last script: `{ method, path, headers, body }` each.
function server:requests()
  return self:control("GET", "/_requests")
end

---The body of the request of that number, decoded.
function server:sent(number)
  return moonpad.json.decode(self:requests()[number or 1].body)
end

---Lets replies that are held go on.
function server:release()
  self:control("POST", "/_release")
end

function server:stop()
  self:control("GET", "/_quit")
  self.pipe:close()
end

---Runs what makes requests, one at a time, by a clock that goes on only while one of them waits for
---its next attempt: however long that is, it takes no time. No attempt is made before its time.
---@param run fun() in a coroutine
---@return number[] waits in seconds
function server.waitsOf(run)
  -- (Benches have no busted, which that needs.)
  local clock <close> = require("spec.support").stopClock()
  local thread, waits = coroutine.create(run), {}
  local function resume()
    assert(coroutine.resume(thread))
    http.poll(0.005)
    return coroutine.status(thread) ~= "dead"
  end
  while resume() do
    local retry = http.retries()[1]
    if retry then
      waits[#waits + 1] = retry.seconds
      clock:advance(retry.seconds - 0.0001)
      assert(resume() and #http.retries() == 1, "an attempt was made too early")
      clock:advance(0.0002)
    end
  end
  return waits
end

---A reply that streams server-sent events.
---@param events string[]|string data of each event, or the whole stream as it is
---@param more table? further fields of the reply
function server.stream(events, more)
  local text = events
  if type(events) == "table" then
    local lines = {}
    for index, data in ipairs(events) do lines[index] = "data: " .. data .. "\n\n" end
    text = table.concat(lines)
  end
  local reply = { headers = { ["Content-Type"] = "text/event-stream" }, body = text }
  for key, value in pairs(more or {}) do reply[key] = value end
  return reply
end

---A reply that is one JSON object.
---@param value table|string
---@param more table? further fields of the reply
function server.json(value, more)
  local text = type(value) == "string" and value or moonpad.json.encode(value)
  local reply = { headers = { ["Content-Type"] = "application/json" }, body = text }
  for key, entry in pairs(more or {}) do reply[key] = entry end
  return reply
end

return server
