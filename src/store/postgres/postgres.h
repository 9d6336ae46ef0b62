/*
** src/store/postgres: the store "postgresql:", on PostgreSQL 13 and later, by libpq.
** Does not belong here: rules of moonpad (src/service), and what stores on servers share
** (store/server). Arrows point down this list; none points up.
**
** open.c         URL and options, opening, closing, freeing
** append.c       plans: appends of one round trip each, several in one transaction
** tx.c           one transaction: begin, commit, roll back
** housekeeping.c trimming, purging, touching, sweeping, tokens
** write.c        applies batches; makes and removes sessions and users; copies histories
** events.c       walks over events
** list.c         lists of sessions with their state
** look.c         whole questions in one statement
** schema.c       the tables and functions; checks and migrates a schema
** connect.c      opens and closes a connection
** statements.c   the SQL of every question
** parameters.c   what is sent: values and arrays in PostgreSQL's binary format
** results.c      what comes back
** wire.c         sends statements and receives answers, with deadlines (libpq's pipeline mode)
** errors.c       what an error means: to the caller, and for trying again
**
** A round trip. Statements that only write are sent, and their answers are read together with that
** of the next question or of COMMIT. So a transaction of one question, any writes and a commit
** takes two round trips, and a question in `read` or a plan takes one.
**
** Locks. `write` locks the heads that it asks about, in the order session, user, app, before it
** reads: then nobody else changes what belongs to them before it ends. A plan locks them by
** counting them up, in the same order; a transaction of several plans first locks all sessions,
** then all users, each by id, and comes to its apps by id: so two of them cannot wait for each
** other. Under READ COMMITTED each statement sees what was committed when it began, so what is read
** after the lock is what counts.
**
** libpq does not use the host's allocator.
*/
#ifndef MP_STORE_POSTGRES_POSTGRES_H
#define MP_STORE_POSTGRES_POSTGRES_H

#include <libpq-fe.h>

#include "base/buffer.h"
#include "store/server/remote.h"

typedef enum mp_postgres_statement_id {
  MP_PG_BEGIN,
  MP_PG_BEGIN_READ,
  MP_PG_COMMIT,
  MP_PG_ROLLBACK,
  MP_PG_LOCK_SESSION,
  MP_PG_LOCK_SESSION_BY_NAME,
  MP_PG_LOCK_USER,
  MP_PG_LOCK_USER_AND_APP,
  MP_PG_LOCK_APP,
  MP_PG_LOCK_SESSIONS,
  MP_PG_LOCK_USERS,
  MP_PG_LOOK,
  MP_PG_LOOK_BY_NAME,
  MP_PG_GET,
  MP_PG_GET_BY_NAME,
  MP_PG_LOOK_AT_USER,
  MP_PG_LOOK_AT_APP,
  MP_PG_LIST_APP_OLDEST,
  MP_PG_LIST_APP_NEWEST,
  MP_PG_LIST_USER_OLDEST,
  MP_PG_LIST_USER_NEWEST,
  MP_PG_EVENT_BY_ID,
  MP_PG_EVENTS,
  MP_PG_EVENTS_NEWEST,
  MP_PG_FIND_INVOCATION,
  MP_PG_BASE_KEYS,
  MP_PG_CREATE_APP,
  MP_PG_CREATE_USER,
  MP_PG_CREATE_SESSION,
  MP_PG_REMOVE_SESSION,
  MP_PG_REMOVE_USER,
  MP_PG_WRITE_KEYS,
  MP_PG_WRITE_BASE_KEYS,
  MP_PG_REMOVE_BASE_KEYS,
  MP_PG_APPEND_EVENTS,
  MP_PG_UPDATE_SESSION,
  MP_PG_UPDATE_USER,
  MP_PG_UPDATE_APP,
  MP_PG_COPY_BASE_STATE,
  MP_PG_COPY_EVENTS,
  MP_PG_TRIM,
  MP_PG_PURGE,
  MP_PG_TOUCH,
  MP_PG_SWEEP,
  MP_PG_CLAIM_TOKEN,
  MP_PG_LIST_APPS,
  MP_PG_LIST_USERS,
  MP_PG_APPEND,
  MP_PG_NOTE_COMMIT,
  MP_PG_FIND_COMMIT,
  MP_PG_STATEMENTS /* from here on: the statements of mp_postgres_tables */
} mp_postgres_statement_id;

#define MP_PG_MOST_STATEMENTS (MP_PG_STATEMENTS + 12)

/*
** Tables beside those of the sessions, in the same schema, for a store of something else
** (src/agent_stores). Statements count from MP_PG_STATEMENTS.
*/
typedef struct mp_postgres_tables {
  const char *name;              /* of their version, in the table meta */
  const char *const *statements; /* SQL */
  const char *create;            /* SQL that makes the tables and functions of version 1 */
} mp_postgres_tables;

typedef struct mp_postgres mp_postgres;

/*
** Receives what a statement answers: all rows at once; or, if it was sent so, one row each time.
** Its failure is the store's own.
*/
typedef moonpad_status (*mp_postgres_rows)(void *context, const PGresult *rows, moonpad_error *error);

/* A statement that has been sent, or a sync behind some. */
typedef struct mp_postgres_pending {
  int id;
  bool is_sync;
  bool prepares; /* it is prepared, not run */
  bool by_row;
  mp_postgres_rows rows; /* NULL: only a failure counts */
  void *context;
} mp_postgres_pending;

/* Used by one thread at a time. */
typedef struct mp_postgres_connection {
  mp_remote_connection base; /* first */
  mp_postgres *store;
  PGconn *pg;
  bool prepared[MP_PG_MOST_STATEMENTS];
  mp_postgres_pending *pending; /* a queue: what is sent and not answered yet */
  size_t pending_first, pending_count, pending_capacity;
  mp_buffer scratch; /* arrays on their way out, an event's text on its way in */
} mp_postgres_connection;

struct mp_postgres {
  mp_remote remote; /* first */
  char *url;        /* for libpq, without moonpad's own options; may hold the password */
  char *schema;     /* its name */
  char *quoted_schema;
  const mp_postgres_tables *tables; /* NULL: it is a store of sessions */
};

/* ---- open.c ---- */

moonpad_status mp_postgres_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                                moonpad_error *error);
/* The same with other tables beside those of the sessions. */
moonpad_status mp_postgres_open_tables(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       const mp_postgres_tables *tables, mp_store **store, moonpad_error *error);

/*
** The SQL that makes the schema of a URL from nothing, with these tables beside those of the
** sessions. No server is asked. Errors: invalid_argument, no_memory.
*/
moonpad_status mp_postgres_print_schema(mp_env *env, moonpad_string rest, const mp_postgres_tables *const *tables,
                                        size_t count, mp_buffer *sql, moonpad_error *error);

/* ---- append.c: of mp_remote_ops ---- */

void mp_postgres_send_plans(mp_remote_connection *connection, mp_sent_plan *const *plans, size_t count);

/* ---- tx.c ---- */

typedef struct mp_postgres_tx {
  mp_tx tx; /* first */
  mp_postgres_connection *connection;
  mp_env *env;
  bool is_write;
  bool is_snapshot; /* it reads, in a transaction of its own */
  bool begun;
  bool wrote;
  bool asked; /* a question has been answered */
} mp_postgres_tx;

static inline mp_postgres_tx *mp_postgres_tx_of(mp_tx *tx) {
  return (mp_postgres_tx *)tx;
}

/* Of mp_remote_ops. */
moonpad_status mp_postgres_run(mp_remote_connection *connection, mp_remote_attempt *once, bool *sent);
moonpad_status mp_postgres_find_commit(mp_remote_connection *connection, const mp_remote_attempt *once, bool *is_done);

/*
** Before a question: begins the transaction where it has to. Fails where the question is a second
** one of a `read` that has no transaction: the store then calls the function again.
*/
moonpad_status mp_postgres_before_question(mp_postgres_tx *tx, moonpad_error *error);
/* Before a statement that only writes. */
moonpad_status mp_postgres_before_write(mp_postgres_tx *tx, moonpad_error *error);

/* ---- look.c, list.c, events.c, write.c, housekeeping.c: the operations of mp_tx_ops ---- */

moonpad_status mp_postgres_look(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error);
moonpad_status mp_postgres_each_listed(mp_tx *tx, const mp_list_query *query, const mp_listing *listing,
                                       moonpad_error *error);
moonpad_status mp_postgres_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error);
moonpad_status mp_postgres_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                     moonpad_error *error);
moonpad_status mp_postgres_each_event(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                                      mp_each_event each, void *context, moonpad_error *error);
moonpad_status mp_postgres_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                           int64_t *revision, moonpad_error *error);
moonpad_status mp_postgres_each_base_key(mp_tx *tx, const mp_session_ref *session, mp_each_state each, void *context,
                                         moonpad_error *error);
moonpad_status mp_postgres_create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                          mp_session_row *row, moonpad_error *error);
moonpad_status mp_postgres_remove_session(mp_tx *tx, const mp_session_ref *session, moonpad_error *error);
moonpad_status mp_postgres_remove_user(mp_tx *tx, const mp_session_ref *user, int64_t *sessions, moonpad_error *error);
moonpad_status mp_postgres_apply(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
moonpad_status mp_postgres_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                        moonpad_error *error);
moonpad_status mp_postgres_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
moonpad_status mp_postgres_purge(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last,
                                 moonpad_error *error);
moonpad_status mp_postgres_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
moonpad_status mp_postgres_sweep(mp_tx *tx, mp_sweep *sweep, moonpad_error *error);
moonpad_status mp_postgres_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                       moonpad_error *error);

/* look.c: columns of the heads, as numbers and times. False: they are out of range. */
bool mp_postgres_read_heads(const PGresult *rows, int row, int numbers, int times, mp_facts *facts);
/* events.c: the text of an event. Fails where it is no JSON object. */
moonpad_status mp_postgres_check_event(mp_postgres_connection *connection, moonpad_string *json, moonpad_error *error);
/* Makes a missing app and, unless `user_id` has no data, a missing user. Sent, not asked. */
moonpad_status mp_postgres_make_shared(mp_postgres_tx *tx, const moonpad_session_name *name, moonpad_error *error);

/* ---- schema.c ---- */

/* Finds the schema, or makes it where that is allowed. Errors: unsupported, storage, corrupt. */
moonpad_status mp_postgres_prepare_schema(mp_postgres_connection *connection, moonpad_error *error);

/*
** The SQL that makes a schema from nothing, in one transaction, with these tables beside those of
** the sessions.
*/
void mp_postgres_write_schema(const char *quoted_schema, const mp_postgres_tables *const *tables, size_t count,
                              mp_buffer *sql);

/* ---- connect.c ---- */

/* Of mp_remote_ops. Until it is started a connection takes texts only (mp_postgres_run_text). */
mp_remote_connection *mp_postgres_connect(mp_remote *store, mp_remote_failure *failure);
moonpad_status mp_postgres_start(mp_remote_connection *connection, moonpad_error *error);
void mp_postgres_disconnect(mp_remote_connection *connection);
bool mp_postgres_is_connected(const mp_remote_connection *connection);

/* ---- statements.c ---- */

extern const char *const mp_postgres_statements[MP_PG_STATEMENTS];

/* ---- parameters.c ---- */

#define MP_PG_MOST_PARAMETERS 25

/* What a statement is sent with. Its strings are borrowed until it is sent. */
typedef struct mp_postgres_parameters {
  mp_postgres_connection *connection; /* its scratch holds the arrays */
  int count;
  const char *values[MP_PG_MOST_PARAMETERS]; /* NULL: see is_array, else the parameter is NULL */
  int lengths[MP_PG_MOST_PARAMETERS];
  int formats[MP_PG_MOST_PARAMETERS];
  char numbers[MP_PG_MOST_PARAMETERS][8];
  bool is_array[MP_PG_MOST_PARAMETERS];
  size_t array_at[MP_PG_MOST_PARAMETERS]; /* where in the scratch */
  size_t count_at;                        /* in the scratch: the length of the last array */
  uint32_t items;                         /* in that array */
  size_t bytes;                           /* of all values */
  bool too_large;                         /* they are more than a statement takes */
} mp_postgres_parameters;

void mp_postgres_parameters_init(mp_postgres_parameters *parameters, mp_postgres_connection *connection);
void mp_postgres_add_integer(mp_postgres_parameters *parameters, int64_t number);
void mp_postgres_add_small(mp_postgres_parameters *parameters, int number); /* an int4 */
void mp_postgres_add_double(mp_postgres_parameters *parameters, double number);
void mp_postgres_add_boolean(mp_postgres_parameters *parameters, bool value);
void mp_postgres_add_text(mp_postgres_parameters *parameters, moonpad_string text);
void mp_postgres_add_bytes(mp_postgres_parameters *parameters, moonpad_string bytes);
void mp_postgres_add_null(mp_postgres_parameters *parameters);

typedef enum mp_postgres_type {
  MP_PG_INT8 = 20,
  MP_PG_INT4 = 23,
  MP_PG_TEXT = 25,
  MP_PG_BYTEA = 17,
  MP_PG_FLOAT8 = 701
} mp_postgres_type;

/* An array: begin, items, end. */
void mp_postgres_begin_array(mp_postgres_parameters *parameters, mp_postgres_type type);
void mp_postgres_item_integer(mp_postgres_parameters *parameters, int64_t number);
void mp_postgres_item_small(mp_postgres_parameters *parameters, int number);
void mp_postgres_item_double(mp_postgres_parameters *parameters, double number);
void mp_postgres_item_bytes(mp_postgres_parameters *parameters, moonpad_string bytes);
/* NULL becomes NULL. */
void mp_postgres_item_value(mp_postgres_parameters *parameters, const mp_value *value);
void mp_postgres_item_null(mp_postgres_parameters *parameters);
void mp_postgres_end_array(mp_postgres_parameters *parameters);

/* ---- results.c ---- */

bool mp_postgres_is_null(const PGresult *rows, int row, int column);
/* An int8, int4 or boolean; NULL: 0. */
int64_t mp_postgres_integer(const PGresult *rows, int row, int column);
double mp_postgres_double(const PGresult *rows, int row, int column);
moonpad_string mp_postgres_bytes(const PGresult *rows, int row, int column); /* NULL: data NULL */
/* An array of int8 or float8, into `out`; false: it has another length. */
bool mp_postgres_integers(const PGresult *rows, int row, int column, int64_t *out, size_t count);
bool mp_postgres_doubles(const PGresult *rows, int row, int column, double *out, size_t count);

/* Walks over an array's items. An array that is NULL has none. */
typedef struct mp_postgres_array {
  moonpad_string left;
  size_t count; /* of items that are left */
} mp_postgres_array;
mp_postgres_array mp_postgres_array_of(const PGresult *rows, int row, int column);
/* False: there is none. An item that is NULL has no data. */
bool mp_postgres_next_item(mp_postgres_array *array, moonpad_string *item);
int64_t mp_postgres_item_as_integer(moonpad_string item);

/* A state row; its value is one reference for the caller. */
moonpad_status mp_postgres_read_state(mp_postgres_connection *connection, mp_scope scope, moonpad_string key,
                                      moonpad_string value, int64_t revision, mp_state_row *row, moonpad_error *error);

/* ---- wire.c ---- */

/*
** Sends a statement; it is prepared first where it has not been. Its answer goes to `rows` (may be
** NULL) when it comes. `parameters` NULL: it has none. Errors: the connection's, which then has a
** failure.
*/
moonpad_status mp_postgres_send(mp_postgres_connection *connection, int id, const mp_postgres_parameters *parameters,
                                mp_postgres_rows rows, void *context, moonpad_error *error);
/* The same, and `rows` is called for each row as it arrives. */
moonpad_status mp_postgres_send_by_row(mp_postgres_connection *connection, int id,
                                       const mp_postgres_parameters *parameters, mp_postgres_rows rows, void *context,
                                       moonpad_error *error);
/* The end of what belongs together: an error leaves out what is before it, not behind it. */
moonpad_status mp_postgres_send_sync(mp_postgres_connection *connection, moonpad_error *error);
/* Receives all answers. Fails with the first failure, which is in connection->base.failure. */
moonpad_status mp_postgres_receive(mp_postgres_connection *connection, moonpad_error *error);
/* Receives the answers up to the next sync. */
moonpad_status mp_postgres_receive_part(mp_postgres_connection *connection, moonpad_error *error);
/* Runs SQL that returns nothing that counts, on a connection that has not been started. */
moonpad_status mp_postgres_run_text(mp_postgres_connection *connection, const char *sql, moonpad_error *error);
/* The same with one value as the answer, freed with free(). *value NULL: there is no row. */
moonpad_status mp_postgres_ask_text(mp_postgres_connection *connection, const char *sql, char **value,
                                    moonpad_error *error);
/* Sync and receive. */
moonpad_status mp_postgres_round_trip(mp_postgres_connection *connection, moonpad_error *error);

/*
** The round trip of a walk. Its callbacks note in `walked` and `reason` how they have ended: that
** is the result, and no failure of the store.
*/
moonpad_status mp_postgres_finish_walk(mp_postgres_connection *connection, const moonpad_status *walked,
                                       const moonpad_error *reason, moonpad_error *error);

/* ---- errors.c ---- */

/* Notes a failure, if it is the first, and words it for the caller. */
moonpad_status mp_postgres_fail(mp_postgres_connection *connection, const PGresult *result, moonpad_error *error);
/* Of libpq: the connection is lost, or was never made. `what` may be NULL: what libpq says. */
moonpad_status mp_postgres_lost(mp_postgres_connection *connection, const char *what, moonpad_error *error);
moonpad_status mp_postgres_corrupt(mp_postgres_connection *connection, const char *what, moonpad_error *error);
/* A failure of a callback: memory, say. */
moonpad_status mp_postgres_note(mp_postgres_connection *connection, moonpad_status status, const moonpad_error *error);

#endif
