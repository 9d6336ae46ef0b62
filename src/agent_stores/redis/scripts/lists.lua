-- Artifacts and memories: parts of the script of transactions (src/store/redis/scripts), behind
-- store.lua; the block that begins here ends in artifacts.lua or memories.lua. Before it stores
-- anything, a write finds out again what its question has answered, which it is told: if the answer
-- is another one now, the transaction is called again. A transaction has one write, which stores at
-- once: nothing here needs pages.
do
  local function number(digits) return tonumber(digits or nil) or give_up('damaged') end
  local function expect(answer) if answer ~= take() then give_up('moved') end end

  local function unlink(keys)
    for i = 1, #keys, 100 do call('UNLINK', unpack(keys, i, math.min(i + 99, #keys))) end
  end

  -- ---- lists of names: sorted sets with the score 0, so in the order of bytes ----
  local function under(key, name) return key .. ':' .. encoded(name) end

  -- Calls each(name) from a name on ('': all), until it returns true.
  local function each_name(key, from, each)
    local first = from == '' and '-' or '[' .. from
    repeat
      local some = call('ZRANGEBYLEX', key, first, '+', 'LIMIT', 0, 100)
      for _, name in ipairs(some) do if each(name) then return true end end
      if #some > 0 then first = '(' .. some[#some] end
    until #some < 100
  end

  local function list(key, name) call('ZADD', key, 0, name) end

  -- True: it was the last one, and the list is gone.
  local function unlist(key, name)
    call('ZREM', key, name)
    return call('EXISTS', key) == 0
  end

  -- An app that has this list is registered.
  local function check_registered(users)
    if app_number == '0' and call('EXISTS', users) == 0 then give_up('unregistered') end
  end

  -- The list of the users of the app, and one of them.
  local function take_user(letter)
    return T .. letter, take()
  end
