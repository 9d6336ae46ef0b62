/* The Lua module `moonpad.postgres_agent_stores`. */
#include "agent_stores/lua_server_module.h"
#include "agent_stores/postgres/stores.h"

int luaopen_moonpad_postgres_agent_stores(lua_State *L);

static moonpad_status write_schema(moonpad_string rest, mp_buffer *sql, moonpad_error *error) {
  static const mp_postgres_tables *const tables[] = {&mp_postgres_artifact_tables, &mp_postgres_memory_tables};
  return mp_postgres_print_schema(sql->env, rest, tables, sizeof tables / sizeof *tables, sql, error);
}

MOONPAD_API int luaopen_moonpad_postgres_agent_stores(lua_State *L) {
  return mp_push_server_module(L, &mp_postgres_agent_stores, write_schema);
}
