/* The module `moonpad.core`. */
#include "lua/async/store_call.h"
#include "lua/base/clock.h"
#include "lua/base/handles.h"

#include "moonpad_lua.h"

static void set_constants(lua_State *L, const mp_lua *binding) {
  lua_pushlightuserdata(L, NULL);
  lua_setfield(L, -2, "null");
  lua_pushlightuserdata(L, binding->removed);
  lua_setfield(L, -2, "removed");
  lua_pushstring(L, moonpad_version());
  lua_setfield(L, -2, "_VERSION");
  lua_createtable(L, 0, 3);
  lua_pushliteral(L, "app:");
  lua_setfield(L, -2, "APP_PREFIX");
  lua_pushliteral(L, "user:");
  lua_setfield(L, -2, "USER_PREFIX");
  lua_pushliteral(L, "temp:");
  lua_setfield(L, -2, "TEMP_PREFIX");
  lua_setfield(L, -2, "StatePrefix");
}

int luaopen_moonpad_core(lua_State *L) {
  luaL_checkversion(L);
  mp_lua *binding = mp_lua_push_binding(L);
  int binding_index = lua_gettop(L);
  lua_newtable(L);
  set_constants(L, binding);
  mp_service_module(L, binding_index);
  mp_context_module(L, binding_index);
  mp_transaction_module(L, binding_index);
  mp_clock_module(L, binding_index);
  mp_error_module(L, binding_index);
  mp_codec_module(L, binding_index);
  mp_event_module(L, binding_index);
  mp_store_call_module(L, binding_index);
  mp_due_module(L, binding_index);
  mp_pending_module(L, binding_index);
  return 1;
}
