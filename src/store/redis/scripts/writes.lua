-- ---- what is written ----
local writes, asks = {}, {}

local function make_shared(p, app_id, user_id)
  if not head_field(p.A, 'n') then hset(p.A, 'n', app_id) end
  if p.user == '' or head_field(p.U, 'n') then return end
  hset(p.U, 'n', user_id)
  hset(p.U, 'a', head_field(p.A, 'n'))
  zadd(T .. 'users', p.user, user_id)
end

local function list_session(p, time)
  zadd(T .. 'l', p.user .. Z .. p.session, time)
  zadd(p.U .. ':l', p.session, time)
end

local function remove_session(p)
  drop(p.S)
  for _, part in ipairs {'v', 'z', 'b', 'e', 'i'} do drop(p.D .. ':' .. part) end
  list_session(p, false)
  zadd(T .. 'sessions', p.user .. Z .. p.session, false)
end

local function touch(head, time)
  if time == '0' then return end
  local known = hget(head, 'x')
  if not known or tonumber(known) < tonumber(time) then hset(head, 'x', time) end
end

local function add_event(D, revision, fields)
  local key = D .. ':e'
  local newest = events(key, 0, 2^53, true, 1)[1]
  if hget(D .. ':i', fields[2]) or newest and newest[1] >= revision then give_up('known') end
  local p = page(key)
  p.e[#p.e + 1] = {revision, fields, text(revision)}
  hset(D .. ':i', fields[2], text(revision))
end

function writes.make()
  local app_id, user_id = take(), take()
  make_shared(place(take(), ''), app_id, user_id)
end

function writes.create()
  local id, user_id, app_id, time = take(), take(), take(), take()
  local p = place(take(), take())
  make_shared(p, app_id, user_id)
  if hget(p.S, 'n') then give_up('moved') end
  hset(p.S, 'n', id)
  hset(p.S, 'u', hget(p.U, 'n'))
  hset(p.S, 'a', hget(p.A, 'n'))
  for _, field in ipairs {'r', 'b', 'c'} do hset(p.S, field, '0') end
  hset(p.S, 'ct', time)
  hset(p.S, 't', time)
  list_session(p, time)
  zadd(T .. 'sessions', p.user .. Z .. p.session, id)
end

-- What has been staged, so many events, lasts from now on.
local kept = {}

function writes.keep() kept[#kept + 1] = {D = T .. take(), count = tonumber(take())} end

function writes.remove()
  local p = locate()
  if p then remove_session(p) end
end

function writes.forget()
  local p = place(take(), '')
  for _, row in ipairs(zabove(p.U .. ':l')) do
    local one = place(p.user, row[1])
    one.D = T .. hget(one.S, 'n')
    remove_session(one)
  end
  for _, part in ipairs {'', ':v', ':z', ':l'} do drop(p.U .. part) end
  zadd(T .. 'users', p.user, false)
end

local function apply_heads(p, scopes)
  local r, b, c, time = take(), take(), take(), take()
  local revisions, touched = {r, take(), take()}, take()
  for scope = 0, 2 do
    if string.find(scopes, scope, 1, true) then
      local head = of_scope(p, tostring(scope))
      hset(head, 'r', revisions[scope + 1])
      touch(head, touched)
    end
  end
  if not string.find(scopes, '0', 1, true) then return end
  hset(p.S, 'b', b)
  hset(p.S, 'c', c)
  if hget(p.S, 't') ~= time then list_session(p, time) end
  hset(p.S, 't', time)
end

function writes.apply()
  local is_session, scopes = take() == 's', take()
  local p
  if is_session then p = locate_or_give_up() else p = place(take(), take()) take() end
  apply_heads(p, scopes)
  for _ = 1, tonumber(take()) do
    local _, values, revisions = of_scope(p, take())
    local key, has, value, revision = take(), take(), take(), take()
    hset(values, key, has == '1' and value)
    zadd(revisions, key, revision)
  end
  for _ = 1, tonumber(take()) do
    local key, has, value = take(), take(), take()
    hset(p.D .. ':b', key, has == '1' and value)
  end
  for _ = 1, tonumber(take()) do
    local revision = tonumber(take())
    add_event(p.D, revision, {'i', take(), 'm', take(), 'j', take()})
  end
end

function writes.copy()
  local from, to = locate_or_give_up(), locate_or_give_up()
  local last, next = tonumber(take()), 0
  for key, value in pairs(hall(from.D .. ':b')) do hset(to.D .. ':b', key, value) end
  repeat
    local some = events(from.D .. ':e', next, last, false, 500)
    for _, event in ipairs(some) do
      add_event(to.D, event[1], event[2])
      next = event[1] + 1
    end
  until #some < 500
end

function writes.trim()
  local p, last, next = locate(), tonumber(take()), 0
  if not p then return end
  repeat
    local some = events(p.D .. ':e', next, last, false, 500)
    for _, event in ipairs(some) do
      hset(p.D .. ':i', event[2][2], false)
      next = event[1] + 1
    end
  until #some < 500
  local own = page(p.D .. ':e')
  if last > own.cut then own.cut = last end
  while own.e[1] and own.e[1][1] <= last do table.remove(own.e, 1) end
end

function writes.purge()
  local scope = take()
  local p
  if scope == '0' then p = locate() else p = place(take(), take()) take() end
  local last = tonumber(take())
  if not p then return end
  local head, values, revisions = of_scope(p, scope)
  last = math.min(last, tonumber(hget(head, 'r') or 0))
  for _, row in ipairs(zabove(revisions)) do
    if tonumber(row[2]) <= last and not hget(values, row[1]) then zadd(revisions, row[1], false) end
  end
  if last > tonumber(hget(head, 'f') or 0) then hset(head, 'f', text(last)) end
end

function writes.touch()
  local scope, time = take(), take()
  local p
  if scope == '0' then p = locate() else p = place(take(), take()) take() end
  local head = p and of_scope(p, scope)
  if head and hget(head, 'n') then touch(head, time) end
end

function writes.wipe()
  local p = place(take(), '')
  local head, values, revisions = of_scope(p, p.user == '' and '2' or '1')
  local revision = text(tonumber(hget(head, 'r') or 0) + 1)
  hset(head, 'r', revision)
  hset(head, 'f', revision)
  hset(head, 'x', false)
  drop(values)
  drop(revisions)
end
