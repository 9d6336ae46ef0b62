/*
** Scopes of state keys (contract 1.1), and the check of keys. temp: is never stored: an append
** shows it in the session object only (append/prepare.c, set_temp_aside), a new session drops it
** (session/create.c), an import refuses it (history/import.c).
*/
#ifndef MP_CORE_SCOPE_H
#define MP_CORE_SCOPE_H

#include <string.h>

#include "moonpad.h"

typedef enum mp_scope { MP_SCOPE_SESSION = 0, MP_SCOPE_USER, MP_SCOPE_APP, MP_SCOPE_TEMP } mp_scope;
#define MP_STORED_SCOPES 3 /* stores keep the first three */

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
/* The key without the prefix of this scope. */
static inline moonpad_string mp_scope_strip(mp_scope scope, moonpad_string key) {
  if (scope == MP_SCOPE_SESSION || mp_scope_of(key) != scope) return key;
  size_t length = mp_scope_prefix(scope).length;
  return (moonpad_string){key.data + length, key.length - length};
}
/*
** The key with the prefix of this scope. The result is borrowed from `room`, or from `key` if the
** prefix is empty. `key` has at most MOONPAD_MAX_KEY_BYTES.
*/
#define MP_PREFIXED_BYTES (MOONPAD_MAX_KEY_BYTES + 8)
static inline moonpad_string mp_scope_join(mp_scope scope, moonpad_string key, char room[MP_PREFIXED_BYTES]) {
  if (scope == MP_SCOPE_SESSION) return key;
  moonpad_string prefix = mp_scope_prefix(scope);
  memcpy(room, prefix.data, prefix.length);
  if (key.length != 0) memcpy(room + prefix.length, key.data, key.length);
  return (moonpad_string){room, prefix.length + key.length};
}
/* A state key: UTF-8 of at most MOONPAD_MAX_KEY_BYTES. Errors: invalid_argument. */
moonpad_status mp_check_key(moonpad_string key, moonpad_error *error);

#endif
