/*
** The Lua module `moonpad.agent_stores_core`: the stores of artifacts and of memories as userdata.
** It is a library of its own, so that the core does without them. It takes from moonpad.core how a
** call is made, at once or on a worker while its coroutine waits (lua/async/store_call.h). People
** use lua/moonpad/services/artifacts.lua and memory.lua, which check all arguments before.
*/
#include "agent_stores/lua_store.h"

static const mp_store_calls *find_store_calls(lua_State *L) {
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonpad.core");
  lua_call(L, 1, 1);
  luaL_checktype(L, -1, LUA_TTABLE);
  lua_getfield(L, -1, "storeCalls");
  const mp_store_calls *calls = lua_touserdata(L, -1);
  if (calls == NULL || calls->size != sizeof *calls) {
    luaL_error(L, "it has not been built together with the module moonpad.core");
  }
  lua_pop(L, 2);
  return calls;
}

MOONPAD_API int luaopen_moonpad_agent_stores_core(lua_State *L);

int luaopen_moonpad_agent_stores_core(lua_State *L) {
  static const luaL_Reg functions[] = {
      {"artifacts", mp_agent_open_artifacts}, {"memories", mp_agent_open_memories}, {NULL, NULL}};
  luaL_checkversion(L);
  const mp_store_calls *calls = find_store_calls(L);
  mp_agent_artifacts_type(L, calls);
  mp_agent_memories_type(L, calls);
  luaL_newlibtable(L, functions);
  lua_pushlightuserdata(L, (void *)calls);
  luaL_setfuncs(L, functions, 1);
  return 1;
}
