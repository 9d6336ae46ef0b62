/* The Lua module `moonpad.mysql_agent_stores`. */
#include "agent_stores/lua_server_module.h"
#include "agent_stores/mysql/stores.h"

int luaopen_moonpad_mysql_agent_stores(lua_State *L);

static moonpad_status write_schema(moonpad_string rest, mp_buffer *sql, moonpad_error *error) {
  static const mp_mysql_tables *const tables[] = {&mp_mysql_artifact_tables, &mp_mysql_memory_tables};
  return mp_mysql_print_schema(sql->env, rest, tables, sizeof tables / sizeof *tables, sql, error);
}

MOONPAD_API int luaopen_moonpad_mysql_agent_stores(lua_State *L) {
  return mp_push_server_module(L, &mp_mysql_agent_stores, write_schema);
}
