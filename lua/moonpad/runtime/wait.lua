--- What a step waits for: noted by moonpad's own waits while it is made, so that an event loop
--- knows when the next step has something to do.
---@class moonpad.Wait
---@field deadline number when to step again in any case (core.monotonic)
---@field isBlind boolean somebody waits for what only he knows: nothing but a step tells
---@field isForNews boolean anything that a source of wake_sources tells may be it
---@field asksStore boolean a store is asked, or another run comes first: the service's descriptor tells
---@field jobs { isReady: fun(self): boolean }[]
local Wait = {}
Wait.__index = Wait

local waits = {}

---@return moonpad.Wait
function waits.new()
  return setmetatable({ deadline = math.huge, isBlind = false, isForNews = false, asksStore = false, jobs = {} }, Wait)
end

---Forgets what earlier steps have noted.
function Wait:clear()
  self.deadline, self.isBlind, self.isForNews, self.asksStore = math.huge, false, false, false
  for index = #self.jobs, 1, -1 do self.jobs[index] = nil end
end

---@param deadline number
function Wait:untilTime(deadline)
  if deadline < self.deadline then self.deadline = deadline end
end

---@param job { isReady: fun(self): boolean }
function Wait:forJob(job)
  self.jobs[#self.jobs + 1] = job
end

---Has one of the jobs something to tell?
---@return boolean
function Wait:hasReadyJob()
  for _, job in ipairs(self.jobs) do
    if job:isReady() then return true end
  end
  return false
end

return waits
