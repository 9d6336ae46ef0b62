/* What a transaction can change. */
#include "base/error.h"
#include "store/sqlite.h"

/* ---- apps and users ---- */

/* The statement is bound. NOT_FOUND without a message when there is no row. */
static moonpad_status id_and_revision(mp_sqlite_connection *connection, sqlite3_stmt *statement, int64_t *id,
                                      int64_t *revision, moonpad_error *error) {
  int code = sqlite3_step(statement);
  moonpad_status status = MOONPAD_NOT_FOUND;
  if (code == SQLITE_ROW) {
    *id = sqlite3_column_int64(statement, 0);
    *revision = sqlite3_column_int64(statement, 1);
    status = MOONPAD_OK;
  } else if (code != SQLITE_DONE) {
    status = mp_sqlite_fail(connection, code, error);
  }
  sqlite3_reset(statement);
  return status;
}

static moonpad_status insert(mp_sqlite_connection *connection, sqlite3_stmt *statement, int64_t *id, int64_t *revision,
                             moonpad_error *error) {
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  if (status != MOONPAD_OK) return status;
  *id = sqlite3_last_insert_rowid(connection->db);
  *revision = 0;
  return MOONPAD_OK;
}

static moonpad_status find_app(mp_sqlite_connection *connection, moonpad_string app_name, bool create, int64_t *id,
                               int64_t *revision, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FIND_APP, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_bind_text(statement, 1, app_name);
  moonpad_status status = id_and_revision(connection, statement, id, revision, error);
  if (status != MOONPAD_NOT_FOUND || !create) return status;
  statement = mp_sqlite_statement(connection, MP_SQL_CREATE_APP, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_bind_text(statement, 1, app_name);
  return insert(connection, statement, id, revision, error);
}

static moonpad_status find_user(mp_sqlite_connection *connection, int64_t app, moonpad_string user_id, bool create,
                                int64_t *id, int64_t *revision, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FIND_USER, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, app);
  mp_sqlite_bind_text(statement, 2, user_id);
  moonpad_status status = id_and_revision(connection, statement, id, revision, error);
  if (status != MOONPAD_NOT_FOUND || !create) return status;
  statement = mp_sqlite_statement(connection, MP_SQL_CREATE_USER, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, app);
  mp_sqlite_bind_text(statement, 2, user_id);
  return insert(connection, statement, id, revision, error);
}

moonpad_status mp_sqlite_find_shared(mp_tx *tx, moonpad_string app_name, const moonpad_string *user_id, bool create,
                                     int64_t *id, int64_t *revision, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  moonpad_status status = find_app(connection, app_name, create, id, revision, error);
  if (status != MOONPAD_OK || user_id == NULL) return status;
  return find_user(connection, *id, *user_id, create, id, revision, error);
}

moonpad_status mp_sqlite_set_shared_revision(mp_tx *tx, mp_scope scope, int64_t id, int64_t revision,
                                             moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_SET_REVISION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)scope);
  sqlite3_bind_int64(statement, 2, id);
  sqlite3_bind_int64(statement, 3, revision);
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  if (status == MOONPAD_OK) mp_sqlite_rows_keep_shared(connection->rows, scope, id, revision);
  return status;
}

/* ---- sessions ---- */

static moonpad_status insert_session(mp_sqlite_connection *connection, moonpad_string session_id, double create_time,
                                     mp_session_row *row, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_CREATE_SESSION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, row->app);
  sqlite3_bind_int64(statement, 2, row->user);
  mp_sqlite_bind_text(statement, 3, session_id);
  sqlite3_bind_double(statement, 4, create_time);
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  if (status != MOONPAD_OK) return status;
  if (sqlite3_changes(connection->db) == 0) return MOONPAD_ALREADY_EXISTS;
  row->id = sqlite3_last_insert_rowid(connection->db);
  if (row->id > MP_SQLITE_MAX_SESSION) {
    return mp_fail(error, MOONPAD_LIMIT, "%s: the file has had %lld sessions, more than it can count", connection->path,
                   (long long)MP_SQLITE_MAX_SESSION);
  }
  return MOONPAD_OK;
}

moonpad_status mp_sqlite_create_session(mp_tx *tx, const moonpad_session_name *name, double create_time,
                                        mp_session_row *row, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_session_row made = {.create_time = create_time, .last_update_time = create_time};
  moonpad_status status = find_app(connection, name->app_name, true, &made.app, &made.app_revision, error);
  if (status == MOONPAD_OK) {
    status = find_user(connection, made.app, name->user_id, true, &made.user, &made.user_revision, error);
  }
  if (status == MOONPAD_OK) status = insert_session(connection, name->session_id, create_time, &made, error);
  if (status == MOONPAD_OK) *row = made;
  return status;
}

moonpad_status mp_sqlite_update_session(mp_tx *tx, const mp_session_row *row, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_UPDATE_SESSION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, row->id);
  sqlite3_bind_int64(statement, 2, row->revision);
  sqlite3_bind_int64(statement, 3, row->base_revision);
  sqlite3_bind_int64(statement, 4, row->conversation_count);
  sqlite3_bind_double(statement, 5, row->last_update_time);
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  if (status == MOONPAD_OK) mp_sqlite_rows_update(connection->rows, row);
  return status;
}

moonpad_status mp_sqlite_delete_session(mp_tx *tx, int64_t session, moonpad_error *error) {
  static const mp_sqlite_statement_id by_session[] = {MP_SQL_DELETE_STATE, MP_SQL_DELETE_BASE_STATE,
                                                      MP_SQL_DELETE_SESSION};
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_sqlite_rows_drop(connection->rows, session);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_DELETE_EVENTS, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, mp_sqlite_position(session, 0));
  sqlite3_bind_int64(statement, 2, mp_sqlite_position(session, MP_MAX_REVISION));
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  for (size_t i = 0; status == MOONPAD_OK && i < sizeof by_session / sizeof *by_session; i++) {
    statement = mp_sqlite_statement(connection, by_session[i], error);
    if (statement == NULL) return connection->failure;
    sqlite3_bind_int64(statement, 1, session);
    status = mp_sqlite_run(connection, statement, error);
  }
  return status;
}

/* ---- state ---- */

/* A composite is bound as it is, a scalar as JSON in the connection's scratch. NULL: a removed key. */
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

moonpad_status mp_sqlite_write_key(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value *value,
                                   int64_t revision, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_WRITE_KEY, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)scope);
  sqlite3_bind_int64(statement, 2, id);
  mp_sqlite_bind_text(statement, 3, key);
  sqlite3_bind_int64(statement, 5, revision);
  return write_state(connection, statement, bind_value(connection, statement, 4, value), error);
}

moonpad_status mp_sqlite_write_base_key(mp_tx *tx, int64_t session, moonpad_string key, mp_value *value,
                                        moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_sqlite_statement_id id = value == NULL ? MP_SQL_REMOVE_BASE_KEY : MP_SQL_WRITE_BASE_KEY;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, id, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, session);
  mp_sqlite_bind_text(statement, 2, key);
  int code = value == NULL ? SQLITE_OK : bind_value(connection, statement, 3, value);
  return write_state(connection, statement, code, error);
}

/* ---- events ---- */

static moonpad_status event_failure(mp_sqlite_connection *connection, int code, const mp_event_row *row,
                                    moonpad_error *error) {
  if ((code & 0xFF) != SQLITE_CONSTRAINT) return mp_sqlite_fail(connection, code, error);
  return mp_fail(error, MOONPAD_ALREADY_EXISTS, "an event with id %s or revision %lld is already in this session",
                 mp_quote(row->id).text, (long long)row->revision);
}

moonpad_status mp_sqlite_append_event(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  if (row->revision > MP_MAX_REVISION) {
    return mp_fail(error, MOONPAD_LIMIT, "revision %lld: a session counts no further than %lld",
                   (long long)row->revision, (long long)MP_MAX_REVISION);
  }
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_APPEND_EVENT, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, mp_sqlite_position(session, row->revision));
  sqlite3_bind_double(statement, 3, row->timestamp);
  if (row->digest == 0) {
    sqlite3_bind_null(statement, 4);
  } else {
    sqlite3_bind_int64(statement, 4, (int64_t)row->digest);
  }
  int code = mp_sqlite_bind_text(statement, 2, row->id);
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 5, row->json);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : event_failure(connection, code, row, error);
  sqlite3_reset(statement);
  return status;
}
