/*
** src/store: how sessions, events and state are kept. store.h is the interface between the service
** and a store; memory/ and sqlite/ are two stores; parts.h and plan.h help to write one.
** Does not belong here: any rule of moonpad. Conflicts, sums, limits, generated ids and expiry are
** decided in src/service, which hands a store functions to call inside a transaction; plan.h has
** the part that a plan leaves to its store.
** Arrows: the service includes store/; store/ includes core/ and base/, never the service.
**
** How a store is used. `write` and `read` (mp_store_ops) run a transaction: the store begins it,
** calls the service's function with an mp_tx, and commits or rolls back. Inside, the function puts
** questions to the mp_tx (mp_tx_ops). Each question is a whole one, so that a store behind a
** network needs one round trip for it: `look` answers all that a rule wants to know, `apply` stores
** all that the rule has decided.
**
** The data. A head is the row that counts the changes of one session, one user (appName, userId)
** or one app: an integer id, never reused, and a revision. A state row is (scope, owner's id, key
** without prefix) -> (value, revision of the owner's head at its last change). A removed key leaves
** a tombstone: a row without a value. Tombstones may be purged; the head then remembers up to which
** revision (`forgotten`). A session also has its events, numbered by its revision, and a base
** state: its own state at `base_revision`, before the first event that is still there.
**
** Statuses. Every function returns MOONPAD_OK or a failure, and fills `error` (which may be NULL)
** when it fails. Where "no message" is said, `error` is left as it was: the caller words the
** message. Any function may fail with the store's own errors: storage, busy, corrupt, no_memory,
** limit, unsupported.
**
** Threads. The functions of mp_store_ops may be called from any thread. An mp_tx is used by one
** thread, only while its transaction function runs, one question at a time.
**
** Tables of functions begin with their size and grow at their end only. A table that ends before an
** operation counts as having NULL there (MP_HAS). docs/storage.md tells how to write a store.
*/
#ifndef MP_STORE_STORE_H
#define MP_STORE_STORE_H

#include <stddef.h>

#include "core/entries.h"

typedef struct mp_store mp_store;
typedef struct mp_tx mp_tx;

/* The highest revision of a session, on every store: 34 bits. */
#define MP_MAX_REVISION INT64_C(0x3FFFFFFFF)

/* ---- addresses and heads ---- */

/*
** The address of a session, a user or an app: names and ids, so that a store uses what suits it.
** The strings are borrowed. Whoever knows an id means that creation: a session that was deleted and
** created again under the same names has another id.
*/
typedef struct mp_session_ref {
  moonpad_session_name name; /* of a user: no session_id; of an app: no user_id either */
  int64_t session;           /* the session's id; 0: not known */
  int64_t user;              /* the user's id; 0: not known */
  int64_t app;               /* the app's id; 0: not known */
} mp_session_ref;

/* A session without its state and events, and the revisions of its user and app. */
typedef struct mp_session_row {
  int64_t id;
  int64_t user; /* the id of its user */
  int64_t app;  /* the id of its app */
  int64_t revision;
  /* Revision of the base state. The events (base_revision, revision] exist. 0 until trimmed. */
  int64_t base_revision;
  int64_t user_revision;
  int64_t app_revision;
  int64_t conversation_count; /* messages of the user */
  double create_time;         /* seconds since 1970 */
  double last_update_time;    /* seconds since 1970 */
} mp_session_row;

/* Bits for sets of heads. */
#define MP_HEAD(scope) (1U << (scope))
#define MP_ALL_HEADS   (MP_HEAD(MP_SCOPE_SESSION) | MP_HEAD(MP_SCOPE_USER) | MP_HEAD(MP_SCOPE_APP))

/* ---- rows ---- */

/* Kinds of events: what a walk can select without reading the JSON. */
#define MP_EVENT_USER_MESSAGE   1U /* counts for conversation_count */
#define MP_EVENT_SESSION_CHANGE 2U /* changes keys of the session's own state */

typedef struct mp_event_row {
  int64_t revision;  /* unique in its session, like the id */
  double timestamp;  /* seconds since 1970 */
  moonpad_string id; /* any bytes, NUL too */
  /*
  ** The whole event as compact JSON, without `revision`. data NULL: the query did not ask for it.
  */
  moonpad_string json;
  /* Hash of the event as the caller gave it, where the caller gave the id too; otherwise 0. */
  uint64_t digest;
  /*
  ** The invocationId as the JSON spells it, without quotes; empty: the event has none. Read back
  ** only where the query asks for tags; otherwise data is NULL.
  */
  moonpad_string invocation;
  /* MP_EVENT_... Read back only where the query asks for tags or kinds; otherwise 0. */
  unsigned kinds;
} mp_event_row;

typedef struct mp_listed_session {
  mp_session_row row;
  double touched[MP_STORED_SCOPES]; /* as in mp_facts */
  moonpad_string user_id;
  moonpad_string session_id;
} mp_listed_session;

/*
** Callbacks of walks, called once for each row. They return
** - MOONPAD_OK to go on,
** - MP_STOP to end the walk, which counts as success,
** - a failure, which ends the walk and is its result.
** The row and its strings are borrowed for the call; a value may be retained. A callback must not
** use the mp_tx.
*/
#define MP_STOP ((moonpad_status)0x7F)
static inline moonpad_status mp_walk_end(moonpad_status status) {
  return status == MP_STOP ? MOONPAD_OK : status;
}
typedef moonpad_status (*mp_each_state)(void *context, const mp_state_row *row, moonpad_error *error);
typedef moonpad_status (*mp_each_event)(void *context, const mp_event_row *row, moonpad_error *error);
typedef moonpad_status (*mp_each_session)(void *context, const mp_listed_session *session, moonpad_error *error);
typedef moonpad_status (*mp_each_name)(void *context, moonpad_string name, moonpad_error *error);

/* ---- look: all that a rule wants to know ---- */

/* Values of mp_look.since other than a revision. */
#define MP_EVERY_KEY INT64_C(-1) /* every key that has a value */
#define MP_NO_KEYS   INT64_MAX   /* none */

/*
** The question. Answers that are rows go to the callbacks in this order: keys of the app, of the
** user, of the session; the event by id; the recent events. Keys of one scope come in any order.
** MP_STOP from each_state ends the walk over keys, from each_event the walk over events.
*/
typedef struct mp_look {
  mp_session_ref ref; /* of a session by id if that is known, else by name; others by name */
  unsigned heads;     /* MP_ALL_HEADS: a session with its user and app; or one of a user, an app */
  bool create;        /* creates a missing user or app (not a session); only inside `write` */
  /*
  ** Which keys of each scope go to each_state: the rows, tombstones included, with a greater
  ** revision; or MP_EVERY_KEY; or MP_NO_KEYS.
  */
  int64_t since[MP_STORED_SCOPES];
  /*
  ** Keys that are wanted whatever their revision. The caller fills in scope and key; the store sets
  ** value (one reference for the caller; NULL for a tombstone) and revision (0 if there is no row,
  ** and value NULL). If `look` fails, no value is set.
  */
  mp_state_row *keys;
  size_t key_count;
  moonpad_string event_id;  /* the event with this id goes to each_event; data NULL: none */
  int64_t recent;           /* so many of the last events go to each_event, oldest first; 0: none */
  mp_each_state each_state; /* NULL is allowed if `since` is MP_NO_KEYS for every head */
  mp_each_event each_event; /* NULL is allowed if no event is wanted */
  void *context;            /* for both callbacks */
} mp_look;

/* The answer. The store zeroes it first; what was not asked for or not found stays 0. */
typedef struct mp_facts {
  mp_session_row row;
  /* Tombstones up to this revision have been purged; 0: none have. */
  int64_t forgotten[MP_STORED_SCOPES];
  /*
  ** When the head was last used, in seconds since 1970; 0: not known. The service then takes the
  ** last_update_time of a session, and does not expire the state of a user or an app.
  */
  double touched[MP_STORED_SCOPES];
  /*
  ** each_state got every key that has a value, not only the changes: `since` was MP_EVERY_KEY, or
  ** lies before `forgotten`, so that tombstones may be missing.
  */
  bool whole[MP_STORED_SCOPES];
} mp_facts;

/* ---- walks ---- */

typedef struct mp_event_query {
  int64_t first; /* only events with first <= revision <= last */
  int64_t last;
  bool newest_first;
  bool without_json; /* the JSON is not read back */
  unsigned kinds;    /* only events of one of these kinds, and kinds are read back; 0: all events */
  bool tags;         /* kinds and invocation are read back */
  moonpad_string id; /* only the event with this id; data NULL: all */
} mp_event_query;

typedef struct mp_list_query {
  moonpad_string app_name;
  bool has_user_id; /* only sessions of user_id */
  moonpad_string user_id;
  /* Order: ascending by (last_update_time, user_id, session_id), bytewise; or the exact reverse. */
  bool newest_first;
  int64_t limit;  /* at most so many sessions; 0: all */
  bool has_after; /* only sessions strictly after this position in the order; it need not exist */
  double after_time;
  moonpad_string after_user_id;
  moonpad_string after_session_id;
  double touched_since; /* leaves out sessions that were last used before; 0: none */
} mp_list_query;

/*
** Receives a list of sessions, and on request the state that belongs to them: the app's keys first,
** a user's keys before the first of its sessions, a session's own keys after the session. Keys with
** values only, no tombstones.
*/
typedef struct mp_listing {
  mp_each_session session;
  mp_each_state state; /* NULL: no keys are wanted */
  void *context;       /* for both */
} mp_listing;

/* ---- apply: all that a rule has decided ---- */

/* All strings and values are borrowed for the call. */
typedef struct mp_batch {
  mp_session_ref ref;
  /* The ids, the new revisions of `heads`, and if a session is one of them its other numbers. */
  const mp_session_row *row;
  unsigned heads;           /* the heads that change */
  double touched;           /* `heads` are used then, in seconds since 1970; 0: leave as it is */
  const mp_state_row *keys; /* rows to write; without a value: a tombstone */
  size_t key_count;
  const mp_state_row *base_keys; /* of the session's base state; without a value: removes the key */
  size_t base_key_count;
  const mp_event_row *events; /* to append, in order of their revisions */
  size_t event_count;
} mp_batch;

/* ---- housekeeping ---- */

typedef struct mp_touch {
  mp_session_ref ref; /* with the ids of `heads` */
  unsigned heads;
  double time; /* when they were used, in seconds since 1970 */
} mp_touch;

/* A sweep goes over all entries of a scope, over some of them in each call. */
typedef struct mp_sweep {
  mp_scope scope;
  double touched_before; /* removes what was last used before */
  int64_t limit;         /* removes at most so many in one call, or fewer */
  int64_t position;      /* where it goes on, the store's own; 0 at first */
  int64_t removed;       /* by this call */
  bool is_done;          /* it has been everywhere */
} mp_sweep;

#define MP_TOKEN_BYTES 16

/*
** What a transaction can be asked. Later questions of a transaction see what it has written before.
** After a failure of the store's own the transaction function returns, and all is rolled back.
*/
typedef struct mp_tx_ops {
  size_t size;

  /* ---- reading ---- */

  /*
  ** Answers a whole question (mp_look, mp_facts). A wanted key or event that does not exist is no
  ** error. No such session, user or app: MOONPAD_NOT_FOUND, no message.
  */
  moonpad_status (*look)(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error);
  /* Lists sessions in the order of the query. An unknown app or user has none: MOONPAD_OK. */
  moonpad_status (*each_listed)(mp_tx *tx, const mp_list_query *query, const mp_listing *listing, moonpad_error *error);
  /* Walks over the events of a session (by id), in order of revision or its reverse. */
  moonpad_status (*each_event)(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                               mp_each_event each, void *context, moonpad_error *error);
  /*
  ** Finds the first event of an invocation, spelt as in mp_event_row and not empty, and sets
  ** *revision. None: MOONPAD_NOT_FOUND, no message.
  */
  moonpad_status (*find_invocation)(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                    int64_t *revision, moonpad_error *error);
  /* Walks over the base state of a session (by id). */
  moonpad_status (*each_base_key)(mp_tx *tx, const mp_session_ref *session, mp_each_state each, void *context,
                                  moonpad_error *error);

  /*
  ** ---- writing (only inside `write`) ----
  ** A store behind a network may send what is written with the next question or with the commit:
  ** then a failure, ALREADY_EXISTS of an event too, is one of that question or of `write`.
  */

  /*
  ** Creates a session with revision 0 and last_update_time = create_time, and its user and app if
  ** they are missing. Sets *row. It exists already: MOONPAD_ALREADY_EXISTS, no message.
  */
  moonpad_status (*create_session)(mp_tx *tx, const moonpad_session_name *name, double create_time, mp_session_row *row,
                                   moonpad_error *error);
  /* Removes a session (by id) with its events, state and base state. Its user and app stay. */
  moonpad_status (*remove_session)(mp_tx *tx, const mp_session_ref *session, moonpad_error *error);
  /*
  ** Removes a user (by name) with its state and all its sessions, and sets *sessions to the number
  ** of these. No such user: MOONPAD_NOT_FOUND, no message.
  */
  moonpad_status (*remove_user)(mp_tx *tx, const mp_session_ref *user, int64_t *sessions, moonpad_error *error);
  /*
  ** Stores a batch. The session has an event with that id or revision: MOONPAD_ALREADY_EXISTS or
  ** MOONPAD_INVALID_ARGUMENT. A revision above MP_MAX_REVISION: MOONPAD_LIMIT.
  */
  moonpad_status (*apply)(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
  /*
  ** Copies the base state, and the events up to revision `last`, of one session to another that has
  ** neither (both by id). The head of the other is left to the caller.
  */
  moonpad_status (*copy_history)(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                 moonpad_error *error);

  /* ---- housekeeping (only inside `write`); NULL: the store does not have it ---- */

  /* Deletes the events up to revision `last`. The caller applies the base state they lead to. */
  moonpad_status (*trim)(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
  /*
  ** Deletes the tombstones of one scope up to revision `last`, or to the head's revision if that is
  ** lower, and raises the head's `forgotten` to it. That is right at any time; no call of moonpad.h
  ** asks for it yet.
  */
  moonpad_status (*purge)(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last, moonpad_error *error);
  /*
  ** Sets when heads were last used. Those that do not exist any more are skipped. Here and in
  ** mp_batch, a time before the one that is stored changes nothing.
  */
  moonpad_status (*touch)(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
  /*
  ** Goes on with a sweep, so far that it holds nobody up for long. MP_SCOPE_SESSION: removes
  ** sessions, whole. MP_SCOPE_USER, MP_SCOPE_APP: all state rows of users or apps that have any;
  ** the head stays, its revision counts up by one, `forgotten` becomes that revision, and when it
  ** was last used is not known any more. A head of which that is not known (`touched` 0) is left
  ** alone; of a session last_update_time counts then.
  */
  moonpad_status (*sweep)(mp_tx *tx, mp_sweep *sweep, moonpad_error *error);
  /*
  ** The idempotency key of a call without an event. Stores `token` with the time `now`. A token
  ** that was stored before `expired` counts as absent and may be deleted; one that was stored later
  ** is MOONPAD_ALREADY_EXISTS, no message: the call has been done.
  */
  moonpad_status (*claim_token)(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                moonpad_error *error);

  /* ---- reading, for tools; NULL: the store does not have it ---- */

  /* Walks over the names of the apps that it knows, in any order. */
  moonpad_status (*each_app)(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error);
  /* The same of the users of an app, those without a session, too. No such app: there are none. */
  moonpad_status (*each_user)(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                              moonpad_error *error);
} mp_tx_ops;

struct mp_tx {
  const mp_tx_ops *ops;
};

/*
** A transaction function: reads and writes through `tx`. Whatever it returns but MOONPAD_OK rolls
** the transaction back and is the result of `write` or `read`.
** A store may call it more than once (it retries, several transactions share a commit, an answer
** was lost) and on another thread than the caller's. So it starts afresh each time, takes no lock
** of the service, and never calls the host.
*/
typedef moonpad_status (*mp_tx_function)(mp_tx *tx, void *context, moonpad_error *error);

struct mp_plan; /* store/plan.h */

/*
** What a store can be asked. Any thread, but for `free`. A store must have all of this but
** `backup`, `append` and `vacuum`, and all of mp_tx_ops but housekeeping, each_app and each_user.
** Whoever brings the parts of parts.h has all of mp_tx_ops by them.
*/
typedef struct mp_store_ops {
  size_t size;
  /*
  ** Runs a transaction that may write. MOONPAD_OK: it is committed, and durable as configured. No
  ** other `write` changes what it has read before it ends (serializable). After `close`:
  ** MOONPAD_CLOSED.
  */
  moonpad_status (*write)(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
  /* Runs a transaction that reads one consistent snapshot. After `close`: MOONPAD_CLOSED. */
  moonpad_status (*read)(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
  /* Writes a consistent copy to a new file. NULL: the store does not have it. */
  moonpad_status (*backup)(mp_store *store, moonpad_string path, moonpad_error *error);
  /*
  ** Waits for the transactions that run; every later call is MOONPAD_CLOSED. A second call waits
  ** for the first.
  */
  void (*close)(mp_store *store);
  /* Frees a store that has been closed and that nobody uses any more. Once. */
  void (*free)(mp_store *store);
  /*
  ** Appends that the service has decided from what session objects hold, without looking first:
  ** plans of different sessions, in any order and with as few transactions and round trips as the
  ** store can. Each plan has an outcome or a failure of its own, whatever becomes of the others. A
  ** refused one writes nothing, and the service decides it again under `write`. NULL: `write` is as
  ** cheap (a store without a network).
  */
  void (*append)(mp_store *store, struct mp_plan *plans, size_t count);
  /*
  ** Leaves no byte of what was deleted on disk. MOONPAD_BUSY: others use it, so some may be left.
  ** NULL: nothing to do.
  */
  moonpad_status (*vacuum)(mp_store *store, moonpad_error *error);
} mp_store_ops;

struct mp_store {
  const mp_store_ops *ops;
  /*
  ** Its calls wait for nothing but each other, neither disk nor network. The service then makes
  ** them on the caller's thread.
  */
  bool in_memory;
};

/* Does a table (of `type`) have an operation? An older or smaller store may lack it. */
#define MP_HAS(type, table, operation)                                                                                 \
  ((table)->size >= offsetof(type, operation) + sizeof((table)->operation) && (table)->operation != NULL)

/*
** Opens a store. `rest` is the URL after "SCHEME:". The store retains `env` and takes its memory
** from it. `options` is complete. On failure *store is NULL. Messages never show a password.
*/
typedef moonpad_status (*mp_store_open)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                        mp_store **store, moonpad_error *error);
moonpad_status mp_memory_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error);
moonpad_status mp_sqlite_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error);

/* What a program hands in as the opener of a store (moonpad_options.stores). */
#define MP_STORE_VERSION 5 /* counts up when a store built with an older header would go wrong */
struct moonpad_store_opener {
  unsigned version; /* MP_STORE_VERSION at its build; any other is refused with `unsupported` */
  mp_store_open open;
};

#endif
