/* Session-scope state as it was: the base state and the deltas of events replayed over it. */
#ifndef MP_SERVICE_HISTORY_REPLAY_H
#define MP_SERVICE_HISTORY_REPLAY_H

#include "service/session/session.h"

#define MP_UNKNOWN INT64_C(-1) /* the revision of a key whose value has not been found yet */

typedef struct mp_replay {
  mp_entries state;           /* of each key the last change; no value: removed */
  size_t unknown;             /* keys whose value is still looked for */
  int64_t conversation_count; /* of mp_replay_event alone */
} mp_replay;

void mp_replay_init(mp_replay *replay, mp_env *env);
void mp_replay_clear(mp_replay *replay);
void mp_replay_free(mp_replay *replay);

/* Is the state after `revision` stored? Errors: not_found. */
moonpad_status mp_replay_check(const mp_session_row *row, int64_t revision, moonpad_error *error);
/*
** The state after `revision`, and the messages of the user until then. Errors: not_found when that
** is not stored.
*/
moonpad_status mp_replay_to(mp_replay *replay, mp_tx *tx, const mp_session_ref *session, const mp_session_row *row,
                            int64_t revision, moonpad_error *error);
/*
** The same of a few keys only, which mp_replay_want has named: reads back from there until all
** are found. Of a key that was absent the value is NULL then.
*/
moonpad_status mp_replay_want(mp_replay *replay, moonpad_string key, moonpad_error *error);
moonpad_status mp_replay_wanted_to(mp_replay *replay, mp_tx *tx, const mp_session_ref *session,
                                   const mp_session_row *row, int64_t revision, moonpad_error *error);
/* One base key, one event. */
moonpad_status mp_replay_base(mp_replay *replay, moonpad_string key, mp_value *value, moonpad_error *error);
moonpad_status mp_replay_event(mp_replay *replay, moonpad_string json, int64_t revision, unsigned kinds,
                               moonpad_error *error);

/* Sorts the state and writes it as an object. */
moonpad_status mp_replay_write(mp_replay *replay, mp_buffer *out, moonpad_error *error);

#endif
