/* The Lua module `moonpad.redis_agent_stores`. */
#include "agent_stores/lua_server_module.h"
#include "agent_stores/redis/stores.h"
#include "base/error.h"

int luaopen_moonpad_redis_agent_stores(lua_State *L);

static moonpad_status write_schema(moonpad_string rest, mp_buffer *sql, moonpad_error *error) {
  (void)rest, (void)sql;
  return mp_fail(error, MOONPAD_UNSUPPORTED,
                 "redis: there is no schema to print: keys come with what is stored (docs/servers.md lists them)");
}

MOONPAD_API int luaopen_moonpad_redis_agent_stores(lua_State *L) {
  return mp_push_server_module(L, &mp_redis_agent_stores, write_schema);
}
