/* Paths: their grammar, and reading the value at a path. */
#include "core/json_path.h"

#include "base/error.h"
#include "core/json_reader.h"
#include "core/value.h"

/* ---- the grammar ---- */

#define INDEX_DIGITS 18

/* At '['. False, with nothing consumed, unless an index follows. */
static bool take_index(moonpad_string *rest, mp_path_step *step) {
  size_t i = 1;
  int64_t index = 0;
  for (; i < rest->length && i <= INDEX_DIGITS && rest->data[i] >= '0' && rest->data[i] <= '9'; i++) {
    index = index * 10 + (rest->data[i] - '0');
  }
  if (index == 0 || i >= rest->length || rest->data[i] != ']') return false;
  step->is_index = true;
  step->index = index;
  step->name.data = NULL;
  step->name.length = 0;
  rest->data += i + 1;
  rest->length -= i + 1;
  return true;
}

bool mp_path_next(mp_path *path, bool first, mp_path_step *step) {
  moonpad_string *rest = &path->rest;
  if (rest->length == 0) return false;
  if (rest->data[0] == '[') return take_index(rest, step);
  size_t begin = first ? 0 : 1;
  if (!first && rest->data[0] != '.') return false;
  size_t end = begin;
  while (end < rest->length && rest->data[end] != '.' && rest->data[end] != '[' && rest->data[end] != ']') end++;
  if (end == begin || (end < rest->length && rest->data[end] == ']')) return false;
  step->is_index = false;
  step->index = 0;
  step->name.data = rest->data + begin;
  step->name.length = end - begin;
  rest->data += end;
  rest->length -= end;
  return true;
}

moonpad_status mp_check_path(moonpad_string path, moonpad_error *error) {
  mp_path rest = {path};
  mp_path_step step;
  bool first = true;
  while (mp_path_next(&rest, first, &step)) first = false;
  if (rest.rest.length == 0) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                 "path %s: malformed at byte %zu; join names with dots and put indices (from 1) into brackets, as in "
                 "items[2].name",
                 mp_quote(path).text, path.length - rest.rest.length + 1);
}

/*
** All three return the token that begins the value, MP_JSON_END if there is no such value, or
** MP_JSON_ERROR.
*/
static mp_json_token go_to_member(mp_json_reader *reader, mp_json_token at, moonpad_string name) {
  if (at != MP_JSON_OBJECT_BEGIN) return MP_JSON_END;
  for (;;) {
    mp_json_token token = mp_json_next(reader);
    if (token == MP_JSON_ERROR) return token;
    if (token == MP_JSON_OBJECT_END) return MP_JSON_END;
    bool found = reader->string.length == name.length &&
                 (name.length == 0 || memcmp(reader->string.data, name.data, name.length) == 0);
    token = mp_json_next(reader);
    if (found || token == MP_JSON_ERROR) return token;
    if (!mp_json_skip(reader, token)) return MP_JSON_ERROR;
  }
}

static mp_json_token go_to_item(mp_json_reader *reader, mp_json_token at, int64_t index) {
  if (at != MP_JSON_ARRAY_BEGIN || index < 1) return MP_JSON_END;
  for (int64_t i = 1;; i++) {
    mp_json_token token = mp_json_next(reader);
    if (token == MP_JSON_ERROR) return token;
    if (token == MP_JSON_ARRAY_END) return MP_JSON_END;
    if (i == index) return token;
    if (!mp_json_skip(reader, token)) return MP_JSON_ERROR;
  }
}

static mp_json_token go_to_path(mp_json_reader *reader, moonpad_string path) {
  mp_path rest = {path};
  mp_path_step step;
  mp_json_token token = mp_json_next(reader);
  for (bool first = true; token != MP_JSON_ERROR && mp_path_next(&rest, first, &step); first = false) {
    token = step.is_index ? go_to_item(reader, token, step.index) : go_to_member(reader, token, step.name);
    if (token == MP_JSON_END) break;
  }
  return token;
}

/*
** A string with escapes was decoded into the reader's own memory: it is copied to `scratch`,
** because the reader is freed. Others are borrowed from the text.
*/
static moonpad_string keep_string(const mp_json_reader *reader, mp_buffer *scratch) {
  moonpad_string string = reader->string;
  if (string.length == 0) return moonpad_text(NULL);
  uintptr_t begin = (uintptr_t)reader->text, at = (uintptr_t)string.data;
  if (at >= begin && at < begin + reader->length) return string;
  mp_buffer_add_string(scratch, string);
  return mp_buffer_text(scratch);
}

static bool take_composite(mp_json_reader *reader, mp_json_token token, moonpad_value *value) {
  size_t begin = reader->token_position;
  if (!mp_json_skip(reader, token)) return false;
  value->type = token == MP_JSON_OBJECT_BEGIN ? MOONPAD_OBJECT : MOONPAD_ARRAY;
  value->as.text.data = reader->text + begin;
  value->as.text.length = reader->position - begin;
  return true;
}

/* False on malformed JSON. */
static bool take_value(mp_json_reader *reader, mp_json_token token, mp_buffer *scratch, moonpad_value *value) {
  switch (token) {
  case MP_JSON_OBJECT_BEGIN:
  case MP_JSON_ARRAY_BEGIN:
    return take_composite(reader, token, value);
  case MP_JSON_STRING:
    *value = moonpad_string_value(keep_string(reader, scratch));
    return true;
  case MP_JSON_INTEGER:
    *value = moonpad_integer(reader->integer);
    return true;
  case MP_JSON_FLOAT:
    *value = moonpad_float(reader->number);
    return true;
  case MP_JSON_TRUE:
  case MP_JSON_FALSE:
    *value = moonpad_boolean(token == MP_JSON_TRUE);
    return true;
  case MP_JSON_NULL:
    *value = moonpad_null_value();
    return true;
  case MP_JSON_END:
    /* There is no such value: it stays ABSENT. */
    return true;
  default:
    return false;
  }
}

static moonpad_status read_path(mp_env *env, moonpad_string json, moonpad_string path, mp_buffer *scratch,
                                moonpad_value *value, moonpad_error *error) {
  mp_json_reader reader;
  moonpad_value taken = moonpad_null_value();
  taken.type = MOONPAD_ABSENT;
  mp_json_reader_init(&reader, env, json, MP_JSON_DEPTH_LIMIT);
  bool valid = take_value(&reader, go_to_path(&reader, path), scratch, &taken);
  /* Asked for the whole text, nothing may follow the value. */
  if (valid && path.length == 0) valid = mp_json_next(&reader) == MP_JSON_END;
  moonpad_status status = valid ? MOONPAD_OK : mp_json_fail(&reader, "JSON", error);
  mp_json_reader_free(&reader);
  if (status == MOONPAD_OK && scratch->failed) status = mp_no_memory(error);
  if (status == MOONPAD_OK) *value = taken;
  return status;
}

static moonpad_value absent_value(void) {
  moonpad_value value = moonpad_null_value();
  value.type = MOONPAD_ABSENT;
  return value;
}

moonpad_status mp_json_get(mp_env *env, const moonpad_value *root, moonpad_string path, mp_buffer *scratch,
                           moonpad_value *value, moonpad_error *error) {
  /* `value` may be the same variable. */
  moonpad_value from = *root;
  *value = absent_value();
  mp_buffer_clear(scratch);
  moonpad_status status = mp_check_path(path, error);
  if (status != MOONPAD_OK) return status;
  if (path.length == 0) {
    *value = from;
    return MOONPAD_OK;
  }
  if (!mp_is_composite(from.type)) return MOONPAD_OK;
  return read_path(env, from.as.text, path, scratch, value, error);
}

static moonpad_status read_with_env(mp_env *env, moonpad_string json, moonpad_string path, moonpad_buffer *scratch,
                                    moonpad_value *value, moonpad_error *error) {
  mp_buffer unescaped;
  moonpad_value taken;
  mp_buffer_init(&unescaped, env);
  moonpad_status status = read_path(env, json, path, &unescaped, &taken, error);
  if (status == MOONPAD_OK && unescaped.length != 0 && scratch == NULL) {
    status = mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                     "JSON: the string has escapes, and there is no scratch to put it into");
  } else if (status == MOONPAD_OK && unescaped.length != 0) {
    moonpad_buffer moved;
    status = mp_buffer_hand_over(&unescaped, &moved, error);
    if (status == MOONPAD_OK) {
      /* Only now, because `json` may have been borrowed from *scratch. */
      moonpad_buffer_free(scratch);
      *scratch = moved;
      taken.as.text.data = moved.data;
    }
  }
  mp_buffer_free(&unescaped);
  if (status == MOONPAD_OK) *value = taken;
  return status;
}

moonpad_status moonpad_json_read(moonpad_string json, moonpad_string path, moonpad_buffer *scratch,
                                 moonpad_value *value, moonpad_error *error) {
  *value = absent_value();
  moonpad_status status = mp_check_path(path, error);
  if (status != MOONPAD_OK) return status;
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return mp_no_memory(error);
  status = read_with_env(env, json, path, scratch, value, error);
  mp_env_release(env);
  return status;
}
