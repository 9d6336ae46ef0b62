/* The Lua module `moonpad.postgres_agent_stores`. */
#include <lauxlib.h>
#include <lua.h>

#include "agent_stores/postgres/stores.h"

int luaopen_moonpad_postgres_agent_stores(lua_State *L);

/* A light userdata: the mp_agent_opener. It lives as long as this module is loaded. */
MOONPAD_API int luaopen_moonpad_postgres_agent_stores(lua_State *L) {
  lua_pushlightuserdata(L, (void *)&mp_postgres_agent_stores);
  return 1;
}
