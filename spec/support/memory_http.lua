--- Requests answered from memory, in place of a server: a spec says which bytes come, and in which
--- pieces. On a connection that is never certain, and it would take much longer.
local http = require "moonpad.http"

local memory = {}

---@class spec.Reply
---@field status integer? default 200
---@field mime string
---@field pieces string[] of the body, as they come

local Job = {}
Job.__index = Job
Job.__close = function() end

function Job:wait()
  return self.status
end

function Job:receive()
  self.position = self.position + 1
  return self.pieces[self.position]
end

function Job:collect()
  return table.concat(self.pieces), false
end

function Job.close() end
Job.release = Job.close

---Runs `act` while each request gets one of the replies, in their order, and the last one again.
---@param replies spec.Reply[]
---@param act fun()
---@return table[] requests the options of each, with the body as one text
function memory.serve(replies, act)
  local real, requests = http.request, {}
  function http.request(options)
    requests[#requests + 1] = options
    -- A long one comes in pieces.
    if type(options.body) == "table" then options.body = table.concat(options.body) end
    local reply = replies[#requests] or replies[#replies]
    return setmetatable({
      status = reply.status or 200, headers = { ["content-type"] = reply.mime }, attempts = 1,
      pieces = reply.pieces, position = 0,
    }, Job)
  end
  local ok, problem = pcall(act)
  http.request = real
  if not ok then error(problem, 0) end
  return requests
end

return memory
