/* The checks of state keys and of names, and trimming. */
#include "core/scope.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

moonpad_status mp_check_key(moonpad_string key, moonpad_error *error) {
  if (key.length > MOONPAD_MAX_KEY_BYTES) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state key %s: %zu bytes, at most %d are allowed",
                   mp_quote(key).text, key.length, MOONPAD_MAX_KEY_BYTES);
  }
  size_t valid = key.length == 0 ? 0 : mp_utf8_valid_prefix(key.data, key.length);
  if (valid != key.length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "state key %s: invalid UTF-8 at byte %zu", mp_quote(key).text,
                   valid + 1);
  }
  return MOONPAD_OK;
}

moonpad_status mp_check_name(const char *field, moonpad_string name, moonpad_error *error) {
  if (name.length == 0) return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: must not be empty", field);
  if (name.length > MOONPAD_MAX_NAME_BYTES) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: %zu bytes, at most %d are allowed", field, name.length,
                   MOONPAD_MAX_NAME_BYTES);
  }
  if (memchr(name.data, '\0', name.length) != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: a NUL byte is not allowed in %s", field, mp_quote(name).text);
  }
  size_t valid = mp_utf8_valid_prefix(name.data, name.length);
  if (valid != name.length) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "%s: invalid UTF-8 at byte %zu of %s", field, valid + 1,
                   mp_quote(name).text);
  }
  return MOONPAD_OK;
}

static bool is_ascii_space(char byte) {
  return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

moonpad_string mp_trim(moonpad_string text) {
  while (text.length > 0 && is_ascii_space(text.data[0])) {
    text.data++;
    text.length--;
  }
  while (text.length > 0 && is_ascii_space(text.data[text.length - 1])) text.length--;
  return text;
}
