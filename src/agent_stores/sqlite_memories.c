/*
** Memories in SQLite: a row for each event that said something, and its text in an FTS5 index. Each
** user of each app is an owner with a number. The index has that number as a word in a column of
** its own, so that a search visits the matches of one owner only. Phrases are passed to FTS5 as
** quoted strings, so nothing in them is syntax.
**
** A memory was last used when it was said, or when memory_uses says so. Only services with a time
** to live look at that, and write it. A memory that was deleted by its id keeps a row without
** content, so that its event is not stored again.
*/
#include <stdio.h>
#include <string.h>

#include "agent_stores/sqlite_memories.h"
#include "agent_stores/sqlite_stores.h"
#include "base/error.h"

static const char create_tables[] =
    "CREATE TABLE IF NOT EXISTS memory_owners(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
    "  app_name TEXT NOT NULL,\n"
    "  user_id TEXT NOT NULL,\n"
    "  UNIQUE(app_name, user_id)\n"
    ") STRICT;"
    "CREATE TABLE IF NOT EXISTS memory_sessions(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT,\n"
    "  owner INTEGER NOT NULL, -- memory_owners.id\n"
    "  session_id TEXT NOT NULL,\n"
    "  create_time REAL NOT NULL, -- of the session: its id may have been used before\n"
    "  indexed_revision INTEGER NOT NULL DEFAULT 0, -- every event up to here has been looked at\n"
    "  UNIQUE(owner, session_id, create_time)\n"
    ") STRICT;"
    "CREATE TABLE IF NOT EXISTS memories(\n"
    "  id INTEGER PRIMARY KEY AUTOINCREMENT, -- memory_text.rowid\n"
    "  session INTEGER NOT NULL, -- memory_sessions.id\n"
    "  revision INTEGER NOT NULL, -- of the event\n"
    "  timestamp REAL NOT NULL,\n"
    "  author TEXT NOT NULL,\n"
    "  content TEXT NOT NULL, -- JSON; '': it was deleted by its id\n"
    "  UNIQUE(session, revision)\n"
    ") STRICT;"
    "CREATE VIRTUAL TABLE IF NOT EXISTS memory_text USING fts5("
    "owner, text, tokenize = 'porter unicode61 remove_diacritics 2');"
    "CREATE TABLE IF NOT EXISTS memory_uses(\n"
    "  memory INTEGER PRIMARY KEY, -- memories.id\n"
    "  touched REAL NOT NULL -- when a search found it last, in seconds since 1970\n"
    ") STRICT";

/* ---- Transactions ---- */

/*
** When FTS5 runs out of memory or disk, SQLite rolls back at once. FTS5, which is in the middle of
** its work then, keeps some rows that it had not written yet, and the next transaction would write
** them. Rolling back one more transaction makes FTS5 drop them.
*/
static int drop_pending(mp_sqlite_connection *connection) {
  int code = sqlite3_exec(connection->db, "BEGIN; DELETE FROM memory_text WHERE rowid = -1", NULL, NULL, NULL);
  if (!sqlite3_get_autocommit(connection->db)) {
    int end = sqlite3_exec(connection->db, "ROLLBACK", NULL, NULL, NULL);
    if (code == SQLITE_OK) code = end;
  }
  return code;
}

static moonpad_status drop_leftovers(mp_sqlite_connection *connection, void *context, moonpad_error *error) {
  mp_sqlite_memories *store = context;
  if (!atomic_load(&store->has_leftovers)) return MOONPAD_OK;
  int code = drop_pending(connection);
  if (code != SQLITE_OK) return mp_sqlite_fail(connection, code, error);
  atomic_store(&store->has_leftovers, false);
  return MOONPAD_OK;
}

typedef struct transaction {
  mp_sqlite_memories *store;
  mp_tx_function function;
  void *context;
} transaction;

/* On the writing connection. */
static moonpad_status run(mp_tx *tx, void *context, moonpad_error *error) {
  const transaction *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  /* another transaction has failed while this one waited */
  if (atomic_load(&wanted->store->has_leftovers)) return mp_no_memory(error);
  moonpad_status status = wanted->function(tx, wanted->context, error);
  if (status != MOONPAD_OK && sqlite3_get_autocommit(connection->db) && drop_pending(connection) != SQLITE_OK) {
    atomic_store(&wanted->store->has_leftovers, true);
  }
  return status;
}

moonpad_status mp_sqlite_memories_write(mp_memories *memories, mp_tx_function function, void *context,
                                        moonpad_error *error) {
  mp_sqlite_memories *store = (mp_sqlite_memories *)memories;
  transaction wanted = {store, function, context};
  if (atomic_load(&store->has_leftovers)) {
    moonpad_status status = mp_sqlite_run_exclusive((mp_sqlite *)store->file, drop_leftovers, store, error);
    if (status != MOONPAD_OK) return status;
  }
  return mp_sqlite_write(store->file, run, &wanted, error);
}

moonpad_status mp_sqlite_memories_read(mp_memories *memories, mp_tx_function function, void *context,
                                       moonpad_error *error) {
  mp_store *file = ((mp_sqlite_memories *)memories)->file;
  /* Without a file there is only the writing connection. */
  if (file->in_memory) return mp_sqlite_memories_write(memories, function, context, error);
  return mp_sqlite_read(file, function, context, error);
}

/* ---- Owners and sessions ---- */

moonpad_status mp_sqlite_memories_find_owner(mp_sqlite_connection *connection, const moonpad_string names[2],
                                             int64_t *owner, moonpad_error *error) {
  sqlite3_stmt *statement =
      mp_sqlite_tables_prepare(connection, "SELECT id FROM memory_owners WHERE app_name = ?1 AND user_id = ?2", error);
  if (statement == NULL) return connection->failure;
  return mp_sqlite_tables_integer(connection, statement, mp_sqlite_tables_bind(statement, names, 2), 0, owner, error);
}

static moonpad_status make_owner(mp_sqlite_connection *connection, const moonpad_string names[2], int64_t *owner,
                                 moonpad_error *error) {
  moonpad_status status = mp_sqlite_memories_find_owner(connection, names, owner, error);
  if (status != MOONPAD_OK || *owner != 0) return status;
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(
      connection, "INSERT INTO memory_owners(app_name, user_id) VALUES(?1, ?2) RETURNING id", error);
  if (statement == NULL) return connection->failure;
  return mp_sqlite_tables_integer(connection, statement, mp_sqlite_tables_bind(statement, names, 2), 0, owner, error);
}

static int bind_session(sqlite3_stmt *statement, const mp_memories_session *session, int64_t owner) {
  int code = sqlite3_bind_int64(statement, 1, owner);
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 2, session->session_id);
  return code == SQLITE_OK ? sqlite3_bind_double(statement, 3, session->create_time) : code;
}

static moonpad_status session_integer(mp_sqlite_connection *connection, const char *sql,
                                      const mp_memories_session *session, int64_t owner, int64_t *integer,
                                      moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  return mp_sqlite_tables_integer(connection, statement, bind_session(statement, session, owner), 0, integer, error);
}

static moonpad_status make_session(mp_sqlite_connection *connection, const mp_memories_session *session, int64_t owner,
                                   int64_t *id, moonpad_error *error) {
  static const char find[] = "SELECT id FROM memory_sessions WHERE owner = ?1 AND session_id = ?2 AND create_time = ?3";
  static const char make[] =
      "INSERT INTO memory_sessions(owner, session_id, create_time) VALUES(?1, ?2, ?3) RETURNING id";
  moonpad_status status = session_integer(connection, find, session, owner, id, error);
  if (status != MOONPAD_OK || *id != 0) return status;
  return session_integer(connection, make, session, owner, id, error);
}

typedef struct asking {
  const mp_memories_session *session;
  int64_t indexed;
} asking;

static moonpad_status read_indexed(mp_tx *tx, void *context, moonpad_error *error) {
  static const char sql[] =
      "SELECT indexed_revision FROM memory_sessions WHERE owner = ?1 AND session_id = ?2 AND create_time = ?3";
  asking *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  moonpad_string names[] = {wanted->session->app_name, wanted->session->user_id};
  int64_t owner = 0;
  moonpad_status status = mp_sqlite_memories_find_owner(connection, names, &owner, error);
  if (status != MOONPAD_OK) return status;
  return session_integer(connection, sql, wanted->session, owner, &wanted->indexed, error);
}

static moonpad_status get_indexed(mp_memories *memories, const mp_memories_session *session, int64_t *revision,
                                  moonpad_error *error) {
  asking wanted = {session, 0};
  moonpad_status status = mp_sqlite_memories_read(memories, read_indexed, &wanted, error);
  *revision = status == MOONPAD_OK ? wanted.indexed : 0;
  return status;
}

/* ---- Writing ---- */

typedef struct writing {
  const mp_memories_session *session;
  const mp_agent_time *time;
  const mp_memories_batch *batch;
} writing;

static moonpad_status add_row(mp_sqlite_connection *connection, int64_t session, const mp_memories_entry *memory,
                              int64_t *id, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(
      connection,
      "INSERT INTO memories(session, revision, timestamp, author, content) VALUES(?1, ?2, ?3, ?4, ?5)"
      " ON CONFLICT(session, revision) DO NOTHING RETURNING id",
      error);
  if (statement == NULL) return connection->failure;
  int code = sqlite3_bind_int64(statement, 1, session);
  if (code == SQLITE_OK) code = sqlite3_bind_int64(statement, 2, memory->revision);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 3, memory->timestamp);
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 4, memory->author);
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 5, memory->content);
  return mp_sqlite_tables_integer(connection, statement, code, 0, id, error);
}

static moonpad_status add(mp_sqlite_connection *connection, int64_t session, const char *owner,
                          const mp_memories_entry *memory, moonpad_error *error) {
  int64_t id = 0;
  moonpad_status status = add_row(connection, session, memory, &id, error);
  if (status != MOONPAD_OK || id == 0 || memory->content.length == 0) return status;
  sqlite3_stmt *statement =
      mp_sqlite_tables_prepare(connection, "INSERT INTO memory_text(rowid, owner, text) VALUES(?1, ?2, ?3)", error);
  if (statement == NULL) return connection->failure;
  int code = sqlite3_bind_int64(statement, 1, id);
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 2, moonpad_text(owner));
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 3, memory->text);
  return mp_sqlite_tables_finish(connection, statement, code, error);
}

moonpad_status mp_sqlite_memories_run_each(mp_sqlite_connection *connection, const char *const *list, size_t count,
                                           int64_t id, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; i < count && status == MOONPAD_OK; i++) {
    sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, list[i], error);
    if (statement == NULL) return connection->failure;
    status = mp_sqlite_tables_finish(connection, statement, sqlite3_bind_int64(statement, 1, id), error);
  }
  return status;
}

const char *const mp_sqlite_memories_removals[MP_SQLITE_MEMORIES_REMOVALS] = {
    "DELETE FROM memory_text WHERE rowid = ?1", "DELETE FROM memory_uses WHERE memory = ?1",
    "DELETE FROM memories WHERE id = ?1"};

static moonpad_status run_with(mp_sqlite_connection *connection, const char *sql, int64_t first, int64_t second,
                               moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = sqlite3_bind_int64(statement, 1, first);
  if (code == SQLITE_OK) code = sqlite3_bind_int64(statement, 2, second);
  return mp_sqlite_tables_finish(connection, statement, code, error);
}

static moonpad_status remove_memory(mp_sqlite_connection *connection, int64_t session, int64_t revision,
                                    moonpad_error *error) {
  static const char sql[] = "SELECT id FROM memories WHERE session = ?1 AND revision = ?2 AND content <> ''";
  int64_t id = 0;
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = sqlite3_bind_int64(statement, 1, session);
  if (code == SQLITE_OK) code = sqlite3_bind_int64(statement, 2, revision);
  moonpad_status status = mp_sqlite_tables_integer(connection, statement, code, 0, &id, error);
  return status == MOONPAD_OK && id != 0 ? mp_sqlite_memories_run_each(connection, mp_sqlite_memories_removals,
                                                                       MP_SQLITE_MEMORIES_REMOVALS, id, error)
                                         : status;
}

static moonpad_status write_batch(mp_tx *tx, void *context, moonpad_error *error) {
  const writing *wanted = context;
  const mp_memories_batch *batch = wanted->batch;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  moonpad_string names[] = {wanted->session->app_name, wanted->session->user_id};
  int64_t owner = 0, session = 0;
  moonpad_status status = make_owner(connection, names, &owner, error);
  if (status == MOONPAD_OK) status = make_session(connection, wanted->session, owner, &session, error);
  mp_sqlite_owner_word word = mp_sqlite_owner_word_of(owner);
  for (size_t i = 0; i < batch->removed_count && status == MOONPAD_OK; i++) {
    status = remove_memory(connection, session, batch->removed[i], error);
  }
  for (size_t i = 0; i < batch->added_count && status == MOONPAD_OK; i++) {
    if (batch->added[i].timestamp < mp_agent_alive_since(wanted->time)) continue;
    status = add(connection, session, word.text, &batch->added[i], error);
  }
  if (status != MOONPAD_OK || batch->indexed < 0) return status;
  /* Where two writers index the same session at once, the higher watermark is right. */
  return run_with(connection, "UPDATE memory_sessions SET indexed_revision = max(indexed_revision, ?2) WHERE id = ?1",
                  session, batch->indexed, error);
}

static moonpad_status write_all(mp_memories *memories, const mp_memories_session *session, const mp_agent_time *time,
                                const mp_memories_batch *batch, moonpad_error *error) {
  writing wanted = {session, time, batch};
  return mp_sqlite_memories_write(memories, write_batch, &wanted, error);
}

/* ---- Opening and closing ---- */

static void close_store(mp_memories *memories) {
  mp_sqlite_close(((mp_sqlite_memories *)memories)->file);
}

static void free_store(mp_memories *memories) {
  mp_sqlite_memories *store = (mp_sqlite_memories *)memories;
  mp_env *env = store->env;
  mp_sqlite_tables_free(store->file);
  mp_release(env, store);
  mp_env_release(env);
}

moonpad_status mp_sqlite_memories_open(mp_env *env, moonpad_string rest, const moonpad_options *options,
                                       mp_memories **memories, moonpad_error *error) {
  static const mp_sqlite_tables tables = {create_tables, "memory_uses"};
  static const mp_memories_ops ops = {
      .size = sizeof ops,
      .indexed = get_indexed,
      .write = write_all,
      .search = mp_sqlite_memories_search,
      .delete_memory = mp_sqlite_memories_delete,
      .delete_all = mp_sqlite_memories_delete_all,
      .sweep = mp_sqlite_memories_sweep,
      .rebuild_index = mp_sqlite_memories_rebuild_index,
      .sessions = mp_sqlite_memories_sessions,
      .entries = mp_sqlite_memories_entries,
      .close = close_store,
      .free = free_store,
  };
  mp_sqlite_memories *store = mp_allocate_zeroed(env, sizeof *store);
  *memories = NULL;
  if (store == NULL) return mp_no_memory(error);
  store->base.ops = &ops;
  atomic_init(&store->has_leftovers, false);
  store->env = mp_env_retain(env);
  moonpad_status status = mp_sqlite_tables_open(env, rest, options, &tables, &store->file, error);
  if (status == MOONPAD_OK) {
    store->base.in_memory = store->file->in_memory;
    *memories = &store->base;
  } else {
    free_store(&store->base);
  }
  return status;
}
