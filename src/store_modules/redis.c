/*
** src/store_modules: the Lua modules of the stores that are libraries of their own. Each hands the
** store's opener to moonpad.open, which loads it when a URL asks for it (services/open.lua).
** Does not belong here: anything that the store does itself (src/store/redis).
**
** This file: `moonpad.redis`.
*/
#include <lauxlib.h>
#include <lua.h>

#include "moonpad_stores.h"

int luaopen_moonpad_redis(lua_State *L);

static void set_opener(lua_State *L, const char *scheme, const moonpad_store_opener *opener) {
  lua_pushlightuserdata(L, (void *)opener);
  lua_setfield(L, -2, scheme);
}

/* Of each scheme a light userdata: the opener. They live as long as this module is loaded. */
MOONPAD_API int luaopen_moonpad_redis(lua_State *L) {
  lua_createtable(L, 0, 4);
  set_opener(L, "redis", moonpad_redis_store());
  set_opener(L, "redis+unix", moonpad_redis_store());
  set_opener(L, "rediss", moonpad_redis_tls_store());
  set_opener(L, "redis+cluster", moonpad_redis_cluster_store());
  return 1;
}
