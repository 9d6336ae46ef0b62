--- Who a request comes from, and how much he may ask for.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local failure = require "moonpad.server.failure"

local access = {}

---@class moonpad.server.Access
---@field package authorize function?
---@field package limits moonpad.ServerLimits
---@field package rates table<string, { tokens: number, at: number }>
---@field package runs table<string, integer> how many are under way, by user
local Access = {}
Access.__index = Access

---@param authorize function?
---@param limits moonpad.ServerLimits
---@return moonpad.server.Access
function access.new(authorize, limits)
  return setmetatable({ authorize = authorize, limits = limits, rates = {}, rateCount = 0, runs = {} }, Access)
end

---- Who it is

local UNAUTHORIZED = { "WWW-Authenticate", "Bearer" }

local function ask(self, call)
  local given = {
    method = call.method, path = call.path, headers = call.headers, appName = call.app, userId = call.userId,
    sessionId = call.sessionId,
  }
  -- Its own errors are the server's fault, whatever their code says.
  local ok, answer = pcall(self.authorize, given)
  if not ok then error("authorize: " .. errorText.of(answer), 0) end
  if answer == nil or answer == false then failure.raiseWith(401, UNAUTHORIZED, "not authorized") end
  local userId = type(answer) == "table" and answer.userId
  if type(userId) ~= "string" or userId == "" then
    error("authorize: must return { userId = \"…\" } or nil", 0)
  end
  return userId, answer.appState == true
end

---Finds out who asks, by what the request has told so far; another user's names are refused.
---@param call moonpad.server.Call
function Access:check(call)
  if not self.authorize then return end
  local userId, mayWriteApp = ask(self, call)
  if call.userId and call.userId ~= userId then failure.raise(403, "that belongs to another user") end
  call.caller, call.mayNotWriteApp = userId, not mayWriteApp
end

---Refuses keys of the app, which are every user's, from one user; he may write them through what
---the agent does, or if `authorize` says so.
---@param call moonpad.server.Call
---@param state table? keys and values, from the request
function Access.checkKeys(call, state)
  if not call.mayNotWriteApp then return end
  for key in pairs(state or {}) do
    if type(key) == "string" and key:sub(1, 4) == "app:" then
      failure.raise(403, "%s: is every user's (authorize may answer appState = true)", key)
    end
  end
end

---- How much

-- A user who has been away for a minute has his whole allowance again: he need not be remembered.
local MINUTE <const>, MOST_REMEMBERED <const> = 60, 1000

local function forgetOld(self, now)
  self.rateCount = 0
  for user, rate in pairs(self.rates) do
    if now - rate.at > MINUTE then self.rates[user] = nil else self.rateCount = self.rateCount + 1 end
  end
  self.forgetAt = math.max(2 * self.rateCount, MOST_REMEMBERED)
end

local function rateOf(self, user, now, perMinute)
  local rate = self.rates[user]
  if rate then return rate end
  if self.rateCount >= (self.forgetAt or MOST_REMEMBERED) then forgetOld(self, now) end
  rate = { tokens = perMinute, at = now }
  self.rates[user], self.rateCount = rate, self.rateCount + 1
  return rate
end

---Counts a request.
---@param call moonpad.server.Call
function Access:countRequest(call)
  local perMinute = self.limits.requestsPerMinute
  if not perMinute then return end
  local now = core.monotonic()
  local rate = rateOf(self, call:user() or "\0" .. call.exchange:peer(), now, perMinute)
  rate.tokens = math.min(perMinute, rate.tokens + (now - rate.at) * perMinute / MINUTE)
  rate.at = now
  if rate.tokens < 1 then
    local seconds = tostring(math.ceil((1 - rate.tokens) * MINUTE / perMinute))
    failure.raiseWith(429, { "Retry-After", seconds }, "more than %d requests in a minute", perMinute)
  end
  rate.tokens = rate.tokens - 1
end

---Counts a run until it is closed.
---@param call moonpad.server.Call
---@return table run to be closed
function Access:countRun(call)
  local user, limit = call:user() or "", self.limits.runs
  local count = self.runs[user] or 0
  if limit and count >= limit then failure.raise(429, "more than %d runs of this user at once", limit) end
  self.runs[user] = count + 1
  return setmetatable({}, { __close = function()
    local left = self.runs[user] - 1
    self.runs[user] = left > 0 and left or nil
  end })
end

---Refuses a session more than there may be.
---@param call moonpad.server.Call
function Access:checkSessions(call)
  local limit = self.limits.sessions
  if not limit then return end
  local list = call.runner.sessionService:listSessions {
    appName = call.appName, userId = call.userId, limit = limit,
  }
  if #list >= limit then failure.raise(429, "this user has %d sessions, as many as may be", #list) end
end

return access
