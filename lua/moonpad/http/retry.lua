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

---@param status integer
---@return boolean
function retry.isWorthStatus(status)
  return status == 429 or status >= 500 and status <= 599
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

local MONTHS = {
  Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9, Oct = 10, Nov = 11, Dec = 12,
}

-- Days since 1970-01-01 in the Gregorian calendar, with years that begin in March so that leap days
-- come last.
local function daysSinceEpoch(year, month, day)
  if month <= 2 then year, month = year - 1, month + 12 end
  local era = year // 400
  local yearOfEra = year - era * 400
  local dayOfYear = (153 * (month - 3) + 2) // 5 + day - 1
  return era * 146097 + yearOfEra * 365 + yearOfEra // 4 - yearOfEra // 100 + dayOfYear - 719468
end

local function integer(text)
  return math.tointeger(tonumber(text))
end

-- RFC 850 writes two digits of the year: the one that is at most 50 years ahead is meant.
local function fullYear(text)
  local year = integer(text)
  if #text ~= 2 then return year end
  local thisYear = integer(os.date "!%Y")
  year = thisYear - thisYear % 100 + year
  return year > thisYear + 50 and year - 100 or year
end

---@param text string an HTTP date in any of its three forms (RFC 9110, 5.6.7)
---@return integer? seconds since the epoch
function retry.parseDate(text)
  local day, month, year, hour, minute, second =
    text:match "^%a+, (%d%d)[ -](%a%a%a)[ -](%d%d%d?%d?) (%d%d):(%d%d):(%d%d) GMT$"
  if not day then
    month, day, hour, minute, second, year = text:match "^%a%a%a (%a%a%a) ([ %d]%d) (%d%d):(%d%d):(%d%d) (%d%d%d%d)$"
  end
  if not day or not MONTHS[month] then return nil end
  local days = daysSinceEpoch(fullYear(year), MONTHS[month], integer(day))
  return days * 86400 + integer(hour) * 3600 + integer(minute) * 60 + integer(second)
end

---@param headers table<string, string>
---@return number? seconds that the server asks to wait
function retry.after(headers)
  local text = headers["retry-after"]
  if not text then return nil end
  text = text:match "^%s*(.-)%s*$"
  if text:find "^%d+$" or text:find "^%d+%.%d+$" then return tonumber(text) + 0.0 end
  -- A host that has no `os` has no time of day.
  local date = os and retry.parseDate(text)
  return date and math.max(date - os.time(), 0.0) or nil
end

return retry
