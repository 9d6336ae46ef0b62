/* Trimming, purging, touching, sweeping; idempotency keys. */
#include <math.h>

#include "base/error.h"
#include "store/sqlite/sqlite.h"

static int64_t id_of(const mp_session_ref *ref, mp_scope scope) {
  return scope == MP_SCOPE_USER ? ref->user : scope == MP_SCOPE_APP ? ref->app : ref->session;
}

moonpad_status mp_sqlite_trim(mp_tx *tx, const mp_session_ref *session, int64_t last, moonpad_error *error) {
  if (last > MP_MAX_REVISION) last = MP_MAX_REVISION;
  if (last < 0) return MOONPAD_OK;
  return mp_sqlite_run_with(mp_sqlite_of(tx), MP_SQL_DELETE_EVENTS, mp_sqlite_position(session->session, 0),
                            mp_sqlite_position(session->session, last), error);
}

moonpad_status mp_sqlite_purge(mp_tx *tx, const mp_session_ref *ref, mp_scope scope, int64_t last,
                               moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  int64_t id = id_of(ref, scope);
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_PURGE, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, (int)scope);
  sqlite3_bind_int64(statement, 2, id);
  sqlite3_bind_int64(statement, 3, last);
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  mp_sqlite_head *head;
  if (status == MOONPAD_OK) status = mp_sqlite_load_head(connection, scope, id, NULL, &head, error);
  if (status != MOONPAD_OK) return status;
  if (last > head->revision) last = head->revision;
  if (last <= head->forgotten) return MOONPAD_OK;
  head->forgotten = last;
  return mp_sqlite_write_head(connection, scope, head, error);
}

/* ---- when something was last used ---- */

/* MOONPAD_NOT_FOUND, no message: it has been deleted. Apps are not. */
static moonpad_status find_user(mp_sqlite_connection *connection, int64_t id, moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_HAS_USER, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, id);
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  sqlite3_reset(statement);
  return status;
}

static moonpad_status touch_head(mp_sqlite_connection *connection, mp_scope scope, int64_t id, double time,
                                 moonpad_error *error) {
  mp_sqlite_head *head;
  moonpad_status status = mp_sqlite_load_head(connection, scope, id, NULL, &head, error);
  if (status == MOONPAD_OK && scope == MP_SCOPE_USER && head->revision == 0) {
    status = find_user(connection, id, error);
    if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  }
  if (status != MOONPAD_OK || head->touched >= time) return status;
  head->touched = time;
  return mp_sqlite_write_head(connection, scope, head, error);
}

moonpad_status mp_sqlite_touch(mp_tx *tx, const mp_touch *touches, size_t count, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; i < count; i++) {
    for (int scope = 0; status == MOONPAD_OK && scope < MP_STORED_SCOPES; scope++) {
      if ((touches[i].heads & MP_HEAD(scope)) == 0) continue;
      int64_t id = id_of(&touches[i].ref, (mp_scope)scope);
      status = touch_head(mp_sqlite_of(tx), (mp_scope)scope, id, touches[i].time, error);
    }
  }
  return status;
}

static moonpad_status remove_state(mp_sqlite_connection *connection, mp_scope scope, int64_t id, moonpad_error *error) {
  mp_sqlite_head *head;
  moonpad_status status = mp_sqlite_load_head(connection, scope, id, NULL, &head, error);
  if (status == MOONPAD_OK) status = mp_sqlite_run_with(connection, MP_SQL_DELETE_STATE, scope, id, error);
  if (status != MOONPAD_OK) return status;
  head->forgotten = ++head->revision;
  head->touched = 0;
  mp_sqlite_recent_reset(&head->recent, head->revision);
  return mp_sqlite_write_head(connection, scope, head, error);
}

/* ---- sweeping ---- */

/* In one call it looks at so many ids, and stops once it has changed so many rows. */
#define LOOKED_AT 4096
#define CHANGED   10000

/* Its events: behind *base, up to *last. */
static moonpad_status find_events(mp_sqlite_connection *connection, int64_t session, int64_t *base, int64_t *last,
                                  moonpad_error *error) {
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_SESSION_EVENTS, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, session);
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) {
    *base = sqlite3_column_int64(statement, 0);
    *last = sqlite3_column_int64(statement, 1);
  }
  sqlite3_reset(statement);
  return status;
}

/*
** Removes a session, or so many of its events that the next call can go on. Then it belongs to
** nobody (user 0): no name leads to it, and no id.
*/
static moonpad_status remove_session(mp_tx *tx, int64_t id, bool *is_removed, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  int64_t base = 0, last = 0;
  moonpad_status status = find_events(connection, id, &base, &last, error);
  *is_removed = status == MOONPAD_OK && last - base <= CHANGED;
  if (*is_removed) return mp_sqlite_remove(tx, MP_SCOPE_SESSION, id, error);
  if (status == MOONPAD_OK) {
    mp_sqlite_cache_remove_head(connection->cache, MP_SCOPE_SESSION, id);
    status = mp_sqlite_run_with(connection, MP_SQL_DETACH_SESSION, id, base + CHANGED, error);
  }
  if (status != MOONPAD_OK) return status;
  return mp_sqlite_run_with(connection, MP_SQL_DELETE_EVENTS, mp_sqlite_position(id, 0),
                            mp_sqlite_position(id, base + CHANGED), error);
}

/*
** Searches behind *id, up to `last`, and sets it to what it finds. MOONPAD_NOT_FOUND, no message:
** there is none.
*/
static moonpad_status next_unused(mp_sqlite_connection *connection, const mp_sweep *sweep, int64_t last, int64_t *id,
                                  moonpad_error *error) {
  static const mp_sqlite_statement_id next[] = {MP_SQL_NEXT_UNUSED_SESSION, MP_SQL_NEXT_UNUSED_USER,
                                                MP_SQL_NEXT_UNUSED_APP};
  sqlite3_stmt *statement = mp_sqlite_statement(connection, next[sweep->scope], error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, *id);
  sqlite3_bind_double(statement, 2, sweep->touched_before);
  sqlite3_bind_int64(statement, 3, last);
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) *id = sqlite3_column_int64(statement, 0);
  sqlite3_reset(statement);
  return status;
}

/* The highest id; 0: there is none. */
static moonpad_status last_id(mp_sqlite_connection *connection, mp_scope scope, int64_t *id, moonpad_error *error) {
  static const mp_sqlite_statement_id last[] = {MP_SQL_LAST_SESSION, MP_SQL_LAST_USER, MP_SQL_LAST_APP};
  sqlite3_stmt *statement = mp_sqlite_statement(connection, last[scope], error);
  if (statement == NULL) return connection->failure;
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) *id = sqlite3_column_int64(statement, 0);
  sqlite3_reset(statement);
  return status;
}

/* Sweeps up to id `last`. False in *reached: there may be more up to there. */
static moonpad_status sweep_up_to(mp_tx *tx, mp_sweep *sweep, int64_t last, bool *reached, moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  mp_scope scope = sweep->scope;
  int64_t changed = sqlite3_total_changes64(connection->db);
  *reached = false;
  while (sweep->removed < sweep->limit && sqlite3_total_changes64(connection->db) - changed < CHANGED) {
    int64_t id = sweep->position;
    moonpad_status status = next_unused(connection, sweep, last, &id, error);
    *reached = status == MOONPAD_NOT_FOUND;
    if (*reached) return MOONPAD_OK;
    bool is_removed = scope != MP_SCOPE_SESSION;
    if (status == MOONPAD_OK && is_removed) status = remove_state(connection, scope, id, error);
    if (status == MOONPAD_OK && !is_removed) status = remove_session(tx, id, &is_removed, error);
    if (status != MOONPAD_OK) return status;
    sweep->position = is_removed ? id : id - 1;
    sweep->removed += is_removed;
  }
  return MOONPAD_OK;
}

moonpad_status mp_sqlite_sweep(mp_tx *tx, mp_sweep *sweep, moonpad_error *error) {
  int64_t end = 0;
  bool reached = false;
  sweep->removed = 0;
  moonpad_status status = last_id(mp_sqlite_of(tx), sweep->scope, &end, error);
  int64_t last = sweep->position + LOOKED_AT < end ? sweep->position + LOOKED_AT : end;
  if (status == MOONPAD_OK) status = sweep_up_to(tx, sweep, last, &reached, error);
  if (status != MOONPAD_OK) return status;
  if (reached) sweep->position = last;
  sweep->is_done = reached && last == end;
  return MOONPAD_OK;
}

/* ---- tokens ---- */

/* Tokens have no index by time, so this reads all of them: not for each new token. */
static moonpad_status delete_expired_tokens(mp_sqlite_connection *connection, double now, double expired,
                                            moonpad_error *error) {
  if (fabs(now - connection->tokens_expired_at) < (now - expired) / 8) return MOONPAD_OK;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_FORGET_TOKENS, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_double(statement, 1, expired);
  moonpad_status status = mp_sqlite_run(connection, statement, error);
  if (status == MOONPAD_OK) connection->tokens_expired_at = now;
  return status;
}

moonpad_status mp_sqlite_claim_token(mp_tx *tx, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                     moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  moonpad_status status = delete_expired_tokens(connection, now, expired, error);
  if (status != MOONPAD_OK) return status;
  sqlite3_stmt *statement = mp_sqlite_statement(connection, MP_SQL_CLAIM_TOKEN, error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_blob(statement, 1, token, MP_TOKEN_BYTES, SQLITE_STATIC);
  sqlite3_bind_double(statement, 2, now);
  sqlite3_bind_double(statement, 3, expired);
  status = mp_sqlite_run(connection, statement, error);
  return status == MOONPAD_OK && sqlite3_changes(connection->db) == 0 ? MOONPAD_ALREADY_EXISTS : status;
}
