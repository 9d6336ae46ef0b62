/* Writing JSON: strings with their escapes, and numbers. */
#include "core/json_write.h"

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"
#include "core/json_lex.h"

static const char hex_digits[] = "0123456789abcdef";

/* Writes the escape of a special byte; returns its length. */
static size_t write_escape(char out[6], unsigned char byte) {
  static const char letters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
  const char *letter = byte == 0 ? NULL : strchr(letters, byte);
  out[0] = '\\';
  if (letter != NULL) {
    out[1] = names[letter - letters];
    return 2;
  }
  memcpy(out + 1, "u00", 3);
  out[4] = hex_digits[byte >> 4];
  out[5] = hex_digits[byte & 15];
  return 6;
}

void mp_json_write_string(mp_buffer *out, moonpad_string text) {
  if (text.length > SIZE_MAX - 2 || !mp_buffer_room(out, text.length + 2)) {
    out->failed = true;
    return;
  }
  mp_buffer_add_char(out, '"');
  size_t begin = 0;
  uint64_t ignored = 0;
  while (text.length != 0) {
    size_t end = mp_json_plain_end(text.data, begin, text.length, &ignored);
    mp_buffer_add(out, text.data + begin, end - begin);
    if (end == text.length) break;
    char escape[6];
    mp_buffer_add(out, escape, write_escape(escape, (unsigned char)text.data[end]));
    begin = end + 1;
  }
  mp_buffer_add_char(out, '"');
}

moonpad_status moonpad_json_string(moonpad_string text, moonpad_buffer *json, moonpad_error *error) {
  memset(json, 0, sizeof *json);
  size_t valid = text.length == 0 ? 0 : mp_utf8_valid_prefix(text.data, text.length);
  if (valid < text.length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "text: invalid UTF-8 at byte %zu", valid + 1);
  }
  mp_env *env = mp_env_new(NULL);
  if (env == NULL) return mp_no_memory(error);
  mp_buffer out;
  mp_buffer_init(&out, env);
  mp_json_write_string(&out, text);
  moonpad_status status = mp_buffer_hand_over(&out, json, error);
  mp_buffer_free(&out);
  mp_env_release(env);
  return status;
}

void mp_json_write_integer(mp_buffer *out, int64_t integer) {
  if (mp_buffer_room(out, MP_NUMBER_BYTES)) out->length += mp_format_integer(integer, out->data + out->length);
}

void mp_json_write_float(mp_buffer *out, double number) {
  if (mp_buffer_room(out, MP_NUMBER_BYTES)) out->length += mp_format_float(number, out->data + out->length);
}
