/*
** src/store/mysql: the store "mysql:", on MariaDB 10.6 and MySQL 8 and later, by libmariadb.
** Does not belong here: rules of moonpad (src/service), and what stores on servers share
** (store/server). Arrows point down this list; none points up.
**
** open.c         URL and options, opening, freeing
** append.c       plans: appends of one round trip each, several in one transaction
** tx.c           one transaction: begin, commit, roll back
** housekeeping.c trimming, purging, touching, sweeping, tokens
** write.c        applies batches; makes and removes sessions and users; copies histories
** events.c       walks over events
** list.c         lists of sessions with their state
** look.c         whole questions
** schema.c       finds, checks and makes the tables and procedures
** tables.c       their SQL
** connect.c      opens and closes a connection
** wire.c         texts of several statements on their way out, results on their way in
** errors.c       what an error means: to the caller, and for trying again
**
** A round trip. The protocol has no pipeline of prepared statements, but takes a text of several
** statements at once: so everything is text, and all values in it are quoted here (wire.c).
** Statements that only write are sent with the next question or with COMMIT. So a transaction of
** one question, any writes and a commit takes two round trips; a question in `read`, or a plan,
** takes one. An error ends a text: what stands behind it is not carried out.
**
** Locks. As on PostgreSQL: `write` locks the heads that it asks about in the order session, user,
** app, before it reads; a plan does the same. Under READ COMMITTED each statement sees what was
** committed when it began, so what is read after the lock is what counts. `read` has a snapshot.
**
** libmariadb does not use the host's allocator.
*/
#ifndef MP_STORE_MYSQL_MYSQL_H
#define MP_STORE_MYSQL_MYSQL_H

#include <mysql.h>
#include <stdatomic.h>

#include "base/buffer.h"
#include "store/server/remote.h"
#include "store/server/url.h"

typedef struct mp_mysql mp_mysql;

/* One row of a result. Its strings are borrowed. */
typedef struct mp_mysql_row {
  MYSQL_ROW values;
  const unsigned long *lengths;
  unsigned count; /* of columns */
} mp_mysql_row;

/* Receives one row. Its failure is the store's own. */
typedef moonpad_status (*mp_mysql_take)(void *context, const mp_mysql_row *row, moonpad_error *error);

/* A statement in the text that is being written, or that was sent and is not answered yet. */
typedef struct mp_mysql_pending {
  bool is_call;        /* of a procedure: it has any number of results with rows */
  bool is_guard;       /* it fails where Galera has given up the transaction (tx.c) */
  bool appends_events; /* what is there already is an event with its id or revision */
  MYSQL_RES **kept;    /* its result, to be freed by who has asked; NULL: rows go to `take` */
  mp_mysql_take take;  /* NULL: only a failure counts */
  void *context;
} mp_mysql_pending;

/* Used by one thread at a time. */
typedef struct mp_mysql_connection {
  mp_remote_connection base; /* first */
  mp_mysql *store;
  MYSQL *my;
  unsigned host;  /* which of the URL's */
  unsigned move;  /* what `moves` of the store was before it was opened */
  mp_buffer text; /* statements that are not sent yet */
  mp_mysql_pending *pending;
  size_t pending_count, pending_capacity;
  size_t answered;    /* of the last text: how many statements are answered without an error */
  int64_t max_packet; /* a text may have so many bytes */
  bool is_open;       /* a transaction may be open on the server */
  bool is_galera;     /* the server is a node of a cluster */
  mp_buffer scratch;  /* an event's text on its way in */
} mp_mysql_connection;

/*
** Tables beside those of the sessions, in the same database, for a store of something else
** (src/agent_stores).
*/
typedef struct mp_mysql_tables {
  const char *name;          /* of their version, in the table meta */
  const char *const *create; /* SQL of version 1, a statement each; ends with NULL */
} mp_mysql_tables;

#define MP_MYSQL_LONGEST_PREFIX 20

struct mp_mysql {
  mp_remote remote; /* first */
  mp_url_parts url;
  char prefix[MP_MYSQL_LONGEST_PREFIX + 1]; /* of the names of tables and procedures */
  char *socket;                             /* NULL: it is reached by TCP */
  bool has_tls;
  bool verifies; /* that the server is the one that it should be */
  char *ca, *cert, *key;
  const mp_mysql_tables *tables; /* NULL: it is a store of sessions */
  atomic_uint host;              /* of the URL's, to which its connections are */
  atomic_uint moves;             /* connections from before the last one are not used any more */
};

/* ---- open.c ---- */

moonpad_status mp_mysql_open(mp_env *env, moonpad_string rest, const moonpad_options *options, mp_store **store,
                             moonpad_error *error);
/* The same with other tables beside those of the sessions. */
moonpad_status mp_mysql_open_tables(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                    const mp_mysql_tables *tables, mp_store **store, moonpad_error *error);
/*
** The SQL that makes the tables of a URL from nothing, with these beside those of the sessions, for
** the command `mariadb`. No server is asked. Errors: invalid_argument, no_memory.
*/
moonpad_status mp_mysql_print_schema(mp_env *env, moonpad_string rest, const mp_mysql_tables *const *tables,
                                     size_t count, mp_buffer *sql, moonpad_error *error);

/* ---- append.c: of mp_remote_ops ---- */

void mp_mysql_send_plans(mp_remote_connection *connection, mp_sent_plan *const *plans, size_t count);

/* ---- tx.c ---- */

typedef struct mp_mysql_tx {
  mp_tx tx; /* first */
  mp_mysql_connection *connection;
  mp_env *env;
  bool is_write;
  bool is_snapshot; /* it reads, and puts more than one question */
  bool begun;
  bool wrote;
} mp_mysql_tx;

static inline mp_mysql_tx *mp_mysql_tx_of(mp_tx *tx) {
  return (mp_mysql_tx *)tx;
}

/*
** A transaction that writes: adds its begin to the text; sends the text with its end, and rolls
** back where that fails. They stand around all that changes rows.
*/
void mp_mysql_add_begin(mp_mysql_connection *connection);
moonpad_status mp_mysql_commit(mp_mysql_connection *connection, moonpad_error *error);

/* Of mp_remote_ops. */
moonpad_status mp_mysql_run(mp_remote_connection *connection, mp_remote_attempt *once, bool *sent);
moonpad_status mp_mysql_find_commit(mp_remote_connection *connection, const mp_remote_attempt *once, bool *is_done);

/*
** Before a question: begins the transaction where it has to. Fails where the question is a second
** one of a `read` that was thought to have one: the store then calls the function again.
*/
moonpad_status mp_mysql_before_question(mp_mysql_tx *tx, moonpad_error *error);
/* Before a statement that only writes. */
moonpad_status mp_mysql_before_write(mp_mysql_tx *tx, moonpad_error *error);
/* Forgets what is not sent, and ends a transaction that may be open; the failure noted stays. */
void mp_mysql_roll_back(mp_mysql_connection *connection);
/* Sends the question, and with it the end of a transaction that has no other. */
moonpad_status mp_mysql_ask(mp_mysql_tx *tx, moonpad_error *error);

/* ---- look.c, list.c, events.c, write.c, housekeeping.c: the operations of mp_tx_ops ---- */

moonpad_status mp_mysql_look(mp_tx *tx, mp_look *look, mp_facts *facts, moonpad_error *error);
moonpad_status mp_mysql_each_listed(mp_tx *tx, const mp_list_query *query, const mp_listing *listing,
                                    moonpad_error *error);
moonpad_status mp_mysql_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error);
moonpad_status mp_mysql_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                  moonpad_error *error);
moonpad_status mp_mysql_each_event(mp_tx *tx, const mp_session_ref *session, const mp_event_query *query,
                                   mp_each_event each, void *context, moonpad_error *error);
moonpad_status mp_mysql_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                        int64_t *revision, moonpad_error *error);
moonpad_status mp_mysql_each_base_key(mp_tx *tx, const mp_session_ref *session, mp_each_state each, void *context,
                                      moonpad_error *error);
moonpad_status mp_mysql_create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                       mp_session_row *row, moonpad_error *error);
moonpad_status mp_mysql_remove_session(mp_tx *tx, const mp_session_ref *session, moonpad_error *error);
moonpad_status mp_mysql_remove_user(mp_tx *tx, const mp_session_ref *user, int64_t *sessions, moonpad_error *error);
moonpad_status mp_mysql_apply(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
moonpad_status mp_mysql_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                     moonpad_error *error);
moonpad_status mp_mysql_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
moonpad_status mp_mysql_purge(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last, moonpad_error *error);
moonpad_status mp_mysql_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
moonpad_status mp_mysql_sweep(mp_tx *tx, mp_sweep *sweep, moonpad_error *error);
moonpad_status mp_mysql_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                    moonpad_error *error);

/* look.c: the columns of heads (MP_MYSQL_HEADS). False: a revision is out of range. */
#define MP_MYSQL_HEADS 16
bool mp_mysql_read_heads(const mp_mysql_row *row, unsigned first, mp_facts *facts);
/* A state row from its columns scope, key, value, revision; its value is the caller's. */
moonpad_status mp_mysql_read_state(mp_mysql_connection *connection, const mp_mysql_row *row, mp_state_row *state,
                                   moonpad_error *error);
/* events.c: the text of an event. Fails where it is no JSON object. */
moonpad_status mp_mysql_check_event(mp_mysql_connection *connection, moonpad_string *json, moonpad_error *error);

/* ---- schema.c ---- */

/* Finds the tables, or makes them where that is allowed. Errors: unsupported, storage, corrupt. */
moonpad_status mp_mysql_prepare_schema(mp_mysql_connection *connection, moonpad_error *error);
/* The SQL that makes everything from nothing. */
void mp_mysql_write_schema(const char *prefix, const mp_mysql_tables *const *tables, size_t count, mp_buffer *sql);

/* ---- tables.c ---- */

/* Statements that make all of schema 1; ends with NULL. */
extern const char *const mp_mysql_create_all[];

/* ---- connect.c: of mp_remote_ops ---- */

mp_remote_connection *mp_mysql_connect(mp_remote *store, mp_remote_failure *failure);
void mp_mysql_disconnect(mp_remote_connection *connection);
bool mp_mysql_is_connected(const mp_remote_connection *connection);

/* ---- wire.c ---- */

/*
** Writing a statement: begin, its text and values in order. In SQL each # stands for the prefix of
** the store's names. What fails for want of memory fails when it is sent.
*/
void mp_mysql_begin(mp_mysql_connection *connection, mp_mysql_take take, void *context);
/* The same for a result that is kept whole, until the caller frees it with mysql_free_result. */
void mp_mysql_begin_kept(mp_mysql_connection *connection, MYSQL_RES **result);
/* For an INSERT into the table of events. */
void mp_mysql_begin_events(mp_mysql_connection *connection);
/* For the statement that fails where Galera has given up the transaction. */
void mp_mysql_begin_guard(mp_mysql_connection *connection);
/* For CALL; and for one that appends an event. */
void mp_mysql_begin_append(mp_mysql_connection *connection, mp_mysql_take take, void *context);
void mp_mysql_begin_call(mp_mysql_connection *connection, mp_mysql_take take, void *context);
void mp_mysql_sql(mp_mysql_connection *connection, const char *sql);
void mp_mysql_integer(mp_mysql_connection *connection, int64_t number);
/* Both. */
void mp_mysql_sql_integer(mp_mysql_connection *connection, const char *sql, int64_t number);
/* A finite number. */
void mp_mysql_double(mp_mysql_connection *connection, double number);
/* Without data, and without a value: NULL. */
void mp_mysql_bytes(mp_mysql_connection *connection, moonpad_string bytes);
void mp_mysql_value(mp_mysql_connection *connection, const mp_value *value);
/* The columns of an event between its revision and its JSON. */
void mp_mysql_event(mp_mysql_connection *connection, const mp_event_row *event);
/* A whole statement without values, of which only a failure counts. */
void mp_mysql_add(mp_mysql_connection *connection, const char *sql);
/* Copies SQL, with the prefix in place of each #. */
void mp_mysql_expand(mp_buffer *out, const char *prefix, const char *sql);

/*
** Sends what has been written, and receives all results. Fails with the first failure, which is in
** connection->failure; what was written is forgotten either way.
*/
moonpad_status mp_mysql_round_trip(mp_mysql_connection *connection, moonpad_error *error);
/* Between two statements of a transaction that writes: sends what is written if it is long. */
moonpad_status mp_mysql_send_some(mp_mysql_connection *connection, moonpad_error *error);
/* Fails, as sending it would, where a text of so many bytes is not worth writing. */
moonpad_status mp_mysql_check_length(mp_mysql_connection *connection, size_t length, moonpad_error *error);
/* Forgets what has been written and not sent. */
void mp_mysql_forget(mp_mysql_connection *connection);

/*
** The end of a walk, whose callbacks note in `walked` and `reason` how they have ended: that is the
** result, and no failure of the store.
*/
moonpad_status mp_mysql_finish_walk(mp_mysql_tx *tx, const moonpad_status *walked, const moonpad_error *reason,
                                    moonpad_error *error);

bool mp_mysql_is_null(const mp_mysql_row *row, unsigned column);
int64_t mp_mysql_integer_of(const mp_mysql_row *row, unsigned column); /* NULL: 0 */
double mp_mysql_double_of(const mp_mysql_row *row, unsigned column);
moonpad_string mp_mysql_bytes_of(const mp_mysql_row *row, unsigned column); /* NULL: data NULL */

/* ---- errors.c ---- */

/* What the procedures raise (tables.c). */
#define MP_MYSQL_REFUSED  45001
#define MP_MYSQL_MISSING  45002
#define MP_MYSQL_GIVEN_UP 45003
#define MP_MYSQL_GONE     45004
#define MP_MYSQL_KNOWN    45005

/* Notes the failure of the last call of libmariadb, and words it. `connection->is_open` follows. */
moonpad_status mp_mysql_fail(mp_mysql_connection *connection, moonpad_error *error);
moonpad_status mp_mysql_corrupt(mp_mysql_connection *connection, const char *what, moonpad_error *error);
/* Notes a failure of a callback: memory, say. */
moonpad_status mp_mysql_note(mp_mysql_connection *connection, moonpad_status status, const moonpad_error *error);
/* Why there is no connection. */
void mp_mysql_refuse(const mp_mysql *store, MYSQL *my, mp_remote_failure *failure);

#endif
