-- A plan (store/plan.h). Checks first, then what cannot fail: a script is not rolled back.
-- KEYS: of the session head, values, revisions, events, ids of events; of the user and of the app
-- head, values, revisions; the lists of sessions of the app and of the user.
-- ARGV: session, 3 snapshots, 3 times (last used before them is refused; 0: none), most events,
-- most bytes of a value, of the event (0: any), time of use, then the event: id, time, what it is
-- about (field m), is it a message (0, 1); names in the lists; number of operations and spans;
-- kind, scope, guard, key, value of each operation; operation (0: none) and text of each span.
-- Answer: S stored, R refused, D its id is there, M no such session; then the heads, results, and
-- what others have changed (scope, key, value, revision).
local call = redis.call
local function text(n) return string.format('%.0f', n) end
local m = call('HMGET', KEYS[1], 'n', 'u', 'a', 'r', 'b', 'c', 'ct', 't', 'f', 'x')
if m[1] ~= ARGV[1] then return {'M'} end
if call('HEXISTS', KEYS[5], ARGV[12]) == 1 then return {'D'} end
local u, a = call('HMGET', KEYS[6], 'r', 'f', 'x'), call('HMGET', KEYS[9], 'r', 'f', 'x')
local values, zsets = {KEYS[2], KEYS[7], KEYS[10]}, {KEYS[3], KEYS[8], KEYS[11]}
local r = {tonumber(m[4]), tonumber(u[1] or 0), tonumber(a[1] or 0)}
local f = {tonumber(m[9] or 0), tonumber(u[2] or 0), tonumber(a[2] or 0)}
local x = {tonumber(m[10] or 0), tonumber(u[3] or 0), tonumber(a[3] or 0)}
local refused = {'R'}
local most = tonumber(ARGV[8])
if most > 0 and r[1] + 1 - tonumber(m[5]) > most then return refused end
for i = 1, 3 do
  local used = x[i]
  if i == 1 and used == 0 then used = tonumber(m[8]) end
  if r[i] < tonumber(ARGV[1 + i]) or r[i] >= 17179869183 then return refused end
  if used ~= 0 and used < tonumber(ARGV[4 + i]) then return refused end
end
local count, spans = tonumber(ARGV[18]), tonumber(ARGV[19])
local first_span = 20 + 5 * count
local counts, scopes = {true, false, false}, {}
for o = 0, count - 1 do
  local i = tonumber(ARGV[21 + 5 * o]) + 1
  local base = tonumber(ARGV[22 + 5 * o])
  counts[i], scopes[o] = true, i
  if base >= 0 and r[i] > base then
    local revision = call('ZSCORE', zsets[i], ARGV[23 + 5 * o])
    if tonumber(revision or f[i]) > base then return refused end
  end
end

-- Lua's numbers are exact up to 15 digits; beyond, Redis adds in a key of its own.
local function sum(old, by)
  if not string.find(old, '^-?%d+$') then return nil end
  if #old <= 15 and #by <= 15 then return text(tonumber(old) + tonumber(by)) end
  local scratch = KEYS[9] .. ':t'
  call('HSET', scratch, 's', old)
  local answer = redis.pcall('HINCRBY', scratch, 's', by)
  local added = type(answer) ~= 'table' and call('HGET', scratch, 's')
  call('DEL', scratch)
  return added
end

local function joined(old, items)
  if not old or old == '[]' or old == '{}' then return items end
  if string.byte(old) ~= 91 then return nil end
  return string.sub(old, 1, -2) .. ',' .. string.sub(items, 2)
end
local results, given = {}, {}
local limit = tonumber(ARGV[9])
for o = 0, count - 1 do
  local at = 20 + 5 * o
  local kind, value = ARGV[at], ARGV[at + 4]
  if kind == 'a' or kind == 'e' then
    local old = call('HGET', values[scopes[o]], ARGV[at + 3])
    if kind == 'a' then value = sum(old or '0', value) else value = joined(old, value) end
    if not value or limit > 0 and #value > limit then return refused end
    given[#given + 1] = value
  end
  results[o + 1] = value
end
local pieces, length = {}, 0
for i = 0, spans - 1 do
  local hole = tonumber(ARGV[first_span + 2 * i])
  if hole > 0 then
    pieces[#pieces + 1] = results[hole]
    length = length + #results[hole]
  end
  pieces[#pieces + 1] = ARGV[first_span + 2 * i + 1]
  length = length + #pieces[#pieces]
end
if tonumber(ARGV[10]) > 0 and length > tonumber(ARGV[10]) then return refused end
local changed = {}

local function change(i, key, value, revision)
  local n = #changed
  changed[n + 1], changed[n + 2], changed[n + 3], changed[n + 4] = text(i - 1), key, value, revision
end
for i = 1, 3 do
  local snapshot = tonumber(ARGV[1 + i])
  if r[i] > snapshot then
    local whole = snapshot < f[i]
    local above = whole and '-inf' or '(' .. ARGV[1 + i]
    local rows = call('ZRANGEBYSCORE', zsets[i], above, '+inf', 'WITHSCORES')
    for j = 1, #rows, 2 do
      local value = call('HGET', values[i], rows[j])
      if value or not whole then change(i, rows[j], value, rows[j + 1]) end
    end
  end
end

-- ---- from here on it is stored ----
local revisions = {m[4], u[1] or '0', a[1] or '0'}
local used_at = {m[10] or '0', u[3] or '0', a[3] or '0'}
local sets, removes, scores = {}, {}, {}
for i = 1, 3 do
  if counts[i] then
    revisions[i] = text(r[i] + 1)
    sets[i], scores[i] = {}, {}
  end
end
for o = 0, count - 1 do
  local at = 20 + 5 * o
  local i, key = scopes[o], ARGV[at + 3]
  if ARGV[at] == 'r' then
    removes[i] = removes[i] or {}
    removes[i][#removes[i] + 1] = key
  else
    local set = sets[i]
    set[#set + 1] = key
    set[#set + 1] = results[o + 1]
  end
  local score = scores[i]
  score[#score + 1] = revisions[i]
  score[#score + 1] = key
end

local function in_parts(command, key, list)
  if #list <= 100 then return call(command, key, unpack(list)) end
  for i = 1, #list, 100 do call(command, key, unpack(list, i, math.min(i + 99, #list))) end
end
call('XADD', KEYS[4], revisions[1] .. '-0', 'i', ARGV[12], 'm', ARGV[14], 'j', table.concat(pieces))
call('HSET', KEYS[5], ARGV[12], revisions[1])
local touched, messages = ARGV[11], m[6]
if ARGV[15] == '1' then messages = text(tonumber(messages) + 1) end
local changes = {{'r', revisions[1], 't', ARGV[13], 'c', messages}, {'r', revisions[2]}, {'r', revisions[3]}}
for i = 1, 3 do
  if counts[i] then
    if sets[i][1] then in_parts('HSET', values[i], sets[i]) end
    if removes[i] then in_parts('HDEL', values[i], removes[i]) end
    if scores[i][1] then in_parts('ZADD', zsets[i], scores[i]) end
    local head = changes[i]
    if touched ~= '0' and x[i] < tonumber(touched) then
      head[#head + 1] = 'x'
      head[#head + 1] = touched
      used_at[i] = touched
    end
    call('HSET', KEYS[i == 1 and 1 or 3 * i], unpack(head))
  end
end
call('ZADD', KEYS[12], ARGV[13], ARGV[16])
call('ZADD', KEYS[13], ARGV[13], ARGV[17])
return {'S', {m[1], m[2], m[3], revisions[1], m[5], revisions[2], revisions[3], messages, m[7], ARGV[13],
  m[9] or '0', u[2] or '0', a[2] or '0', used_at[1], used_at[2], used_at[3]}, given, changed}
