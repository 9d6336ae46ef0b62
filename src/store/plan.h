/*
** A plan is an append that the service has decided from the snapshot of a session object: guarded
** operations (compare-and-set), and the text of the event in spans. A store carries it out by
** comparing revisions and joining texts; it parses no JSON. Anything less simple it refuses. Then
** the service decides again, by the same rules, in a transaction of the store (mp_store_ops.write).
** The stores in memory and on SQLite take no plans: for them a transaction costs no round trip.
*/
#ifndef MP_STORE_PLAN_H
#define MP_STORE_PLAN_H

#include "base/buffer.h"
#include "store/store.h"

typedef enum mp_guarded_kind {
  MP_GUARDED_SET,
  MP_GUARDED_REMOVE,
  MP_GUARDED_ADD,   /* adds an integer to an integer; absent counts as 0 */
  MP_GUARDED_EXTEND /* adds items to an array; absent, [] and {} count as empty */
} mp_guarded_kind;

#define MP_UNGUARDED INT64_C(-1) /* a base: whatever is stored, the operation is carried out */

/* One key's change, and the revision that the key must not have passed. */
typedef struct mp_guarded {
  mp_guarded_kind kind;
  mp_scope scope;
  moonpad_string key; /* without prefix */
  /* SET: the value; ADD: an integer; EXTEND: an array with at least one item. Borrowed. */
  mp_value *value;
  /* The guard holds while the key has not changed after this revision. Or MP_UNGUARDED. */
  int64_t base;
  /* Found: the new value after ADD or EXTEND, one reference for the caller; otherwise NULL. */
  mp_value *result;
} mp_guarded;

#define MP_NO_RESULT SIZE_MAX

/* A part of the event's text: the result of an ADD or EXTEND, if any, and the text behind it. */
typedef struct mp_plan_span {
  size_t after; /* the index of the operation; MP_NO_RESULT: the text alone */
  moonpad_string text;
} mp_plan_span;

typedef enum mp_plan_outcome {
  MP_OUTCOME_NOT_TRIED,
  MP_OUTCOME_STORED,
  /*
  ** To be decided in a transaction (`write`). A guard does not hold: the key's row, tombstone or
  ** not, is newer than its base; or there is no row, and tombstones newer than the base may have
  ** been purged. Or a sum does not fit 64 bits, there is no array to extend, or a result or the
  ** event is too long. Or a head has expired, cannot be counted up any more, or is behind the
  ** snapshot. Or the session would have too many events.
  */
  MP_OUTCOME_REFUSED,
  /*
  ** To be decided in a transaction, because an event with this id is stored. It may be this very
  ** event: if the store sent the plan twice, since an answer was lost, or could not return what it
  ** had found.
  */
  MP_OUTCOME_DUPLICATE,
  MP_OUTCOME_MISSING /* no such session */
} mp_plan_outcome;

typedef struct mp_plan {
  mp_session_ref ref;
  int64_t snapshot[MP_STORED_SCOPES]; /* revisions that the session object shows */
  mp_guarded *operations;             /* at most one per key */
  size_t count;
  mp_event_row event; /* without revision and JSON */
  const mp_plan_span *spans;
  size_t span_count;       /* at least one */
  bool id_given;           /* the caller gave the event's id, so it may be stored already */
  int64_t max_value_bytes; /* of a result; 0: no limit */
  int64_t max_event_bytes; /* 0: no limit */
  int64_t max_events;      /* of the session, with this one; 0: no limit */
  double touched;          /* as in mp_batch */
  /* Refused if the head was last used before this time: it has expired. Unknown: it has not. */
  double touched_since[MP_STORED_SCOPES];
  /*
  ** each_state receives what others have changed since `snapshot`, as it was before this plan, its
  ** own keys included. It is valid only if the plan is stored. `begin` (may be NULL) comes before
  ** each attempt and makes what an earlier one gave void. Neither may call the store.
  */
  void (*begin)(void *context);
  mp_each_state each_state;
  void *context;

  /* found */
  /* Another code than MOONPAD_OK: it has failed, and has no outcome. */
  moonpad_error error;
  mp_plan_outcome outcome;
  mp_facts facts; /* if MP_OUTCOME_STORED; the row as it is stored now */
  /* It is stored, but there was no memory to tell each_state all that others have changed. */
  bool lacks_changes;
} mp_plan;

/*
** Carries out one plan inside a transaction of `write`: for a store whose transactions are cheap. A
** store that does it another way must find the same. A plan that is not stored has written nothing.
** On failure the caller must roll back.
*/
moonpad_status mp_plan_run(mp_tx *tx, mp_env *env, mp_plan *plan, moonpad_error *error);
/* Clears all that was found, a failure too, and releases the results. */
void mp_plan_forget(mp_env *env, mp_plan *plan);

#endif
