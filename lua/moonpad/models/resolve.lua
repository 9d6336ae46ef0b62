--- A model by its name alone: which adapter speaks to it, and where its key is.
local core = require "moonpad.core"
local httpModel = require "moonpad.models.http_model"

local resolve = {}

---@class moonpad.ModelRule
---@field patterns string[]
---@field known string for messages
---@field adapter string
---@field keyVariables string[]
---@field baseUrl string? where it is not the adapter's own
---@field addressVariable string? of the environment, with another address than the adapter's own

---@type moonpad.ModelRule[]
resolve.RULES = {
  {
    patterns = { "^gemini%-", "^models/gemini%-" }, known = "gemini-*", adapter = "gemini",
    keyVariables = { "GOOGLE_API_KEY", "GEMINI_API_KEY" },
  },
  {
    patterns = { "^deepseek%-" }, known = "deepseek-*", adapter = "openai", baseUrl = "https://api.deepseek.com",
    keyVariables = { "DEEPSEEK_API_KEY" },
  },
  {
    patterns = { "^gpt%-", "^chatgpt%-", "^o[134]$", "^o[134]%-" }, known = "gpt-*, chatgpt-*, o1*, o3*, o4*",
    adapter = "openai", keyVariables = { "OPENAI_API_KEY" }, addressVariable = "OPENAI_BASE_URL",
  },
  {
    patterns = { "^claude%-" }, known = "claude-*", adapter = "anthropic", keyVariables = { "ANTHROPIC_API_KEY" },
  },
}

-- Any other name belongs to the server that the environment names.
local OWN_SERVER = { adapter = "openai" }

local function environment(variable)
  local value = os and os.getenv(variable)
  return value ~= "" and value or nil
end

local function ruleOf(name)
  for _, rule in ipairs(resolve.RULES) do
    for _, pattern in ipairs(rule.patterns) do
      if name:find(pattern) then return rule end
    end
  end
  return environment "OPENAI_BASE_URL" and OWN_SERVER or nil
end

local function refuseUnknown(name)
  local known = {}
  for index, rule in ipairs(resolve.RULES) do known[index] = rule.known end
  local message = 'model "%s": no adapter is known for this name. Known are %s. For any other model set '
    .. "OPENAI_BASE_URL to a server that speaks like OpenAI, or give an object, such as "
    .. 'moonpad.models.openai{ model = "%s", baseUrl = "http://localhost:11434/v1" }, or a function'
  return core.error("invalid_argument", message:format(name, table.concat(known, ", "), name))
end

---Loads what a model of that name needs, so that the first step of a run does not spend its time
---on it. A name that no adapter takes is refused; whether there is a key is asked when the model
---is called.
---@param name string
function resolve.prepare(name)
  local rule = ruleOf(name) or refuseUnknown(name)
  require("moonpad.models." .. rule.adapter)
  require("moonpad.http").prepare()
end

---Makes the model of that name, with the key from the environment.
---@param name string
---@return moonpad.HttpModel
function resolve.model(name)
  if type(name) ~= "string" then
    core.error("invalid_argument", "the name of a model: expected a string, got " .. type(name))
  end
  local rule = ruleOf(name) or refuseUnknown(name)
  local options = { model = name, baseUrl = rule.baseUrl }
  -- Without an address of its own the adapter finds the key where it finds the address.
  if rule.baseUrl then
    options.apiKey = httpModel.keyOfEnvironment(rule.keyVariables)
      or httpModel.refuseWithoutKey(name, rule.adapter, rule.keyVariables)
  end
  return require("moonpad.models." .. rule.adapter).new(options)
end

return resolve
