--- Closing a runner: its runs, the toolsets of its agents, and the services that it has opened
--- itself.
local core = require "moonpad.core"
local methodOf = require "moonpad.util.method_of"
local runs = require "moonpad.runtime.run"
local toolsets = require "moonpad.agents.toolsets"

local closing = {}

-- closed runner -> what is still to be closed: { toolsets, services }.
local restOf = setmetatable({}, { __mode = "k" })

---Raises `closed` where the runner is.
---@param runner moonpad.Runner
---@param where string for messages
function closing.check(runner, where)
  if restOf[runner] then core.error("closed", where .. ": this runner is closed") end
end

-- An error of one must not keep the others open.
local function closeEach(list, failures)
  while #list > 0 do
    local object = table.remove(list, 1)
    local close = methodOf(object, "close")
    local ok, err = true, nil
    if close then ok, err = pcall(close, object) end
    if not ok then failures[#failures + 1] = { err = err } end
  end
end

local function cancelRuns(runner, isMeant)
  for _, run in ipairs(runs.of(runner)) do
    if isMeant(run) then runs.cancel(run) end
  end
end

local function isElsewhere(run) return not runs.isOnStack(run) end

local function isAny() return true end

---Closes a runner; the first error is raised when all is closed. A run that is calling this is
---cancelled after the toolsets are closed, for closing them may have to wait in it.
---@param runner moonpad.Runner
---@param opened table[] the services that it has opened
function closing.close(runner, opened)
  local rest = restOf[runner]
  if not rest then
    rest = { toolsets = toolsets.of(runner.agent), services = table.move(opened, 1, #opened, 1, {}) }
    restOf[runner] = rest
  end
  local failures = {}
  cancelRuns(runner, isElsewhere)
  closeEach(rest.toolsets, failures)
  cancelRuns(runner, isAny)
  closeEach(rest.services, failures)
  if failures[1] then error(failures[1].err, 0) end
end

return closing
