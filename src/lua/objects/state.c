/* The state object: `context.state`, `session.state`, `moonpad.state{...}` (contract 1.3). */
#include <math.h>
#include <stdlib.h>

#include "core/scope.h"
#include "lua/base/errors.h"
#include "lua/codec/codec.h"
#include "lua/objects/objects.h"
#include "service/binding/state.h"

/* ---- Handles ---- */

void mp_push_session_state(lua_State *L, mp_lua *binding, mp_session_object *object) {
  mp_lua_state *state = mp_push_state(L, binding);
  moonpad_error error;
  state->set = mp_change_set_new(binding, object);
  moonpad_status status = state->set == NULL ? mp_no_memory(&error)
                                             : moonpad_session_changes(object->session, &state->set->changes, &error);
  if (status != MOONPAD_OK) {
    mp_change_set_release(state->set);
    state->set = NULL;
    mp_raise(L, &error);
  }
}

static int state_gc(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  mp_lua_state *state = mp_test_userdata(L, 1, binding->state_meta);
  if (state == NULL) return 0;
  mp_change_set *set = state->set;
  state->set = NULL;
  mp_change_set_release(set);
  return 0;
}

/* ---- Keys ---- */

static moonpad_string check_key(lua_State *L, int index, const char *where) {
  if (lua_type(L, index) != LUA_TSTRING) {
    mp_raise_argument(L, "%s: state keys are strings, got %s", where, mp_describe(L, index));
  }
  moonpad_string key;
  key.data = lua_tolstring(L, index, &key.length);
  return key;
}

static void check_writable(lua_State *L, const mp_lua_state *state) {
  if (state->read_only) mp_raise_argument(L, "this state is read-only: it can be looked at, not written");
}

/* ---- Reading ---- */

static int push_key(lua_State *L, mp_lua *binding, const mp_lua_state *state, moonpad_string key) {
  mp_item item;
  moonpad_error error;
  mp_prepare_node(L, binding);
  mp_check(L, mp_changes_item(state->set->changes, key, &item, &error), &error);
  mp_push_item(L, binding, &item, state->set, state->read_only);
  return 1;
}

/* ---- Keys used lately: an access by index goes straight to its mp_change ---- */

/* The open state object at argument 1, or NULL. */
static mp_lua_state *quick_state(lua_State *L) {
  mp_lua_state *state = lua_touserdata(L, 1);
  if (state == NULL || lua_rawlen(L, 1) != sizeof *state || state->type != &mp_state_type) return NULL;
  return state->set == NULL ? NULL : state;
}

/*
** Lua keeps one copy of a short string, so that its address tells what it was last time; a long one
** is found by luck.
*/
static mp_change **key_slot(mp_lua_state *state, const char *key) {
  return &state->keys[(uint64_t)(uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15) >> 60];
}

/* Under the key at argument 2, of a state object that is open; NULL where it is not known. */
static mp_change *known_key(lua_State *L, mp_lua_state *state) {
  size_t length;
  if (state == NULL || lua_type(L, 2) != LUA_TSTRING) return NULL;
  const char *key = lua_tolstring(L, 2, &length);
  mp_change *known = *key_slot(state, key);
  return known != NULL && mp_change_is(known, key, length) ? known : NULL;
}

/* Remembers a key that has been read or written, and is no method's name. */
static void remember_key(mp_lua_state *state, moonpad_string key) {
  if (state->set != NULL && key.length <= MOONPAD_MAX_KEY_BYTES)
    *key_slot(state, key.data) = mp_change_of(state->set->changes, key);
}

static bool push_quickly(lua_State *L) {
  static const moonpad_value absent = {.type = MOONPAD_ABSENT};
  mp_change *known = known_key(L, quick_state(L));
  const moonpad_value *scalar = known == NULL ? NULL : mp_change_scalar(known, &absent);
  if (scalar == NULL) return false;
  if (scalar->type == MOONPAD_INTEGER) {
    lua_pushinteger(L, scalar->as.integer);
  } else {
    /* No composite: takes no binding. */
    mp_push_value(L, NULL, scalar);
  }
  return true;
}

/* Upvalue 2: the methods. */
static int state_index(lua_State *L) {
  if (push_quickly(L)) return 1;
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:get");
  lua_settop(L, 2);
  if (lua_type(L, 2) != LUA_TSTRING) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL) return 1;
  moonpad_string key;
  key.data = lua_tolstring(L, 2, &key.length);
  push_key(L, binding, state, key);
  remember_key(state, key);
  return 1;
}

/* state:get(key [, default]) */
static int state_get(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:get");
  moonpad_string key = check_key(L, 2, "state:get");
  lua_settop(L, 3);
  push_key(L, binding, state, key);
  if (lua_isnil(L, -1)) lua_pushvalue(L, 3);
  return 1;
}

/* state:has(key) */
static int state_has(lua_State *L) {
  mp_lua_state *state = mp_check_state(L, mp_lua_of(L), 1, "state:has");
  moonpad_string key = check_key(L, 2, "state:has");
  bool there = false;
  moonpad_error error;
  mp_check(L, mp_changes_has(state->set->changes, key, &there, &error), &error);
  lua_pushboolean(L, there);
  return 1;
}

/* state:getAll(), state:toTable() */
static int state_get_all(lua_State *L) {
  mp_check_state(L, mp_lua_of(L), 1, "state:getAll");
  mp_push_copy(L, mp_lua_of(L), 1);
  return 1;
}

/* state:hasDelta() */
static int state_has_delta(lua_State *L) {
  mp_lua_state *state = mp_check_state(L, mp_lua_of(L), 1, "state:hasDelta");
  lua_pushboolean(L, moonpad_changes_pending(state->set->changes));
  return 1;
}

void mp_push_delta(lua_State *L, mp_lua *binding, moonpad_changes *changes) {
  luaL_checkstack(L, 12, NULL);
  int top = lua_gettop(L);
  mp_buffer *written = mp_handle_push_buffer(L, binding);
  mp_buffer *removed = mp_handle_push_buffer(L, binding);
  moonpad_error error;
  moonpad_status status = mp_changes_write_delta(changes, written, removed, &error);
  if (status == MOONPAD_OK && (written->failed || removed->failed)) status = mp_no_memory(&error);
  mp_check(L, status, &error);
  mp_decode_trusted(L, binding, mp_buffer_text(written));
  int delta = lua_gettop(L);
  mp_decode_trusted(L, binding, mp_buffer_text(removed));
  lua_Integer count = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= count; i++) {
    lua_rawgeti(L, -1, i);
    lua_pushlightuserdata(L, binding->removed);
    lua_rawset(L, delta);
  }
  mp_handle_release(written);
  mp_handle_release(removed);
  lua_settop(L, delta);
  lua_replace(L, top + 1);
  lua_settop(L, top + 1);
}

/* state:delta() */
static int state_delta(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:delta");
  mp_push_delta(L, binding, state->set->changes);
  return 1;
}

/* ---- pairs ---- */

typedef struct key_walk {
  mp_entries keys;
  size_t given;
  mp_env *env;
} key_walk;

static void release_keys(void *payload) {
  key_walk *walk = payload;
  if (walk->env == NULL) return;
  mp_entries_free(&walk->keys);
  mp_env_release(walk->env);
}

/* Upvalues: binding, the handle of the keys. Keys removed meanwhile are passed over. */
static int next_key(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:get");
  key_walk *walk = lua_touserdata(L, lua_upvalueindex(3));
  lua_settop(L, 1);
  while (walk->given < walk->keys.count) {
    moonpad_string key = walk->keys.items[walk->given++].key;
    mp_item item;
    moonpad_error error;
    mp_prepare_node(L, binding);
    mp_check(L, mp_changes_item(state->set->changes, key, &item, &error), &error);
    if (item.node == NULL && item.scalar.type == MOONPAD_ABSENT) continue;
    /* The value first: it is borrowed, and pushing the key may run a finalizer that writes. */
    mp_push_item(L, binding, &item, state->set, state->read_only);
    lua_pushlstring(L, key.data, key.length);
    lua_insert(L, -2);
    return 2;
  }
  lua_pushnil(L);
  return 1;
}

static int state_pairs(lua_State *L) {
  mp_lua_state *state = mp_check_state(L, mp_lua_of(L), 1, "state:get");
  moonpad_error error;
  lua_pushvalue(L, lua_upvalueindex(1));
  key_walk *walk = mp_handle_push(L, sizeof *walk, release_keys);
  mp_check(L, mp_changes_keys(state->set->changes, &walk->keys, &error), &error);
  walk->env = mp_env_retain(mp_changes_env(state->set->changes));
  lua_pushlightuserdata(L, walk);
  lua_pushcclosure(L, next_key, 3);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* ---- Writing ---- */

void mp_state_write(lua_State *L, mp_lua *binding, const mp_lua_state *state, moonpad_string key, int index,
                    bool last_writer_wins) {
  check_writable(L, state);
  moonpad_changes *changes = state->set->changes;
  mp_lua_node *given = mp_test_userdata(L, index, binding->node_meta);
  if (given != NULL && given->node != NULL && mp_changes_holds(changes, key, given->node)) return;
  mp_env *env = mp_changes_env(changes);
  mp_value *value = NULL;
  moonpad_error error;
  moonpad_status status = MOONPAD_OK;
  if (!lua_isnil(L, index))
    status =
        mp_encode_value(L, binding, index, mp_value_path_key(key), env, mp_value_limit(state->set), &value, &error);
  if (status == MOONPAD_OK) status = mp_changes_put(changes, key, value, last_writer_wins, &error);
  mp_value_release(env, value);
  mp_check(L, status, &error);
}

/* The slot of a number or boolean that has been written before and may be overwritten, or NULL. */
static moonpad_value *written_scalar(lua_State *L) {
  mp_lua_state *state = quick_state(L);
  mp_change *known = known_key(L, state);
  return known == NULL || state->read_only ? NULL : mp_change_overwrite(known);
}

static bool write_quickly(lua_State *L) {
  moonpad_value *scalar;
  lua_Number number;
  switch (lua_type(L, 3)) {
  case LUA_TNUMBER:
    if (lua_isinteger(L, 3)) {
      if ((scalar = written_scalar(L)) == NULL) return false;
      *scalar = moonpad_integer(lua_tointeger(L, 3));
      return true;
    }
    number = lua_tonumber(L, 3);
    if (!isfinite(number) || (scalar = written_scalar(L)) == NULL) return false;
    *scalar = moonpad_float(number);
    return true;
  case LUA_TBOOLEAN:
    if ((scalar = written_scalar(L)) == NULL) return false;
    *scalar = moonpad_boolean(lua_toboolean(L, 3));
    return true;
  default:
    return false;
  }
}

/* Upvalue 2: the methods. */
static int state_newindex(lua_State *L) {
  if (write_quickly(L)) return 0;
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:set");
  moonpad_string key = check_key(L, 2, "state");
  lua_pushvalue(L, 2);
  if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL) {
    mp_raise_argument(
        L, "state.%s: this is a method of the state; to write a key of that name, use state:set(\"%s\", value)",
        key.data, key.data);
  }
  lua_pop(L, 1);
  mp_state_write(L, binding, state, key, 3, false);
  remember_key(state, key);
  return 0;
}

/* state:set(key, value) */
static int state_set(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:set");
  moonpad_string key = check_key(L, 2, "state:set");
  lua_settop(L, 3);
  mp_state_write(L, binding, state, key, 3, false);
  return 0;
}

/* state:delete(key) */
static int state_delete(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:delete");
  moonpad_string key = check_key(L, 2, "state:delete");
  check_writable(L, state);
  bool there = false;
  moonpad_error error;
  mp_check(L, mp_changes_has(state->set->changes, key, &there, &error), &error);
  if (there) mp_check(L, mp_changes_put(state->set->changes, key, NULL, false, &error), &error);
  lua_pushboolean(L, there);
  return 1;
}

/* state:setDefault(key, value) */
static int state_set_default(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:setDefault");
  moonpad_string key = check_key(L, 2, "state:setDefault");
  lua_settop(L, 3);
  bool there = false;
  moonpad_error error;
  mp_check(L, mp_changes_has(state->set->changes, key, &there, &error), &error);
  if (!there) mp_state_write(L, binding, state, key, 3, false);
  return push_key(L, binding, state, key);
}

/* state:increment(key [, by]) */
static int state_increment(lua_State *L) {
  mp_lua_state *state = mp_check_state(L, mp_lua_of(L), 1, "state:increment");
  moonpad_string key = check_key(L, 2, "state:increment");
  check_writable(L, state);
  moonpad_value by = moonpad_integer(1);
  if (lua_type(L, 3) == LUA_TNUMBER) {
    by = lua_isinteger(L, 3) ? moonpad_integer(lua_tointeger(L, 3)) : moonpad_float(lua_tonumber(L, 3));
  } else if (!lua_isnoneornil(L, 3)) {
    mp_raise_argument(L, "state:increment: `by` is a number, got %s", mp_describe(L, 3));
  }
  moonpad_error error;
  mp_check(L, moonpad_changes_increment(state->set->changes, key, &by, &error), &error);
  return 0;
}

/* state:append(key, item) */
static int state_append(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:append");
  moonpad_string key = check_key(L, 2, "state:append");
  lua_settop(L, 3);
  check_writable(L, state);
  mp_env *env = mp_changes_env(state->set->changes);
  mp_value *item = NULL;
  moonpad_error error;
  moonpad_status status =
      mp_encode_value(L, binding, 3, mp_value_path_appended(key), env, mp_value_limit(state->set), &item, &error);
  if (status == MOONPAD_OK) status = moonpad_changes_append(state->set->changes, key, &item->as, &error);
  mp_value_release(env, item);
  mp_check(L, status, &error);
  return 0;
}

/* ---- update: all validated before any is written ---- */

typedef struct update {
  mp_env *env;
  size_t count;
  struct {
    moonpad_string key;
    mp_value *value; /* NULL: remove */
    bool keep;       /* the node that is there already */
  } * writes;
  size_t capacity;
} update;

static void release_update(void *payload) {
  update *all = payload;
  if (all->env == NULL) return;
  for (size_t i = 0; i < all->count; i++) mp_value_release(all->env, all->writes[i].value);
  mp_release(all->env, all->writes);
  mp_env_release(all->env);
}

static moonpad_status plan_write(lua_State *L, mp_lua *binding, const mp_change_set *set, update *all,
                                 moonpad_string key, int index, moonpad_error *error) {
  if (!mp_reserve(all->env, (void **)&all->writes, &all->capacity, sizeof *all->writes, all->count + 1)) {
    return mp_no_memory(error);
  }
  mp_lua_node *node = mp_test_userdata(L, index, binding->node_meta);
  mp_value *value = NULL;
  bool keep = node != NULL && node->node != NULL && mp_changes_holds(set->changes, key, node->node);
  bool removal = lua_type(L, index) == LUA_TLIGHTUSERDATA && lua_touserdata(L, index) == binding->removed;
  moonpad_status status = mp_check_key(key, error);
  if (status == MOONPAD_OK && !keep && !removal) {
    status = mp_encode_value(L, binding, index, mp_value_path_key(key), all->env, mp_value_limit(set), &value, error);
  }
  if (status != MOONPAD_OK) return status;
  all->writes[all->count].key = key;
  all->writes[all->count].value = value;
  all->writes[all->count].keep = keep;
  all->count++;
  return MOONPAD_OK;
}

static void update_from_table(lua_State *L, mp_lua *binding, const mp_lua_state *state, int table) {
  moonpad_changes *changes = state->set->changes;
  update *all = mp_handle_push(L, sizeof *all, release_update);
  all->env = mp_env_retain(mp_changes_env(changes));
  moonpad_error error;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    moonpad_string key = check_key(L, -2, "state:update");
    mp_check(L, plan_write(L, binding, state->set, all, key, lua_gettop(L), &error), &error);
    lua_pop(L, 1);
  }
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; i < all->count && status == MOONPAD_OK; i++) {
    if (all->writes[i].keep) continue;
    status = mp_changes_put(changes, all->writes[i].key, all->writes[i].value, false, &error);
  }
  mp_handle_release(all);
  mp_check(L, status, &error);
}

void mp_state_update(lua_State *L, mp_lua *binding, mp_lua_state *state, int index) {
  index = lua_absindex(L, index);
  check_writable(L, state);
  if (lua_isuserdata(L, index) && lua_touserdata(L, index) != NULL) {
    mp_push_copy(L, binding, index);
    index = lua_gettop(L);
  }
  if (!lua_istable(L, index)) mp_raise_argument(L, "state:update: expects a table, got %s", mp_describe(L, index));
  update_from_table(L, binding, state, index);
}

/* state:update{ key = value, ... } */
static int state_update(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_check_state(L, binding, 1, "state:update");
  lua_settop(L, 2);
  mp_state_update(L, binding, state, 2);
  return 0;
}

/* ---- The rest ---- */

/* So much of the values is shown at most, in bytes. */
#define SHOWN_BYTES ((size_t)2000)

/*
** Pushes the values as JSON; of more than SHOWN_BYTES, the beginning. To print a state is not to
** read it, and never fails: of a state that cannot be shown there is nothing.
*/
static void push_shown(lua_State *L, mp_lua *binding, moonpad_changes *changes) {
  mp_buffer *text = mp_handle_push_buffer(L, binding);
  text->limit = SHOWN_BYTES;
  moonpad_error error;
  moonpad_status status = mp_changes_write_all(changes, false, text, &error);
  bool is_cut = text->over_limit;
  lua_pushlstring(L, text->data, status == MOONPAD_OK || is_cut ? text->length : 0);
  lua_pushstring(L, is_cut ? "..." : "");
  lua_concat(L, 2);
  mp_handle_release(text);
  lua_replace(L, -2);
}

static int state_tostring(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_state *state = mp_test_userdata(L, 1, binding->state_meta);
  const char *mode = state != NULL && state->read_only ? ", read-only" : "";
  if (state == NULL || state->set == NULL) {
    lua_pushliteral(L, "moonpad.state (closed)");
  } else if (state->set->session == NULL) {
    lua_pushfstring(L, "moonpad.state (of no session%s) ", mode);
    push_shown(L, binding, state->set->changes);
    lua_concat(L, 2);
  } else {
    moonpad_string id = moonpad_session_id(state->set->session->session);
    lua_pushliteral(L, "moonpad.state (session ");
    lua_pushlstring(L, id.data, id.length);
    lua_pushfstring(L, "%s) ", mode);
    push_shown(L, binding, state->set->changes);
    lua_concat(L, 4);
  }
  return 1;
}

void mp_state_setup(lua_State *L, int binding_index) {
  static const luaL_Reg methods[] = {{"get", state_get},
                                     {"set", state_set},
                                     {"has", state_has},
                                     {"delete", state_delete},
                                     {"update", state_update},
                                     {"setDefault", state_set_default},
                                     {"getAll", state_get_all},
                                     {"toTable", state_get_all},
                                     {"hasDelta", state_has_delta},
                                     {"delta", state_delta},
                                     {"increment", state_increment},
                                     {"append", state_append},
                                     {NULL, NULL}};
  static const luaL_Reg events[] = {
      {"__pairs", state_pairs}, {"__tostring", state_tostring}, {"__gc", state_gc}, {NULL, NULL}};
  mp_set_functions(L, binding_index, events);
  lua_newtable(L);
  mp_set_functions(L, binding_index, methods);
  lua_pushvalue(L, binding_index);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, state_index, 2);
  lua_setfield(L, -3, "__index");
  lua_pushvalue(L, binding_index);
  lua_pushvalue(L, -2);
  lua_pushcclosure(L, state_newindex, 2);
  lua_setfield(L, -3, "__newindex");
  lua_pop(L, 1);
}
