/* What SQLite's errors mean to a caller: a status, and a message that names the file. */
#include "base/error.h"
#include "store/sqlite/sqlite.h"

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
                   number == 0 ? "" : mp_system_message(number, reason, sizeof reason));
  }
}

static moonpad_status busy_error(const mp_sqlite *store, const char *path, moonpad_error *error) {
  return mp_fail(error, MOONPAD_BUSY, "%s: another writer kept it locked for longer than busyTimeoutMs (%lld ms)", path,
                 (long long)store->busy_timeout_ms);
}

static moonpad_status translate(mp_sqlite_connection *connection, int code, moonpad_error *error) {
  const char *path = connection->path;
  char reason[128];
  switch (code & 0xFF) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return busy_error(connection->store, path, error);
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
                   path, mp_system_message(sqlite3_system_errno(connection->db), reason, sizeof reason));
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

/* SQLite's codes when a file was moved or replaced. Looking at the files gives a better message. */
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

moonpad_status mp_sqlite_fail_prepare(mp_sqlite_connection *connection, int code, moonpad_error *error) {
  if ((code & 0xFF) == SQLITE_ERROR) return mp_sqlite_corrupt(connection, sqlite3_errmsg(connection->db), error);
  return mp_sqlite_fail(connection, code, error);
}

moonpad_status mp_sqlite_closed(moonpad_error *error) {
  return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
}
