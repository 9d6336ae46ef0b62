--- An error answer after which there may be another attempt: what it says is read, as far as the
--- advice of the caller needs it.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"

local errorAnswer = {}

-- So much is read, and waited for so long.
local MAX_BYTES, MAX_SECONDS = 65536, 2

---@class moonpad.HttpErrorAnswer
---@field status integer
---@field headers table<string, string>
---@field deadline number (core.monotonic) then the advice is asked with what there is
---@field private parts string[] of the body, so far
---@field private length integer of all of them
local ErrorAnswer = {}
ErrorAnswer.__index = ErrorAnswer

---@param status integer
---@param headers table<string, string>
---@return moonpad.HttpErrorAnswer
function errorAnswer.new(status, headers)
  local self = { status = status, headers = headers, deadline = core.monotonic() + MAX_SECONDS, parts = {}, length = 0 }
  return setmetatable(self, ErrorAnswer)
end

---Reads on, without waiting.
---@param request userdata
---@return boolean isEnough
function ErrorAnswer:read(request)
  local isDone = request:done()
  local chunk = request:read()
  while chunk do
    self.parts[#self.parts + 1], self.length = chunk, self.length + #chunk
    chunk = self.length < MAX_BYTES and request:read()
  end
  return isDone or self.length >= MAX_BYTES or core.monotonic() >= self.deadline
end

---@return string? body as much of it as has been read
function ErrorAnswer:body()
  return #self.parts > 0 and table.concat(self.parts) or nil
end

---Asks the caller's function (`retryAdvice` of http.request).
---@param ask function
---@return number|false|nil advice
---@return string? problem of the function
function ErrorAnswer:advice(ask)
  local ok, advice = pcall(ask, self.status, self.headers, (self:body() or ""):sub(1, MAX_BYTES))
  if not ok then return nil, "retryAdvice: " .. errorText.of(advice) end
  if advice == nil or advice == false or type(advice) == "number" and advice >= 0 then return advice end
  return nil, "retryAdvice: expected seconds, false or nil, got " .. errorText.show(advice)
end

return errorAnswer
