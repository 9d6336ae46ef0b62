/*
** An append as the service has decided it in sight of what a session object holds: guarded
** operations, and the event's text in pieces. A store carries it out by comparing numbers and
** joining texts; it parses no JSON. What is not that simple it refuses, and the service decides
** again, by the same rules, under the store's lock (mp_store_ops.write).
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

#define MP_UNGUARDED INT64_C(-1)

typedef struct mp_guarded {
  mp_guarded_kind kind;
  mp_scope scope;
  moonpad_string key; /* without prefix */
  /* SET: the value; ADD: an integer; EXTEND: an array with at least one item; borrowed */
  mp_value *value;
  int64_t base;     /* or MP_UNGUARDED: see MP_OUTCOME_REFUSED */
  mp_value *result; /* found: of ADD and EXTEND one reference for the caller; else NULL */
} mp_guarded;

#define MP_NO_RESULT SIZE_MAX

/* Text that comes after the result of an ADD or EXTEND. */
typedef struct mp_piece {
  size_t after; /* the operation; MP_NO_RESULT: nothing comes before */
  moonpad_string text;
} mp_piece;

typedef enum mp_outcome {
  MP_OUTCOME_NOT_TRIED,
  MP_OUTCOME_STORED,
  /*
  ** Decide under `write`: a guard is broken (the key's row, tombstone or not, is newer than its
  ** base, or there is no row and the base lies before what the head has forgotten), a sum is no
  ** integer of 64 bits, there is no array to extend, a result or the event is too long, a head was
  ** last used too long ago, has counted to its end, or has not come as far as what is held.
  */
  MP_OUTCOME_REFUSED,
  /*
  ** The event's id is there already: decide under `write`. Of a store that sent the plan
  ** twice because an answer was lost, or that could not hand over what it found, it may be this
  ** very event.
  */
  MP_OUTCOME_DUPLICATE,
  MP_OUTCOME_MISSING /* no such session */
} mp_outcome;

typedef struct mp_plan {
  mp_session_ref ref;
  int64_t held[MP_STORED_SCOPES]; /* revisions that the session object has */
  mp_guarded *operations;         /* of a key one at most */
  size_t count;
  mp_event_row event; /* without revision and JSON */
  const mp_piece *pieces;
  size_t piece_count;      /* at least one */
  bool id_given;           /* the event's id may be there already */
  int64_t max_value_bytes; /* of a result; 0: no limit */
  int64_t max_event_bytes; /* 0: no limit */
  double touched;          /* as in mp_batch */
  /* Refused when the head was last used before; where that is not known, it does not expire. */
  double touched_since[MP_STORED_SCOPES];
  /*
  ** What others have changed since `held`, this plan's own keys too, as it was before this plan.
  ** It counts only when the plan is stored. `begin` comes before each attempt: what was given
  ** before does not count any more. Neither calls the store.
  */
  void (*begin)(void *context);
  mp_each_state each_state;
  void *context;

  /* found */
  mp_outcome outcome;
  mp_facts facts; /* of MP_OUTCOME_STORED only; the row as it became */
} mp_plan;

/*
** Carries out one plan in a transaction that writes: for a store whose transactions are cheap,
** and as the measure of others. A plan that is not stored has written nothing. On failure the
** transaction is to be undone.
*/
moonpad_status mp_plan_run(mp_tx *tx, mp_env *env, mp_plan *plan, moonpad_error *error);
/* All that was found is forgotten; the results are given back. */
void mp_plan_forget(mp_env *env, mp_plan *plan);

#endif
