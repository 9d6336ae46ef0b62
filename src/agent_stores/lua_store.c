/* What the userdata of both stores share. */
#include "agent_stores/lua_store.h"

#include "base/error.h"

/* ---- Stores ---- */

typedef struct store_handle {
  mp_agent_store *store; /* NULL: not opened, or collected */
} store_handle;

static void release_store(mp_agent_store *store) {
  if (store == NULL || --store->references > 0) return;
  mp_env *env = store->env;
  if (store->artifacts != NULL) store->artifacts->ops->free(store->artifacts);
  if (store->memories != NULL) store->memories->ops->free(store->memories);
  mp_release(env, store);
  mp_env_release(env);
}

const mp_store_config *mp_agent_check_config(lua_State *L, int index) {
  luaL_checktype(L, index, LUA_TUSERDATA);
  luaL_argcheck(L, lua_rawlen(L, index) == sizeof(mp_store_config), index, "what core.checkStore gives expected");
  return lua_touserdata(L, index);
}

mp_agent_store *mp_agent_push_store(lua_State *L, const char *type, const mp_store_config *config) {
  store_handle *handle = lua_newuserdatauv(L, sizeof *handle, 0);
  handle->store = NULL;
  luaL_setmetatable(L, type);
  mp_env *env = mp_env_new(&config->options);
  mp_agent_store *store = env == NULL ? NULL : mp_allocate_zeroed(env, sizeof *store);
  if (store == NULL) {
    mp_env_release(env);
    return NULL;
  }
  mp_agent_calls_of(L)->keep_clock(env);
  store->references = 1;
  store->env = env;
  store->time_to_live = config->time_to_live;
  handle->store = store;
  return store;
}

static store_handle *check_handle(lua_State *L) {
  return luaL_checkudata(L, 1, lua_tostring(L, lua_upvalueindex(2)));
}

static int collect(lua_State *L) {
  store_handle *handle = check_handle(L);
  mp_agent_store *store = handle->store;
  handle->store = NULL;
  release_store(store);
  return 0;
}

static int close_store(lua_State *L) {
  const mp_agent_store *store = check_handle(L)->store;
  if (store != NULL && store->artifacts != NULL) store->artifacts->ops->close(store->artifacts);
  if (store != NULL && store->memories != NULL) store->memories->ops->close(store->memories);
  return 0;
}

/* ---- Results ---- */

int mp_agent_push_failure(lua_State *L, const moonpad_error *error) {
  lua_pushnil(L);
  lua_pushstring(L, error->message);
  lua_pushstring(L, moonpad_status_name(error->code));
  return 3;
}

int mp_agent_push_closed(lua_State *L) {
  moonpad_error error;
  mp_fail(&error, MOONPAD_CLOSED, "the service is closed");
  return mp_agent_push_failure(L, &error);
}

int mp_agent_push_no_memory(lua_State *L) {
  moonpad_error error;
  mp_no_memory(&error);
  return mp_agent_push_failure(L, &error);
}

void mp_agent_set_string(lua_State *L, const char *field, moonpad_string text) {
  lua_pushlstring(L, text.length == 0 ? "" : text.data, text.length);
  lua_setfield(L, -2, field);
}

/* ---- Arguments ---- */

moonpad_string mp_agent_check_string(lua_State *L, int index) {
  moonpad_string text;
  luaL_checktype(L, index, LUA_TSTRING);
  text.data = lua_tolstring(L, index, &text.length);
  return text;
}

/* ---- Calls ---- */

const mp_store_calls *mp_agent_calls_of(lua_State *L) {
  return lua_touserdata(L, lua_upvalueindex(1));
}

mp_agent_call *mp_agent_push_call(lua_State *L, const mp_store_call_type *type, int count) {
  mp_agent_store *store = check_handle(L)->store;
  lua_settop(L, count);
  if (store == NULL) return NULL;
  if (mp_agent_calls_of(L)->ask_clock(L, store->env) && check_handle(L)->store == NULL) return NULL;
  mp_agent_call *made = (mp_agent_call *)mp_agent_calls_of(L)->push(L, type, NULL);
  made->store = store;
  store->references++;
  mp_buffer_init(&made->found, store->env);
  return made;
}

int mp_agent_make_call(lua_State *L, mp_agent_call *made, bool in_memory) {
  moonpad_error error;
  made->time.time_to_live = made->store->time_to_live;
  if (mp_now(made->store->env, &made->time.now, &error) != MOONPAD_OK) return mp_agent_push_failure(L, &error);
  return mp_agent_calls_of(L)->make(L, &made->call, in_memory);
}

void mp_agent_release_call(mp_agent_call *done) {
  mp_buffer_free(&done->found);
  release_store(done->store);
}

void mp_agent_keep_argument(lua_State *L, mp_agent_call *made, int index, moonpad_string *text) {
  *text = mp_agent_check_string(L, index);
  mp_store_call_keep(&made->call, text);
}

int mp_agent_push_number(lua_State *L, mp_store_call *call) {
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  lua_pushinteger(L, ((const mp_agent_call *)call)->number);
  return 1;
}

int mp_agent_push_exists(lua_State *L, mp_store_call *call) {
  if (call->status != MOONPAD_OK) return mp_agent_push_failure(L, &call->error);
  lua_pushboolean(L, ((const mp_agent_call *)call)->exists);
  return 1;
}

/* ---- Types ---- */

/* The upvalues of every function of a type: see lua_store.h. */
static void push_upvalues(lua_State *L, const mp_store_calls *calls, const char *type) {
  lua_pushlightuserdata(L, (void *)calls);
  lua_pushstring(L, type);
}

void mp_agent_make_type(lua_State *L, const mp_store_calls *calls, const char *name, const luaL_Reg *methods) {
  static const luaL_Reg metamethods[] = {{"__gc", collect}, {NULL, NULL}};
  static const luaL_Reg shared[] = {{"close", close_store}, {NULL, NULL}};
  luaL_newmetatable(L, name);
  push_upvalues(L, calls, name);
  luaL_setfuncs(L, metamethods, 2);
  lua_newtable(L);
  push_upvalues(L, calls, name);
  luaL_setfuncs(L, methods, 2);
  push_upvalues(L, calls, name);
  luaL_setfuncs(L, shared, 2);
  lua_setfield(L, -2, "__index");
  lua_pushboolean(L, 0);
  lua_setfield(L, -2, "__metatable");
  lua_pop(L, 1);
}
