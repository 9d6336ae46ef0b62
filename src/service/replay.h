/* Session-scope state as it was: the base state and the deltas of events replayed over it. */
#ifndef MP_SERVICE_REPLAY_H
#define MP_SERVICE_REPLAY_H

#include "base/map.h"
#include "service/session.h"

typedef struct mp_replayed {
  mp_key *key;      /* without prefix: session scope has none */
  mp_value *value;  /* NULL: removed */
  int64_t revision; /* of the last change; MP_UNKNOWN: not found yet */
} mp_replayed;

#define MP_UNKNOWN INT64_C(-1)

typedef struct mp_replay {
  mp_env *env;
  mp_map map;                 /* key -> mp_replayed */
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
moonpad_status mp_replay_to(mp_replay *replay, mp_tx *tx, const mp_place *session, const mp_session_row *row,
                            int64_t revision, moonpad_error *error);
/*
** The same of a few keys only, which mp_replay_want has named: reads back from there until all are found. Of a key that
** was absent the value is NULL then.
*/
moonpad_status mp_replay_want(mp_replay *replay, moonpad_string key, moonpad_error *error);
moonpad_status mp_replay_wanted_to(mp_replay *replay, mp_tx *tx, const mp_place *session, const mp_session_row *row,
                                   int64_t revision, moonpad_error *error);
/* One base key, one event. */
moonpad_status mp_replay_base(mp_replay *replay, moonpad_string key, mp_value *value, moonpad_error *error);
moonpad_status mp_replay_event(mp_replay *replay, moonpad_string json, int64_t revision, unsigned kinds,
                               moonpad_error *error);

/* Entries sorted by key, removed ones left out; the caller frees the array. */
moonpad_status mp_replay_sorted(const mp_replay *replay, mp_replayed ***list, size_t *count, moonpad_error *error);
moonpad_status mp_replay_write(const mp_replay *replay, mp_buffer *out, moonpad_error *error);

/*
** Lists what a store has to write: current keys with their revisions, or base keys. The caller
** frees the array.
*/
moonpad_status mp_replay_writes(const mp_replay *replay, mp_key_write **writes, size_t *count, moonpad_error *error);

#endif
