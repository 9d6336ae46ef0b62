--- A request on its way to its answer: what was asked, by whom, and how to answer.
local coroutines = require "moonpad.runtime.coroutines"
local core = require "moonpad.core"
local failure = require "moonpad.server.failure"
local luaError = require "moonpad.util.lua_error"
local target = require "moonpad.server.target"

local calls = {}

---@class moonpad.server.Call
---@field exchange userdata of moonpad.server_core
---@field task moonpad.server.Task
---@field server moonpad.server.Shared
---@field method string
---@field path string as it was sent
---@field segments string[] of the path, decoded
---@field query table<string, string>
---@field headers table<string, string> names in lower case
---@field params table<string, string> what stands in the path in place of a pattern's names
---@field app string? the name of the app on the wire
---@field appName string? that of its runner, for services
---@field runner moonpad.Runner?
---@field userId string? whose things are asked for
---@field sessionId string?
---@field caller string? who asks, where that is known
---@field mayNotWriteApp boolean? are keys of the app none of his business?
---@field ownHeaders string[] of each answer: name, value, name, value, ...
local Call = {}
Call.__index = Call

---@param exchange userdata
---@param task moonpad.server.Task
---@param server moonpad.server.Shared
---@return moonpad.server.Call
function calls.new(exchange, task, server)
  return setmetatable({
    exchange = exchange, task = task, server = server, method = exchange:method(), headers = exchange:headers(),
    params = {}, ownHeaders = {}, hasAnswered = false,
  }, Call)
end

---Reads what the target says. Errors: 400.
function Call:readTarget()
  local path, query = target.split(self.exchange:target())
  self.path = path
  self.segments, self.query = target.segments(path), target.query(query)
end

---Says which app it is about: from the next step on its service's workers ask the stores.
---@param app string
function Call:setApp(app)
  local runner = self.server.apps[app]
  if not runner then failure.raise(404, "there is no app %s", app) end
  self.app, self.runner, self.appName = app, runner, runner.appName
  self.task.service = runner.sessionService
end

---@return string? userId who asks, as far as it is known
function Call:user()
  return self.caller or self.userId
end

---- What was sent

-- The loop comes back to it when something has arrived.
local function receive(self)
  self.exchange:receive()
  while not self.exchange:isReceived() do coroutines.wait() end
  return self.exchange:body()
end

local function decode(text)
  local ok, value = pcall(core.json.decode, text)
  if ok then return value end
  luaError.passOn(value)
  if not core.isError(value) then error(value, 0) end
  return failure.raise(400, "the body is no JSON: %s", value.message)
end

---The body, a JSON object; nil where there is none. Errors: 400 for what is no JSON, 422 for what
---is no object.
---@return table?
function Call:body()
  if self.hasBody then return self.decoded end
  local text = receive(self)
  self.hasBody = true
  if not text:find "%S" then return nil end
  local value = decode(text)
  if not text:find "^%s*{" then failure.raise(422, "the body must be a JSON object") end
  self.decoded = value
  return value
end

---Refuses what this caller may not write.
---@param state table? keys and values, from the request
function Call:checkKeys(state)
  self.server.access.checkKeys(self, state)
end

---Refuses one session more than the user may have.
function Call:limitSession()
  self.server.access:checkSessions(self)
end

---- The answer

local function headersOf(self, mimeType, more)
  local list = { "Content-Type", mimeType, "X-Content-Type-Options", "nosniff" }
  table.move(self.ownHeaders, 1, #self.ownHeaders, #list + 1, list)
  return table.move(more or {}, 1, more and #more or 0, #list + 1, list)
end

---@class moonpad.server.Raw an answer that is no JSON
---@field mimeType string
---@field text string
---@field headers string[]?
local Raw = {}

---What a handler returns that answers something else than JSON.
---@param mimeType string
---@param text string
---@param headers string[]? name, value, name, value, ...
---@return moonpad.server.Raw
function Call.raw(mimeType, text, headers)
  return setmetatable({ mimeType = mimeType, text = text, headers = headers }, Raw)
end

local NO_STORE = { "Cache-Control", "no-store" }

---@param status integer
---@param value any
---@param headers string[]?
function Call:answer(status, value, headers)
  if self.hasAnswered then return end
  self.hasAnswered = true
  if getmetatable(value) == Raw then
    return self.exchange:respond(status, headersOf(self, value.mimeType, value.headers), value.text)
  end
  if value == nil then return self.exchange:respond(status, headersOf(self, "text/plain", headers), "") end
  local all = headersOf(self, "application/json", NO_STORE)
  if headers then table.move(headers, 1, #headers, #all + 1, all) end
  self.exchange:respond(status, all, core.json.encode(value))
end

---Answers with an error.
---@param err any what was raised
function Call:fail(err)
  local found = failure.of(err)
  if found.status >= 500 then self.server:log(self, err) end
  self:answer(found.status, failure.body(failure.message(err, self.server.isPublic)), found.headers)
end

---- Streams

local STREAM = { "Cache-Control", "no-cache", "X-Accel-Buffering", "no" }

-- So much may wait for a client that is slow: then what it is sent waits as well. (The connection
-- is closed when that takes too long.)
local MOST_UNSENT <const>, FEW_UNSENT <const> = 256 * 1024, 64 * 1024

---Begins an answer in pieces.
---@param mimeType string
function Call:beginStream(mimeType)
  self.hasAnswered = true
  self.exchange:begin(200, headersOf(self, mimeType, STREAM))
end

---@param piece string
function Call:write(piece)
  if self.exchange:write(piece) <= MOST_UNSENT then return end
  while self.exchange:unsent() > FEW_UNSENT do coroutines.wait() end
end

function Call:finishStream()
  self.exchange:finish()
end

return calls
