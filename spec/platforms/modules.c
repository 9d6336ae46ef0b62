/*
** What makes of Lua's own program, lua.c, one that has all modules in C inside that specs load:
** moonpad's, three of others, and of luasystem and lua-term the little that busted asks of them.
** For scripts/platforms.sh, whose programs are static and load no module. It is linked with
** --wrap=luaL_openlibs.
*/
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "base/platform.h"
#include "moonpad_lua.h"

int luaopen_moonpad_agent_stores_core(lua_State *L);
int luaopen_moonpad_cli_core(lua_State *L);
int luaopen_moonpad_process_core(lua_State *L);
int luaopen_spec_folders(lua_State *L);
int luaopen_spec_shell(lua_State *L);
int luaopen_spec_slow_store(lua_State *L);
int luaopen_cjson(lua_State *L);
int luaopen_lfs(lua_State *L);
int luaopen_socket_core(lua_State *L);

/* ---- luasystem, lua-term ---- */

static int system_time(lua_State *L) {
  lua_pushnumber(L, mp_system_time());
  return 1;
}

static int monotonic(lua_State *L) {
  lua_pushnumber(L, mp_monotonic());
  return 1;
}

static int sleep_seconds(lua_State *L) {
  mp_sleep(luaL_checknumber(L, 1));
  return 0;
}

static int open_system(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"gettime", system_time}, {"monotime", monotonic}, {"sleep", sleep_seconds}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}

static int is_terminal(lua_State *L) {
  lua_pushboolean(L, 0);
  return 1;
}

static int open_term(lua_State *L) {
  static const luaL_Reg functions[] = {{"isatty", is_terminal}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}

/* ---- All of them ---- */

static int push_service(lua_State *L) {
  lua_pushcfunction(L, (lua_CFunction)(void (*)(void))moonpad_lua_push_service);
  return 1;
}

static const luaL_Reg modules[] = {{"moonpad.core", luaopen_moonpad_core},
                                   {"moonpad.agent_stores_core", luaopen_moonpad_agent_stores_core},
                                   {"moonpad.cli_core", luaopen_moonpad_cli_core},
                                   {"moonpad.process_core", luaopen_moonpad_process_core},
                                   {"spec.folders", luaopen_spec_folders},
                                   {"spec.slow_store", luaopen_spec_slow_store},
                                   {"spec.push_service", push_service},
                                   {"cjson", luaopen_cjson},
                                   {"lfs", luaopen_lfs},
                                   {"socket.core", luaopen_socket_core},
                                   {"system", open_system},
                                   {"term", open_term},
                                   {NULL, NULL}};

#if defined(__EMSCRIPTEN__)

/* Emscripten has no pipes to programs. */
static void use_shell(lua_State *L) {
  luaopen_spec_shell(L);
  lua_getglobal(L, "io");
  lua_getfield(L, -2, "popen");
  lua_setfield(L, -2, "popen");
  lua_pop(L, 2);
}

#endif

void __real_luaL_openlibs(lua_State *L);
void __wrap_luaL_openlibs(lua_State *L);

void __wrap_luaL_openlibs(lua_State *L) {
  __real_luaL_openlibs(L);
#if defined(__EMSCRIPTEN__)
  use_shell(L);
#endif
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  luaL_setfuncs(L, modules, 0);
  lua_pop(L, 1);
}
