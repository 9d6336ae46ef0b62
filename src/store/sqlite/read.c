/* Reads heads, sessions, state and lists. */
#include <math.h>

#include "base/error.h"
#include "store/sqlite/sqlite.h"
#include "store/stored.h"

/* Columns: SESSION_COLUMNS of statement.c. */
static moonpad_status read_session(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_session_row *row,
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

/* Columns: HEAD_COLUMNS, all NULL for a user or an app that has no head yet. */
static void read_head(sqlite3_stmt *statement, int column, mp_sqlite_head *head) {
  head->revision = sqlite3_column_int64(statement, column);
  head->forgotten = sqlite3_column_int64(statement, column + 1);
  head->touched = sqlite3_column_double(statement, column + 2);
  mp_sqlite_recent_read(&head->recent, mp_sqlite_column_text(statement, column + 3), head->revision);
}

void mp_sqlite_cache_head_columns(mp_sqlite_connection *connection, sqlite3_stmt *statement, int column, mp_scope scope,
                                  int64_t id) {
  if (connection->cache != NULL) read_head(statement, column, mp_sqlite_cache_add_head(connection->cache, scope, id));
}

moonpad_status mp_sqlite_load_head(mp_sqlite_connection *connection, mp_scope scope, int64_t id,
                                   mp_sqlite_head *uncached, mp_sqlite_head **head, moonpad_error *error) {
  mp_sqlite_cache *cache = connection->cache;
  *head = cache == NULL ? NULL : mp_sqlite_cache_find_head(cache, scope, id);
  if (*head != NULL) return MOONPAD_OK;
  bool shared = scope != MP_SCOPE_SESSION;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, shared ? MP_SQL_SHARED_HEAD : MP_SQL_SESSION_HEAD, error);
  if (statement == NULL) return connection->failure;
  if (shared) sqlite3_bind_int64(statement, 1, (int)scope);
  sqlite3_bind_int64(statement, shared ? 2 : 1, id);
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK || status == MOONPAD_NOT_FOUND) {
    *head = cache == NULL ? uncached : mp_sqlite_cache_add_head(cache, scope, id);
    (*head)->id = id;
    read_head(statement, 0, *head);
    status = MOONPAD_OK;
  }
  sqlite3_reset(statement);
  return status;
}

/* Columns: SESSION_COLUMNS, then ALL_HEADS. With `cached`, the row and its heads are cached. */
static moonpad_status step_to_session(mp_sqlite_connection *connection, sqlite3_stmt *statement, bool cached,
                                      mp_facts *facts, moonpad_error *error) {
  mp_session_row *row = &facts->row;
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) status = read_session(connection, statement, row, error);
  for (int scope = 0; status == MOONPAD_OK && scope < MP_STORED_SCOPES; scope++) {
    int column = 10 + 4 * scope;
    facts->forgotten[scope] = sqlite3_column_int64(statement, column + 1);
    facts->touched[scope] = sqlite3_column_double(statement, column + 2);
    if (!cached) continue;
    mp_sqlite_cache_head_columns(connection, statement, column, (mp_scope)scope, mp_row_id(row, (mp_scope)scope));
  }
  sqlite3_reset(statement);
  if (status == MOONPAD_OK && cached) mp_sqlite_cache_add_session(connection->cache, row);
  return status;
}

static moonpad_status find_session_by_name(mp_sqlite_connection *connection, const moonpad_session_name *name,
                                           mp_facts *facts, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FIND_SESSION, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_bind_text(statement, 1, name->app_name);
  mp_sqlite_bind_text(statement, 2, name->user_id);
  mp_sqlite_bind_text(statement, 3, name->session_id);
  return step_to_session(connection, statement, false, facts, error);
}

moonpad_status mp_sqlite_find_session(mp_tx *tx, const mp_session_ref *ref, mp_facts *facts, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_sqlite_cache *cache = connection->cache;
  if (ref->session == 0) return find_session_by_name(connection, &ref->name, facts, error);
  if (cache != NULL && mp_sqlite_cache_find_session(cache, ref->session, facts)) return MOONPAD_OK;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_LOAD_SESSION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, ref->session);
  return step_to_session(connection, statement, cache != NULL, facts, error);
}

/* ---- state ---- */

static moonpad_status read_value(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_value **value,
                                 moonpad_error *error) {
  mp_env *env = connection->store->env;
  *value = NULL;
  if (sqlite3_column_type(statement, 1) == SQLITE_NULL) return MOONPAD_OK;
  moonpad_string json;
  moonpad_status status = mp_sqlite_read_text(connection, statement, 1, &json, error);
  if (status != MOONPAD_OK) return status;
  status = mp_stored_value(env, json, value);
  if (status == MOONPAD_NO_MEMORY) return mp_no_memory(error);
  return status == MOONPAD_OK ? status : mp_sqlite_corrupt(connection, "a value of the state is not JSON", error);
}

/* Columns: key, value, revision. */
static moonpad_status read_state_row(mp_sqlite_connection *connection, sqlite3_stmt *statement, mp_state_row *row,
                                     moonpad_error *error) {
  row->value = NULL;
  if (sqlite3_column_type(statement, 0) != SQLITE_TEXT) {
    return mp_sqlite_corrupt(connection, "a key of the state is not text", error);
  }
  moonpad_status status = mp_sqlite_read_text(connection, statement, 0, &row->key, error);
  if (status != MOONPAD_OK) return status;
  row->revision = sqlite3_column_int64(statement, 2);
  return read_value(connection, statement, &row->value, error);
}

moonpad_status mp_sqlite_read_key(mp_tx *tx, int64_t id, mp_state_row *wanted, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_state_row row = {.scope = wanted->scope};
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_READ_KEY, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)wanted->scope);
  sqlite3_bind_int64(statement, 2, id);
  mp_sqlite_bind_text(statement, 3, wanted->key);
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) status = read_state_row(connection, statement, &row, error);
  sqlite3_reset(statement);
  wanted->value = row.value;
  wanted->revision = row.revision;
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

static moonpad_status call_with_state(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                      const mp_sqlite_walk *walk, moonpad_error *error) {
  mp_state_row row = {.scope = walk->scope};
  moonpad_status status = read_state_row(connection, statement, &row, error);
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
  return mp_sqlite_walk_rows(connection, statement, call_with_state, walk, error);
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
    status = mp_sqlite_walk_rows(connection, statement, call_with_state, walk, error);
  }
  return status;
}

static moonpad_status walk_base_keys(mp_sqlite_connection *connection, int64_t session, const mp_sqlite_walk *walk,
                                     moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_EACH_BASE_KEY, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, session);
  return mp_sqlite_walk_rows(connection, statement, call_with_state, walk, error);
}

moonpad_status mp_sqlite_each_key(mp_tx *tx, mp_owner owner, int64_t since, mp_each_state each, void *context,
                                  moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_sqlite_walk walk = {.state = each, .context = context, .scope = owner.scope};
  if (owner.is_base) return walk_base_keys(connection, owner.id, &walk, error);
  if (since < 0) return walk_keys(connection, MP_SQL_EACH_KEY, owner.id, since, &walk, error);
  mp_sqlite_head uncached, *head;
  moonpad_status status = mp_sqlite_load_head(connection, owner.scope, owner.id, &uncached, &head, error);
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
  /* Sorts before all sessions in the order asked for. */
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

static moonpad_status call_with_session(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                        const mp_sqlite_walk *walk, moonpad_error *error) {
  mp_listed_session listed;
  moonpad_status status = mp_sqlite_read_text(connection, statement, 10, &listed.user_id, error);
  if (status == MOONPAD_OK) status = mp_sqlite_read_text(connection, statement, 11, &listed.session_id, error);
  if (status != MOONPAD_OK) return status;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    listed.touched[scope] = sqlite3_column_double(statement, 12 + scope);
  }
  status = read_session(connection, statement, &listed.row, error);
  return status == MOONPAD_OK ? walk->session(walk->context, &listed, error) : status;
}

moonpad_status mp_sqlite_each_session(mp_tx *tx, const mp_list_query *query, mp_each_session each, void *context,
                                      moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = list_statement(connection, query, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_walk walk = {.session = each, .context = context};
  return mp_sqlite_walk_rows(connection, statement, call_with_session, &walk, error);
}

static moonpad_status call_with_name(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                     const mp_sqlite_walk *walk, moonpad_error *error) {
  moonpad_string name;
  moonpad_status status = mp_sqlite_read_text(connection, statement, 0, &name, error);
  return status == MOONPAD_OK ? walk->name(walk->context, name, error) : status;
}

moonpad_status mp_sqlite_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_LIST_APPS, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_walk walk = {.name = each, .context = context};
  return mp_walk_end(mp_sqlite_walk_rows(connection, statement, call_with_name, &walk, error));
}

moonpad_status mp_sqlite_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                   moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_LIST_USERS, error);
  if (statement == NULL) return connection->failure;
  int code = mp_sqlite_bind_text(statement, 1, app_name);
  if (code != SQLITE_OK) return mp_sqlite_fail(connection, code, error);
  mp_sqlite_walk walk = {.name = each, .context = context};
  return mp_walk_end(mp_sqlite_walk_rows(connection, statement, call_with_name, &walk, error));
}
