/* Memories in SQLite: all sessions and what they said, for tools. */
#include "agent_stores/sqlite_memories.h"
#include "base/error.h"

typedef struct memories_listing {
  const mp_memories_session *session; /* the one to go on behind, or whose entries are listed */
  int64_t after;                      /* a revision */
  int64_t limit;
  mp_buffer *found;
} memories_listing;

typedef void (*take_row)(sqlite3_stmt *statement, mp_buffer *found);

/* The names and the time of a session are ?1 to ?4. */
static moonpad_status list(mp_tx *tx, const memories_listing *wanted, const char *sql, take_row take,
                           moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  const mp_memories_session *session = wanted->session;
  const moonpad_string names[] = {session->app_name, session->user_id, session->session_id};
  mp_buffer_clear(wanted->found);
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = mp_sqlite_tables_bind(statement, names, 3);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 4, session->create_time);
  if (code == SQLITE_OK) code = sqlite3_bind_int64(statement, 5, wanted->limit);
  if (code == SQLITE_OK && sqlite3_bind_parameter_count(statement) > 5) {
    code = sqlite3_bind_int64(statement, 6, wanted->after);
  }
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  for (; code == SQLITE_ROW; code = sqlite3_step(statement)) take(statement, wanted->found);
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status == MOONPAD_OK && wanted->found->failed ? mp_no_memory(error) : status;
}

static void take_session(sqlite3_stmt *statement, mp_buffer *sessions) {
  double create_time = sqlite3_column_double(statement, 3);
  int64_t indexed = sqlite3_column_int64(statement, 4);
  for (int i = 0; i < 3; i++) {
    mp_buffer_add_string(sessions, mp_sqlite_column_text(statement, i));
    mp_buffer_add_char(sessions, '\0');
  }
  mp_buffer_add(sessions, (const char *)&create_time, sizeof create_time);
  mp_buffer_add(sessions, (const char *)&indexed, sizeof indexed);
}

static moonpad_status list_sessions(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] = "SELECT o.app_name, o.user_id, s.session_id, s.create_time, s.indexed_revision"
                            " FROM memory_owners o JOIN memory_sessions s ON s.owner = o.id"
                            " WHERE (o.app_name, o.user_id, s.session_id, s.create_time) > (?1, ?2, ?3, ?4)"
                            " ORDER BY 1, 2, 3, 4 LIMIT ?5";
  return list(tx, context, sql, take_session, error);
}

moonpad_status mp_sqlite_memories_sessions(mp_memories *memories, const mp_memories_session *after, int64_t limit,
                                           mp_buffer *sessions, moonpad_error *error) {
  memories_listing wanted = {after, 0, limit, sessions};
  return mp_sqlite_memories_read(memories, list_sessions, &wanted, error);
}

static void take_entry(sqlite3_stmt *statement, mp_buffer *entries) {
  mp_memories_entry entry = {.revision = sqlite3_column_int64(statement, 0),
                             .timestamp = sqlite3_column_double(statement, 1),
                             .author = mp_sqlite_column_text(statement, 2),
                             .content = mp_sqlite_column_text(statement, 3)};
  mp_memories_add_entry(entries, &entry);
}

static moonpad_status list_entries(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] = "SELECT revision, timestamp, author, content FROM memories WHERE session ="
                            " (SELECT id FROM memory_sessions WHERE owner ="
                            " (SELECT id FROM memory_owners WHERE app_name = ?1 AND user_id = ?2)"
                            " AND session_id = ?3 AND create_time = ?4) AND revision > ?6 ORDER BY revision LIMIT ?5";
  return list(tx, context, sql, take_entry, error);
}

moonpad_status mp_sqlite_memories_entries(mp_memories *memories, const mp_memories_session *session, int64_t after,
                                          int64_t limit, mp_buffer *entries, moonpad_error *error) {
  memories_listing wanted = {session, after, limit, entries};
  return mp_sqlite_memories_read(memories, list_entries, &wanted, error);
}
