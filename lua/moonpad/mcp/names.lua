--- The names under which models see the tools of a server. Servers have names of any kind;
--- providers take letters, digits, _ and -, at most 64 of them.
local toolNames = require "moonpad.tools.name"

local names = {}

local MAX_BYTES = toolNames.MAX_BYTES

local function withNumber(name, number)
  local ending = "_" .. number
  return name:sub(1, MAX_BYTES - #ending) .. ending
end

---The name shown for each name of a server's: with the prefix, what does not fit replaced by _ and
---cut off. Where that makes two the same, the later one gets a number.
---@param list string[] the server's names, each once
---@param prefix string
---@return table<string, string> shown
function names.shown(list, prefix)
  local shown, taken = {}, {}
  -- What fits as it is keeps its name, wherever it stands.
  for _, name in ipairs(list) do
    local whole = prefix .. name
    if toolNames.fitted(whole) == whole then shown[name], taken[whole] = whole, true end
  end
  for _, name in ipairs(list) do
    if not shown[name] then
      local fitted, number = toolNames.fitted(prefix .. name), 1
      local candidate = fitted
      while taken[candidate] do
        number = number + 1
        candidate = withNumber(fitted, number)
      end
      shown[name], taken[candidate] = candidate, true
    end
  end
  return shown
end

return names
