/* One connection: how it is opened and set up, and how it waits for locks. */
#include <string.h>

#include "base/error.h"
#include "store/sqlite/sqlite.h"

#define MAX_IDLE_SCRATCH ((size_t)1 << 16) /* bytes */

/* ---- waiting ---- */

#define HURRIED_STEPS 100 /* about 30 ms */

/*
** SQLite's own busy handler backs off to 100 ms, which can make one of several writers wait for
** half a second. Short steps keep the longest wait short. A checkpoint waits for the writers, then,
** while they are blocked, for the readers, and syncs in between. So its wait is counted in steps:
** by the clock, the syncs would count as waiting.
*/
static int wait_for_lock(void *context, int calls) {
  mp_sqlite_connection *connection = context;
  if (connection->hurries && calls >= HURRIED_STEPS) return 0;
  double now = mp_monotonic();
  if (calls == 0) connection->waiting_since = now;
  double left = connection->waiting_since + (double)connection->store->busy_timeout_ms * 1e-3 - now;
  if (left <= 0) return 0;
  /* One that has waited long looks more often. */
  double step = calls < 10 || calls > 50 ? 200e-6 : 500e-6;
  mp_sleep(left < step ? left : step);
  return 1;
}

/* ---- opening and closing ---- */

#define LONGEST_FOLDER 4096 /* bytes */

/* The folder of a path: itself without its last name, or the current one. */
static void folder_of(const char *path, char folder[LONGEST_FOLDER]) {
  size_t length = mp_sqlite_folder_length(path);
  strcpy(folder, ".");
  if (length == 0 || length >= LONGEST_FOLDER) return;
  memcpy(folder, path, length);
  folder[length] = '\0';
}

/* SQLite only says that a file cannot be opened. Finds out why. */
static moonpad_status explain(const char *path, int number, moonpad_error *error) {
  char folder[LONGEST_FOLDER], reason[128];
  bool is_folder = false;
  int64_t size;
  folder_of(path, folder);
  int why = mp_sqlite_look(folder, &is_folder, &size);
  if (why != 0) {
    return mp_fail(error, MOONPAD_STORAGE, "%s: its folder %s cannot be used: %s", path, folder,
                   mp_system_message(why, reason, sizeof reason));
  }
  if (!is_folder) return mp_fail(error, MOONPAD_STORAGE, "%s: its folder %s is not a folder", path, folder);
  why = mp_sqlite_look(path, &is_folder, &size);
  if (why == 0 && is_folder) return mp_fail(error, MOONPAD_STORAGE, "%s: is a folder, not a file", path);
  /*
  ** A file that cannot be created: SQLite then tries to open it read-only, and reports the error of
  ** that, which is that it does not exist.
  */
  int denied = mp_sqlite_is_absent(why) ? mp_sqlite_denied(folder, true) : 0;
  if (denied != 0) {
    return mp_fail(error, MOONPAD_STORAGE, "%s: its folder %s cannot be written: %s", path, folder,
                   mp_system_message(denied, reason, sizeof reason));
  }
  return mp_fail(error, MOONPAD_STORAGE, "%s: cannot be opened: %s", path,
                 mp_system_message(number, reason, sizeof reason));
}

static void harden(sqlite3 *db) {
  sqlite3_extended_result_codes(db, 1);
  /* A file may have been tampered with: nothing in it is run. */
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
  mp_release(connection->store->env, connection->cache);
  mp_release(connection->store->env, connection);
}

void mp_sqlite_clear_scratch(mp_sqlite_connection *connection) {
  if (connection->scratch.capacity > MAX_IDLE_SCRATCH) mp_buffer_free(&connection->scratch);
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
