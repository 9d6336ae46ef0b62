--- When to try again: which failures, after how long.
local core = require "moonpad.core"

local retry = {}

-- Failures of which another attempt may know nothing.
local KINDS = { resolve = true, connect = true, transfer = true, timeout = true }

---@param kind string of a failure
---@return boolean
function retry.isWorthKind(kind)
  return KINDS[kind] == true
end

-- A request that took too long, one that met another one, and too many requests.
local STATUSES = { [408] = true, [409] = true, [429] = true }

---@param status integer
---@param headers table<string, string>
---@return boolean
function retry.isWorthAnswer(status, headers)
  -- Servers that know say so, whatever the error.
  local said = status >= 400 and (headers["x-should-retry"] or ""):lower()
  if said == "true" or said == "false" then return said == "true" end
  return STATUSES[status] or status >= 500 and status <= 599
end

-- From 0 to 1. The generator of the Lua state belongs to the host: its sequence may matter to
-- a game.
local function random()
  return tonumber(core.uuid4():sub(1, 8), 16) / 0xFFFFFFFF
end

---Between half of it and all of it, so that clients who failed together do not come back together.
---@param plan table
---@param attempt integer the one that has just failed
---@return number seconds
function retry.backoff(plan, attempt)
  local full = math.min(plan.retryDelayMs * 2.0 ^ (attempt - 1), plan.maxRetryDelayMs)
  return full * (0.5 + 0.5 * random()) / 1000
end

---@param headers table<string, string>
---@param after number? seconds, what libcurl has read in Retry-After
---@return number? seconds that the server asks to wait
function retry.after(headers, after)
  local milliseconds = tonumber(headers["retry-after-ms"])
  return milliseconds and milliseconds >= 0 and milliseconds / 1000 or after
end

return retry
