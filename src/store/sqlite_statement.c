/* The SQL of every transaction. A statement is prepared when a connection first needs it, and kept. */
#include "store/sqlite.h"

#include "base/error.h"

#define SHARED_REVISION(scope, owner)                                                                                  \
  "coalesce((SELECT h.revision FROM state h WHERE h.scope = " scope " AND h.owner = " owner " AND h.key = 0), 0)"

#define SESSION_COLUMNS                                                                                                \
  "s.id, s.user, s.app, s.revision, s.base_revision, " SHARED_REVISION("1", "s.user") ", " SHARED_REVISION(            \
      "2", "s.app") ", s.conversation_count, s.create_time, s.last_update_time"

#define EVENT_COLUMNS "position, timestamp, id, event, digest"

/* The tables are walked in the order written: CROSS JOIN keeps SQLite to it. */
#define LIST(scope, comparison, direction)                                                                             \
  "SELECT " SESSION_COLUMNS ", u.user_id, s.session_id FROM apps a " scope                                             \
  " AND (s.last_update_time, u.user_id, s.session_id) " comparison " (?2, ?3, ?4)"                                     \
  " ORDER BY s.last_update_time " direction ", u.user_id " direction ", s.session_id " direction " LIMIT ?5"
#define OF_APP "CROSS JOIN sessions s CROSS JOIN users u WHERE a.app_name = ?1 AND s.app = a.id AND u.id = s.user"
#define OF_USER                                                                                                        \
  "CROSS JOIN users u CROSS JOIN sessions s WHERE a.app_name = ?1 AND u.app = a.id AND u.user_id = ?6 AND s.user = "   \
  "u.id"

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
        "SELECT " SESSION_COLUMNS " FROM apps a CROSS JOIN users u CROSS JOIN sessions s WHERE a.app_name = ?1"
        " AND u.app = a.id AND u.user_id = ?2 AND s.user = u.id AND s.session_id = ?3",
    [MP_SQL_LOAD_SESSION] = "SELECT " SESSION_COLUMNS " FROM sessions s WHERE s.id = ?1",
    [MP_SQL_FIND_APP] = "SELECT a.id, " SHARED_REVISION("2", "a.id") " FROM apps a WHERE a.app_name = ?1",
    [MP_SQL_FIND_USER] =
        "SELECT u.id, " SHARED_REVISION("1", "u.id") " FROM users u WHERE u.app = ?1 AND u.user_id = ?2",
    [MP_SQL_READ_KEY] = "SELECT key, value, revision FROM state WHERE scope = ?1 AND owner = ?2 AND key = ?3",
    /* Text sorts after numbers: key >= '' leaves out the row that is no key. */
    [MP_SQL_EACH_KEY] = "SELECT key, value, revision FROM state WHERE scope = ?1 AND owner = ?2 AND key >= ''"
                        " AND value IS NOT NULL",
    [MP_SQL_EACH_KEY_SINCE] = "SELECT key, value, revision FROM state WHERE scope = ?1 AND owner = ?2 AND key >= ''"
                              " AND revision > ?3",
    [MP_SQL_EACH_BASE_KEY] = "SELECT key, value, 0 FROM base_state WHERE session = ?1",
    [MP_SQL_FIND_EVENT] = "SELECT " EVENT_COLUMNS " FROM events WHERE session = ?1 AND id = ?2",
    [MP_SQL_EACH_EVENT] = "SELECT " EVENT_COLUMNS " FROM events WHERE position BETWEEN ?1 AND ?2 ORDER BY position",
    [MP_SQL_LIST_APP_OLDEST] = LIST(OF_APP, ">", "ASC"),
    [MP_SQL_LIST_APP_NEWEST] = LIST(OF_APP, "<", "DESC"),
    [MP_SQL_LIST_USER_OLDEST] = LIST(OF_USER, ">", "ASC"),
    [MP_SQL_LIST_USER_NEWEST] = LIST(OF_USER, "<", "DESC"),
    [MP_SQL_CREATE_APP] = "INSERT INTO apps(app_name) VALUES(?1)",
    [MP_SQL_CREATE_USER] = "INSERT INTO users(app, user_id) VALUES(?1, ?2)",
    [MP_SQL_CREATE_SESSION] = "INSERT INTO sessions(app, user, session_id, create_time, last_update_time)"
                              " VALUES(?1, ?2, ?3, ?4, ?4) ON CONFLICT(user, session_id) DO NOTHING",
    [MP_SQL_DELETE_EVENTS] = "DELETE FROM events WHERE position BETWEEN ?1 AND ?2",
    [MP_SQL_DELETE_STATE] = "DELETE FROM state WHERE scope = 0 AND owner = ?1",
    [MP_SQL_DELETE_BASE_STATE] = "DELETE FROM base_state WHERE session = ?1",
    [MP_SQL_DELETE_SESSION] = "DELETE FROM sessions WHERE id = ?1",
    /* All columns are given, so replacing the row is updating it; SQLite then looks for its place once instead of twice. */
    [MP_SQL_WRITE_KEY] = "REPLACE INTO state(scope, owner, key, value, revision) VALUES(?1, ?2, ?3, ?4, ?5)",
    [MP_SQL_WRITE_BASE_KEY] = "REPLACE INTO base_state(session, key, value) VALUES(?1, ?2, ?3)",
    [MP_SQL_REMOVE_BASE_KEY] = "DELETE FROM base_state WHERE session = ?1 AND key = ?2",
    [MP_SQL_SET_REVISION] = "REPLACE INTO state(scope, owner, key, value, revision) VALUES(?1, ?2, 0, NULL, ?3)",
    [MP_SQL_APPEND_EVENT] = "INSERT INTO events(position, id, timestamp, digest, event) VALUES(?1, ?2, ?3, ?4, ?5)",
    [MP_SQL_UPDATE_SESSION] = "UPDATE sessions SET revision = ?2, base_revision = ?3, conversation_count = ?4,"
                              " last_update_time = ?5 WHERE id = ?1",
};

sqlite3_stmt *mp_sqlite_statement(mp_sqlite_connection *connection, mp_sqlite_statement_id id, moonpad_error *error) {
  sqlite3_stmt **statement = &connection->statements[id];
  if (*statement != NULL) return *statement;
  int code = sqlite3_prepare_v3(connection->db, texts[id], -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
  if (code == SQLITE_OK) return *statement;
  if ((code & 0xFF) == SQLITE_ERROR) { /* the SQL never changes, so it is the tables that are not as they should be */
    mp_sqlite_corrupt(connection, sqlite3_errmsg(connection->db), error);
  } else {
    mp_sqlite_fail(connection, code, error);
  }
  return NULL;
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

int mp_sqlite_bind_text(sqlite3_stmt *statement, int index, moonpad_string text) {
  return sqlite3_bind_text64(statement, index, text.data == NULL ? "" : text.data, text.length, SQLITE_STATIC,
                             SQLITE_UTF8);
}

moonpad_string mp_sqlite_column_text(sqlite3_stmt *statement, int column) {
  moonpad_string text = {(const char *)sqlite3_column_text(statement, column), 0};
  text.length = (size_t)sqlite3_column_bytes(statement, column);
  return text;
}
