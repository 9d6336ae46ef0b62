/* One transaction: begin, commit, roll back; and what became of a COMMIT whose answer was lost. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres.h"

static const mp_tx_ops tx_ops = {
    .size = sizeof tx_ops,
    .look = mp_postgres_look,
    .each_listed = mp_postgres_each_listed,
    .each_event = mp_postgres_each_event,
    .find_invocation = mp_postgres_find_invocation,
    .each_base_key = mp_postgres_each_base_key,
    .create_session = mp_postgres_create_session,
    .remove_session = mp_postgres_remove_session,
    .remove_user = mp_postgres_remove_user,
    .apply = mp_postgres_apply,
    .copy_history = mp_postgres_copy_history,
    .trim = mp_postgres_trim,
    .purge = mp_postgres_purge,
    .touch = mp_postgres_touch,
    .sweep = mp_postgres_sweep,
    .claim_token = mp_postgres_claim_token,
    .each_app = mp_postgres_each_app,
    .each_user = mp_postgres_each_user,
};

/* ---- before a question or a write ---- */

static moonpad_status begin(mp_postgres_tx *tx, moonpad_error *error) {
  if (tx->begun) return MOONPAD_OK;
  tx->begun = true;
  return mp_postgres_send(tx->connection, tx->is_write ? MP_PG_BEGIN : MP_PG_BEGIN_READ, NULL, NULL, NULL, error);
}

moonpad_status mp_postgres_before_question(mp_postgres_tx *tx, moonpad_error *error) {
  mp_postgres_connection *connection = tx->connection;
  if (tx->is_write || tx->is_snapshot) return begin(tx, error);
  if (tx->asked) {
    moonpad_error reason;
    moonpad_status status = mp_fail(&reason, MOONPAD_BUSY, "a second question");
    mp_postgres_note(connection, status, &reason);
    connection->base.failure.again = MP_AGAIN_SNAPSHOT;
    if (error != NULL) *error = reason;
    return status;
  }
  tx->asked = true;
  return MOONPAD_OK;
}

moonpad_status mp_postgres_before_write(mp_postgres_tx *tx, moonpad_error *error) {
  tx->wrote = true;
  return begin(tx, error);
}

/* ---- the end ---- */

static moonpad_status commit(mp_postgres_tx *tx, bool *sent, moonpad_error *error) {
  mp_postgres_connection *connection = tx->connection;
  if (!tx->begun) return MOONPAD_OK;
  moonpad_status status = MOONPAD_OK;
  if (tx->wrote) {
    mp_postgres_parameters parameters;
    mp_postgres_parameters_init(&parameters, connection);
    mp_postgres_add_integer(&parameters, connection->base.slot);
    mp_postgres_add_integer(&parameters, ++connection->base.number);
    status = mp_postgres_send(connection, MP_PG_NOTE_COMMIT, &parameters, NULL, NULL, error);
  }
  if (status == MOONPAD_OK) status = mp_postgres_send(connection, MP_PG_COMMIT, NULL, NULL, NULL, error);
  if (status != MOONPAD_OK) return status;
  *sent = tx->wrote;
  return mp_postgres_round_trip(connection, error);
}

/*
** The first sync ends what the transaction has sent, whose failure would leave out the ROLLBACK.
** A transaction that only reads has nothing to wait for: its answer is read with the next one.
*/
static void roll_back(mp_postgres_tx *tx) {
  mp_postgres_connection *connection = tx->connection;
  if (!tx->begun || mp_remote_is_broken(&connection->base)) return;
  mp_remote_failure failure = connection->base.failure;
  if (tx->is_write) mp_postgres_round_trip(connection, NULL);
  if (mp_remote_is_broken(&connection->base)) return;
  mp_remote_clear_failure(&connection->base);
  moonpad_status status = mp_postgres_send(connection, MP_PG_ROLLBACK, NULL, NULL, NULL, NULL);
  if (status == MOONPAD_OK) status = mp_postgres_send_sync(connection, NULL);
  if (status == MOONPAD_OK && tx->is_write) status = mp_postgres_receive(connection, NULL);
  if (status == MOONPAD_OK && !tx->is_write) PQflush(connection->pg);
  connection->base.failure = failure;
  if (status == MOONPAD_OK) return;
  /* The transaction is still open: only without the connection it ends. */
  connection->base.must_close = true;
}

/* ---- of mp_remote_ops ---- */

moonpad_status mp_postgres_run(mp_remote_connection *base, mp_remote_attempt *once, bool *sent) {
  mp_postgres_connection *connection = (mp_postgres_connection *)base;
  mp_postgres_tx tx = {.tx = {&tx_ops},
                       .connection = connection,
                       .env = connection->store->remote.env,
                       .is_write = once->is_write,
                       .is_snapshot = once->is_snapshot};
  moonpad_status status = once->function(&tx.tx, once->context, once->error);
  bool succeeds = status == MOONPAD_OK && base->failure.status == MOONPAD_OK;
  if (succeeds && once->is_write) status = commit(&tx, sent, once->error);
  bool is_over = succeeds && once->is_write && base->failure.status == MOONPAD_OK;
  if (!is_over) roll_back(&tx);
  return status;
}

static moonpad_status take_answer(void *context, const PGresult *rows, moonpad_error *error) {
  (void)error;
  if (PQntuples(rows) == 1) *(bool *)context = mp_postgres_integer(rows, 0, 0) != 0;
  return MOONPAD_OK;
}

moonpad_status mp_postgres_find_commit(mp_remote_connection *base, const mp_remote_attempt *once, bool *is_done) {
  mp_postgres_connection *connection = (mp_postgres_connection *)base;
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, connection);
  mp_postgres_add_integer(&parameters, once->slot);
  mp_postgres_add_integer(&parameters, once->number);
  moonpad_status status = mp_postgres_send(connection, MP_PG_FIND_COMMIT, &parameters, take_answer, is_done, NULL);
  return status == MOONPAD_OK ? mp_postgres_round_trip(connection, NULL) : status;
}
