/*
** The memory store, and the log of the transaction under way: how to undo each of its steps.
** Every step reserves what it needs, its place in the log included, before it changes anything, so
** undoing cannot fail.
*/
#ifndef MP_STORE_MEMORY_LOG_H
#define MP_STORE_MEMORY_LOG_H

#include <pthread.h>

#include "store/memory/data.h"
#include "store/parts.h"

typedef enum mp_memory_step_kind {
  MP_STEP_APP,     /* made an app */
  MP_STEP_USER,    /* made a user */
  MP_STEP_SESSION, /* made a session */
  MP_STEP_DELETE,  /* deleted a session */
  MP_STEP_DELETE_USER,
  MP_STEP_UPDATE,   /* changed a session's row */
  MP_STEP_REVISION, /* changed the revision of a user or an app */
  MP_STEP_KEY,      /* wrote a key */
  MP_STEP_EVENT,    /* appended an event */
  MP_STEP_TOUCH,    /* changed when a head was last used */
  MP_STEP_KEYS,     /* put other keys in the place of a scope's */
  MP_STEP_EVENTS,   /* put other events in the place of a session's */
  MP_STEP_TOKEN     /* noted a token */
} mp_memory_step_kind;

/* One step, with what it takes to undo it. */
typedef struct mp_memory_step {
  mp_memory_step_kind kind;
  union {
    mp_memory_app *app;
    mp_memory_session *session; /* MP_STEP_DELETE, MP_STEP_EVENT */
    struct {
      mp_memory_user *user;
      mp_memory_user *replaced;
    } user; /* MP_STEP_USER, MP_STEP_DELETE_USER */
    struct {
      mp_memory_session *session;
      mp_memory_session *replaced;
    } made;
    struct {
      mp_memory_session *session;
      int64_t revision;
      int64_t base_revision;
      int64_t conversation_count;
      double last_update_time;
      double touched;
    } updated;
    struct {
      int64_t *place;
      int64_t before;
    } revision;
    struct {
      double *place;
      double before;
    } touched;
    struct {
      mp_memory_keys *place;
      mp_memory_keys *before; /* allocated */
      int64_t *forgotten;
      int64_t forgotten_before;
      double *touched;
      double touched_before;
    } keys;
    struct {
      mp_memory_events *place;
      mp_memory_events *before; /* allocated */
    } events;
    mp_memory_key_undo key;
    mp_key *token;
  } was;
} mp_memory_step;

/* A part of its key. */
typedef struct mp_memory_token {
  mp_key *key;
  double time;
  struct mp_memory_token *older; /* neighbours in the order of time */
  struct mp_memory_token *newer;
} mp_memory_token;

typedef struct mp_memory_store {
  mp_store base; /* first */
  mp_env *env;
  pthread_mutex_t mutex; /* guards all that follows */
  bool closed;
  mp_memory_data data;
  mp_map tokens; /* -> mp_memory_token */
  mp_memory_token *oldest_token;
  mp_memory_token *newest_token;
  mp_memory_step *steps;
  size_t step_capacity;
  size_t step_count;
  /* deleted by the transaction under way, by `next`: freed when the mutex is not held */
  mp_memory_session *garbage;
} mp_memory_store;

typedef struct mp_memory_tx {
  mp_parts_tx parts; /* first; its data is the store */
  bool writing;
} mp_memory_tx;

static inline mp_memory_store *mp_memory_store_of(mp_tx *tx) {
  return ((mp_parts_tx *)tx)->data;
}

/* The long way of mp_memory_reserve_step. */
moonpad_status mp_memory_grow_steps(mp_tx *tx, moonpad_error *error);
/* Makes the next step's place sure; before anything is changed. */
static inline moonpad_status mp_memory_reserve_step(mp_tx *tx, moonpad_error *error) {
  const mp_memory_store *store = mp_memory_store_of(tx);
  bool has_room = ((mp_memory_tx *)tx)->writing && store->step_count < store->step_capacity;
  return has_room ? MOONPAD_OK : mp_memory_grow_steps(tx, error);
}
static inline mp_memory_step *mp_memory_add_step(mp_memory_store *store, mp_memory_step_kind kind) {
  mp_memory_step *added = &store->steps[store->step_count++];
  added->kind = kind;
  return added;
}
/* Undoes the steps from number `first` on. */
void mp_memory_undo_steps(mp_memory_store *store, size_t first);
/* Forgets a token. */
void mp_memory_drop_token(mp_memory_store *store, mp_memory_token *token);
/* Makes all of them final. */
void mp_memory_keep_steps(mp_memory_store *store);

/* ---- memory_rows.c, memory_housekeeping.c ---- */

extern const mp_tx_ops mp_memory_tx_ops;
extern const mp_parts mp_memory_parts;

moonpad_status mp_memory_remove(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error);
moonpad_status mp_memory_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
moonpad_status mp_memory_purge(mp_tx *tx, const mp_session_ref *place, mp_scope scope, int64_t last,
                               moonpad_error *error);
moonpad_status mp_memory_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
moonpad_status mp_memory_sweep(mp_tx *tx, mp_scope scope, double touched_before, int64_t limit, int64_t *removed,
                               moonpad_error *error);
moonpad_status mp_memory_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                     moonpad_error *error);

#endif
