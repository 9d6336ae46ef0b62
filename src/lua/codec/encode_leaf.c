/* What is no table: scalars, the values that stand for null or an empty array, and proxies. */
#include <math.h>
#include <stdio.h>

#include "base/digits.h"
#include "base/utf8.h"
#include "core/json_trusted.h"
#include "core/json_write.h"
#include "lua/base/handles.h"
#include "lua/codec/encode_private.h"
#include "service/binding/state.h"

/* ---- Scalars ---- */

/* `what` is wrong when it is not valid UTF-8. */
moonpad_status mp_encoder_check_text(const mp_encoder *e, unsigned steps, moonpad_string text, const char *what) {
  size_t valid = mp_utf8_valid_prefix(text.data, text.length);
  if (valid == text.length) return MOONPAD_OK;
  char problem[120];
  snprintf(problem, sizeof problem, "%s not valid UTF-8 (byte %zu)", what, valid + 1);
  return mp_encoder_refuse(e, steps, problem);
}

moonpad_status mp_encoder_check_number(const mp_encoder *e, lua_Number number) {
  if (isnan(number)) return mp_encoder_refuse_kind(e, e->depth, "NaN");
  if (isinf(number)) return mp_encoder_refuse_kind(e, e->depth, "an infinite number");
  return MOONPAD_OK;
}

/*
** Has the top bit of a byte set if there is one that is not plain: control characters, '"', '\\'
** and what is more than ASCII.
*/
static inline uint64_t not_plain(uint64_t word) {
  uint64_t quote = word ^ MP_EVERY_BYTE('"'), backslash = word ^ MP_EVERY_BYTE('\\');
  return word | (word - MP_EVERY_BYTE(0x20)) | (quote - MP_EVERY_BYTE(1)) | (backslash - MP_EVERY_BYTE(1));
}

/* Copies a piece of text word by word; the last one overlaps the one before. At least 8 bytes. */
static inline uint64_t copy_words(char *to, const char *from, size_t length) {
  uint64_t word, found = 0;
  for (size_t at = 0; length - at > sizeof word; at += sizeof word) {
    memcpy(&word, from + at, sizeof word);
    memcpy(to + at, &word, sizeof word);
    found |= not_plain(word);
  }
  memcpy(&word, from + length - sizeof word, sizeof word);
  memcpy(to + length - sizeof word, &word, sizeof word);
  return found | not_plain(word);
}

/* The same of at most 8 bytes. */
static inline uint64_t copy_short(char *to, const char *from, size_t length) {
  uint64_t word = MP_EVERY_BYTE(' ');
  if (length >= 4) {
    uint32_t low, high;
    memcpy(&low, from, sizeof low);
    memcpy(&high, from + length - sizeof high, sizeof high);
    memcpy(to, &low, sizeof low);
    memcpy(to + length - sizeof high, &high, sizeof high);
    word = (uint64_t)high << 32 | low;
  } else {
    for (size_t i = 0; i < length; i++) {
      to[i] = from[i];
      word = word << 8 | (unsigned char)from[i];
    }
  }
  return not_plain(word);
}

/* Writes a string literal if its text is all plain ASCII; false: nothing has been written. */
static bool encode_plain(mp_buffer *out, moonpad_string text) {
  if (text.length > SIZE_MAX - 2 || !mp_buffer_room(out, text.length + 2)) return false;
  char *to = out->data + out->length;
  uint64_t found =
      text.length >= 8 ? copy_words(to + 1, text.data, text.length) : copy_short(to + 1, text.data, text.length);
  if ((found & MP_EVERY_BYTE(0x80)) != 0) return false;
  to[0] = to[text.length + 1] = '"';
  out->length += text.length + 2;
  return true;
}

moonpad_status mp_encode_key(const mp_encoder *e, moonpad_string key) {
  if (!encode_plain(e->out, key)) {
    if (e->out->failed) return mp_encoder_fail_full(e);
    moonpad_status status = mp_encoder_check_text(e, e->depth - 1, key, "a key is");
    if (status != MOONPAD_OK) return status;
    mp_json_write_string(e->out, key);
  }
  mp_buffer_add_char(e->out, ':');
  return MOONPAD_OK;
}

moonpad_status mp_encode_string(mp_encoder *e, int index) {
  moonpad_string text;
  text.data = lua_tolstring(e->L, index, &text.length);
  if (encode_plain(e->out, text)) return MOONPAD_OK;
  if (e->out->failed) return mp_encoder_fail_full(e);
  moonpad_status status = mp_encoder_check_text(e, e->depth, text, "the string is");
  if (status == MOONPAD_OK) mp_json_write_string(e->out, text);
  return status;
}

moonpad_status mp_encode_number(mp_encoder *e, int index) {
  if (lua_isinteger(e->L, index)) {
    mp_json_write_integer(e->out, lua_tointeger(e->L, index));
    return MOONPAD_OK;
  }
  lua_Number number = lua_tonumber(e->L, index);
  moonpad_status status = mp_encoder_check_number(e, number);
  if (status == MOONPAD_OK) mp_json_write_float(e->out, number);
  return status;
}

/* ---- Marks ---- */

/*
** Pushes field `name` of lua-cjson where it has been loaded, else nil. All strings are at hand
** already: this allocates nothing.
*/
static void push_cjson_field(mp_encoder *e, int module_name, int field_name) {
  lua_State *L = e->L;
  mp_push_slot(L, MP_LUA_SLOT_NAMES);
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

static bool is_cjson_mark(mp_encoder *e, const void *address, int field_name) {
  for (int module_name = NAME_CJSON; module_name <= NAME_CJSON_SAFE; module_name++) {
    push_cjson_field(e, module_name, field_name);
    bool same = lua_topointer(e->L, -1) == address;
    lua_pop(e->L, 1);
    if (same) return true;
  }
  return false;
}

mp_array_mark mp_encoder_mark(mp_encoder *e, int table) {
  if (!lua_getmetatable(e->L, table)) return MP_MARK_NONE;
  const void *metatable = lua_topointer(e->L, -1);
  lua_pop(e->L, 1);
  if (metatable == e->binding->array_meta) return MP_MARK_ARRAY;
  if (metatable == e->binding->event_meta || metatable == e->binding->inline_meta) return MP_MARK_NONE;
  if (is_cjson_mark(e, metatable, NAME_ARRAY_MT)) return MP_MARK_ARRAY;
  if (is_cjson_mark(e, metatable, NAME_EMPTY_ARRAY_MT)) return MP_MARK_ARRAY_IF_EMPTY;
  return MP_MARK_NONE;
}

bool mp_encodes_event(const mp_encoder *e) {
  return e->kind == MP_ENCODE_EVENT || e->kind == MP_ENCODE_SHOWN_EVENT;
}

static bool in_state_delta(const mp_encoder *e) {
  return mp_encodes_event(e) && e->depth >= MP_DELTA_LEVEL && mp_text_is(e->path[0].name, "actions") &&
         mp_text_is(e->path[1].name, "stateDelta");
}

void mp_encoder_note_removed(mp_encoder *e, moonpad_string key) {
  mp_buffer *noted = &e->binding->removed_keys;
  if (noted->length > 0) mp_buffer_add_char(noted, ',');
  mp_json_write_string(noted, key);
}

moonpad_status mp_encode_light_userdata(mp_encoder *e, int index) {
  void *address = lua_touserdata(e->L, index);
  if (address == NULL) {
    mp_buffer_add_literal(e->out, "null");
    return MOONPAD_OK;
  }
  if (address == e->binding->removed) {
    if (!in_state_delta(e) || e->depth != MP_DELTA_LEVEL) {
      return mp_encoder_refuse(e, e->depth,
                               mp_encodes_event(e)
                                   ? "moonpad.removed has a meaning only for the keys of actions.stateDelta"
                                   : "moonpad.removed is not a value: to delete a state key, assign nil");
    }
    e->removed = true;
    mp_buffer_add_literal(e->out, "null");
    return MOONPAD_OK;
  }
  if (is_cjson_mark(e, address, NAME_EMPTY_ARRAY)) {
    mp_buffer_add_literal(e->out, "[]");
    return MOONPAD_OK;
  }
  return mp_encoder_refuse_kind(e, e->depth, "a light userdata");
}

/* ---- Proxies ---- */

unsigned mp_encoder_depth_limit(const mp_encoder *e) {
  /* the table of keys is no part of a value */
  if (e->root.kind == MP_VALUE_PATH_STATE) return MOONPAD_MAX_DEPTH + 1;
  if (!mp_encodes_event(e)) return MOONPAD_MAX_DEPTH;
  return in_state_delta(e) ? MP_DELTA_LEVEL + MOONPAD_MAX_DEPTH : MP_EVENT_MAX_DEPTH;
}

static moonpad_status check_height(mp_encoder *e, moonpad_string text) {
  unsigned around = e->base + e->depth;
  /* A whole state is only shown. */
  bool is_only_shown = around == 0 && e->kind == MP_ENCODE_JSON;
  if (is_only_shown || around + mp_json_trusted_shape(text).depth <= mp_encoder_depth_limit(e)) return MOONPAD_OK;
  return mp_encoder_refuse_depth(e);
}

moonpad_status mp_encode_userdata(mp_encoder *e, int index) {
  mp_lua *binding = e->binding;
  size_t start = e->out->length;
  mp_lua_node *node = mp_read_node(e->L, binding, index);
  mp_lua_state *state = node == NULL ? mp_test_userdata(e->L, index, binding->state_meta) : NULL;
  if (node != NULL) {
    mp_node_write(node->node, e->out);
  } else if (state != NULL && state->set != NULL) {
    moonpad_status status = mp_changes_write_all(state->set->changes, true, e->out, e->error);
    if (status != MOONPAD_OK && !e->out->failed) return status;
  } else {
    return mp_encoder_refuse_kind(e, e->depth, "a userdata");
  }
  if (e->out->failed) return mp_encoder_fail_full(e);
  moonpad_string written = {e->out->data + start, e->out->length - start};
  return check_height(e, written);
}
