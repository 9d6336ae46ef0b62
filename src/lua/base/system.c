/* Files and variables of the environment for the Lua layer. */
#include "lua/base/system.h"

#include <stdlib.h>

#include "base/platform.h"

static int close_file(lua_State *L) {
  luaL_Stream *stream = luaL_checkudata(L, 1, LUA_FILEHANDLE);
  return luaL_fileresult(L, fclose(stream->f) == 0, NULL);
}

/* core.openFile(path [, mode]) -> a file of Lua's io library; or nil, a message and a number */
static int open_file(lua_State *L) {
  const char *path = luaL_checkstring(L, 1), *mode = luaL_optstring(L, 2, "r");
  luaL_Stream *stream = lua_newuserdatauv(L, sizeof *stream, 0);
  stream->closef = NULL; /* it counts as closed */
  if (luaL_getmetatable(L, LUA_FILEHANDLE) != LUA_TTABLE) return luaL_error(L, "the io library is not loaded");
  lua_setmetatable(L, -2);
  stream->f = mp_open_file(path, mode);
  if (stream->f == NULL) return luaL_fileresult(L, 0, path);
  stream->closef = close_file;
  return 1;
}

/* core.environment(name) -> its value; nil: it is not set */
static int environment(lua_State *L) {
  char *value = mp_environment(luaL_checkstring(L, 1));
  lua_pushstring(L, value);
  free(value);
  return 1;
}

void mp_system_module(lua_State *L, int binding_index) {
  static const luaL_Reg functions[] = {{"openFile", open_file}, {"environment", environment}, {NULL, NULL}};
  mp_set_functions(L, binding_index, functions);
}
