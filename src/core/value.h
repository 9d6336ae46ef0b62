/*
** src/core: pure data. Values, the text of events, state keys, JSON, templates, trees and patches.
** Belongs here: what can be computed from arguments alone, with memory from the env.
** Does not belong here: files, stores, threads, sessions, Lua.
** Arrows: core includes base and moonpad.h, nothing else. Service, stores and src/lua include core.
** Inside, each uses those before it: digest, scope; json_*; value; operations, entries and tree;
** json_path; event and patch; template.
**
** This file: an owned, reference-counted, immutable value: a scalar, or the compact JSON text of an
** array or object. May be shared between threads.
*/
#ifndef MP_CORE_VALUE_H
#define MP_CORE_VALUE_H

#include <stdatomic.h>

#include "base/buffer.h"

typedef struct mp_value {
  atomic_uint references;
  moonpad_value as; /* text, if any, points to `bytes` */
  char bytes[];
} mp_value;

/* Each returns one reference for the caller, or NULL when out of memory. */
mp_value *mp_value_new_null(mp_env *env);
mp_value *mp_value_new_boolean(mp_env *env, bool boolean);
mp_value *mp_value_new_integer(mp_env *env, int64_t integer);
mp_value *mp_value_new_float(mp_env *env, double number);
mp_value *mp_value_new_string(mp_env *env, moonpad_string text); /* valid UTF-8 */
/* `json` is trusted JSON of an array or object, copied as it is. */
mp_value *mp_value_new_json(mp_env *env, moonpad_type type, moonpad_string json);

/*
** Parses any JSON text (one value, white space around it allowed), checks it strictly and stores it
** compact. `where` (may be NULL) begins the message on failure, as in state["cart"]. Errors:
** invalid_argument naming the byte, no_memory.
*/
moonpad_status mp_value_parse(mp_env *env, moonpad_string json, const char *where, mp_value **value,
                              moonpad_error *error);
/* The value of trusted JSON (core/json_trusted.h), unchecked. NULL when out of memory. */
mp_value *mp_value_from_trusted_json(mp_env *env, moonpad_string json);
/* Checks a caller's value (UTF-8, finite, JSON of the right type) and copies it. */
moonpad_status mp_value_copy_in(mp_env *env, const moonpad_value *given, const char *where, mp_value **value,
                                moonpad_error *error);

/* Both accept NULL. */
static inline mp_value *mp_value_retain(mp_value *value) {
  if (value != NULL) atomic_fetch_add_explicit(&value->references, 1, memory_order_relaxed);
  return value;
}
/*
** A count of 1 means that no other thread has a reference. Then the atomic subtraction, which costs
** as much as the rest, is not needed.
*/
static inline void mp_value_release(mp_env *env, mp_value *value) {
  if (value == NULL) return;
  if (atomic_load_explicit(&value->references, memory_order_acquire) == 1 ||
      atomic_fetch_sub_explicit(&value->references, 1, memory_order_acq_rel) == 1) {
    mp_release(env, value);
  }
}

/* Appends the value as JSON. */
void mp_value_write(mp_buffer *out, const mp_value *value);
/* Appends key and value as a member (mp_json_write_key). A NULL `value` is written as null. */
void mp_value_write_member(mp_buffer *out, moonpad_string key, const mp_value *value);
void mp_value_write_borrowed(mp_buffer *out, const moonpad_value *value);
/* About how many bytes the value takes as JSON. Limits of state count these. */
size_t mp_value_size(const mp_value *value);

/* The same type and content; NULL equals NULL only. Composites are compared as text. */
bool mp_equal_values(const mp_value *a, const mp_value *b);

/* The type with its article, for messages: "an array". */
const char *mp_type_name(moonpad_type type);
/* Is the value still within MOONPAD_MAX_DEPTH when `levels` containers are around it? */
bool mp_value_fits_below(const mp_value *value, unsigned levels);

/* Is it a scalar whose size does not depend on the value? */
static inline bool mp_is_small_scalar(moonpad_type type) {
  return type == MOONPAD_NULL || type == MOONPAD_BOOLEAN || type == MOONPAD_INTEGER || type == MOONPAD_FLOAT;
}

static inline bool mp_is_composite(moonpad_type type) {
  return type == MOONPAD_ARRAY || type == MOONPAD_OBJECT;
}

#endif
