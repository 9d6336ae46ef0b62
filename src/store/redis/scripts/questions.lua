-- ---- questions ----
-- An id begins with the app's number, and the app's own is that alone (registry.c).
local function app_id()
  local known = head_field(T .. 'a', 'n')
  if not known and app_number == '0' then give_up('unregistered') end
  return known or text(tonumber(app_number) * 4294967296)
end


-- Numbers end where those of the next app begin.
local function new_id(known)
  if known then return known end
  local app, number = tonumber(app_id()), call('INCR', T .. 'n')
  if number >= 4294967296 then give_up('full') end
  return text(app + number)
end

-- The numbers of mp_facts; a head that was not asked for is nil.
local function numbers(s, u, a)
  local function of(head, field) return head and head_field(head, field) or '0' end
  local user, app = of(u, 'n'), of(a, 'n')
  if s then user, app = of(s, 'u'), of(s, 'a') elseif u then app = of(u, 'a') end
  return {of(s, 'n'), user, app, of(s, 'r'), of(s, 'b'), of(u, 'r'), of(a, 'r'), of(s, 'c'), of(s, 'ct'),
    of(s, 't'), of(s, 'f'), of(u, 'f'), of(a, 'f'), of(s, 'x'), of(u, 'x'), of(a, 'x')}
end

-- scope, key, value, revision of each row; `all`: those that have a value.
local function add_rows(rows, p, scope, since, all)
  local _, values, revisions = of_scope(p, scope)
  local has = all and hall(values)
  for _, row in ipairs(zabove(revisions, not all and since or nil)) do
    local value
    if all then value = has[row[1]] else value = hget(values, row[1]) end
    if value or not all then
      local n = #rows
      rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = scope, row[1], value or false, row[2]
    end
  end
end

local function add_changes(rows, p, scope, since, revision, forgotten)
  if since == 'n' then return end
  local from = tonumber(since)
  if from >= tonumber(revision) then return end
  add_rows(rows, p, scope, since, from < 0 or from < tonumber(forgotten))
end

local function add_event_row(rows, event)
  local f, n = event[2], #rows
  rows[n + 1], rows[n + 2], rows[n + 3], rows[n + 4] = event[3], f[2], f[4], f[6]
end

local function look_at()
  local kind, create = take(), take() == '1'
  if kind == 's' then
    local p = locate()
    if not p then return nil end
    see('u', p.U)
    see('a', p.A)
    return p, numbers(p.S, p.U, p.A), '210'
  end
  local p = place(take(), take())
  take()
  local head = kind == 'u' and p.U or p.A
  see(kind, head)
  local made
  if create and not hget(head, 'n') then
    see('A', p.A)
    made = {app_id(), kind == 'u' and new_id() or '0'}
    make_shared(p, made[1], made[2])
  end
  if not hget(head, 'n') then return nil end
  if kind == 'u' then return p, numbers(nil, head), '1', made end
  return p, numbers(nil, nil, head), '2', made
end

function asks.look()
  local p, n, scopes, made = look_at()
  if not p then return {'none', seen} end
  local since, changed, wanted, found, recent = {take(), take(), take()}, {}, {}, {}, {}
  local revisions = {n[4], n[6], n[7]}
  for scope in string.gmatch(scopes, '.') do
    local i = tonumber(scope) + 1
    add_changes(changed, p, scope, since[i], revisions[i], n[10 + i])
  end
  for i = 1, tonumber(take()) do
    local _, values, zset = of_scope(p, take())
    local key = take()
    wanted[2 * i - 1], wanted[2 * i] = hget(values, key), zscore(zset, key) or '0'
  end
  local has_event, id, count = take(), take(), tonumber(take())
  if has_event == '1' then
    local revision = tonumber(hget(p.D .. ':i', id) or nil)
    local event = revision and events(p.D .. ':e', revision, revision, false, 1)[1]
    if event then add_event_row(found, event) end
  end
  if count > 0 then
    local list = events(p.D .. ':e', 0, 2^53, true, count)
    for i = #list, 1, -1 do add_event_row(recent, list[i]) end
  end
  return {'ok', seen, n, changed, wanted, found, recent, made or {}}
end

function asks.create()
  local p = place(take(), take())
  see('s', p.S)
  see('U', p.U)
  see('A', p.A)
  if hget(p.S, 'n') then return {'exists', seen} end
  local user_id = new_id(hget(p.U, 'n'))
  return {'ok', seen, {new_id(), user_id, app_id(), hget(p.U, 'r') or '0', hget(p.A, 'r') or '0'}}
end

function asks.forget()
  local p = place(take(), '')
  see('u', p.U)
  note('l', p.U .. ':l', digest('l', p.U .. ':l'))
  if not hget(p.U, 'n') then return {'none', seen} end
  return {'ok', seen, text(#zabove(p.U .. ':l'))}
end

-- By time, digest, kinds and invocation, with blanks between them.
local function is_asked(about, kinds, invocation)
  if kinds == 0 and invocation == '' then return true end
  local kind, of = string.match(about, '^%S+ %S+ (%d+) ?(.*)$')
  kind = tonumber(kind)
  local fits = kinds == 0 or kind == kinds or kind == 3 or kinds == 3 and kind > 0
  return fits and (invocation == '' or of == invocation)
end

-- A part of a walk: up to about so many bytes, and where it goes on, '' at its end.
function asks.events()
  local p = locate()
  if not p then return {'none', seen} end
  local first, last, newest, has_id, id = tonumber(take()), tonumber(take()), take() == '1', take(), take()
  local with_json, kinds, invocation, most = take() == '1', tonumber(take()), take(), tonumber(take())
  local was = tonumber(take())
  -- What has been appended since the transaction first saw the session is left out.
  if was >= 0 and tonumber(hget(p.S, 'r')) ~= was then last = math.min(last, was) end
  local rows, bytes, next, scanned = {}, 0, '', 0
  if has_id == '1' then
    local revision = tonumber(hget(p.D .. ':i', id) or -1)
    if revision < first or revision > last then return {'ok', seen, rows, ''} end
    first, last = revision, revision
  end
  while next == '' and first <= last do
    local some = events(p.D .. ':e', first, last, newest, 100)
    for _, event in ipairs(some) do
      local f = event[2]
      if is_asked(f[4], kinds, invocation) and #rows < 4 * most then
        add_event_row(rows, event)
        if not with_json then rows[#rows] = false end
        bytes = bytes + (with_json and #f[6] or 0) + 100
      end
      if newest then last = event[1] - 1 else first = event[1] + 1 end
      if #rows >= 4 * most or bytes > 262144 then break end
    end
    scanned = scanned + #some
    if #some < 100 and bytes <= 262144 or #rows >= 4 * most then break end
    if bytes > 262144 or scanned >= 2000 then next = text(newest and last or first) end
  end
  return {'ok', seen, rows, next}
end

function asks.base()
  local p, flat = locate(), {}
  if not p then return {'none', seen} end
  for key, value in pairs(hall(p.D .. ':b')) do flat[#flat + 1], flat[#flat + 2] = key, value end
  return {'ok', seen, flat}
end

function asks.users()
  local names = {}
  for _, row in ipairs(zabove(T .. 'users')) do names[#names + 1] = row[1] end
  return {'ok', seen, names}
end

-- What is old of one scope: user, session and id each. `position` is the last id that was looked
-- at.
function asks.sweep()
  local scope, before, limit, position = take(), tonumber(take()), tonumber(take()), take()
  local list, rows, more = {{'', app_id()}}, {}, false
  if scope ~= '2' then list, more = zabove(T .. (scope == '0' and 'sessions' or 'users'), position, 1000) end
  table.sort(list, function(a, b) return tonumber(a[2]) < tonumber(b[2]) end)
  for _, row in ipairs(list) do
    if #rows >= 3 * limit then
      more = true
      break
    end
    position = row[2]
    local user, session = row[1], ''
    if scope == '0' then user, session = split(user) end
    local p = place(user, session)
    p.D = T
    local head, _, revisions = of_scope(p, scope)
    local used = tonumber(hget(head, 'x') or 0)
    if scope == '0' and used == 0 then used = tonumber(hget(head, 't')) end
    local is_old = used < before and (scope == '0' or used ~= 0 and #zabove(revisions, nil, 1) > 0)
    if is_old then
      see(scope == '0' and 's' or scope == '1' and 'u' or 'a', head)
      local n = #rows
      rows[n + 1], rows[n + 2], rows[n + 3] = user, session, row[2]
    end
  end
  return {'ok', seen, position, more and '0' or '1', rows}
end

-- Lists: by time, then by the bytes of user and session (< on strings would go by the locale).
local function is_less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local function is_before(a, b)
  if a[2] ~= b[2] then return a[2] < b[2] end
  return is_less(a[1], b[1])
end

-- Calls each({name, time}) in order until it returns true; the first ones may be before `after`.
local function walk_list(key, newest, after, each)
  if pages[key] then
    local list = zabove(key)
    for _, row in ipairs(list) do row[2] = tonumber(row[2]) end
    table.sort(list, function(a, b) if newest then return is_before(b, a) end return is_before(a, b) end)
    for _, row in ipairs(list) do if each(row) then return end end
    return
  end
  local start = 0
  if after then
    start = newest and call('ZCOUNT', key, '(' .. after, '+inf') or call('ZCOUNT', key, '-inf', '(' .. after)
  end
  repeat
    local flat = call(newest and 'ZREVRANGE' or 'ZRANGE', key, start, start + 499, 'WITHSCORES')
    for i = 1, #flat, 2 do if each {flat[i], tonumber(flat[i + 1])} then return end end
    start = start + 500
  until #flat < 1000
end

function asks.list()
  local has_user, user, newest, limit = take() == '1', take(), take() == '1', tonumber(take())
  local has_after, time, after_user, after_session = take() == '1', take(), take(), take()
  local touched_since, with_state, is_write = tonumber(take()), take() == '1', take() == '1'
  local after = has_after and {after_user .. Z .. after_session, tonumber(time)}
  local p, rows, count = place(user, ''), {}, 0
  local key = has_user and p.U .. ':l' or T .. 'l'
  local kind = touched_since ~= 0 and 'k' or 'l'
  if is_write then note(kind, key, digest(kind, key)) end
  local users = {}
  local function add_state(one, scope)
    local flat = {}
    if with_state then add_rows(flat, one, scope, nil, true) end
    if #flat > 0 then rows[#rows + 1], rows[#rows + 2] = 'k', flat end
  end
  walk_list(key, newest, has_after and time, function(row)
    local name = has_user and user .. Z .. row[1] or row[1]
    local full = {name, row[2]}
    if after and newest and not is_before(full, after) then return false end
    if after and not newest and not is_before(after, full) then return false end
    local of_user, session = split(name)
    local one = place(of_user, session)
    local used = touched_since ~= 0 and tonumber(head_field(one.S, 'x') or head_field(one.S, 't'))
    if used and used < touched_since then return false end
    if count == 0 then add_state(p, '2') end
    if not users[of_user] then
      users[of_user] = true
      add_state(one, '1')
    end
    local n = numbers(one.S, one.U, p.A)
    n[17], n[18] = of_user, session
    rows[#rows + 1], rows[#rows + 2] = 's', n
    one.D = T .. n[1]
    add_state(one, '0')
    count = count + 1
    return limit > 0 and count >= limit
  end)
  return {'ok', seen, rows}
end
