/*
** An owned, counted, immutable value: a scalar, or the compact JSON text of an array or object. May
** be shared between threads.
*/
#ifndef MP_CORE_VALUE_H
#define MP_CORE_VALUE_H

#include <stdatomic.h>

#include "base/buffer.h"

typedef struct mp_value {
  atomic_uint references;
  moonpad_value as; /* its text, if it has one, is `bytes` */
  char bytes[];
} mp_value;

/* All give one reference to the caller; NULL when out of memory. */
mp_value *mp_value_new_null(mp_env *env);
mp_value *mp_value_new_boolean(mp_env *env, bool boolean);
mp_value *mp_value_new_integer(mp_env *env, int64_t integer);
mp_value *mp_value_new_float(mp_env *env, double number);
mp_value *mp_value_new_string(mp_env *env, moonpad_string text); /* valid UTF-8 */
mp_value *mp_value_new_json(mp_env *env, moonpad_type type,
                            /* compact JSON of an array or object, known to be valid */
                            moonpad_string json);

/*
** Parses any JSON text (one value, white space around it allowed), checks it strictly, makes it
** compact. `where` begins the message on failure ("state[\"cart\"]"), which names the byte; may
** be NULL.
*/
moonpad_status mp_value_parse(mp_env *env, moonpad_string json, const char *where, mp_value **value,
                              moonpad_error *error);
/*
** The same for text that this library wrote itself (compact and valid): no check. NULL when out
** of memory.
*/
mp_value *mp_value_from_trusted_json(mp_env *env, moonpad_string json);
/* Checks a caller's value (UTF-8, finite, JSON of the right kind) and copies it. */
moonpad_status mp_value_copy_in(mp_env *env, const moonpad_value *given, const char *where, mp_value **value,
                                moonpad_error *error);

/* Both accept NULL. */
static inline mp_value *mp_value_retain(mp_value *value) {
  if (value != NULL) atomic_fetch_add_explicit(&value->references, 1, memory_order_relaxed);
  return value;
}
/*
** Who holds the only reference shares it with nobody: an atomic subtraction, which costs as much as
** all else here, would tell it nothing new.
*/
static inline void mp_value_release(mp_env *env, mp_value *value) {
  if (value == NULL) return;
  if (atomic_load_explicit(&value->references, memory_order_acquire) == 1 ||
      atomic_fetch_sub_explicit(&value->references, 1, memory_order_acq_rel) == 1) {
    mp_release(env, value);
  }
}

/* As JSON, strings quoted. */
void mp_value_write(mp_buffer *out, const mp_value *value);
/* As a member, behind its key (mp_json_write_key). NULL: as null. */
void mp_value_write_member(mp_buffer *out, moonpad_string key, const mp_value *value);
void mp_value_write_borrowed(mp_buffer *out, const moonpad_value *value);
/* Bytes that it takes as JSON, roughly: what limits count. */
size_t mp_value_size(const mp_value *value);

/* For messages: "an array". */
const char *mp_type_name(moonpad_type type);
/*
** May it stand below so many levels? All that is stored is at most MOONPAD_MAX_DEPTH levels deep.
*/
bool mp_value_fits_below(const mp_value *value, unsigned levels);

/* Of a size that does not depend on the value. */
static inline bool mp_is_small_scalar(moonpad_type type) {
  return type == MOONPAD_NULL || type == MOONPAD_BOOLEAN || type == MOONPAD_INTEGER || type == MOONPAD_FLOAT;
}

static inline bool mp_is_composite(moonpad_type type) {
  return type == MOONPAD_ARRAY || type == MOONPAD_OBJECT;
}

#endif
