-- ---- storing: all of it fits, so nothing of this fails ----
local function in_parts(command, key, list)
  for i = 1, #list, 100 do call(command, key, unpack(list, i, math.min(i + 99, #list))) end
end

local function add(list, one, two)
  list[#list + 1] = one
  if two then list[#list + 1] = two end
end

local function store_hash_and_set(key, p)
  local set, unset, scores, unscored = {}, {}, {}, {}
  for field, value in pairs(p.h) do
    if value then add(set, field, value) else add(unset, field) end
  end
  for member, score in pairs(p.z) do
    if score then add(scores, score, member) else add(unscored, member) end
  end
  in_parts('HSET', key, set)
  in_parts('ZADD', key, scores)
  if p.gone then return end
  in_parts('HDEL', key, unset)
  in_parts('ZREM', key, unscored)
end

local function store_stream(key, p)
  while p.cut >= 0 and not p.gone do
    local ids = {}
    for i, row in ipairs(call('XRANGE', key, '-', text(p.cut), 'COUNT', 100)) do ids[i] = row[1] end
    if #ids > 0 then call('XDEL', key, unpack(ids)) end
    if #ids < 100 then break end
  end
  for _, event in ipairs(p.e) do call('XADD', key, event[3] .. '-0', unpack(event[2])) end
end

local function store()
  for _, key in ipairs(order) do
    local p = pages[key]
    if p.gone then call('UNLINK', key) end
    store_hash_and_set(key, p)
    store_stream(key, p)
  end
end

-- ---- staging: long histories go in parts before the commit ----
-- They belong to a session of which no head tells yet. If it never comes, they expire.
local stages = {}

-- Each answers where it goes on ('': nowhere), and how many events it has staged.
local function end_stage(D)
  store()
  for _, part in ipairs {':e', ':i'} do call('EXPIRE', D .. part, 3600) end
end

function stages.events()
  local D, count = T .. take(), 0
  while at < #ARGV do
    add_event(D, tonumber(take()), {'i', take(), 'm', take(), 'j', take()})
    count = count + 1
  end
  end_stage(D)
  return {'ok', {}, '', text(count)}
end

function stages.copy()
  local from, to = T .. take(), T .. take()
  local some = events(from .. ':e', tonumber(take()), tonumber(take()), false, 500)
  for _, event in ipairs(some) do add_event(to, event[1], event[2]) end
  end_stage(to)
  return {'ok', {}, #some < 500 and '' or text(some[#some][1] + 1), text(#some)}
end
