/*
** What a store does, and all that it does. A store keeps rows and runs transactions; it knows no rule of moonpad: conflicts, limits, ids, templates are
** decided above, in src/service. Rules reach a store only as a transaction function, which the store calls between its own begin and commit.
**
** Scopes inside a store: a session, a user (appName, userId) and an app each have an internal integer id, never reused, and a revision that counts every change.
** A state row is (scope kind, id, key without prefix) -> value, revision. A removed key leaves a row without a value (a tombstone) that keeps the revision.
**
** All functions return MOONPAD_OK or a status, and then have filled `error` (which may be NULL).
*/
#ifndef MP_STORE_STORE_H
#define MP_STORE_STORE_H

#include "core/scope.h"
#include "core/value.h"

typedef struct mp_store mp_store;
typedef struct mp_tx mp_tx;

/* No session counts further, on any store. */
#define MP_MAX_REVISION INT64_C(0x3FFFFFFFF)

/* What a store knows of a session without its state and events. */
typedef struct mp_session_row {
  int64_t id;   /* internal */
  int64_t user; /* internal id of its user */
  int64_t app;  /* internal id of its app */
  int64_t revision;
  int64_t
      base_revision; /* of the base state: events (base_revision, revision] are there; 0 until the history is trimmed */
  int64_t user_revision;
  int64_t app_revision;
  int64_t conversation_count;
  double create_time;
  double last_update_time;
} mp_session_row;

/* An event as a store keeps it. */
typedef struct mp_event_row {
  int64_t revision;
  double timestamp;
  moonpad_string id;
  moonpad_string json; /* the whole event, compact, `revision` not included */
  uint64_t digest;     /* of what the caller gave, where it gave an id; 0 otherwise */
} mp_event_row;

typedef struct mp_state_row {
  moonpad_string key; /* without prefix */
  mp_value *value;    /* borrowed for the call: retain it to keep it; NULL: removed */
  int64_t revision;
} mp_state_row;

/* Row callbacks return MOONPAD_OK to go on; anything else ends the walk and is its result. Strings are borrowed for the call. A callback
** makes no further calls on the transaction. */
typedef moonpad_status (*mp_each_state)(void *context, const mp_state_row *row, moonpad_error *error);
typedef moonpad_status (*mp_each_event)(void *context, const mp_event_row *row, moonpad_error *error);

typedef struct mp_listed_session {
  mp_session_row row;
  moonpad_string user_id;
  moonpad_string session_id;
} mp_listed_session;
typedef moonpad_status (*mp_each_session)(void *context, const mp_listed_session *session, moonpad_error *error);

typedef struct mp_list_query {
  moonpad_string app_name;
  bool has_user_id;
  moonpad_string user_id;
  bool newest_first; /* ascending by (last_update_time, user_id, session_id) in byte order, or the exact reverse */
  int64_t limit;     /* 0: all */
  bool has_after;    /* only what comes strictly after this place in the order */
  double after_time;
  moonpad_string after_user_id;
  moonpad_string after_session_id;
} mp_list_query;

typedef struct mp_tx_ops {
  /* ---- reading ---- */
  /* No such session: MOONPAD_NOT_FOUND with no message. */
  moonpad_status (*find_session)(mp_tx *tx, const moonpad_session_name *name, mp_session_row *row,
                                 moonpad_error *error);
  /* By internal id; the row as it is now. Deleted: MOONPAD_NOT_FOUND with no message. */
  moonpad_status (*load_session)(mp_tx *tx, int64_t session, mp_session_row *row, moonpad_error *error);
  /* The internal id and revision of a user (or, without user_id, an app). With `create` it is made when missing; otherwise NOT_FOUND with no message. */
  moonpad_status (*find_shared)(mp_tx *tx, moonpad_string app_name, const moonpad_string *user_id, bool create,
                                int64_t *id, int64_t *revision, moonpad_error *error);
  /* One key: *value is one reference for the caller, or NULL; *revision is that of the row, tombstone or not, 0 when there is no row. */
  moonpad_status (*read_key)(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value **value,
                             int64_t *revision, moonpad_error *error);
  /* since < 0: every key that has a value. Otherwise every row, tombstones included, whose revision is greater. No order. */
  moonpad_status (*each_key)(mp_tx *tx, mp_scope scope, int64_t id, int64_t since, mp_each_state each, void *context,
                             moonpad_error *error);
  /* The session-scope state at base_revision. */
  moonpad_status (*each_base_key)(mp_tx *tx, int64_t session, mp_each_state each, void *context, moonpad_error *error);
  /* An event of this session by id: NOT_FOUND with no message when there is none. The row is given to `each`. */
  moonpad_status (*find_event)(mp_tx *tx, int64_t session, moonpad_string event_id, mp_each_event each, void *context,
                               moonpad_error *error);
  /* Events with first <= revision <= last, in order. */
  moonpad_status (*each_event)(mp_tx *tx, int64_t session, int64_t first, int64_t last, mp_each_event each,
                               void *context, moonpad_error *error);
  moonpad_status (*each_session)(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                 moonpad_error *error);

  /* ---- writing (only inside `write`) ---- */
  /* Makes the session's row (revision 0, last_update_time = create_time), user and app included. It exists: ALREADY_EXISTS with no message. */
  moonpad_status (*create_session)(mp_tx *tx, const moonpad_session_name *name, double create_time, mp_session_row *row,
                                   moonpad_error *error);
  /* With its events, state and base state. */
  moonpad_status (*delete_session)(mp_tx *tx, int64_t session, moonpad_error *error);
  /* value NULL: a tombstone. */
  moonpad_status (*write_key)(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value *value,
                              int64_t revision, moonpad_error *error);
  /* value NULL: the key was absent at the base, its row is removed. */
  moonpad_status (*write_base_key)(mp_tx *tx, int64_t session, moonpad_string key, mp_value *value,
                                   moonpad_error *error);
  /* The revision of a user or an app. */
  moonpad_status (*set_shared_revision)(mp_tx *tx, mp_scope scope, int64_t id, int64_t revision, moonpad_error *error);
  moonpad_status (*append_event)(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error);
  /* Stores revision, base_revision, conversation_count and last_update_time of `row` under row->id. */
  moonpad_status (*update_session)(mp_tx *tx, const mp_session_row *row, moonpad_error *error);
} mp_tx_ops;

struct mp_tx {
  const mp_tx_ops *ops;
};

/*
** A transaction function: reads and writes through `tx`. If it returns anything but MOONPAD_OK, all that it wrote is undone and that status is the result.
** It may be called more than once (a store that retries, or whose commit was lost), and on another thread than the caller's: it starts afresh each time,
** takes no lock of the service, and never calls out to the host.
*/
typedef moonpad_status (*mp_tx_function)(mp_tx *tx, void *context, moonpad_error *error);

typedef struct mp_store_ops {
  /* Any thread. MOONPAD_OK: committed, and durable as configured. After `close`: MOONPAD_CLOSED. */
  moonpad_status (*write)(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
  /* As `write`, but waits for other writers for an instant only (two milliseconds), whatever was configured: MOONPAD_BUSY then. */
  moonpad_status (*try_write)(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
  /* One consistent snapshot. Any thread. */
  moonpad_status (*read)(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
  moonpad_status (*backup)(mp_store *store, moonpad_string path, moonpad_error *error);
  /* Waits for transactions under way; every later one is MOONPAD_CLOSED. Idempotent. Any thread. */
  void (*close)(mp_store *store);
  /* Closed before, and used by nobody. */
  void (*free)(mp_store *store);
} mp_store_ops;

struct mp_store {
  const mp_store_ops *ops;
  bool in_memory; /* its calls wait for nothing but each other: they are made where they are asked for */
};

/* The openers. `rest` is the URL after "SCHEME:". The store keeps a reference to `env`. `options` is complete. */
typedef moonpad_status (*mp_store_open)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                        mp_store **store, moonpad_error *error);
moonpad_status mp_memory_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error);
moonpad_status mp_sqlite_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error);

#endif
