/*
** For a store on this machine, where many small calls cost no more than one large one: it has a
** table of small functions, mp_parts, and uses the mp_parts_... functions as operations of its
** mp_tx_ops (store.h), which answer whole questions by calling the small ones.
*/
#ifndef MP_STORE_PARTS_H
#define MP_STORE_PARTS_H

#include "base/map.h"
#include "store/store.h"

/*
** Whose keys: those of a session, a user or an app, by the id of its head; or those of a session's
** base state.
*/
typedef struct mp_owner {
  int64_t id;
  mp_scope scope;
  bool is_base;
} mp_owner;

/* The head of a user or an app. The fields are those of mp_facts. */
typedef struct mp_head {
  int64_t id;
  int64_t revision;
  int64_t forgotten;
  double touched;
} mp_head;

/*
** The small functions. They take internal ids, and leave `error` alone when they return
** MOONPAD_NOT_FOUND. A walk returns the status with which its callback ended it, MP_STOP included:
** the stop may have to end other walks as well.
*/
typedef struct mp_parts {
  /* By ref->session where that is known, else by name: its row, and what the heads remember. */
  moonpad_status (*find_session)(mp_tx *tx, const mp_session_ref *ref, mp_facts *facts, moonpad_error *error);
  /*
  ** An app (`app` is 0), or a user of an app. If it is missing: created with `create`, otherwise
  ** MOONPAD_NOT_FOUND.
  */
  moonpad_status (*find_shared)(mp_tx *tx, mp_scope scope, int64_t app, moonpad_string name, bool create, mp_head *head,
                                moonpad_error *error);
  /* Inserts the row and sets its id. MOONPAD_ALREADY_EXISTS: the name is taken. */
  moonpad_status (*insert_session)(mp_tx *tx, moonpad_string session_id, mp_session_row *row, moonpad_error *error);
  /* Removes a session with its state and events, or a user that has no sessions with its state. */
  moonpad_status (*remove)(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error);
  /* Stores what the batch says of heads. Its keys have been written already. */
  moonpad_status (*update_heads)(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
  /* The callback may read keys. */
  moonpad_status (*each_session)(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                 moonpad_error *error);

  /* Sets value and revision if there is a row. */
  moonpad_status (*read_key)(mp_tx *tx, int64_t id, mp_state_row *wanted, moonpad_error *error);
  /*
  ** With MP_EVERY_KEY: all keys that have a value. Otherwise, never for a base state: all rows with
  ** a greater revision, tombstones included. In any order.
  */
  moonpad_status (*each_key)(mp_tx *tx, mp_owner owner, int64_t since, mp_each_state each, void *context,
                             moonpad_error *error);
  moonpad_status (*write_key)(mp_tx *tx, mp_owner owner, const mp_state_row *write, moonpad_error *error);

  moonpad_status (*append_event)(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error);
  /* The callback may append to another session. */
  moonpad_status (*each_event)(mp_tx *tx, int64_t session, const mp_event_query *query, mp_each_event each,
                               void *context, moonpad_error *error);
} mp_parts;

/* The mp_tx of such a store begins with this struct. */
typedef struct mp_parts_tx {
  mp_tx tx;
  mp_env *env;
  const mp_parts *parts;
  void *data; /* private to the store */
} mp_parts_tx;

/* For a store without housekeeping. Others have a table of their own with the same functions. */
extern const mp_tx_ops mp_parts_ops;

moonpad_status mp_parts_look(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error);
moonpad_status mp_parts_each_listed(mp_tx *tx, const mp_list_query *query, const mp_listing *listing,
                                    moonpad_error *error);
moonpad_status mp_parts_each_event(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                                   mp_each_event each, void *context, moonpad_error *error);
moonpad_status mp_parts_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                        int64_t *revision, moonpad_error *error);
moonpad_status mp_parts_each_base_key(mp_tx *tx, const mp_session_ref *session, mp_each_state each, void *context,
                                      moonpad_error *error);
moonpad_status mp_parts_create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                       mp_session_row *row, moonpad_error *error);
moonpad_status mp_parts_remove_session(mp_tx *tx, const mp_session_ref *session, moonpad_error *error);
moonpad_status mp_parts_remove_user(mp_tx *tx, const mp_session_ref *user, int64_t *sessions, moonpad_error *error);
moonpad_status mp_parts_apply(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
moonpad_status mp_parts_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                     moonpad_error *error);

/*
** For mp_parts.each_session of a store that does not sort: add the sessions of an app in any order,
** then emit those that the query asks for in the query's order.
*/
typedef struct mp_sorting {
  mp_env *env;
  const mp_list_query *query;
  mp_listed_session *sessions; /* NULL at first; mp_sorting_emit frees it */
  size_t capacity;
  size_t count;
  bool failed; /* out of memory */
} mp_sorting;
void mp_sorting_add(mp_sorting *sorting, const mp_listed_session *listed);
moonpad_status mp_sorting_emit(mp_sorting *sorting, mp_each_session each, void *context, moonpad_error *error);

/* For mp_parts.each_event: calls `each` with what the query asks for of an event, if at all. */
static inline moonpad_status mp_emit_event(mp_event_row event, const mp_event_query *query, mp_each_event each,
                                           void *context, moonpad_error *error) {
  if (event.revision < query->first || event.revision > query->last) return MOONPAD_OK;
  if (query->id.data != NULL && mp_text_compare(event.id, query->id) != 0) return MOONPAD_OK;
  if (query->kinds != 0 && (query->kinds & event.kinds) == 0) return MOONPAD_OK;
  if (query->without_json) event.json = moonpad_text(NULL);
  if (!query->tags) event.invocation = moonpad_text(NULL);
  if (!query->tags && query->kinds == 0) event.kinds = 0;
  return each(context, &event, error);
}

/* The id of a scope's head in a row. */
static inline int64_t mp_row_id(const mp_session_row *row, mp_scope scope) {
  return scope == MP_SCOPE_USER ? row->user : scope == MP_SCOPE_APP ? row->app : row->id;
}

#endif
