/*
** What the writing connection remembers of sessions, users and apps, so that an append to one that it has just written asks the file for nothing. It holds while nobody else
** writes: SQLite tells of every transaction that another connection, of this process or another, has committed since. A transaction that is not committed leaves nothing behind.
*/
#include <string.h>

#include "store/sqlite.h"

static unsigned place_of(int64_t id) {
  return (unsigned)id % MP_SQLITE_ROWS_KEPT;
}

/* False when it cannot be told: then nothing holds. */
static bool read_version(sqlite3 *db, unsigned *version) {
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_DATA_VERSION, version) == SQLITE_OK;
}

void mp_sqlite_rows_forget(mp_sqlite_rows *rows) {
  /* Ids begin with 1. */
  if (rows->used) memset(rows, 0, sizeof *rows);
}

void mp_sqlite_rows_begin(mp_sqlite_rows *rows, sqlite3 *db) {
  unsigned version;
  bool holds = rows->committed && read_version(db, &version) && version == rows->version;
  if (!holds) mp_sqlite_rows_forget(rows);
  rows->committed = false;
}

void mp_sqlite_rows_commit(mp_sqlite_rows *rows, sqlite3 *db) {
  rows->committed = read_version(db, &rows->version);
}

void mp_sqlite_rows_keep_shared(mp_sqlite_rows *rows, mp_scope scope, int64_t id, int64_t revision) {
  mp_sqlite_shared_row *shared = &rows->shared[scope == MP_SCOPE_APP][place_of(id)];
  shared->id = id;
  shared->revision = revision;
  rows->used = true;
}

void mp_sqlite_rows_keep(mp_sqlite_rows *rows, const mp_session_row *row) {
  rows->sessions[place_of(row->id)] = *row;
  mp_sqlite_rows_keep_shared(rows, MP_SCOPE_USER, row->user, row->user_revision);
  mp_sqlite_rows_keep_shared(rows, MP_SCOPE_APP, row->app, row->app_revision);
}

void mp_sqlite_rows_update(mp_sqlite_rows *rows, const mp_session_row *row) {
  mp_session_row *kept = &rows->sessions[place_of(row->id)];
  if (kept->id != row->id) return;
  kept->revision = row->revision;
  kept->base_revision = row->base_revision;
  kept->conversation_count = row->conversation_count;
  kept->last_update_time = row->last_update_time;
}

void mp_sqlite_rows_drop(mp_sqlite_rows *rows, int64_t session) {
  mp_session_row *kept = &rows->sessions[place_of(session)];
  if (kept->id == session) kept->id = 0;
}

bool mp_sqlite_rows_find(const mp_sqlite_rows *rows, int64_t session, mp_session_row *row) {
  const mp_session_row *kept = &rows->sessions[place_of(session)];
  const mp_sqlite_shared_row *user = &rows->shared[0][place_of(kept->user)];
  const mp_sqlite_shared_row *app = &rows->shared[1][place_of(kept->app)];
  if (session == 0 || kept->id != session || user->id != kept->user || app->id != kept->app) return false;
  *row = *kept;
  row->user_revision = user->revision;
  row->app_revision = app->revision;
  return true;
}
