--- Agents over HTTP, in the dialect of adk-python (contract section 7): one thread, one loop, every
--- request a coroutine.
local access = require "moonpad.server.access"
local calls = require "moonpad.server.call"
local core = require "moonpad.core"
local failure = require "moonpad.server.failure"
local fields = require "moonpad.schema.fields"
local guard = require "moonpad.server.guard"
local lists = require "moonpad.util.list"
local loops = require "moonpad.server.loop"
local router = require "moonpad.server.router"
local runners = require "moonpad.runtime.runner"
local static = require "moonpad.server.static"
local traces = require "moonpad.server.traces"

local servers = {}

---@class moonpad.ServerOptions
---@field apps table<string, moonpad.Runner> by the names that clients know them by
---@field host string? default "127.0.0.1"
---@field port integer? default 8000; 0 takes a free one
---@field ui string? the folder with the files of ADK's web UI, served below /dev-ui/
---@field hosts string[]? names of this server beside those of loopback, as the Host header has them
---@field origins string[]? of web pages elsewhere that may ask
---@field authorize (fun(request: moonpad.ServerRequest): { userId: string, appState: boolean? }?)? who asks, and may he
---write keys of the app? nil is 401. It may wait
---@field public boolean? may it listen beyond loopback without `authorize`?
---@field limits moonpad.ServerLimits? of each user: beyond is 429
---@field traceContent boolean? do traces show what was said to whoever may ask? default: only on loopback without
---`authorize`, `hosts` and `public`, where nobody asks but the users of this machine
---@field maxBodyBytes integer? default 67108864 (64 MiB)
---@field maxHeaderBytes integer? default 65536 (64 KiB)
---@field maxConnections integer? default 1000
---@field onError (fun(message: string))? is told what clients get as 500, and what ends a stream

---@class moonpad.ServerLimits
---@field requestsPerMinute integer?
---@field sessions integer?
---@field runs integer? at the same time

---@class moonpad.ServerRequest
---@field method string
---@field path string as it was sent
---@field headers table<string, string> names in lower case
---@field appName string? the names that it is about, as far as they are known
---@field userId string?
---@field sessionId string?

---@class moonpad.Server
---@field host string
---@field port integer
---@field url string "http://127.0.0.1:8000"
local Server = { __name = "moonpad.server" }
Server.__index = Server

---What the parts of a server share.
---@class moonpad.server.Shared
---@field apps table<string, moonpad.Runner>
---@field access moonpad.server.Access
---@field guard moonpad.server.Guard
---@field router moonpad.server.Router
---@field isPublic boolean may others ask than the users of this machine?
---@field traces moonpad.server.Traces
---@field onError function?
local Shared = {}
Shared.__index = Shared

-- server -> { core, loop }
local partsOf = setmetatable({}, { __mode = "k" })

local TIMEOUT_SECONDS <const>, LARGEST_HEADER <const> = 30, 80 * 1024

---- What it is made of

local function checkApps(apps, where)
  if type(apps) ~= "table" or next(apps) == nil then
    fields.refuse(where, "expected { name = a moonpad.runner, ... }, got " .. fields.describe(apps))
  end
  local copy = {}
  for name, runner in pairs(apps) do
    if type(name) ~= "string" or name == "" then fields.refuse(where, "the name of an app is a text") end
    if not runners.isRunner(runner) then
      fields.refuse(("%s.%s"):format(where, name), "expected a moonpad.runner, got " .. fields.describe(runner))
    end
    copy[name] = runner
  end
  return copy
end

local function checkTexts(list, where)
  local copy = lists.of(list, where, "strings")
  for index, text in ipairs(copy) do
    if type(text) ~= "string" or text == "" then fields.refuse(("%s[%d]"):format(where, index), "expected a string") end
  end
  return copy
end

local function checkFolder(folder, where)
  if type(folder) ~= "string" then fields.refuse(where, "expected a string, got " .. fields.describe(folder)) end
  if not static.isThere(folder) then
    fields.refuse(where, ("there is no index.html in %s; docs/serve.md tells how to get the files of ADK's web UI")
      :format(folder))
  end
end

local LIMITS = fields.new {
  { "requestsPerMinute", fields.integerFrom(1) },
  { "sessions", fields.integerFrom(1) },
  { "runs", fields.integerFrom(1) },
}:describes "moonpad.ServerLimits"

local function checkLimits(limits, where)
  return LIMITS:take(limits, where)
end

local function integerTo(least, most)
  return {
    is = function(value) return math.type(value) == "integer" and value >= least and value <= most end,
    what = ("an integer from %d to %d"):format(least, most), showsValue = true,
  }
end

local FIELDS = fields.new {
  { "apps", checkApps, required = true },
  { "host", "string", default = "127.0.0.1" },
  { "port", integerTo(0, 65535), default = 8000 },
  { "ui", checkFolder },
  { "hosts", checkTexts },
  { "origins", checkTexts },
  { "authorize", "function", arguments = "request" },
  { "public", "boolean" },
  { "limits", checkLimits },
  { "traceContent", "boolean" },
  { "maxBodyBytes", integerTo(0, 1 << 40), default = 64 * 1024 * 1024 },
  { "maxHeaderBytes", integerTo(1, LARGEST_HEADER), default = 64 * 1024 },
  { "maxConnections", integerTo(1, 1000000), default = 1000 },
  { "onError", "function", arguments = "message" },
}:describes "moonpad.ServerOptions"

local ROUTES = { "apps", "sessions", "artifacts", "memory", "graph", "runs", "traces" }

local function routerOf(plan)
  local routes = router.new()
  for _, name in ipairs(ROUTES) do routes:add(require("moonpad.server.routes." .. name)) end
  routes:add(require "moonpad.server.page")
  if plan.ui then routes:add(static.routes(plan.ui)) end
  return routes
end

---- One request

function Shared:log(call, err)
  if not self.onError then return end
  self.onError(("%s %s: %s"):format(call.method, call.path, failure.of(err).message))
end

local function find(call)
  local route, params = call.server.router:find(call.method, call.segments)
  if route then
    call.params = params
    return route
  end
  if #params == 0 then failure.raise(404, "there is nothing at %s", call.path) end
  return failure.raiseWith(405, { "Allow", table.concat(params, ", ") }, "%s: not with %s", call.path, call.method)
end

local function answer(call)
  call.ownHeaders = call.server.guard:check(call.headers)
  local preflight = guard.preflight(call.method, call.headers)
  if preflight then return call:answer(204, nil, preflight) end
  call:readTarget()
  local route = find(call)
  call.userId, call.sessionId = call.params.user, call.params.session
  if not route.options.isOpen then
    call.server.access:check(call)
    call.server.access:countRequest(call)
  end
  if call.params.app then call:setApp(call.params.app) end
  local status, value = route.handle(call)
  if status then call:answer(status, value) end
end

local function handlerOf(shared)
  return function(exchange, task)
    local call = calls.new(exchange, task, shared)
    call.path = exchange:target()
    local ok, err = pcall(answer, call)
    if ok or not exchange:isOpen() then return end
    if call.hasAnswered then error(err, 0) end
    call:fail(err)
  end
end

---- The server

local function loadModule()
  local ok, module = pcall(require, "moonpad.server_core")
  if ok then return module end
  return core.error("unsupported", "moonpad.server needs moonpad's module moonpad.server_core, which is built where "
    .. "libevent and http_parser are installed: " .. tostring(module):gsub("\n.*", ""))
end

-- May others ask than the users of this machine? Users and names of its own tell of a proxy.
local function isPublic(plan)
  return not guard.isLoopback(plan.host) or plan.authorize ~= nil or plan.public == true or #(plan.hosts or {}) > 0
end

local function listen(plan)
  if not guard.isLoopback(plan.host) and not plan.authorize and not plan.public then
    core.error("invalid_argument", ("server.host: %s is beyond loopback, where anybody may ask: give `authorize`, or "
      .. "say `public = true`"):format(plan.host))
  end
  local made, message = loadModule().new {
    host = plan.host, port = plan.port, maxHeaderBytes = plan.maxHeaderBytes, maxBodyBytes = plan.maxBodyBytes,
    maxConnections = plan.maxConnections, timeout = TIMEOUT_SECONDS,
  }
  if not made then core.error("storage", "server: cannot listen on " .. message) end
  return made
end

local function servicesOf(apps)
  local seen, services = {}, {}
  for _, runner in pairs(apps) do
    if not seen[runner.sessionService] then
      seen[runner.sessionService], services[#services + 1] = true, runner.sessionService
    end
  end
  return services
end

---Serves agents over HTTP: begins to listen. `step` or `run` drives it.
---@param options moonpad.ServerOptions
---@return moonpad.Server
function servers.define(options)
  local plan = FIELDS:take(options, "server")
  local made = listen(plan)
  local port, public = made:port(), isPublic(plan)
  local shared = setmetatable({
    apps = plan.apps, access = access.new(plan.authorize, plan.limits or {}), router = routerOf(plan),
    guard = guard.new(port, plan.host, plan.hosts or {}, plan.origins or {}), isPublic = public,
    traces = traces.new(plan.traceContent == nil and not public or plan.traceContent == true),
    onError = plan.onError,
  }, Shared)
  local self = setmetatable({
    host = plan.host, port = port,
    url = ("http://%s:%d"):format(plan.host:find ":" and "[" .. plan.host .. "]" or plan.host, port),
  }, Server)
  partsOf[self] = { core = made, loop = loops.new(made, servicesOf(plan.apps), handlerOf(shared)) }
  return self
end

local function partsOfSelf(self, method)
  local parts = partsOf[self]
  if parts == nil then
    core.error("invalid_argument", ("server:%s(...): call it with a colon, not with a dot"):format(method))
  end
  if parts.isClosed then core.error("closed", ("server:%s: the server is closed"):format(method)) end
  return parts
end

---Does what there is to do: takes requests, lets runs go on.
---@param seconds number how long to wait for something to do; 0: not at all
function Server:step(seconds)
  local parts = partsOfSelf(self, "step")
  if type(seconds) ~= "number" or seconds ~= seconds or seconds < 0 then
    core.error("invalid_argument", "server:step(seconds): expected a number from 0, got " .. tostring(seconds))
  end
  parts.loop:turn(seconds)
end

-- So that Ctrl-C, which Lua looks at between two calls, is not slept through.
local LONGEST_SLEEP = 1

---Serves until the server is closed.
function Server:run()
  local parts = partsOfSelf(self, "run")
  while not parts.isClosed do parts.loop:turn(LONGEST_SLEEP) end
end

---Serves until one of the descriptors is ready, or the server is closed.
---@package
---@param readable integer[]
function Server:runUntil(readable)
  local parts = partsOfSelf(self, "runUntil")
  local ready
  while not parts.isClosed and not ready do
    ready = parts.loop:turn(math.huge, table.move(readable, 1, #readable, 1, {}))[readable[1]]
  end
end

---Ends it: takes no more connections, lets the runs under way go on for so long, cancels those that
---are left. Closing twice is no error.
---@param seconds number? default 0
function Server:close(seconds)
  local parts = partsOf[self]
  if parts == nil then partsOfSelf(self, "close") end
  if parts.isClosed then return end
  parts.core:stopListening()
  local deadline = core.monotonic() + (seconds or 0)
  -- What has been answered is to be sent as well.
  while (parts.loop:count() > 0 or parts.core:connections() > 0) and core.monotonic() < deadline do
    parts.loop:turn(math.max(deadline - core.monotonic(), 0))
  end
  parts.isClosed = true
  parts.loop:cancel()
  parts.core:close()
end

Server.__close = function(self) self:close() end

return servers
