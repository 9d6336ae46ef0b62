/*
** What questions and writes of artifacts and memories have in common. They follow upon the script
** of the sessions' transactions (store/redis/transaction_script.c), whose functions they use.
*/
#include "agent_stores/redis/stores.h"

/* One line of Lua on each line. */
/* clang-format off */
const char mp_redis_lists_script[] =
    "-- Artifacts and memories. Before it stores anything, a write finds out again what its question has\n"
    "-- answered, which it is told: if the answer is another one now, the transaction is called again.\n"
    "-- A transaction has one write, which stores at once: nothing here needs pages.\n"
    "do\n"
    "  local function number(digits) return tonumber(digits or nil) or give_up('damaged') end\n"
    "  local function expect(answer) if answer ~= take() then give_up('moved') end end\n"
    "  local function unlink(keys)\n"
    "    for i = 1, #keys, 100 do call('UNLINK', unpack(keys, i, math.min(i + 99, #keys))) end\n"
    "  end\n"
    "  -- ---- lists of names: sorted sets with the score 0, so in the order of bytes ----\n"
    "  local function under(key, name) return key .. ':' .. encoded(name) end\n"
    "  -- Calls each(name) from a name on ('': all), until it returns true.\n"
    "  local function each_name(key, from, each)\n"
    "    local first = from == '' and '-' or '[' .. from\n"
    "    repeat\n"
    "      local some = call('ZRANGEBYLEX', key, first, '+', 'LIMIT', 0, 100)\n"
    "      for _, name in ipairs(some) do if each(name) then return true end end\n"
    "      if #some > 0 then first = '(' .. some[#some] end\n"
    "    until #some < 100\n"
    "  end\n"
    "  local function list(key, name) call('ZADD', key, 0, name) end\n"
    "  -- True: it was the last one, and the list is gone.\n"
    "  local function unlist(key, name)\n"
    "    call('ZREM', key, name)\n"
    "    return call('EXISTS', key) == 0\n"
    "  end\n"
    "  -- An app that has this list is registered.\n"
    "  local function check_registered(users)\n"
    "    if app_number == '0' and call('EXISTS', users) == 0 then give_up('unregistered') end\n"
    "  end\n"
    "  -- The list of the users of the app, and one of them.\n"
    "  local function take_user(letter)\n"
    "    return T .. letter, take()\n"
    "  end\n";
/* clang-format on */
