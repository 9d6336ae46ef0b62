--- A client of one server: greets it in the way of its era, asks it, and begins anew where the
--- connection is lost. From 2026-07-28 on each request says who asks; before, a handshake did.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local diagnostics = require "moonpad.mcp.diagnostics"
local jsonrpc = require "moonpad.mcp.jsonrpc"

local clients = {}

---@class moonpad.McpClient
---@field diagnostics moonpad.McpDiagnostics
---@field timeout number seconds
---@field open fun(): moonpad.McpConnection may raise
---@field connection moonpad.McpConnection? that has been greeted
---@field greeting moonpad.McpGreeting? that is under way
---@field era "modern"|"legacy"|nil of the server, as far as is known
---@field nextEra "legacy"|nil that the next greeting takes it for when this one fails
---@field lastId integer
---@field opened moonpad.McpConnection? that is being greeted
---@field wakeAt number? when the greeting goes on whatever comes (core.monotonic)
---@field isClosed boolean?
local Client = {}
Client.__index = Client

local MODERN = "2026-07-28"
local LEGACY = { ["2025-11-25"] = true, ["2025-06-18"] = true, ["2025-03-26"] = true, ["2024-11-05"] = true }
local NEWEST_LEGACY = "2025-11-25"

local UNSUPPORTED_VERSION = -32022
-- What else only a server of today answers: the headers do not fit, a capability is missing.
local MODERN_ERRORS = { [-32020] = true, [-32021] = true, [UNSUPPORTED_VERSION] = true }

-- Servers of old need not answer what they do not know before they were greeted.
local PROBE_SECONDS = 3

local LONGEST_PAUSE = 1

local INFO = { name = "moonpad", version = (core._VERSION:gsub("^%a+ ", "")) }

---- One request

-- What an error says when the time is over.
local function late(self, what)
  return ("did not answer%s within %s%s"):format(what, diagnostics.seconds(self.timeout),
    self.diagnostics:wroteInstead())
end

local function describe(err)
  return err.code and ("%s (error %d)"):format(err.message, err.code) or err.message
end

local function withMeta(connection, params)
  if connection.era ~= "modern" then return params end
  local all = { _meta = {
    ["io.modelcontextprotocol/protocolVersion"] = connection.version,
    ["io.modelcontextprotocol/clientInfo"] = INFO,
    ["io.modelcontextprotocol/clientCapabilities"] = {},
  } }
  for name, value in pairs(params) do all[name] = value end
  return all
end

-- A request that is under way; closing it gives it up.
local Request = {}
Request.__index = Request

function Request:__close()
  if not self.call.isDone then pcall(self.connection.giveUp, self.connection, self.call) end
end

local function send(self, connection, method, params, deadline, headers)
  self.lastId = self.lastId + 1
  local call = {
    id = self.lastId, method = method, params = withMeta(connection, params), deadline = deadline, headers = headers,
  }
  connection:start(call)
  return setmetatable({ connection = connection, call = call }, Request)
end

-- Waits for the first of them that is done; false when none is in time.
local function await(requests, deadline)
  while true do
    for _, request in ipairs(requests) do
      request.connection:advance()
      if request.call.isDone then return true end
    end
    local left = deadline - core.monotonic()
    if left <= 0 then return false end
    coroutines.pause(math.min(left, LONGEST_PAUSE))
  end
end

-- The call, once it is done; without one it is timed out.
local function ask(self, connection, method, params, deadline, headers)
  local request <close> = send(self, connection, method, params, deadline, headers)
  if not await({ request }, deadline) then
    request.call.failure = late(self, " " .. method)
  end
  return request.call
end

---- Greeting

---@class moonpad.McpGreeting
---@field thread thread
---@field isDone boolean?
---@field err any

local function become(self, connection, era, version, answer)
  self.era = era
  connection.era, connection.version = era, version
  connection.capabilities = type(answer.capabilities) == "table" and answer.capabilities or {}
end

local function list(versions)
  local names = {}
  for _, version in ipairs(type(versions) == "table" and versions or {}) do names[#names + 1] = tostring(version) end
  return names
end

-- Which era a server is of that has named its versions; raises where we speak none of them.
local function choose(self, versions)
  local era
  for _, version in ipairs(versions) do
    if version == MODERN then return "modern" end
    if LEGACY[version] then era = "legacy" end
  end
  if not era then
    self.diagnostics:fail(("speaks none of the versions of MCP that moonpad knows (%s and before), but %s")
      :format(MODERN, #versions > 0 and table.concat(versions, ", ") or "none"))
  end
  return era
end

-- What the answer to server/discover says of the era; nil: nothing, so it is one of old.
local function eraOf(self, call)
  if call.result ~= nil then
    local versions = type(call.result) == "table" and list(call.result.supportedVersions) or {}
    return choose(self, versions)
  end
  local err = call.err
  if not err or not MODERN_ERRORS[err.code] then return nil end
  local versions = type(err.data) == "table" and list(err.data.supported) or {}
  -- It is of today and does not like how it is asked: a handshake would not help.
  if err.code ~= UNSUPPORTED_VERSION or #versions == 0 then self.diagnostics:fail(describe(err)) end
  return choose(self, versions)
end

-- Who is not let in, or finds nobody there, need not try it in another way.
local function checkReached(self, connection, call)
  local status = call.err and call.err.status
  if status == 401 or status == 403 or status == 407 then
    self.diagnostics:fail("refuses access: " .. call.err.message)
  end
  if call.failure and not connection.notifiesChanges then self.diagnostics:fail(call.failure) end
end

-- Does a server of today say by that that it knows no handshake?
local function wantsProbe(err)
  return MODERN_ERRORS[err.code] or err.code == jsonrpc.METHOD_NOT_FOUND
end

-- `isProbed`: it was asked before what it speaks. Else false is returned where it knows no
-- handshake.
local function handshake(self, connection, deadline, isProbed, probe)
  connection.era, connection.version = "legacy", nil
  local params = { protocolVersion = NEWEST_LEGACY, capabilities = {}, clientInfo = INFO }
  local request <close> = send(self, connection, "initialize", params, deadline)
  local requests = { request, probe }
  self.wakeAt = deadline
  while true do
    if not await(requests, deadline) then
      self.diagnostics:fail(late(self, ""), true)
    end
    -- A slow server of today answers what it was asked first.
    if probe and probe.call.result ~= nil and eraOf(self, probe.call) == "modern" then
      become(self, connection, "modern", MODERN, probe.call.result)
      return true
    end
    local isRefused = request.call.err ~= nil and probe and not probe.call.isDone
    if request.call.isDone and not isRefused then break end
    requests = isRefused and { probe } or { request }
  end
  local call = request.call
  if call.failure then self.diagnostics:fail(call.failure, true) end
  if call.err then
    if not isProbed and wantsProbe(call.err) then return false end
    checkReached(self, connection, call)
    self.diagnostics:fail("refuses the handshake: " .. describe(call.err), true)
  end
  local result = type(call.result) == "table" and call.result or {}
  if not LEGACY[result.protocolVersion] then choose(self, { tostring(result.protocolVersion) }) end
  become(self, connection, "legacy", result.protocolVersion, result)
  local isUnderWay = connection:notify "notifications/initialized"
  while isUnderWay and isUnderWay() do coroutines.pause(LONGEST_PAUSE) end
  return true
end

-- Asks which versions the server speaks. False: it has ended for that.
local function greetByProbe(self, connection, deadline)
  connection.era, connection.version = "modern", MODERN
  local probeDeadline = connection.notifiesChanges and math.min(deadline, core.monotonic() + PROBE_SECONDS) or deadline
  local probe <close> = send(self, connection, "server/discover", {}, deadline)
  self.wakeAt = probeDeadline
  await({ probe }, probeDeadline)
  local call = probe.call
  if call.failure and connection.notifiesChanges then return false end
  checkReached(self, connection, call)
  if eraOf(self, call) == "modern" then
    if call.result == nil then self.diagnostics:fail(describe(call.err)) end
    become(self, connection, "modern", MODERN, call.result)
  else
    handshake(self, connection, deadline, true, not call.isDone and probe or nil)
  end
  return true
end

local function open(self)
  local connection = self.open()
  self.opened = connection
  return connection
end

local function greet(self)
  local deadline = core.monotonic() + self.timeout
  local connection = open(self)
  -- What was one of old may be one of today by now.
  if self.era == "legacy" and handshake(self, connection, deadline, false) then return connection end
  if greetByProbe(self, connection, deadline) then return connection end
  -- Some servers of old end at a request that is no handshake. What was greeted before has failed.
  if self.era then self.diagnostics:fail(connection.ending, true) end
  connection:close()
  -- Should it fail now, the next start is not spent on that again.
  self.nextEra = "legacy"
  connection = open(self)
  handshake(self, connection, deadline, true)
  return connection
end

local function dropOpened(self)
  local opened = self.opened
  self.opened = nil
  if opened then opened:close() end
end

-- It belongs to nobody who waits for it: a run that is cancelled leaves it to the next one.
local function beginGreeting(self)
  local greeting = {}
  greeting.thread = coroutines.newThread(function()
    local ok, result = pcall(greet, self)
    greeting.isDone = true
    if self.greeting == greeting then self.greeting = nil end
    if ok then
      self.connection, self.opened = result, nil
    else
      -- What was known of it does not hold any more.
      greeting.err, self.era = result, self.nextEra
      dropOpened(self)
    end
    self.nextEra = nil
  end)
  self.greeting = greeting
  return greeting
end

local function checkOpen(self)
  if self.isClosed then core.error("closed", self.diagnostics.name .. ": the toolset is closed") end
end

local function raise(self, err)
  checkOpen(self)
  error(err, 0)
end

local function awaitGreeting(self, greeting)
  while not greeting.isDone do
    local status = coroutine.status(greeting.thread)
    if status == "normal" or status == "running" then
      core.error("invalid_argument", self.diagnostics.name .. ": its headers cannot ask the server that they are for")
    end
    local ok, err = coroutines.resumeWithin(greeting.thread)
    if not ok then raise(self, err) end
    if not greeting.isDone then
      local left = self.wakeAt and self.wakeAt - core.monotonic() or LONGEST_PAUSE
      coroutines.pause(math.max(math.min(left, LONGEST_PAUSE), 0))
      checkOpen(self)
    end
  end
  if greeting.err then raise(self, greeting.err) end
end

---The connection to the server, which is started or greeted where that is needed. It may wait.
---@return moonpad.McpConnection
function Client:ready()
  checkOpen(self)
  local connection = self.connection
  if connection and not connection.ending then
    connection:advance()
    if not connection.ending then return connection end
  end
  if connection then
    connection:close()
    self.connection = nil
  end
  awaitGreeting(self, self.greeting or beginGreeting(self))
  return self.connection
end

---- Asking

local function deadlineOf(self)
  return core.monotonic() + self.timeout
end

---Asks the server; waits for the answer.
---@param method string
---@param params table
---@param headers (fun(connection: moonpad.McpConnection): table<string, string>?)? of HTTP
---@return table result
---@return moonpad.McpConnection connection that has given it
function Client:request(method, params, headers)
  local connection = self:ready()
  local call = ask(self, connection, method, params, deadlineOf(self), headers and headers(connection))
  -- What has no effect may be asked in a new session, once.
  if call.failure and connection.isForgotten and method ~= "tools/call" then
    connection = self:ready()
    call = ask(self, connection, method, params, deadlineOf(self))
  end
  if call.failure then self.diagnostics:fail(call.failure, connection.ending ~= nil) end
  if call.err then self.diagnostics:fail(describe(call.err)) end
  local result = call.result
  if type(result) ~= "table" then self.diagnostics:fail(("answered %s with no result"):format(method)) end
  self.diagnostics.answered:value(result)
  if result.resultType == "input_required" then
    self.diagnostics:fail(("asks for something of its user before it can answer %s, which moonpad cannot give")
      :format(method))
  end
  return result, connection
end

---Does the server offer such a thing?
---@param connection moonpad.McpConnection
---@param kind string
---@return boolean
local function offers(connection, kind)
  return type(connection.capabilities[kind]) == "table"
end

local MAX_PAGES = 1000

-- For how many seconds a list may be believed; nil: for ever, unless the server says that it has
-- changed.
local function freshness(connection, kind, result)
  if connection.era == "modern" then
    return type(result.ttlMs) == "number" and math.max(result.ttlMs, 0) / 1000 or 0
  end
  return not (connection.notifiesChanges and connection.capabilities[kind].listChanged == true) and 0 or nil
end

---All pages of a list.
---@param kind "tools"|"prompts"|"resources"
---@return table[] items
---@return fun(): boolean isFresh may it be shown again without asking?
function Client:list(kind)
  local connection = self:ready()
  if not offers(connection, kind) then return {}, function() return self.connection == connection end end
  local items, cursor, expires, before = {}, nil, math.huge, connection.changes[kind]
  for page = 1, MAX_PAGES + 1 do
    if page > MAX_PAGES then self.diagnostics:fail(("lists its %s on more than %d pages"):format(kind, MAX_PAGES)) end
    local result, answeredBy = self:request(kind .. "/list", { cursor = cursor })
    if answeredBy ~= connection then
      -- Cursors are of one connection.
      if cursor then return self:list(kind) end
      connection, before = answeredBy, 0
    end
    if type(result[kind]) ~= "table" then self.diagnostics:fail(("answered %s/list without %s"):format(kind, kind)) end
    table.move(result[kind], 1, #result[kind], #items + 1, items)
    local seconds = freshness(connection, kind, result)
    if seconds then expires = math.min(expires, core.monotonic() + seconds) end
    cursor = result.nextCursor
    if type(cursor) ~= "string" then break end
  end
  return items, function()
    if self.connection ~= connection or connection.ending then return false end
    connection:advance()
    if connection.ending or connection.isBehind then return false end
    return connection.changes[kind] == before and core.monotonic() < expires
  end
end

---Ends it: whoever waits gets an error.
function Client:close()
  if self.isClosed then return end
  self.isClosed = true
  local greeting, connection = self.greeting, self.connection
  self.greeting, self.connection = nil, nil
  if greeting then
    greeting.isDone = true
    greeting.err = core.newError("closed", self.diagnostics.name .. ": the toolset is closed")
    coroutines.close(greeting.thread)
  end
  dropOpened(self)
  if connection then connection:close() end
end

---@param options { diagnostics: moonpad.McpDiagnostics, timeout: number, open: fun(): moonpad.McpConnection }
---@return moonpad.McpClient
function clients.new(options)
  return setmetatable({
    diagnostics = options.diagnostics, timeout = options.timeout, open = options.open, lastId = 0,
  }, Client)
end

return clients
