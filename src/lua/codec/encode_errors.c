/* What is said of a value that cannot be encoded: its path, and why. */
#include <stdio.h>

#include "base/error.h"
#include "lua/base/handles.h"
#include "lua/codec/encode_private.h"

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

static void add_root(mp_buffer *out, mp_value_path root) {
  switch (root.kind) {
  case MP_VALUE_PATH_NAMED:
    mp_buffer_add_string(out, root.name);
    break;
  case MP_VALUE_PATH_STATE:
    mp_buffer_add_literal(out, "state");
    break;
  case MP_VALUE_PATH_KEY:
  case MP_VALUE_PATH_APPENDED:
    mp_buffer_add_literal(out, "state");
    add_name(out, root.name, true);
    break;
  case MP_VALUE_PATH_NODE_MEMBER:
    mp_node_member_path(root.node, root.name, out);
    break;
  case MP_VALUE_PATH_NODE_ITEM:
    mp_node_index_path(root.node, root.index, out);
    break;
  }
}

static void add_path(const mp_encoder *e, unsigned steps, mp_buffer *out) {
  add_root(out, e->root);
  for (unsigned i = 0; i < steps; i++) {
    const mp_encoder_step *at = &e->path[i];
    if (at->name.data != NULL) {
      add_name(out, at->name, i == 0 && e->root.kind == MP_VALUE_PATH_STATE);
    } else {
      char digits[32];
      mp_buffer_add_char(out, '[');
      mp_buffer_add(out, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)at->index));
      mp_buffer_add_char(out, ']');
    }
  }
}

static moonpad_status refuse_with(const mp_encoder *e, moonpad_status status, unsigned steps, const char *problem) {
  mp_buffer *path = &e->binding->scratch;
  mp_buffer_clear(path);
  add_path(e, steps, path);
  mp_buffer_add_literal(path, ": ");
  return path->failed ? mp_no_memory(e->error) : mp_fail_at_path(e->error, status, mp_buffer_text(path), problem);
}

moonpad_status mp_encoder_refuse(const mp_encoder *e, unsigned steps, const char *problem) {
  return refuse_with(e, MOONPAD_INVALID_ARGUMENT, steps, problem);
}

/* Of a table of state values the key is named, of anything else the whole. */
moonpad_status mp_encoder_fail_full(const mp_encoder *e) {
  if (!e->out->over_limit) return mp_no_memory(e->error);
  unsigned steps = e->root.kind == MP_VALUE_PATH_STATE && e->depth > 0 ? 1 : 0;
  if (e->limit == MP_LIMIT_TEXT) {
    return refuse_with(e, MOONPAD_INVALID_ARGUMENT, steps, "takes more than 256 MiB as JSON");
  }
  char problem[120];
  bool is_value = e->kind == MP_ENCODE_VALUE || e->kind == MP_ENCODE_SHARED;
  snprintf(problem, sizeof problem, "more than %lld bytes, and %s is %lld", (long long)e->limit,
           is_value ? "maxValueBytes" : "maxEventBytes", (long long)e->limit);
  return refuse_with(e, MOONPAD_LIMIT, steps, problem);
}

const char *mp_encoder_verb(const mp_encoder *e) {
  return e->kind == MP_ENCODE_JSON || e->kind == MP_ENCODE_SHOWN_EVENT ? "encoded" : "stored";
}

moonpad_status mp_encoder_refuse_kind(const mp_encoder *e, unsigned steps, const char *what) {
  char problem[160];
  snprintf(problem, sizeof problem, "%s cannot be %s", what, mp_encoder_verb(e));
  return mp_encoder_refuse(e, steps, problem);
}

moonpad_status mp_encoder_refuse_depth(const mp_encoder *e) {
  char problem[80];
  snprintf(problem, sizeof problem, "nested deeper than %d levels", MOONPAD_MAX_DEPTH);
  return mp_encoder_refuse(e, e->depth, problem);
}
