/* The Lua module `moonpad.postgres_agent_stores`. */
#include <lauxlib.h>
#include <lua.h>

#include "agent_stores/postgres/stores.h"

int luaopen_moonpad_postgres_agent_stores(lua_State *L);

static moonpad_status write_schema(moonpad_string rest, mp_buffer *sql, moonpad_error *error) {
  static const mp_postgres_tables *const tables[] = {&mp_postgres_artifact_tables, &mp_postgres_memory_tables};
  return mp_postgres_print_schema(sql->env, rest, tables, sizeof tables / sizeof *tables, sql, error);
}

/* schema(url behind its scheme) -> SQL | nil, message, code */
static int schema(lua_State *L) {
  mp_buffer sql;
  moonpad_error error = {MOONPAD_NO_MEMORY, "out of memory"};
  moonpad_string rest;
  rest.data = luaL_checklstring(L, 1, &rest.length);
  lua_settop(L, 1);
  mp_env *env = mp_env_new(NULL);
  mp_buffer_init(&sql, env);
  moonpad_status status = env == NULL ? MOONPAD_NO_MEMORY : write_schema(rest, &sql, &error);
  if (status == MOONPAD_OK) {
    lua_pushlstring(L, sql.data, sql.length);
  } else {
    lua_pushnil(L);
    lua_pushstring(L, error.message);
    lua_pushstring(L, moonpad_status_name(status));
  }
  mp_buffer_free(&sql);
  mp_env_release(env);
  return lua_gettop(L) - 1;
}

/* `opener`, a light userdata: the mp_agent_opener. It lives as long as this module is loaded. */
MOONPAD_API int luaopen_moonpad_postgres_agent_stores(lua_State *L) {
  static const luaL_Reg functions[] = {{"schema", schema}, {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_pushlightuserdata(L, (void *)&mp_postgres_agent_stores);
  lua_setfield(L, -2, "opener");
  return 1;
}
