--- A model by its name alone: which provider it is, which adapter speaks to it, and where its key
--- is.
local core = require "moonpad.core"
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

local function names()
  local known, behind = {}, {}
  for _, row in ipairs(providers.ROWS) do known[#known + 1], behind[#behind + 1] = row.known, row.name end
  return known, behind
end

-- What may have been meant: "opnai/gpt-5", "openai:gpt-5", "openai/".
local function advise(name, rows)
  local first, sign, rest = name:match "^([%w._-]+)([/:])(.*)$"
  if not first then
    return providers.named(name) and ('behind it the name of a model is missing: "%s/..."'):format(name) or nil
  end
  local nearest = providers.named(first) and first or core.nearestName(first, rows)
  if rest == "" and nearest then return ('the name of a model is missing behind "%s/"'):format(nearest) end
  if nearest then return ('did you mean "%s/%s"?'):format(nearest, rest) end
  return sign == "/" and ('no provider is called "%s"; there are %s'):format(first, table.concat(rows, ", ")) or nil
end

local function refuseUnknown(name)
  local known, rows = names()
  local advice = advise(name, rows)
  if advice then
    core.error("invalid_argument", ('model "%s": no model of that name is known: %s'):format(name, advice))
  end
  local message = 'model "%s": no provider is known for this name. Known are %s; other names have their provider in '
    .. 'front, as in "ollama/%s" (`moonpad models` lists them). For a server that speaks like OpenAI set '
    .. 'OPENAI_BASE_URL, or give an object: moonpad.models.openai{ model = "%s", baseUrl = "http://..." }'
  return core.error("invalid_argument",
    message:format(name, table.concat(known, ", "), name:find "%S" and name or "name", name))
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
  local row, adapter = found.provider, adapterOf(found.provider)
  local address = providers.addressOf(row, found.model)
  local server = address and providers.ofAddress(address) or row.name ~= adapter.provider and row or nil
  local settings = { model = found.model, provider = server, quirks = server and server.quirks or {} }
  return adapter.takesSchema(settings, schema, hasTools)
end

---Makes the model of that name, with the key and the address from the environment.
---@param name string
---@return moonpad.HttpModel
function resolve.model(name)
  local found = resolve.find(name)
  return adapterOf(found.provider).new({ model = found.model }, found.provider)
end

return resolve
