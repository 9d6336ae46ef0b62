  -- ---- memories ----
  local function owner(users, user)
    local prefix, name = string.sub(users, 1, -2), encoded(user)
    return {users = users, user = user, sessions = under(users, user), info = prefix .. 'i:' .. name,
      words = prefix .. 'w:' .. name .. ':', last = prefix .. 'last'}
  end

  local function take_owner() return owner(take_user('m')) end
  local function memory(o, id) return o.sessions .. ':' .. id end

  -- One that was deleted by its id has no content.
  local function is_said(o, id) return call('HEXISTS', memory(o, id), 'c') == 1 end

  local function last_use(o, id)
    local times = call('HMGET', memory(o, id), 'x', 't')
    return number(times[1] or times[2])
  end

  local function count_memories(o) return number(call('HGET', o.info, 'n') or 0) end

  -- Takes memories that are said out of the index: by words, all that have one with one command.
  local function forget_words(o, ids)
    if #ids == 0 then return end
    local count, having = count_memories(o), {}
    for _, id in ipairs(ids) do
      for word in string.gmatch(call('HGET', memory(o, id), 'w') or '', '%Z+') do
        having[word] = having[word] or {}
        add(having[word], id)
      end
    end
    local is_all, words = #ids == count, {}
    for word, some in pairs(having) do
      if is_all then add(words, o.words .. word) else in_parts('HDEL', o.words .. word, some) end
    end
    unlink(words)
    call('HSET', o.info, 'n', text(count - #ids))
  end

  local function remove_memories(o, session, ids)
    local keys = {}
    for i, id in ipairs(ids) do keys[i] = memory(o, id) end
    unlink(keys)
    in_parts('ZREM', under(o.sessions, session), ids)
  end

  local function unlist_session(o, session)
    call('HDEL', o.info, session)
    if not unlist(o.sessions, session) then return end
    call('UNLINK', o.info)
    unlist(o.users, o.user)
  end

  local function create_time(o, session)
    return number(string.match(call('HGET', o.info, session) or '', ' (.*)$'))
  end

  local function set_watermark(o, session, created, revision)
    local known = tonumber(string.match(call('HGET', o.info, session) or '', '^%d+'))
    if known and known >= tonumber(revision) then return end
    call('HSET', o.info, session, (revision == '-1' and '0' or revision) .. ' ' .. created)
  end

  local function take_memory()
    local m = {revision = take(), time = take(), author = take(), content = take(), words = {}}
    for i = 1, 2 * number(take()) do m.words[i] = take() end
    return m
  end

  local function store_memory(o, session, id, m)
    local fields = {'s', session, 'r', m.revision, 't', m.time, 'a', m.author}
    local words = {}
    for i = 1, #m.words, 2 do
      add(words, m.words[i])
      call('HSET', o.words .. m.words[i], id, m.words[i + 1])
    end
    if m.content ~= '' then
      add(fields, 'c', m.content)
      add(fields, 'w', table.concat(words, Z))
    end
    call('HSET', memory(o, id), unpack(fields))
    call('ZADD', under(o.sessions, session), m.revision, id)
  end

  function writes.remember()
    local o = take_owner()
    local session, created, watermark, since = take(), take(), take(), number(take())
    local known, gone, added, said, count = {}, {}, {}, 0, count_memories(o)
    local function find(revision)
      return call('ZRANGEBYSCORE', under(o.sessions, session), revision, revision)[1]
    end
    for _ = 1, number(take()) do
      local revision = take()
      local id = find(revision)
      if id and known[revision] == nil and is_said(o, id) then
        known[revision] = false
        add(gone, id)
      end
    end
    for _ = 1, number(take()) do
      local m = take_memory()
      if known[m.revision] == nil then known[m.revision] = find(m.revision) and true or false end
      if not known[m.revision] and number(m.time) >= since then
        known[m.revision] = true
        added[#added + 1] = m
        if m.content ~= '' then said = said + 1 end
      end
    end
    check_registered(o.users)
    local id = #added > 0 and call('INCRBY', o.last, #added) - #added
    list(o.users, o.user)
    list(o.sessions, session)
    set_watermark(o, session, created, watermark)
    forget_words(o, gone)
    remove_memories(o, session, gone)
    for i, m in ipairs(added) do store_memory(o, session, text(id + i), m) end
    call('HSET', o.info, 'n', text(count - #gone + said))
  end

  function asks.indexed()
    local o = take_owner()
    return {'ok', seen, string.match(call('HGET', o.info, take()) or '', '^%d+') or '0'}
  end

  -- Of each word: memories, with their size and the word's places.
  function asks.words()
    local o, since, found, lives = take_owner(), number(take()), {}, {}
    local function living(flat)
      local alive = {}
      for i = 1, #flat, 2 do
        local id = flat[i]
        if lives[id] == nil then lives[id] = last_use(o, id) >= since end
        if lives[id] then add(alive, id, flat[i + 1]) end
      end
      return alive
    end
    while at < #ARGV do
      local flat = call('HGETALL', o.words .. take())
      found[#found + 1] = since < -1e300 and flat or living(flat)
    end
    return {'ok', seen, text(count_memories(o)), found}
  end

  function asks.memories()
    local o, rows = take_owner(), {}
    while at < #ARGV do
      local id = take()
      local m = call('HMGET', memory(o, id), 's', 'a', 't', 'c', 'x')
      if m[4] then
        add(rows, id, string.match(m[1] or '', '^%Z*'))
        add(rows, m[2] or '', m[3] or give_up('damaged'))
        add(rows, m[4], m[5] or m[3])
      end
    end
    return {'ok', seen, rows}
  end

  function writes.use_memories()
    local o, time = take_owner(), take()
    while at < #ARGV do
      local id = take()
      if is_said(o, id) and last_use(o, id) < number(time) then call('HSET', memory(o, id), 'x', time) end
    end
  end

  local function is_alive(o, id, since) return is_said(o, id) and last_use(o, id) >= since end

  function asks.delete_memory()
    local o, since, id = take_owner(), number(take()), take()
    local found = is_alive(o, id, since) and '1' or '0'
    return {'ok', seen, found, found}
  end

  function writes.delete_memory()
    local o, since, id = take_owner(), number(take()), take()
    expect(is_alive(o, id, since) and '1' or '0')
    forget_words(o, {id})
    call('HDEL', memory(o, id), 'a', 'c', 'w')
  end

  -- The sessions of a user with this name, or all ('').
  local function sessions_of(o, name)
    if name == '' then return call('ZRANGE', o.sessions, 0, -1) end
    return call('ZRANGEBYLEX', o.sessions, '[' .. name .. Z, '(' .. name .. string.char(1))
  end

  -- The memories of some sessions, those of them that are said, and how many are alive.
  local function memories_in(o, sessions, since)
    local ids, said, alive = {}, {}, 0
    for _, session in ipairs(sessions) do
      ids[session] = call('ZRANGE', under(o.sessions, session), 0, -1)
      for _, id in ipairs(ids[session]) do
        if is_said(o, id) then
          add(said, id)
          if last_use(o, id) >= since then alive = alive + 1 end
        end
      end
    end
    return ids, said, text(alive)
  end

  function asks.delete_memories()
    local o, since = take_owner(), number(take())
    local sessions = sessions_of(o, take())
    local _, _, alive = memories_in(o, sessions, since)
    return {'ok', seen, alive, text(#sessions)}
  end

  function writes.delete_memories()
    local o, since = take_owner(), number(take())
    local sessions = sessions_of(o, take())
    local ids, said, alive = memories_in(o, sessions, since)
    expect(alive)
    forget_words(o, said)
    for _, session in ipairs(sessions) do
      remove_memories(o, session, ids[session])
      unlist_session(o, session)
    end
  end

  -- From a place in the app on, until each(o, session) returns true.
  local function each_session(users, user, session, each)
    each_name(users, user, function(u)
      local o = owner(users, u)
      return each_name(o.sessions, u == user and session or '', function(s) return each(o, s) end)
    end)
  end

  -- Does nothing of a session but its watermark count, and is it that old? It may have said nothing
  -- yet.
  local function is_over(o, session, since)
    return call('EXISTS', under(o.sessions, session)) == 0 and create_time(o, session) < since
  end

  -- Memories that have expired, as above; sessions without any, that are over, have the id ''.
  function asks.old_memories()
    local users, user = take_user('m')
    local session, revision, since, rows, looked, count, next = take(), take(), number(take()), {}, 0, 0, {}
    local function look(o, of, id, score)
      if looked == 1000 or #rows == 300 then
        next = {o.user, of, score}
        return true
      end
      looked = looked + 1
      if id == '' and not is_over(o, of, since) or id ~= '' and last_use(o, id) >= since then return end
      add(rows, o.user, of)
      add(rows, id)
      if id ~= '' and is_said(o, id) then count = count + 1 end
    end
    each_session(users, user, session, function(o, of)
      local first = o.user == user and of == session and revision or '-inf'
      repeat
        local some = call('ZRANGEBYSCORE', under(o.sessions, of), first, '+inf', 'WITHSCORES', 'LIMIT', 0, 100)
        for i = 1, #some, 2 do if look(o, of, some[i], some[i + 1]) then return true end end
        if #some > 0 then first = '(' .. some[#some] end
      until #some < 200
      return first == '-inf' and look(o, of, '', first)
    end)
    return {'ok', seen, text(count), rows, next}
  end

  function writes.sweep_memories()
    local users = take_user('m')
    take() take()
    local since, expected, old, count = number(take()), take(), {}, 0
    while at < #ARGV do
      local one = {o = owner(users, take()), session = take(), id = take()}
      local is_there = one.id ~= '' and call('EXISTS', memory(one.o, one.id)) == 1
      if one.id == '' or is_there and last_use(one.o, one.id) < since then old[#old + 1] = one end
      if is_there and is_said(one.o, one.id) and last_use(one.o, one.id) < since then
        one.is_said = true
        count = count + 1
      end
    end
    if text(count) ~= expected then give_up('moved') end
    for _, one in ipairs(old) do
      if one.is_said then forget_words(one.o, {one.id}) end
      if one.id ~= '' then remove_memories(one.o, one.session, {one.id}) end
      local is_listed = call('ZSCORE', one.o.sessions, one.session)
      if is_listed and is_over(one.o, one.session, since) then unlist_session(one.o, one.session) end
    end
  end

  -- For tools: sessions behind a place, each with its watermark and when it was created.
  function asks.sessions()
    local users, user = take_user('m')
    local session, limit, rows = take(), number(take()), {}
    each_session(users, user, session, function(o, of)
      if o.user == user and of == session then return end
      if #rows >= 3 * limit then return true end
      add(rows, o.user, string.match(of, '^%Z*'))
      add(rows, call('HGET', o.info, of))
    end)
    return {'ok', seen, rows}
  end

  -- For tools: the entries of a session behind a revision.
  function asks.entries()
    local o, session, after, limit, rows = take_owner(), take(), take(), take(), {}
    local ids = call('ZRANGEBYSCORE', under(o.sessions, session), '(' .. after, '+inf', 'LIMIT', 0, limit)
    for _, id in ipairs(ids) do
      local m = call('HMGET', memory(o, id), 'r', 't', 'a', 'c')
      add(rows, m[1] or give_up('damaged'), m[2] or give_up('damaged'))
      add(rows, m[3] or '', m[4] or '')
    end
    return {'ok', seen, rows}
  end
end
