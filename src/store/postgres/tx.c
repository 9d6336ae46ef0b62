/*
** One transaction, and doing it again when the server fails.
**
** The answer to a COMMIT may be lost. Then nobody knows whether it was carried out, and to do it
** again might do it twice. So each transaction that writes notes a number in the table `commits`,
** and the number is asked for (schema.c).
*/
#include <string.h>

#include "base/condition.h"
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
    connection->failure.again = MP_PG_SNAPSHOT;
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
    mp_postgres_add_integer(&parameters, connection->slot);
    mp_postgres_add_integer(&parameters, ++connection->number);
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
  if (!tx->begun || mp_postgres_is_broken(connection)) return;
  mp_postgres_failure failure = connection->failure;
  if (tx->is_write) mp_postgres_round_trip(connection, NULL);
  if (mp_postgres_is_broken(connection)) return;
  mp_postgres_clear_failure(connection);
  moonpad_status status = mp_postgres_send(connection, MP_PG_ROLLBACK, NULL, NULL, NULL, NULL);
  if (status == MOONPAD_OK) status = mp_postgres_send_sync(connection, NULL);
  if (status == MOONPAD_OK && tx->is_write) status = mp_postgres_receive(connection, NULL);
  if (status == MOONPAD_OK && !tx->is_write) PQflush(connection->pg);
  connection->failure = failure;
  if (status == MOONPAD_OK) return;
  /* The transaction is still open: only without the connection it ends. */
  connection->must_close = true;
}

/* ---- one attempt ---- */

typedef struct attempt {
  mp_tx_function function;
  void *context;
  moonpad_error *error;
  bool is_write;
  bool is_snapshot;
  bool is_hurried;             /* it is tried once, and waits for no connection */
  mp_postgres_failure failure; /* the store's own */
  /* A COMMIT was sent and not answered; this is what it noted. */
  bool is_unknown;
  int64_t slot, number;
} attempt;

static moonpad_status run(attempt *once, mp_postgres_connection *connection) {
  mp_postgres_tx tx = {.tx = {&tx_ops},
                       .connection = connection,
                       .env = connection->store->env,
                       .is_write = once->is_write,
                       .is_snapshot = once->is_snapshot};
  bool sent = false;
  mp_postgres_clear_failure(connection);
  moonpad_status status = once->function(&tx.tx, once->context, once->error);
  bool succeeds = status == MOONPAD_OK && connection->failure.status == MOONPAD_OK;
  if (succeeds && once->is_write) status = commit(&tx, &sent, once->error);
  bool is_over = succeeds && once->is_write && connection->failure.status == MOONPAD_OK;
  if (!is_over) roll_back(&tx);
  once->failure = connection->failure;
  once->is_unknown = sent && mp_postgres_is_broken(connection);
  once->slot = connection->slot;
  once->number = connection->number;
  if (once->failure.status == MOONPAD_OK) return status;
  if (once->error != NULL) *once->error = once->failure.error;
  return once->failure.status;
}

static moonpad_status run_once(attempt *once, mp_postgres *store, double until) {
  mp_postgres_connection *connection;
  once->is_unknown = false;
  if (once->error != NULL) *once->error = (moonpad_error){MOONPAD_OK, ""};
  mp_postgres_take(store, until, &connection, &once->failure);
  if (connection == NULL) {
    if (once->error != NULL) *once->error = once->failure.error;
    return once->failure.status;
  }
  moonpad_status status = run(once, connection);
  mp_postgres_give_back(connection);
  return status;
}

/* ---- a COMMIT whose answer was lost ---- */

static moonpad_status take_answer(void *context, const PGresult *rows, moonpad_error *error) {
  (void)error;
  if (PQntuples(rows) == 1) *(bool *)context = mp_postgres_integer(rows, 0, 0) != 0;
  return MOONPAD_OK;
}

static moonpad_status ask_for_commit(mp_postgres_connection *connection, const attempt *once, bool *is_done) {
  mp_postgres_parameters parameters;
  mp_postgres_clear_failure(connection);
  mp_postgres_parameters_init(&parameters, connection);
  mp_postgres_add_integer(&parameters, once->slot);
  mp_postgres_add_integer(&parameters, once->number);
  moonpad_status status = mp_postgres_send(connection, MP_PG_FIND_COMMIT, &parameters, take_answer, is_done, NULL);
  return status == MOONPAD_OK ? mp_postgres_round_trip(connection, NULL) : status;
}

/* False: nobody knows, and `once` says so. */
static bool find_out(attempt *once, mp_postgres *store, double until, bool *is_done) {
  mp_postgres_failure failure;
  for (int tries = 0;; tries++) {
    mp_postgres_connection *connection;
    mp_postgres_take(store, until, &connection, &failure);
    if (connection != NULL) {
      moonpad_status status = ask_for_commit(connection, once, is_done);
      failure = connection->failure;
      mp_postgres_give_back(connection);
      if (status == MOONPAD_OK) return true;
    }
    if (!mp_postgres_try_again(store, &failure, tries, until)) break;
  }
  char reason[300];
  strncpy(reason, failure.error.message, sizeof reason - 1);
  reason[sizeof reason - 1] = '\0';
  once->failure.again = MP_PG_NEVER;
  once->failure.status =
      mp_fail(once->error, MOONPAD_STORAGE, "it may have been stored: the answer was lost (%s)", reason);
  return false;
}

/* ---- the whole ---- */

static moonpad_status try_until(attempt *once, mp_postgres *store) {
  double until = mp_monotonic() + (once->is_hurried ? 0 : store->patience);
  for (int tries = 0;; tries++) {
    bool is_done = false;
    moonpad_status status = run_once(once, store, until);
    if (once->failure.status == MOONPAD_OK) return status;
    if (once->is_unknown && !find_out(once, store, until, &is_done)) return once->failure.status;
    if (is_done) {
      if (once->error != NULL) *once->error = (moonpad_error){MOONPAD_OK, ""};
      return MOONPAD_OK;
    }
    if (once->failure.again == MP_PG_SNAPSHOT) {
      once->is_snapshot = true;
      continue;
    }
    if (!mp_postgres_try_again(store, &once->failure, tries, until)) return once->failure.status;
  }
}

static moonpad_status run_call(attempt *once, mp_postgres *store) {
  moonpad_status status = mp_pool_enter(&store->pool, once->error);
  if (status != MOONPAD_OK) return status;
  status = try_until(once, store);
  mp_pool_leave(&store->pool);
  return status;
}

moonpad_status mp_postgres_write(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  attempt once = {.function = function, .context = context, .error = error, .is_write = true};
  return run_call(&once, (mp_postgres *)store);
}

moonpad_status mp_postgres_write_in_a_hurry(mp_store *store, mp_tx_function function, void *context,
                                            moonpad_error *error) {
  attempt once = {.function = function, .context = context, .error = error, .is_write = true, .is_hurried = true};
  return run_call(&once, (mp_postgres *)store);
}

moonpad_status mp_postgres_read(mp_store *store, mp_tx_function function, void *context, moonpad_error *error) {
  attempt once = {.function = function, .context = context, .error = error};
  return run_call(&once, (mp_postgres *)store);
}
