--- The three services of a runner on one store.
local open = require "moonpad.services.open"

local OPENERS = {
  { "sessionService", open },
  { "artifactService", function(url) return require("moonpad.services.artifacts").open(url) end },
  { "memoryService", function(url) return require("moonpad.services.memory").open(url) end },
}

local function openEach(url, opened)
  for index, opener in ipairs(OPENERS) do opened[index] = opener[2](url) end
end

---@param url string
---@return table<string, table> services by the names of a runner's fields
---@return table[] opened the same, in the order in which they are to be closed
return function(url)
  local opened = {}
  local ok, err = pcall(openEach, url, opened)
  local services, order = {}, {}
  for index = #opened, 1, -1 do
    services[OPENERS[index][1]] = opened[index]
    order[#order + 1] = opened[index]
  end
  if ok then return services, order end
  for _, service in ipairs(order) do service:close() end
  error(err, 0)
end
