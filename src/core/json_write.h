/* Writing JSON values to a buffer. */
#ifndef MP_CORE_JSON_WRITE_H
#define MP_CORE_JSON_WRITE_H

#include "base/buffer.h"

/* `text` is valid UTF-8. Escapes ", \ and U+0000 to U+001F only. */
void mp_json_write_string(mp_buffer *out, moonpad_string text);
void mp_json_write_integer(mp_buffer *out, int64_t integer);
/* A finite number. */
void mp_json_write_float(mp_buffer *out, double number);
/*
** Key and colon of the next member of the object that `out` ends in. A comma comes first, unless
** `out` is empty or ends with '{'.
*/
static inline void mp_json_write_key(mp_buffer *out, moonpad_string key) {
  if (out->length != 0 && out->data[out->length - 1] != '{') mp_buffer_add_char(out, ',');
  mp_json_write_string(out, key);
  mp_buffer_add_char(out, ':');
}

#endif
