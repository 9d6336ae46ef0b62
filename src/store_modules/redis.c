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

/* A light userdata: the moonpad_store_opener. It lives as long as this module is loaded. */
MOONPAD_API int luaopen_moonpad_redis(lua_State *L) {
  lua_pushlightuserdata(L, (void *)moonpad_redis_store());
  return 1;
}
