--- What the error of a provider says about another attempt: see `retryAdvice` of http.request.
local core = require "moonpad.core"

local retryAdvice = {}

-- Codes and types of errors that no waiting ends: somebody has to pay first.
local POINTLESS = {
  insufficient_quota = true, billing_hard_limit_reached = true, billing_not_active = true, -- OpenAI, and others
  exceeded_current_quota_error = true, -- Moonshot
  ["1113"] = true, -- Z.ai: insufficient balance
}

local function problemOf(body)
  local ok, object = pcall(core.json.decode, body)
  if not ok or type(object) ~= "table" then return nil end
  -- Gemini sends a list where a stream was asked for.
  if type(object[1]) == "table" then object = object[1] end
  return type(object.error) == "table" and object.error or object
end

-- Google's google.rpc.RetryInfo: "3.5s".
local function secondsOf(detail)
  local delay = detail.retryDelay
  return type(delay) == "string" and tonumber(delay:match "^(%d+%.?%d*)s$") or nil
end

-- Google's google.rpc.QuotaFailure. A delay stands beside the quota of a day, too.
local function isForToday(detail)
  for _, violation in ipairs(type(detail.violations) == "table" and detail.violations or {}) do
    local id = type(violation) == "table" and violation.quotaId
    if type(id) == "string" and id:find "PerDay" then return true end
  end
  return false
end

local function adviceOfGoogle(details)
  local seconds
  for _, detail in ipairs(details) do
    if type(detail) == "table" then
      if isForToday(detail) then return false end
      seconds = seconds or secondsOf(detail)
    end
  end
  return seconds
end

---@param _ integer
---@param _ table<string, string>
---@param body string
---@return number|false|nil advice seconds to wait; false: it is pointless; nil: the provider does not say
function retryAdvice.of(_, _, body)
  local problem = problemOf(body)
  if not problem then return nil end
  if POINTLESS[problem.code] or POINTLESS[problem.type] then return false end
  if type(problem.details) == "table" then return adviceOfGoogle(problem.details) end
  return nil
end

return retryAdvice
