--- All that a service shows of its apps, as text: to compare what two versions, or two stores, make
--- of the same.
local moonpad = require "moonpad"

local encode = moonpad.json.encode

local LONG, LONGEST_UNIT = 100, 16

-- A long text that says the same again and again.
local function shorten(text)
  for length = 1, #text > LONG and LONGEST_UNIT or 0 do
    local unit = text:sub(1, length)
    local count = #text // length
    if unit:rep(count) == text then return ("%s (%d times)"):format(unit, count) end
  end
end

local function sessionsInOrder(service, appName)
  local names, reversed = {}, {}
  for _, listed in ipairs(service:listSessions { appName = appName }) do
    names[#names + 1] = { appName = appName, userId = listed.userId, sessionId = listed.id }
  end
  for _, listed in ipairs(service:listSessions { appName = appName, order = "newest" }) do
    table.insert(reversed, 1, { appName = appName, userId = listed.userId, sessionId = listed.id })
  end
  assert(encode(names) == encode(reversed), "the newest first is not the oldest first reversed")
  return names
end

---@param service moonpad.Service
---@param users { appName: string, userId: string }[] whose state is asked for; their apps are those that are told of
---@return string
local function dump(service, users)
  local lines = {}
  local function say(what, value) lines[#lines + 1] = what .. " " .. encode(value):gsub("[%w ]+", shorten) end

  local function tellSession(name)
    local session = service:getSession(name)
    say("session", { name, session.revision, session.conversationCount, session.createTime, session.lastUpdateTime })
    say("  state", session.state:getAll())
    for index, event in ipairs(session.events) do
      say(("  event %d"):format(event.revision), event)
      assert(event.revision == index)
    end
    for revision = 0, session.revision do say(("  at %d"):format(revision), service:stateAt(session, revision)) end
  end

  local told = {}
  for _, user in ipairs(users) do
    if not told[user.appName] then
      told[user.appName] = true
      say("app " .. encode(user.appName), service:getAppState { appName = user.appName })
      for _, name in ipairs(sessionsInOrder(service, user.appName)) do tellSession(name) end
    end
    say("user " .. encode(user), service:getUserState(user))
  end
  return table.concat(lines, "\n") .. "\n"
end

return dump
