/*
** The SQL of every transaction. A connection prepares a statement when it first needs it, and keeps
** it. Every function that runs one leaves it reset: an open statement would keep the snapshot.
*/
#include "store/sqlite/sqlite.h"

#include "base/error.h"

/* The heads of the user and the app of `sessions s`: rows of `state`, which may not exist yet. */
#define SHARED_HEADS                                                                                                   \
  " LEFT JOIN state u1 ON u1.scope = 1 AND u1.owner = s.user AND u1.key = 0"                                           \
  " LEFT JOIN state a1 ON a1.scope = 2 AND a1.owner = s.app AND a1.key = 0"

#define SESSION_COLUMNS                                                                                                \
  "s.id, s.user, s.app, s.revision, s.base_revision, u1.revision, a1.revision, s.conversation_count, s.create_time,"   \
  " s.last_update_time"
#define HEAD_COLUMNS(row, recent) row ".revision, " row ".forgotten, " row ".touched, " row "." recent
/* The columns of the session's, its user's and its app's head. */
#define ALL_HEADS HEAD_COLUMNS("s", "recent") ", " HEAD_COLUMNS("u1", "value") ", " HEAD_COLUMNS("a1", "value")

#define EVENTS(columns, condition) "SELECT position, timestamp, id, digest, " columns " FROM events WHERE " condition
/*
** ?4: kinds, or 0 for all events. ?3, ?5, ?6: with JSON, with kinds, with invocation (1), or
** without (0). A row of schema 1 has its kinds in the JSON only, so that is read for them, too.
*/
#define SOME_EVENTS                                                                                                    \
  EVENTS("CASE WHEN ?3 OR (?5 AND kinds IS NULL) THEN event END, CASE WHEN ?5 THEN kinds END,"                         \
         " CASE WHEN ?6 THEN invocation END",                                                                          \
         "position BETWEEN ?1 AND ?2 AND (?4 = 0 OR kinds IS NULL OR kinds & ?4) ORDER BY position")

/* CROSS JOIN: SQLite joins the tables in the order written. */
#define LIST(scope, comparison, direction)                                                                             \
  "SELECT " SESSION_COLUMNS ", u.user_id, s.session_id, s.touched, u1.touched, a1.touched FROM apps a " scope          \
  " AND (s.last_update_time, u.user_id, s.session_id) " comparison " (?2, ?3, ?4)"                                     \
  " AND coalesce(s.touched, s.last_update_time) >= ?7"                                                                 \
  " ORDER BY s.last_update_time " direction ", u.user_id " direction ", s.session_id " direction " LIMIT ?5"
#define OF_APP                                                                                                         \
  "CROSS JOIN sessions s CROSS JOIN users u" SHARED_HEADS " WHERE a.app_name = ?1 AND s.app = a.id AND u.id = s.user"
#define OF_USER                                                                                                        \
  "CROSS JOIN users u CROSS JOIN sessions s" SHARED_HEADS                                                              \
  " WHERE a.app_name = ?1 AND u.app = a.id AND u.user_id = ?6 AND s.user = u.id"

/* The first user or app after id ?1, up to id ?3, that has state and was last used before ?2. */
#define NEXT_UNUSED(table, scope)                                                                                      \
  "SELECT o.id FROM " table " o CROSS JOIN state h WHERE o.id > ?1 AND o.id <= ?3 AND h.scope = " scope                \
  " AND h.owner = o.id AND h.key = 0 AND h.touched < ?2 AND EXISTS"                                                    \
  " (SELECT 1 FROM state k WHERE k.scope = " scope " AND k.owner = o.id AND k.key >= '') ORDER BY o.id LIMIT 1"

static const char *const texts[MP_SQL_COUNT] = {
    [MP_SQL_BEGIN_READ] = "BEGIN",
    [MP_SQL_BEGIN_WRITE] = "BEGIN IMMEDIATE",
    [MP_SQL_COMMIT] = "COMMIT",
    [MP_SQL_ROLLBACK] = "ROLLBACK",
    [MP_SQL_SAVEPOINT] = "SAVEPOINT one",
    [MP_SQL_RELEASE] = "RELEASE one",
    [MP_SQL_ROLLBACK_TO] = "ROLLBACK TO one",
    [MP_SQL_VERSION] = "PRAGMA user_version",
    [MP_SQL_FIND_SESSION] =
        "SELECT " SESSION_COLUMNS ", " ALL_HEADS " FROM apps a CROSS JOIN users u CROSS JOIN sessions s" SHARED_HEADS
        " WHERE a.app_name = ?1 AND u.app = a.id AND u.user_id = ?2 AND s.user = u.id"
        " AND s.session_id = ?3",
    [MP_SQL_LOAD_SESSION] =
        "SELECT " SESSION_COLUMNS ", " ALL_HEADS " FROM sessions s" SHARED_HEADS " WHERE s.id = ?1 AND s.user > 0",
    [MP_SQL_FIND_APP] = "SELECT a.id, " HEAD_COLUMNS(
        "h", "value") " FROM apps a LEFT JOIN state h ON h.scope = 2 AND h.owner = a.id AND h.key = 0"
                      " WHERE a.app_name = ?1",
    [MP_SQL_FIND_USER] = "SELECT u.id, " HEAD_COLUMNS(
        "h", "value") " FROM users u LEFT JOIN state h ON h.scope = 1 AND h.owner = u.id AND h.key = 0"
                      " WHERE u.app = ?1 AND u.user_id = ?2",
    [MP_SQL_SESSION_HEAD] = "SELECT " HEAD_COLUMNS("s", "recent") " FROM sessions s WHERE s.id = ?1",
    [MP_SQL_SHARED_HEAD] =
        "SELECT " HEAD_COLUMNS("h", "value") " FROM state h WHERE h.scope = ?1 AND h.owner = ?2 AND h.key = 0",
    [MP_SQL_READ_KEY] = "SELECT key, value, revision FROM state WHERE scope = ?1 AND owner = ?2 AND key = ?3",
    [MP_SQL_READ_KEY_SINCE] = "SELECT key, value, revision FROM state WHERE scope = ?1 AND owner = ?2 AND key = ?3"
                              " AND revision > ?4",
    /* Text sorts after numbers: key >= '' leaves out the head, whose key is the number 0. */
    [MP_SQL_EACH_KEY] = "SELECT key, value, revision FROM state WHERE scope = ?1 AND owner = ?2 AND key >= ''"
                        " AND value IS NOT NULL",
    [MP_SQL_EACH_KEY_SINCE] = "SELECT key, value, revision FROM state WHERE scope = ?1 AND owner = ?2 AND key >= ''"
                              " AND revision > ?3",
    [MP_SQL_EACH_BASE_KEY] = "SELECT key, value, 0 FROM base_state WHERE session = ?1",
    [MP_SQL_FIND_EVENT] = EVENTS("event, kinds, invocation", "session = ?1 AND id = ?2"),
    [MP_SQL_EACH_EVENT] = EVENTS("event", "position BETWEEN ?1 AND ?2 ORDER BY position"),
    [MP_SQL_SOME_EVENTS] = SOME_EVENTS,
    [MP_SQL_SOME_EVENTS_NEWEST] = SOME_EVENTS " DESC",
    [MP_SQL_FIND_INVOCATION] = EVENTS("CASE WHEN kinds IS NULL THEN event END, kinds, invocation",
                                      "position BETWEEN ?1 AND ?2 AND (invocation = ?3 OR kinds IS NULL)"
                                      " ORDER BY position"),
    [MP_SQL_LIST_APP_OLDEST] = LIST(OF_APP, ">", "ASC"),
    [MP_SQL_LIST_APP_NEWEST] = LIST(OF_APP, "<", "DESC"),
    [MP_SQL_LIST_USER_OLDEST] = LIST(OF_USER, ">", "ASC"),
    [MP_SQL_LIST_USER_NEWEST] = LIST(OF_USER, "<", "DESC"),
    [MP_SQL_LIST_APPS] = "SELECT app_name FROM apps",
    [MP_SQL_LIST_USERS] = "SELECT user_id FROM users WHERE app = (SELECT id FROM apps WHERE app_name = ?1)",
    [MP_SQL_CREATE_APP] = "INSERT INTO apps(app_name) VALUES(?1)",
    [MP_SQL_CREATE_USER] = "INSERT INTO users(app, user_id) VALUES(?1, ?2)",
    [MP_SQL_CREATE_SESSION] = "INSERT INTO sessions(app, user, session_id, create_time, last_update_time)"
                              " VALUES(?1, ?2, ?3, ?4, ?4) ON CONFLICT(user, session_id) DO NOTHING",
    [MP_SQL_DELETE_EVENTS] = "DELETE FROM events WHERE position BETWEEN ?1 AND ?2",
    [MP_SQL_DELETE_STATE] = "DELETE FROM state WHERE scope = ?1 AND owner = ?2",
    [MP_SQL_DELETE_BASE_STATE] = "DELETE FROM base_state WHERE session = ?1",
    [MP_SQL_DELETE_SESSION] = "DELETE FROM sessions WHERE id = ?1",
    [MP_SQL_DELETE_USER] = "DELETE FROM users WHERE id = ?1",
    [MP_SQL_COPY_BASE_STATE] = "INSERT INTO base_state(session, key, value)"
                               " SELECT ?2, key, value FROM base_state WHERE session = ?1",
    /* In parts (LIMIT): SQLite holds all that it selects in memory before it inserts. */
    [MP_SQL_COPY_EVENTS] = "INSERT INTO events(position, id, timestamp, digest, invocation, kinds, event)"
                           " SELECT position + ?3, id, timestamp, digest, invocation, kinds, event FROM events"
                           " WHERE position BETWEEN ?1 AND ?2 ORDER BY position LIMIT ?4",
    /* REPLACE with all columns is an update; SQLite then searches the row once instead of twice. */
    [MP_SQL_WRITE_KEY] = "REPLACE INTO state(scope, owner, key, value, revision) VALUES(?1, ?2, ?3, ?4, ?5)",
    [MP_SQL_WRITE_BASE_KEY] = "REPLACE INTO base_state(session, key, value) VALUES(?1, ?2, ?3)",
    [MP_SQL_REMOVE_BASE_KEY] = "DELETE FROM base_state WHERE session = ?1 AND key = ?2",
    [MP_SQL_WRITE_SESSION_HEAD] = "UPDATE sessions SET recent = ?3, touched = ?5, forgotten = ?6 WHERE id = ?2",
    [MP_SQL_WRITE_SHARED_HEAD] = "REPLACE INTO state(scope, owner, key, value, revision, touched, forgotten)"
                                 " VALUES(?1, ?2, 0, ?3, ?4, ?5, ?6)",
    [MP_SQL_APPEND_EVENT] = "INSERT INTO events(position, id, timestamp, digest, invocation, kinds, event)"
                            " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    [MP_SQL_UPDATE_SESSION] = "UPDATE sessions SET revision = ?2, base_revision = ?3, conversation_count = ?4,"
                              " last_update_time = ?5, touched = ?6, recent = ?7 WHERE id = ?1",
    [MP_SQL_PURGE] = "DELETE FROM state WHERE scope = ?1 AND owner = ?2 AND key >= '' AND value IS NULL"
                     " AND revision <= ?3",
    [MP_SQL_SESSION_EVENTS] = "SELECT base_revision, revision FROM sessions WHERE id = ?1",
    [MP_SQL_DETACH_SESSION] = "UPDATE sessions SET app = 0, user = 0, session_id = CAST(id AS TEXT), base_revision = ?2"
                              " WHERE id = ?1",
    [MP_SQL_HAS_USER] = "SELECT 1 FROM users WHERE id = ?1",
    [MP_SQL_LAST_SESSION] = "SELECT max(id) FROM sessions",
    [MP_SQL_LAST_USER] = "SELECT max(id) FROM users",
    [MP_SQL_LAST_APP] = "SELECT max(id) FROM apps",
    [MP_SQL_NEXT_UNUSED_SESSION] = "SELECT id FROM sessions WHERE id > ?1 AND id <= ?3 AND coalesce(touched, "
                                   "last_update_time) < ?2 ORDER BY id LIMIT 1",
    [MP_SQL_NEXT_UNUSED_USER] = NEXT_UNUSED("users", "1"),
    [MP_SQL_NEXT_UNUSED_APP] = NEXT_UNUSED("apps", "2"),
    [MP_SQL_CLAIM_TOKEN] = "INSERT INTO tokens(token, time) VALUES(?1, ?2)"
                           " ON CONFLICT(token) DO UPDATE SET time = excluded.time WHERE time < ?3",
    [MP_SQL_FORGET_TOKENS] = "DELETE FROM tokens WHERE time < ?1",
};

sqlite3_stmt *mp_sqlite_statement(mp_sqlite_connection *connection, mp_sqlite_statement_id id, moonpad_error *error) {
  sqlite3_stmt **statement = &connection->statements[id];
  if (*statement != NULL) return *statement;
  int code = sqlite3_prepare_v3(connection->db, texts[id], -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
  if (code == SQLITE_OK) return *statement;
  mp_sqlite_fail_prepare(connection, code, error);
  return NULL;
}

void mp_sqlite_forget_rollback(mp_sqlite_connection *connection) {
  sqlite3_finalize(connection->statements[MP_SQL_ROLLBACK]);
  connection->statements[MP_SQL_ROLLBACK] = NULL;
}

moonpad_status mp_sqlite_run(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_error *error) {
  int code = sqlite3_step(statement);
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_reset(statement);
  return status;
}

moonpad_status mp_sqlite_run_id(mp_sqlite_connection *connection, mp_sqlite_statement_id id, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, id, error);
  return statement == NULL ? connection->failure : mp_sqlite_run(connection, statement, error);
}

moonpad_status mp_sqlite_run_with(mp_sqlite_connection *connection, mp_sqlite_statement_id id, int64_t first,
                                  int64_t second, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, id, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, first);
  if (sqlite3_bind_parameter_count(statement) > 1) sqlite3_bind_int64(statement, 2, second);
  return mp_sqlite_run(connection, statement, error);
}

moonpad_status mp_sqlite_step_to_row(mp_sqlite_connection *connection, sqlite3_stmt *statement, moonpad_error *error) {
  int code = sqlite3_step(statement);
  if (code == SQLITE_ROW) return MOONPAD_OK;
  return code == SQLITE_DONE ? MOONPAD_NOT_FOUND : mp_sqlite_fail(connection, code, error);
}

moonpad_status mp_sqlite_walk_rows(mp_sqlite_connection *connection, sqlite3_stmt *statement,
                                   mp_sqlite_row_function row, const mp_sqlite_walk *walk, moonpad_error *error) {
  for (;;) {
    moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
    bool at_end = status == MOONPAD_NOT_FOUND;
    if (status == MOONPAD_OK) status = row(connection, statement, walk, error);
    if (status == MOONPAD_OK) continue;
    sqlite3_reset(statement);
    return at_end ? MOONPAD_OK : status;
  }
}

int mp_sqlite_bind_text(sqlite3_stmt *statement, int index, moonpad_string text) {
  return sqlite3_bind_text64(statement, index, text.data == NULL ? "" : text.data, text.length, SQLITE_STATIC,
                             SQLITE_UTF8);
}

moonpad_string mp_sqlite_column_text(sqlite3_stmt *statement, int column) {
  moonpad_string text = {(const char *)sqlite3_column_text(statement, column), 0};
  text.length = (size_t)sqlite3_column_bytes(statement, column);
  return text;
}

moonpad_status mp_sqlite_read_text(mp_sqlite_connection *connection, sqlite3_stmt *statement, int column,
                                   moonpad_string *text, moonpad_error *error) {
  *text = mp_sqlite_column_text(statement, column);
  if (text->data != NULL) return MOONPAD_OK;
  if (sqlite3_errcode(connection->db) == SQLITE_NOMEM) return mp_no_memory(error);
  return mp_sqlite_corrupt(connection, "there is no text where text must be", error);
}

moonpad_string mp_sqlite_column_bytes(sqlite3_stmt *statement, int column) {
  moonpad_string bytes = {sqlite3_column_blob(statement, column), 0};
  bytes.length = (size_t)sqlite3_column_bytes(statement, column);
  return bytes;
}
