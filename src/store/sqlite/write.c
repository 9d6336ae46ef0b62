/* Writes heads, sessions and state; removes sessions and users. */
#include "base/error.h"
#include "store/sqlite/sqlite.h"

/* ---- apps and users ---- */

/* Columns: an id, then HEAD_COLUMNS. MOONPAD_NOT_FOUND, no message: there is no row. */
static moonpad_status find_head(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_scope scope,
                                mp_head *head, moonpad_error *error) {
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) {
    head->id = sqlite3_column_int64(statement, 0);
    head->revision = sqlite3_column_int64(statement, 1);
    head->forgotten = sqlite3_column_int64(statement, 2);
    head->touched = sqlite3_column_double(statement, 3);
    mp_sqlite_cache_head_columns(connection, statement, 1, scope, head->id);
  }
  sqlite3_reset(statement);
  return status;
}

static moonpad_status insert(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_scope scope, mp_head *head,
                             moonpad_error *error) {
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  if (status != MOONPAD_OK) return status;
  *head = (mp_head){.id = sqlite3_last_insert_rowid(connection->db)};
  (void)mp_sqlite_cache_add_head(connection->cache, scope, head->id);
  return MOONPAD_OK;
}

/* Binds the name of an app (`app` 0), or an app and the name of its user. */
static sqlite3_stmt *head_statement(mp_sqlite_connection *connection, mp_sqlite_statement_id id, int64_t app,
                                    moonpad_string name, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, id, error);
  if (statement == NULL) return NULL;
  if (app != 0) sqlite3_bind_int64(statement, 1, app);
  mp_sqlite_bind_text(statement, app == 0 ? 1 : 2, name);
  return statement;
}

moonpad_status mp_sqlite_find_shared(mp_tx *tx, mp_scope scope, int64_t app, moonpad_string name, bool create,
                                     mp_head *head, moonpad_error *error) {
  bool is_user = scope == MP_SCOPE_USER;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_sqlite_statement_id find = is_user ? MP_SQL_FIND_USER : MP_SQL_FIND_APP;
  mp_sqlite_statement_id insertion = is_user ? MP_SQL_CREATE_USER : MP_SQL_CREATE_APP;
  sqlite3_stmt *statement = head_statement(connection, find, app, name, error);
  if (statement == NULL) return connection->failure;
  moonpad_status status = find_head(connection, statement, scope, head, error);
  if (status != MOONPAD_NOT_FOUND || !create) return status;
  statement = head_statement(connection, insertion, app, name, error);
  if (statement == NULL) return connection->failure;
  return insert(connection, statement, scope, head, error);
}

static void bind_time(sqlite3_stmt *statement, int index, double time) {
  if (time == 0) {
    sqlite3_bind_null(statement, index);
  } else {
    sqlite3_bind_double(statement, index, time);
  }
}

moonpad_status mp_sqlite_write_head(mp_sqlite_connection *connection, mp_scope scope, const mp_sqlite_head *head,
                                    moonpad_error *error) {
  char text[MP_SQLITE_RECENT_TEXT];
  mp_sqlite_statement_id id = scope == MP_SCOPE_SESSION ? MP_SQL_WRITE_SESSION_HEAD : MP_SQL_WRITE_SHARED_HEAD;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, id, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 2, head->id);
  mp_sqlite_bind_text(statement, 3, mp_sqlite_recent_write(&head->recent, text));
  bind_time(statement, 5, head->touched);
  if (head->forgotten == 0) {
    sqlite3_bind_null(statement, 6);
  } else {
    sqlite3_bind_int64(statement, 6, head->forgotten);
  }
  if (scope != MP_SCOPE_SESSION) {
    sqlite3_bind_int64(statement, 1, (int)scope);
    sqlite3_bind_int64(statement, 4, head->revision);
  }
  return mp_sqlite_run(connection, statement, error);
}

/* ---- sessions ---- */

moonpad_status mp_sqlite_insert_session(mp_tx *tx, moonpad_string session_id, mp_session_row *row,
                                        moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_CREATE_SESSION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, row->app);
  sqlite3_bind_int64(statement, 2, row->user);
  mp_sqlite_bind_text(statement, 3, session_id);
  sqlite3_bind_double(statement, 4, row->create_time);
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  if (status != MOONPAD_OK) return status;
  if (sqlite3_changes(connection->db) == 0) return MOONPAD_ALREADY_EXISTS;
  row->id = sqlite3_last_insert_rowid(connection->db);
  if (row->id > MP_SQLITE_MAX_SESSION) {
    return mp_fail(error, MOONPAD_LIMIT, "%s: the file has had %lld sessions, more than it can count", connection->path,
                   (long long)MP_SQLITE_MAX_SESSION);
  }
  (void)mp_sqlite_cache_add_head(connection->cache, MP_SCOPE_SESSION, row->id);
  mp_sqlite_cache_add_session(connection->cache, row);
  return MOONPAD_OK;
}

static moonpad_status update_session(mp_sqlite_connection *connection, const mp_session_row *row,
                                     const mp_sqlite_head *head, moonpad_error *error) {
  char text[MP_SQLITE_RECENT_TEXT];
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_UPDATE_SESSION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, row->id);
  sqlite3_bind_int64(statement, 2, row->revision);
  sqlite3_bind_int64(statement, 3, row->base_revision);
  sqlite3_bind_int64(statement, 4, row->conversation_count);
  sqlite3_bind_double(statement, 5, row->last_update_time);
  bind_time(statement, 6, head->touched);
  mp_sqlite_bind_text(statement, 7, mp_sqlite_recent_write(&head->recent, text));
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  if (status == MOONPAD_OK) mp_sqlite_cache_update_session(connection->cache, row);
  return status;
}

/* ---- heads ---- */

/*
** Adds the written keys to the list of recent changes, also where the head itself does not change:
** a key that is newer than the floor has to be in the list.
*/
static moonpad_status update_head(mp_sqlite_connection *connection, mp_scope scope, const mp_batch *batch,
                                  moonpad_error *error) {
  const mp_session_row *row = batch->row;
  const int64_t revisions[] = {row->revision, row->user_revision, row->app_revision};
  bool changes = (batch->heads & MP_HEAD(scope)) != 0, listed = false;
  mp_sqlite_head *head;
  moonpad_status status = mp_sqlite_load_head(connection, scope, mp_row_id(row, scope), NULL, &head, error);
  if (status != MOONPAD_OK) return status;
  for (size_t i = 0; i < batch->key_count; i++) {
    const mp_state_row *write = &batch->keys[i];
    if (write->scope != scope || write->revision <= head->recent.floor) continue;
    mp_sqlite_recent_add(&head->recent, write->key, write->revision);
    listed = true;
  }
  if (!changes) return listed ? mp_sqlite_write_head(connection, scope, head, error) : MOONPAD_OK;
  head->revision = head->recent.as_of = revisions[scope];
  if (batch->touched > head->touched) head->touched = batch->touched;
  if (scope == MP_SCOPE_SESSION) return update_session(connection, row, head, error);
  return mp_sqlite_write_head(connection, scope, head, error);
}

/* If one of these fails, the transaction is rolled back and the cache is cleared with it. */
moonpad_status mp_sqlite_update_heads(mp_tx *tx, const mp_batch *batch, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  unsigned heads = batch->heads;
  for (size_t i = 0; i < batch->key_count; i++) heads |= MP_HEAD(batch->keys[i].scope);
  for (int scope = 0; status == MOONPAD_OK && scope < MP_STORED_SCOPES; scope++) {
    if ((heads & MP_HEAD(scope)) != 0) status = update_head(mp_sqlite_of(tx), (mp_scope)scope, batch, error);
  }
  return status;
}

/* ---- removing ---- */

static moonpad_status remove_history(mp_sqlite_connection *connection, int64_t session, moonpad_error *error) {
  int64_t first = mp_sqlite_position(session, 0), last = mp_sqlite_position(session, MP_MAX_REVISION);
  moonpad_status status = mp_sqlite_run_with(connection, MP_SQL_DELETE_EVENTS, first, last, error);
  return status == MOONPAD_OK ? mp_sqlite_run_with(connection, MP_SQL_DELETE_BASE_STATE, session, 0, error) : status;
}

moonpad_status mp_sqlite_remove(mp_tx *tx, mp_scope scope, int64_t id, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  bool is_session = scope == MP_SCOPE_SESSION;
  mp_sqlite_cache_remove_head(connection->cache, scope, id);
  moonpad_status status = is_session ? remove_history(connection, id, error) : MOONPAD_OK;
  if (status == MOONPAD_OK) status = mp_sqlite_run_with(connection, MP_SQL_DELETE_STATE, scope, id, error);
  mp_sqlite_statement_id last = is_session ? MP_SQL_DELETE_SESSION : MP_SQL_DELETE_USER;
  return status == MOONPAD_OK ? mp_sqlite_run_with(connection, last, id, 0, error) : status;
}

/* ---- state ---- */

/*
** A composite is JSON already; a scalar is written to the connection's scratch. NULL: a tombstone.
*/
static int bind_value(mp_sqlite_connection *connection, sqlite3_stmt *statement, int index, const mp_value *value) {
  if (value == NULL) return sqlite3_bind_null(statement, index);
  if (mp_is_composite(value->as.type)) return mp_sqlite_bind_text(statement, index, value->as.as.text);
  mp_sqlite_clear_scratch(connection);
  mp_value_write(&connection->scratch, value);
  if (connection->scratch.failed) return SQLITE_NOMEM;
  return mp_sqlite_bind_text(statement, index, mp_buffer_text(&connection->scratch));
}

static moonpad_status write_state(mp_sqlite_connection *connection, sqlite3_stmt *statement, int code,
                                  moonpad_error *error) {
  if (code != SQLITE_OK) {
    sqlite3_reset(statement);
    return mp_sqlite_fail(connection, code, error);
  }
  return mp_sqlite_run(connection, statement, error);
}

static moonpad_status write_base_key(mp_sqlite_connection *connection, int64_t session, const mp_state_row *write,
                                     moonpad_error *error) {
  mp_sqlite_statement_id id = write->value == NULL ? MP_SQL_REMOVE_BASE_KEY : MP_SQL_WRITE_BASE_KEY;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, id, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, session);
  mp_sqlite_bind_text(statement, 2, write->key);
  int code = write->value == NULL ? SQLITE_OK : bind_value(connection, statement, 3, write->value);
  return write_state(connection, statement, code, error);
}

moonpad_status mp_sqlite_write_key(mp_tx *tx, mp_owner owner, const mp_state_row *write, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  if (owner.is_base) return write_base_key(connection, owner.id, write, error);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_WRITE_KEY, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)owner.scope);
  sqlite3_bind_int64(statement, 2, owner.id);
  mp_sqlite_bind_text(statement, 3, write->key);
  sqlite3_bind_int64(statement, 5, write->revision);
  return write_state(connection, statement, bind_value(connection, statement, 4, write->value), error);
}
