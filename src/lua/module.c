/*
** The module `moonpad.core`: makes the binding of a Lua state, with the metatables of all types,
** and puts the functions of all rooms together.
**
** Arrows: module, embed and run -> service -> objects -> async -> codec -> base. The main header of
** each room says what belongs there.
*/

#include "lua/module.h"
#include "lua/async/drain.h"
#include "lua/async/due.h"
#include "lua/async/store_call.h"
#include "lua/base/clock.h"
#include "lua/base/errors.h"
#include "lua/base/secrets.h"
#include "lua/base/system.h"
#include "lua/codec/event.h"
#include "lua/objects/objects.h"
#include "lua/service/service.h"

#include "moonpad_lua.h"

/* ---- The binding and its metatables ---- */

/* Puts a new table into a slot, leaves it on the stack and returns its address. */
static const void *slot_table(lua_State *L, int binding_index, mp_binding_slot slot, const char *name) {
  lua_newtable(L);
  if (name != NULL) {
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
  }
  lua_pushvalue(L, -1);
  lua_setiuservalue(L, binding_index, (int)slot);
  return lua_topointer(L, -1);
}

static const void *add_type(lua_State *L, int binding_index, mp_binding_slot slot, const char *name,
                            void (*setup)(lua_State *L, int binding_index)) {
  const void *address = slot_table(L, binding_index, slot, name);
  if (setup != NULL) setup(L, binding_index);
  lua_pop(L, 1);
  return address;
}

static void add_weak_table(lua_State *L, int binding_index, mp_binding_slot slot, const char *mode) {
  slot_table(L, binding_index, slot, NULL);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

static void add_names(lua_State *L, int binding_index) {
  static const char *const names[] = {LUA_LOADED_TABLE, "cjson",       "cjson.safe", "array_mt",
                                      "empty_array_mt", "empty_array", NULL};
  slot_table(L, binding_index, MP_LUA_SLOT_NAMES, NULL);
  for (int i = 0; names[i] != NULL; i++) {
    lua_pushstring(L, names[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_pop(L, 1);
}

static void add_strings(lua_State *L, int binding_index) {
  lua_createtable(L, MP_STRING_REVISION, 0);
  lua_pushliteral(L, "revision");
  lua_rawseti(L, -2, MP_STRING_REVISION);
  lua_setiuservalue(L, binding_index, MP_LUA_SLOT_STRINGS);
}

static void handle_setup(lua_State *L, int binding_index) {
  (void)binding_index;
  mp_set_finalizer(L, mp_handle_gc);
}

static void event_setup(lua_State *L, int binding_index) {
  slot_table(L, binding_index, MP_LUA_SLOT_EVENT_METHODS, NULL);
  lua_setfield(L, -2, "__index");
}

static void session_setup(lua_State *L, int binding_index) {
  slot_table(L, binding_index, MP_LUA_SLOT_SESSION_METHODS, NULL);
  lua_pop(L, 1);
  mp_session_setup(L, binding_index);
}

static void build(lua_State *L, mp_lua *binding, int index) {
  add_type(L, index, MP_LUA_SLOT_HANDLE_META, "moonpad.handle", handle_setup);
  add_weak_table(L, index, MP_LUA_SLOT_NODES, "v");
  add_weak_table(L, index, MP_LUA_SLOT_READ_ONLY_NODES, "v");
  add_weak_table(L, index, MP_LUA_SLOT_SERVICES, "v");
  add_weak_table(L, index, MP_LUA_SLOT_THREADS, "k");
  add_names(L, index);
  add_strings(L, index);
  binding->array_meta = add_type(L, index, MP_LUA_SLOT_ARRAY_META, "moonpad.array", NULL);
  binding->event_meta = add_type(L, index, MP_LUA_SLOT_EVENT_META, "moonpad.event", event_setup);
  binding->inline_meta = add_type(L, index, MP_LUA_SLOT_INLINE_META, "moonpad.inlineData", NULL);
  binding->error_meta = add_type(L, index, MP_LUA_SLOT_ERROR_META, "moonpad.error", mp_error_setup);
  binding->service_meta = add_type(L, index, MP_LUA_SLOT_SERVICE_META, "moonpad.service", mp_service_setup);
  binding->session_meta = add_type(L, index, MP_LUA_SLOT_SESSION_META, "moonpad.session", session_setup);
  binding->events_meta = add_type(L, index, MP_LUA_SLOT_EVENTS_META, "moonpad.events", mp_events_setup);
  binding->state_meta = add_type(L, index, MP_LUA_SLOT_STATE_META, "moonpad.state", mp_state_setup);
  binding->node_meta = add_type(L, index, MP_LUA_SLOT_NODE_META, "moonpad.node", mp_node_setup);
  binding->pending_meta = add_type(L, index, MP_LUA_SLOT_PENDING_META, "moonpad.pendingAppend", mp_pending_setup);
  add_type(L, index, MP_LUA_SLOT_CALL_META, "moonpad.storeCall", mp_store_call_setup);
  binding->due_meta = add_type(L, index, MP_LUA_SLOT_DUE_META, "moonpad.due", mp_due_setup);
}

mp_lua *mp_lua_push_binding(lua_State *L) {
  luaL_checkstack(L, 12, NULL);
  if (mp_lua_push_found(L)) return lua_touserdata(L, -1);
  mp_lua *binding = mp_lua_push_new(L);
  int index = lua_gettop(L);
  build(L, binding, index);
  /* A finalizer may have opened the module meanwhile. */
  if (mp_lua_push_found(L)) {
    lua_replace(L, index);
    return lua_touserdata(L, index);
  }
  mp_lua_register(L, index);
  return binding;
}

/* ---- The module ---- */

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
  mp_session_module(L, binding_index);
  mp_context_module(L, binding_index);
  mp_events_module(L, binding_index);
  mp_transaction_module(L, binding_index);
  mp_clock_module(L, binding_index);
  mp_error_module(L, binding_index);
  mp_secrets_module(L, binding_index);
  mp_system_module(L, binding_index);
  mp_codec_module(L, binding_index);
  mp_event_module(L, binding_index);
  mp_store_call_module(L, binding_index);
  mp_drain_module(L, binding_index);
  mp_due_module(L, binding_index);
  mp_pending_module(L, binding_index);
  return 1;
}
