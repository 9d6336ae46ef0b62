/* What a transaction can read. Every function leaves its statement reset: an open one would hold the snapshot. */
#include <math.h>

#include "base/error.h"
#include "core/json.h"
#include "store/sqlite.h"

/* Columns as in SESSION_COLUMNS of sqlite_statement.c. */
static moonpad_status session_of(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_session_row *row,
                                 moonpad_error *error) {
  row->id = sqlite3_column_int64(statement, 0);
  row->user = sqlite3_column_int64(statement, 1);
  row->app = sqlite3_column_int64(statement, 2);
  row->revision = sqlite3_column_int64(statement, 3);
  row->base_revision = sqlite3_column_int64(statement, 4);
  row->user_revision = sqlite3_column_int64(statement, 5);
  row->app_revision = sqlite3_column_int64(statement, 6);
  row->conversation_count = sqlite3_column_int64(statement, 7);
  row->create_time = sqlite3_column_double(statement, 8);
  row->last_update_time = sqlite3_column_double(statement, 9);
  bool sound = row->revision >= 0 && row->base_revision >= 0 && row->base_revision <= row->revision &&
               row->user_revision >= 0 && row->app_revision >= 0;
  return sound ? MOONPAD_OK : mp_sqlite_corrupt(connection, "a session's revision is out of range", error);
}

/* Steps to the one row there may be: NOT_FOUND, without a message, when there is none. The caller resets. */
static moonpad_status step_to_row(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_error *error) {
  int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) return MOONPAD_OK;
  return code == SQLITE_DONE ? MOONPAD_NOT_FOUND : mp_sqlite_fail(connection, code, error);
}

static moonpad_status one_session(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_session_row *row,
                                  moonpad_error *error) {
  moonpad_status status = step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) status = session_of(connection, statement, row, error);
  sqlite3_reset(statement);
  return status;
}

static moonpad_status find_session(mp_tx *tx, const moonpad_session_name *name, mp_session_row *row,
                                   moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FIND_SESSION, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_bind_text(statement, 1, name->app_name);
  mp_sqlite_bind_text(statement, 2, name->user_id);
  mp_sqlite_bind_text(statement, 3, name->session_id);
  return one_session(connection, statement, row, error);
}

moonpad_status mp_sqlite_load_session(mp_tx *tx, int64_t session, mp_session_row *row, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  if (connection->rows != NULL && mp_sqlite_rows_find(connection->rows, session, row)) return MOONPAD_OK;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_LOAD_SESSION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, session);
  moonpad_status status = one_session(connection, statement, row, error);
  if (status == MOONPAD_OK && connection->rows != NULL) mp_sqlite_rows_keep(connection->rows, row);
  return status;
}

/* ---- state ---- */

static moonpad_status value_of(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_value **value,
                               moonpad_error *error) {
  mp_env *env = connection->store->env;
  *value = NULL;
  int type = sqlite3_column_type(statement, 1);
  if (type == SQLITE_NULL) return MOONPAD_OK;
  moonpad_string json = mp_sqlite_column_text(statement, 1);
  if (json.data == NULL) return mp_no_memory(error);
  if (type == SQLITE_TEXT && mp_sqlite_json_is_own(json)) {
    *value = mp_value_from_own_json(env, json);
    return *value == NULL ? mp_no_memory(error) : MOONPAD_OK;
  }
  /* Somebody may have edited it by hand, with white space, say. */
  moonpad_status status = mp_value_parse(env, json, NULL, value, error);
  if (status == MOONPAD_OK || status == MOONPAD_NO_MEMORY) return status;
  return mp_sqlite_corrupt(connection, "a value of the state is not JSON", error);
}

/* Columns: key, value, revision. */
static moonpad_status state_row_of(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_state_row *row,
                                   moonpad_error *error) {
  row->value = NULL;
  if (sqlite3_column_type(statement, 0) != SQLITE_TEXT) {
    return mp_sqlite_corrupt(connection, "a key of the state is not text", error);
  }
  row->key = mp_sqlite_column_text(statement, 0);
  if (row->key.data == NULL) return mp_no_memory(error);
  row->revision = sqlite3_column_int64(statement, 2);
  return value_of(connection, statement, &row->value, error);
}

static moonpad_status read_key(mp_tx *tx, mp_scope scope, int64_t id, moonpad_string key, mp_value **value,
                               int64_t *revision, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_state_row row = {{NULL, 0}, NULL, 0};
  *value = NULL;
  *revision = 0;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_READ_KEY, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)scope);
  sqlite3_bind_int64(statement, 2, id);
  mp_sqlite_bind_text(statement, 3, key);
  moonpad_status status = step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) status = state_row_of(connection, statement, &row, error);
  sqlite3_reset(statement);
  *value = row.value;
  *revision = row.revision;
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

static moonpad_status walk_state(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_each_state each,
                                 void *context, moonpad_error *error) {
  moonpad_status status;
  while ((status = step_to_row(connection, statement, error)) == MOONPAD_OK) {
    mp_state_row row;
    status = state_row_of(connection, statement, &row, error);
    if (status == MOONPAD_OK) status = each(context, &row, error);
    mp_value_release(connection->store->env, row.value);
    if (status != MOONPAD_OK) {
      sqlite3_reset(statement);
      return status;
    }
  }
  sqlite3_reset(statement);
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

static moonpad_status each_key(mp_tx *tx, mp_scope scope, int64_t id, int64_t since, mp_each_state each, void *context,
                               moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, since < 0 ? MP_SQL_EACH_KEY : MP_SQL_EACH_KEY_SINCE, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)scope);
  sqlite3_bind_int64(statement, 2, id);
  if (since >= 0) sqlite3_bind_int64(statement, 3, since);
  return walk_state(connection, statement, each, context, error);
}

static moonpad_status each_base_key(mp_tx *tx, int64_t session, mp_each_state each, void *context,
                                    moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_EACH_BASE_KEY, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, session);
  return walk_state(connection, statement, each, context, error);
}

/* ---- events ---- */

static moonpad_status event_json_of(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_string *json,
                                    moonpad_error *error) {
  *json = mp_sqlite_column_text(statement, 3);
  if (json->data == NULL) return mp_no_memory(error);
  if (json->data[0] == '{' && mp_sqlite_json_is_own(*json)) return MOONPAD_OK;
  moonpad_type type = MOONPAD_ABSENT;
  mp_sqlite_clear_scratch(connection);
  moonpad_status status =
      mp_json_compact(connection->store->env, *json, MP_JSON_DEPTH_LIMIT, "event", &connection->scratch, &type, error);
  if (status == MOONPAD_NO_MEMORY || connection->scratch.failed) return mp_no_memory(error);
  if (status != MOONPAD_OK || type != MOONPAD_OBJECT) {
    return mp_sqlite_corrupt(connection, "an event is not a JSON object", error);
  }
  *json = mp_buffer_text(&connection->scratch);
  return MOONPAD_OK;
}

/* Columns as in EVENT_COLUMNS of sqlite_statement.c. */
static moonpad_status event_of(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_event_row *row,
                               moonpad_error *error) {
  row->revision = sqlite3_column_int64(statement, 0) & MP_MAX_REVISION;
  row->timestamp = sqlite3_column_double(statement, 1);
  row->digest = (uint64_t)sqlite3_column_int64(statement, 4);
  row->id = mp_sqlite_column_text(statement, 2);
  return row->id.data == NULL ? mp_no_memory(error) : event_json_of(connection, statement, &row->json, error);
}

static moonpad_status find_event(mp_tx *tx, int64_t session, moonpad_string event_id, mp_each_event each, void *context,
                                 moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FIND_EVENT, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, session);
  mp_sqlite_bind_text(statement, 2, event_id);
  mp_event_row row;
  moonpad_status status = step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) status = event_of(connection, statement, &row, error);
  if (status == MOONPAD_OK) status = each(context, &row, error);
  sqlite3_reset(statement);
  return status;
}

static moonpad_status each_event(mp_tx *tx, int64_t session, int64_t first, int64_t last, mp_each_event each,
                                 void *context, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  if (first < 0) first = 0;
  if (last > MP_MAX_REVISION) last = MP_MAX_REVISION;
  if (first > last) return MOONPAD_OK;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_EACH_EVENT, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, mp_sqlite_position(session, first));
  sqlite3_bind_int64(statement, 2, mp_sqlite_position(session, last));
  moonpad_status status;
  while ((status = step_to_row(connection, statement, error)) == MOONPAD_OK) {
    mp_event_row row;
    status = event_of(connection, statement, &row, error);
    if (status == MOONPAD_OK) status = each(context, &row, error);
    if (status != MOONPAD_OK) {
      sqlite3_reset(statement);
      return status;
    }
  }
  sqlite3_reset(statement);
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

/* ---- lists ---- */

static sqlite3_stmt *list_statement(mp_sqlite_connection *connection, const mp_list_query *query,
                                    moonpad_error *error) {
  mp_sqlite_statement_id oldest = query->has_user_id ? MP_SQL_LIST_USER_OLDEST : MP_SQL_LIST_APP_OLDEST;
  mp_sqlite_statement_id newest = query->has_user_id ? MP_SQL_LIST_USER_NEWEST : MP_SQL_LIST_APP_NEWEST;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, query->newest_first ? newest : oldest, error);
  if (statement == NULL) return NULL;
  const moonpad_string none = {"", 0};
  double end =
      query->newest_first ? (double)INFINITY : -(double)INFINITY; /* before everything in the order asked for */
  mp_sqlite_bind_text(statement, 1, query->app_name);
  sqlite3_bind_double(statement, 2, query->has_after ? query->after_time : end);
  mp_sqlite_bind_text(statement, 3, query->has_after ? query->after_user_id : none);
  mp_sqlite_bind_text(statement, 4, query->has_after ? query->after_session_id : none);
  sqlite3_bind_int64(statement, 5, query->limit > 0 ? query->limit : -1);
  if (query->has_user_id) mp_sqlite_bind_text(statement, 6, query->user_id);
  return statement;
}

static moonpad_status listed_of(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_listed_session *listed,
                                moonpad_error *error) {
  listed->user_id = mp_sqlite_column_text(statement, 10);
  listed->session_id = mp_sqlite_column_text(statement, 11);
  if (listed->user_id.data == NULL || listed->session_id.data == NULL) return mp_no_memory(error);
  return session_of(connection, statement, &listed->row, error);
}

static moonpad_status each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                   moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = list_statement(connection, query, error);
  if (statement == NULL) return connection->failure;
  moonpad_status status;
  while ((status = step_to_row(connection, statement, error)) == MOONPAD_OK) {
    mp_listed_session listed;
    status = listed_of(connection, statement, &listed, error);
    if (status == MOONPAD_OK) status = each(context, &listed, error);
    if (status != MOONPAD_OK) {
      sqlite3_reset(statement);
      return status;
    }
  }
  sqlite3_reset(statement);
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

const mp_tx_ops mp_sqlite_tx_ops = {
    .find_session = find_session,
    .load_session = mp_sqlite_load_session,
    .find_shared = mp_sqlite_find_shared,
    .read_key = read_key,
    .each_key = each_key,
    .each_base_key = each_base_key,
    .find_event = find_event,
    .each_event = each_event,
    .each_session = each_session,
    .create_session = mp_sqlite_create_session,
    .delete_session = mp_sqlite_delete_session,
    .write_key = mp_sqlite_write_key,
    .write_base_key = mp_sqlite_write_base_key,
    .set_shared_revision = mp_sqlite_set_shared_revision,
    .append_event = mp_sqlite_append_event,
    .update_session = mp_sqlite_update_session,
};
