/* For hosts with a Lua state of their own: moonpad_lua.h. */
#include <stdio.h>

#include "base/error.h"
#include "lua/base/handles.h"
#include "lua/module.h"
#include "lua/sources.h"
#include "service/binding/service.h"

#include "moonpad_lua.h"

/* In a library that a program links as a whole; elsewhere a module of its own. */
#if defined(MOONPAD_AGENT_STORES_INSIDE)
int luaopen_moonpad_agent_stores_core(lua_State *L);
#endif
/* In a page. */
#if defined(MOONPAD_HTTP_INSIDE)
int luaopen_moonpad_http_core(lua_State *L);
#endif

/* ---- The module with its Lua files compiled in ---- */

/* Runs one compiled-in file as `require` would: upvalue 1 is its entry. */
static int load_source(lua_State *L) {
  const mp_lua_source *source = lua_touserdata(L, lua_upvalueindex(1));
  lua_settop(L, 1);
  char name[128];
  snprintf(name, sizeof name, "=%s", source->module);
  if (luaL_loadbufferx(L, source->chunk, source->length, name, "t") != LUA_OK) return lua_error(L);
  lua_insert(L, 1);
  lua_pushliteral(L, ":moonpad:");
  lua_call(L, 2, 1);
  return 1;
}

/* With package.preload and a loader at the top: takes the loader, unless the host has given one. */
static void preload(lua_State *L, const char *module) {
  bool is_given = lua_getfield(L, -2, module) != LUA_TNIL;
  lua_pop(L, 1);
  if (is_given) {
    lua_pop(L, 1);
  } else {
    lua_setfield(L, -2, module);
  }
}

int luaopen_moonpad(lua_State *L) {
  luaL_checkversion(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_moonpad_core);
  preload(L, "moonpad.core");
#if defined(MOONPAD_AGENT_STORES_INSIDE)
  lua_pushcfunction(L, luaopen_moonpad_agent_stores_core);
  preload(L, "moonpad.agent_stores_core");
#endif
#if defined(MOONPAD_HTTP_INSIDE)
  lua_pushcfunction(L, luaopen_moonpad_http_core);
  preload(L, "moonpad.http_core");
#endif
  const mp_lua_source *facade = NULL;
  for (const mp_lua_source *source = mp_lua_sources; source->module != NULL; source++) {
    lua_pushlightuserdata(L, (void *)(uintptr_t)source);
    lua_pushcclosure(L, load_source, 1);
    preload(L, source->module);
    if (strcmp(source->module, "moonpad") == 0) facade = source;
  }
  if (facade == NULL) return luaL_error(L, "moonpad: built without its Lua files");
  lua_pushlightuserdata(L, (void *)(uintptr_t)facade);
  lua_pushcclosure(L, load_source, 1);
  lua_pushliteral(L, "moonpad");
  lua_call(L, 1, 1);
  return 1;
}

/* ---- Services across the boundary ---- */

static int push_retained(lua_State *L) {
  mp_push_shared_service(L, mp_lua_of(L), lua_touserdata(L, 1));
  return 1;
}

void moonpad_lua_push_service(lua_State *L, moonpad_service *service) {
  luaL_checkstack(L, 4, NULL);
  if (service == NULL) {
    lua_pushnil(L);
    return;
  }
  mp_lua_push_binding(L);
  lua_pushcclosure(L, push_retained, 1);
  lua_pushlightuserdata(L, service);
  lua_call(L, 1, 1);
}

static mp_lua_service *find_open(lua_State *L, int index) {
  index = lua_absindex(L, index);
  const mp_lua *binding = mp_lua_find_binding(L);
  if (binding == NULL || !lua_checkstack(L, 2)) return NULL;
  mp_lua_service *handle = mp_test_userdata(L, index, binding->service_meta);
  if (handle == NULL || handle->closed || handle->service == NULL) return NULL;
  return mp_service_is_closed(handle->service) ? NULL : handle;
}

moonpad_service *moonpad_lua_to_service(lua_State *L, int index) {
  const mp_lua_service *handle = find_open(L, index);
  return handle == NULL ? NULL : handle->service;
}

moonpad_status moonpad_lua_fd(lua_State *L, int index, int *fd, moonpad_error *error) {
  *fd = -1;
  mp_lua_service *handle = find_open(L, index);
  if (handle == NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "moonpad_lua_fd: there is no open service at this index");
  }
  moonpad_status status = mp_need_queue(handle, error);
  return status == MOONPAD_OK ? moonpad_queue_fd(handle->queue, fd, error) : status;
}
