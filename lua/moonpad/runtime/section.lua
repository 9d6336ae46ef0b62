--- Sections of a run: a part of it that has a branch, a loop or an end of its own. Everything else
--- it has from the run.
local contexts = require "moonpad.runtime.context"

local sections = {}

---@class moonpad.Section: moonpad.Run
---@field parent moonpad.Run
---@field branch string? of a parallel agent, like "team.writer"
---@field loop { escalated: boolean?, hasPublished: boolean?, outer: table? }? the enclosing loop's round
---@field record { final: moonpad.Event? }? notes the last final event

---@param parent moonpad.Run
---@param fields table?
---@return moonpad.Section
function sections.open(parent, fields)
  fields = fields or {}
  fields.parent = parent
  return setmetatable(fields, { __index = parent })
end

local function isWithin(section, outer)
  while section do
    if section == outer then return true end
    section = rawget(section, "parent")
  end
  return false
end

---Ends a section before its time: nothing in it goes on, what is pending in it is dropped.
---@param section moonpad.Section
function sections.stop(section)
  section.ending = true
  local open = {}
  for phase in pairs(section.phases) do open[#open + 1] = phase end
  for _, phase in ipairs(open) do
    if isWithin(phase.invocation, section) then contexts.close(phase, "its agent has been stopped") end
  end
end

---The run that a section is a part of.
---@param section moonpad.Run
---@return moonpad.Run
function sections.runOf(section)
  while rawget(section, "parent") do section = rawget(section, "parent") end
  return section
end

---Keeps the traceback of an error that is about to leave its coroutine, or to pass a pcall.
---@param section moonpad.Run
---@param err any
---@param traceback string
function sections.noteFailure(section, err, traceback)
  local run = sections.runOf(section)
  local noted = run.innerFailure
  if not (noted and rawequal(noted.err, err)) then run.innerFailure = { err = err, traceback = traceback } end
end

return sections
