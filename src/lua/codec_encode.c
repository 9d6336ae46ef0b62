/*
** Lua values to JSON text, in one pass. Tables are read raw. Members of an object are written in the order in which Lua gives them and put in byte order
** afterwards, where that is not the order already.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/utf8.h"
#include "lua/codec.h"
#include "lua/handles.h"

/* An event may hold a value of the full depth in its fields. */
#define EVENT_DEPTH (MOONPAD_MAX_DEPTH + 8)
#define DELTA_LEVEL 3 /* event.actions.stateDelta: its values stand three tables deep */

/* A table on the way to the value at hand, and the place in it. */
typedef struct step {
  const void *table;
  moonpad_string name; /* data NULL: an index */
  lua_Integer index;
} step;

typedef struct encoder {
  lua_State *L;
  mp_lua *binding;
  mp_buffer *out;
  moonpad_error *error;
  mp_place place;
  mp_encode_kind kind;
  unsigned base;  /* tables around the whole value */
  unsigned depth; /* tables around the value at hand, without those */
  step path[EVENT_DEPTH];
} encoder;

static moonpad_status encode_any(encoder *e, int index);

/* ---- Messages ---- */

static bool is_plain_name(moonpad_string name) {
  if (name.length == 0 || name.length > 60) return false;
  for (size_t i = 0; i < name.length; i++) {
    char byte = name.data[i];
    bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || byte == '_';
    if (!letter && !(i > 0 && byte >= '0' && byte <= '9')) return false;
  }
  return true;
}

static void add_name(mp_buffer *out, moonpad_string name, bool always_quoted) {
  if (!always_quoted && is_plain_name(name)) {
    mp_buffer_add_char(out, '.');
    mp_buffer_add_string(out, name);
    return;
  }
  mp_quoted quoted = mp_quote(name);
  mp_buffer_add_char(out, '[');
  mp_buffer_add_string(out, moonpad_text(quoted.text));
  mp_buffer_add_char(out, ']');
}

static void add_place(mp_buffer *out, mp_place place) {
  switch (place.kind) {
  case MP_PLACE_NAMED:
    mp_buffer_add_string(out, place.name);
    break;
  case MP_PLACE_STATE:
    mp_buffer_add_literal(out, "state");
    break;
  case MP_PLACE_KEY:
    mp_buffer_add_literal(out, "state");
    add_name(out, place.name, true);
    break;
  case MP_PLACE_NODE_MEMBER:
    mp_node_member_path(place.node, place.name, out);
    break;
  case MP_PLACE_NODE_ITEM:
    mp_node_index_path(place.node, place.index, out);
    break;
  }
}

#define PATH_SHOWN 600 /* of a longer path the middle is left out, so that the reason is never cut off */

static void add_path(const encoder *e, unsigned steps, mp_buffer *out) {
  add_place(out, e->place);
  for (unsigned i = 0; i < steps; i++) {
    const step *at = &e->path[i];
    if (at->name.data != NULL) {
      add_name(out, at->name, i == 0 && e->place.kind == MP_PLACE_STATE);
    } else {
      char digits[32];
      mp_buffer_add_char(out, '[');
      mp_buffer_add(out, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)at->index));
      mp_buffer_add_char(out, ']');
    }
  }
}

static moonpad_status refuse(const encoder *e, unsigned steps, const char *problem) {
  mp_buffer *path = &e->binding->spare;
  mp_buffer_clear(path);
  add_path(e, steps, path);
  if (path->failed) return mp_no_memory(e->error);
  if (path->length <= PATH_SHOWN) {
    return mp_fail(e->error, MOONPAD_INVALID_ARGUMENT, "%.*s: %s", (int)path->length, path->data, problem);
  }
  size_t head = PATH_SHOWN / 2, tail = path->length - PATH_SHOWN / 2;
  while ((path->data[head] & 0xC0) == 0x80) head--;
  while ((path->data[tail] & 0xC0) == 0x80) tail++;
  return mp_fail(e->error, MOONPAD_INVALID_ARGUMENT, "%.*s ... %.*s: %s", (int)head, path->data,
                 (int)(path->length - tail), path->data + tail, problem);
}

static moonpad_status refuse_kind(const encoder *e, unsigned steps, const char *what) {
  char problem[160];
  snprintf(problem, sizeof problem, "%s cannot be %s", what, e->kind == MP_ENCODE_JSON ? "encoded" : "stored");
  return refuse(e, steps, problem);
}

/* ---- Scalars ---- */

/* `what` is wrong when it is not valid UTF-8. */
static moonpad_status check_text(const encoder *e, unsigned steps, moonpad_string text, const char *what) {
  size_t valid = mp_utf8_valid_prefix(text.data, text.length);
  if (valid == text.length) return MOONPAD_OK;
  char problem[120];
  snprintf(problem, sizeof problem, "%s not valid UTF-8 (byte %zu)", what, valid + 1);
  return refuse(e, steps, problem);
}

static moonpad_status check_number(const encoder *e, lua_Number number) {
  if (isnan(number)) return refuse_kind(e, e->depth, "NaN");
  if (isinf(number)) return refuse_kind(e, e->depth, "an infinite number");
  return MOONPAD_OK;
}

static moonpad_status encode_string(encoder *e, int index) {
  moonpad_string text;
  text.data = lua_tolstring(e->L, index, &text.length);
  moonpad_status status = check_text(e, e->depth, text, "the string is");
  if (status == MOONPAD_OK) mp_json_write_string(e->out, text);
  return status;
}

static moonpad_status encode_number(encoder *e, int index) {
  if (lua_isinteger(e->L, index)) {
    mp_json_write_integer(e->out, lua_tointeger(e->L, index));
    return MOONPAD_OK;
  }
  lua_Number number = lua_tonumber(e->L, index);
  moonpad_status status = check_number(e, number);
  if (status == MOONPAD_OK) mp_json_write_float(e->out, number);
  return status;
}

/* ---- Marks ---- */

/* Pushes field `name` of lua-cjson where it has been loaded, else nil. All strings are at hand already: this allocates nothing. */
static void push_cjson_field(encoder *e, int module_name, int field_name) {
  lua_State *L = e->L;
  mp_push_anchor(L, MP_ANCHOR_NAMES);
  int names = lua_gettop(L);
  lua_rawgeti(L, names, 1);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_istable(L, -1)) {
    lua_rawgeti(L, names, module_name);
    lua_rawget(L, -2);
    if (lua_istable(L, -1)) {
      lua_rawgeti(L, names, field_name);
      lua_rawget(L, -2);
      lua_replace(L, names);
      lua_settop(L, names);
      return;
    }
  }
  lua_settop(L, names - 1);
  lua_pushnil(L);
}

enum { NAME_CJSON = 2, NAME_CJSON_SAFE, NAME_ARRAY_MT, NAME_EMPTY_ARRAY_MT, NAME_EMPTY_ARRAY };

static bool is_cjson_mark(encoder *e, const void *address, int field_name) {
  for (int module_name = NAME_CJSON; module_name <= NAME_CJSON_SAFE; module_name++) {
    push_cjson_field(e, module_name, field_name);
    bool same = lua_topointer(e->L, -1) == address;
    lua_pop(e->L, 1);
    if (same) return true;
  }
  return false;
}

typedef enum mark { MARK_NONE, MARK_ARRAY, MARK_ARRAY_IF_EMPTY } mark;

static mark mark_of(encoder *e, int table) {
  if (!lua_getmetatable(e->L, table)) return MARK_NONE;
  const void *metatable = lua_topointer(e->L, -1);
  lua_pop(e->L, 1);
  if (metatable == e->binding->array_meta) return MARK_ARRAY;
  if (metatable == e->binding->event_meta) return MARK_NONE;
  if (is_cjson_mark(e, metatable, NAME_ARRAY_MT)) return MARK_ARRAY;
  if (is_cjson_mark(e, metatable, NAME_EMPTY_ARRAY_MT)) return MARK_ARRAY_IF_EMPTY;
  return MARK_NONE;
}

static bool name_is(moonpad_string name, const char *literal) {
  return name.data != NULL && name.length == strlen(literal) && memcmp(name.data, literal, name.length) == 0;
}

static bool in_state_delta(const encoder *e) {
  return e->kind == MP_ENCODE_EVENT && e->depth >= DELTA_LEVEL && name_is(e->path[0].name, "actions") &&
         name_is(e->path[1].name, "stateDelta");
}

static void note_removed(encoder *e, moonpad_string key) {
  mp_buffer *noted = &e->binding->removed_keys;
  if (noted->length > 0) mp_buffer_add_char(noted, ',');
  mp_json_write_string(noted, key);
}

static moonpad_status encode_light_userdata(encoder *e, int index) {
  void *address = lua_touserdata(e->L, index);
  if (address == NULL) {
    mp_buffer_add_literal(e->out, "null");
    return MOONPAD_OK;
  }
  if (address == e->binding->removed) {
    if (!in_state_delta(e) || e->depth != DELTA_LEVEL) {
      return refuse(e, e->depth,
                    e->kind == MP_ENCODE_EVENT ? "moonpad.removed has a meaning only for the keys of actions.stateDelta"
                                               : "moonpad.removed is not a value: to delete a state key, assign nil");
    }
    note_removed(e, e->path[DELTA_LEVEL - 1].name);
    mp_buffer_add_literal(e->out, "null");
    return MOONPAD_OK;
  }
  if (is_cjson_mark(e, address, NAME_EMPTY_ARRAY)) {
    mp_buffer_add_literal(e->out, "[]");
    return MOONPAD_OK;
  }
  return refuse_kind(e, e->depth, "a light userdata");
}

/* ---- Proxies ---- */

/* How deep compact JSON is nested. */
static unsigned json_height(moonpad_string text) {
  unsigned depth = 0, height = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.length; i++) {
    char byte = text.data[i];
    if (in_string) {
      if (byte == '\\')
        i++;
      else if (byte == '"')
        in_string = false;
    } else if (byte == '"') {
      in_string = true;
    } else if (byte == '[' || byte == '{') {
      if (++depth > height) height = depth;
    } else if (byte == ']' || byte == '}') {
      depth--;
    }
  }
  return height;
}

static unsigned depth_limit(const encoder *e) {
  if (e->kind != MP_ENCODE_EVENT) return MOONPAD_MAX_DEPTH;
  return in_state_delta(e) ? DELTA_LEVEL + MOONPAD_MAX_DEPTH : EVENT_DEPTH;
}

static moonpad_status refuse_depth(const encoder *e) {
  char problem[80];
  snprintf(problem, sizeof problem, "nested deeper than %d levels", MOONPAD_MAX_DEPTH);
  return refuse(e, e->depth, problem);
}

static moonpad_status check_height(encoder *e, moonpad_string text) {
  unsigned around = e->base + e->depth;
  if (around == 0 || around + json_height(text) <= depth_limit(e)) return MOONPAD_OK;
  return refuse_depth(e);
}

static moonpad_status encode_userdata(encoder *e, int index) {
  mp_lua *binding = e->binding;
  size_t start = e->out->length;
  mp_lua_node *node = mp_test_userdata(e->L, index, binding->node_meta);
  mp_lua_state *state = node == NULL ? mp_test_userdata(e->L, index, binding->state_meta) : NULL;
  if (node != NULL && node->node != NULL) {
    mp_node_write(node->node, e->out);
  } else if (state != NULL && state->box != NULL) {
    moonpad_status status = mp_changes_write_all(state->box->changes, e->out, e->error);
    if (status != MOONPAD_OK) return status;
  } else {
    return refuse_kind(e, e->depth, "a userdata");
  }
  if (e->out->failed) return mp_no_memory(e->error);
  moonpad_string written = {e->out->data + start, e->out->length - start};
  return check_height(e, written);
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
static moonpad_status refuse_table(encoder *e, int table) {
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
               kind_of_key(L, -1), e->kind == MP_ENCODE_JSON ? "encoded" : "stored");
      return refuse(e, steps, problem);
    }
  }
  if (strings)
    return refuse_kind(e, steps,
                       indices ? "a table that mixes array items and string keys" : "an array with string keys");
  lua_Integer missing = 1;
  while (lua_rawgeti(L, table, missing) != LUA_TNIL) {
    lua_pop(L, 1);
    missing++;
  }
  char what[120];
  snprintf(what, sizeof what, "an array with holes (there is no item %lld)", (long long)missing);
  return refuse_kind(e, steps, what);
}

/* Items that Lua does not keep in its array part: counts them first. */
static moonpad_status encode_scattered_array(encoder *e, int table) {
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
  step *here = &e->path[e->depth - 1];
  mp_buffer_add_char(e->out, '[');
  for (here->index = 1; here->index <= count; here->index++) {
    if (here->index > 1) mp_buffer_add_char(e->out, ',');
    lua_rawgeti(L, table, here->index);
    moonpad_status status = encode_any(e, lua_gettop(L));
    if (status != MOONPAD_OK) return status;
    lua_pop(L, 1);
  }
  mp_buffer_add_char(e->out, ']');
  return MOONPAD_OK;
}

/* The first key, an integer, and its value are on the stack. */
static moonpad_status encode_array(encoder *e, int table) {
  lua_State *L = e->L;
  size_t start = e->out->length;
  step *here = &e->path[e->depth - 1];
  here->name.data = NULL;
  here->index = 1;
  mp_buffer_add_char(e->out, '[');
  do {
    if (!lua_isinteger(L, -2) || lua_tointeger(L, -2) != here->index) {
      lua_pop(L, 2);
      e->out->length = start;
      return encode_scattered_array(e, table);
    }
    if (here->index > 1) mp_buffer_add_char(e->out, ',');
    moonpad_status status = encode_any(e, lua_gettop(L));
    if (status != MOONPAD_OK) return status;
    lua_pop(L, 1);
    here->index++;
  } while (lua_next(L, table));
  mp_buffer_add_char(e->out, ']');
  return MOONPAD_OK;
}

/* ---- Objects ---- */

static int compare_segments(const void *a, const void *b) {
  return mp_text_compare(((const mp_segment *)a)->name, ((const mp_segment *)b)->name);
}

static void sort_segments(mp_segment *segments, size_t count) {
  if (count > 16) {
    qsort(segments, count, sizeof *segments, compare_segments);
    return;
  }
  for (size_t i = 1; i < count; i++) {
    mp_segment moving = segments[i];
    size_t at = i;
    for (; at > 0 && mp_text_compare(segments[at - 1].name, moving.name) > 0; at--) segments[at] = segments[at - 1];
    segments[at] = moving;
  }
}

/* Puts the members from `begin` on in the order of their segments. */
static void permute(encoder *e, size_t begin, const mp_segment *segments, size_t count) {
  mp_buffer *spare = &e->binding->spare;
  if (e->out->failed) return;
  mp_buffer_clear(spare);
  if (!mp_buffer_room(spare, e->out->length - begin)) {
    e->out->failed = true;
    return;
  }
  for (size_t i = 0; i < count; i++) mp_buffer_add(spare, e->out->data + segments[i].begin, segments[i].length);
  memcpy(e->out->data + begin, spare->data, spare->length);
}

static bool push_segment(mp_lua *binding, size_t begin, moonpad_string name) {
  if (binding->segment_count == binding->segment_capacity &&
      !mp_reserve(binding->env, (void **)&binding->segments, &binding->segment_capacity, sizeof(mp_segment),
                  binding->segment_count + 1)) {
    return false;
  }
  mp_segment *segment = &binding->segments[binding->segment_count++];
  segment->begin = begin;
  segment->length = 0;
  segment->name = name;
  return true;
}

/* Members that the rules of the whole value leave out. */
static bool is_left_out(encoder *e, moonpad_string name) {
  if (e->depth != 1) return false;
  if (e->kind == MP_ENCODE_EVENT) return name_is(name, "revision") || name_is(name, "removedStateKeys");
  if (e->kind != MP_ENCODE_SHARED || lua_type(e->L, -1) != LUA_TLIGHTUSERDATA ||
      lua_touserdata(e->L, -1) != e->binding->removed) {
    return false;
  }
  note_removed(e, name);
  return true;
}

/* Writes `"name":value,` as a segment; the value is at the top of the stack. */
static moonpad_status encode_member(encoder *e, moonpad_string name) {
  mp_lua *binding = e->binding;
  if (!push_segment(binding, e->out->length, name)) return mp_no_memory(e->error);
  size_t number = binding->segment_count - 1;
  mp_json_write_string(e->out, name);
  mp_buffer_add_char(e->out, ':');
  moonpad_status status = encode_any(e, lua_gettop(e->L));
  if (status != MOONPAD_OK) return status;
  mp_buffer_add_char(e->out, ',');
  binding->segments[number].length = e->out->length - binding->segments[number].begin;
  return MOONPAD_OK;
}

static moonpad_status encode_removed_keys(encoder *e, int table);

static bool is_sorted(const mp_segment *segments, size_t count) {
  for (size_t i = 1; i < count; i++) {
    if (mp_text_compare(segments[i - 1].name, segments[i].name) > 0) return false;
  }
  return true;
}

/* Puts the segments from `first` on in order, and closes the object that they are in. */
static void finish_object(encoder *e, size_t begin, size_t first) {
  mp_lua *binding = e->binding;
  mp_segment *segments = binding->segments + first;
  size_t count = binding->segment_count - first;
  if (count == 0) {
    mp_buffer_add_char(e->out, '}');
    return;
  }
  if (!is_sorted(segments, count)) {
    sort_segments(segments, count);
    permute(e, begin, segments, count);
  }
  if (!e->out->failed) e->out->data[e->out->length - 1] = '}';
  binding->segment_count = first;
}

/* The first key, a string, and its value are on the stack. */
static moonpad_status encode_object(encoder *e, int table) {
  lua_State *L = e->L;
  size_t first = e->binding->segment_count;
  step *here = &e->path[e->depth - 1];
  mp_buffer_add_char(e->out, '{');
  size_t begin = e->out->length;
  do {
    if (lua_type(L, -2) != LUA_TSTRING) {
      lua_pop(L, 2);
      return refuse_table(e, table);
    }
    here->name.data = lua_tolstring(L, -2, &here->name.length);
    moonpad_status status = check_text(e, e->depth - 1, here->name, "a key is");
    if (status == MOONPAD_OK && !is_left_out(e, here->name)) status = encode_member(e, here->name);
    if (status != MOONPAD_OK) return status;
    lua_pop(L, 1);
  } while (lua_next(L, table));
  if (e->kind == MP_ENCODE_EVENT && e->depth == 1) {
    moonpad_status status = encode_removed_keys(e, table);
    if (status != MOONPAD_OK) return status;
  }
  finish_object(e, begin, first);
  return MOONPAD_OK;
}

/* ---- removedStateKeys of an event ---- */

/* Pushes the field of the event by raw access; runs no finalizer, since the name is among the table's keys when it is there. */
static bool push_given_removed_keys(encoder *e, int table) {
  lua_State *L = e->L;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    moonpad_string name;
    if (lua_type(L, -2) == LUA_TSTRING) {
      name.data = lua_tolstring(L, -2, &name.length);
      if (name_is(name, "removedStateKeys")) {
        lua_replace(L, -2);
        return true;
      }
    }
    lua_pop(L, 1);
  }
  return false;
}

/* The list that the caller gave, with the keys that were marked moonpad.removed added. */
static moonpad_status encode_removed_keys(encoder *e, int table) {
  static const char field[] = "removedStateKeys";
  mp_buffer *marked = &e->binding->removed_keys;
  bool given = push_given_removed_keys(e, table);
  if (!given && marked->length == 0) return MOONPAD_OK;
  if (!given) lua_pushnil(e->L);
  moonpad_string name = {field, sizeof field - 1};
  e->path[0].name = name;
  if (!push_segment(e->binding, e->out->length, name)) return mp_no_memory(e->error);
  size_t number = e->binding->segment_count - 1;
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
    if (!list && !empty) return refuse(e, 1, "expects a list of keys");
    e->out->length = list && !empty ? e->out->length - 1 : start;
    mp_buffer_add_char(e->out, list && !empty ? ',' : '[');
    mp_buffer_add(e->out, marked->data, marked->length);
    mp_buffer_add_char(e->out, ']');
  }
  mp_buffer_add_char(e->out, ',');
  e->binding->segments[number].length = e->out->length - e->binding->segments[number].begin;
  return MOONPAD_OK;
}

/* ---- Tables ---- */

static moonpad_status encode_members(encoder *e, int table) {
  lua_State *L = e->L;
  mark marked = mark_of(e, table);
  lua_pushnil(L);
  if (!lua_next(L, table)) {
    if (marked != MARK_NONE)
      mp_buffer_add_literal(e->out, "[]");
    else
      mp_buffer_add_literal(e->out, "{}");
    return MOONPAD_OK;
  }
  if (lua_type(L, -2) == LUA_TSTRING) {
    if (marked != MARK_ARRAY) return encode_object(e, table);
    lua_pop(L, 2);
    return refuse_table(e, table);
  }
  return encode_array(e, table);
}

static moonpad_status encode_table(encoder *e, int table) {
  if (e->base + e->depth >= depth_limit(e)) return refuse_depth(e);
  const void *address = lua_topointer(e->L, table);
  for (unsigned i = 0; i < e->depth; i++) {
    if (e->path[i].table == address) return refuse_kind(e, e->depth, "a table that contains itself");
  }
  if (!lua_checkstack(e->L, 12)) return mp_no_memory(e->error);
  step *here = &e->path[e->depth++];
  here->table = address;
  here->name.data = NULL;
  here->index = 0;
  moonpad_status status = encode_members(e, table);
  e->depth--;
  return status;
}

static moonpad_status encode_any(encoder *e, int index) {
  switch (lua_type(e->L, index)) {
  case LUA_TSTRING:
    return encode_string(e, index);
  case LUA_TNUMBER:
    return encode_number(e, index);
  case LUA_TBOOLEAN:
    if (lua_toboolean(e->L, index))
      mp_buffer_add_literal(e->out, "true");
    else
      mp_buffer_add_literal(e->out, "false");
    return MOONPAD_OK;
  case LUA_TTABLE:
    return encode_table(e, index);
  case LUA_TLIGHTUSERDATA:
    return encode_light_userdata(e, index);
  case LUA_TUSERDATA:
    return encode_userdata(e, index);
  case LUA_TFUNCTION:
    return refuse_kind(e, e->depth, "a function");
  case LUA_TTHREAD:
    return refuse_kind(e, e->depth, "a coroutine");
  default:
    return refuse_kind(e, e->depth, "nil");
  }
}

/* ---- Whole values ---- */

static void start(encoder *e, lua_State *L, mp_lua *binding, mp_place place, mp_encode_kind kind, mp_buffer *out,
                  moonpad_error *error) {
  e->L = L;
  e->binding = binding;
  e->out = out;
  e->error = error;
  e->place = place;
  e->kind = kind;
  e->base = place.node != NULL ? mp_node_level(place.node) + 1 : 0;
  e->depth = 0;
  binding->segment_count = 0;
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

moonpad_status mp_encode(lua_State *L, mp_lua *binding, int index, mp_place place, mp_encode_kind kind, mp_buffer *out,
                         moonpad_type *type, moonpad_error *error) {
  encoder e;
  start(&e, L, binding, place, kind, out, error);
  int top = lua_gettop(L);
  size_t begin = out->length;
  moonpad_status status = lua_checkstack(L, 12) ? encode_any(&e, lua_absindex(L, index)) : mp_no_memory(error);
  lua_settop(L, top);
  if (status == MOONPAD_OK && (out->failed || binding->removed_keys.failed)) status = mp_no_memory(error);
  if (status == MOONPAD_OK && type != NULL) *type = type_of_text(out->data[begin]);
  return status;
}

static moonpad_status encode_composite(lua_State *L, mp_lua *binding, int index, mp_place place, mp_env *env,
                                       mp_value **value, moonpad_error *error) {
  mp_buffer_clear(&binding->text);
  moonpad_type type;
  moonpad_status status = mp_encode(L, binding, index, place, MP_ENCODE_VALUE, &binding->text, &type, error);
  if (status != MOONPAD_OK) return status;
  moonpad_string text = mp_buffer_text(&binding->text);
  *value = mp_is_composite(type) ? mp_value_new_json(env, type, text) : mp_value_from_own_json(env, text);
  return *value != NULL ? MOONPAD_OK : mp_no_memory(error);
}

/* A node is copied by sharing its value where it can be. */
static moonpad_status copy_node(lua_State *L, mp_lua *binding, int index, mp_place place, mp_env *env, mp_value **value,
                                moonpad_error *error) {
  mp_lua_node *node = mp_test_userdata(L, index, binding->node_meta);
  unsigned around = place.node != NULL ? mp_node_level(place.node) + 1 : 0;
  if (node == NULL || node->node == NULL || mp_node_env(node->node) != env || around > mp_node_level(node->node)) {
    return encode_composite(L, binding, index, place, env, value, error);
  }
  *value = mp_node_value(node->node);
  return *value != NULL ? MOONPAD_OK : mp_no_memory(error);
}

static moonpad_status encode_scalar(lua_State *L, mp_lua *binding, int index, mp_place place, mp_env *env,
                                    mp_value **value, moonpad_error *error) {
  encoder e;
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
      start(&e, L, binding, place, MP_ENCODE_VALUE, &binding->text, error);
      return check_number(&e, number);
    }
    *value = mp_value_new_float(env, number);
    break;
  }
  default: {
    moonpad_string text;
    text.data = lua_tolstring(L, index, &text.length);
    if (mp_utf8_valid_prefix(text.data, text.length) != text.length) {
      start(&e, L, binding, place, MP_ENCODE_VALUE, &binding->text, error);
      return check_text(&e, 0, text, "the string is");
    }
    *value = mp_value_new_string(env, text);
    break;
  }
  }
  return *value != NULL ? MOONPAD_OK : mp_no_memory(error);
}

moonpad_status mp_encode_value(lua_State *L, mp_lua *binding, int index, mp_place place, mp_env *env, mp_value **value,
                               moonpad_error *error) {
  *value = NULL;
  switch (lua_type(L, index)) {
  case LUA_TBOOLEAN:
  case LUA_TNUMBER:
  case LUA_TSTRING:
    return encode_scalar(L, binding, index, place, env, value, error);
  case LUA_TUSERDATA:
    return copy_node(L, binding, index, place, env, value, error);
  default:
    return encode_composite(L, binding, index, place, env, value, error);
  }
}
