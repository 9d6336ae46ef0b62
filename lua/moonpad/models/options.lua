--- The options of models behind HTTP: what users give, and what the environment adds.
local callable = require "moonpad.util.callable"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local providers = require "moonpad.models.providers"
local requestHeaders = require "moonpad.http.headers"

local options = {}

---@class moonpad.ModelOptions
---@field model string the provider's name of the model
---@field apiKey (string|fun(): string)? default: from the environment. A function is asked before each request
---@field baseUrl string? of the API; behind a "?" what every request is to have, such as an api-version
---@field api "responses"|"chat"|nil of models.openai only; default: what that model needs on that server
---@field stream boolean? default true
---@field timeoutMs integer? for one answer, retries included; default 600000, 0 for none
---@field idleTimeoutMs integer? without a single byte coming; default 300000
---@field maxRetries integer? default 3
---@field headers table<string, string>? to be sent as well
---@field caFile string? certificates to trust instead of the system's
---@field maxResponseBytes integer? of one answer, streamed or whole; default 64 MiB, 0 for none

local DEFAULT_MAX_RESPONSE = 64 * 1024 * 1024

-- A key is never quoted.
local function checkKey(value, where)
  if callable.is(value) then return fields.checkNoSelf(value, where, "") end
  if type(value) ~= "string" then
    fields.refuse(where, "expected a string or a function, got " .. fields.describe(value))
  end
  options.checkKeyText(value, where)
end

---@param key string
---@param where string for messages
function options.checkKeyText(key, where)
  if key == "" or key:find "[%c%s]" then
    fields.refuse(where, "must not be empty, and contains neither blanks nor line ends")
  end
end

local FROM_0 = fields.integerFrom(0)

local FIELDS = fields.new {
  { "model", { is = function(value) return type(value) == "string" and value:find "%S" ~= nil end,
    what = "the name of a model" }, required = true },
  { "apiKey", checkKey },
  { "baseUrl", "string" },
  { "api", fields.oneOf { "responses", "chat" } },
  { "stream", "boolean", default = true },
  { "timeoutMs", FROM_0, default = 600000 },
  { "idleTimeoutMs", FROM_0 },
  { "maxRetries", FROM_0, default = 3 },
  { "headers", requestHeaders.read, default = {} },
  { "caFile", "string" },
  { "maxResponseBytes", FROM_0, default = DEFAULT_MAX_RESPONSE },
}:describes "moonpad.ModelOptions"

local function isHost(authority)
  return authority:find "^[^:%[%]]+$" or authority:find "^[^:%[%]]+:%d+$" or authority:find "^%[[%x:.]+%]:?%d*$"
end

-- The address without what stands behind "?", and that.
local function splitAddress(where, base, example)
  local address, query = base:match "^([^?]*)%??(.*)$"
  local authority = address:lower():match "^https?://([^/#]+)"
  if not authority or base:find "[%c%s#]" then fields.refuse(where, "expected an address like " .. example) end
  if authority:find("@", 1, true) then
    fields.refuse(where, "must not contain a user or a password; give apiKey or headers")
  end
  if not isHost(authority) then fields.refuse(where, "expected a host, and perhaps a port, as in " .. example) end
  return address:gsub("/+$", ""), query ~= "" and query or nil
end

---Scheme, host and port: what tells one server from another.
---@param address string
---@return string
function options.serverOf(address)
  local scheme, host = address:lower():match "^(%a+)://([^/?]*)"
  return scheme .. "://" .. host:gsub(scheme == "https" and ":443$" or ":80$", "")
end

---@class moonpad.AskedProvider the provider that a model is to be of
---@field row moonpad.Provider
---@field isNamed boolean? the name of the model says so, and not the adapter that was taken
---@field model string its name for people

local function refuseWithoutKey(spec, asked)
  local row = asked.row
  local advice = asked.isNamed and (' and the baseUrl "%s"'):format(row.baseUrl or "of the server") or ""
  core.error("invalid_argument", ('model "%s": no API key: set the environment variable %s, or give '
    .. "moonpad.models.%s an apiKey%s"):format(asked.model, table.concat(row.keyVariables, " or "), spec.name, advice))
end

-- The environment's key belongs to the provider, and to the server that the environment names in
-- its place, which may want none. An address from the options gets the key from the options.
local function findKey(spec, asked, read, isOfEnvironment)
  if read.apiKey or read.baseUrl then return read.apiKey end
  local key, variable = providers.keyOf(asked.row)
  if key then
    options.checkKeyText(key, ("models.%s: %s"):format(spec.name, variable))
  elseif not isOfEnvironment and asked.row.needsKey ~= false then
    refuseWithoutKey(spec, asked)
  end
  return key
end

local function findBase(asked, read)
  if read.baseUrl then return read.baseUrl, false end
  local base, isOfEnvironment = providers.addressOf(asked.row, read.model)
  if not base then
    core.error("invalid_argument", ('model "%s": no address: set the environment variable %s'):format(
      asked.model, asked.row.addressVariable))
  end
  return base, isOfEnvironment
end

-- Which provider the given model is of; of a name that says it, another address is still a server
-- of that provider's kind.
local function askedProvider(spec, model, row)
  local own = providers.named(spec.provider)
  if not row or row == own then return { row = own, model = model } end
  return { row = row, isNamed = true, model = row.name .. "/" .. model }
end

---@class moonpad.ModelSettings
---@field spec moonpad.ProviderAdapter
---@field model string
---@field baseUrl string
---@field query string? to be added to each address
---@field server string scheme, host and port
---@field provider moonpad.Provider? the row of this server; nil: nobody knows it
---@field quirks moonpad.ProviderQuirks
---@field apiKey string|(fun(): string)|nil
---@field headers table<string, string> the user's, names in lower case
---@field stream boolean
---@field attempts integer
---@field maxBytes integer of one answer

---Reads what a user gave to an adapter.
---@param spec moonpad.ProviderAdapter
---@param given moonpad.ModelOptions
---@param row moonpad.Provider? that the name of the model has said
---@return moonpad.ModelSettings
function options.read(spec, given, row)
  local where = "models." .. spec.name
  local known = spec.apis and FIELDS or FIELDS:without "api"
  if type(given) ~= "table" then fields.refuse(where, "expected a table of options, got " .. type(given)) end
  known:checkNames(given, where)
  local read = known:read(given, where)
  local asked = askedProvider(spec, read.model, row)
  local base, isOfEnvironment = findBase(asked, read)
  local source = read.baseUrl and where .. ".baseUrl" or ("%s: %s"):format(where, asked.row.addressVariable)
  local address, query = splitAddress(source, base, asked.row.baseUrl or "https://name.example")
  local provider = providers.ofAddress(address) or asked.isNamed and asked.row or nil
  return {
    spec = spec, model = read.model, api = read.api, baseUrl = address, query = query,
    server = options.serverOf(address), provider = provider, quirks = provider and provider.quirks or {},
    apiKey = findKey(spec, asked, read, isOfEnvironment), headers = read.headers, stream = read.stream,
    timeoutMs = read.timeoutMs, idleTimeoutMs = read.idleTimeoutMs, caFile = read.caFile,
    attempts = read.maxRetries + 1,
    maxBytes = read.maxResponseBytes > 0 and read.maxResponseBytes or math.maxinteger,
  }
end

return options
