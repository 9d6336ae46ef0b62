/*
** Places on the servers that tests use (spec/c/server_support.h), for Lua specs.
*/
#include <lauxlib.h>
#include <lua.h>

#include "../c/server_support.h"
#include "moonpad.h"

/* rest(variable) -> the URL behind its scheme, or nil: the server is not there */
static int rest(lua_State *L) {
  char made[256];
  const char *variable = luaL_checkstring(L, 1);
  if (!server_is_there(variable)) return 0;
  server_make_url(variable, made, sizeof made);
  lua_pushstring(L, made);
  return 1;
}

/* forget(rest): removes what such a URL has led to */
static int forget(lua_State *L) {
  server_forget_url(luaL_checkstring(L, 1));
  return 0;
}

/* borrow(variable): the same as rest, of a place that need not be new */
static int borrow(lua_State *L) {
  char made[256];
  const char *variable = luaL_checkstring(L, 1);
  if (!server_is_there(variable)) return 0;
  server_borrow_url(variable, made, sizeof made);
  lua_pushstring(L, made);
  return 1;
}

/* give_back(rest): of what was borrowed */
static int give_back(lua_State *L) {
  server_return_url(luaL_checkstring(L, 1));
  return 0;
}

int luaopen_spec_servers(lua_State *L);

MOONPAD_API int luaopen_spec_servers(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"rest", rest}, {"forget", forget}, {"borrow", borrow}, {"giveBack", give_back}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
