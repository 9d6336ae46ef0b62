--- What specs of child processes ask the system.
local support = require "spec.support"

local processes = {}

local function read(path)
  local file <close> = io.open(path, "rb")
  return file and file:read "a"
end

---Is there such a process, be it a zombie?
function processes.exists(pid)
  return read(("/proc/%d/stat"):format(pid)) ~= nil
end

---Is it there, and more than a zombie? Orphans are reaped when it pleases the system.
function processes.lives(pid)
  local state = (read(("/proc/%d/stat"):format(pid)) or ""):match "^%d+ %b() (%S)"
  return state ~= nil and state ~= "Z"
end

---Waits until a process is gone for good.
function processes.awaitEnd(pid)
  support.waitUntil("the end of process " .. pid, function() return not processes.exists(pid) end)
end

---Waits until a process does nothing any more.
function processes.awaitDeath(pid)
  support.waitUntil("the death of process " .. pid, function() return not processes.lives(pid) end)
end

---The children of a process, zombies included.
---@return integer[]
function processes.childrenOf(pid)
  local list = {}
  for child in (read(("/proc/%d/task/%d/children"):format(pid, pid)) or ""):gmatch "%d+" do
    list[#list + 1] = math.tointeger(child)
  end
  return list
end

---The process that runs this spec.
---@return integer
function processes.own()
  return math.tointeger(read "/proc/self/stat":match "^%d+")
end

---How many descriptors this process has. Whoever counts may be quicker than this process is with
---closing its end of the pipe to them, so the lowest of some counts is the right one.
---@return integer
function processes.descriptors()
  local lowest = math.huge
  for _ = 1, 5 do
    local pipe <close> = assert(io.popen(("ls /proc/%d/fd"):format(processes.own())))
    local _, count = pipe:read "a":gsub("\n", "")
    lowest = math.min(lowest, count)
  end
  return lowest
end

---Starts a program in Lua in a process of its own.
---@param code string
---@param before string? what stands before the command in the shell
---@return file* output
function processes.start(code, before)
  local command = ("%s LUA_PATH=%s LUA_CPATH=%s lua5.4 -e %s 2>&1"):format(before or "", support.quote(package.path),
    support.quote(package.cpath), support.quote(code))
  return assert(io.popen(command))
end

---Runs a program in Lua in a process of its own.
---@param code string
---@param before string? what stands before the command in the shell
---@return string output
function processes.lua(code, before)
  local pipe <close> = processes.start(code, before)
  return pipe:read "a"
end

return processes
