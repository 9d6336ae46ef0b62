/* The binding of one Lua state: scratch memory, and the userdata that own C memory. */
#include "lua/base/binding.h"

/* The version is part of the name: another version's binding has another layout. */
#define REGISTRY_NAME "moonpad.binding " MOONPAD_VERSION

/* Its address is moonpad.removed. */
static const char removed_mark = 0;

/* Under its address the binding is found without a string, which would have to be made. */
static const char registry_key = 0;

/* ---- Handles ---- */

/* What Lua aligns userdata for; max_align_t asks for more. */
typedef union aligned {
  void *pointer;
  double number;
  int64_t integer;
} aligned;

typedef struct handle {
  void (*release)(void *payload);
  aligned payload[];
} handle;

void *mp_handle_push(lua_State *L, size_t size, void (*release)(void *payload)) {
  handle *made = lua_newuserdatauv(L, sizeof(handle) + size, 0);
  memset(made, 0, sizeof(handle) + size);
  mp_push_slot(L, MP_LUA_SLOT_HANDLE_META);
  lua_setmetatable(L, -2);
  made->release = release;
  return made->payload;
}

void *mp_handle_object(lua_State *L, int index) {
  handle *made = lua_touserdata(L, index);
  return made->payload;
}

void *mp_handle_test(lua_State *L, int index, void (*release)(void *payload)) {
  mp_push_slot(L, MP_LUA_SLOT_HANDLE_META);
  handle *made = mp_test_userdata(L, index, lua_topointer(L, -1));
  lua_pop(L, 1);
  return made != NULL && made->release == release ? made->payload : NULL;
}

static void release_handle(handle *made) {
  void (*release)(void *payload) = made->release;
  made->release = NULL;
  if (release != NULL) release(made->payload);
}

void mp_handle_release(void *payload) {
  release_handle((handle *)(void *)((char *)payload - offsetof(handle, payload)));
}

int mp_handle_gc(lua_State *L) {
  release_handle(lua_touserdata(L, 1));
  return 0;
}

/* It keeps its env alive: at the closing of a Lua state nobody knows which userdata goes first. */
typedef struct buffer_handle {
  mp_buffer buffer;
} buffer_handle;

static void release_buffer(void *payload) {
  buffer_handle *owned = payload;
  mp_env *env = owned->buffer.env;
  if (env == NULL) return;
  mp_buffer_free(&owned->buffer);
  mp_env_release(env);
}

mp_buffer *mp_handle_push_buffer(lua_State *L, mp_lua *binding) {
  buffer_handle *owned = mp_handle_push(L, sizeof(buffer_handle), release_buffer);
  mp_buffer_init(&owned->buffer, mp_env_retain(binding->env));
  return &owned->buffer;
}

/* ---- The collector ---- */

#define REPORT_BYTES ((size_t)64 * 1024)

void mp_report_memory(lua_State *L, mp_lua *binding, size_t bytes) {
  binding->unreported += bytes;
  if (binding->unreported < REPORT_BYTES) return;
  size_t kilobytes = binding->unreported / 1024;
  binding->unreported = 0;
  /* A host that has stopped the collector means it. */
  if (lua_gc(L, LUA_GCISRUNNING)) lua_gc(L, LUA_GCSTEP, (int)(kilobytes < 1024 * 1024 ? kilobytes : 1024 * 1024));
}

/* ---- The binding itself ---- */

static int binding_gc(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, 1);
  mp_env *env = binding->env;
  if (env == NULL) return 0;
  binding->env = NULL;
  mp_buffer_free(&binding->text);
  mp_buffer_free(&binding->scratch);
  mp_buffer_free(&binding->removed_keys);
  mp_release(env, binding->spans);
  binding->cached_call = NULL;
  binding->spans = NULL;
  binding->span_count = binding->span_capacity = 0;
  mp_env_release(env);
  return 0;
}

void mp_push_function(lua_State *L, int binding_index, lua_CFunction function) {
  lua_pushvalue(L, binding_index);
  lua_pushcclosure(L, function, 1);
}

void mp_set_functions(lua_State *L, int binding_index, const luaL_Reg *functions) {
  lua_pushvalue(L, binding_index);
  luaL_setfuncs(L, functions, 1);
}

void mp_set_finalizer(lua_State *L, lua_CFunction function) {
  lua_pushcfunction(L, function);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, function);
  lua_setfield(L, -2, "__close");
}

/* Another copy of this library, of the same version, may have made it. */
bool mp_lua_push_found(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key) == LUA_TUSERDATA) return true;
  lua_pop(L, 1);
  if (lua_getfield(L, LUA_REGISTRYINDEX, REGISTRY_NAME) == LUA_TUSERDATA) {
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &registry_key);
    return true;
  }
  lua_pop(L, 1);
  return false;
}

mp_lua *mp_lua_push_new(lua_State *L) {
  mp_lua *binding = lua_newuserdatauv(L, sizeof(mp_lua), MP_LUA_SLOT_COUNT);
  memset(binding, 0, sizeof *binding);
  binding->removed = (void *)&removed_mark;
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, binding_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  binding->env = mp_env_new(NULL);
  if (binding->env == NULL) luaL_error(L, "not enough memory");
  mp_buffer_init(&binding->text, binding->env);
  mp_buffer_init(&binding->scratch, binding->env);
  mp_buffer_init(&binding->removed_keys, binding->env);
  return binding;
}

void mp_lua_register(lua_State *L, int index) {
  lua_pushvalue(L, index);
  lua_setfield(L, LUA_REGISTRYINDEX, REGISTRY_NAME);
  lua_pushvalue(L, index);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &registry_key);
}

mp_lua *mp_lua_find_binding(lua_State *L) {
  if (!lua_checkstack(L, 2)) return NULL;
  lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key);
  mp_lua *binding = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return binding;
}

void mp_push_slot_anywhere(lua_State *L, mp_binding_slot slot) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &registry_key);
  lua_getiuservalue(L, -1, (int)slot);
  lua_remove(L, -2);
}

mp_lua *mp_lua_of(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  if (binding->env == NULL) luaL_error(L, "moonpad: this Lua state is being closed");
  return binding;
}
