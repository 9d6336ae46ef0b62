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

static moonpad_status touch_head(mp_sqlite_connection *connection, mp_scope scope, int64_t id, double time,
                                 moonpad_error *error) {
  mp_sqlite_head *head;
  moonpad_status status = mp_sqlite_load_head(connection, scope, id, NULL, &head, error);
  if (status != MOONPAD_OK) return status;
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

/*
** Searches behind *id, and sets it to what it finds. MOONPAD_NOT_FOUND, no message: there is none.
*/
static moonpad_status next_unused(mp_sqlite_connection *connection, mp_scope scope, double before, int64_t *id,
                                  moonpad_error *error) {
  static const mp_sqlite_statement_id next[] = {MP_SQL_NEXT_UNUSED_SESSION, MP_SQL_NEXT_UNUSED_USER,
                                                MP_SQL_NEXT_UNUSED_APP};
  sqlite3_stmt *statement = mp_sqlite_statement(connection, next[scope], error);
  if (statement == NULL) return connection->failure;
  sqlite3_bind_int64(statement, 1, *id);
  sqlite3_bind_double(statement, 2, before);
  moonpad_status status = mp_sqlite_step_to_row(connection, statement, error);
  if (status == MOONPAD_OK) *id = sqlite3_column_int64(statement, 0);
  sqlite3_reset(statement);
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

moonpad_status mp_sqlite_sweep(mp_tx *tx, mp_scope scope, double touched_before, int64_t limit, int64_t *removed,
                               moonpad_error *error) {
  mp_sqlite_connection *connection = mp_sqlite_of(tx);
  int64_t id = 0;
  for (*removed = 0; *removed < limit; ++*removed) {
    moonpad_status status = next_unused(connection, scope, touched_before, &id, error);
    if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
    if (status != MOONPAD_OK) return status;
    status =
        scope == MP_SCOPE_SESSION ? mp_sqlite_remove(tx, scope, id, error) : remove_state(connection, scope, id, error);
    if (status != MOONPAD_OK) return status;
  }
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
