/*
** What the writing connection has in memory of sessions, users and apps, so that an append to a
** session that it has just written reads nothing from the file. The cache is valid while nobody
** else writes: SQLite's data version tells of every commit of another connection, in this process
** or another one. A transaction that is not committed invalidates it.
*/
#include "store/sqlite/sqlite.h"

static unsigned slot_of(int64_t id) {
  return (unsigned)id % MP_SQLITE_CACHE_SLOTS;
}

/* False: not known. Then nothing in the cache is valid. */
static bool read_version(sqlite3 *db, unsigned *version) {
  return sqlite3_file_control(db, "main", SQLITE_FCNTL_DATA_VERSION, version) == SQLITE_OK;
}

void mp_sqlite_cache_clear(mp_sqlite_cache *cache) {
  cache->epoch++;
}

void mp_sqlite_cache_begin(mp_sqlite_cache *cache, sqlite3 *db) {
  unsigned version;
  bool is_valid = cache->committed && read_version(db, &version) && version == cache->version;
  if (!is_valid) mp_sqlite_cache_clear(cache);
  cache->committed = false;
}

void mp_sqlite_cache_commit(mp_sqlite_cache *cache, sqlite3 *db) {
  cache->committed = read_version(db, &cache->version);
}

mp_sqlite_head *mp_sqlite_cache_find_head(mp_sqlite_cache *cache, mp_scope scope, int64_t id) {
  mp_sqlite_head *head = &cache->heads[scope][slot_of(id)];
  return id != 0 && head->id == id && head->epoch == cache->epoch ? head : NULL;
}

mp_sqlite_head *mp_sqlite_cache_add_head(mp_sqlite_cache *cache, mp_scope scope, int64_t id) {
  mp_sqlite_head *head = &cache->heads[scope][slot_of(id)];
  *head = (mp_sqlite_head){.id = id, .epoch = cache->epoch};
  /* A row in the slot may be older than this head. */
  if (scope == MP_SCOPE_SESSION) cache->sessions[slot_of(id)].id = 0;
  return head;
}

void mp_sqlite_cache_remove_head(mp_sqlite_cache *cache, mp_scope scope, int64_t id) {
  mp_sqlite_head *head = mp_sqlite_cache_find_head(cache, scope, id);
  if (head != NULL) head->id = 0;
}

static mp_session_row *find_row(mp_sqlite_cache *cache, int64_t id) {
  mp_session_row *row = &cache->sessions[slot_of(id)];
  return row->id == id && mp_sqlite_cache_find_head(cache, MP_SCOPE_SESSION, id) != NULL ? row : NULL;
}

void mp_sqlite_cache_add_session(mp_sqlite_cache *cache, const mp_session_row *row) {
  cache->sessions[slot_of(row->id)] = *row;
}

void mp_sqlite_cache_update_session(mp_sqlite_cache *cache, const mp_session_row *row) {
  mp_session_row *cached = find_row(cache, row->id);
  if (cached == NULL) return;
  cached->revision = row->revision;
  cached->base_revision = row->base_revision;
  cached->conversation_count = row->conversation_count;
  cached->last_update_time = row->last_update_time;
}

bool mp_sqlite_cache_find_session(mp_sqlite_cache *cache, int64_t session, mp_facts *facts) {
  const mp_session_row *row = find_row(cache, session);
  int64_t revisions[MP_STORED_SCOPES];
  if (row == NULL) return false;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    const mp_sqlite_head *head = mp_sqlite_cache_find_head(cache, (mp_scope)scope, mp_row_id(row, (mp_scope)scope));
    if (head == NULL) return false;
    facts->forgotten[scope] = head->forgotten;
    facts->touched[scope] = head->touched;
    revisions[scope] = head->revision;
  }
  facts->row = *row;
  facts->row.user_revision = revisions[MP_SCOPE_USER];
  facts->row.app_revision = revisions[MP_SCOPE_APP];
  return true;
}
