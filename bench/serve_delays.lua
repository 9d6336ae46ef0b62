-- Reads what curl has traced of many streams, and tells by how much each token came later than it
-- was to.
--   lua5.4 bench/serve_delays.lua TRACE TOKENS
local path, expected = arg[1], math.tointeger(tonumber(arg[2]))

local delays, received, block = {}, nil, {}

-- The tokens of what was received at once. (A whole answer says all of them once more.) curl writes
-- the time of day with the fraction of a second of the clock that never goes back.
local function take()
  local text = table.concat(block)
  block = {}
  if not received then return end
  for due in text:gmatch [["text":"@(%d+%.%d+)@ "]] do
    local delay = (received - due) % 1
    delays[#delays + 1] = (delay > 0.9 and delay - 1 or delay) * 1000
  end
end

for line in io.lines(path) do
  local seconds, what = line:match "^%d+:%d+:([%d.]+) (.*)$"
  if seconds then
    take()
    received = what:find "^<= Recv data" and tonumber(seconds) or nil
  elseif received then
    block[#block + 1] = line:match "^%x+: (.*)$" or ""
  end
end
take()
table.sort(delays)
local function quantile(part) return delays[math.max(1, math.ceil(part * #delays))] or 0 end
print(("tokens %d of %d; delay p50 %.2f ms, p90 %.2f ms, p99 %.2f ms, worst %.2f ms"):format(#delays, expected,
  quantile(0.5), quantile(0.9), quantile(0.99), quantile(1)))
