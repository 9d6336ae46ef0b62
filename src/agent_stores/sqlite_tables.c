/* Opening the tables of artifacts or memories, and running statements on them. */
#include "agent_stores/sqlite_tables.h"

#include <string.h>

#include "base/error.h"

sqlite3_stmt *mp_sqlite_tables_prepare(mp_sqlite_connection *connection, const char *sql, moonpad_error *error) {
  sqlite3_stmt *statement = NULL;
  int code = sqlite3_prepare_v2(connection->db, sql, -1, &statement, NULL);
  if (code == SQLITE_OK) return statement;
  mp_sqlite_fail_prepare(connection, code, error);
  return NULL;
}

int mp_sqlite_tables_bind(sqlite3_stmt *statement, const moonpad_string *texts, int count) {
  int code = SQLITE_OK;
  for (int i = 0; i < count && code == SQLITE_OK; i++) code = mp_sqlite_bind_text(statement, i + 1, texts[i]);
  return code;
}

moonpad_status mp_sqlite_tables_finish(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                                       moonpad_error *error) {
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status;
}

moonpad_status mp_sqlite_tables_integer(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                                        int64_t otherwise, int64_t *integer, moonpad_error *error) {
  *integer = otherwise;
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  if (code == SQLITE_ROW) {
    *integer = sqlite3_column_int64(statement, 0);
    code = SQLITE_OK;
  } else if (code == SQLITE_DONE) {
    sqlite3_finalize(statement);
    return MOONPAD_OK;
  }
  return mp_sqlite_tables_finish(connection, statement, code, error);
}

/* ---- Opening ---- */

typedef struct making {
  const mp_sqlite_tables *tables;
  bool exist;
} making;

static moonpad_status look_for_table(mp_tx *tx, void *context, moonpad_error *error) {
  making *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement =
      mp_sqlite_tables_prepare(connection, "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1", error);
  if (statement == NULL) return connection->failure;
  int code = mp_sqlite_bind_text(statement, 1, moonpad_text(wanted->tables->last_table));
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  wanted->exist = code == SQLITE_ROW;
  moonpad_status status =
      code == SQLITE_ROW || code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status;
}

static moonpad_status make_tables(mp_tx *tx, void *context, moonpad_error *error) {
  const making *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  int code = sqlite3_exec(connection->db, wanted->tables->sql, NULL, NULL, NULL);
  if (code == SQLITE_OK) return MOONPAD_OK;
  if (strstr(sqlite3_errmsg(connection->db), "no such module") != NULL) {
    connection->failure = MOONPAD_UNSUPPORTED;
    return mp_fail(error, MOONPAD_UNSUPPORTED, "%s: searching memories needs a SQLite that has FTS5; this one has not",
                   connection->path);
  }
  return mp_sqlite_fail(connection, code, error);
}

static moonpad_status need_tables(mp_store *file, const mp_sqlite_tables *tables, moonpad_error *error) {
  making wanted = {tables, false};
  moonpad_status status = mp_sqlite_read(file, look_for_table, &wanted, error);
  if (status != MOONPAD_OK || wanted.exist) return status;
  status = mp_sqlite_write(file, make_tables, &wanted, error);
  mp_sqlite_forget_rollback(((mp_sqlite *)file)->writer);
  return status;
}

moonpad_status mp_sqlite_tables_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                     const mp_sqlite_tables *tables, mp_store **file, moonpad_error *error) {
  moonpad_status status = mp_sqlite_open(env, rest, options, file, error);
  if (status != MOONPAD_OK) return status;
  status = need_tables(*file, tables, error);
  if (status == MOONPAD_OK) return status;
  mp_sqlite_tables_free(*file);
  *file = NULL;
  return status;
}

static moonpad_status do_nothing(mp_tx *tx, void *context, moonpad_error *error) {
  (void)tx, (void)context, (void)error;
  return MOONPAD_OK;
}

moonpad_status mp_sqlite_tables_check_open(mp_store *file, moonpad_error *error) {
  return mp_sqlite_read(file, do_nothing, NULL, error);
}

void mp_sqlite_tables_free(mp_store *file) {
  if (file == NULL) return;
  file->ops->close(file);
  file->ops->free(file);
}
