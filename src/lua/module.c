/* Opening the module, for `require` and for hosts that embed Lua. */
#include "moonpad_lua.h"

#include "lua/errors.h"
#include "lua/handles.h"
#include "lua/sources.h"

static void add_constants(lua_State *L, mp_lua *binding, int binding_index) {
  lua_pushlightuserdata(L, NULL); /* the very value of cjson.null */
  lua_setfield(L, -2, "null");
  lua_pushlightuserdata(L, binding->removed);
  lua_setfield(L, -2, "removed");
  lua_pushliteral(L, MOONPAD_VERSION);
  lua_setfield(L, -2, "_VERSION");
  lua_getiuservalue(L, binding_index, MP_ANCHOR_ERROR_META);
  lua_setfield(L, -2, "errorMetatable");
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
  int index = lua_gettop(L);
  lua_newtable(L);
  add_constants(L, binding, index);
  mp_error_module(L, index);
  mp_codec_module(L, index);
  mp_event_module(L, index);
  mp_service_module(L, index);
  mp_context_module(L, index);
  return 1;
}

/* ---- hosts ---- */

/* package.preload entry of a compiled-in Lua file; upvalue 1: its mp_lua_source */
static int load_source(lua_State *L) {
  const mp_lua_source *source = lua_touserdata(L, lua_upvalueindex(1));
  lua_pushfstring(L, "=%s", source->module);
  if (luaL_loadbufferx(L, source->chunk, source->length, lua_tostring(L, -1), "t") != LUA_OK) lua_error(L);
  lua_pushvalue(L, 1); /* the module's name, as require gives it */
  lua_call(L, 1, 1);
  return 1;
}

int luaopen_moonpad(lua_State *L) {
  luaL_checkversion(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_moonpad_core);
  lua_setfield(L, -2, "moonpad.core");
  for (const mp_lua_source *source = mp_lua_sources; source->module != NULL; source++) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)source);
    lua_pushcclosure(L, load_source, 1);
    lua_setfield(L, -2, source->module);
  }
  lua_pop(L, 1);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "moonpad");
  lua_call(L, 1, 1);
  return 1;
}

/* Runs as a function of the module, whose upvalue the binding is. */
static int push_shared_service(lua_State *L) {
  moonpad_service *service = lua_touserdata(L, 1);
  mp_lua_service *pushed = mp_push_service(L, mp_lua_of(L));
  pushed->service = moonpad_service_retain(service);
  return 1;
}

void moonpad_lua_push_service(lua_State *L, moonpad_service *service) {
  mp_lua_push_binding(L);
  mp_push_function(L, lua_gettop(L), push_shared_service);
  lua_remove(L, -2);
  lua_pushlightuserdata(L, service);
  lua_call(L, 1, 1);
}

moonpad_service *moonpad_lua_to_service(lua_State *L, int index) {
  index = lua_absindex(L, index);
  const mp_lua *binding = mp_lua_find_binding(L);
  if (binding == NULL) return NULL;
  mp_lua_service *service = mp_test_userdata(L, index, binding->service_meta);
  return service == NULL || service->closed ? NULL : service->service;
}
