/* Trimming, purging, touching, sweeping; idempotency keys. */
#include "base/error.h"
#include "store/postgres/postgres.h"

static int64_t id_of(const mp_session_ref *ref, mp_scope scope) {
  return scope == MP_SCOPE_USER ? ref->user : scope == MP_SCOPE_APP ? ref->app : ref->session;
}

moonpad_status mp_postgres_trim(mp_tx *base, const mp_session_ref *session, int64_t last, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  moonpad_status status = mp_postgres_before_write(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_integer(&parameters, session->session);
  mp_postgres_add_integer(&parameters, last);
  return status == MOONPAD_OK ? mp_postgres_send(tx->connection, MP_PG_TRIM, &parameters, NULL, NULL, error) : status;
}

moonpad_status mp_postgres_purge(mp_tx *base, const mp_session_ref *ref, mp_scope scope, int64_t last,
                                 moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  moonpad_status status = mp_postgres_before_write(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_small(&parameters, (int)scope);
  mp_postgres_add_integer(&parameters, id_of(ref, scope));
  mp_postgres_add_integer(&parameters, last);
  return status == MOONPAD_OK ? mp_postgres_send(tx->connection, MP_PG_PURGE, &parameters, NULL, NULL, error) : status;
}

/* ---- when something was last used ---- */

typedef enum touch_column { TOUCH_SCOPE, TOUCH_OWNER, TOUCH_TIME } touch_column;

static void add_column(mp_postgres_parameters *parameters, const mp_touch *touches, size_t count, touch_column column) {
  static const mp_postgres_type types[] = {MP_PG_INT4, MP_PG_INT8, MP_PG_FLOAT8};
  mp_postgres_begin_array(parameters, types[column]);
  for (size_t i = 0; i < count; i++) {
    for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
      if ((touches[i].heads & MP_HEAD(scope)) == 0) continue;
      if (column == TOUCH_SCOPE) mp_postgres_item_small(parameters, scope);
      if (column == TOUCH_OWNER) mp_postgres_item_integer(parameters, id_of(&touches[i].ref, (mp_scope)scope));
      if (column == TOUCH_TIME) mp_postgres_item_double(parameters, touches[i].time);
    }
  }
  mp_postgres_end_array(parameters);
}

moonpad_status mp_postgres_touch(mp_tx *base, const mp_touch *touches, size_t count, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  moonpad_status status = mp_postgres_before_write(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  add_column(&parameters, touches, count, TOUCH_SCOPE);
  add_column(&parameters, touches, count, TOUCH_OWNER);
  add_column(&parameters, touches, count, TOUCH_TIME);
  return status == MOONPAD_OK ? mp_postgres_send(tx->connection, MP_PG_TOUCH, &parameters, NULL, NULL, error) : status;
}

/* ---- sweeping ---- */

static moonpad_status take_sweep(void *context, const PGresult *rows, moonpad_error *error) {
  mp_sweep *sweep = context;
  (void)error;
  if (PQntuples(rows) != 1) return MOONPAD_OK;
  sweep->removed = mp_postgres_integer(rows, 0, 0);
  sweep->position = mp_postgres_integer(rows, 0, 1);
  sweep->is_done = mp_postgres_integer(rows, 0, 2) != 0;
  return MOONPAD_OK;
}

moonpad_status mp_postgres_sweep(mp_tx *base, mp_sweep *sweep, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  sweep->removed = 0;
  moonpad_status status = mp_postgres_before_write(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_small(&parameters, (int)sweep->scope);
  mp_postgres_add_double(&parameters, sweep->touched_before);
  mp_postgres_add_integer(&parameters, sweep->limit);
  mp_postgres_add_integer(&parameters, sweep->position);
  if (status == MOONPAD_OK) {
    status = mp_postgres_send(tx->connection, MP_PG_SWEEP, &parameters, take_sweep, sweep, error);
  }
  return status == MOONPAD_OK ? mp_postgres_round_trip(tx->connection, error) : status;
}

/* ---- tokens ---- */

static moonpad_status take_claim(void *context, const PGresult *rows, moonpad_error *error) {
  (void)error;
  *(bool *)context = PQntuples(rows) == 1 && mp_postgres_integer(rows, 0, 0) != 0;
  return MOONPAD_OK;
}

moonpad_status mp_postgres_claim_token(mp_tx *base, const unsigned char token[MP_TOKEN_BYTES], double now,
                                       double expired, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  bool is_claimed = false;
  moonpad_status status = mp_postgres_before_write(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_bytes(&parameters, (moonpad_string){(const char *)token, MP_TOKEN_BYTES});
  mp_postgres_add_double(&parameters, now);
  mp_postgres_add_double(&parameters, expired);
  if (status == MOONPAD_OK) {
    status = mp_postgres_send(tx->connection, MP_PG_CLAIM_TOKEN, &parameters, take_claim, &is_claimed, error);
  }
  if (status == MOONPAD_OK) status = mp_postgres_round_trip(tx->connection, error);
  return status != MOONPAD_OK ? status : is_claimed ? MOONPAD_OK : MOONPAD_ALREADY_EXISTS;
}
