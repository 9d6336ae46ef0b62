--- HTTP without blocking: one client per Lua state, with a thread of its own. The requests of all
--- agents share it.
local core = require "moonpad.core"
local driver = require "moonpad.http.client"
local errorText = require "moonpad.util.error_text"
local jobs = require "moonpad.http.request"

---@class moonpad.Http
local http = {}

---@class moonpad.HttpOptions
---@field url string
---@field method string? default "GET", with a body "POST"
---@field headers table<string, string>?
---@field body string?
---@field timeoutMs integer? for everything, retries included; default 600000, 0 for none
---@field connectTimeoutMs integer? default 30000
---@field idleTimeoutMs integer? without a single byte coming; default 300000, 0 for none
---@field attempts integer? how often it is tried before the answer begins; default 4
---@field retryDelayMs integer? before the second attempt (doubled before each further one); default 500
---@field maxRetryDelayMs integer? a server that asks for a longer wait gets no further attempt; default 60000
---@field maxBodyBytes integer? of what `collect` and `poll` put together; default 64 MiB
---@field maxUnreadBytes integer? above it the transfer pauses until it is read; default 1 MiB
---@field caFile string? certificates to trust instead of the system's; default: $CURL_CA_BUNDLE, or $SSL_CERT_FILE

local FIELDS = {
  "url", "method", "headers", "body", "timeoutMs", "connectTimeoutMs", "idleTimeoutMs", "attempts", "retryDelayMs",
  "maxRetryDelayMs", "maxBodyBytes", "maxUnreadBytes", "caFile",
}

local LARGEST = 2147483647

local INTEGERS = {
  timeoutMs = 600000, connectTimeoutMs = 30000, idleTimeoutMs = 300000, attempts = 4, retryDelayMs = 500,
  maxRetryDelayMs = 60000, maxBodyBytes = 64 * 1024 * 1024, maxUnreadBytes = 1024 * 1024,
}

local function refuse(field, message)
  core.error("invalid_argument", ("http.request: %s: %s"):format(field, message))
end

local function textOption(options, field)
  local value = options[field]
  if value ~= nil and type(value) ~= "string" then refuse(field, "expected a string, got " .. type(value)) end
  return value
end

local function integerOption(options, field)
  local value = options[field]
  if value == nil then return INTEGERS[field] end
  if math.type(value) ~= "integer" or value < 0 or value > LARGEST then
    refuse(field, ("expected an integer from 0 to %d, got %s"):format(LARGEST, errorText.show(value)))
  end
  return value
end

-- A value is never quoted: it may be a key.
local function headerOption(options)
  local headers = {}
  if options.headers == nil then return headers end
  if type(options.headers) ~= "table" then refuse("headers", "expected a table, got " .. type(options.headers)) end
  for name, value in pairs(options.headers) do
    if type(name) ~= "string" or not name:find "^[%w!#$%%&'*+.^_`|~-]+$" then
      refuse("headers", "a name consists of letters, digits and some signs, got " .. errorText.show(name))
    elseif type(value) ~= "string" then
      refuse("headers." .. name, "expected a string, got " .. type(value))
    elseif value:find "[%c]" then
      refuse("headers." .. name, "must not contain line ends or other control characters")
    end
    headers[name:lower()] = value
  end
  return headers
end

local function urlOption(options)
  local url = textOption(options, "url")
  if url == nil then refuse("url", "is missing") end
  if not url:lower():find "^https?://[^/?#]" then refuse("url", "must begin with http:// or https:// and a host") end
  if url:find "[%c%s]" then refuse("url", "must not contain blanks or control characters") end
  return url
end

local function methodOption(options, body)
  local method = textOption(options, "method") or (body and "POST" or "GET")
  if not method:find "^%u+$" then refuse("method", "expected a name like POST") end
  return method
end

-- libcurl leaves these two to the curl command.
local function caFileOption(options)
  local given = textOption(options, "caFile")
  for _, name in ipairs { "CURL_CA_BUNDLE", "SSL_CERT_FILE" } do
    local file = os and os.getenv(name)
    if given == nil and file and file ~= "" then given = file end
  end
  return given
end

local WITH_BODY = { POST = true, PUT = true, PATCH = true }

---Starts a request. It goes on by itself; a retry begins when the request is stepped, or
---in `http.poll`.
---@param options moonpad.HttpOptions
---@return moonpad.HttpJob
function http.request(options)
  if type(options) ~= "table" then
    core.error("invalid_argument", "http.request: expected a table of options, got " .. type(options))
  end
  core.checkFields(options, "http.request", FIELDS)
  local plan = {}
  for field in pairs(INTEGERS) do plan[field] = integerOption(options, field) end
  if plan.attempts < 1 then refuse("attempts", "expected at least 1") end
  plan.url, plan.headers = urlOption(options), headerOption(options)
  plan.body, plan.caFile = textOption(options, "body"), caFileOption(options)
  plan.method = methodOption(options, plan.body)
  if plan.body == nil and WITH_BODY[plan.method] then plan.body = "" end
  return jobs.new(plan)
end

---Sleeps until something has happened to any request (or a retry is due), at most that long.
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
