/* Making, checking and writing values. */
#include "core/value.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"
#include "core/json_compact.h"
#include "core/json_trusted.h"
#include "core/json_write.h"

#define HEADER_BYTES offsetof(mp_value, bytes)

static mp_value *new_value(mp_env *env, moonpad_value as, size_t text_bytes) {
  if (text_bytes > SIZE_MAX - sizeof(mp_value)) return NULL;
  size_t size = HEADER_BYTES + text_bytes;
  mp_value *value = mp_allocate(env, size < sizeof *value ? sizeof *value : size);
  if (value == NULL) return NULL;
  atomic_init(&value->references, 1);
  value->as = as;
  return value;
}

static mp_value *new_text(mp_env *env, moonpad_type type, moonpad_string text) {
  moonpad_value as = moonpad_string_value(text);
  as.type = type;
  mp_value *value = new_value(env, as, text.length);
  if (value == NULL) return NULL;
  if (text.length != 0) memcpy(value->bytes, text.data, text.length);
  value->as.as.text.data = value->bytes;
  return value;
}

mp_value *mp_value_new_null(mp_env *env) {
  return new_value(env, moonpad_null_value(), 0);
}

mp_value *mp_value_new_boolean(mp_env *env, bool boolean) {
  return new_value(env, moonpad_boolean(boolean), 0);
}

mp_value *mp_value_new_integer(mp_env *env, int64_t integer) {
  return new_value(env, moonpad_integer(integer), 0);
}

mp_value *mp_value_new_float(mp_env *env, double number) {
  return new_value(env, moonpad_float(number), 0);
}

mp_value *mp_value_new_string(mp_env *env, moonpad_string text) {
  return new_text(env, MOONPAD_STRING, text);
}

mp_value *mp_value_new_json(mp_env *env, moonpad_type type, moonpad_string json) {
  return new_text(env, type, json);
}

/* ---- from JSON ---- */

static mp_value *string_from_literal(mp_env *env, moonpad_string literal) {
  moonpad_string text;
  mp_buffer characters;
  mp_buffer_init(&characters, env);
  mp_value *value =
      mp_literal_text(mp_literal_inside(literal), &characters, &text) ? mp_value_new_string(env, text) : NULL;
  mp_buffer_free(&characters);
  return value;
}

mp_value *mp_value_from_trusted_json(mp_env *env, moonpad_string json) {
  switch (json.data[0]) {
  case '{':
    return mp_value_new_json(env, MOONPAD_OBJECT, json);
  case '[':
    return mp_value_new_json(env, MOONPAD_ARRAY, json);
  case '"':
    return string_from_literal(env, json);
  case 't':
  case 'f':
    return mp_value_new_boolean(env, json.data[0] == 't');
  case 'n':
    return mp_value_new_null(env);
  default:
    return new_value(env, mp_json_trusted_number(json), 0);
  }
}

/*
** Turns the buffer, which begins with room for the header, into the value. Composites may be large:
** this way they are not copied.
*/
static mp_value *take_buffer(mp_buffer *buffer, moonpad_type type) {
  moonpad_value as = moonpad_string_value((moonpad_string){NULL, buffer->length - HEADER_BYTES});
  as.type = type;
  void *fitted = mp_resize(buffer->env, buffer->data, buffer->length);
  /* if shrinking fails, the larger block is used */
  mp_value *value = fitted != NULL ? fitted : (void *)buffer->data;
  atomic_init(&value->references, 1);
  value->as = as;
  value->as.as.text.data = value->bytes;
  mp_buffer_init(buffer, buffer->env);
  return value;
}

moonpad_status mp_value_parse(mp_env *env, moonpad_string json, const char *where, mp_value **value,
                              moonpad_error *error) {
  static const char header[HEADER_BYTES] = {0};
  mp_buffer compact;
  moonpad_type type;
  *value = NULL;
  mp_buffer_init(&compact, env);
  if (json.length <= SIZE_MAX - sizeof header) mp_buffer_room(&compact, sizeof header + json.length);
  mp_buffer_add(&compact, header, sizeof header);
  moonpad_status status = compact.failed ? mp_no_memory(error)
                                         : mp_json_compact(env, json, MOONPAD_MAX_DEPTH, where, &compact, &type, error);
  if (status == MOONPAD_OK) {
    moonpad_string text = {compact.data + sizeof header, compact.length - sizeof header};
    *value = mp_is_composite(type) ? take_buffer(&compact, type) : mp_value_from_trusted_json(env, text);
    if (*value == NULL) status = mp_no_memory(error);
  }
  mp_buffer_free(&compact);
  return status;
}

/* ---- from the caller ---- */

static moonpad_status invalid(const char *where, const char *problem, moonpad_error *error) {
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s%s%s", where == NULL ? "" : where, where == NULL ? "" : ": ",
                 problem);
}

static moonpad_status copy_composite(mp_env *env, moonpad_string json, const char *where, mp_value **value,
                                     moonpad_error *error) {
  moonpad_status status = mp_value_parse(env, json, where, value, error);
  if (status != MOONPAD_OK || mp_is_composite((*value)->as.type)) return status;
  mp_value_release(env, *value);
  *value = NULL;
  return invalid(where, "the JSON text is neither an array nor an object; give scalars as such", error);
}

static moonpad_status check_scalar(const moonpad_value *given, const char *where, moonpad_error *error) {
  switch (given->type) {
  case MOONPAD_NULL:
  case MOONPAD_BOOLEAN:
  case MOONPAD_INTEGER:
    return MOONPAD_OK;
  case MOONPAD_FLOAT:
    return isfinite(given->as.number) ? MOONPAD_OK : invalid(where, "NaN and infinities cannot be stored", error);
  case MOONPAD_STRING:
    break;
  case MOONPAD_ABSENT:
    return invalid(where, "there is no value; to delete a key, remove it", error);
  default:
    return invalid(where, "unknown type of value", error);
  }
  moonpad_string text = given->as.text;
  size_t valid = text.length == 0 ? 0 : mp_utf8_valid_prefix(text.data, text.length);
  if (valid == text.length) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s%sinvalid UTF-8 at byte %zu", where == NULL ? "" : where,
                 where == NULL ? "" : ": ", valid + 1);
}

moonpad_status mp_value_copy_in(mp_env *env, const moonpad_value *given, const char *where, mp_value **value,
                                moonpad_error *error) {
  *value = NULL;
  if (given == NULL) return invalid(where, "a value is needed, got NULL", error);
  if (mp_is_composite(given->type)) return copy_composite(env, given->as.text, where, value, error);
  moonpad_status status = check_scalar(given, where, error);
  if (status != MOONPAD_OK) return status;
  *value = given->type == MOONPAD_STRING ? mp_value_new_string(env, given->as.text) : new_value(env, *given, 0);
  return *value == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

/* ---- life and writing ---- */

void mp_value_write(mp_buffer *out, const mp_value *value) {
  mp_value_write_borrowed(out, &value->as);
}

void mp_value_write_member(mp_buffer *out, moonpad_string key, const mp_value *value) {
  mp_json_write_key(out, key);
  if (value != NULL) {
    mp_value_write(out, value);
  } else {
    mp_buffer_add_literal(out, "null");
  }
}

void mp_value_write_borrowed(mp_buffer *out, const moonpad_value *value) {
  switch (value->type) {
  case MOONPAD_BOOLEAN:
    if (value->as.boolean) {
      mp_buffer_add_literal(out, "true");
    } else {
      mp_buffer_add_literal(out, "false");
    }
    break;
  case MOONPAD_INTEGER:
    mp_json_write_integer(out, value->as.integer);
    break;
  case MOONPAD_FLOAT:
    mp_json_write_float(out, value->as.number);
    break;
  case MOONPAD_STRING:
    mp_json_write_string(out, value->as.text);
    break;
  case MOONPAD_ARRAY:
  case MOONPAD_OBJECT:
    mp_buffer_add_string(out, value->as.text);
    break;
  default:
    mp_buffer_add_literal(out, "null");
    break;
  }
}

const char *mp_type_name(moonpad_type type) {
  switch (type) {
  case MOONPAD_ABSENT:
    return "absent";
  case MOONPAD_NULL:
    return "null";
  case MOONPAD_BOOLEAN:
    return "a boolean";
  case MOONPAD_STRING:
    return "a string";
  case MOONPAD_ARRAY:
    return "an array";
  case MOONPAD_OBJECT:
    return "an object";
  default:
    return "a number";
  }
}

bool mp_value_fits_below(const mp_value *value, unsigned levels) {
  if (!mp_is_composite(value->as.type)) return true;
  unsigned allowed = levels < MOONPAD_MAX_DEPTH ? MOONPAD_MAX_DEPTH - levels : 0;
  /* Every level takes at least two bytes, so short texts fit without being read. */
  return value->as.as.text.length / 2 <= allowed || mp_json_trusted_shape(value->as.as.text).depth <= allowed;
}

size_t mp_value_size(const mp_value *value) {
  char number[MP_NUMBER_BYTES];
  switch (value->as.type) {
  case MOONPAD_BOOLEAN:
    return value->as.as.boolean ? 4 : 5;
  case MOONPAD_INTEGER:
    return mp_integer_length(value->as.as.integer);
  case MOONPAD_FLOAT:
    return mp_format_float(value->as.as.number, number);
  case MOONPAD_STRING:
    return value->as.as.text.length + 2;
  case MOONPAD_ARRAY:
  case MOONPAD_OBJECT:
    return value->as.as.text.length;
  default:
    return 4;
  }
}

bool mp_equal_values(const mp_value *a, const mp_value *b) {
  if (a == b) return true;
  if (a == NULL || b == NULL || a->as.type != b->as.type) return false;
  switch (a->as.type) {
  case MOONPAD_NULL:
    return true;
  case MOONPAD_BOOLEAN:
    return a->as.as.boolean == b->as.as.boolean;
  case MOONPAD_INTEGER:
    return a->as.as.integer == b->as.as.integer;
  case MOONPAD_FLOAT:
    return memcmp(&a->as.as.number, &b->as.as.number, sizeof(double)) == 0;
  default:
    return a->as.as.text.length == b->as.as.text.length &&
           memcmp(a->as.as.text.data, b->as.as.text.data, a->as.as.text.length) == 0;
  }
}
