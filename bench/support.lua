--- What the benchmarks in Lua share: the two clocks, lines of the table, figures of many samples,
--- the typical event. bench.h is the same for those in C.
local limits = require "lua_limits"

local support = {
  ---Microseconds that this thread has worked: what else runs on the machine counts less.
  worked = limits.worked,
  ---Microseconds on the wall, for what may wait.
  wall = limits.wall,
  ---The text of the typical event.
  TEXT = "Your table for two at the window is booked for half past seven, as you wished; shall I call a taxi?",
}

---The command line of a benchmark.
---@return string folder for files; exists and is empty
---@return boolean full
function support.arguments()
  return assert(arg[1], "usage: PROGRAM FOLDER 0|1, or better bench/run.sh"), arg[2] == "1"
end

---- Lines of the table: promise, work, limit, ours, ratio, promised, kept

local function figure(value, unit)
  return ("%." .. (value < 10 and 2 or value < 100 and 1 or 0) .. "f %s"):format(value, unit)
end

local PER_MICROSECOND <const> = { ms = 1e-3, us = 1, ns = 1e3 }

local function line(...) print(table.concat({ ... }, "\t")) end

local function kept(yes) return yes and "yes" or "NO" end

---Ours against the limit: at most `bound` times it. Microseconds of works that took turns: the
---figures are medians, and the ratio is the median of those of the pairs.
function support.atMost(promise, work, unit, limit, ours, bound)
  local ratios, perUnit = {}, PER_MICROSECOND[unit]
  for i = 1, #limit do ratios[i] = ours[i] / limit[i] end
  local ratio = support.median(ratios)
  line(promise, work, figure(support.median(limit) * perUnit, unit), figure(support.median(ours) * perUnit, unit),
    ("%.2fx"):format(ratio), ("<= %.4gx"):format(bound), kept(ratio <= bound))
end

---Ours against a figure.
function support.bounded(promise, work, unit, ours, bound)
  line(promise, work, "", figure(ours, unit), "", ("<= %.4g %s"):format(bound, unit), kept(ours <= bound))
end

---For the record: nothing is promised of these figures, which stand in one field.
function support.noted(promise, work, unit, ...)
  local figures = { ... }
  for i, ours in ipairs(figures) do figures[i] = figure(ours, unit) end
  line(promise, work, "", table.concat(figures, " / "), "", "", "")
end

---- Samples

---@param list number[]
---@param part number 0.5: the median
function support.percentile(list, part)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  return sorted[math.max(1, math.ceil(#sorted * part))]
end

function support.median(list) return support.percentile(list, 0.5) end

function support.mean(list)
  local sum = 0
  for _, value in ipairs(list) do sum = sum + value end
  return sum / #list
end

---- The typical event

---An id that grows with time, as UUIDv7 does; `writer` keeps those of several apart.
function support.eventId(number, writer)
  return ("019c%04x-%04x-7%03x-8%03x-%012x"):format(number >> 16 & 0xFFFF, number & 0xFFFF, number & 0xFFF, writer,
    number * 2654435761 & 0xFFFFFFFFFFFF)
end

function support.newEvent(number, writer)
  local id = support.eventId(number, writer)
  return {
    id = id, invocationId = "e-" .. id, timestamp = 1763700000.0 + number * 1e-3, author = "concierge",
    content = { role = "model", parts = { { text = support.TEXT } } },
    actions = { stateDelta = { ["app:served"] = 1000000 + number, step = 1000000 + number,
      ["user:wish"] = "taxi " .. 1000000 + number } },
  }
end

---`count` events more, many in one commit.
function support.fill(service, session, count)
  local stored, failed = 0, 0
  local function complete(some, bad) stored, failed = stored + some, failed + bad end
  for i = 1, count do
    service:appendEventAsync(session, support.newEvent(i, 0))
    if i % 1000 == 0 then complete(service:poll()) end
  end
  while stored < count do complete(service:poll(60)) end
  assert(failed == 0 and session.revision >= count, "filling the history")
end

return support
