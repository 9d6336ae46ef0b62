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

/* By scheme. */
MOONPAD_API int luaopen_moonpad_redis_agent_stores(lua_State *L) {
  static const char *const schemes[] = {"redis", "redis+unix", "rediss", "redis+cluster"};
  const mp_agent_opener *const openers[] = {&mp_redis_agent_stores, &mp_redis_agent_stores, &mp_redis_tls_agent_stores,
                                            &mp_redis_cluster_agent_stores};
  lua_createtable(L, 0, 4);
  for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++) {
    mp_push_server_module(L, openers[i], write_schema);
    lua_setfield(L, -2, schemes[i]);
  }
  return 1;
}
