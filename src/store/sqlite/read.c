/*
** Heads, state and lists: reading. Every function leaves its statement reset: an open one would
** hold the snapshot.
*/
#include <math.h>

#include "base/error.h"
#include "core/json_scan.h"
#include "store/sqlite/sqlite.h"

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

moonpad_status mp_sqlite_step_to_row(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_error *error) {
  int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) return MOONPAD_OK;
  return code == SQLITE_DONE ? MOONPAD_NOT_FOUND : mp_sqlite_fail(connection, code, error);
}

moonpad_status mp_sqlite_walk_rows(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_sqlite_give give,
                                   const mp_sqlite_walk *walk, moonpad_error *error) {
  for (;;) {
    moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
    bool at_end = status == MOONPAD_NOT_FOUND;
    if (status == MOONPAD_OK) status = give(connection, statement, walk, error);
    if (status == MOONPAD_OK) continue;
    sqlite3_reset(statement);
    return at_end ? MOONPAD_OK : status;
  }
}

/* Columns as in HEAD_COLUMNS. Of a user or an app that has no head yet all of them are NULL. */
static void head_of(sqlite3_stmt *statement, int column, mp_sqlite_head *head) {
  head->revision = sqlite3_column_int64(statement, column);
  head->forgotten = sqlite3_column_int64(statement, column + 1);
  head->touched = sqlite3_column_double(statement, column + 2);
  mp_sqlite_recent_read(&head->recent, mp_sqlite_column_text(statement, column + 3), head->revision);
}

void mp_sqlite_keep_head(mp_sqlite_connection *connection, sqlite3_stmt *statement, int column, mp_scope scope,
                         int64_t id) {
  if (connection->rows != NULL) head_of(statement, column, mp_sqlite_rows_new_head(connection->rows, scope, id));
}

moonpad_status mp_sqlite_head_of(mp_sqlite_connection *connection, mp_scope scope, int64_t id, mp_sqlite_head *spare,
                                 mp_sqlite_head **head, moonpad_error *error) {
  mp_sqlite_rows *rows = connection->rows;
  *head = rows == NULL ? NULL : mp_sqlite_rows_head(rows, scope, id);
  if (*head != NULL) return MOONPAD_OK;
  bool shared = scope != MP_SCOPE_SESSION;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, shared ? MP_SQL_SHARED_HEAD : MP_SQL_SESSION_HEAD, error);
  if (statement == NULL) return connection->failure;
  if (shared) sqlite3_bind_int64(statement, 1, (int)scope);
  sqlite3_bind_int64(statement, shared ? 2 : 1, id);
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK || status == MOONPAD_NOT_FOUND) {
    *head = rows == NULL ? spare : mp_sqlite_rows_new_head(rows, scope, id);
    (*head)->id = id;
    head_of(statement, 0, *head);
    status = MOONPAD_OK;
  }
  sqlite3_reset(statement);
  return status;
}

/* Columns as in SESSION_COLUMNS, then the heads. Remembered for who asks by id. */
static moonpad_status one_session(mp_sqlite_connection *connection, sqlite3_stmt *statement, bool remember,
                                  mp_facts *facts, moonpad_error *error) {
  mp_session_row *row = &facts->row;
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) status = session_of(connection, statement, row, error);
  for (int scope = 0; status == MOONPAD_OK && scope < MP_STORED_SCOPES; scope++) {
    int column = 10 + 4 * scope;
    facts->forgotten[scope] = sqlite3_column_int64(statement, column + 1);
    facts->touched[scope] = sqlite3_column_double(statement, column + 2);
    if (!remember) continue;
    mp_sqlite_keep_head(connection, statement, column, (mp_scope)scope, mp_row_id(row, (mp_scope)scope));
  }
  sqlite3_reset(statement);
  if (status == MOONPAD_OK && remember) mp_sqlite_rows_keep(connection->rows, row);
  return status;
}

static moonpad_status find_session_by_name(mp_sqlite_connection *connection, const moonpad_session_name *name,
                                           mp_facts *facts, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FIND_SESSION, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_bind_text(statement, 1, name->app_name);
  mp_sqlite_bind_text(statement, 2, name->user_id);
  mp_sqlite_bind_text(statement, 3, name->session_id);
  return one_session(connection, statement, false, facts, error);
}

static moonpad_status find_session(mp_tx *tx, const mp_session_ref *place, mp_facts *facts, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_sqlite_rows *rows = connection->rows;
  if (place->session == 0) return find_session_by_name(connection, &place->name, facts, error);
  if (rows != NULL && mp_sqlite_rows_find(rows, place->session, facts)) return MOONPAD_OK;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_LOAD_SESSION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, place->session);
  return one_session(connection, statement, rows != NULL, facts, error);
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
  if (type == SQLITE_TEXT && mp_scan_check(json)) {
    *value = mp_value_from_trusted_json(env, json);
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

static moonpad_status read_key(mp_tx *tx, int64_t id, mp_state_row *wanted, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_state_row row = {.scope = wanted->scope};
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_READ_KEY, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)wanted->scope);
  sqlite3_bind_int64(statement, 2, id);
  mp_sqlite_bind_text(statement, 3, wanted->key);
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) status = state_row_of(connection, statement, &row, error);
  sqlite3_reset(statement);
  wanted->value = row.value;
  wanted->revision = row.revision;
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

static moonpad_status give_state(mp_sqlite_connection *connection, sqlite3_stmt *statement, const mp_sqlite_walk *walk,
                                 moonpad_error *error) {
  mp_state_row row = {.scope = walk->scope};
  moonpad_status status = state_row_of(connection, statement, &row, error);
  if (status == MOONPAD_OK) status = walk->state(walk->context, &row, error);
  mp_value_release(connection->store->env, row.value);
  return status;
}

static moonpad_status walk_keys(mp_sqlite_connection *connection, mp_sqlite_statement_id which, int64_t id,
                                int64_t since, const mp_sqlite_walk *walk, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, which, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)walk->scope);
  sqlite3_bind_int64(statement, 2, id);
  if (which == MP_SQL_EACH_KEY_SINCE) sqlite3_bind_int64(statement, 3, since);
  return mp_sqlite_walk_rows(connection, statement, give_state, walk, error);
}

static moonpad_status walk_recent(mp_sqlite_connection *connection, const mp_sqlite_head *head, int64_t since,
                                  const mp_sqlite_walk *walk, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_READ_KEY_SINCE, error);
  if (statement == NULL) return connection->failure;
  moonpad_status status = MOONPAD_OK;
  moonpad_string key;
  int64_t revision;
  size_t position = 0;
  while (status == MOONPAD_OK && mp_sqlite_recent_next(&head->recent, &position, &key, &revision)) {
    if (revision <= since) continue;
    sqlite3_bind_int64(statement, 1, (int)walk->scope);
    sqlite3_bind_int64(statement, 2, head->id);
    mp_sqlite_bind_text(statement, 3, key);
    sqlite3_bind_int64(statement, 4, since);
    status = mp_sqlite_walk_rows(connection, statement, give_state, walk, error);
  }
  return status;
}

static moonpad_status walk_base_keys(mp_sqlite_connection *connection, int64_t session, const mp_sqlite_walk *walk,
                                     moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_EACH_BASE_KEY, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, session);
  return mp_sqlite_walk_rows(connection, statement, give_state, walk, error);
}

static moonpad_status each_key(mp_tx *tx, mp_owner owner, int64_t since, mp_each_state each, void *context,
                               moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_sqlite_walk walk = {.state = each, .context = context, .scope = owner.scope};
  if (owner.is_base) return walk_base_keys(connection, owner.id, &walk, error);
  if (since < 0) return walk_keys(connection, MP_SQL_EACH_KEY, owner.id, since, &walk, error);
  mp_sqlite_head spare, *head;
  moonpad_status status = mp_sqlite_head_of(connection, owner.scope, owner.id, &spare, &head, error);
  if (status != MOONPAD_OK) return status;
  if (since >= head->recent.floor) return walk_recent(connection, head, since, &walk, error);
  return walk_keys(connection, MP_SQL_EACH_KEY_SINCE, owner.id, since, &walk, error);
}

/* ---- lists ---- */

static sqlite3_stmt *list_statement(mp_sqlite_connection *connection, const mp_list_query *query,
                                    moonpad_error *error) {
  mp_sqlite_statement_id oldest = query->has_user_id ? MP_SQL_LIST_USER_OLDEST : MP_SQL_LIST_APP_OLDEST;
  mp_sqlite_statement_id newest = query->has_user_id ? MP_SQL_LIST_USER_NEWEST : MP_SQL_LIST_APP_NEWEST;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, query->newest_first ? newest : oldest, error);
  if (statement == NULL) return NULL;
  const moonpad_string none = {"", 0};
  /* before everything in the order asked for */
  double end = query->newest_first ? (double)INFINITY : -(double)INFINITY;
  mp_sqlite_bind_text(statement, 1, query->app_name);
  sqlite3_bind_double(statement, 2, query->has_after ? query->after_time : end);
  mp_sqlite_bind_text(statement, 3, query->has_after ? query->after_user_id : none);
  mp_sqlite_bind_text(statement, 4, query->has_after ? query->after_session_id : none);
  sqlite3_bind_int64(statement, 5, query->limit > 0 ? query->limit : -1);
  if (query->has_user_id) mp_sqlite_bind_text(statement, 6, query->user_id);
  sqlite3_bind_double(statement, 7, query->touched_since != 0 ? query->touched_since : -(double)INFINITY);
  return statement;
}

static moonpad_status give_session(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                   const mp_sqlite_walk *walk, moonpad_error *error) {
  mp_listed_session listed = {.user_id = mp_sqlite_column_text(statement, 10),
                              .session_id = mp_sqlite_column_text(statement, 11)};
  if (listed.user_id.data == NULL || listed.session_id.data == NULL) return mp_no_memory(error);
  moonpad_status status = session_of(connection, statement, &listed.row, error);
  return status == MOONPAD_OK ? walk->session(walk->context, &listed, error) : status;
}

static moonpad_status each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                   moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = list_statement(connection, query, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_walk walk = {.session = each, .context = context};
  return mp_sqlite_walk_rows(connection, statement, give_session, &walk, error);
}

/* ---- what a transaction can do ---- */

const mp_parts mp_sqlite_parts = {
    .find_session = find_session,
    .find_shared = mp_sqlite_find_shared,
    .insert_session = mp_sqlite_insert_session,
    .remove = mp_sqlite_remove,
    .update_heads = mp_sqlite_update_heads,
    .each_session = each_session,
    .read_key = read_key,
    .each_key = each_key,
    .write_key = mp_sqlite_write_key,
    .append_event = mp_sqlite_append_event,
    .each_event = mp_sqlite_each_event,
};

const mp_tx_ops mp_sqlite_tx_ops = {
    .size = sizeof mp_sqlite_tx_ops,
    .look = mp_parts_look,
    .each_listed = mp_parts_each_listed,
    .each_event = mp_parts_each_event,
    .find_invocation = mp_sqlite_find_invocation,
    .each_base_key = mp_parts_each_base_key,
    .create_session = mp_parts_create_session,
    .remove_session = mp_parts_remove_session,
    .remove_user = mp_parts_remove_user,
    .apply = mp_parts_apply,
    .copy_history = mp_sqlite_copy_history,
    .trim = mp_sqlite_trim,
    .purge = mp_sqlite_purge,
    .touch = mp_sqlite_touch,
    .sweep = mp_sqlite_sweep,
    .claim_token = mp_sqlite_claim_token,
};
