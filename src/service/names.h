/* The names of apps, users and sessions: checked, made, and in messages (contract 2). */
#ifndef MP_SERVICE_NAMES_H
#define MP_SERVICE_NAMES_H

#include "base/uuid.h"

/*
** A name (appName, userId, ...): non-empty UTF-8 of at most MOONPAD_MAX_NAME_BYTES without NUL.
** Errors: invalid_argument naming `field`.
*/
moonpad_status mp_check_name(const char *field, moonpad_string name, moonpad_error *error);
/* Checks the three names of a session; the id is trimmed. */
moonpad_status mp_check_session_name(const moonpad_session_name *given, moonpad_session_name *name,
                                     moonpad_error *error);
/* The same of a session to be made, whose id may be empty: then one is made, a UUID in `id`. */
moonpad_status mp_name_new_session(mp_env *env, const moonpad_session_name *given, char id[MP_UUID_BYTES],
                                   moonpad_session_name *name, moonpad_error *error);

/* "session "S" of user "U" in app "A"", for messages. */
typedef struct mp_session_label {
  char text[900];
} mp_session_label;
mp_session_label mp_label(const moonpad_session_name *name);
/* Errors `already_exists` and `not_found` of that session. */
moonpad_status mp_fail_exists(const moonpad_session_name *name, moonpad_error *error);
moonpad_status mp_fail_not_found(const moonpad_session_name *name, moonpad_error *error);

#endif
