  -- ---- artifacts ----
  local function file(users, user, session, name)
    local sessions = under(users, user)
    local names = under(sessions, session)
    return {users = users, user = user, sessions = sessions, session = session, names = names, name = name,
      key = under(names, name)}
  end

  local function take_file()
    local users, user = take_user('f')
    return file(users, user, take(), take())
  end

  -- How many versions a file has; 0: there is none, or it was last used before `since`.
  local function count_versions(key, since)
    local head = call('HMGET', key, 'r', 'x')
    if not head[1] then return 0 end
    local count, used = number(head[1]), number(head[2])
    return used < since and 0 or count
  end

  local function versions_of(key)
    local keys = {}
    for version = 0, count_versions(key, -math.huge) - 1 do keys[version + 1] = key .. ':' .. text(version) end
    return keys
  end

  local function use(key, time)
    local known = call('HGET', key, 'x')
    if not known or number(known) < number(time) then call('HSET', key, 'x', time) end
  end

  local function remove_file(f)
    unlink(versions_of(f.key))
    call('UNLINK', f.key)
    if unlist(f.names, f.name) and unlist(f.sessions, f.session) then unlist(f.users, f.user) end
  end

  -- From a place in the app on, until each(f) returns true.
  local function each_file(users, user, session, name, each)
    each_name(users, user, function(u)
      local sessions = under(users, u)
      return each_name(sessions, u == user and session or '', function(s)
        local from = u == user and s == session and name or ''
        return each_name(under(sessions, s), from, function(n) return each(file(users, u, s, n)) end)
      end)
    end)
  end

  local function files_of(users, user)
    local found = {}
    each_file(users, user, '', '', function(f)
      if f.user ~= user then return true end
      found[#found + 1] = f
    end)
    return found
  end

  local function count_alive(files, since)
    local count = 0
    for _, f in ipairs(files) do if count_versions(f.key, since) > 0 then count = count + 1 end end
    return text(count)
  end

  function asks.versions()
    local f = take_file()
    return {'ok', seen, text(count_versions(f.key, number(take())))}
  end

  function writes.save()
    local f, since = take_file(), number(take())
    local version = text(count_versions(f.key, since))
    expect(version)
    check_registered(f.users)
    local time, has_type, mime, has_name, name, bytes = take(), take(), take(), take(), take(), take()
    local old, fields = version == '0' and versions_of(f.key) or {}, {'t', time, 'b', bytes}
    if has_type == '1' then add(fields, 'm', mime) end
    if has_name == '1' then add(fields, 'd', name) end
    use(f.key, time)
    unlink(old)
    call('HSET', f.key, 'r', text(version + 1))
    call('HSET', f.key .. ':' .. version, unpack(fields))
    list(f.users, f.user)
    list(f.sessions, f.session)
    list(f.names, f.name)
  end

  function asks.load()
    local f = take_file()
    local count, version = count_versions(f.key, number(take())), tonumber(take())
    if version == -1 then version = count - 1 end
    if version < 0 or version >= count then return {'none', seen} end
    local v = call('HMGET', f.key .. ':' .. text(version), 'm', 'd', 'b')
    if not v[3] then give_up('damaged') end
    return {'ok', seen, v[1], v[2], v[3], call('HGET', f.key, 'x')}
  end

  function writes.use()
    local f, time = take_file(), take()
    if call('EXISTS', f.key) == 1 then use(f.key, time) end
  end

  function asks.list_files()
    local users, user = take_user('f')
    local sessions, session, since, found = under(users, user), take(), number(take()), {}
    for i, of in ipairs {'', session} do
      local names = {}
      local key = under(sessions, of)
      each_name(key, '', function(name)
        if count_versions(under(key, name), since) > 0 then add(names, name) end
      end)
      found[i] = names
    end
    return {'ok', seen, found[1], found[2]}
  end

  -- What has expired goes as well, but does not count.
  function asks.delete_file()
    local f, since = take_file(), number(take())
    return {'ok', seen, count_alive({f}, since), text(call('EXISTS', f.key))}
  end

  function writes.delete_file()
    local f, since = take_file(), number(take())
    expect(count_alive({f}, since))
    if call('EXISTS', f.key) == 1 then remove_file(f) end
  end

  function asks.delete_files()
    local files = files_of(take_user('f'))
    return {'ok', seen, count_alive(files, number(take())), text(#files)}
  end

  function writes.delete_files()
    local files = files_of(take_user('f'))
    expect(count_alive(files, number(take())))
    for _, f in ipairs(files) do remove_file(f) end
  end

  -- Files that have expired, from a place on: at most 100 of 1000, and where it goes on, {} at its
  -- end.
  function asks.old_files()
    local f, since, rows, looked, next = take_file(), number(take()), {}, 0, {}
    each_file(f.users, f.user, f.session, f.name, function(one)
      if looked == 1000 or #rows == 300 then
        next = {one.user, one.session, one.name}
        return true
      end
      looked = looked + 1
      if count_versions(one.key, since) > 0 then return end
      add(rows, one.user, one.session)
      add(rows, one.name)
    end)
    return {'ok', seen, text(#rows / 3), rows, next}
  end

  function writes.sweep_files()
    local users, old = take_file().users, {}
    local since, expected = number(take()), take()
    while at < #ARGV do
      local f = file(users, take(), take(), take())
      if call('EXISTS', f.key) == 1 and count_versions(f.key, since) == 0 then old[#old + 1] = f end
    end
    if text(#old) ~= expected then give_up('moved') end
    for _, f in ipairs(old) do remove_file(f) end
  end

  -- For tools: files behind a place, with how many versions each has.
  function asks.files()
    local f, limit, rows = take_file(), number(take()), {}
    each_file(f.users, f.user, f.session, f.name, function(one)
      if one.user == f.user and one.session == f.session and one.name == f.name then return end
      if #rows >= 4 * limit then return true end
      add(rows, one.user, one.session)
      add(rows, one.name, text(count_versions(one.key, -math.huge)))
    end)
    return {'ok', seen, rows}
  end
end
