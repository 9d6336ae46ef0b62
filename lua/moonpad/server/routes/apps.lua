--- What there is: apps, the version, and whether the server lives.
local core = require "moonpad.core"

local function namesOf(call)
  local names = core.array {}
  for name in pairs(call.server.apps) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local function describe(call, name)
  local agent = call.server.apps[name].agent
  return {
    name = name, rootAgentName = agent.name, description = agent.description or "", language = "lua",
    isComputerUse = false,
  }
end

local function list(call)
  local names = namesOf(call)
  if call.query.detailed ~= "true" then return 200, names end
  local apps = core.array {}
  for index, name in ipairs(names) do apps[index] = describe(call, name) end
  return 200, { apps = apps }
end

local function info(call)
  return 200, describe(call, call.app)
end

local VERSION = { version = (core._VERSION:gsub("^moonpad ", "")), language = "lua", language_version = "5.4" }

return {
  { "GET", "/list-apps", list },
  { "GET", "/apps/{app}/app-info", info },
  { "GET", "/version", function() return 200, VERSION end, isOpen = true },
  { "GET", "/health", function() return 200, { status = "ok" } end, isOpen = true },
}
