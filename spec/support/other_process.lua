--- A service in another process (spec/helpers/serve_lines.lua): its calls are made there, by the
--- clock of here. Sessions are what they showed after the last call, their events what they were
--- when they were got.
local moonpad = require "moonpad"
local support = require "spec.support"

local quote = support.quote

local Session = {}
Session.__index = Session

local function update(session, shown)
  session.number, session.id, session.revision = shown.session, shown.id, shown.revision
  session.conversationCount = shown.conversationCount
  session.state = { toTable = function() return shown.state end }
  return session
end

local function new(shown)
  local session = update(setmetatable({ events = {} }, Session), shown)
  for index, text in ipairs(shown.texts) do session.events[index] = { text = function() return text end } end
  return session
end

local function take(value)
  if type(value) ~= "table" then return value end
  if value.texts then return new(value) end
  for index, of in ipairs(value) do value[index] = take(of) end
  return value
end

local function give(value)
  if value == moonpad.removed then return { isRemoved = true } end
  if type(value) ~= "table" then return value end
  local given = {}
  for key, of in pairs(value) do given[key] = give(of) end
  return given
end

local Service = {}

function Service:close()
  self.calls:close()
  self.answers:close()
end

function Service:__index(method)
  if method == "close" then return Service.close end
  return function(_, first, second)
    local request = { method = method, now = self.clock:now() }
    if getmetatable(first) == Session then
      request.session, request.argument = first.number, give(second)
    else
      request.argument = give(first)
    end
    self.calls:write(moonpad.json.encode(request), "\n")
    self.calls:flush()
    local answer = moonpad.json.decode(assert(self.answers:read "l", "the other process has ended"))
    if answer.code then error(answer, 0) end
    if answer.session then update(first, answer.session) end
    return take(answer.result)
  end
end

---@param url string
---@param config table of `moonpad.open`, with a clock
---@return table service
return function(url, config)
  local given = {}
  for name, value in pairs(config) do if name ~= "clock" then given[name] = value end end
  local pipe = support.tmpdir() .. "/calls"
  assert(os.execute("mkfifo " .. quote(pipe)))
  local words = { "env", "LUA_PATH=" .. quote(package.path), "LUA_CPATH=" .. quote(package.cpath),
    "lua5.4 spec/helpers/serve_lines.lua", quote(url), quote(moonpad.json.encode(given)), "<", quote(pipe) }
  local answers = assert(io.popen(table.concat(words, " "), "r"))
  return setmetatable({ answers = answers, calls = assert(io.open(pipe, "w")), clock = config.clock }, Service)
end
