/*
** The limit of the SQLite store: the same rows written and read by prepared statements and
** nothing else. The tables are those of moonpad without what only its rules need (revisions of
** users and apps, digests, base states).
*/
#ifndef RAW_SQLITE_H
#define RAW_SQLITE_H

#include <sqlite3.h>

#include "bench.h"

typedef struct raw_database {
  sqlite3 *db;
  sqlite3_stmt *begin, *begin_read, *commit, *insert_event, *upsert, *update_session, *create_session, *read_session,
      *each_key, *last_events;
} raw_database;

static const char raw_tables[] =
    "CREATE TABLE IF NOT EXISTS sessions(id INTEGER PRIMARY KEY, app INTEGER NOT NULL, user INTEGER NOT NULL, "
    "session_id TEXT NOT NULL,"
    " revision INTEGER NOT NULL, create_time REAL NOT NULL, last_update_time REAL NOT NULL, UNIQUE(user, session_id));"
    "CREATE INDEX IF NOT EXISTS sessions_by_app ON sessions(app);"
    "CREATE TABLE IF NOT EXISTS state(scope INTEGER NOT NULL, owner INTEGER NOT NULL, key TEXT NOT NULL, value TEXT, "
    "revision INTEGER NOT NULL,"
    " PRIMARY KEY(scope, owner, key)) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS events(position INTEGER PRIMARY KEY, session INTEGER AS (position >> 34) VIRTUAL, id "
    "TEXT NOT NULL,"
    " timestamp REAL NOT NULL, event TEXT NOT NULL);"
    "CREATE UNIQUE INDEX IF NOT EXISTS events_by_id ON events(session, id);";

static inline void raw_must(raw_database *raw, int code) {
  if (code == SQLITE_OK || code == SQLITE_DONE || code == SQLITE_ROW) return;
  fprintf(stderr, "bench: raw SQLite: %s\n", sqlite3_errmsg(raw->db));
  exit(EXIT_FAILURE);
}

static inline sqlite3_stmt *raw_prepare(raw_database *raw, const char *sql) {
  sqlite3_stmt *statement;
  raw_must(raw, sqlite3_prepare_v3(raw->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL));
  return statement;
}

static inline void raw_run(raw_database *raw, sqlite3_stmt *statement) {
  raw_must(raw, sqlite3_step(statement));
  sqlite3_reset(statement);
}

static inline void raw_open(raw_database *raw, const char *path, moonpad_durability durability) {
  memset(raw, 0, sizeof *raw);
  raw_must(raw,
           sqlite3_open_v2(path, &raw->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL));
  sqlite3_busy_timeout(raw->db, 5000);
  raw_must(raw, sqlite3_exec(raw->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL));
  raw_must(raw, sqlite3_exec(raw->db,
                             durability == MOONPAD_DURABILITY_FULL ? "PRAGMA synchronous = FULL"
                                                                   : "PRAGMA synchronous = NORMAL",
                             NULL, NULL, NULL));
  raw_must(raw, sqlite3_exec(raw->db, raw_tables, NULL, NULL, NULL));
  raw->begin = raw_prepare(raw, "BEGIN IMMEDIATE");
  raw->commit = raw_prepare(raw, "COMMIT");
  raw->insert_event = raw_prepare(raw, "INSERT INTO events(position, id, timestamp, event) VALUES(?1, ?2, ?3, ?4)");
  raw->upsert = raw_prepare(raw, "INSERT INTO state VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(scope, owner, key)"
                                 " DO UPDATE SET value = excluded.value, revision = excluded.revision");
  raw->update_session = raw_prepare(raw, "UPDATE sessions SET revision = ?2, last_update_time = ?3 WHERE id = ?1");
  raw->create_session = raw_prepare(raw, "INSERT INTO sessions VALUES(?1, 1, ?2, ?3, 0, ?4, ?4)");
  raw->begin_read = raw_prepare(raw, "BEGIN");
  raw->read_session = raw_prepare(raw, "SELECT * FROM sessions WHERE user = ?1 AND session_id = ?2");
  raw->each_key =
      raw_prepare(raw, "SELECT key, value, revision FROM state WHERE scope = ?1 AND owner = ?2 AND value IS NOT NULL");
  raw->last_events =
      raw_prepare(raw, "SELECT position, timestamp, id, event FROM events WHERE position BETWEEN ?1 AND ?2"
                       " ORDER BY position DESC LIMIT ?3");
}

static inline void raw_close(raw_database *raw) {
  sqlite3_finalize(raw->begin);
  sqlite3_finalize(raw->commit);
  sqlite3_finalize(raw->insert_event);
  sqlite3_finalize(raw->upsert);
  sqlite3_finalize(raw->update_session);
  sqlite3_finalize(raw->create_session);
  sqlite3_finalize(raw->begin_read);
  sqlite3_finalize(raw->read_session);
  sqlite3_finalize(raw->each_key);
  sqlite3_finalize(raw->last_events);
  sqlite3_close(raw->db);
}

static inline void raw_insert_session(raw_database *raw, sqlite3_int64 session, sqlite3_int64 user, const char *id) {
  sqlite3_bind_int64(raw->create_session, 1, session);
  sqlite3_bind_int64(raw->create_session, 2, user);
  sqlite3_bind_text(raw->create_session, 3, id, -1, SQLITE_STATIC);
  sqlite3_bind_double(raw->create_session, 4, 1763700000.0);
  raw_run(raw, raw->create_session);
}

static inline void raw_create(raw_database *raw, sqlite3_int64 session, sqlite3_int64 user, const char *id) {
  raw_run(raw, raw->begin);
  raw_insert_session(raw, session, user, id);
  raw_run(raw, raw->commit);
}

static inline void raw_write_key(raw_database *raw, int scope, sqlite3_int64 owner, const char *key, const char *value,
                                 int length, sqlite3_int64 revision) {
  sqlite3_bind_int(raw->upsert, 1, scope);
  sqlite3_bind_int64(raw->upsert, 2, owner);
  sqlite3_bind_text(raw->upsert, 3, key, -1, SQLITE_STATIC);
  sqlite3_bind_text(raw->upsert, 4, value, length, SQLITE_STATIC);
  sqlite3_bind_int64(raw->upsert, 5, revision);
  raw_run(raw, raw->upsert);
}

/* What one event changes, without the transaction. `event` begins with {"id":". */
static inline void raw_write_event(raw_database *raw, sqlite3_int64 session, sqlite3_int64 revision,
                                   const event_text *event) {
  double timestamp = 1763700000.0 + (double)revision * 1e-3;
  sqlite3_bind_int64(raw->insert_event, 1, session << 34 | revision);
  sqlite3_bind_text(raw->insert_event, 2, event->text + 7, EVENT_ID_BYTES, SQLITE_STATIC);
  sqlite3_bind_double(raw->insert_event, 3, timestamp);
  sqlite3_bind_text(raw->insert_event, 4, event->text, (int)event->length, SQLITE_STATIC);
  raw_run(raw, raw->insert_event);
  raw_write_key(raw, 0, session, "step", event->text + 160, 7, revision);
  raw_write_key(raw, 1, 1, "wish", event->text + 170, 14, revision);
  raw_write_key(raw, 2, 1, "served", event->text + 180, 7, revision);
  sqlite3_bind_int64(raw->update_session, 1, session);
  sqlite3_bind_int64(raw->update_session, 2, revision);
  sqlite3_bind_double(raw->update_session, 3, timestamp);
  raw_run(raw, raw->update_session);
}

static inline void raw_append(raw_database *raw, sqlite3_int64 session, sqlite3_int64 revision,
                              const event_text *event) {
  raw_run(raw, raw->begin);
  raw_write_event(raw, session, revision, event);
  raw_run(raw, raw->commit);
}

/* Copies two columns of text of every row. */
static inline size_t raw_copy_rows(sqlite3_stmt *statement, int first, int second, char *out) {
  size_t used = 0;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    for (int column = first; column <= second; column++) {
      size_t length = (size_t)sqlite3_column_bytes(statement, column);
      memcpy(out + used, sqlite3_column_text(statement, column), length);
      used += length;
    }
  }
  sqlite3_reset(statement);
  return used;
}

static inline size_t raw_copy_state(raw_database *raw, int scope, sqlite3_int64 owner, char *out) {
  sqlite3_bind_int(raw->each_key, 1, scope);
  sqlite3_bind_int64(raw->each_key, 2, owner);
  return raw_copy_rows(raw->each_key, 0, 1, out);
}

static inline void file_path(char *path, size_t size, const char *folder, const char *name) {
  must(snprintf(path, size, "%s/%s", folder, name) < (int)size, "the path");
}

static inline void remove_database(const char *path) {
  static const char *const suffixes[] = {"", "-wal", "-shm"};
  char name[4096];
  for (size_t i = 0; i < 3; i++) {
    must(snprintf(name, sizeof name, "%s%s", path, suffixes[i]) < (int)sizeof name, "the path");
    remove(name);
  }
}

static inline moonpad_service *open_file_service(const char *path, moonpad_durability durability) {
  char url[4096];
  must(snprintf(url, sizeof url, "sqlite:%s", path) < (int)sizeof url, "the path");
  return open_service(url, durability, NULL);
}

#endif
