/*
** What a store does, and all that it does. It keeps rows and runs transactions; it knows no
** rule of moonpad: conflicts, sums, limits, ids, expiry are decided in src/service. Rules reach
** a store as a transaction function, which it calls between its own begin and commit, or as
** plans (store/plan.h).
**
** A transaction is asked whole questions, so that a store behind a network needs one round trip for
** each: `look` is all that a rule wants to know, `apply` all that it has decided.
**
** Scopes inside a store: a session, a user (appName, userId) and an app each have a head: an
** internal integer id, never reused, and a revision that counts every change. A state row is
** (scope, owner, key without prefix) -> value, revision. A removed key leaves a row without a value
** (a tombstone) that keeps the revision, until tombstones are purged: then the head remembers up to
** which one.
**
** Everything is found by a place, which has names and ids: a store uses what suits it.
**
** All functions return MOONPAD_OK or a status, and then have filled `error` (which may be NULL).
** Tables of functions begin with their size and only grow, at their end; what an older store lacks
** is taken for NULL. docs/storage.md tells how to write a store.
*/
#ifndef MP_STORE_STORE_H
#define MP_STORE_STORE_H

#include <stddef.h>

#include "core/entries.h"

typedef struct mp_store mp_store;
typedef struct mp_tx mp_tx;

/* No session counts further, on any store. */
#define MP_MAX_REVISION INT64_C(0x3FFFFFFFF)

/* ---- places and heads ---- */

/* Where something is. Strings are borrowed. Ids are of this creation; 0: not known. */
typedef struct mp_session_ref {
  moonpad_session_name name; /* of a user without session_id, of an app without user_id */
  int64_t session;
  int64_t user;
  int64_t app;
} mp_session_ref;

/* What a store knows of a session without its state and events. */
typedef struct mp_session_row {
  int64_t id;
  int64_t user; /* its user's id */
  int64_t app;  /* its app's id */
  int64_t revision;
  /* of the base state: events (base_revision, revision] are there; 0 until it is trimmed */
  int64_t base_revision;
  int64_t user_revision;
  int64_t app_revision;
  int64_t conversation_count;
  double create_time;
  double last_update_time;
} mp_session_row;

/* A set of heads. */
#define MP_HEAD(scope) (1U << (scope))
#define MP_ALL_HEADS   (MP_HEAD(MP_SCOPE_SESSION) | MP_HEAD(MP_SCOPE_USER) | MP_HEAD(MP_SCOPE_APP))

/* ---- rows ---- */

/* What can be told of an event without its JSON. */
#define MP_EVENT_USER_MESSAGE   1U /* counts for conversation_count */
#define MP_EVENT_SESSION_CHANGE 2U /* changes keys of the session's own state */

typedef struct mp_event_row {
  int64_t revision;
  double timestamp;
  moonpad_string id;
  /* the whole event, compact, `revision` not included; data NULL: not asked for */
  moonpad_string json;
  uint64_t digest; /* of what the caller gave, where it gave an id; 0 otherwise */
  /* These two are read back only where a query asks for them; else they are NULL and 0. */
  moonpad_string invocation; /* its invocationId as the JSON spells it, without quotes */
  unsigned kinds;            /* MP_EVENT_... */
} mp_event_row;

typedef struct mp_listed_session {
  mp_session_row row;
  moonpad_string user_id;
  moonpad_string session_id;
} mp_listed_session;

/*
** Row callbacks return MOONPAD_OK to go on, MP_STOP to end the walk, which is a success then, or a
** failure, which ends it and is its result. Strings are borrowed for the call. A callback makes no
** further calls on the transaction.
*/
#define MP_STOP ((moonpad_status)0x7F)
static inline moonpad_status mp_walk_end(moonpad_status status) {
  return status == MP_STOP ? MOONPAD_OK : status;
}
typedef moonpad_status (*mp_each_state)(void *context, const mp_state_row *row, moonpad_error *error);
typedef moonpad_status (*mp_each_event)(void *context, const mp_event_row *row, moonpad_error *error);
typedef moonpad_status (*mp_each_session)(void *context, const mp_listed_session *session, moonpad_error *error);

/* ---- look: all that a rule wants to know ---- */

#define MP_EVERY_KEY INT64_C(-1) /* that has a value */
#define MP_NO_KEYS   INT64_MAX

typedef struct mp_look {
  mp_session_ref ref; /* by ref.session where that is known, else by name */
  unsigned heads;     /* MP_ALL_HEADS, or MP_HEAD of a user or an app alone */
  bool create;        /* such a user or app is made when missing; only inside `write` */
  /* rows whose revision is greater go to each_state, tombstones too; or the two above */
  int64_t since[MP_STORED_SCOPES];
  /*
  ** Keys that are wanted whatever their revision. Found are the value, one reference for the
  ** caller, and the revision of the row, tombstone or not; NULL and 0: there is none. When `look`
  ** fails, none of them holds a reference.
  */
  mp_state_row *keys;
  size_t key_count;
  moonpad_string event_id; /* an event that is wanted; data NULL: none */
  int64_t recent;          /* the last events that are wanted, in order; 0: none */
  mp_each_state each_state;
  mp_each_event each_event; /* the one by id before the recent ones */
  void *context;
} mp_look;

/*
** What it found. The store clears it first: where a head was not asked for, or nothing was found,
** its members are 0.
*/
typedef struct mp_facts {
  mp_session_row row;
  /* tombstones up to this revision have been purged; 0: none */
  int64_t forgotten[MP_STORED_SCOPES];
  /*
  ** When it was last used, in seconds; 0: not known. Of a session then its last_update_time counts;
  ** the state of a user or an app is left alone.
  */
  double touched[MP_STORED_SCOPES];
  /* every key with a value was given: MP_EVERY_KEY, or `since` lies before `forgotten` */
  bool whole[MP_STORED_SCOPES];
} mp_facts;

/* ---- walks ---- */

typedef struct mp_event_query {
  int64_t first; /* first <= revision <= last */
  int64_t last;
  bool newest_first;
  bool without_json;
  unsigned kinds;    /* only events that have one of these, and kinds are read back; 0: all */
  bool tags;         /* kinds and invocation are read back */
  moonpad_string id; /* only the event of this id; data NULL: all */
} mp_event_query;

typedef struct mp_list_query {
  moonpad_string app_name;
  bool has_user_id;
  moonpad_string user_id;
  /* ascending by (last_update_time, user_id, session_id) in byte order, or the exact reverse */
  bool newest_first;
  int64_t limit;  /* 0: all */
  bool has_after; /* only what comes strictly after this place in the order */
  double after_time;
  moonpad_string after_user_id;
  moonpad_string after_session_id;
  double touched_since; /* leaves out sessions that were last used before; 0: none */
} mp_list_query;

/*
** A listing with the states of all that is listed: the app's keys first, a user's keys before the
** first of its sessions, a session's own keys after it. No tombstones.
*/
typedef struct mp_listing {
  mp_each_session session;
  mp_each_state state; /* NULL: no keys are asked for */
  void *context;
} mp_listing;

/* ---- apply: all that a rule has decided ---- */

typedef struct mp_batch {
  mp_session_ref ref;
  /* of `heads`: the revisions (and of a session the other numbers) as they become */
  const mp_session_row *row;
  unsigned heads;           /* that change */
  double touched;           /* these heads are used now, in seconds; 0: leave that */
  const mp_state_row *keys; /* without a value: a tombstone */
  size_t key_count;
  /* of the session's base state; without a value: the row is removed */
  const mp_state_row *base_keys;
  size_t base_key_count;
  const mp_event_row *events; /* in order, behind those that are there */
  size_t event_count;
} mp_batch;

/* ---- housekeeping ---- */

typedef struct mp_touch {
  mp_session_ref ref;
  unsigned heads;
  double time; /* seconds */
} mp_touch;

#define MP_TOKEN_BYTES 16

typedef struct mp_tx_ops {
  size_t size;
  /* ---- reading ---- */
  /*
  ** No such session, user or app: MOONPAD_NOT_FOUND with no message. A missing wanted key or event
  ** is none.
  */
  moonpad_status (*look)(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error);
  moonpad_status (*each_listed)(mp_tx *tx, const mp_list_query *query, const mp_listing *listing, moonpad_error *error);
  /* In order, or the newest first. */
  moonpad_status (*each_event)(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                               mp_each_event each, void *context, moonpad_error *error);
  /*
  ** The revision of the first event of an invocation, spelt as in mp_event_row. None:
  ** MOONPAD_NOT_FOUND with no message.
  */
  moonpad_status (*find_invocation)(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                    int64_t *revision, moonpad_error *error);
  /* The session's own state at base_revision. */
  moonpad_status (*each_base_key)(mp_tx *tx, const mp_session_ref *session, mp_each_state each, void *context,
                                  moonpad_error *error);

  /* ---- writing (only inside `write`) ---- */
  /*
  ** Makes a session's row (revision 0, last_update_time = create_time), its user and app where they
  ** are missing. It exists: ALREADY_EXISTS with no message.
  */
  moonpad_status (*create_session)(mp_tx *tx, const moonpad_session_name *name, double create_time, mp_session_row *row,
                                   moonpad_error *error);
  /* With its events, state and base state. */
  moonpad_status (*remove_session)(mp_tx *tx, const mp_session_ref *session, moonpad_error *error);
  /*
  ** Found by name: with all its sessions and its state. *sessions: how many it had. No such user:
  ** MOONPAD_NOT_FOUND with no message.
  */
  moonpad_status (*remove_user)(mp_tx *tx, const mp_session_ref *user, int64_t *sessions, moonpad_error *error);
  /* An event's id is there already: ALREADY_EXISTS. */
  moonpad_status (*apply)(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
  /*
  ** The base state, and the events up to a revision, of one session become those of another, which
  ** has none.
  */
  moonpad_status (*copy_history)(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                 moonpad_error *error);

  /* ---- housekeeping (only inside `write`); each may be NULL: the store has no such thing ---- */
  /*
  ** Deletes the events up to a revision. The base state that they lead to is applied by the caller.
  */
  moonpad_status (*trim)(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
  /*
  ** Deletes the tombstones of one scope up to a revision, which the head then remembers
  ** as forgotten.
  */
  moonpad_status (*purge)(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last, moonpad_error *error);
  moonpad_status (*touch)(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
  /*
  ** Removes at most `limit` sessions that were last used before a time, or the state of so many
  ** users or apps: their heads stay, count up by one, and have forgotten all up to that revision.
  ** *removed: how many.
  */
  moonpad_status (*sweep)(mp_tx *tx, mp_scope scope, double touched_before, int64_t limit, int64_t *removed,
                          moonpad_error *error);
  /*
  ** Notes that a call without an event has been done, so that it is not done twice when its
  ** answer was lost: ALREADY_EXISTS with no message when it is noted already. Forgets those noted
  ** before `expired`.
  */
  moonpad_status (*claim_token)(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                moonpad_error *error);
} mp_tx_ops;

struct mp_tx {
  const mp_tx_ops *ops;
};

/*
** A transaction function: reads and writes through `tx`. If it returns anything but MOONPAD_OK,
** all that it wrote is undone and that status is the result. It may be called more than once (a
** store that retries, or whose commit was lost), and on another thread than the caller's: it starts
** afresh each time, takes no lock of the service, and never calls out to the host.
*/
typedef moonpad_status (*mp_tx_function)(mp_tx *tx, void *context, moonpad_error *error);

struct mp_plan; /* store/plan.h */

typedef struct mp_store_ops {
  size_t size;
  /* Any thread. MOONPAD_OK: committed, and durable as configured. After `close`: MOONPAD_CLOSED. */
  moonpad_status (*write)(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
  /* One consistent snapshot. Any thread. */
  moonpad_status (*read)(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
  /* NULL: there is none. */
  moonpad_status (*backup)(mp_store *store, moonpad_string path, moonpad_error *error);
  /* Waits for transactions under way; every later one is MOONPAD_CLOSED. Idempotent. Any thread. */
  void (*close)(mp_store *store);
  /* Closed before, and used by nobody. */
  void (*free)(mp_store *store);
  /*
  ** Stores what the service has decided in sight of what a session object holds, without asking:
  ** all plans in one transaction and one round trip. Each has its own outcome; one that is refused
  ** touches nothing, and the service then decides under `write`. A failure is of all of them. NULL
  ** where `write` costs no more. Any thread.
  */
  moonpad_status (*append)(mp_store *store, struct mp_plan *plans, size_t count, moonpad_error *error);
} mp_store_ops;

struct mp_store {
  const mp_store_ops *ops;
  /* its calls wait for nothing but each other: they are made where they are asked for */
  bool in_memory;
};

/* Has a table (of `type`) an operation, which an older or smaller store may lack? */
#define MP_HAS(type, table, operation)                                                                                 \
  ((table)->size >= offsetof(type, operation) + sizeof((table)->operation) && (table)->operation != NULL)

/*
** An opener. `rest` is the URL after "SCHEME:". The store keeps a reference to `env`. `options` is
** complete. *store is NULL when it fails. Passwords never appear in messages.
*/
typedef moonpad_status (*mp_store_open)(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                        mp_store **store, moonpad_error *error);
moonpad_status mp_memory_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error);
moonpad_status mp_sqlite_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                              moonpad_error *error);

/* What a module hands in through moonpad_options.stores. */
#define MP_STORE_VERSION 3 /* of this header; counts up when what is here changes */
struct moonpad_store_opener {
  unsigned version; /* MP_STORE_VERSION of whoever made it: another one is `unsupported` */
  mp_store_open open;
};

#endif
