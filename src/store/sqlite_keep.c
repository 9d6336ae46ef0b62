/* Opening the tables that lie beside the sessions, and what artifacts and memories share. */
#include "store/sqlite_keep.h"

#include <string.h>

#include "base/error.h"

moonpad_status mp_keep_open(mp_env *env, moonpad_string path, const moonpad_options *options, mp_store **store,
                            moonpad_error *error) {
  return mp_sqlite_open(env, path, options, store, error);
}

void mp_keep_be_brief(mp_store *store) {
  ((mp_sqlite *)store)->busy_timeout_ms = MP_SQLITE_INSTANT_MS;
}

void mp_keep_close(mp_store *store) {
  if (store != NULL) store->ops->close(store);
}

void mp_keep_free(mp_store *store) {
  if (store == NULL) return;
  store->ops->close(store);
  store->ops->free(store);
}

sqlite3_stmt *mp_keep_prepare(mp_sqlite_connection *connection, const char *sql, moonpad_error *error) {
  sqlite3_stmt *statement = NULL;
  int code = sqlite3_prepare_v2(connection->db, sql, -1, &statement, NULL);
  if (code == SQLITE_OK) return statement;
  if ((code & 0xFF) == SQLITE_ERROR) { /* the SQL never changes, so it is the tables that are not as they should be */
    mp_sqlite_corrupt(connection, sqlite3_errmsg(connection->db), error);
  } else {
    mp_sqlite_fail(connection, code, error);
  }
  return NULL;
}

int mp_keep_bind_texts(sqlite3_stmt *statement, const moonpad_string *texts, int count) {
  int code = SQLITE_OK;
  for (int i = 0; i < count && code == SQLITE_OK; i++) code = mp_sqlite_bind_text(statement, i + 1, texts[i]);
  return code;
}

moonpad_status mp_keep_finish(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                              moonpad_error *error) {
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status;
}

/* ---- Tables ---- */

typedef struct making {
  const char *last_table;
  const char *sql;
  bool exists;
} making;

static moonpad_status look_for_table(mp_tx *tx, void *context, moonpad_error *error) {
  making *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement =
      mp_keep_prepare(connection, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1", error);
  if (statement == NULL) return connection->failure;
  int code = mp_sqlite_bind_text(statement, 1, moonpad_text(wanted->last_table));
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  wanted->exists = code == SQLITE_ROW;
  moonpad_status status =
      code == SQLITE_ROW || code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status;
}

static moonpad_status make_tables(mp_tx *tx, void *context, moonpad_error *error) {
  const making *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  int code = sqlite3_exec(connection->db, wanted->sql, NULL, NULL, NULL);
  if (code == SQLITE_OK) return MOONPAD_OK;
  if (strstr(sqlite3_errmsg(connection->db), "no such module") != NULL) {
    connection->failure = MOONPAD_UNSUPPORTED;
    return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: searching memories needs a SQLite that has FTS5; this one has not",
                   connection->path);
  }
  return mp_sqlite_fail(connection, code, error);
}

moonpad_status mp_keep_make_tables(mp_store *store, const char *last_table, const char *sql, moonpad_error *error) {
  making wanted = {last_table, sql, false};
  moonpad_status status = store->ops->read(store, look_for_table, &wanted, error);
  if (status != MOONPAD_OK || wanted.exists) return status;
  return store->ops->write(store, make_tables, &wanted, error);
}
