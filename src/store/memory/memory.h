/*
** src/store/memory: the store "memory:". All data is in this process and ends with it.
** One mutex; a transaction changes the data in place, and an undo log (log.h) rolls it back.
** Does not belong here: rules of moonpad (src/service), and what stores share (store/parts.h).
** Arrows: open.c -> tx.c -> read.c, list.c, write.c -> housekeeping.c -> log.c -> tokens.c, data.c
** -> events.c, keys.c, slots.c -> arena.c. Nothing here includes another store.
**
** open.c         opening, freeing
** tx.c           transactions, closing; the table of what a transaction can be asked
** read.c         what a transaction reads
** write.c        what a transaction writes
** housekeeping.c removing, trimming, purging, touching, sweeping, tokens
** list.c         listing sessions
** log.c          the undo log of the transaction that runs
** tokens.c       idempotency keys
** data.c         apps, users and sessions: find, create, remove
** events.c       the events of one session
** keys.c         the state of one owner
** slots.c        internal ids
** arena.c        memory for events
*/
#ifndef MP_STORE_MEMORY_MEMORY_H
#define MP_STORE_MEMORY_MEMORY_H

#include "base/platform.h"
#include "store/memory/data.h"
#include "store/memory/tokens.h"
#include "store/parts.h"

struct mp_memory_step; /* store/memory/log.h */

typedef struct mp_memory_store {
  mp_store base; /* first */
  mp_env *env;
  mp_mutex mutex; /* guards all that follows; held while a transaction runs */
  bool closed;
  mp_memory_data data;
  mp_memory_tokens tokens;
  struct mp_memory_step *steps; /* the undo log of the transaction that runs */
  size_t step_capacity;
  size_t step_count;
  /* Sessions that a committed transaction removed, linked by `next`. Freed without the mutex. */
  mp_memory_session *garbage;
} mp_memory_store;

typedef struct mp_memory_tx {
  mp_parts_tx parts; /* first; its data is the store */
  bool writing;      /* of `write`; a transaction of `read` cannot write */
} mp_memory_tx;

static inline mp_memory_store *mp_memory_store_of(mp_tx *tx) {
  return ((mp_parts_tx *)tx)->data;
}

/* ---- tx.c: mp_store_ops of the same names ---- */

moonpad_status mp_memory_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
moonpad_status mp_memory_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
void mp_memory_close(mp_store *store);

/* ---- read.c: mp_parts of the same names ---- */

moonpad_status mp_memory_find_session(mp_tx *tx, const mp_session_ref *ref, mp_facts *facts, moonpad_error *error);
moonpad_status mp_memory_read_key(mp_tx *tx, int64_t id, mp_state_row *wanted, moonpad_error *error);
moonpad_status mp_memory_each_key(mp_tx *tx, mp_owner owner, int64_t since, mp_each_state each, void *context,
                                  moonpad_error *error);
moonpad_status mp_memory_each_event(mp_tx *tx, int64_t session, const mp_event_query *query, mp_each_event each,
                                    void *context, moonpad_error *error);

/* ---- write.c: mp_parts of the same names ---- */

moonpad_status mp_memory_find_shared(mp_tx *tx, mp_scope scope, int64_t app, moonpad_string name, bool create,
                                     mp_head *head, moonpad_error *error);
moonpad_status mp_memory_insert_session(mp_tx *tx, moonpad_string session_id, mp_session_row *row,
                                        moonpad_error *error);
moonpad_status mp_memory_write_key(mp_tx *tx, mp_owner owner, const mp_state_row *write, moonpad_error *error);
moonpad_status mp_memory_append_event(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error);
moonpad_status mp_memory_update_heads(mp_tx *tx, const mp_batch *batch, moonpad_error *error);

/* ---- list.c: mp_parts of the same name ---- */

moonpad_status mp_memory_each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                      moonpad_error *error);
/* Of mp_tx_ops. */
moonpad_status mp_memory_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error);
moonpad_status mp_memory_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                   moonpad_error *error);

/* ---- housekeeping.c: mp_parts and mp_tx_ops of the same names ---- */

moonpad_status mp_memory_remove(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error);
moonpad_status mp_memory_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
moonpad_status mp_memory_purge(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last,
                               moonpad_error *error);
moonpad_status mp_memory_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
moonpad_status mp_memory_sweep(mp_tx *tx, mp_sweep *sweep, moonpad_error *error);
moonpad_status mp_memory_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                     moonpad_error *error);

#endif
