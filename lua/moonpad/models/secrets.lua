--- The keys of a call, and what takes them out of all that is shown.
local redact = require "moonpad.models.redact"

local secrets = {}

-- The values of headers that may be keys: all but the few that a provider documents as
-- something else.
local HARMLESS = { ["content-type"] = true, ["accept"] = true, ["anthropic-version"] = true, ["user-agent"] = true }

-- What stands in an address may be a key, too.
local HARMLESS_PARAMETERS = { ["api-version"] = true, alt = true }

local function secretsOf(apiKey, headers, query)
  local list = { apiKey }
  for name, value in pairs(headers) do
    if not HARMLESS[name] and type(value) == "string" then list[#list + 1] = value end
  end
  for name, value in (query or ""):gmatch "([^&=]+)=([^&]*)" do
    if not HARMLESS_PARAMETERS[name] then list[#list + 1] = value end
  end
  return list
end

-- What a model says is somebody's text: there, only what is surely a key is taken out. Servers that
-- want none get a word such as "ollama", and a header may say what the program is about.
local SHORTEST_KEY = 8
local FOR_KEYS = { "auth", "key", "token", "secret", "cookie", "password", "credential" }

---The values that are surely keys, by their names.
---@param named table<string, any> headers, or variables of an environment
---@param apiKey string? that has no name
---@return string[]
function secrets.keysOf(named, apiKey)
  local keys = { apiKey }
  for name, value in pairs(named) do
    for _, word in ipairs(FOR_KEYS) do
      if type(value) == "string" and tostring(name):lower():find(word, 1, true) then keys[#keys + 1] = value end
    end
  end
  for index = #keys, 1, -1 do
    local key = keys[index]:match "%s(%S+)$" or keys[index]
    if #key < SHORTEST_KEY then table.remove(keys, index) end
  end
  return keys
end

---@class moonpad.ModelSecrets
---@field apiKey string? of which they are
---@field said moonpad.Redactor of what a server says
---@field answered moonpad.Redactor of what a model says

---@param apiKey string?
---@param headers table<string, string> names in lower case
---@param query string? of the address
---@return moonpad.ModelSecrets
function secrets.new(apiKey, headers, query)
  return {
    apiKey = apiKey, said = redact.new(secretsOf(apiKey, headers, query)),
    answered = redact.new(secrets.keysOf(headers, apiKey)),
  }
end

return secrets
