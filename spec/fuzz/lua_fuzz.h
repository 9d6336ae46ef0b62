/* A Lua state for fuzz targets, with moonpad and a script of spec/fuzz in it. */
#ifndef LUA_FUZZ_H
#define LUA_FUZZ_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <moonpad_lua.h>

#include "fuzz.h"

/* Leaves the function at index 1 that the script returns. */
static inline void load_script(lua_State *L, const char *name) {
  char path[4096];
  const char *folder = getenv("MOONPAD_FUZZ_LUA");
  snprintf(path, sizeof path, "%s/%s", folder == NULL ? "spec/fuzz" : folder, name);
  luaL_openlibs(L);
  luaL_requiref(L, "moonpad", luaopen_moonpad, 0);
  lua_settop(L, 0);
  if (luaL_loadfile(L, path) != LUA_OK || lua_pcall(L, 0, 1, 0) != LUA_OK) broken("%s", lua_tostring(L, -1));
}

static inline int add_traceback(lua_State *L) {
  luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
  return 1;
}

/* Calls it with the input. Whatever it raises is a finding. */
static inline void call_script(lua_State *L, const uint8_t *data, size_t size) {
  lua_pushcfunction(L, add_traceback);
  lua_pushvalue(L, 1);
  lua_pushlstring(L, size == 0 ? "" : (const char *)data, size);
  if (lua_pcall(L, 1, 0, -3) != LUA_OK) broken("%s", lua_tostring(L, -1));
  lua_settop(L, 1);
}

#endif
