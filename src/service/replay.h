/* Session-scope state as it was: the base state and the deltas of events replayed over it. */
#ifndef MP_SERVICE_REPLAY_H
#define MP_SERVICE_REPLAY_H

#include "base/map.h"
#include "service/session.h"

typedef struct mp_replayed {
  mp_key *key;      /* without prefix: session scope has none */
  mp_value *value;  /* NULL: removed */
  int64_t revision; /* of the last change */
} mp_replayed;

typedef struct mp_replay {
  mp_env *env;
  mp_map map; /* key -> mp_replayed */
  int64_t conversation_count;
  double last_timestamp;
} mp_replay;

void mp_replay_init(mp_replay *replay, mp_env *env);
void mp_replay_clear(mp_replay *replay);
void mp_replay_free(mp_replay *replay);

/* The state after `revision`. Errors: not_found when that is not stored. */
moonpad_status mp_replay_to(mp_replay *replay, mp_tx *tx, const mp_session_row *row, int64_t revision,
                            moonpad_error *error);
/* One base key, one event. */
moonpad_status mp_replay_base(mp_replay *replay, moonpad_string key, mp_value *value, moonpad_error *error);
moonpad_status mp_replay_event(mp_replay *replay, moonpad_string json, int64_t revision, double timestamp,
                               moonpad_error *error);

/* Entries sorted by key, removed ones left out; the caller frees the array. */
moonpad_status mp_replay_sorted(const mp_replay *replay, mp_replayed ***list, size_t *count, moonpad_error *error);
moonpad_status mp_replay_write(const mp_replay *replay, mp_buffer *out, moonpad_error *error);

/* Stores a session whose state was replayed: its keys with their revisions. */
moonpad_status mp_replay_store(const mp_replay *replay, mp_tx *tx, int64_t session, moonpad_error *error);

#endif
