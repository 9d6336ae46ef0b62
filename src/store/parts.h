/*
** Whole questions, answered from small parts: for a store on this machine, where many small calls
** cost no more than one large one. Such a store has a table of parts and takes the mp_parts_...
** functions for operations of its mp_tx_ops.
*/
#ifndef MP_STORE_PARTS_H
#define MP_STORE_PARTS_H

#include "store/store.h"

/*
** By internal id; nothing here has a message when it is not found. A walk gives back what its callback
** ended it with, MP_STOP too: it may be one of several that a stop ends.
*/
typedef struct mp_parts {
  /* The row and what the heads remember. No such session: MOONPAD_NOT_FOUND. */
  moonpad_status (*find_session)(mp_tx *tx, const moonpad_session_name *name, mp_facts *facts, moonpad_error *error);
  moonpad_status (*load_session)(mp_tx *tx, int64_t session, mp_facts *facts, moonpad_error *error);
  /*
  ** A user, or without user_id an app: its id, revision and what its head remembers. Made when
  ** missing and `create`, else MOONPAD_NOT_FOUND.
  */
  moonpad_status (*find_shared)(mp_tx *tx, moonpad_string app_name, const moonpad_string *user_id, bool create,
                                mp_facts *facts, moonpad_error *error);
  /*
  ** One key: *value is one reference for the caller, or NULL; *revision is that of the row,
  ** tombstone or not, 0 when there is no row.
  */
  moonpad_status (*read_key)(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value **value,
                             int64_t *revision, moonpad_error *error);
  /*
  ** MP_EVERY_KEY: every key that has a value. Otherwise every row, tombstones included, whose
  ** revision is greater. No order.
  */
  moonpad_status (*each_key)(mp_tx *tx, mp_scope scope, int64_t id, int64_t since, mp_each_state each, void *context,
                             moonpad_error *error);
  /* The row is given to `each`. No such event: MOONPAD_NOT_FOUND. */
  moonpad_status (*find_event)(mp_tx *tx, int64_t session, moonpad_string event_id, mp_each_event each, void *context,
                               moonpad_error *error);
  /* Its callback may read keys. */
  moonpad_status (*each_session)(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                 moonpad_error *error);
  moonpad_status (*write_key)(mp_tx *tx, int64_t id, const mp_key_write *write, moonpad_error *error);
  moonpad_status (*write_base_key)(mp_tx *tx, int64_t session, const mp_key_write *write, moonpad_error *error);
  moonpad_status (*append_event)(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error);
  /*
  ** What the batch says of the heads that it changes, if it changes any; the keys have been written
  ** already.
  */
  moonpad_status (*update_heads)(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
} mp_parts;

/* The mp_tx of such a store begins with one of these. */
typedef struct mp_parts_tx {
  mp_tx tx;
  mp_env *env;
  const mp_parts *parts;
} mp_parts_tx;

/*
** mp_tx_ops of the same names. To copy a history they write to one session from a walk over another.
*/
moonpad_status mp_parts_look(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error);
moonpad_status mp_parts_each_listed(mp_tx *tx, const mp_list_query *query, const mp_listing *listing,
                                    moonpad_error *error);
moonpad_status mp_parts_find_invocation(mp_tx *tx, const mp_place *session, moonpad_string invocation,
                                        int64_t *revision, moonpad_error *error);
moonpad_status mp_parts_apply(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
moonpad_status mp_parts_copy_history(mp_tx *tx, const mp_place *from, const mp_place *to, int64_t last,
                                     moonpad_error *error);

/*
** For mp_parts.each_session: the sessions of an app, collected in any order, go to `each` in the order of
** the query, those that it leaves out by user, place or number left out. Sorts the array.
*/
moonpad_status mp_parts_give_listed(mp_listed_session *listed, size_t count, const mp_list_query *query,
                                    mp_each_session each, void *context, moonpad_error *error);

/* The id of a scope's head in a row. */
static inline int64_t mp_row_id(const mp_session_row *row, mp_scope scope) {
  return scope == MP_SCOPE_USER ? row->user : scope == MP_SCOPE_APP ? row->app : row->id;
}

#endif
