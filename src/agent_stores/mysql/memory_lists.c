/* Memories on MariaDB and MySQL: all of them, for tools. */
#include "agent_stores/mysql/stores.h"
#include "base/error.h"

typedef struct memories_listing {
  const mp_memories_session *session; /* the one to go on behind, or whose entries are listed */
  int64_t after;                      /* a revision */
  int64_t limit;
  mp_buffer *found;
} memories_listing;

/* ---- sessions ---- */

static moonpad_status take_session(void *context, const mp_mysql_row *row, moonpad_error *error) {
  enum { NAMES = 3, CREATE_TIME = NAMES, INDEXED_REVISION };
  mp_buffer *sessions = context;
  double create_time = mp_mysql_double_of(row, CREATE_TIME);
  int64_t indexed_revision = mp_mysql_integer_of(row, INDEXED_REVISION);
  for (unsigned column = 0; column < NAMES; column++) {
    mp_buffer_add_string(sessions, mp_mysql_bytes_of(row, column));
    mp_buffer_add_char(sessions, '\0');
  }
  mp_buffer_add(sessions, (const char *)&create_time, sizeof create_time);
  mp_buffer_add(sessions, (const char *)&indexed_revision, sizeof indexed_revision);
  return sessions->failed ? mp_no_memory(error) : MOONPAD_OK;
}

#define SESSIONS "SELECT o.app_name, o.user_id, s.session_id, s.create_time, s.indexed_revision FROM "

static void add_end(mp_mysql_connection *connection, int64_t limit) {
  mp_mysql_sql_integer(connection, " ORDER BY 1, 2, 3, 4 LIMIT ", limit);
}

/* Other sessions of the same user. */
static void add_rest_of_user(mp_mysql_connection *connection, const memories_listing *listing) {
  const mp_memories_session *after = listing->session;
  mp_mysql_sql(connection, "(" SESSIONS "#memory_owners o STRAIGHT_JOIN #memory_sessions s ON s.owner = o.id");
  mp_mysql_sql_text(connection, " WHERE o.app_name = ", after->app_name);
  mp_mysql_sql_text(connection, " AND o.user_id = ", after->user_id);
  mp_mysql_sql_text(connection, " AND (s.session_id > ", after->session_id);
  mp_mysql_sql_text(connection, " OR (s.session_id = ", after->session_id);
  mp_mysql_sql_time(connection, " AND s.create_time > ", after->create_time);
  mp_mysql_sql(connection, "))");
  add_end(connection, listing->limit);
}

/* Of the next users, who have a session each, there are enough if there are `limit` of them. */
static void add_next_users(mp_mysql_connection *connection, const memories_listing *listing) {
  static const char *const columns[] = {"q.app_name", "q.user_id"};
  moonpad_string names[] = {listing->session->app_name, listing->session->user_id};
  mp_mysql_sql(connection, ") UNION ALL (" SESSIONS "(SELECT q.id, q.app_name, q.user_id FROM #memory_owners q WHERE");
  mp_mysql_are_behind(connection, columns, names, 2);
  mp_mysql_sql_integer(connection,
                       " AND (SELECT e.owner FROM #memory_sessions e WHERE e.owner = q.id LIMIT 1) IS NOT NULL"
                       " ORDER BY q.app_name, q.user_id LIMIT ",
                       listing->limit);
  mp_mysql_sql(connection, ") o STRAIGHT_JOIN #memory_sessions s FORCE INDEX(owner) ON s.owner = o.id");
  add_end(connection, listing->limit);
}

static void write_sessions(mp_mysql_connection *connection, void *context) {
  const memories_listing *listing = context;
  mp_buffer_clear(listing->found);
  mp_mysql_begin(connection, take_session, listing->found);
  add_rest_of_user(connection, listing);
  add_next_users(connection, listing);
  mp_mysql_sql(connection, ")");
  add_end(connection, listing->limit);
}

moonpad_status mp_mysql_memories_sessions(mp_memories *memories, const mp_memories_session *after, int64_t limit,
                                          mp_buffer *sessions, moonpad_error *error) {
  memories_listing listing = {after, 0, limit, sessions};
  mp_mysql_call call = {write_sessions, &listing, true, 0};
  return mp_mysql_ask_once(mp_mysql_store_of(memories), &call, error);
}

/* ---- the entries of one ---- */

static moonpad_status take_entry(void *context, const mp_mysql_row *row, moonpad_error *error) {
  mp_buffer *entries = context;
  mp_memories_entry entry = {.revision = mp_mysql_integer_of(row, 0),
                             .timestamp = mp_mysql_double_of(row, 1),
                             .author = mp_mysql_bytes_of(row, 2),
                             .content = mp_mysql_bytes_of(row, 3)};
  mp_memories_add_entry(entries, &entry);
  return entries->failed ? mp_no_memory(error) : MOONPAD_OK;
}

static void write_entries(mp_mysql_connection *connection, void *context) {
  const memories_listing *listing = context;
  const mp_memories_session *session = listing->session;
  mp_buffer_clear(listing->found);
  mp_mysql_begin(connection, take_entry, listing->found);
  mp_mysql_sql(connection, "SELECT revision, timestamp, author, content FROM #memories FORCE INDEX(session)"
                           " WHERE session = (SELECT s.id FROM #memory_owners o STRAIGHT_JOIN #memory_sessions s"
                           " ON s.owner = o.id");
  mp_mysql_sql_text(connection, " WHERE o.app_name = ", session->app_name);
  mp_mysql_sql_text(connection, " AND o.user_id = ", session->user_id);
  mp_mysql_sql_text(connection, " AND s.session_id = ", session->session_id);
  mp_mysql_sql_time(connection, " AND s.create_time = ", session->create_time);
  mp_mysql_sql_integer(connection, ") AND revision > ", listing->after);
  mp_mysql_sql_integer(connection, " ORDER BY revision LIMIT ", listing->limit);
}

moonpad_status mp_mysql_memories_entries(mp_memories *memories, const mp_memories_session *session, int64_t after,
                                         int64_t limit, mp_buffer *entries, moonpad_error *error) {
  memories_listing listing = {session, after, limit, entries};
  mp_mysql_call call = {write_entries, &listing, true, 0};
  return mp_mysql_ask_once(mp_mysql_store_of(memories), &call, error);
}
