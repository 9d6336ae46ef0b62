--- Who may ask at all: names of hosts against DNS rebinding, origins against pages of others, and
--- what browsers ask before they send (CORS).
local failure = require "moonpad.server.failure"

local guard = {}

---@class moonpad.server.Guard
---@field package hosts table<string, boolean>
---@field package origins table<string, boolean>
local Guard = {}
Guard.__index = Guard

local LOOPBACK = { "localhost", "127.0.0.1", "[::1]" }

local DEFAULT_PORTS = { http = "80", https = "443" }

---@param host string of `listen`
---@return boolean
function guard.isLoopback(host)
  host = host:lower()
  return host == "localhost" or host == "::1" or host == "[::1]" or host:find "^127%.%d+%.%d+%.%d+$" ~= nil
end

---@param port integer
---@param host string it listens on
---@param hosts string[] further names, with or without a port
---@param origins string[] of pages elsewhere that may ask
---@return moonpad.server.Guard
function guard.new(port, host, hosts, origins)
  local self = setmetatable({ hosts = {}, origins = {} }, Guard)
  local function allow(name)
    self.hosts[("%s:%d"):format(name:lower(), port)] = true
    if port == 80 then self.hosts[name:lower()] = true end
  end
  for _, name in ipairs(LOOPBACK) do allow(name) end
  allow(host:find ":" and "[" .. host .. "]" or host)
  for _, name in ipairs(hosts) do
    allow(name)
    self.hosts[name:lower()] = true
  end
  for _, origin in ipairs(origins) do self.origins[origin:lower()] = true end
  return self
end

-- The host of an origin, as a Host header has it: without the port that goes without saying.
local function hostOf(origin)
  local scheme, rest = origin:match "^(%a+)://(.+)$"
  if not scheme then return nil end
  local port = DEFAULT_PORTS[scheme]
  return port and rest:gsub(":" .. port .. "$", "") or rest
end

local function checkOrigin(self, headers)
  local origin = headers.origin
  if not origin then return nil end
  origin = origin:lower()
  if self.origins[origin] then return headers.origin end
  local host = headers.host:lower():gsub(":80$", ""):gsub(":443$", "")
  if hostOf(origin) == host then return nil end
  return failure.raise(403, "the origin %s is none that may ask here (see `origins`)", origin)
end

---Refuses whoever may not ask.
---@param headers table<string, string>
---@return string[] headers of the answer
function Guard:check(headers)
  -- (That there is one Host, and no more, has been seen to.)
  if not self.hosts[headers.host:lower()] then
    failure.raise(403, "the host %s is none of this server's names (see `hosts`)", headers.host)
  end
  local origin = checkOrigin(self, headers)
  return origin and { "Access-Control-Allow-Origin", origin, "Vary", "Origin" } or {}
end

local PREFLIGHT = {
  "Access-Control-Allow-Methods", "GET, HEAD, POST, PATCH, DELETE", "Access-Control-Allow-Headers",
  "authorization, content-type, traceparent, tracestate", "Access-Control-Max-Age", "600",
}

---The answer to what a browser asks before it sends; nil: it is no such question.
---@param method string
---@param headers table<string, string>
---@return string[]?
function guard.preflight(method, headers)
  if method ~= "OPTIONS" or not headers["access-control-request-method"] then return nil end
  return PREFLIGHT
end

return guard
