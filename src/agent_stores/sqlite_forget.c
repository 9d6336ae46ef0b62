/* Memories in SQLite: deleting them, and sweeping those that have expired. */
#include <string.h>

#include "agent_stores/sqlite_memories.h"
#include "base/error.h"

/* ---- Deleting ---- */

typedef struct memories_deletion {
  const mp_memories_owner *owner;
  const mp_agent_time *time;
  moonpad_string id; /* of one memory */
  int64_t count;
} memories_deletion;

/* Sets *owner to 0 where the user has no memories. */
static moonpad_status find_deletion_owner(mp_sqlite_connection *connection, const memories_deletion *wanted,
                                          int64_t *owner, moonpad_error *error) {
  moonpad_string names[] = {wanted->owner->app_name, wanted->owner->user_id};
  *owner = 0;
  return mp_sqlite_memories_find_owner(connection, names, owner, error);
}

/* Which of the sessions of owner ?1: those with id ?2, which is NULL for all of them. */
#define OF_SESSIONS " owner = ?1 AND (?2 IS NULL OR session_id = ?2)"
#define OF_THEM     " session IN (SELECT id FROM memory_sessions WHERE" OF_SESSIONS ")"

static int bind_deletion(sqlite3_stmt *statement, const memories_deletion *wanted, int64_t owner) {
  int code = sqlite3_bind_int64(statement, 1, owner);
  if (code != SQLITE_OK || wanted->owner->session_id.length == 0) return code;
  return mp_sqlite_bind_text(statement, 2, wanted->owner->session_id);
}

static moonpad_status count_memories(mp_sqlite_connection *connection, memories_deletion *wanted, int64_t owner,
                                     moonpad_error *error) {
  static const char sql[] =
      "SELECT count(*) FROM memories WHERE" OF_THEM " AND content <> '' AND" MP_SQLITE_MEMORIES_LAST_USE ">= ?3";
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = bind_deletion(statement, wanted, owner);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 3, mp_agent_alive_since(wanted->time));
  return mp_sqlite_tables_integer(connection, statement, code, 0, &wanted->count, error);
}

static moonpad_status delete_all_in(mp_tx *tx, void *context, moonpad_error *error) {
  static const char *const deletions[] = {
      ("DELETE FROM memory_text WHERE rowid IN (SELECT id FROM memories WHERE" OF_THEM ")"),
      ("DELETE FROM memory_uses WHERE memory IN (SELECT id FROM memories WHERE" OF_THEM ")"),
      "DELETE FROM memories WHERE" OF_THEM,
      "DELETE FROM memory_sessions WHERE" OF_SESSIONS,
      "DELETE FROM memory_owners WHERE id = ?1 AND ?2 IS NULL",
  };
  memories_deletion *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  int64_t owner;
  wanted->count = 0;
  moonpad_status status = find_deletion_owner(connection, wanted, &owner, error);
  if (status != MOONPAD_OK || owner == 0) return status;
  status = count_memories(connection, wanted, owner, error);
  for (size_t i = 0; status == MOONPAD_OK && i < sizeof deletions / sizeof *deletions; i++) {
    sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, deletions[i], error);
    if (statement == NULL) return connection->failure;
    status = mp_sqlite_tables_finish(connection, statement, bind_deletion(statement, wanted, owner), error);
  }
  return status;
}

moonpad_status mp_sqlite_memories_delete_all(mp_memories *memories, const mp_memories_owner *owner,
                                             const mp_agent_time *time, int64_t *count, moonpad_error *error) {
  memories_deletion wanted = {.owner = owner, .time = time};
  moonpad_status status = mp_sqlite_memories_write(memories, delete_all_in, &wanted, error);
  *count = status == MOONPAD_OK ? wanted.count : 0;
  return status;
}

/* Sets *id to 0 where the owner has no such memory, or one that has expired. */
static moonpad_status find_memory(mp_sqlite_connection *connection, const memories_deletion *wanted, int64_t owner,
                                  int64_t *id, moonpad_error *error) {
  /* Compared as text: an id is the text that a search gave, and no other. */
  static const char sql[] =
      "SELECT id FROM memories WHERE id = CAST(?2 AS INTEGER) AND CAST(id AS TEXT) = ?2 AND content <> ''"
      " AND (SELECT owner FROM memory_sessions WHERE memory_sessions.id = session) = ?1 AND" MP_SQLITE_MEMORIES_LAST_USE
      ">= ?3";
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sql, error);
  if (statement == NULL) return connection->failure;
  int code = sqlite3_bind_int64(statement, 1, owner);
  if (code == SQLITE_OK) code = mp_sqlite_bind_text(statement, 2, wanted->id);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 3, mp_agent_alive_since(wanted->time));
  return mp_sqlite_tables_integer(connection, statement, code, 0, id, error);
}

static moonpad_status delete_memory_in(mp_tx *tx, void *context, moonpad_error *error) {
  static const char *const deletions[] = {"DELETE FROM memory_text WHERE rowid = ?1",
                                          "DELETE FROM memory_uses WHERE memory = ?1",
                                          "UPDATE memories SET author = '', content = '' WHERE id = ?1"};
  memories_deletion *wanted = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  int64_t owner, id = 0;
  wanted->count = 0;
  moonpad_status status = find_deletion_owner(connection, wanted, &owner, error);
  if (status == MOONPAD_OK && owner != 0) status = find_memory(connection, wanted, owner, &id, error);
  if (status != MOONPAD_OK || id == 0) return status;
  wanted->count = 1;
  return mp_sqlite_memories_run_each(connection, deletions, sizeof deletions / sizeof *deletions, id, error);
}

moonpad_status mp_sqlite_memories_delete(mp_memories *memories, const mp_memories_owner *owner, moonpad_string id,
                                         const mp_agent_time *time, bool *existed, moonpad_error *error) {
  memories_deletion wanted = {.owner = owner, .time = time, .id = id};
  moonpad_status status = mp_sqlite_memories_write(memories, delete_memory_in, &wanted, error);
  *existed = status == MOONPAD_OK && wanted.count > 0;
  return status;
}

/* ---- Sweeping ---- */

#define ROWS_AT_ONCE "256"

/* The rows of one table. ?1: looked at are those with a greater id; ?2: alive since. */
typedef struct sweep_step {
  const char *find; /* -> id, may it go?, is it counted? */
  const char *const *removals;
  size_t removal_count;
} sweep_step;

typedef struct memories_sweep {
  const mp_agent_time *time;
  const sweep_step *step;
  int64_t after; /* up to there all has been looked at */
  int64_t last;  /* of the rows that are looked at; 0: there are none */
  mp_buffer ids; /* that may go: each an int64_t */
  int64_t count;
} memories_sweep;

static moonpad_status find_swept(mp_tx *tx, void *context, moonpad_error *error) {
  memories_sweep *sweep = context;
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_buffer_clear(&sweep->ids);
  sweep->last = sweep->count = 0;
  sqlite3_stmt *statement = mp_sqlite_tables_prepare(connection, sweep->step->find, error);
  if (statement == NULL) return connection->failure;
  int code = sqlite3_bind_int64(statement, 1, sweep->after);
  if (code == SQLITE_OK) code = sqlite3_bind_double(statement, 2, mp_agent_alive_since(sweep->time));
  if (code == SQLITE_OK) code = sqlite3_step(statement);
  for (; code == SQLITE_ROW; code = sqlite3_step(statement)) {
    sweep->last = sqlite3_column_int64(statement, 0);
    if (sqlite3_column_int(statement, 1) == 0) continue;
    mp_buffer_add(&sweep->ids, (const char *)&sweep->last, sizeof sweep->last);
    sweep->count += sqlite3_column_int(statement, 2);
  }
  moonpad_status status = code == SQLITE_DONE ? MOONPAD_OK : mp_sqlite_fail(connection, code, error);
  sqlite3_finalize(statement);
  return status == MOONPAD_OK && sweep->ids.failed ? mp_no_memory(error) : status;
}

/* Looks again: another call may have used what was found. */
static moonpad_status remove_swept(mp_tx *tx, void *context, moonpad_error *error) {
  memories_sweep *sweep = context;
  moonpad_status status = find_swept(tx, sweep, error);
  for (size_t at = 0; at < sweep->ids.length && status == MOONPAD_OK; at += sizeof(int64_t)) {
    int64_t id;
    memcpy(&id, sweep->ids.data + at, sizeof id);
    status =
        mp_sqlite_memories_run_each(mp_sqlite_of(tx), sweep->step->removals, sweep->step->removal_count, id, error);
  }
  return status;
}

/* Goes over one table. Most of it is read only. */
static moonpad_status sweep_table(mp_memories *memories, memories_sweep *sweep, int64_t *count, moonpad_error *error) {
  sweep->after = 0;
  for (;;) {
    moonpad_status status = mp_sqlite_memories_read(memories, find_swept, sweep, error);
    if (status == MOONPAD_OK && sweep->ids.length > 0) {
      status = mp_sqlite_memories_write(memories, remove_swept, sweep, error);
      if (status == MOONPAD_OK) *count += sweep->count;
    }
    if (status != MOONPAD_OK || sweep->last == 0) return status;
    sweep->after = sweep->last;
  }
}

moonpad_status mp_sqlite_memories_sweep(mp_memories *memories, const mp_agent_time *time, int64_t *count,
                                        moonpad_error *error) {
  static const char *const remove_session[] = {"DELETE FROM memory_sessions WHERE id = ?1"};
  static const char *const remove_owner[] = {"DELETE FROM memory_owners WHERE id = ?1"};
#define WINDOW(table) " FROM " table " WHERE id > ?1 ORDER BY id LIMIT " ROWS_AT_ONCE
  static const sweep_step steps[] = {
      {"SELECT id," MP_SQLITE_MEMORIES_LAST_USE "< ?2, content <> ''" WINDOW("memories"), mp_sqlite_memories_removals,
       MP_SQLITE_MEMORIES_REMOVALS},
      /* A session that is not that old may have said nothing yet: its watermark stays. */
      {"SELECT id, create_time < ?2 AND NOT EXISTS (SELECT 1 FROM memories WHERE session = memory_sessions.id), "
       "0" WINDOW("memory_sessions"),
       remove_session, 1},
      {"SELECT id, ?2 IS NOT NULL AND NOT EXISTS (SELECT 1 FROM memory_sessions WHERE owner = memory_owners.id),"
       " 0" WINDOW("memory_owners"),
       remove_owner, 1},
  };
#undef WINDOW
  memories_sweep sweep = {.time = time};
  moonpad_status status = MOONPAD_OK;
  *count = 0;
  if (time->time_to_live == 0) return mp_sqlite_tables_check_open(((mp_sqlite_memories *)memories)->file, error);
  mp_buffer_init(&sweep.ids, ((mp_sqlite_memories *)memories)->env);
  for (size_t i = 0; i < sizeof steps / sizeof *steps && status == MOONPAD_OK; i++) {
    sweep.step = &steps[i];
    status = sweep_table(memories, &sweep, count, error);
  }
  mp_buffer_free(&sweep.ids);
  return status;
}

static moonpad_status rebuild_in(mp_tx *tx, void *context, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  (void)context;
  sqlite3_stmt *statement =
      mp_sqlite_tables_prepare(connection, "INSERT INTO memory_text(memory_text) VALUES('rebuild')", error);
  if (statement == NULL) return connection->failure;
  return mp_sqlite_tables_finish(connection, statement, SQLITE_OK, error);
}

moonpad_status mp_sqlite_memories_rebuild_index(mp_memories *memories, moonpad_error *error) {
  return mp_sqlite_memories_write(memories, rebuild_in, NULL, error);
}
