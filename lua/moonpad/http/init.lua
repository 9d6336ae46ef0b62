--- HTTP without blocking: one client per Lua state, with a thread of its own, or in a page on the
--- browser's fetch. The requests of all agents share it.
local core = require "moonpad.core"
local driver = require "moonpad.http.client"
local fields = require "moonpad.schema.fields"
local headers = require "moonpad.http.headers"
local jobs = require "moonpad.http.request"
local lists = require "moonpad.util.list"

---@class moonpad.Http
local http = {}

---@class moonpad.HttpOptions
---@field url string
---@field method string? default "GET", with a body "POST"
---@field headers table<string, string>?
---@field body string|string[]|nil its pieces are sent as one
---@field timeoutMs integer? for everything, retries included; default 600000, 0 for none
---@field connectTimeoutMs integer? default 30000; of no effect in a page
---@field idleTimeoutMs integer? without a single byte coming; default 300000, 0 for none
---@field attempts integer? how often it is tried before the answer begins; default 4
---@field retryDelayMs integer? before the second attempt (doubled before each further one); default 500
---@field maxRetryDelayMs integer? a server that asks for a longer wait gets no further attempt; default 60000
---@field retryAdvice (fun(status: integer, headers: table, body: string): number|false|nil)? asked after an error
---that is worth another attempt, with what comes of its body in 2 seconds, 64 KiB at most: seconds
---to wait; false: no further attempt; nil: as the headers say
---@field maxBodyBytes integer? of what `collect` and `poll` put together; default 64 MiB
---@field maxUnreadBytes integer? above it the transfer pauses until it is read; default 1 MiB
---@field sendOnce boolean? over a connection of its own: over one that was used before, and that the server closes just
---then, a request may be sent once more, whatever `attempts` says. A page is refused it
---@field caFile string? certificates to trust instead of the system's; default: $CURL_CA_BUNDLE, or $SSL_CERT_FILE.
---A page is refused it

local LARGEST = 2147483647

local function integerFrom(least)
  return {
    is = function(value) return math.type(value) == "integer" and value >= least and value <= LARGEST end,
    what = ("an integer from %d to %d"):format(least, LARGEST), showsValue = true,
  }
end

local function checkUrl(url, where)
  if url == nil then fields.refuse(where, "is missing") end
  if type(url) ~= "string" then fields.refuse(where, "expected a string, got " .. fields.describe(url)) end
  if not url:lower():find "^https?://[^/?#]" then
    fields.refuse(where, "must begin with http:// or https:// and a host")
  end
  if url:find "[%c%s]" then fields.refuse(where, "must not contain blanks or control characters") end
end

local METHOD = {
  is = function(value) return type(value) == "string" and value:find "^%u+$" ~= nil end, what = "a name like POST",
  showsValue = true,
}

-- Pieces need not be put together here: a body may have megabytes.
local function readBody(given, where)
  if type(given) == "string" then return given end
  if type(given) ~= "table" then fields.refuse(where, "expected a string, got " .. fields.describe(given)) end
  local pieces = lists.of(given, where, "strings")
  for index, piece in ipairs(pieces) do
    if type(piece) ~= "string" then
      fields.refuse(("%s[%d]"):format(where, index), "expected a string, got " .. fields.describe(piece))
    end
  end
  return pieces
end

local FIELDS = fields.new {
  { "url", checkUrl, required = true },
  { "method", METHOD },
  { "headers", headers.read },
  { "body", readBody },
  { "timeoutMs", integerFrom(0), default = 600000 },
  { "connectTimeoutMs", integerFrom(0), default = 30000 },
  { "idleTimeoutMs", integerFrom(0), default = 300000 },
  { "attempts", integerFrom(1), default = 4 },
  { "retryDelayMs", integerFrom(0), default = 500 },
  { "maxRetryDelayMs", integerFrom(0), default = 60000 },
  { "retryAdvice", "function", arguments = "status, headers, body" },
  { "maxBodyBytes", integerFrom(0), default = 64 * 1024 * 1024 },
  { "maxUnreadBytes", integerFrom(0), default = 1024 * 1024 },
  { "sendOnce", "boolean" },
  { "caFile", "string" },
}:describes "moonpad.HttpOptions"

-- libcurl leaves these two to the curl command.
local function caFileOfEnvironment()
  for _, name in ipairs { "CURL_CA_BUNDLE", "SSL_CERT_FILE" } do
    local file = os and os.getenv(name)
    if file and file ~= "" then return file end
  end
  return nil
end

local WITH_BODY = { POST = true, PUT = true, PATCH = true }

---Starts a request. It goes on by itself; a retry begins when the request is stepped, or
---in `http.poll`.
---@param options moonpad.HttpOptions
---@return moonpad.HttpJob
function http.request(options)
  local plan = FIELDS:take(options, "http.request")
  plan.headers, plan.caFile = plan.headers or {}, plan.caFile or caFileOfEnvironment()
  plan.method = plan.method or (plan.body and "POST" or "GET")
  if plan.body == nil and WITH_BODY[plan.method] then plan.body = "" end
  return jobs.new(plan)
end

---Sleeps until something has happened to any request (or a retry is due), or a child process has
---said something, at most that long.
---For loops that have nothing else to do: `http.poll` between two steps, instead of asking
---again and again.
---@param seconds number
---@return boolean moved whether something has happened
function http.poll(seconds)
  if type(seconds) ~= "number" or seconds ~= seconds then
    core.error("invalid_argument", "http.poll(seconds): expected a number, got " .. type(seconds))
  end
  return driver.poll(seconds)
end

---Loads what requests need and makes libcurl ready, so that the first one does not spend its time
---on it. Never fails.
function http.prepare()
  local ok, module = pcall(require, "moonpad.http_core")
  if ok then module.prepare() end
end

---@class moonpad.HttpRetry
---@field attempt integer the number of the attempt to come
---@field seconds number until then
---@field reason string why the last one failed

---The requests that have failed and wait for their next attempt: for programs that show what they
---are waiting for.
---@return moonpad.HttpRetry[]
function http.retries()
  return driver.retries()
end

---@return integer count of the requests whose answer is still to come or under way
function http.active()
  return driver.count()
end

return http
