/* A table with an opener and a function that tells SQL. */
#include "agent_stores/lua_server_module.h"

#include <lauxlib.h>

/* Of the light userdata at 1. Raises m. */
static int push_sql(lua_State *L) {
  const mp_buffer *sql = lua_touserdata(L, 1);
  lua_pushlstring(L, sql->data, sql->length);
  return 1;
}

/* Its upvalue: a userdata with the writer. */
static int schema(lua_State *L) {
  const mp_schema_writer *write = lua_touserdata(L, lua_upvalueindex(1));
  mp_buffer sql;
  moonpad_error error = {MOONPAD_NO_MEMORY, "out of memory"};
  moonpad_string rest;
  rest.data = luaL_checklstring(L, 1, &rest.length);
  mp_env *env = mp_env_new(NULL);
  mp_buffer_init(&sql, env);
  moonpad_status status = env == NULL ? MOONPAD_NO_MEMORY : (*write)(rest, &sql, &error);
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

int mp_push_server_module(lua_State *L, const mp_agent_opener *opener, mp_schema_writer write) {
  lua_createtable(L, 0, 2);
  mp_schema_writer *kept = lua_newuserdatauv(L, sizeof *kept, 0);
  *kept = write;
  lua_pushcclosure(L, schema, 1);
  lua_setfield(L, -2, "schema");
  lua_pushlightuserdata(L, (void *)opener);
  lua_setfield(L, -2, "opener");
  return 1;
}
