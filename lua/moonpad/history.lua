--- The history of a session: reading its events, and what rewinds took back of them.
local content = require "moonpad.content"
local core = require "moonpad.core"

local history = {}

-- Events between two occasions for others to go on.
history.BATCH = 100

local function at(list, index)
  return list[index]
end

---An event of a list, without nulls in its parts. One that was trimmed away since the session was read is one that has
---nothing to say.
---@param list table the events of a session, or a table of events
---@param index integer
---@return moonpad.Event|{ revision: integer }
function history.read(list, index)
  local ok, event = pcall(at, list, index)
  if ok then
    content.clean(event.content)
    return event
  end
  if core.isError(event) and event.code == "not_found" then return { revision = 0 } end
  error(event, 0)
end

---The invocation that an event rewinds to; nil when it is no rewind.
---@param event table
---@return string?
function history.rewindTarget(event)
  local target = type(event.actions) == "table" and event.actions.rewindBeforeInvocationId
  return type(target) == "string" and target or nil
end

-- What an invocation begins with that is not in view: it lies before, unless all there is can be seen.
local function beyond(list, index)
  local showsAll = history.read(list, 1).revision == 1
  return showsAll and index or 1, not showsAll
end

---Which events of a session's end (its last events, or all) rewinds took back, those of the rewinds included: a rewind
---takes back all between it and the first event of the invocation that it names, earlier rewinds as well.
---@param list table the events of a session, or a table of events
---@param count integer how many
---@param pause (fun())? called now and then
---@return table<integer, true> rewound by index
---@return boolean reachesBeyond some have taken back events before those in view
function history.rewound(list, count, pause)
  local targets, firstOf = {}, {}
  for index = 1, count do
    local event = history.read(list, index)
    targets[index] = history.rewindTarget(event)
    if event.invocationId then firstOf[event.invocationId] = firstOf[event.invocationId] or index end
    if pause and index % history.BATCH == 0 then pause() end
  end
  local rewound, reachesBeyond, index = {}, false, count
  while index >= 1 do
    if targets[index] then
      local first = firstOf[targets[index]]
      -- No event can name what comes after it.
      if not first or first > index then
        local isBeyond
        first, isBeyond = beyond(list, index)
        reachesBeyond = reachesBeyond or isBeyond
      end
      for position = first, index do rewound[position] = true end
      index = first
    end
    index = index - 1
  end
  return rewound, reachesBeyond
end

return history
