/*
** The session's own state after an earlier revision: the base state, and the deltas of events
** replayed over it.
*/
#ifndef MP_SERVICE_HISTORY_REPLAY_H
#define MP_SERVICE_HISTORY_REPLAY_H

#include "service/session/session.h"

#define MP_UNKNOWN INT64_C(-1) /* the revision of a wanted key whose value is not known yet */

typedef struct mp_replay {
  mp_entries state;           /* the last change of each key; a removed key has no value */
  size_t unknown;             /* how many wanted keys are MP_UNKNOWN */
  int64_t conversation_count; /* messages of the user among the events replayed forwards */
} mp_replay;

void mp_replay_init(mp_replay *replay, mp_env *env);
void mp_replay_clear(mp_replay *replay);
void mp_replay_free(mp_replay *replay);

/* Is the state after `revision` known? Errors: not_found (never reached, or trimmed). */
moonpad_status mp_replay_check(const mp_session_row *row, int64_t revision, moonpad_error *error);
/*
** Replays everything up to `revision`, from the base state forwards. Errors: those of
** mp_replay_check and of the store.
*/
moonpad_status mp_replay_to(mp_replay *replay, mp_tx *tx, const mp_session_ref *session, const mp_session_row *row,
                            int64_t revision, moonpad_error *error);
/*
** The same for some keys only: name each with mp_replay_want, then mp_replay_wanted_to reads
** backwards from `revision` until all are found. A key that was absent has no value then.
*/
moonpad_status mp_replay_want(mp_replay *replay, moonpad_string key, moonpad_error *error);
moonpad_status mp_replay_wanted_to(mp_replay *replay, mp_tx *tx, const mp_session_ref *session,
                                   const mp_session_row *row, int64_t revision, moonpad_error *error);
/* Takes in one key of the base state, or one event (`kinds`: MP_EVENT_...). */
moonpad_status mp_replay_base(mp_replay *replay, moonpad_string key, mp_value *value, moonpad_error *error);
moonpad_status mp_replay_event(mp_replay *replay, moonpad_string json, int64_t revision, unsigned kinds,
                               moonpad_error *error);

/* Sorts the state by key and writes it as an object. */
moonpad_status mp_replay_write(mp_replay *replay, mp_buffer *out, moonpad_error *error);

#endif
