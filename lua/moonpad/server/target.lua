--- The target of a request: its path, segment by segment, and its query.
local failure = require "moonpad.server.failure"

local target = {}

local function decoded(text, what)
  local bad = text:find "%%%X" or text:find "%%.?$" or text:find "%%%x%X"
  if bad then failure.raise(400, "%s: a bad escape at byte %d", what, bad) end
  local result = text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
  if not utf8.len(result) then failure.raise(400, "%s: not valid UTF-8", what) end
  if result:find "\0" then failure.raise(400, "%s: a NUL byte", what) end
  return result
end

---The segments of a path, each decoded by itself: a slash in a name is none between two.
---@param path string
---@return string[]
function target.segments(path)
  local list = {}
  for segment in path:sub(2):gmatch "[^/]+" do list[#list + 1] = decoded(segment, "path") end
  -- A path that ends in a slash has an empty last segment.
  if path:sub(-1) == "/" and #path > 1 then list[#list + 1] = "" end
  return list
end

---@param text string? what stands behind the question mark
---@return table<string, string>
function target.query(text)
  local fields = {}
  for pair in (text or ""):gmatch "[^&]+" do
    local name, value = pair:match "^([^=]*)=?(.*)$"
    fields[decoded(name:gsub("%+", " "), "query")] = decoded(value:gsub("%+", " "), "query")
  end
  return fields
end

---@param text string
---@return string path
---@return string? query
function target.split(text)
  local path, query = text:match "^([^?#]*)%??([^#]*)"
  return path, query ~= "" and query or nil
end

return target
