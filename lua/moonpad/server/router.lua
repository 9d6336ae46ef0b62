--- Which handler answers a request.
local router = {}

---@class moonpad.server.Route
---@field method string
---@field parts { literal: string?, name: string?, isRest: boolean? }[]
---@field handle fun(call: moonpad.server.Call): integer, any
---@field score integer how many words of its own it has
---@field options table of a route: see `add`

---@class moonpad.server.Router
---@field package routes moonpad.server.Route[]
local Router = {}
Router.__index = Router

---@return moonpad.server.Router
function router.new()
  return setmetatable({ routes = {} }, Router)
end

local function partOf(text)
  local name = text:match "^{(.-)%*?}$"
  if not name then return { literal = text } end
  return { name = name, isRest = text:sub(-2) == "*}" }
end

---Adds routes: `{ METHOD, PATTERN, handler, isOpen = true? }`, those that are open to everybody. In
---a pattern `{name}` is one segment, `{name*}` the rest of the path.
---@param list table[]
function Router:add(list)
  for _, entry in ipairs(list) do
    local parts, score = {}, 0
    for text in entry[2]:gmatch "[^/]+" do parts[#parts + 1] = partOf(text) end
    if entry[2]:find "./$" then parts[#parts + 1] = { literal = "" } end
    for _, part in ipairs(parts) do score = score + (part.literal and 1 or 0) end
    self.routes[#self.routes + 1] = {
      method = entry[1], parts = parts, score = score, handle = entry[3], options = entry,
    }
  end
end

-- The names in the path; nil: it is another path.
local function match(parts, segments)
  local params = {}
  for index, part in ipairs(parts) do
    local segment = segments[index]
    if segment == nil then return nil end
    if part.isRest then
      params[part.name] = table.concat(segments, "/", index)
      return params
    end
    if part.literal and part.literal ~= segment then return nil end
    if part.name then
      if segment == "" then return nil end
      params[part.name] = segment
    end
  end
  return #segments <= #parts and params or nil
end

---Finds the route. The first one that fits counts, those with more words of their own before
---others.
---@param method string
---@param segments string[]
---@return moonpad.server.Route?
---@return table<string, string>|string[] params or, without a route, the methods that the path has
function Router:find(method, segments)
  local best, bestParams, bestScore, methods = nil, nil, -1, {}
  if method == "HEAD" then method = "GET" end
  for _, route in ipairs(self.routes) do
    local params = match(route.parts, segments)
    if params then
      if route.method ~= method then
        methods[#methods + 1] = route.method
      elseif route.score > bestScore then
        best, bestParams, bestScore = route, params, route.score
      end
    end
  end
  if best then return best, bestParams end
  return nil, methods
end

return router
