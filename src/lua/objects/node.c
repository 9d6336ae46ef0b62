/* The node proxy: an array or object inside a state, read and written in place (contract 1.3). */
#include <stdio.h>

#include "base/utf8.h"
#include "core/tree_write.h"
#include "lua/base/errors.h"
#include "lua/codec/codec.h"
#include "lua/objects/objects.h"
#include "service/binding/session.h"

/* ---- One userdata per node ---- */

/*
** The weak table finds the userdata of a node. Each userdata counts on its node, so no other
** node can be at that address while the entry is there: Lua clears entries of a weak table before
** it finalizes their values.
**
** A node that was just read is borrowed, and making a userdata may run a finalizer, which may write
** and free that node; retaining it first would leak it when the userdata cannot be made. So an
** empty proxy is made before the read, and filled after it without any allocation in between.
*/
void mp_prepare_node(lua_State *L, mp_lua *binding) {
  if (binding->has_cached_node) return;
  mp_lua_node *proxy = lua_newuserdatauv(L, sizeof *proxy, 0);
  proxy->node = NULL;
  proxy->set = NULL;
  proxy->read_only = false;
  mp_push_slot(L, MP_LUA_SLOT_NODE_META);
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, lua_upvalueindex(1), MP_LUA_SLOT_CACHED_NODE);
  binding->has_cached_node = true;
}

static void take_cached(lua_State *L, mp_lua *binding) {
  mp_push_slot(L, MP_LUA_SLOT_CACHED_NODE);
  lua_pushnil(L);
  lua_setiuservalue(L, lua_upvalueindex(1), MP_LUA_SLOT_CACHED_NODE);
  binding->has_cached_node = false;
}

static void push_node(lua_State *L, mp_lua *binding, mp_node *node, mp_change_set *set, bool read_only) {
  mp_push_slot(L, read_only ? MP_LUA_SLOT_READ_ONLY_NODES : MP_LUA_SLOT_NODES);
  lua_rawgetp(L, -1, node);
  const mp_lua_node *known = lua_touserdata(L, -1);
  /* else it was finalized by hand, and let go of its node */
  if (known != NULL && known->node == node) {
    lua_remove(L, -2);
    return;
  }
  lua_pop(L, 1);
  take_cached(L, binding);
  mp_lua_node *proxy = lua_touserdata(L, -1);
  proxy->node = mp_node_retain(node);
  proxy->set = mp_change_set_retain(set);
  proxy->read_only = read_only;
  lua_pushvalue(L, -1);
  lua_rawsetp(L, -3, node);
  lua_remove(L, -2);
}

void mp_push_item(lua_State *L, mp_lua *binding, const mp_item *item, mp_change_set *set, bool read_only) {
  if (item->node != NULL)
    push_node(L, binding, item->node, set, read_only);
  else
    mp_push_value(L, binding, &item->scalar);
}

/* Whoever writes through a node has looked at it as well (contract 1.4 point 3). */
static mp_lua_node *check_node(lua_State *L, mp_lua *binding, int index) {
  mp_lua_node *proxy = mp_read_node(L, binding, index);
  if (proxy != NULL) return proxy;
  bool is_closed = mp_test_userdata(L, index, binding->node_meta) != NULL;
  mp_raise_argument(L, "expects a state node, got %s", is_closed ? "a closed one" : mp_describe(L, index));
}

int64_t mp_value_limit(const mp_change_set *set) {
  return set->session == NULL ? MP_LIMIT_TEXT : mp_session_options(set->session->session)->max_value_bytes;
}

/* Integers, and floats that are integers, as in Lua's tables. */
static bool to_index(lua_State *L, int index, int64_t *number) {
  if (lua_type(L, index) != LUA_TNUMBER) return false;
  int exact = 0;
  *number = lua_tointegerx(L, index, &exact);
  return exact != 0;
}

/* ---- Reading ---- */

static int node_index(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_node *proxy = check_node(L, binding, 1);
  mp_item item;
  moonpad_error error;
  int64_t position;
  mp_prepare_node(L, binding);
  if (lua_type(L, 2) == LUA_TSTRING) {
    moonpad_string key;
    key.data = lua_tolstring(L, 2, &key.length);
    mp_check(L, mp_node_member(proxy->node, key, &item, &error), &error);
  } else if (to_index(L, 2, &position)) {
    mp_check(L, mp_node_index(proxy->node, position, &item, &error), &error);
  } else {
    lua_pushnil(L);
    return 1;
  }
  mp_push_item(L, binding, &item, proxy->set, proxy->read_only);
  return 1;
}

/* Items of an array; an object has none, as a table without an array part. */
static int node_len(lua_State *L) {
  mp_lua_node *proxy = check_node(L, mp_lua_of(L), 1);
  size_t count = 0;
  moonpad_error error;
  mp_check(L, mp_node_count(proxy->node, &count, &error), &error);
  lua_pushinteger(L, mp_node_is_array(proxy->node) ? (lua_Integer)count : 0);
  return 1;
}

static int node_tostring(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_node *proxy = check_node(L, binding, 1);
  mp_buffer *text = &binding->text;
  mp_buffer_clear(text);
  mp_node_write(proxy->node, text);
  if (text->failed) mp_raise_status(L, MOONPAD_NO_MEMORY, "not enough memory");
  lua_pushlstring(L, text->data, text->length);
  return 1;
}

/* ---- pairs ---- */

/*
** Upvalues: binding, the keys, how many were given. Keys that have been removed meanwhile are
** passed over.
*/
static int next_member(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_node *proxy = check_node(L, binding, 1);
  lua_Integer given = lua_tointeger(L, lua_upvalueindex(3));
  lua_settop(L, 1);
  while (lua_rawgeti(L, lua_upvalueindex(2), ++given) == LUA_TSTRING) {
    moonpad_string key;
    key.data = lua_tolstring(L, 2, &key.length);
    mp_item item;
    moonpad_error error;
    mp_prepare_node(L, binding);
    mp_check(L, mp_node_member(proxy->node, key, &item, &error), &error);
    if (item.node != NULL || item.scalar.type != MOONPAD_ABSENT) {
      lua_pushinteger(L, given);
      lua_replace(L, lua_upvalueindex(3));
      mp_push_item(L, binding, &item, proxy->set, proxy->read_only);
      return 2;
    }
    lua_pop(L, 1);
  }
  lua_pushinteger(L, given - 1);
  lua_replace(L, lua_upvalueindex(3));
  lua_pushnil(L);
  return 1;
}

static int next_item(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_node *proxy = check_node(L, binding, 1);
  lua_Integer position = luaL_optinteger(L, 2, 0) + 1;
  mp_item item;
  moonpad_error error;
  mp_prepare_node(L, binding);
  mp_check(L, mp_node_index(proxy->node, position, &item, &error), &error);
  if (item.node == NULL && item.scalar.type == MOONPAD_ABSENT) {
    lua_pushnil(L);
    return 1;
  }
  lua_pushinteger(L, position);
  mp_push_item(L, binding, &item, proxy->set, proxy->read_only);
  return 2;
}

/* The keys as they are now: a loop may then assign and remove, as over a table. */
static void push_keys(lua_State *L, mp_lua_node *proxy) {
  size_t count = 0;
  moonpad_error error;
  mp_check(L, mp_node_count(proxy->node, &count, &error), &error);
  lua_createtable(L, (int)(count < 1000000 ? count : 1000000), 0);
  for (size_t i = 0; i < count; i++) {
    moonpad_string key = {NULL, 0};
    mp_item item;
    mp_check(L, mp_node_member_at(proxy->node, i, &key, &item, &error), &error);
    if (item.node == NULL && item.scalar.type == MOONPAD_ABSENT) break;
    lua_pushlstring(L, key.data, key.length);
    lua_rawseti(L, -2, (lua_Integer)i + 1);
  }
}

static int node_pairs(lua_State *L) {
  mp_lua_node *proxy = check_node(L, mp_lua_of(L), 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  if (mp_node_is_array(proxy->node)) {
    lua_pushcclosure(L, next_item, 1);
    lua_pushvalue(L, 1);
    lua_pushinteger(L, 0);
    return 3;
  }
  push_keys(L, proxy);
  lua_pushinteger(L, 0);
  lua_pushcclosure(L, next_member, 3);
  lua_pushvalue(L, 1);
  lua_pushnil(L);
  return 3;
}

/* ---- Writing ---- */

/* Is the value at 3 the node that is at this path already? */
static bool is_same_node(lua_State *L, mp_lua *binding, const mp_lua_node *proxy, const mp_value_path *path) {
  mp_lua_node *given = mp_test_userdata(L, 3, binding->node_meta);
  if (given == NULL || given->node == NULL) return false;
  if (path->kind == MP_VALUE_PATH_NODE_MEMBER) return mp_node_holds_member(proxy->node, path->name, given->node);
  return mp_node_holds_index(proxy->node, path->index, given->node);
}

/*
** A node that has been replaced or removed (stale) is refused in core/tree_write.c, one whose key
** shows something else by now in service/changes/value.c (refuse_if_overtaken).
*/
static moonpad_status write_at(const mp_lua_node *proxy, const mp_value_path *path, mp_value *value,
                               moonpad_error *error) {
  if (path->kind == MP_VALUE_PATH_NODE_MEMBER) return mp_node_set_member(proxy->node, path->name, value, error);
  return mp_node_set_index(proxy->node, path->index, value, error);
}

static _Noreturn void refuse_key(lua_State *L, mp_lua *binding, const mp_lua_node *proxy) {
  /* may run a finalizer */
  const char *got = lua_type(L, 2) == LUA_TNUMBER ? "a float" : mp_describe(L, 2);
  mp_buffer_clear(&binding->scratch);
  mp_node_path(proxy->node, &binding->scratch);
  mp_raise_argument(L, "%.*s: keys are strings, or 1 to n in an array; got %s as a key", (int)binding->scratch.length,
                    binding->scratch.data, got);
}

static void check_member_key(lua_State *L, mp_lua *binding, const mp_lua_node *proxy, moonpad_string key) {
  size_t valid = mp_utf8_valid_prefix(key.data, key.length);
  if (valid == key.length) return;
  mp_buffer_clear(&binding->scratch);
  mp_node_path(proxy->node, &binding->scratch);
  mp_raise_argument(L, "%.*s: a key is not valid UTF-8 at byte %zu", (int)binding->scratch.length,
                    binding->scratch.data, valid + 1);
}

static int node_newindex(lua_State *L) {
  mp_lua *binding = mp_lua_of(L);
  mp_lua_node *proxy = check_node(L, binding, 1);
  mp_value_path path;
  int64_t position;
  if (lua_type(L, 2) == LUA_TSTRING) {
    moonpad_string key;
    key.data = lua_tolstring(L, 2, &key.length);
    check_member_key(L, binding, proxy, key);
    path = mp_value_path_member(proxy->node, key);
  } else if (to_index(L, 2, &position)) {
    path = mp_value_path_item(proxy->node, position);
  } else {
    refuse_key(L, binding, proxy);
  }
  if (proxy->read_only) mp_raise_argument(L, "this state is read-only: it can be looked at, not written");
  if (is_same_node(L, binding, proxy, &path)) return 0;
  moonpad_error error;
  moonpad_status status = MOONPAD_OK;
  mp_env *env = mp_node_env(proxy->node);
  mp_value *value = NULL;
  if (!lua_isnil(L, 3)) status = mp_encode_value(L, binding, 3, path, env, mp_value_limit(proxy->set), &value, &error);
  if (status == MOONPAD_OK) status = write_at(proxy, &path, value, &error);
  mp_value_release(env, value);
  mp_check(L, status, &error);
  return 0;
}

/* ---- Its end ---- */

static int node_gc(lua_State *L) {
  mp_lua *binding = lua_touserdata(L, lua_upvalueindex(1));
  mp_lua_node *proxy = mp_test_userdata(L, 1, binding->node_meta);
  if (proxy == NULL) return 0;
  mp_node *node = proxy->node;
  mp_change_set *set = proxy->set;
  proxy->node = NULL;
  proxy->set = NULL;
  mp_node_release(node);
  mp_change_set_release(set);
  return 0;
}

void mp_node_setup(lua_State *L, int binding_index) {
  static const luaL_Reg methods[] = {{"__index", node_index},
                                     {"__newindex", node_newindex},
                                     {"__len", node_len},
                                     {"__pairs", node_pairs},
                                     {"__tostring", node_tostring},
                                     {"__gc", node_gc},
                                     {NULL, NULL}};
  mp_set_functions(L, binding_index, methods);
}
