/* One transaction: begin, commit, roll back; and what became of a COMMIT whose answer was lost. */
#include "base/error.h"
#include "store/mysql/mysql.h"

static const mp_tx_ops tx_ops = {
    .size = sizeof tx_ops,
    .look = mp_mysql_look,
    .each_listed = mp_mysql_each_listed,
    .each_event = mp_mysql_each_event,
    .find_invocation = mp_mysql_find_invocation,
    .each_base_key = mp_mysql_each_base_key,
    .create_session = mp_mysql_create_session,
    .remove_session = mp_mysql_remove_session,
    .remove_user = mp_mysql_remove_user,
    .apply = mp_mysql_apply,
    .copy_history = mp_mysql_copy_history,
    .trim = mp_mysql_trim,
    .purge = mp_mysql_purge,
    .touch = mp_mysql_touch,
    .sweep = mp_mysql_sweep,
    .claim_token = mp_mysql_claim_token,
    .each_app = mp_mysql_each_app,
    .each_user = mp_mysql_each_user,
};

/* ---- around what is written ---- */

/*
** A node of Galera gives up a transaction when another node has committed a change of the same rows
** first. If that happens between two statements of one text, MariaDB 10.11 may not say so: with
** autocommit it goes on without a transaction, and answers COMMIT as if all had been stored. So
** there is no autocommit there (connect.c), and a savepoint that is gone tells it.
*/
void mp_mysql_add_begin(mp_mysql_connection *connection) {
  mp_mysql_add(connection, "START TRANSACTION");
  if (connection->is_galera) mp_mysql_add(connection, "SAVEPOINT moonpad");
}

moonpad_status mp_mysql_commit(mp_mysql_connection *connection, moonpad_error *error) {
  if (connection->is_galera) {
    mp_mysql_begin_guard(connection);
    mp_mysql_sql(connection, "RELEASE SAVEPOINT moonpad");
  }
  mp_mysql_add(connection, "COMMIT");
  connection->is_open = true;
  moonpad_status status = mp_mysql_round_trip(connection, error);
  if (status == MOONPAD_OK) connection->is_open = false;
  mp_mysql_roll_back(connection);
  return status;
}

/* ---- before a question or a write ---- */

static void begin(mp_mysql_tx *tx) {
  if (tx->begun) return;
  tx->begun = true;
  if (tx->is_write) {
    mp_mysql_add_begin(tx->connection);
  } else {
    mp_mysql_add(tx->connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    mp_mysql_add(tx->connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
  }
}

static moonpad_status failed(mp_mysql_connection *connection, moonpad_error *error) {
  const mp_remote_failure *failure = &connection->base.failure;
  if (failure->status != MOONPAD_OK && error != NULL) *error = failure->error;
  return failure->status;
}

moonpad_status mp_mysql_before_question(mp_mysql_tx *tx, moonpad_error *error) {
  mp_mysql_connection *connection = tx->connection;
  if (!tx->is_write && !tx->is_snapshot && tx->begun) {
    moonpad_error reason;
    moonpad_status status = mp_fail(&reason, MOONPAD_BUSY, "a second question");
    if (connection->base.failure.status == MOONPAD_OK) {
      mp_remote_note(&connection->base, status, MP_AGAIN_SNAPSHOT, "", &reason);
    }
  }
  begin(tx);
  return failed(connection, error);
}

moonpad_status mp_mysql_before_write(mp_mysql_tx *tx, moonpad_error *error) {
  tx->wrote = true;
  begin(tx);
  return failed(tx->connection, error);
}

moonpad_status mp_mysql_ask(mp_mysql_tx *tx, moonpad_error *error) {
  mp_mysql_connection *connection = tx->connection;
  bool is_whole = !tx->is_write && !tx->is_snapshot;
  if (is_whole) mp_mysql_add(connection, "COMMIT");
  connection->is_open = true;
  moonpad_status status = mp_mysql_round_trip(connection, error);
  if (is_whole && status == MOONPAD_OK) connection->is_open = false;
  return status;
}

/* ---- the end ---- */

static moonpad_status commit(mp_mysql_tx *tx, bool *sent, moonpad_error *error) {
  mp_mysql_connection *connection = tx->connection;
  if (!tx->begun) return MOONPAD_OK;
  if (tx->wrote) {
    mp_mysql_begin_call(connection, NULL, NULL);
    mp_mysql_sql(connection, "CALL #note_commit_1(");
    mp_mysql_integer(connection, connection->base.slot);
    mp_mysql_sql(connection, ",");
    mp_mysql_integer(connection, ++connection->base.number);
    mp_mysql_sql(connection, ")");
  }
  *sent = tx->wrote;
  return mp_mysql_commit(connection, error);
}

void mp_mysql_roll_back(mp_mysql_connection *connection) {
  mp_mysql_forget(connection);
  if (!connection->is_open || mp_remote_is_broken(&connection->base)) return;
  mp_remote_failure failure = connection->base.failure;
  mp_remote_clear_failure(&connection->base);
  mp_mysql_add(connection, "ROLLBACK");
  /* If it is still open, only without the connection it ends. */
  if (mp_mysql_round_trip(connection, NULL) != MOONPAD_OK) connection->base.must_close = true;
  connection->is_open = false;
  if (!mp_remote_is_broken(&connection->base)) connection->base.failure = failure;
}

/* ---- of mp_remote_ops ---- */

moonpad_status mp_mysql_run(mp_remote_connection *base, mp_remote_attempt *once, bool *sent) {
  mp_mysql_connection *connection = (mp_mysql_connection *)base;
  mp_mysql_tx tx = {.tx = {&tx_ops},
                    .connection = connection,
                    .env = connection->store->remote.env,
                    .is_write = once->is_write,
                    .is_snapshot = once->is_snapshot};
  moonpad_status status = once->function(&tx.tx, once->context, once->error);
  bool succeeds = status == MOONPAD_OK && base->failure.status == MOONPAD_OK;
  if (succeeds && once->is_write) status = commit(&tx, sent, once->error);
  mp_mysql_roll_back(connection);
  return status;
}

static moonpad_status take_answer(void *context, const mp_mysql_row *row, moonpad_error *error) {
  (void)error;
  *(bool *)context = mp_mysql_integer_of(row, 0) != 0;
  return MOONPAD_OK;
}

moonpad_status mp_mysql_find_commit(mp_remote_connection *base, const mp_remote_attempt *once, bool *is_done) {
  mp_mysql_connection *connection = (mp_mysql_connection *)base;
  mp_mysql_add_begin(connection);
  mp_mysql_begin_call(connection, take_answer, is_done);
  mp_mysql_sql(connection, "CALL #find_commit_1(");
  mp_mysql_integer(connection, once->slot);
  mp_mysql_sql(connection, ",");
  mp_mysql_integer(connection, once->number);
  mp_mysql_sql(connection, ")");
  return mp_mysql_commit(connection, NULL);
}
