/* One statement in one transaction. */
#include "agent_stores/postgres/stores.h"

static moonpad_status send(mp_postgres_tx *tx, const mp_postgres_call *call, moonpad_error *error) {
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, tx->connection);
  call->add(&parameters, call->asked);
  return mp_postgres_send(tx->connection, call->statement, &parameters, call->rows, call->found, error);
}

static moonpad_status ask_in(mp_tx *base, void *context, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  moonpad_status status = mp_postgres_before_question(tx, error);
  if (status == MOONPAD_OK) status = send(tx, context, error);
  return status == MOONPAD_OK ? mp_postgres_round_trip(tx->connection, error) : status;
}

/* Without an answer to wait for, the statement goes with the COMMIT. */
static moonpad_status change_in(mp_tx *base, void *context, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  const mp_postgres_call *call = context;
  moonpad_status status = mp_postgres_before_write(tx, error);
  if (status == MOONPAD_OK) status = send(tx, call, error);
  if (status != MOONPAD_OK || call->rows == NULL) return status;
  return mp_postgres_round_trip(tx->connection, error);
}

moonpad_status mp_postgres_ask(mp_store *store, const mp_postgres_call *call, moonpad_error *error) {
  mp_postgres_call asked = *call;
  return mp_remote_read(store, ask_in, &asked, error);
}

moonpad_status mp_postgres_change(mp_store *store, const mp_postgres_call *call, moonpad_error *error) {
  mp_postgres_call asked = *call;
  return mp_remote_write(store, change_in, &asked, error);
}

void mp_postgres_renew(mp_store *store, const mp_postgres_call *call) {
  mp_postgres_call asked = *call;
  mp_remote_write_in_a_hurry(store, change_in, &asked, NULL);
}

moonpad_status mp_postgres_take_number(void *found, const PGresult *rows, moonpad_error *error) {
  (void)error;
  *(int64_t *)found = PQntuples(rows) == 1 ? mp_postgres_integer(rows, 0, 0) : 0;
  return MOONPAD_OK;
}

/* ---- sweeping ---- */

static void add_sweep(mp_postgres_parameters *parameters, const void *asked) {
  const mp_postgres_swept *swept = asked;
  mp_postgres_add_small(parameters, swept->step);
  mp_postgres_add_integer(parameters, swept->place);
  mp_postgres_add_double(parameters, swept->alive_since);
}

static moonpad_status take_swept(void *found, const PGresult *rows, moonpad_error *error) {
  mp_postgres_swept *swept = found;
  (void)error;
  swept->removed = mp_postgres_integer(rows, 0, 0);
  swept->place = mp_postgres_integer(rows, 0, 1);
  swept->is_done = mp_postgres_integer(rows, 0, 2) != 0;
  return MOONPAD_OK;
}

moonpad_status mp_postgres_sweep_table(mp_store *store, int statement, int step, const mp_agent_time *time,
                                       int64_t *removed, moonpad_error *error) {
  mp_postgres_swept at = {.step = step, .alive_since = mp_agent_alive_since(time)};
  while (!at.is_done) {
    mp_postgres_swept next = at;
    mp_postgres_call call = {statement, add_sweep, &at, take_swept, &next};
    moonpad_status status = mp_postgres_change(store, &call, error);
    if (status != MOONPAD_OK) return status;
    *removed += next.removed;
    at = next;
  }
  return MOONPAD_OK;
}
