/*
** The SQLite store, inside. One connection writes, behind a queue in which transactions that wait
** at the same time share a commit (group commit); a pool of connections reads, each transaction one
** snapshot. ":memory:" has the writing connection only.
**
** open.c        URL to path, opening, freeing
** connection.c  one connection: how it is set up, how it waits, what its errors mean
** files.c       whether the files are still those that were opened
** schema.c      the tables, and whether a file has them
** statement.c   the SQL of every transaction, prepared once
** tx.c          transactions: group commit, snapshots, closing
** rows.c        rows that the writing connection remembers
** recent.c      the keys of a scope that were changed last
** read.c        heads, state and lists: reading; the tables of what a transaction can do
** write.c       heads and state: writing
** events.c      events: reading and writing
** housekeeping.c  what was last used when, and what is no longer needed
** backup.c      a copy while others write
**
** SQLite's own memory is not taken from the host's allocator: its allocator is global to the
** process, which is the host's to set. A forked child must not use a store that its parent opened:
** SQLite's locks belong to the process.
*/
#ifndef MP_STORE_SQLITE_SQLITE_H
#define MP_STORE_SQLITE_SQLITE_H

#include <pthread.h>
#include <sqlite3.h>

#include "base/number.h"
#include "store/parts.h"

typedef enum mp_sqlite_statement_id {
  MP_SQL_BEGIN_READ,
  MP_SQL_BEGIN_WRITE,
  MP_SQL_COMMIT,
  MP_SQL_ROLLBACK,
  MP_SQL_SAVEPOINT,
  MP_SQL_RELEASE,
  MP_SQL_ROLLBACK_TO,
  MP_SQL_VERSION,
  MP_SQL_FIND_SESSION,
  MP_SQL_LOAD_SESSION,
  MP_SQL_FIND_APP,
  MP_SQL_FIND_USER,
  MP_SQL_SESSION_HEAD,
  MP_SQL_SHARED_HEAD,
  MP_SQL_READ_KEY,
  MP_SQL_READ_KEY_SINCE,
  MP_SQL_EACH_KEY,
  MP_SQL_EACH_KEY_SINCE,
  MP_SQL_EACH_BASE_KEY,
  MP_SQL_FIND_EVENT,
  MP_SQL_EACH_EVENT,
  MP_SQL_SOME_EVENTS,
  MP_SQL_SOME_EVENTS_NEWEST,
  MP_SQL_FIND_INVOCATION,
  MP_SQL_LIST_APP_OLDEST,
  MP_SQL_LIST_APP_NEWEST,
  MP_SQL_LIST_USER_OLDEST,
  MP_SQL_LIST_USER_NEWEST,
  MP_SQL_CREATE_APP,
  MP_SQL_CREATE_USER,
  MP_SQL_CREATE_SESSION,
  MP_SQL_DELETE_EVENTS,
  MP_SQL_DELETE_STATE,
  MP_SQL_DELETE_BASE_STATE,
  MP_SQL_DELETE_SESSION,
  MP_SQL_DELETE_USER,
  MP_SQL_COPY_BASE_STATE,
  MP_SQL_COPY_EVENTS,
  MP_SQL_WRITE_KEY,
  MP_SQL_WRITE_BASE_KEY,
  MP_SQL_REMOVE_BASE_KEY,
  MP_SQL_WRITE_SESSION_HEAD,
  MP_SQL_WRITE_SHARED_HEAD,
  MP_SQL_APPEND_EVENT,
  MP_SQL_UPDATE_SESSION,
  MP_SQL_PURGE,
  MP_SQL_NEXT_UNUSED_SESSION,
  MP_SQL_NEXT_UNUSED_USER,
  MP_SQL_NEXT_UNUSED_APP,
  MP_SQL_CLAIM_TOKEN,
  MP_SQL_FORGET_TOKENS,
  MP_SQL_COUNT
} mp_sqlite_statement_id;

typedef struct mp_sqlite mp_sqlite;
typedef struct mp_sqlite_request mp_sqlite_request;

#define MP_SQLITE_ROWS_KEPT 64

/*
** The keys of a scope that were changed last. All that were changed after `floor` are among
** them. Each append writes the list: at 240 bytes one that changes many keys in turn took a
** tenth longer.
*/
#define MP_SQLITE_RECENT_BYTES 160
#define MP_SQLITE_RECENT_TEXT  (MP_SQLITE_RECENT_BYTES + 2 * MP_NUMBER_BYTES + 3)
typedef struct mp_sqlite_recent {
  int64_t as_of; /* the head's revision */
  int64_t floor;
  size_t length;
  char entries[MP_SQLITE_RECENT_BYTES]; /* ,"KEY",REVISION; the last one first */
} mp_sqlite_recent;

typedef struct mp_sqlite_head {
  int64_t id; /* 0: none */
  int64_t revision;
  int64_t forgotten;
  double touched;
  mp_sqlite_recent recent;
  unsigned epoch; /* as in mp_sqlite_rows, or it has been forgotten */
} mp_sqlite_head;

/*
** Of each kind the last one whose id falls on a place. A session is known while its three heads
** are: those of user and app are of other sessions, too.
*/
typedef struct mp_sqlite_rows {
  mp_session_row sessions[MP_SQLITE_ROWS_KEPT];
  mp_sqlite_head heads[MP_STORED_SCOPES][MP_SQLITE_ROWS_KEPT];
  unsigned epoch;
  bool committed;   /* holds as of `version`; false within a transaction */
  unsigned version; /* of the file, as SQLite counts */
} mp_sqlite_rows;

/* One thread at a time. */
typedef struct mp_sqlite_connection {
  mp_parts_tx tx; /* of the transaction that it runs; its data is the connection */
  mp_sqlite *store;
  const char *path; /* for messages; borrowed */
  sqlite3 *db;
  sqlite3_stmt *statements[MP_SQL_COUNT];
  mp_buffer scratch; /* a value on its way to or from JSON */
  /* the first failure of the store in this transaction, which must not be committed then */
  moonpad_status failure;
  double waiting_since; /* for the busy handler, monotonic */
  bool checkpointing;   /* it waits, if at all, for a few steps only */
  bool read_from;       /* somebody's snapshot kept the last checkpoint from its end */
  /* frames that the WAL had when this connection last wrote them back */
  int checkpointed;
  double tokens_forgotten;           /* when it last looked for tokens that nobody needs */
  mp_sqlite_rows *rows;              /* of the writing connection; NULL for one that reads */
  struct mp_sqlite_connection *next; /* in the pool */
} mp_sqlite_connection;

/* Two names with one device and number are of one file. */
typedef struct mp_sqlite_identity {
  uint64_t device;
  uint64_t number;
  uint64_t size; /* in bytes; does not tell files apart */
} mp_sqlite_identity;

typedef struct mp_sqlite_file {
  char *path;
  mp_sqlite_identity opened; /* what had this name when the store was opened */
  bool is_known;             /* otherwise nothing is checked */
} mp_sqlite_file;

#define MP_SQLITE_FILES 3

struct mp_sqlite {
  mp_store base; /* first */
  mp_env *env;
  char *path;                            /* absolute once open, or ":memory:" */
  mp_sqlite_file files[MP_SQLITE_FILES]; /* PATH, PATH-wal, PATH-shm */
  bool in_memory;
  moonpad_durability durability;
  int64_t busy_timeout_ms;
  mp_sqlite_connection *writer;

  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t idle;   /* nothing is under way any more, or closing is done */
  mp_sqlite_request *first_waiting, *last_waiting;
  mp_sqlite_connection *free_readers;
  unsigned free_reader_count;
  unsigned readers;    /* reads and backups under way */
  unsigned waiting;    /* in the queue */
  unsigned last_batch; /* how many shared the last commit */
  double last_commit;  /* how long it took, in seconds */
  bool writing;        /* somebody has the writing connection */
  bool closing;        /* no new transactions */
  bool closed;
};

/* ---- sqlite_open.c ---- */

/*
** The path in a URL, whose "sqlite:" has been taken off; borrowed from it.
** Errors: invalid_argument.
*/
moonpad_status mp_sqlite_path_of_url(moonpad_string rest, moonpad_string *path, moonpad_error *error);

/*
** A path as SQLite takes it for a path whatever it looks like (not as ":memory:" or a "file:" URI).
** NULL when out of memory.
*/
char *mp_sqlite_file_name(mp_env *env, moonpad_string path);

/* ---- sqlite_connection.c ---- */

/*
** Opens `path`; `flags` are SQLITE_OPEN_*. Waiting, JSON text and hardening are set up; journal and
** tables are not looked at.
*/
moonpad_status mp_sqlite_connect(mp_sqlite *store, const char *path, int flags, mp_sqlite_connection **connection,
                                 moonpad_error *error);
void mp_sqlite_disconnect(mp_sqlite_connection *connection); /* NULL is accepted */
/* Empties `scratch`; its memory is kept unless it is much. */
void mp_sqlite_clear_scratch(mp_sqlite_connection *connection);
/* Runs SQL without results; for setting up only. */
moonpad_status mp_sqlite_execute(mp_sqlite_connection *connection, const char *sql, moonpad_error *error);
/* The integer that a query or pragma gives; for setting up only. */
moonpad_status mp_sqlite_query_integer(mp_sqlite_connection *connection, const char *sql, int64_t *integer,
                                       moonpad_error *error);
/* What the system calls an error number; in `buffer`, or a constant. */
const char *mp_sqlite_system_message(int number, char *buffer, size_t size);
/* What SQLite's last error on this connection means; the transaction counts as failed. */
moonpad_status mp_sqlite_fail(mp_sqlite_connection *connection, int code, moonpad_error *error);
/* The same for failures that this store found itself. */
moonpad_status mp_sqlite_corrupt(mp_sqlite_connection *connection, const char *what, moonpad_error *error);
/* The failure of whoever waited in vain. */
moonpad_status mp_sqlite_busy(const mp_sqlite *store, const char *path, moonpad_error *error);
/* The writing connection writes the WAL back to the file from time to time. */
void mp_sqlite_keep_wal_short(mp_sqlite_connection *connection);
void mp_sqlite_sleep(int64_t microseconds);
double mp_sqlite_monotonic(void);

/* ---- sqlite_files.c ---- */

/* Called once, when the writing connection has read from the file. */
moonpad_status mp_sqlite_remember_files(mp_sqlite *store, moonpad_error *error);
void mp_sqlite_forget_files(mp_sqlite *store);
/*
** `storage` when the file, or one of the three, is no longer the one that was opened. Any thread.
*/
moonpad_status mp_sqlite_check_file(const mp_sqlite *store, moonpad_error *error);
moonpad_status mp_sqlite_check_files(const mp_sqlite *store, moonpad_error *error);
/*
** Called at closing, when the writing connection is the only one left. Where the file has been
** moved, writes the log back into it, so that the log is not applied to another file that has got
** its name.
*/
void mp_sqlite_write_back_log(mp_sqlite *store);

/* ---- sqlite_schema.c ---- */

/*
** Looks at the bytes of a file that has just been opened, before SQLite does, so that a file which
** is not ours stays as it is.
*/
moonpad_status mp_sqlite_check_header(mp_sqlite_connection *connection, moonpad_error *error);
/*
** Makes the tables in an empty file, migrates those of an older schema, checks them in any other,
** and sees to WAL.
*/
moonpad_status mp_sqlite_prepare_file(mp_sqlite_connection *connection, moonpad_error *error);
/*
** Within a transaction: `unsupported` when a newer version has taken the file over since it was
** opened, `storage` when a backup of an older one was put into it.
*/
moonpad_status mp_sqlite_check_version(mp_sqlite_connection *connection, moonpad_error *error);

/* ---- sqlite_statement.c ---- */

/* Prepared when first asked for. NULL on failure. */
sqlite3_stmt *mp_sqlite_statement(mp_sqlite_connection *connection, mp_sqlite_statement_id id, moonpad_error *error);
/* Runs to its end, expecting no rows, and resets. */
moonpad_status mp_sqlite_run(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_error *error);
/* The same for a statement without parameters. */
moonpad_status mp_sqlite_run_id(mp_sqlite_connection *connection, mp_sqlite_statement_id id, moonpad_error *error);
/*
** Text is borrowed until the statement is reset. Gives SQLite's code: text that is too large leaves
** NULL bound, which must not pass for a removed key.
*/
int mp_sqlite_bind_text(sqlite3_stmt *statement, int index, moonpad_string text);
moonpad_string mp_sqlite_column_text(sqlite3_stmt *statement, int column);
/* The same without a NUL behind it, for which SQLite would copy it. data NULL: empty, or NULL. */
moonpad_string mp_sqlite_column_bytes(sqlite3_stmt *statement, int column);

/* ---- sqlite_tx.c ---- */

moonpad_status mp_sqlite_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
moonpad_status mp_sqlite_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
void mp_sqlite_close(mp_store *store);
/* Counts a call that uses no writing connection as under way, so that closing waits for it. */
moonpad_status mp_sqlite_enter(mp_sqlite *store, moonpad_error *error);
void mp_sqlite_leave(mp_sqlite *store);
/*
** Runs `function` with the writing connection, in turn with the transactions, in none of its own.
*/
typedef moonpad_status (*mp_sqlite_exclusive)(mp_sqlite_connection *connection, void *context, moonpad_error *error);
moonpad_status mp_sqlite_run_exclusive(mp_sqlite *store, mp_sqlite_exclusive function, void *context,
                                       moonpad_error *error);

/* ---- sqlite_rows.c ---- */

/*
** Called when a transaction has begun: forgets what others may have changed since the last one
** was committed.
*/
void mp_sqlite_rows_begin(mp_sqlite_rows *rows, sqlite3 *db);
/* Called when it is committed, right away. */
void mp_sqlite_rows_commit(mp_sqlite_rows *rows, sqlite3 *db);
void mp_sqlite_rows_forget(mp_sqlite_rows *rows);
/* What is known of a head; NULL: nothing. */
mp_sqlite_head *mp_sqlite_rows_head(mp_sqlite_rows *rows, mp_scope scope, int64_t id);
/* The place for what will be known of it; until then it is as when it is made. */
mp_sqlite_head *mp_sqlite_rows_new_head(mp_sqlite_rows *rows, mp_scope scope, int64_t id);
/* Nothing is known of it from here on. */
void mp_sqlite_rows_drop(mp_sqlite_rows *rows, mp_scope scope, int64_t id);
/* Its heads have been kept. */
void mp_sqlite_rows_keep(mp_sqlite_rows *rows, const mp_session_row *row);
/* What has been written of a session, if it is kept. */
void mp_sqlite_rows_update(mp_sqlite_rows *rows, const mp_session_row *row);
bool mp_sqlite_rows_find(mp_sqlite_rows *rows, int64_t session, mp_facts *facts);

/* ---- sqlite_recent.c ---- */

/* From a head of this revision. Empty, or not as it is written here: as mp_sqlite_recent_start. */
void mp_sqlite_recent_read(mp_sqlite_recent *recent, moonpad_string text, int64_t revision);
/* Nothing has been changed after `revision`. */
void mp_sqlite_recent_start(mp_sqlite_recent *recent, int64_t revision);
void mp_sqlite_recent_note(mp_sqlite_recent *recent, moonpad_string key, int64_t revision);
/* Walks over the keys; *position is 0 at first. */
bool mp_sqlite_recent_next(const mp_sqlite_recent *recent, size_t *position, moonpad_string *key, int64_t *revision);
/* The text, in `text`. */
moonpad_string mp_sqlite_recent_write(const mp_sqlite_recent *recent, char text[MP_SQLITE_RECENT_TEXT]);

/* ---- sqlite_read.c ---- */

static inline mp_sqlite_connection *mp_sqlite_of(mp_tx *tx) {
  return ((mp_parts_tx *)tx)->data;
}

extern const mp_tx_ops mp_sqlite_tx_ops;
extern const mp_parts mp_sqlite_parts;

/* Who gets the rows of a walk: one of the functions, as `give` knows. */
typedef struct mp_sqlite_walk {
  mp_each_state state;
  mp_each_event event;
  mp_each_session session;
  void *context;
  mp_scope scope;               /* of `state` */
  const mp_event_query *events; /* of `event` */
} mp_sqlite_walk;
typedef moonpad_status (*mp_sqlite_give)(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                         const mp_sqlite_walk *walk, moonpad_error *error);
/* Gives away each row of a statement that is bound, and resets it. */
moonpad_status mp_sqlite_walk_rows(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_sqlite_give give,
                                   const mp_sqlite_walk *walk, moonpad_error *error);
/*
** Steps to the one row there may be: NOT_FOUND, without a message, when there is none. The
** caller resets.
*/
moonpad_status mp_sqlite_step_to_row(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_error *error);

/* Keeps a head whose columns (HEAD_COLUMNS of sqlite_statement.c) begin with this one. */
void mp_sqlite_keep_head(mp_sqlite_connection *connection, sqlite3_stmt *statement, int column, mp_scope scope,
                         int64_t id);
/* What is in the file of a head, or would be: that which is kept, or else `spare`. */
moonpad_status mp_sqlite_head_of(mp_sqlite_connection *connection, mp_scope scope, int64_t id, mp_sqlite_head *spare,
                                 mp_sqlite_head **head, moonpad_error *error);

/* ---- sqlite_write.c: mp_parts of the same names ---- */

moonpad_status mp_sqlite_find_shared(mp_tx *tx, mp_scope scope, int64_t app, moonpad_string name, bool create,
                                     mp_head *head, moonpad_error *error);
moonpad_status mp_sqlite_insert_session(mp_tx *tx, moonpad_string session_id, mp_session_row *row,
                                        moonpad_error *error);
moonpad_status mp_sqlite_remove(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error);
moonpad_status mp_sqlite_write_key(mp_tx *tx, mp_owner owner, const mp_state_row *write, moonpad_error *error);
moonpad_status mp_sqlite_update_heads(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
/* The head as it is now; of a session all but the revision. */
moonpad_status mp_sqlite_write_head(mp_sqlite_connection *connection, mp_scope scope, const mp_sqlite_head *head,
                                    moonpad_error *error);
/* A statement with one or two integers. */
moonpad_status mp_sqlite_run_with(mp_sqlite_connection *connection, mp_sqlite_statement_id id, int64_t first,
                                  int64_t second, moonpad_error *error);

/* ---- sqlite_events.c: mp_tx_ops and mp_parts of the same names ---- */

moonpad_status mp_sqlite_each_event(mp_tx *tx, int64_t session, const mp_event_query *query, mp_each_event each,
                                    void *context, moonpad_error *error);
moonpad_status mp_sqlite_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                         int64_t *revision, moonpad_error *error);
moonpad_status mp_sqlite_append_event(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error);
moonpad_status mp_sqlite_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                      moonpad_error *error);

/* ---- sqlite_housekeeping.c: mp_tx_ops of the same names ---- */

moonpad_status mp_sqlite_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
moonpad_status mp_sqlite_purge(mp_tx *tx, const mp_session_ref *place, mp_scope scope, int64_t last,
                               moonpad_error *error);
moonpad_status mp_sqlite_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
moonpad_status mp_sqlite_sweep(mp_tx *tx, mp_scope scope, double touched_before, int64_t limit, int64_t *removed,
                               moonpad_error *error);
moonpad_status mp_sqlite_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                     moonpad_error *error);

/* An event's key in the file: its session, then its revision. */
#define MP_SQLITE_REVISION_BITS 34 /* MP_MAX_REVISION */
#define MP_SQLITE_MAX_SESSION   INT64_C(0x1FFFFFFF)
static inline int64_t mp_sqlite_position(int64_t session, int64_t revision) {
  return (int64_t)((uint64_t)session << MP_SQLITE_REVISION_BITS | (uint64_t)revision);
}

/* ---- sqlite_backup.c ---- */

moonpad_status mp_sqlite_backup(mp_store *store, moonpad_string path, moonpad_error *error);

#endif
