-- A question of a transaction, or its commit: one script of the parts pages, places, writes,
-- questions, store, those of other stores, and run, one behind the other (scripts.c).
-- What the transaction has written is laid over what is stored (pages): so later questions see it,
-- and nothing is stored before all of it is known to fit.
-- KEYS: how all keys of the app begin (T), and a -. There is no such key: a node of a cluster that
-- does not have the app, or not all of it, refuses the script because of it.
-- ARGV: the app's number (0: it is not known), mode, then what the mode says, then operations. The
-- last operation of a question answers it.
-- Answer: a word, the heads that were read (kind, key, signature), and the rest.
local call, at = redis.call, 0
local function take() at = at + 1 return ARGV[at] end
local function text(n) return string.format('%.0f', n) end

local function encoded(name)
  local code = function(c) return string.format('%%%02X', string.byte(c)) end
  return (string.gsub(name, '[^A-Za-z0-9._~-]', code))
end
local T, app_number, mode, Z = string.sub(KEYS[1], 1, -2), take(), take(), string.char(0)

-- ---- pages: hashes, sorted sets and streams, by key ----
local pages, order = {}, {}

local function page(key)
  local p = pages[key]
  if not p then
    p = {h = {}, z = {}, e = {}, cut = -1, known = {}}
    pages[key] = p
    order[#order + 1] = key
  end
  return p
end

local function drop(key)
  local p = page(key)
  p.gone, p.h, p.z, p.e, p.cut = true, {}, {}, {}, -1
end

local function hget(key, field)
  local p = pages[key]
  if not p then return call('HGET', key, field) end
  if p.h[field] ~= nil then return p.h[field] end
  if p.gone then return false end
  if p.known[field] == nil then p.known[field] = call('HGET', key, field) end
  return p.known[field]
end

-- Of a head, as it is stored, all that is asked for.
local stored_heads, head_fields = {}, {n = 1, b = 2, r = 3, f = 4, c = 5, t = 6, x = 7, u = 8, a = 9, ct = 10}

local function stored_head(key)
  local head = stored_heads[key]
  if not head then
    head = call('HMGET', key, 'n', 'b', 'r', 'f', 'c', 't', 'x', 'u', 'a', 'ct')
    stored_heads[key] = head
  end
  return head
end

local function head_field(key, field)
  if pages[key] then return hget(key, field) end
  return stored_head(key)[head_fields[field]]
end

local function hset(key, field, value) page(key).h[field] = value end

local function hall(key)
  local p, all = pages[key], {}
  if not (p and p.gone) then
    local flat = call('HGETALL', key)
    for i = 1, #flat, 2 do all[flat[i]] = flat[i + 1] end
  end
  if p then for field, value in pairs(p.h) do all[field] = value or nil end end
  return all
end

local function zadd(key, member, score) page(key).z[member] = score end

local function zscore(key, member)
  local p = pages[key]
  if p then
    if p.z[member] ~= nil then return p.z[member] end
    if p.gone then return false end
  end
  return call('ZSCORE', key, member)
end

-- Members with a score above `over`, in any order; nil: all. `limit` stored ones at most.
local function zabove(key, over, limit)
  local p, list, more = pages[key], {}, false
  if not (p and p.gone) then
    local flat = call('ZRANGEBYSCORE', key, over and '(' .. over or '-inf', '+inf', 'WITHSCORES',
      'LIMIT', 0, limit or -1)
    for i = 1, #flat, 2 do
      if not p or p.z[flat[i]] == nil then list[#list + 1] = {flat[i], flat[i + 1]} end
    end
    more = limit and #flat == 2 * limit
  end
  if p and not more then
    local least = over and tonumber(over)
    for member, score in pairs(p.z) do
      if score and (not least or tonumber(score) > least) then list[#list + 1] = {member, score} end
    end
  end
  return list, more
end

local function digits_of(id) return string.match(id, '^%d+') end

-- At most n events with first <= revision <= last: {revision, fields, the revision as text} each.
local function events(key, first, last, newest, n)
  local p, list = pages[key], {}
  if p and first <= p.cut then first = p.cut + 1 end
  local function stored()
    if p and p.gone or first > last or #list >= n then return end
    local from, to = text(first), text(last)
    if newest then from, to = to, from end
    local rows = call(newest and 'XREVRANGE' or 'XRANGE', key, from, to, 'COUNT', n - #list)
    for i = 1, #rows do
      local digits = digits_of(rows[i][1])
      list[#list + 1] = {tonumber(digits), rows[i][2], digits}
    end
  end
  local function own()
    local from, to, step = 1, p and #p.e or 0, 1
    if newest then from, to, step = to, 1, -1 end
    for i = from, to, step do
      local event = p.e[i]
      if #list < n and event[1] >= first and event[1] <= last then list[#list + 1] = event end
    end
  end
  if newest then own() stored() else stored() own() end
  return list
end
