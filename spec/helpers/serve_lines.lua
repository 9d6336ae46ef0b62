--- A service in a process of its own, for spec/support/other_process.lua:
---   lua5.4 serve_lines.lua URL CONFIG
-- Each line that it reads is a call, as JSON, and each one that it writes is the answer.
local moonpad = require "moonpad"

local clock = moonpad.testing.clock(0)
local config = moonpad.json.decode(arg[2])
config.clock = clock
local service = moonpad.open(arg[1], config)
local sessions = {}

-- What the caller has of a session; without its events, which may have been trimmed.
local function shown(session, number)
  return {
    session = number, id = session.id, state = session.state:toTable(), revision = session.revision,
    conversationCount = session.conversationCount,
  }
end

local function textsOf(session)
  local texts = {}
  for index, event in ipairs(session.events) do texts[index] = event:text() end
  return moonpad.array(texts)
end

local function give(value)
  if type(value) == "userdata" then
    sessions[#sessions + 1] = value
    local given = shown(value, #sessions)
    given.texts = textsOf(value)
    return given
  elseif type(value) == "table" and type(value[1]) == "userdata" then
    local list = {}
    for index, session in ipairs(value) do list[index] = give(session) end
    return list
  end
  return value
end

-- JSON has no word for what is removed.
local function take(value)
  if type(value) ~= "table" then return value end
  if value.isRemoved then return moonpad.removed end
  local taken = {}
  for key, of in pairs(value) do taken[key] = take(of) end
  return taken
end

local function call(request)
  local session = sessions[request.session]
  local result
  if session then
    result = service[request.method](service, session, take(request.argument))
  else
    result = service[request.method](service, take(request.argument))
  end
  local answer = { session = session and shown(session, request.session) }
  -- An event is of no use over there.
  if request.method ~= "appendEvent" and request.method ~= "refresh" then answer.result = give(result) end
  return answer
end

io.stdout:setvbuf "line"
for line in io.lines() do
  local request = moonpad.json.decode(line)
  clock:set(request.now)
  local ok, answer = pcall(call, request)
  if not ok then answer = { code = answer.code or "none", message = tostring(answer) } end
  print(moonpad.json.encode(answer))
end
