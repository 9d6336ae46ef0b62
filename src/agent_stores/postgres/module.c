/* The Lua module `moonpad.postgres_agent_stores`. */
#include <lauxlib.h>
#include <lua.h>

#include "agent_stores/postgres/stores.h"

int luaopen_moonpad_postgres_agent_stores(lua_State *L);

static moonpad_status write_schema(moonpad_string rest, mp_buffer *sql, moonpad_error *error) {
  static const mp_postgres_tables *const tables[] = {&mp_postgres_artifact_tables, &mp_postgres_memory_tables};
  return mp_postgres_print_schema(sql->env, rest, tables, sizeof tables / sizeof *tables, sql, error);
}

/* Of the light userdata at 1. Raises m. */
static int push_sql(lua_State *L) {
  const mp_buffer *sql = lua_touserdata(L, 1);
  lua_pushlstring(L, sql->data, sql->length);
  return 1;
}

/* schema(url behind its scheme) -> SQL | nil, message, code */
static int schema(lua_State *L) {
  mp_buffer sql;
  moonpad_error error = {MOONPAD_NO_MEMORY, "out of memory"};
  moonpad_string rest;
  rest.data = luaL_checklstring(L, 1, &rest.length);
  mp_env *env = mp_env_new(NULL);
  mp_buffer_init(&sql, env);
  moonpad_status status = env == NULL ? MOONPAD_NO_MEMORY : write_schema(rest, &sql, &error);
  lua_pushcfunction(L, push_sql);
  lua_pushlightuserdata(L, &sql);
  int raised = status == MOONPAD_OK ? lua_pcall(L, 1, 1, 0) : LUA_OK;
  mp_buffer_free(&sql);
  mp_env_release(env);
  if (raised != LUA_OK) return lua_error(L);
  if (status == MOONPAD_OK) return 1;
  lua_pushnil(L);
  lua_pushstring(L, error.message);
  lua_pushstring(L, moonpad_status_name(status));
  return 3;
}

/* `opener`, a light userdata: the mp_agent_opener. It lives as long as this module is loaded. */
MOONPAD_API int luaopen_moonpad_postgres_agent_stores(lua_State *L) {
  static const luaL_Reg functions[] = {{"schema", schema}, {NULL, NULL}};
  luaL_newlib(L, functions);
  lua_pushlightuserdata(L, (void *)&mp_postgres_agent_stores);
  lua_setfield(L, -2, "opener");
  return 1;
}
