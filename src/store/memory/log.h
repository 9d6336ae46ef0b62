/*
** The undo log of the transaction that runs: each step that it has done, and what it takes to undo
** it. A step reserves all that it needs, its entry in the log included, before it changes anything:
** so undoing cannot fail.
*/
#ifndef MP_STORE_MEMORY_LOG_H
#define MP_STORE_MEMORY_LOG_H

#include "store/memory/memory.h"

typedef enum mp_memory_step_kind {
  MP_STEP_CREATE_APP,
  MP_STEP_CREATE_USER,
  MP_STEP_CREATE_SESSION,
  MP_STEP_DELETE_USER,
  MP_STEP_DELETE_SESSION,
  MP_STEP_UPDATE_SESSION, /* changed a session's row */
  MP_STEP_SET_REVISION,   /* changed the revision of a user or an app */
  MP_STEP_TOUCH,          /* changed when a head was last used */
  MP_STEP_WRITE_KEY,
  MP_STEP_REPLACE_KEYS, /* replaced all keys of a head */
  MP_STEP_APPEND_EVENT,
  MP_STEP_TRIM_EVENTS,    /* counted up the trimmed events of a session */
  MP_STEP_REPLACE_EVENTS, /* replaced all events of a session */
  MP_STEP_ADD_TOKEN
} mp_memory_step_kind;

/* `target` is what the step has changed, `before` its content before that. */
typedef struct mp_memory_step {
  mp_memory_step_kind kind;
  union {
    mp_memory_app *app;         /* MP_STEP_CREATE_APP */
    mp_memory_session *session; /* MP_STEP_DELETE_SESSION, MP_STEP_APPEND_EVENT */
    struct {
      mp_memory_user *user;
      mp_memory_user *replaced;
    } user; /* MP_STEP_CREATE_USER, MP_STEP_DELETE_USER */
    struct {
      mp_memory_session *session;
      mp_memory_session *replaced;
    } created; /* MP_STEP_CREATE_SESSION */
    struct {
      mp_memory_session *session;
      int64_t revision;
      int64_t base_revision;
      int64_t conversation_count;
      double last_update_time;
      double touched;
    } updated; /* MP_STEP_UPDATE_SESSION */
    struct {
      int64_t *target;
      int64_t before;
    } revision; /* MP_STEP_SET_REVISION */
    struct {
      double *target;
      double before;
    } touched; /* MP_STEP_TOUCH */
    struct {
      mp_memory_keys *target;
      mp_memory_keys *before; /* allocated */
      int64_t *forgotten;
      int64_t forgotten_before;
      double *touched;
      double touched_before;
    } keys; /* MP_STEP_REPLACE_KEYS */
    struct {
      mp_memory_events *target;
      uint32_t before;
    } trimmed; /* MP_STEP_TRIM_EVENTS */
    struct {
      mp_memory_events *target;
      mp_memory_events *before; /* allocated */
    } events;                   /* MP_STEP_REPLACE_EVENTS */
    mp_memory_key_undo key;     /* MP_STEP_WRITE_KEY */
    mp_key *token;              /* MP_STEP_ADD_TOKEN; one reference */
  } was;
} mp_memory_step;

/* The slow path of mp_memory_log_reserve. */
moonpad_status mp_memory_log_grow(mp_tx *tx, moonpad_error *error);
/*
** Reserves the entry of the next step, before anything is changed. Errors: no_memory,
** invalid_argument (a transaction that reads).
*/
static inline moonpad_status mp_memory_log_reserve(mp_tx *tx, moonpad_error *error) {
  const mp_memory_store *store = mp_memory_store_of(tx);
  bool has_room = ((mp_memory_tx *)tx)->writing && store->step_count < store->step_capacity;
  return has_room ? MOONPAD_OK : mp_memory_log_grow(tx, error);
}
/* The reserved entry; mp_memory_log_add then counts it. */
static inline mp_memory_step *mp_memory_log_reserved(mp_memory_store *store) {
  return &store->steps[store->step_count];
}
static inline mp_memory_step *mp_memory_log_add(mp_memory_store *store, mp_memory_step_kind kind) {
  mp_memory_step *added = &store->steps[store->step_count++];
  added->kind = kind;
  return added;
}
/* Undoes all steps, the last one first. Cannot fail. */
void mp_memory_log_undo(mp_memory_store *store);
/* Makes all steps final. Cannot fail. */
void mp_memory_log_commit(mp_memory_store *store);

#endif
