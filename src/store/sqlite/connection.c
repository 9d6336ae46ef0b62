/*
** One connection: how it is set up, how it waits for others, and what SQLite's errors mean to
** a caller.
*/
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "store/sqlite/sqlite.h"

#define SCRATCH_KEPT ((size_t)1 << 16)

/* ---- waiting ---- */

double mp_sqlite_monotonic(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void mp_sqlite_sleep(int64_t microseconds) {
  struct timespec pause = {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
  nanosleep(&pause, NULL);
}

#define CHECKPOINT_STEPS 100 /* about 30 ms */

/*
** SQLite's own waiting backs off to 100 ms, which lets one of several writers wait for half a
** second. Short steps keep the longest wait short. A checkpoint waits first for the writers, then,
** with them held off, for the readers, and syncs in between: how long it waits is counted in steps,
** as the clock would take the syncs for waiting.
*/
static int wait_for_lock(void *context, int calls) {
  mp_sqlite_connection *connection = context;
  if (connection->checkpointing && calls >= CHECKPOINT_STEPS) return 0;
  double now = mp_sqlite_monotonic();
  if (calls == 0) connection->waiting_since = now;
  double left = connection->waiting_since + (double)connection->store->busy_timeout_ms * 1e-3 - now;
  if (left <= 0) return 0;
  /* who has waited for long looks more often */
  int64_t step = calls < 10 || calls > 50 ? 200 : 500;
  mp_sqlite_sleep(left * 1e6 < (double)step ? (int64_t)(left * 1e6) + 1 : step);
  return 1;
}

/* ---- the WAL ---- */

/*
** More for "normal" would hardly lower the mean, and the append that writes them back would
** take longer.
*/
#define FRAMES_FULL   1000 /* as SQLite has it */
#define FRAMES_NORMAL 2000

/*
** Writing the WAL back costs two syncs, so with durability "normal", where an append has none,
** it is done less often than SQLite does it. With "full" a short WAL is the fast one: to sync a
** file that grows takes twice the time of one that is overwritten.
**
** The WAL starts over once all of it has been written back, which several processes that write
** never let happen by themselves: there are new frames whenever a checkpoint ends. SQLite's own
** would then run after every commit, and the WAL grow for ever. So the last of it is written back
** with the writers held off; with "normal", where the WAL has to be synced first, the most of it
** before that. Nobody is held off for a WAL that somebody still reads from.
*/
static int write_back(sqlite3 *db, const char *schema, int mode, bool *complete) {
  int frames = 0, written = 0;
  int code = sqlite3_wal_checkpoint_v2(db, schema, mode, &frames, &written);
  *complete = written == frames;
  return code;
}

/*
** What fails here, or is somebody else's doing just now, is tried again some frames later: the
** commit is done.
*/
static int checkpoint(void *context, sqlite3 *db, const char *schema, int frames) {
  mp_sqlite_connection *connection = context;
  bool full = connection->store->durability == MOONPAD_DURABILITY_FULL, complete = true;
  if (frames < connection->checkpointed) connection->checkpointed = 0; /* it has started over */
  if (frames - connection->checkpointed < (full ? FRAMES_FULL : FRAMES_NORMAL)) return SQLITE_OK;
  connection->checkpointed = frames;
  if (!full || connection->read_from) {
    if (write_back(db, schema, SQLITE_CHECKPOINT_PASSIVE, &complete) != SQLITE_OK) return SQLITE_OK;
    connection->read_from = !complete;
    if (!complete) return SQLITE_OK;
  }
  connection->checkpointing = true;
  int code = write_back(db, schema, SQLITE_CHECKPOINT_RESTART, &complete);
  connection->checkpointing = false;
  connection->read_from = code == SQLITE_BUSY && !complete;
  return SQLITE_OK;
}

void mp_sqlite_keep_wal_short(mp_sqlite_connection *connection) {
  sqlite3_wal_hook(connection->db, checkpoint, connection);
}

/* ---- errors ---- */

const char *mp_sqlite_system_message(int number, char *buffer, size_t size) {
  if (number == 0 || strerror_r(number, buffer, size) != 0) return "unknown reason";
  return buffer;
}

static moonpad_status io_error(mp_sqlite_connection *connection, int code, moonpad_error *error) {
  char reason[128];
  int number = sqlite3_system_errno(connection->db);
  switch (code) {
  case SQLITE_IOERR_NOMEM:
    return mp_no_memory(error);
  case SQLITE_IOERR_CORRUPTFS:
    return mp_fail(error, MOONPAD_CORRUPT, "%s: the file system is damaged", connection->path);
  default:
    return mp_fail(error, MOONPAD_STORAGE, "%s: disk I/O error%s%s", connection->path, number == 0 ? "" : ": ",
                   number == 0 ? "" : mp_sqlite_system_message(number, reason, sizeof reason));
  }
}

moonpad_status mp_sqlite_busy(const mp_sqlite *store, const char *path, moonpad_error *error) {
  return mp_fail(error, MOONPAD_BUSY, "%s: another writer kept it locked for longer than busyTimeoutMs (%lld ms)", path,
                 (long long)store->busy_timeout_ms);
}

static moonpad_status translate(mp_sqlite_connection *connection, int code, moonpad_error *error) {
  const char *path = connection->path;
  char reason[128];
  switch (code & 0xFF) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return mp_sqlite_busy(connection->store, path, error);
  case SQLITE_NOMEM:
    return mp_no_memory(error);
  case SQLITE_FULL:
    return mp_fail(error, MOONPAD_STORAGE, "%s: the disk is full", path);
  case SQLITE_IOERR:
    return io_error(connection, code, error);
  case SQLITE_READONLY:
  case SQLITE_PERM:
    return mp_fail(error, MOONPAD_STORAGE, "%s: the file or its folder cannot be written", path);
  case SQLITE_CANTOPEN:
    return mp_fail(error, MOONPAD_STORAGE, "%s: the file, or the -wal and -shm files beside it, cannot be opened: %s",
                   path, mp_sqlite_system_message(sqlite3_system_errno(connection->db), reason, sizeof reason));
  case SQLITE_NOTADB:
    return mp_fail(error, MOONPAD_CORRUPT, "%s: not a database", path);
  case SQLITE_CORRUPT:
    return mp_fail(error, MOONPAD_CORRUPT, "%s: the database is damaged", path);
  case SQLITE_TOOBIG:
    return mp_fail(error, MOONPAD_LIMIT, "%s: a value or an event is larger than SQLite keeps in one row", path);
  default:
    return mp_fail(error, MOONPAD_STORAGE, "%s: %s", path, sqlite3_errmsg(connection->db));
  }
}

/*
** What SQLite says when a file is not where it was, or is another: that is told better by looking
** at the files.
*/
static bool may_be_moved(int code) {
  int primary = code & 0xFF;
  return (primary == SQLITE_IOERR && code != SQLITE_IOERR_NOMEM) || primary == SQLITE_CORRUPT ||
         primary == SQLITE_NOTADB || primary == SQLITE_CANTOPEN;
}

moonpad_status mp_sqlite_fail(mp_sqlite_connection *connection, int code, moonpad_error *error) {
  moonpad_status status = may_be_moved(code) ? mp_sqlite_check_files(connection->store, error) : MOONPAD_OK;
  if (status == MOONPAD_OK) status = translate(connection, code, error);
  if (connection->failure == MOONPAD_OK) connection->failure = status;
  return status;
}

moonpad_status mp_sqlite_corrupt(mp_sqlite_connection *connection, const char *what, moonpad_error *error) {
  if (connection->failure == MOONPAD_OK) connection->failure = MOONPAD_CORRUPT;
  return mp_fail(error, MOONPAD_CORRUPT, "%s: the database is damaged: %s", connection->path, what);
}

/* ---- opening and closing ---- */

/*
** Why a file cannot be opened, found out afterwards, for SQLite says no more than that it cannot.
*/
static moonpad_status explain(const char *path, int number, moonpad_error *error) {
  char folder[PATH_MAX] = ".", reason[128];
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - path);
  struct stat status;
  if (slash != NULL && length < sizeof folder) {
    memcpy(folder, path, length == 0 ? 1 : length);
    folder[length == 0 ? 1 : length] = '\0';
  }
  if (stat(folder, &status) != 0) {
    return mp_fail(error, MOONPAD_STORAGE, "%s: its folder %s cannot be used: %s", path, folder,
                   mp_sqlite_system_message(errno, reason, sizeof reason));
  }
  if (!S_ISDIR(status.st_mode)) {
    return mp_fail(error, MOONPAD_STORAGE, "%s: its folder %s is not a folder", path, folder);
  }
  if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
    return mp_fail(error, MOONPAD_STORAGE, "%s: is a folder, not a file", path);
  }
  /*
  ** SQLite tries a second time, to read only: what it reports then is that a file it could not make
  ** is not there.
  */
  if (stat(path, &status) != 0 && errno == ENOENT && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0) {
    return mp_fail(error, MOONPAD_STORAGE, "%s: its folder %s cannot be written: %s", path, folder,
                   mp_sqlite_system_message(errno, reason, sizeof reason));
  }
  return mp_fail(error, MOONPAD_STORAGE, "%s: cannot be opened: %s", path,
                 mp_sqlite_system_message(number, reason, sizeof reason));
}

static void harden(sqlite3 *db) {
  sqlite3_extended_result_codes(db, 1);
  /* What a file that was tampered with may bring along is not run. */
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
}

static moonpad_status open_database(mp_sqlite_connection *connection, int flags, moonpad_error *error) {
  int code = sqlite3_open_v2(connection->path, &connection->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
  if (connection->db == NULL) return mp_no_memory(error);
  harden(connection->db);
  sqlite3_busy_handler(connection->db, wait_for_lock, connection);
  if (code == SQLITE_OK) return mp_sqlite_execute(connection, "PRAGMA temp_store = MEMORY", error);
  if ((code & 0xFF) != SQLITE_CANTOPEN) return mp_sqlite_fail(connection, code, error);
  int number = sqlite3_system_errno(connection->db);
  moonpad_status status = mp_sqlite_check_files(connection->store, error);
  return status == MOONPAD_OK ? explain(connection->path, number, error) : status;
}

moonpad_status mp_sqlite_connect(mp_sqlite *store, const char *path, int flags, mp_sqlite_connection **connection,
                                 moonpad_error *error) {
  *connection = NULL;
  mp_sqlite_connection *made = mp_allocate_zeroed(store->env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  made->tx = (mp_parts_tx){{&mp_sqlite_tx_ops}, store->env, &mp_sqlite_parts, made};
  made->store = store;
  made->path = path;
  mp_buffer_init(&made->scratch, store->env);
  moonpad_status status = open_database(made, flags, error);
  made->failure = MOONPAD_OK;
  if (status == MOONPAD_OK) {
    *connection = made;
  } else {
    mp_sqlite_disconnect(made);
  }
  return status;
}

void mp_sqlite_disconnect(mp_sqlite_connection *connection) {
  if (connection == NULL) return;
  for (size_t i = 0; i < MP_SQL_COUNT; i++) sqlite3_finalize(connection->statements[i]);
  sqlite3_close(connection->db);
  mp_buffer_free(&connection->scratch);
  mp_release(connection->store->env, connection->rows);
  mp_release(connection->store->env, connection);
}

void mp_sqlite_clear_scratch(mp_sqlite_connection *connection) {
  if (connection->scratch.capacity > SCRATCH_KEPT) mp_buffer_free(&connection->scratch);
  mp_buffer_clear(&connection->scratch);
}

/* ---- SQL for setting up ---- */

moonpad_status mp_sqlite_execute(mp_sqlite_connection *connection, const char *sql, moonpad_error *error) {
  int code = sqlite3_exec(connection->db, sql, NULL, NULL, NULL);
  return code == SQLITE_OK ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
}

moonpad_status mp_sqlite_query_integer(mp_sqlite_connection *connection, const char *sql, int64_t *integer,
                                       moonpad_error *error) {
  sqlite3_stmt *statement = NULL;
  moonpad_status status = MOONPAD_OK;
  int code = sqlite3_prepare_v2(connection->db, sql, -1, &statement, NULL);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  *integer = code == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
  if (code != SQLITE_ROW && code != SQLITE_DONE) status = mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status;
}
