/* Scopes of state keys (contract 1.1). */
#ifndef MP_CORE_SCOPE_H
#define MP_CORE_SCOPE_H

#include <string.h>

#include "moonpad.h"

typedef enum mp_scope { MP_SCOPE_SESSION = 0, MP_SCOPE_USER, MP_SCOPE_APP, MP_SCOPE_TEMP } mp_scope;
#define MP_STORED_SCOPES 3 /* the first three are kept by stores */

static inline mp_scope mp_scope_of(moonpad_string key) {
  if (key.length < 4) return MP_SCOPE_SESSION;
  if (memcmp(key.data, "app:", 4) == 0) return MP_SCOPE_APP;
  if (key.length == 4 || key.data[4] != ':') return MP_SCOPE_SESSION;
  if (memcmp(key.data, "user", 4) == 0) return MP_SCOPE_USER;
  return memcmp(key.data, "temp", 4) == 0 ? MP_SCOPE_TEMP : MP_SCOPE_SESSION;
}
/* "", "user:", "app:", "temp:". */
static inline moonpad_string mp_scope_prefix(mp_scope scope) {
  static const moonpad_string prefixes[] = {{"", 0}, {"user:", 5}, {"app:", 4}, {"temp:", 5}};
  return prefixes[scope];
}
/* The key without its scope's prefix. */
static inline moonpad_string mp_scope_strip(mp_scope scope, moonpad_string key) {
  if (scope == MP_SCOPE_SESSION || mp_scope_of(key) != scope) return key;
  size_t length = mp_scope_prefix(scope).length;
  return (moonpad_string){key.data + length, key.length - length};
}
/*
** The other way round. Where there is a prefix the text lies in `room`; the key is not longer
** than any may be.
*/
#define MP_PREFIXED_BYTES (MOONPAD_MAX_KEY_BYTES + 8)
static inline moonpad_string mp_scope_join(mp_scope scope, moonpad_string key, char room[MP_PREFIXED_BYTES]) {
  if (scope == MP_SCOPE_SESSION) return key;
  moonpad_string prefix = mp_scope_prefix(scope);
  memcpy(room, prefix.data, prefix.length);
  if (key.length != 0) memcpy(room + prefix.length, key.data, key.length);
  return (moonpad_string){room, prefix.length + key.length};
}
/* Valid UTF-8 of at most MOONPAD_MAX_KEY_BYTES? */
moonpad_status mp_check_key(moonpad_string key, moonpad_error *error);
/*
** A name (appName...): non-empty UTF-8 up to MOONPAD_MAX_NAME_BYTES without NUL. `field` is named
** in the message.
*/
moonpad_status mp_check_name(const char *field, moonpad_string name, moonpad_error *error);
/* Without ASCII blanks at both ends. */
moonpad_string mp_trim(moonpad_string text);

#endif
