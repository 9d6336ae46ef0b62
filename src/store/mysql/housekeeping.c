/* Trimming, purging, touching, sweeping; idempotency keys. */
#include <stdlib.h>

#include "base/error.h"
#include "store/mysql/mysql.h"

static int64_t id_of(const mp_session_ref *ref, mp_scope scope) {
  return scope == MP_SCOPE_USER ? ref->user : scope == MP_SCOPE_APP ? ref->app : ref->session;
}

moonpad_status mp_mysql_trim(mp_tx *base, const mp_session_ref *session, int64_t last, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin(tx->connection, NULL, NULL);
  mp_mysql_sql_integer(tx->connection, "DELETE FROM #events WHERE session = ", session->session);
  mp_mysql_sql_integer(tx->connection, " AND revision <= ", last);
  return MOONPAD_OK;
}

moonpad_status mp_mysql_purge(mp_tx *base, const mp_session_ref *ref, mp_scope scope, int64_t last,
                              moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin_call(tx->connection, NULL, NULL);
  mp_mysql_sql_integer(tx->connection, "CALL #purge_1(", (int64_t)scope);
  mp_mysql_sql_integer(tx->connection, ",", id_of(ref, scope));
  mp_mysql_sql_integer(tx->connection, ",", last);
  mp_mysql_sql(tx->connection, ")");
  return MOONPAD_OK;
}

/* ---- when something was last used ---- */

typedef struct use {
  int64_t owner;
  double time;
} use;

static int compare_uses(const void *a, const void *b) {
  const use *first = a, *second = b;
  return (first->owner > second->owner) - (first->owner < second->owner);
}

static void add_use(mp_mysql_connection *connection, mp_scope scope, const use *one) {
  static const char *const updates[] = {
      "UPDATE #sessions SET touched = ", "UPDATE #users SET touched = ", "UPDATE #apps SET touched = "};
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection, updates[scope]);
  mp_mysql_double(connection, one->time);
  mp_mysql_sql_integer(connection, " WHERE id = ", one->owner);
  mp_mysql_sql(connection, " AND touched < ");
  mp_mysql_double(connection, one->time);
}

/* All of one scope, by id: as every transaction locks them. */
static moonpad_status touch_scope(mp_mysql_tx *tx, const mp_touch *touches, size_t count, mp_scope scope, use *uses,
                                  moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if ((touches[i].heads & MP_HEAD(scope)) == 0) continue;
    uses[found++] = (use){id_of(&touches[i].ref, scope), touches[i].time};
  }
  if (found > 1) qsort(uses, found, sizeof *uses, compare_uses);
  for (size_t i = 0; status == MOONPAD_OK && i < found; i++) {
    add_use(tx->connection, scope, &uses[i]);
    status = mp_mysql_send_some(tx->connection, error);
  }
  return status;
}

moonpad_status mp_mysql_touch(mp_tx *base, const mp_touch *touches, size_t count, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK || count == 0) return status;
  use *uses = mp_allocate(tx->env, count * sizeof *uses);
  if (uses == NULL) return mp_no_memory(error);
  for (int scope = 0; status == MOONPAD_OK && scope < MP_STORED_SCOPES; scope++) {
    status = touch_scope(tx, touches, count, (mp_scope)scope, uses, error);
  }
  mp_release(tx->env, uses);
  return status;
}

/* ---- sweeping ---- */

static moonpad_status take_sweep(void *context, const mp_mysql_row *row, moonpad_error *error) {
  mp_sweep *sweep = context;
  (void)error;
  sweep->removed = mp_mysql_integer_of(row, 0);
  sweep->position = mp_mysql_integer_of(row, 1);
  sweep->is_done = mp_mysql_integer_of(row, 2) != 0;
  return MOONPAD_OK;
}

moonpad_status mp_mysql_sweep(mp_tx *base, mp_sweep *sweep, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  mp_mysql_connection *connection = tx->connection;
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin_call(connection, take_sweep, sweep);
  mp_mysql_sql_integer(connection, "CALL #sweep_1(", (int64_t)sweep->scope);
  mp_mysql_sql(connection, ",");
  mp_mysql_double(connection, sweep->touched_before);
  mp_mysql_sql_integer(connection, ",", sweep->limit);
  mp_mysql_sql_integer(connection, ",", sweep->position);
  mp_mysql_sql(connection, ")");
  sweep->removed = 0;
  return mp_mysql_ask(tx, error);
}

/* ---- tokens ---- */

static moonpad_status take_claim(void *context, const mp_mysql_row *row, moonpad_error *error) {
  (void)error;
  *(bool *)context = mp_mysql_integer_of(row, 0) != 0;
  return MOONPAD_OK;
}

moonpad_status mp_mysql_claim_token(mp_tx *base, const unsigned char token[MP_TOKEN_BYTES], double now, double expired,
                                    moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  mp_mysql_connection *connection = tx->connection;
  bool is_claimed = false;
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin_call(connection, take_claim, &is_claimed);
  mp_mysql_sql(connection, "CALL #claim_token_1(");
  mp_mysql_bytes(connection, (moonpad_string){(const char *)token, MP_TOKEN_BYTES});
  mp_mysql_sql(connection, ",");
  mp_mysql_double(connection, now);
  mp_mysql_sql(connection, ",");
  mp_mysql_double(connection, expired);
  mp_mysql_sql(connection, ")");
  status = mp_mysql_ask(tx, error);
  return status != MOONPAD_OK ? status : is_claimed ? MOONPAD_OK : MOONPAD_ALREADY_EXISTS;
}
