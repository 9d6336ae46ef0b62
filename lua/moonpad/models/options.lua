--- The options of models behind HTTP: what users give, and what the environment adds.
local callable = require "moonpad.util.callable"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local providers = require "moonpad.models.providers"

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

-- What a header may be called, by RFC 9110.
local HEADER_NAME = "^[%w!#$%%&'*+%-.^_`|~]+$"

local function checkHeaders(headers, where)
  if type(headers) ~= "table" then fields.refuse(where, "expected a table, got " .. fields.describe(headers)) end
  for name, value in pairs(headers) do
    if type(name) ~= "string" or not name:find(HEADER_NAME) then
      fields.refuse(where, ("%s is no name of a header"):format(tostring(name)))
    elseif type(value) ~= "string" or value:find "[\r\n%z]" then
      fields.refuse(where, ("%s: expected a string of one line"):format(name))
    end
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
  { "timeoutMs", FROM_0 },
  { "idleTimeoutMs", FROM_0 },
  { "maxRetries", FROM_0, default = 3 },
  { "headers", checkHeaders, default = {} },
  { "caFile", "string" },
  { "maxResponseBytes", FROM_0, default = DEFAULT_MAX_RESPONSE },
}:describes "moonpad.ModelOptions"

-- The address without what stands behind "?", and that.
local function splitAddress(where, base, example)
  local address, query = base:match "^([^?]*)%??(.*)$"
  if not address:lower():find "^https?://[^/#@]+" or base:find "[%c%s#]" then
    fields.refuse(where, "expected an address like " .. example)
  end
  if address:match "^%a+://([^/]*)":find("@", 1, true) then
    fields.refuse(where, "must not contain a user or a password; give apiKey or headers")
  end
  return address:gsub("/+$", ""), query ~= "" and query or nil
end

---Scheme, host and port: what tells one server from another.
---@param address string
---@return string
function options.serverOf(address)
  local scheme, host = address:lower():match "^(%a+)://([^/?]*)"
  return scheme .. "://" .. host:gsub(scheme == "https" and ":443$" or ":80$", "")
end

---Refuses a model whose key is nowhere.
---@param model string its name
---@param adapter string
---@param variables string[] of the environment, that could hold it
function options.refuseWithoutKey(model, adapter, variables)
  core.error("invalid_argument", ('model "%s": no API key: set the environment variable %s, or give '
    .. "moonpad.models.%s an apiKey"):format(model, table.concat(variables, " or "), adapter))
end

-- The environment's key belongs to the provider, and to the server that the environment names in
-- its place, which may want none. An address from the options gets the key from the options.
local function findKey(spec, row, read, isOfEnvironment)
  if read.apiKey or read.baseUrl then return read.apiKey end
  local key, variable = providers.keyOf(row)
  if key then
    options.checkKeyText(key, ("models.%s: %s"):format(spec.name, variable))
  elseif not isOfEnvironment then
    options.refuseWithoutKey(read.model, spec.name, row.keyVariables)
  end
  return key
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
---@return moonpad.ModelSettings
function options.read(spec, given)
  local where = "models." .. spec.name
  local known = spec.apis and FIELDS or FIELDS:without "api"
  if type(given) ~= "table" then fields.refuse(where, "expected a table of options, got " .. type(given)) end
  known:checkNames(given, where)
  local read = known:read(given, where)
  local row = providers.named(spec.provider)
  local base, isOfEnvironment = read.baseUrl, false
  if not base then base, isOfEnvironment = providers.addressOf(row, read.model) end
  local source = read.baseUrl and where .. ".baseUrl" or ("%s: %s"):format(where, row.addressVariable)
  local address, query = splitAddress(source, base, row.baseUrl)
  local headers = {}
  for name, value in pairs(read.headers) do headers[name:lower()] = value end
  local provider = providers.ofAddress(address)
  return {
    spec = spec, model = read.model, api = read.api, baseUrl = address, query = query,
    server = options.serverOf(address), provider = provider, quirks = provider and provider.quirks or {},
    apiKey = findKey(spec, row, read, isOfEnvironment), headers = headers, stream = read.stream,
    timeoutMs = read.timeoutMs, idleTimeoutMs = read.idleTimeoutMs, caFile = read.caFile,
    attempts = read.maxRetries + 1,
    maxBytes = read.maxResponseBytes > 0 and read.maxResponseBytes or math.maxinteger,
  }
end

return options
