--- A model by its name alone: which provider it is, which adapter speaks to it, and where its key
--- is.
local core = require "moonpad.core"
local modelOptions = require "moonpad.models.options"
local providers = require "moonpad.models.providers"

local resolve = {}

---@class moonpad.ModelName
---@field provider moonpad.Provider
---@field model string what the provider calls it

-- "groq/llama-3.3-70b": the provider, and its name of the model, which may have slashes, too.
local function withProvider(name)
  local first, rest = name:match "^([^/]+)/(.+)$"
  local row = first and providers.named(first)
  return row and { provider = row, model = rest } or nil
end

local function parse(name)
  local found = withProvider(name)
  if found then return found end
  local row = providers.ofModel(name)
  -- Any other name belongs to the server that the environment names.
  if not row and providers.environment "OPENAI_BASE_URL" then row = providers.named "openai" end
  return row and { provider = row, model = name } or nil
end

local function refuseUnknown(name)
  local known, names = {}, {}
  for _, row in ipairs(providers.ROWS) do
    known[#known + 1], names[#names + 1] = row.known, row.name .. "/"
  end
  local message = 'model "%s": no adapter is known for this name. Known are %s, and names behind a provider: %s. '
    .. "For any other model set OPENAI_BASE_URL to a server that speaks like OpenAI, or give an object, such as "
    .. 'moonpad.models.openai{ model = "%s", baseUrl = "http://localhost:11434/v1" }, or a function'
  return core.error("invalid_argument",
    message:format(name, table.concat(known, ", "), table.concat(names, ", "), name))
end

---Which provider a name means.
---@param name string
---@return moonpad.ModelName
function resolve.find(name)
  if type(name) ~= "string" then
    core.error("invalid_argument", "the name of a model: expected a string, got " .. type(name))
  end
  return parse(name) or refuseUnknown(name)
end

local function adapterOf(row)
  return require("moonpad.models." .. row.adapter)
end

---Loads what a model of that name needs, so that the first step of a run does not spend its time
---on it. A name that no adapter takes is refused; whether there is a key is asked when the model
---is called.
---@param name string
function resolve.prepare(name)
  adapterOf(resolve.find(name).provider)
  require("moonpad.http").prepare()
end

---Can the answers of the model of that name be held to a schema? Asked before there need be a key.
---@param name string
---@param schema table
---@param hasTools boolean
---@return boolean
function resolve.takesSchema(name, schema, hasTools)
  local found = resolve.find(name)
  local address = providers.addressOf(found.provider, found.model)
  local server = address and providers.ofAddress(address)
  local settings = { model = found.model, provider = server, quirks = server and server.quirks or {} }
  return adapterOf(found.provider).takesSchema(settings, schema, hasTools)
end

local function refuseWithoutAddress(name, row)
  core.error("invalid_argument", ('model "%s": no address: set the environment variable %s'):format(
    name, row.addressVariable))
end

---Makes the model of that name, with the key from the environment.
---@param name string
---@return moonpad.HttpModel
function resolve.model(name)
  local found = resolve.find(name)
  local row, adapter = found.provider, adapterOf(found.provider)
  -- The adapter itself finds the address and the key of its own provider.
  if row.name == adapter.provider then return adapter.new { model = found.model } end
  local baseUrl, isOfEnvironment = providers.addressOf(row, found.model)
  if not baseUrl then refuseWithoutAddress(name, row) end
  local apiKey = providers.keyOf(row)
  if not apiKey and row.needsKey ~= false and not isOfEnvironment then
    modelOptions.refuseWithoutKey(name, row.adapter, row.keyVariables)
  end
  return adapter.new { model = found.model, baseUrl = baseUrl, apiKey = apiKey }
end

return resolve
