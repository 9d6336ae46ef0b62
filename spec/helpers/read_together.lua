--- A reader beside the writers of write_together.lua: lua5.4 read_together.lua URL SESSION REVISION
-- Reads in every way until the session has reached REVISION, and fails when it ever sees a part of
-- an event. Prints how often it looked.
local moonpad = require "moonpad"

local url, sessionId, until_ = arg[1], arg[2], tonumber(arg[3])
local service = moonpad.open(url, { busyTimeoutMs = 600000 })
local name = { appName = "app", userId = "u", sessionId = sessionId }
local kept, last, looks = service:getSession(name), 0, 0

-- Returns the revision, once all that the object shows belongs to it.
local function whole(session, how)
  local all = session.state:getAll()
  local revision, sum = session.revision, 0
  for key, value in pairs(all) do
    local own = key:match "^of .*"
    if own then
      sum = sum + value
      assert(value == all["user:" .. own] and value == all["app:" .. own], how .. ": " .. key .. " is torn")
    end
  end
  for _, prefix in ipairs { "", "user:", "app:" } do
    assert((all[prefix .. "n"] or 0) == revision, how .. ": " .. prefix .. "n is not of this revision")
  end
  assert(sum == revision, how .. ": the writers' own keys are not of this revision")
  assert(revision >= last, how .. ": went back")
  last = revision
  return revision
end

repeat
  local session = service:getSession(name)
  local revision = whole(session, "getSession")
  assert(#session.events == revision, "the events are not those of the revision")
  if revision > 0 then
    local event = session.events[revision]
    local delta = event.actions.stateDelta
    assert(event.revision == revision and delta.n == revision and delta["user:n"] == revision
      and delta["app:n"] == revision, "a part of an event")
  end
  whole(service:refresh(kept), "refresh")
  whole(service:listSessions({ appName = "app" })[1], "listSessions")
  whole(service:listSessions({ appName = "app", userId = "u", limit = 1, order = "newest" })[1], "a page")
  local user = service:getUserState { appName = "app", userId = "u" }
  assert((user.n or 0) >= last, "getUserState went back")
  looks = looks + 1
until last >= until_
service:close()
print(looks)
