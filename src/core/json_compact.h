/* Turns any valid JSON text into its canonical form: compact, one spelling, no duplicate keys. */
#ifndef MP_CORE_JSON_COMPACT_H
#define MP_CORE_JSON_COMPACT_H

#include "base/buffer.h"

/*
** Checks `text` strictly (one value, no duplicate keys) and appends its canonical form to `out`.
** *type is the type of the value. `where` (may be NULL) begins the message on failure; `out` then
** keeps the length it had. Errors: invalid_argument naming the byte, no_memory.
*/
moonpad_status mp_json_compact(mp_env *env, moonpad_string text, unsigned max_depth, const char *where, mp_buffer *out,
                               moonpad_type *type, moonpad_error *error);

#endif
