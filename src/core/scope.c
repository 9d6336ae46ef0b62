/* The check of state keys. */
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
