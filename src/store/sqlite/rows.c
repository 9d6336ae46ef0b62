/*
** What the writing connection remembers of sessions, users and apps, so that an append to one
** that it has just written asks the file for nothing. It holds while nobody else writes: SQLite
** tells of every transaction that another connection, of this process or another, has committed
** since. A transaction that is not committed leaves nothing behind.
*/
#include "store/sqlite/sqlite.h"

static unsigned place_of(int64_t id) {
  return (unsigned)id % MP_SQLITE_ROWS_KEPT;
}

/* False when it cannot be told: then nothing holds. */
static bool read_version(sqlite3 *db, unsigned *version) {
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_DATA_VERSION, version) == SQLITE_OK;
}

void mp_sqlite_rows_forget(mp_sqlite_rows *rows) {
  rows->epoch++;
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

mp_sqlite_head *mp_sqlite_rows_head(mp_sqlite_rows *rows, mp_scope scope, int64_t id) {
  mp_sqlite_head *head = &rows->heads[scope][place_of(id)];
  return id != 0 && head->id == id && head->epoch == rows->epoch ? head : NULL;
}

mp_sqlite_head *mp_sqlite_rows_new_head(mp_sqlite_rows *rows, mp_scope scope, int64_t id) {
  mp_sqlite_head *head = &rows->heads[scope][place_of(id)];
  *head = (mp_sqlite_head){.id = id, .epoch = rows->epoch};
  /* what is there may be older */
  if (scope == MP_SCOPE_SESSION) rows->sessions[place_of(id)].id = 0;
  return head;
}

void mp_sqlite_rows_drop(mp_sqlite_rows *rows, mp_scope scope, int64_t id) {
  mp_sqlite_head *head = mp_sqlite_rows_head(rows, scope, id);
  if (head != NULL) head->id = 0;
}

static mp_session_row *session_of(mp_sqlite_rows *rows, int64_t id) {
  mp_session_row *row = &rows->sessions[place_of(id)];
  return row->id == id && mp_sqlite_rows_head(rows, MP_SCOPE_SESSION, id) != NULL ? row : NULL;
}

void mp_sqlite_rows_keep(mp_sqlite_rows *rows, const mp_session_row *row) {
  rows->sessions[place_of(row->id)] = *row;
}

void mp_sqlite_rows_update(mp_sqlite_rows *rows, const mp_session_row *row) {
  mp_session_row *kept = session_of(rows, row->id);
  if (kept == NULL) return;
  kept->revision = row->revision;
  kept->base_revision = row->base_revision;
  kept->conversation_count = row->conversation_count;
  kept->last_update_time = row->last_update_time;
}

bool mp_sqlite_rows_find(mp_sqlite_rows *rows, int64_t session, mp_facts *facts) {
  const mp_session_row *kept = session_of(rows, session);
  int64_t revisions[MP_STORED_SCOPES];
  if (kept == NULL) return false;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    const mp_sqlite_head *head = mp_sqlite_rows_head(rows, (mp_scope)scope, mp_row_id(kept, (mp_scope)scope));
    if (head == NULL) return false;
    facts->forgotten[scope] = head->forgotten;
    facts->touched[scope] = head->touched;
    revisions[scope] = head->revision;
  }
  facts->row = *kept;
  facts->row.user_revision = revisions[MP_SCOPE_USER];
  facts->row.app_revision = revisions[MP_SCOPE_APP];
  return true;
}
