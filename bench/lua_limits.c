/*
** What the work of lua.lua costs in C at least, as a Lua module: event tables built from C, a
** state userdata over a C hash table that checks nothing, a template scan. And the clocks.
*/
#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

int luaopen_lua_limits(lua_State *L);

/* wall() -> microseconds on the wall, for what may wait */
static int wall(lua_State *L) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  lua_pushnumber(L, (lua_Number)time.tv_sec * 1e6 + (lua_Number)time.tv_nsec * 1e-3);
  return 1;
}

/*
** worked() -> microseconds that this thread has worked: what else runs on the machine counts less
*/
static int worked(lua_State *L) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  lua_pushnumber(L, (lua_Number)time.tv_sec * 1e6 + (lua_Number)time.tv_nsec * 1e-3);
  return 1;
}

/* ---- Events: the typical one, with what moonpad adds to it (revision) ---- */

static void set_integer(lua_State *L, const char *field, lua_Integer integer) {
  lua_pushinteger(L, integer);
  lua_setfield(L, -2, field);
}

static void push_content(lua_State *L, const char *text, size_t length) {
  lua_createtable(L, 0, 2);
  lua_createtable(L, 1, 0);
  lua_createtable(L, 0, 1);
  lua_pushlstring(L, text, length);
  lua_setfield(L, -2, "text");
  lua_rawseti(L, -2, 1);
  lua_setfield(L, -2, "parts");
  lua_pushliteral(L, "model");
  lua_setfield(L, -2, "role");
}

static void push_actions(lua_State *L, lua_Integer step, const char *wish, size_t length) {
  lua_createtable(L, 0, 1);
  lua_createtable(L, 0, 3);
  set_integer(L, "app:served", step);
  set_integer(L, "step", step);
  lua_pushlstring(L, wish, length);
  lua_setfield(L, -2, "user:wish");
  lua_setfield(L, -2, "stateDelta");
}

/*
** What differs from event to event, in memory of C: a string that Lua has already would cost
** nothing to push.
*/
typedef struct stored_event {
  char id[48], invocation_id[48], text[160], wish[32];
  size_t id_length, invocation_id_length, text_length, wish_length;
  lua_Integer step;
  double timestamp;
} stored_event;

static size_t take_field(lua_State *L, const char *field, char *out, size_t size) {
  size_t length;
  lua_getfield(L, -1, field);
  const char *text = luaL_checklstring(L, -1, &length);
  if (length > size) return (size_t)luaL_error(L, "%s is too long for this limit", field);
  memcpy(out, text, length);
  lua_pop(L, 1);
  return length;
}

/* store(list of { id, invocationId, text, wish, step, timestamp }) -> userdata */
static int store(lua_State *L) {
  lua_Integer count = luaL_len(L, 1);
  stored_event *stored = lua_newuserdatauv(L, (size_t)count * sizeof *stored, 0);
  for (lua_Integer i = 0; i < count; i++) {
    stored_event *event = &stored[i];
    lua_rawgeti(L, 1, i + 1);
    event->id_length = take_field(L, "id", event->id, sizeof event->id);
    event->invocation_id_length = take_field(L, "invocationId", event->invocation_id, sizeof event->invocation_id);
    event->text_length = take_field(L, "text", event->text, sizeof event->text);
    event->wish_length = take_field(L, "wish", event->wish, sizeof event->wish);
    lua_getfield(L, -1, "step");
    event->step = luaL_checkinteger(L, -1);
    lua_getfield(L, -2, "timestamp");
    event->timestamp = luaL_checknumber(L, -1);
    lua_pop(L, 3);
  }
  return 1;
}

/* events(stored) -> array of event tables */
static int events(lua_State *L) {
  const stored_event *stored = lua_touserdata(L, 1);
  lua_Integer count = (lua_Integer)(lua_rawlen(L, 1) / sizeof *stored);
  lua_createtable(L, (int)count, 0);
  for (lua_Integer i = 1; i <= count; i++, stored++) {
    lua_createtable(L, 0, 7);
    lua_pushlstring(L, stored->id, stored->id_length);
    lua_setfield(L, -2, "id");
    lua_pushlstring(L, stored->invocation_id, stored->invocation_id_length);
    lua_setfield(L, -2, "invocationId");
    lua_pushnumber(L, stored->timestamp);
    lua_setfield(L, -2, "timestamp");
    lua_pushliteral(L, "concierge");
    lua_setfield(L, -2, "author");
    push_content(L, stored->text, stored->text_length);
    lua_setfield(L, -2, "content");
    push_actions(L, stored->step, stored->wish, stored->wish_length);
    lua_setfield(L, -2, "actions");
    set_integer(L, "revision", i);
    lua_rawseti(L, 2, i);
  }
  return 1;
}

/* ---- State: a userdata over a hash table of its own ---- */

#define SLOTS 128

typedef struct slot {
  char key[24];
  size_t key_length;
  int type; /* LUA_TNIL: free; LUA_TNUMBER: an integer; LUA_TSTRING */
  lua_Integer integer;
  char text[40];
  size_t text_length;
} slot;

typedef struct state {
  slot slots[SLOTS];
} state;

static slot *find(state *values, const char *key, size_t length) {
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)key[i]) * 16777619u;
  slot *found = &values->slots[hash % SLOTS];
  while (found->type != LUA_TNIL && (found->key_length != length || memcmp(found->key, key, length) != 0)) {
    found = found == &values->slots[SLOTS - 1] ? values->slots : found + 1;
  }
  return found;
}

static int get(lua_State *L) {
  size_t length;
  state *values = lua_touserdata(L, 1);
  const char *key = lua_tolstring(L, 2, &length);
  const slot *found = find(values, key, length);
  if (found->type == LUA_TNUMBER) {
    lua_pushinteger(L, found->integer);
  } else if (found->type == LUA_TSTRING) {
    lua_pushlstring(L, found->text, found->text_length);
  } else {
    lua_pushnil(L);
  }
  return 1;
}

static int set(lua_State *L) {
  size_t length;
  state *values = lua_touserdata(L, 1);
  const char *key = lua_tolstring(L, 2, &length);
  slot *found = find(values, key, length);
  if (found->type == LUA_TNIL) {
    if (length >= sizeof found->key) return luaL_error(L, "the key is too long for this limit");
    memcpy(found->key, key, length);
    found->key_length = length;
  }
  found->type = lua_type(L, 3);
  if (found->type == LUA_TNUMBER) {
    found->integer = lua_tointeger(L, 3);
  } else {
    const char *text = luaL_checklstring(L, 3, &found->text_length);
    if (found->text_length >= sizeof found->text) return luaL_error(L, "the text is too long for this limit");
    memcpy(found->text, text, found->text_length);
  }
  return 0;
}

static int new_state(lua_State *L) {
  memset(lua_newuserdatauv(L, sizeof(state), 0), 0, sizeof(state));
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, get);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, set);
  lua_setfield(L, -2, "__newindex");
  lua_setmetatable(L, -2);
  return 1;
}

/* ---- Templates: one look at every byte; strings only ---- */

/* render(template, state) -> text */
static int render(lua_State *L) {
  size_t length;
  const char *source = luaL_checklstring(L, 1, &length), *end = source + length, *text = source;
  state *values = lua_touserdata(L, 2);
  luaL_Buffer out;
  luaL_buffinitsize(L, &out, length);
  while (source < end) {
    char byte = *source++;
    if (byte != '{' && byte != '<' && byte != '\\') continue;
    const char *open = source;
    while (source < end && *source != '}') source++;
    const slot *found = find(values, open, (size_t)(source - open));
    luaL_addlstring(&out, text, (size_t)(open - 1 - text));
    luaL_addlstring(&out, found->text, found->text_length);
    text = ++source;
  }
  luaL_addlstring(&out, text, (size_t)(end - text));
  luaL_pushresult(&out);
  return 1;
}

int luaopen_lua_limits(lua_State *L) {
  static const luaL_Reg functions[] = {{"worked", worked},   {"wall", wall},     {"store", store}, {"events", events},
                                       {"state", new_state}, {"render", render}, {NULL, NULL}};
  luaL_newlib(L, functions);
  return 1;
}
