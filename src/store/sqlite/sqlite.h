/*
** src/store/sqlite: the store "sqlite:". One connection writes; transactions that wait at the same
** moment share a commit (group commit). A pool of connections reads, each transaction from its own
** snapshot (WAL). A database in memory has the writing connection only.
** Does not belong here: rules of moonpad (src/service), and what stores share (store/parts.h).
** Arrows point down this list; none points up. Nothing here includes another store. The tables of
** artifacts and memories (src/agent_stores) are built on the store and its statements.
**
** open.c         URL to path, opening, closing, freeing
** backup.c       a consistent copy while others write
** vacuum.c       leaves no byte of what was deleted
** readers.c      the pool of reading connections; transactions that read
** group_commit.c the queue of transactions that write, and their shared commit
** tx.c           one transaction: what it can be asked, begin, commit, roll back
** housekeeping.c trimming, purging, touching, sweeping, tokens
** events.c       reads, writes and copies events
** write.c        writes heads, sessions and state
** read.c         reads heads, state and lists
** cache.c        heads and sessions that the writing connection has in memory
** recent.c       the keys of a head that were changed last
** schema.c       the tables; checks and migrates a file
** wal.c          when the WAL is written back to the file (checkpoints)
** statement.c    the SQL of every transaction: prepared once, run, stepped
** connection.c   opens and closes a connection; how it waits for locks
** errors.c       what SQLite's errors mean to a caller
** files.c        whether the files are still the ones that were opened
** system.c       sleeping, the system's error texts
**
** SQLite's own memory does not come from the host's allocator: SQLite's allocator is global to the
** process, so it is the host's to set. A forked child must not use a store that its parent opened:
** SQLite's locks belong to the process.
*/
#ifndef MP_STORE_SQLITE_SQLITE_H
#define MP_STORE_SQLITE_SQLITE_H

#include <sqlite3.h>

#include "base/number.h"
#include "base/platform.h"
#include "store/parts.h"
#include "store/sqlite/system.h"

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
  MP_SQL_LIST_APPS,
  MP_SQL_LIST_USERS,
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
  MP_SQL_SESSION_EVENTS,
  MP_SQL_DETACH_SESSION,
  MP_SQL_HAS_USER,
  MP_SQL_LAST_SESSION,
  MP_SQL_LAST_USER,
  MP_SQL_LAST_APP,
  MP_SQL_NEXT_UNUSED_SESSION,
  MP_SQL_NEXT_UNUSED_USER,
  MP_SQL_NEXT_UNUSED_APP,
  MP_SQL_CLAIM_TOKEN,
  MP_SQL_FORGET_TOKENS,
  MP_SQL_COUNT
} mp_sqlite_statement_id;

typedef struct mp_sqlite mp_sqlite;
typedef struct mp_sqlite_request mp_sqlite_request; /* group_commit.c */

/*
** The keys of a head that were changed last: all keys that were changed after `floor` are among
** them. 160 bytes, because every append writes this list: at 240 bytes an append that changes many
** keys in turn took a tenth longer.
*/
#define MP_SQLITE_RECENT_BYTES 160
#define MP_SQLITE_RECENT_TEXT  (MP_SQLITE_RECENT_BYTES + 2 * MP_NUMBER_BYTES + 3)
typedef struct mp_sqlite_recent {
  int64_t as_of; /* the head's revision when the list was written */
  int64_t floor;
  size_t length;                        /* of `entries` */
  char entries[MP_SQLITE_RECENT_BYTES]; /* ,"KEY",REVISION for each key, the last changed first */
} mp_sqlite_recent;

typedef struct mp_sqlite_head {
  int64_t id; /* 0: none */
  int64_t revision;
  int64_t forgotten; /* as in mp_facts */
  double touched;    /* as in mp_facts */
  mp_sqlite_recent recent;
  unsigned epoch; /* valid while it equals the epoch of the cache */
} mp_sqlite_head;

#define MP_SQLITE_CACHE_SLOTS 64

/*
** A cache with one slot for all ids with the same remainder: the last one stays. A session counts
** as cached while its three heads are, too; the heads of user and app are shared with other
** sessions.
*/
typedef struct mp_sqlite_cache {
  mp_session_row sessions[MP_SQLITE_CACHE_SLOTS];
  mp_sqlite_head heads[MP_STORED_SCOPES][MP_SQLITE_CACHE_SLOTS];
  unsigned epoch;   /* counting it up invalidates all heads */
  bool committed;   /* the content is that of file version `version`; false inside a transaction */
  unsigned version; /* SQLITE_FCNTL_DATA_VERSION after the last commit */
} mp_sqlite_cache;

/* Used by one thread at a time. */
typedef struct mp_sqlite_connection {
  mp_parts_tx tx; /* the transaction that it runs; its data is the connection */
  mp_sqlite *store;
  const char *path; /* for messages; borrowed */
  sqlite3 *db;
  sqlite3_stmt *statements[MP_SQL_COUNT]; /* prepared statements; NULL: not yet */
  mp_buffer scratch;                      /* a value on its way to or from JSON */
  /* The first failure of the store itself in this transaction, which must not be committed then. */
  moonpad_status failure;
  /* The busy handler: when it began to wait, in monotonic seconds. */
  double waiting_since;
  /* The busy handler: what runs now is not worth more than a few steps of waiting. */
  bool hurries;
  /* A reader's snapshot kept the last checkpoint from finishing. */
  bool wal_is_read;
  int checkpointed;                  /* frames in the WAL at the last checkpoint */
  double tokens_expired_at;          /* when expired tokens were last deleted */
  mp_sqlite_cache *cache;            /* of the writing connection; NULL: this one reads */
  struct mp_sqlite_connection *next; /* in the pool */
} mp_sqlite_connection;

typedef struct mp_sqlite_file {
  char *path;
  mp_sqlite_identity opened; /* the file that had this path when the store was opened */
  bool is_known;             /* false: the VFS is not SQLite's own, and nothing is checked */
} mp_sqlite_file;

#define MP_SQLITE_FILES 3 /* PATH, PATH-wal, PATH-shm */

struct mp_sqlite {
  mp_store base; /* first */
  mp_env *env;
  char *path; /* absolute once open; or ":memory:" */
  mp_sqlite_file files[MP_SQLITE_FILES];
  bool in_memory;
  moonpad_durability durability;
  int64_t busy_timeout_ms;
  mp_sqlite_connection *writer; /* used by whoever has set `writing` */

  mp_mutex mutex; /* guards what follows */
  /* Signalled when no call is under way any more, and when closing is done. */
  mp_condition idle;
  mp_sqlite_request *first_waiting; /* the queue of transactions that write */
  mp_sqlite_request *last_waiting;
  unsigned waiting; /* length of the queue */
  mp_sqlite_connection *free_readers;
  unsigned free_reader_count;
  unsigned calls;             /* reads and backups under way; closing waits for them */
  unsigned last_batch;        /* how many transactions shared the last commit */
  double last_commit_seconds; /* how long the last shared commit took, in seconds */
  bool writing;               /* somebody uses the writing connection */
  bool closing;               /* no new transactions */
  bool closed;
};

/* ---- open.c ---- */

/*
** The path in a URL whose "sqlite:" has been taken off. *path is borrowed from `rest`.
** Errors: invalid_argument.
*/
moonpad_status mp_sqlite_path_of_url(moonpad_string rest, moonpad_string *path, moonpad_error *error);

/* Waits for the calls under way. A second caller waits for the first. */
void mp_sqlite_close(mp_store *store);

/* ---- files.c ---- */

/*
** A copy of `path` that SQLite takes for a path whatever it looks like (not for ":memory:" or a
** "file:" URI). NULL when out of memory.
*/
char *mp_sqlite_file_name(mp_env *env, moonpad_string path);
/* Remembers the files that are open now. Called once, after the writing connection has read. */
moonpad_status mp_sqlite_remember_files(mp_sqlite *store, moonpad_error *error);
void mp_sqlite_free_files(mp_sqlite *store);
/*
** MOONPAD_STORAGE when the path of the database (check_file), or one of the three paths
** (check_files), no longer names the file that was opened. Any thread.
*/
moonpad_status mp_sqlite_check_file(const mp_sqlite *store, moonpad_error *error);
moonpad_status mp_sqlite_check_files(const mp_sqlite *store, moonpad_error *error);
/*
** At closing, when the writing connection is the only one left: if the file has been moved, writes
** the WAL back into it. Otherwise the WAL would be applied to whatever file gets the path next.
*/
void mp_sqlite_write_back_moved_file(mp_sqlite *store);

/* ---- errors.c ---- */

/* Translates SQLite's last error on a connection. The transaction counts as failed. */
moonpad_status mp_sqlite_fail(mp_sqlite_connection *connection, int code, moonpad_error *error);
/* The same for damage that this store found itself. */
moonpad_status mp_sqlite_corrupt(mp_sqlite_connection *connection, const char *what, moonpad_error *error);
/*
** The same where fixed SQL could not be prepared: an error in it means that tables are missing or
** damaged.
*/
moonpad_status mp_sqlite_fail_prepare(mp_sqlite_connection *connection, int code, moonpad_error *error);
moonpad_status mp_sqlite_closed(moonpad_error *error);

/* ---- connection.c ---- */

/*
** Opens `path` (borrowed; SQLITE_OPEN_* in `flags`), and sets up waiting and hardening. Journal and
** tables are not looked at.
*/
moonpad_status mp_sqlite_connect(mp_sqlite *store, const char *path, int flags, mp_sqlite_connection **connection,
                                 moonpad_error *error);
void mp_sqlite_disconnect(mp_sqlite_connection *connection); /* NULL is accepted */
/* Empties `scratch`, and frees its memory if that is large. */
void mp_sqlite_clear_scratch(mp_sqlite_connection *connection);
/* Runs SQL without results. For setting up only: it is prepared each time. */
moonpad_status mp_sqlite_execute(mp_sqlite_connection *connection, const char *sql, moonpad_error *error);
/* Reads the integer that a query or pragma returns. For setting up only. */
moonpad_status mp_sqlite_query_integer(mp_sqlite_connection *connection, const char *sql, int64_t *integer,
                                       moonpad_error *error);

/* ---- wal.c ---- */

/* Lets the writing connection write the WAL back to the file when it has grown long enough. */
void mp_sqlite_limit_wal(mp_sqlite_connection *connection);

/* ---- schema.c ---- */

/*
** Looks at the bytes of a file that has just been opened, before SQLite does, so that a file that
** is not moonpad's stays as it is.
*/
moonpad_status mp_sqlite_check_header(mp_sqlite_connection *connection, moonpad_error *error);
/*
** Creates the tables in an empty file, or checks them, or migrates an older schema; turns WAL on.
*/
moonpad_status mp_sqlite_prepare_file(mp_sqlite_connection *connection, moonpad_error *error);
/*
** Inside a transaction: MOONPAD_UNSUPPORTED if a newer version has migrated the file since it was
** opened, MOONPAD_STORAGE if a backup of an older schema was restored into it.
*/
moonpad_status mp_sqlite_check_version(mp_sqlite_connection *connection, moonpad_error *error);

/* ---- statement.c ---- */

/* The prepared statement, prepared at its first use. NULL on failure. */
sqlite3_stmt *mp_sqlite_statement(mp_sqlite_connection *connection, mp_sqlite_statement_id id, moonpad_error *error);
/*
** After the tables have changed: drops the prepared ROLLBACK, which SQLite would prepare again when
** it is next run. If that failed for want of memory, a failed transaction would stay open. So the
** next transaction prepares it before it begins.
*/
void mp_sqlite_forget_rollback(mp_sqlite_connection *connection);
/* Runs a statement that returns no rows, and resets it. */
moonpad_status mp_sqlite_run(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_error *error);
/* The same for a statement without parameters. */
moonpad_status mp_sqlite_run_id(mp_sqlite_connection *connection, mp_sqlite_statement_id id, moonpad_error *error);
/* The same for a statement with one or two parameters, which are integers. */
moonpad_status mp_sqlite_run_with(mp_sqlite_connection *connection, mp_sqlite_statement_id id, int64_t first,
                                  int64_t second, moonpad_error *error);
/*
** Steps to the only row. MOONPAD_NOT_FOUND, no message: there is none. The caller resets the
** statement: an open one would keep the snapshot.
*/
moonpad_status mp_sqlite_step_to_row(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_error *error);

/* The callback of a walk: one of the three functions, the one that `row` below calls. */
typedef struct mp_sqlite_walk {
  mp_each_state state;
  mp_each_event event;
  mp_each_session session;
  mp_each_name name;
  void *context;                /* for all four */
  mp_scope scope;               /* for `state` */
  const mp_event_query *events; /* for `event` */
} mp_sqlite_walk;
/* Reads the current row of a statement and calls the callback of the walk. */
typedef moonpad_status (*mp_sqlite_row_function)(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                                 const mp_sqlite_walk *walk, moonpad_error *error);
/* Calls `row` for each row of a bound statement, and resets it. */
moonpad_status mp_sqlite_walk_rows(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                   mp_sqlite_row_function row, const mp_sqlite_walk *walk, moonpad_error *error);
/*
** Binds text, borrowed until the statement is reset. Returns SQLite's code, which must be checked
** for a value: text that is too large leaves NULL bound, which would store a tombstone.
*/
int mp_sqlite_bind_text(sqlite3_stmt *statement, int index, moonpad_string text);
moonpad_string mp_sqlite_column_text(sqlite3_stmt *statement, int column);
/* Reads a column that always holds text: NULL means that memory ran out or the file is damaged. */
moonpad_status mp_sqlite_read_text(mp_sqlite_connection *connection, sqlite3_stmt *statement, int column,
                                   moonpad_string *text, moonpad_error *error);
/* Without a NUL behind it, for which SQLite would copy it. data NULL: empty, or NULL. */
moonpad_string mp_sqlite_column_bytes(sqlite3_stmt *statement, int column);

/* ---- tx.c ---- */

moonpad_status mp_sqlite_begin(mp_sqlite_connection *connection, mp_sqlite_statement_id how, moonpad_error *error);
/* Calls a transaction function between begin and commit. */
moonpad_status mp_sqlite_call(mp_sqlite_connection *connection, mp_tx_function function, void *context,
                              moonpad_error *error);
moonpad_status mp_sqlite_commit(mp_sqlite_connection *connection, moonpad_error *error);
/* Does nothing outside a transaction. */
void mp_sqlite_roll_back(mp_sqlite_connection *connection);
/* A whole transaction. `how`: MP_SQL_BEGIN_READ or MP_SQL_BEGIN_WRITE. */
moonpad_status mp_sqlite_transact(mp_sqlite_connection *connection, mp_sqlite_statement_id how, mp_tx_function function,
                                  void *context, moonpad_error *error);

/* ---- group_commit.c ---- */

moonpad_status mp_sqlite_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
/* The same for what is not worth waiting for: MOONPAD_BUSY after 30 ms. */
moonpad_status mp_sqlite_write_in_a_hurry(mp_store *store, mp_tx_function function, void *context,
                                          moonpad_error *error);
/* Runs `function` with the writing connection, in turn with the transactions, outside of any. */
typedef moonpad_status (*mp_sqlite_exclusive)(mp_sqlite_connection *connection, void *context, moonpad_error *error);
moonpad_status mp_sqlite_run_exclusive(mp_sqlite *store, mp_sqlite_exclusive function, void *context,
                                       moonpad_error *error);

/* ---- readers.c ---- */

moonpad_status mp_sqlite_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error);
/*
** A call that does not use the writing connection is under way between these two: closing waits for
** it. Begin fails with MOONPAD_CLOSED.
*/
moonpad_status mp_sqlite_begin_call(mp_sqlite *store, moonpad_error *error);
void mp_sqlite_end_call(mp_sqlite *store);
/* Closes the connections of the pool. No call is under way, and none comes. */
void mp_sqlite_close_readers(mp_sqlite *store);

/* ---- cache.c ---- */

/* After BEGIN: clears the cache if another connection has written since the last commit. */
void mp_sqlite_cache_begin(mp_sqlite_cache *cache, sqlite3 *db);
/* Right after COMMIT. */
void mp_sqlite_cache_commit(mp_sqlite_cache *cache, sqlite3 *db);
void mp_sqlite_cache_clear(mp_sqlite_cache *cache);
/* NULL: not cached. */
mp_sqlite_head *mp_sqlite_cache_find_head(mp_sqlite_cache *cache, mp_scope scope, int64_t id);
/* A new entry for the caller to fill in; until then it is that of a head just created. */
mp_sqlite_head *mp_sqlite_cache_add_head(mp_sqlite_cache *cache, mp_scope scope, int64_t id);
void mp_sqlite_cache_remove_head(mp_sqlite_cache *cache, mp_scope scope, int64_t id);
/* Its heads have been added. */
void mp_sqlite_cache_add_session(mp_sqlite_cache *cache, const mp_session_row *row);
/* Takes over what was written of a session, if it is cached. */
void mp_sqlite_cache_update_session(mp_sqlite_cache *cache, const mp_session_row *row);
/* False: not cached, and *facts is unchanged or incomplete. */
bool mp_sqlite_cache_find_session(mp_sqlite_cache *cache, int64_t session, mp_facts *facts);

/* ---- recent.c ---- */

/*
** Reads the list of a head with this revision. Text that is empty, damaged, or of another revision:
** as mp_sqlite_recent_reset.
*/
void mp_sqlite_recent_read(mp_sqlite_recent *recent, moonpad_string text, int64_t revision);
/* An empty list: nothing has been changed after `revision`. */
void mp_sqlite_recent_reset(mp_sqlite_recent *recent, int64_t revision);
/* Adds a key, or moves it to the front. */
void mp_sqlite_recent_add(mp_sqlite_recent *recent, moonpad_string key, int64_t revision);
/* Walks over the keys; *position is 0 at first. False at the end. */
bool mp_sqlite_recent_next(const mp_sqlite_recent *recent, size_t *position, moonpad_string *key, int64_t *revision);
/* Writes the list to `text`. */
moonpad_string mp_sqlite_recent_write(const mp_sqlite_recent *recent, char text[MP_SQLITE_RECENT_TEXT]);

/* ---- read.c: mp_parts of the same names, and what write.c needs ---- */

static inline mp_sqlite_connection *mp_sqlite_of(mp_tx *tx) {
  return ((mp_parts_tx *)tx)->data;
}

moonpad_status mp_sqlite_find_session(mp_tx *tx, const mp_session_ref *ref, mp_facts *facts, moonpad_error *error);
moonpad_status mp_sqlite_read_key(mp_tx *tx, int64_t id, mp_state_row *wanted, moonpad_error *error);
moonpad_status mp_sqlite_each_key(mp_tx *tx, mp_owner owner, int64_t since, mp_each_state each, void *context,
                                  moonpad_error *error);
moonpad_status mp_sqlite_each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                      moonpad_error *error);
/* Of mp_tx_ops. */
moonpad_status mp_sqlite_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error);
moonpad_status mp_sqlite_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                   moonpad_error *error);

/* Caches a head, if this connection has a cache. Its columns (HEAD_COLUMNS) begin at `column`. */
void mp_sqlite_cache_head_columns(mp_sqlite_connection *connection, sqlite3_stmt *statement, int column, mp_scope scope,
                                  int64_t id);
/*
** The head, from the cache or the file; one that is not in the file yet has revision 0. Without a
** cache (a reading connection) it is read into `uncached`, which may be NULL otherwise.
*/
moonpad_status mp_sqlite_load_head(mp_sqlite_connection *connection, mp_scope scope, int64_t id,
                                   mp_sqlite_head *uncached, mp_sqlite_head **head, moonpad_error *error);

/* ---- write.c: mp_parts of the same names ---- */

moonpad_status mp_sqlite_find_shared(mp_tx *tx, mp_scope scope, int64_t app, moonpad_string name, bool create,
                                     mp_head *head, moonpad_error *error);
moonpad_status mp_sqlite_insert_session(mp_tx *tx, moonpad_string session_id, mp_session_row *row,
                                        moonpad_error *error);
moonpad_status mp_sqlite_remove(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error);
moonpad_status mp_sqlite_write_key(mp_tx *tx, mp_owner owner, const mp_state_row *write, moonpad_error *error);
moonpad_status mp_sqlite_update_heads(mp_tx *tx, const mp_batch *batch, moonpad_error *error);
/* Writes a head as it is now; of a session all but the revision. */
moonpad_status mp_sqlite_write_head(mp_sqlite_connection *connection, mp_scope scope, const mp_sqlite_head *head,
                                    moonpad_error *error);

/* ---- events.c: mp_tx_ops and mp_parts of the same names ---- */

moonpad_status mp_sqlite_each_event(mp_tx *tx, int64_t session, const mp_event_query *query, mp_each_event each,
                                    void *context, moonpad_error *error);
moonpad_status mp_sqlite_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                         int64_t *revision, moonpad_error *error);
moonpad_status mp_sqlite_append_event(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error);
moonpad_status mp_sqlite_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                      moonpad_error *error);

/* The key of an event in the file: its session, then its revision. */
#define MP_SQLITE_REVISION_BITS 34 /* MP_MAX_REVISION */
#define MP_SQLITE_MAX_SESSION   INT64_C(0x1FFFFFFF)
static inline int64_t mp_sqlite_position(int64_t session, int64_t revision) {
  return (int64_t)((uint64_t)session << MP_SQLITE_REVISION_BITS | (uint64_t)revision);
}

/* ---- housekeeping.c: mp_tx_ops of the same names ---- */

moonpad_status mp_sqlite_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error);
moonpad_status mp_sqlite_purge(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last,
                               moonpad_error *error);
moonpad_status mp_sqlite_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error);
moonpad_status mp_sqlite_sweep(mp_tx *tx, mp_sweep *sweep, moonpad_error *error);
moonpad_status mp_sqlite_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                     moonpad_error *error);

/* ---- backup.c ---- */

moonpad_status mp_sqlite_backup(mp_store *store, moonpad_string path, moonpad_error *error);

/* ---- vacuum.c ---- */

moonpad_status mp_sqlite_vacuum(mp_store *store, moonpad_error *error);

#endif
