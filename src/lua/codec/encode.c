/*
** Lua values to JSON text, in one pass. Tables are read raw. Members of an object are written in
** the order in which Lua gives them and put in theirs afterwards (spans.c). What is no table:
** encode_leaf.c.
*/
#include <math.h>
#include <stdio.h>

#include "base/error.h"
#include "base/utf8.h"
#include "core/json_write.h"
#include "lua/base/handles.h"
#include "lua/codec/encode_private.h"
#include "lua/codec/spans.h"

static moonpad_status encode_any(mp_encoder *e, int index);

/*
** How far the text may grow from here: further than the limit, so that what exceeds it a little
** is told its size, and what is without end is stopped here. Of an event much may not be stored:
** temp: keys.
*/
static void set_bound(const mp_encoder *e) {
  /* Numbers ask for more room than they take. */
  const size_t slack = 64;
  size_t times = e->kind == MP_ENCODE_EVENT ? 4 : 2, most = MP_TEXT_MOST;
  e->out->limit = 0;
  if (e->limit == MP_LIMIT_NONE) return;
  if (e->limit > 0) {
    if ((uint64_t)e->limit > SIZE_MAX / 8) return;
    most = times * (size_t)e->limit + slack;
  }
  if (most < SIZE_MAX - e->out->length) e->out->limit = e->out->length + most;
}

#define STACK_NEED 12 /* slots above the value at hand */
#define STACK_STEP 64

static moonpad_status make_room(mp_encoder *e, int top) {
  if (e->stack - top >= STACK_NEED) return MOONPAD_OK;
  if (!lua_checkstack(e->L, STACK_STEP)) return mp_no_memory(e->error);
  e->stack = lua_gettop(e->L) + STACK_STEP;
  return MOONPAD_OK;
}

/* ---- Arrays ---- */

static const char *kind_of_key(lua_State *L, int index) {
  switch (lua_type(L, index)) {
  case LUA_TNUMBER:
    return "a float";
  case LUA_TBOOLEAN:
    return "a boolean";
  case LUA_TTABLE:
    return "a table";
  case LUA_TFUNCTION:
    return "a function";
  case LUA_TTHREAD:
    return "a coroutine";
  default:
    return "a userdata";
  }
}

/* What is wrong with a table that is neither a sequence nor an object. */
static moonpad_status refuse_table(mp_encoder *e, int table) {
  lua_State *L = e->L;
  unsigned steps = e->depth - 1;
  bool strings = false, indices = false;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) == LUA_TSTRING) {
      strings = true;
    } else if (lua_isinteger(L, -1)) {
      indices = true;
    } else {
      char problem[120];
      snprintf(problem, sizeof problem, "%s as a key cannot be %s: keys are strings, or 1 to n for an array",
               kind_of_key(L, -1), mp_encoder_verb(e));
      return mp_encoder_refuse(e, steps, problem);
    }
  }
  if (strings)
    return mp_encoder_refuse_kind(
        e, steps, indices ? "a table that mixes array items and string keys" : "an array with string keys");
  lua_Integer missing = 1;
  while (lua_rawgeti(L, table, missing) != LUA_TNIL) {
    lua_pop(L, 1);
    missing++;
  }
  char what[120];
  snprintf(what, sizeof what, "an array with holes (there is no item %lld)", (long long)missing);
  return mp_encoder_refuse_kind(e, steps, what);
}

/* Items that Lua does not keep in its array part: counts them first. */
static moonpad_status encode_scattered_array(mp_encoder *e, int table) {
  lua_State *L = e->L;
  lua_Integer count = 0, highest = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    lua_pop(L, 1);
    lua_Integer index = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : 0;
    if (index < 1) return refuse_table(e, table);
    if (index > highest) highest = index;
    count++;
  }
  if (count != highest) return refuse_table(e, table);
  mp_encoder_step *here = &e->path[e->depth - 1];
  mp_buffer_add_char(e->out, '[');
  for (here->index = 1; here->index <= count; here->index++) {
    if (here->index > 1) mp_buffer_add_char(e->out, ',');
    lua_rawgeti(L, table, here->index);
    moonpad_status status = encode_any(e, table + 1);
    if (status != MOONPAD_OK) return status;
    lua_settop(L, table);
  }
  mp_buffer_add_char(e->out, ']');
  return MOONPAD_OK;
}

/* The first key, an integer, and its value are on the stack. */
static moonpad_status encode_array(mp_encoder *e, int table) {
  lua_State *L = e->L;
  size_t start = e->out->length;
  mp_encoder_step *here = &e->path[e->depth - 1];
  int key = table + 1;
  here->name.data = NULL;
  here->index = 1;
  mp_buffer_add_char(e->out, '[');
  do {
    if (!lua_isinteger(L, key) || lua_tointeger(L, key) != here->index) {
      lua_settop(L, table);
      e->out->length = start;
      return encode_scattered_array(e, table);
    }
    if (here->index > 1) mp_buffer_add_char(e->out, ',');
    moonpad_status status = make_room(e, key + 1);
    if (status == MOONPAD_OK) status = encode_any(e, key + 1);
    if (status != MOONPAD_OK) return status;
    here->index++;
    lua_settop(L, key);
  } while (lua_next(L, table));
  mp_buffer_add_char(e->out, ']');
  return MOONPAD_OK;
}

/* ---- Objects ---- */

/* Members that the rules of the whole value leave out. */
static bool is_left_out(mp_encoder *e, moonpad_string name) {
  if (e->depth != 1) return false;
  if (mp_encodes_event(e) && mp_text_is(name, "removedStateKeys")) {
    e->lists_removed = true;
    return true;
  }
  if (e->kind == MP_ENCODE_EVENT) return mp_text_is(name, "revision");
  if (e->kind != MP_ENCODE_SHARED || lua_type(e->L, -1) != LUA_TLIGHTUSERDATA ||
      lua_touserdata(e->L, -1) != e->binding->removed) {
    return false;
  }
  mp_encoder_note_removed(e, name);
  return true;
}

/*
** A member of the outermost table. Each key of a state has its own limit. A string is not bounded
** here, because the limit counts its text without escapes.
*/
static moonpad_status encode_state(mp_encoder *e, int index) {
  if (e->root.kind != MP_VALUE_PATH_STATE) return encode_any(e, index);
  if (lua_type(e->L, index) != LUA_TSTRING) set_bound(e);
  moonpad_status status = encode_any(e, index);
  e->out->limit = 0;
  return status;
}

/* Writes `"name":value,` as a span; the value is at `index`, the top of the stack. */
static moonpad_status encode_member(mp_encoder *e, moonpad_string name, int index) {
  mp_lua *binding = e->binding;
  if (!mp_push_member_span(e, name)) return mp_no_memory(e->error);
  size_t number = binding->span_count - 1;
  moonpad_status status = mp_encode_key(e, name);
  if (status == MOONPAD_OK) status = e->depth == 1 ? encode_state(e, index) : encode_any(e, index);
  if (status != MOONPAD_OK) return status;
  mp_buffer_add_char(e->out, ',');
  binding->spans[number].length = e->out->length - binding->spans[number].begin;
  if (e->removed) {
    binding->spans[number].removed = e->removes = true;
    e->removed = false;
  }
  return MOONPAD_OK;
}

static moonpad_status encode_removed_keys(mp_encoder *e, int table);

/* In their order, for removedStateKeys. */
static void note_removed(mp_encoder *e, const mp_member_span *spans, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (spans[i].removed) mp_encoder_note_removed(e, spans[i].name);
  }
  e->removes = false;
}

/* Puts the spans from `first` on in order, and closes the object that they are in. */
static void finish_object(mp_encoder *e, size_t begin, size_t first) {
  mp_lua *binding = e->binding;
  mp_member_span *spans = binding->spans + first;
  size_t count = binding->span_count - first;
  if (count == 0) {
    mp_buffer_add_char(e->out, '}');
    return;
  }
  mp_sort_member_spans(e, begin, spans, count);
  if (e->removes && e->depth == MP_DELTA_LEVEL) note_removed(e, spans, count);
  if (!e->out->failed) e->out->data[e->out->length - 1] = '}';
  binding->span_count = first;
}

/* The first key, a string, and its value are on the stack. */
static moonpad_status encode_object(mp_encoder *e, int table) {
  lua_State *L = e->L;
  int key = table + 1;
  size_t first = e->binding->span_count;
  mp_encoder_step *here = &e->path[e->depth - 1];
  mp_buffer_add_char(e->out, '{');
  size_t begin = e->out->length;
  do {
    if (lua_type(L, key) != LUA_TSTRING) {
      lua_settop(L, table);
      return refuse_table(e, table);
    }
    here->name.data = lua_tolstring(L, key, &here->name.length);
    moonpad_status status = make_room(e, key + 1);
    if (status == MOONPAD_OK && e->kind == MP_ENCODE_SHARED) {
      status = mp_encoder_check_text(e, e->depth - 1, here->name, "a key is");
    }
    if (status != MOONPAD_OK) return status;
    if (!is_left_out(e, here->name)) status = encode_member(e, here->name, key + 1);
    if (status != MOONPAD_OK) return status;
    lua_settop(L, key);
  } while (lua_next(L, table));
  if (mp_encodes_event(e) && e->depth == 1) {
    moonpad_status status = encode_removed_keys(e, table);
    if (status != MOONPAD_OK) return status;
  }
  finish_object(e, begin, first);
  return MOONPAD_OK;
}

/* ---- removedStateKeys of an event ---- */

/*
** Pushes the field of the event by raw access; runs no finalizer, since the name is among the
** table's keys when it is there.
*/
static bool push_given_removed_keys(mp_encoder *e, int table) {
  lua_State *L = e->L;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    moonpad_string name;
    if (lua_type(L, -2) == LUA_TSTRING) {
      name.data = lua_tolstring(L, -2, &name.length);
      if (mp_text_is(name, "removedStateKeys")) {
        lua_replace(L, -2);
        return true;
      }
    }
    lua_pop(L, 1);
  }
  return false;
}

/* The list that the caller gave, with the keys that were marked moonpad.removed added. */
static moonpad_status encode_removed_keys(mp_encoder *e, int table) {
  static const char field[] = "removedStateKeys";
  mp_buffer *marked = &e->binding->removed_keys;
  bool given = e->lists_removed && push_given_removed_keys(e, table);
  if (!given && marked->length == 0) return MOONPAD_OK;
  if (!given) lua_pushnil(e->L);
  moonpad_string name = {field, sizeof field - 1};
  e->path[0].name = name;
  if (!mp_push_member_span(e, name)) return mp_no_memory(e->error);
  size_t number = e->binding->span_count - 1;
  mp_json_write_string(e->out, name);
  mp_buffer_add_char(e->out, ':');
  size_t start = e->out->length;
  if (given) {
    moonpad_status status = encode_any(e, lua_gettop(e->L));
    if (status != MOONPAD_OK) return status;
  }
  lua_pop(e->L, 1);
  if (!e->out->failed && marked->length > 0) {
    bool list = e->out->length > start && e->out->data[start] == '[';
    bool empty = e->out->length <= start + 2;
    if (!list && !empty) return mp_encoder_refuse(e, 1, "expects a list of keys");
    e->out->length = list && !empty ? e->out->length - 1 : start;
    mp_buffer_add_char(e->out, list && !empty ? ',' : '[');
    mp_buffer_add(e->out, marked->data, marked->length);
    mp_buffer_add_char(e->out, ']');
  }
  mp_buffer_add_char(e->out, ',');
  e->binding->spans[number].length = e->out->length - e->binding->spans[number].begin;
  return MOONPAD_OK;
}

/* ---- Tables ---- */

/* An empty table is {} unless it is marked as an array (contract 1.2). */
static moonpad_status encode_members(mp_encoder *e, int table) {
  lua_State *L = e->L;
  mp_array_mark marked = mp_encoder_mark(e, table);
  lua_pushnil(L);
  if (!lua_next(L, table)) {
    if (marked != MP_MARK_NONE)
      mp_buffer_add_literal(e->out, "[]");
    else
      mp_buffer_add_literal(e->out, "{}");
    return MOONPAD_OK;
  }
  if (lua_type(L, table + 1) == LUA_TSTRING) {
    if (marked != MP_MARK_ARRAY) return encode_object(e, table);
    lua_settop(L, table);
    return refuse_table(e, table);
  }
  return encode_array(e, table);
}

/* The table is at the top of the stack. */
static moonpad_status encode_table(mp_encoder *e, int table) {
  if (e->out->failed) return mp_encoder_fail_full(e);
  unsigned around = e->base + e->depth;
  if (around >= MOONPAD_MAX_DEPTH && around >= mp_encoder_depth_limit(e)) return mp_encoder_refuse_depth(e);
  const void *address = lua_topointer(e->L, table);
  for (unsigned i = 0; i < e->depth; i++) {
    if (e->path[i].table == address) return mp_encoder_refuse_kind(e, e->depth, "a table that contains itself");
  }
  moonpad_status status = make_room(e, table);
  if (status != MOONPAD_OK) return status;
  mp_encoder_step *here = &e->path[e->depth++];
  here->table = address;
  here->name.data = NULL;
  here->index = 0;
  status = encode_members(e, table);
  e->depth--;
  return status;
}

static moonpad_status encode_any(mp_encoder *e, int index) {
  switch (lua_type(e->L, index)) {
  case LUA_TSTRING:
    return mp_encode_string(e, index);
  case LUA_TNUMBER:
    return mp_encode_number(e, index);
  case LUA_TBOOLEAN:
    if (lua_toboolean(e->L, index))
      mp_buffer_add_literal(e->out, "true");
    else
      mp_buffer_add_literal(e->out, "false");
    return MOONPAD_OK;
  case LUA_TTABLE:
    return encode_table(e, index);
  case LUA_TLIGHTUSERDATA:
    return mp_encode_light_userdata(e, index);
  case LUA_TUSERDATA:
    return mp_encode_userdata(e, index);
  case LUA_TFUNCTION:
    return mp_encoder_refuse_kind(e, e->depth, "a function");
  case LUA_TTHREAD:
    return mp_encoder_refuse_kind(e, e->depth, "a coroutine");
  default:
    return mp_encoder_refuse_kind(e, e->depth, "nil");
  }
}

/* ---- Whole values ---- */

static unsigned levels_around(const mp_value_path *path) {
  if (path->node != NULL) return mp_node_level(path->node) + 1;
  return path->kind == MP_VALUE_PATH_APPENDED ? 1 : 0;
}

/* What one huge value took is given back at the next. */
#define SCRATCH_KEPT ((size_t)4 * 1024 * 1024)

static void trim(mp_buffer *scratch) {
  if (scratch->length == 0 && scratch->capacity > SCRATCH_KEPT) mp_buffer_free(scratch);
}

static void start(mp_encoder *e, lua_State *L, mp_lua *binding, mp_value_path path, mp_encode_kind kind, int64_t limit,
                  mp_buffer *out, moonpad_error *error) {
  mp_buffer_clear(&binding->scratch);
  trim(&binding->scratch);
  trim(out);
  e->L = L;
  e->binding = binding;
  e->out = out;
  e->error = error;
  e->root = path;
  e->kind = kind;
  e->limit = limit;
  e->base = levels_around(&path);
  e->depth = 0;
  e->removed = e->removes = e->lists_removed = false;
  e->stack = 0;
  binding->span_count = 0;
  mp_buffer_clear(&binding->removed_keys);
}

static moonpad_type type_of_text(char first) {
  switch (first) {
  case '{':
    return MOONPAD_OBJECT;
  case '[':
    return MOONPAD_ARRAY;
  case '"':
    return MOONPAD_STRING;
  case 't':
  case 'f':
    return MOONPAD_BOOLEAN;
  case 'n':
    return MOONPAD_NULL;
  default:
    return MOONPAD_INTEGER;
  }
}

moonpad_status mp_encode(lua_State *L, mp_lua *binding, int index, mp_value_path path, mp_encode_kind kind,
                         int64_t limit, mp_buffer *out, moonpad_type *type, moonpad_error *error) {
  mp_encoder e;
  start(&e, L, binding, path, kind, limit, out, error);
  int top = lua_gettop(L);
  size_t begin = out->length;
  moonpad_status status = make_room(&e, top);
  if (status != MOONPAD_OK) return status;
  lua_pushvalue(L, index);
  if (path.kind != MP_VALUE_PATH_STATE) set_bound(&e);
  status = encode_any(&e, top + 1);
  lua_settop(L, top);
  if (status == MOONPAD_OK && out->failed) status = mp_encoder_fail_full(&e);
  if (status == MOONPAD_OK && binding->removed_keys.failed) status = mp_no_memory(error);
  out->limit = 0;
  if (status == MOONPAD_OK && type != NULL) *type = type_of_text(out->data[begin]);
  return status;
}

static moonpad_status encode_composite(lua_State *L, mp_lua *binding, int index, mp_value_path path, mp_env *env,
                                       int64_t limit, mp_value **value, moonpad_error *error) {
  mp_buffer_clear(&binding->text);
  moonpad_type type;
  moonpad_status status = mp_encode(L, binding, index, path, MP_ENCODE_VALUE, limit, &binding->text, &type, error);
  if (status != MOONPAD_OK) return status;
  moonpad_string text = mp_buffer_text(&binding->text);
  *value = mp_is_composite(type) ? mp_value_new_json(env, type, text) : mp_value_from_trusted_json(env, text);
  return *value != NULL ? MOONPAD_OK : mp_no_memory(error);
}

/* A node is copied by sharing its value where it can be. */
static moonpad_status copy_node(lua_State *L, mp_lua *binding, int index, mp_value_path path, mp_env *env,
                                int64_t limit, mp_value **value, moonpad_error *error) {
  mp_lua_node *node = mp_read_node(L, binding, index);
  if (node == NULL || mp_node_env(node->node) != env || levels_around(&path) > mp_node_level(node->node)) {
    return encode_composite(L, binding, index, path, env, limit, value, error);
  }
  *value = mp_node_value(node->node);
  return *value != NULL ? MOONPAD_OK : mp_no_memory(error);
}

static moonpad_status encode_scalar(lua_State *L, mp_lua *binding, int index, mp_value_path path, mp_env *env,
                                    mp_value **value, moonpad_error *error) {
  mp_encoder e;
  switch (lua_type(L, index)) {
  case LUA_TBOOLEAN:
    *value = mp_value_new_boolean(env, lua_toboolean(L, index));
    break;
  case LUA_TNUMBER: {
    if (lua_isinteger(L, index)) {
      *value = mp_value_new_integer(env, lua_tointeger(L, index));
      break;
    }
    lua_Number number = lua_tonumber(L, index);
    if (!isfinite(number)) {
      start(&e, L, binding, path, MP_ENCODE_VALUE, MP_LIMIT_NONE, &binding->text, error);
      return mp_encoder_check_number(&e, number);
    }
    *value = mp_value_new_float(env, number);
    break;
  }
  default: {
    moonpad_string text;
    text.data = lua_tolstring(L, index, &text.length);
    if (mp_utf8_valid_prefix(text.data, text.length) != text.length) {
      start(&e, L, binding, path, MP_ENCODE_VALUE, MP_LIMIT_NONE, &binding->text, error);
      return mp_encoder_check_text(&e, 0, text, "the string is");
    }
    *value = mp_value_new_string(env, text);
    break;
  }
  }
  return *value != NULL ? MOONPAD_OK : mp_no_memory(error);
}

moonpad_status mp_encode_value(lua_State *L, mp_lua *binding, int index, mp_value_path path, mp_env *env, int64_t limit,
                               mp_value **value, moonpad_error *error) {
  *value = NULL;
  switch (lua_type(L, index)) {
  case LUA_TBOOLEAN:
  case LUA_TNUMBER:
  case LUA_TSTRING:
    return encode_scalar(L, binding, index, path, env, value, error);
  case LUA_TUSERDATA:
    return copy_node(L, binding, index, path, env, limit, value, error);
  default:
    return encode_composite(L, binding, index, path, env, limit, value, error);
  }
}
