-- ---- where things are ----
local places = {}

local function place(user, session)
  local id = user .. Z .. session
  if not places[id] then
    local name = encoded(user)
    places[id] = {user = user, session = session, A = T .. 'a', U = T .. 'u:' .. name,
      S = T .. 's:' .. name .. ':' .. encoded(session)}
  end
  return places[id]
end

local function split(member)
  local i = string.find(member, Z, 1, true)
  return string.sub(member, 1, i - 1), string.sub(member, i + 1)
end

local function name_of(id)
  local key = T .. 'sessions'
  local p = pages[key]
  if p then for member, score in pairs(p.z) do if score == id then return member end end end
  local member = call('ZRANGEBYSCORE', key, id, id, 'LIMIT', 0, 1)[1]
  if member and not (p and p.z[member] ~= nil) then return member end
end

-- ---- what was read: a transaction that writes is refused if it has changed meanwhile ----
local seen, noted = {}, {}

local function signature(key)
  local h = stored_head(key)
  return (h[1] or '-') .. ' ' .. (h[2] or '-') .. ' ' .. (h[3] or '-') .. ' ' .. (h[4] or '-') .. ' ' ..
    (h[5] or '-') .. ' ' .. (h[6] or '-') .. ' ' .. (h[7] or '-') .. ' .'
end

-- Of a list of sessions; `kind` k: and when each was last used.
local function digest(kind, key)
  local flat = call('ZRANGE', key, 0, -1, 'WITHSCORES')
  local tag, user = string.match(key, '^(.*}:)u:([^:]*):l$')
  if kind == 'k' and tag then
    for i = 1, #flat, 2 do
      flat[i] = flat[i] .. Z .. (call('HGET', tag .. 's:' .. user .. ':' .. encoded(flat[i]), 'x') or '-')
    end
  end
  return redis.sha1hex(table.concat(flat, Z))
end

local function note(kind, key, what)
  if noted[key] then return end
  noted[key] = true
  local n = #seen
  seen[n + 1], seen[n + 2], seen[n + 3] = kind, key, what
end

local function see(kind, key) note(kind, key, signature(key)) end

local function is_as_seen()
  for _ = 1, tonumber(take()) do
    local kind, key, expected = take(), take(), take()
    local is_list = kind == 'l' or kind == 'k'
    local found = is_list and digest(kind, key) or signature(key)
    if string.sub(found, 1, #expected) ~= expected then return false end
  end
  return true
end

local function give_up(why) error({why = why}) end

-- A session by its names, or its id alone, or both. nil: there is none.
local function locate()
  local user, session, id = take(), take(), take()
  if id ~= '0' and session == '' then
    local member = name_of(id)
    if not member then return nil end
    user, session = split(member)
  end
  local p = place(user, session)
  see('s', p.S)
  local n = head_field(p.S, 'n')
  if not n or id ~= '0' and n ~= id then return nil end
  p.id, p.D = n, T .. n
  return p
end

local function locate_or_give_up() return locate() or give_up('moved') end

-- Head, values and revisions of a scope.
local function of_scope(p, scope)
  if scope == '0' then return p.S, p.D .. ':v', p.D .. ':z' end
  local head = scope == '1' and p.U or p.A
  return head, head .. ':v', head .. ':z'
end
