/* Reads, writes and copies events. */
#include "base/error.h"
#include "core/event_draft.h"
#include "core/json_lex.h"
#include "core/json_trusted.h"
#include "store/sqlite/sqlite.h"
#include "store/stored.h"

/* ---- reading ---- */

static moonpad_status read_json(mp_sqlite_connection *connection, sqlite3_stmt *statement, int column,
                                moonpad_string *json, moonpad_error *error) {
  moonpad_status status = mp_sqlite_read_text(connection, statement, column, json, error);
  if (status != MOONPAD_OK) return status;
  status = mp_stored_event(connection->store->env, &connection->scratch, json);
  if (status == MOONPAD_NO_MEMORY) return mp_no_memory(error);
  return status == MOONPAD_OK ? status : mp_sqlite_corrupt(connection, "an event is not a JSON object", error);
}

static bool changes_session_state(moonpad_string json) {
  moonpad_string actions, delta, key, value;
  if (!mp_member_find(json, "actions", &actions) || !mp_member_find(actions, "stateDelta", &delta)) return false;
  if (delta.data[0] != '{') return false;
  mp_members members = mp_members_of(delta);
  while (mp_members_next(&members, &key, &value)) {
    if (mp_scope_of(key) == MP_SCOPE_SESSION) return true;
  }
  return false;
}

static unsigned kinds_of(moonpad_string json) {
  return (mp_event_is_user_message(json) ? MP_EVENT_USER_MESSAGE : 0) |
         (changes_session_state(json) ? MP_EVENT_SESSION_CHANGE : 0);
}

static moonpad_string invocation_of(moonpad_string json) {
  moonpad_string literal;
  bool found = mp_member_find(json, "invocationId", &literal) && literal.data[0] == '"';
  return found ? mp_literal_inside(literal) : (moonpad_string){"", 0};
}

static bool asks_for_kinds(const mp_event_query *query) {
  return query->tags || query->kinds != 0;
}

/*
** Columns: EVENTS of statement.c, then the JSON, and if the query asks for them kinds and
** invocation. A row of schema 1 has these in its JSON only, and they are read from there.
*/
static moonpad_status read_event(mp_sqlite_connection *connection, sqlite3_stmt *statement, const mp_event_query *query,
                                 mp_event_row *row, moonpad_error *error) {
  *row = (mp_event_row){.revision = sqlite3_column_int64(statement, 0) & MP_MAX_REVISION,
                        .timestamp = sqlite3_column_double(statement, 1),
                        .id = mp_sqlite_column_bytes(statement, 2),
                        .digest = (uint64_t)sqlite3_column_int64(statement, 3)};
  if (row->id.data == NULL) row->id.data = "";
  bool asks = asks_for_kinds(query), has_columns = !asks || sqlite3_column_type(statement, 5) != SQLITE_NULL;
  if (has_columns && asks) row->kinds = (unsigned)sqlite3_column_int(statement, 5);
  if (has_columns && query->tags) row->invocation = mp_sqlite_column_bytes(statement, 6);
  if (query->tags && row->invocation.data == NULL) row->invocation.data = "";
  if (has_columns && query->without_json) return MOONPAD_OK;
  moonpad_status status = read_json(connection, statement, 4, &row->json, error);
  if (status != MOONPAD_OK || has_columns) return status;
  row->kinds = kinds_of(row->json);
  row->invocation = invocation_of(row->json);
  return MOONPAD_OK;
}

static moonpad_status call_with_event(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                      const mp_sqlite_walk *walk, moonpad_error *error) {
  mp_event_row row;
  moonpad_status status = read_event(connection, statement, walk->events, &row, error);
  return status == MOONPAD_OK ? mp_emit_event(row, walk->events, walk->event, walk->context, error) : status;
}

static sqlite3_stmt *event_by_id(mp_sqlite_connection *connection, int64_t session, moonpad_string id,
                                 moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FIND_EVENT, error);
  if (statement == NULL) return NULL;
  sqlite3_bind_int64(statement, 1, session);
  mp_sqlite_bind_text(statement, 2, id);
  return statement;
}

static sqlite3_stmt *events_between(mp_sqlite_connection *connection, int64_t session, const mp_event_query *query,
                                    moonpad_error *error) {
  bool has_options = query->newest_first || query->without_json || asks_for_kinds(query);
  mp_sqlite_statement_id id = query->newest_first ? MP_SQL_SOME_EVENTS_NEWEST
                              : has_options       ? MP_SQL_SOME_EVENTS
                                                  : MP_SQL_EACH_EVENT;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, id, error);
  if (statement == NULL) return NULL;
  int64_t first = query->first < 0 ? 0 : query->first;
  int64_t last = query->last > MP_MAX_REVISION ? MP_MAX_REVISION : query->last;
  sqlite3_bind_int64(statement, 1, mp_sqlite_position(session, first));
  sqlite3_bind_int64(statement, 2, mp_sqlite_position(session, last));
  if (has_options) {
    sqlite3_bind_int(statement, 3, !query->without_json);
    sqlite3_bind_int(statement, 4, (int)query->kinds);
    sqlite3_bind_int(statement, 5, asks_for_kinds(query));
    sqlite3_bind_int(statement, 6, query->tags);
  }
  return statement;
}

moonpad_status mp_sqlite_each_event(mp_tx *tx, int64_t session, const mp_event_query *query, mp_each_event each,
                                    void *context, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  if (query->first > query->last || query->first > MP_MAX_REVISION || query->last < 0) return MOONPAD_OK;
  sqlite3_stmt *statement = query->id.data != NULL ? event_by_id(connection, session, query->id, error)
                                                   : events_between(connection, session, query, error);
  if (statement == NULL) return connection->failure;
  mp_sqlite_walk walk = {.event = each, .context = context, .events = query};
  return mp_sqlite_walk_rows(connection, statement, call_with_event, &walk, error);
}

moonpad_status mp_sqlite_find_invocation(mp_tx *tx, const mp_session_ref *session, moonpad_string invocation,
                                         int64_t *revision, moonpad_error *error) {
  static const mp_event_query query = {.without_json = true, .tags = true};
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FIND_INVOCATION, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, mp_sqlite_position(session->session, 0));
  sqlite3_bind_int64(statement, 2, mp_sqlite_position(session->session, MP_MAX_REVISION));
  mp_sqlite_bind_text(statement, 3, invocation);
  moonpad_status status;
  mp_event_row row;
  do {
    status = mp_sqlite_step_to_row(connection, statement, error);
    if (status == MOONPAD_OK) status = read_event(connection, statement, &query, &row, error);
  } while (status == MOONPAD_OK && mp_text_compare(row.invocation, invocation) != 0);
  if (status == MOONPAD_OK) *revision = row.revision;
  sqlite3_reset(statement);
  return status;
}

/* ---- writing ---- */

static moonpad_status event_failure(mp_sqlite_connection *connection, int code, const mp_event_row *row,
                                    moonpad_error *error) {
  if ((code & 0xFF) != SQLITE_CONSTRAINT) return mp_sqlite_fail(connection, code, error);
  return mp_fail(error, MOONPAD_ALREADY_EXISTS, "an event with id %s or revision %lld is already in this session",
                 mp_quote(row->id).text, (long long)row->revision);
}

moonpad_status mp_sqlite_append_event(mp_tx *tx, int64_t session, const mp_event_row *row, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_APPEND_EVENT, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, mp_sqlite_position(session, row->revision));
  sqlite3_bind_double(statement, 3, row->timestamp);
  if (row->digest == 0) {
    sqlite3_bind_null(statement, 4);
  } else {
    sqlite3_bind_int64(statement, 4, (int64_t)row->digest);
  }
  sqlite3_bind_int(statement, 6, (int)row->kinds);
  int code = mp_sqlite_bind_text(statement, 2, row->id);
  bool has_invocation = row->invocation.length != 0;
  if (code == SQLITE_OK && !has_invocation) code = sqlite3_bind_null(statement, 5);
  if (code == SQLITE_OK && has_invocation) code = mp_sqlite_bind_text(statement, 5, row->invocation);
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 7, row->json);
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : event_failure(connection, code, row, error);
  sqlite3_reset(statement);
  return status;
}

/* ---- copying ---- */

#define EVENTS_PER_COPY 64

static moonpad_status copy_base_state(mp_sqlite_connection *connection, int64_t from, int64_t to,
                                      moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_COPY_BASE_STATE, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, from);
  sqlite3_bind_int64(statement, 2, to);
  return mp_sqlite_run(connection, statement, error);
}

moonpad_status mp_sqlite_copy_history(mp_tx *tx, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                      moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  int64_t origin = mp_sqlite_position(from->session, 0), copy = mp_sqlite_position(to->session, 0);
  if (last > MP_MAX_REVISION) last = MP_MAX_REVISION;
  moonpad_status status = copy_base_state(connection, from->session, to->session, error);
  sqlite3_stmt *statement = status == MOONPAD_OK ? mp_sqlite_statement(connection, MP_SQL_COPY_EVENTS, error) : NULL;
  if (statement == NULL) return status == MOONPAD_OK ? connection->failure : status;
  for (int64_t first = 0; first <= last;) {
    sqlite3_bind_int64(statement, 1, origin + first);
    sqlite3_bind_int64(statement, 2, origin + last);
    sqlite3_bind_int64(statement, 3, copy - origin);
    sqlite3_bind_int(statement, 4, EVENTS_PER_COPY);
    status = mp_sqlite_run(connection, statement, error);
    if (status != MOONPAD_OK || sqlite3_changes(connection->db) < EVENTS_PER_COPY) return status;
    first = sqlite3_last_insert_rowid(connection->db) - copy + 1;
  }
  return status;
}
