/* One transaction on a connection: what it can be asked, begin, commit, roll back. */
#include "base/error.h"
#include "store/sqlite/sqlite.h"

static const mp_parts parts = {
    .find_session = mp_sqlite_find_session,
    .find_shared = mp_sqlite_find_shared,
    .insert_session = mp_sqlite_insert_session,
    .remove = mp_sqlite_remove,
    .update_heads = mp_sqlite_update_heads,
    .each_session = mp_sqlite_each_session,
    .read_key = mp_sqlite_read_key,
    .each_key = mp_sqlite_each_key,
    .write_key = mp_sqlite_write_key,
    .append_event = mp_sqlite_append_event,
    .each_event = mp_sqlite_each_event,
};

static const mp_tx_ops tx_ops = {
    .size = sizeof tx_ops,
    .look = mp_parts_look,
    .each_listed = mp_parts_each_listed,
    .each_event = mp_parts_each_event,
    .find_invocation = mp_sqlite_find_invocation,
    .each_base_key = mp_parts_each_base_key,
    .create_session = mp_parts_create_session,
    .remove_session = mp_parts_remove_session,
    .remove_user = mp_parts_remove_user,
    .apply = mp_parts_apply,
    .copy_history = mp_sqlite_copy_history,
    .trim = mp_sqlite_trim,
    .purge = mp_sqlite_purge,
    .touch = mp_sqlite_touch,
    .sweep = mp_sqlite_sweep,
    .claim_token = mp_sqlite_claim_token,
    .each_app = mp_sqlite_each_app,
    .each_user = mp_sqlite_each_user,
};

void mp_sqlite_roll_back(mp_sqlite_connection *connection) {
  if (!sqlite3_get_autocommit(connection->db)) mp_sqlite_run_id(connection, MP_SQL_ROLLBACK, NULL);
}

moonpad_status mp_sqlite_begin(mp_sqlite_connection *connection, mp_sqlite_statement_id how, moonpad_error *error) {
  connection->failure = MOONPAD_OK;
  connection->tx = (mp_parts_tx){{&tx_ops}, connection->store->env, &parts, connection};
  /*
  ** ROLLBACK is prepared first: when memory runs out later it could not be, and the transaction
  ** would stay open.
  */
  if (mp_sqlite_statement(connection, MP_SQL_ROLLBACK, error) == NULL) return connection->failure;
  moonpad_status status = mp_sqlite_run_id(connection, how, error);
  if (status == MOONPAD_OK && connection->cache != NULL) mp_sqlite_cache_begin(connection->cache, connection->db);
  if (status == MOONPAD_OK) status = mp_sqlite_check_version(connection, error);
  return status;
}

/* A transaction that writes checks the files again: what it writes has to be found later. */
moonpad_status mp_sqlite_commit(mp_sqlite_connection *connection, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  if (connection->cache != NULL) status = mp_sqlite_check_files(connection->store, error);
  if (status == MOONPAD_OK) status = mp_sqlite_run_id(connection, MP_SQL_COMMIT, error);
  if (status == MOONPAD_OK && connection->cache != NULL) mp_sqlite_cache_commit(connection->cache, connection->db);
  return status;
}

/* Statuses that follow from what was read. They mean nothing if the file is not there any more. */
static bool depends_on_reads(moonpad_status status) {
  return status == MOONPAD_NOT_FOUND || status == MOONPAD_ALREADY_EXISTS || status == MOONPAD_CONFLICT ||
         status == MOONPAD_INVALID_ARGUMENT || status == MOONPAD_LIMIT;
}

moonpad_status mp_sqlite_call(mp_sqlite_connection *connection, mp_tx_function function, void *context,
                              moonpad_error *error) {
  moonpad_status status = function(&connection->tx.tx, context, error);
  if (connection->cache != NULL && depends_on_reads(status)) {
    moonpad_status found = mp_sqlite_check_files(connection->store, error);
    return found == MOONPAD_OK ? status : found;
  }
  if (status == MOONPAD_OK && connection->failure != MOONPAD_OK) {
    return mp_fail(error, connection->failure, "%s: a part of the transaction failed", connection->path);
  }
  return status;
}

moonpad_status mp_sqlite_transact(mp_sqlite_connection *connection, mp_sqlite_statement_id how, mp_tx_function function,
                                  void *context, moonpad_error *error) {
  moonpad_status status = mp_sqlite_begin(connection, how, error);
  if (status == MOONPAD_OK) status = mp_sqlite_call(connection, function, context, error);
  if (status == MOONPAD_OK) status = mp_sqlite_commit(connection, error);
  if (status != MOONPAD_OK) mp_sqlite_roll_back(connection);
  return status;
}
