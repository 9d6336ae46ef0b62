/*
** Sends statements and receives their answers. libpq is in pipeline mode all the time: what is sent
** is buffered, and the answers come in the same order. Its calls never block; this file waits, and
** gives up a server that says nothing for too long.
*/
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/platform.h"
#include "store/postgres/postgres.h"

/* ---- waiting ---- */

/* 1: ready, 0: the time is over, -1: the descriptor cannot be waited for. */
static int wait_for(PGconn *pg, bool to_write, double until) {
  struct pollfd fd = {PQsocket(pg), POLLIN | (to_write ? POLLOUT : 0), 0};
  for (;;) {
    double left = ceil((until - mp_monotonic()) * 1000);
    int ready = poll(&fd, 1, left < 0 ? 0 : left > 60000 ? 60000 : (int)left);
    if (ready > 0) return 1;
    if (ready < 0 && errno != EINTR) return -1;
    if (mp_monotonic() >= until) return 0;
  }
}

static moonpad_status silent(mp_postgres_connection *connection, moonpad_error *error) {
  char what[64];
  snprintf(what, sizeof what, "it has said nothing for %.0f s", connection->store->remote.silence);
  return mp_postgres_lost(connection, what, error);
}

/* Until PQgetResult does not block. What is still to be sent goes out meanwhile. */
static moonpad_status wait_for_answer(mp_postgres_connection *connection, moonpad_error *error) {
  PGconn *pg = connection->pg;
  double until = mp_monotonic() + connection->store->remote.silence;
  for (;;) {
    int left = PQflush(pg);
    if (left < 0) return mp_postgres_lost(connection, NULL, error);
    if (left == 0 && !PQisBusy(pg)) return MOONPAD_OK;
    int ready = wait_for(pg, left == 1, until);
    if (ready == 0) return silent(connection, error);
    if (ready < 0 || PQconsumeInput(pg) == 0) return mp_postgres_lost(connection, NULL, error);
    until = mp_monotonic() + connection->store->remote.silence;
  }
}

/* ---- texts ---- */

moonpad_status mp_postgres_ask_text(mp_postgres_connection *connection, const char *sql, char **value,
                                    moonpad_error *error) {
  if (PQsendQuery(connection->pg, sql) != 1) return mp_postgres_lost(connection, NULL, error);
  for (;;) {
    moonpad_status status = wait_for_answer(connection, error);
    if (status != MOONPAD_OK) return status;
    PGresult *result = PQgetResult(connection->pg);
    if (result == NULL) break;
    ExecStatusType found = PQresultStatus(result);
    if (found == PGRES_FATAL_ERROR || found == PGRES_BAD_RESPONSE) mp_postgres_fail(connection, result, NULL);
    if (found == PGRES_TUPLES_OK && value != NULL && *value == NULL && PQntuples(result) > 0) {
      *value = strdup(PQgetvalue(result, 0, 0));
      moonpad_error reason;
      if (*value == NULL) mp_postgres_note(connection, mp_no_memory(&reason), &reason);
    }
    PQclear(result);
  }
  if (connection->base.failure.status != MOONPAD_OK && error != NULL) *error = connection->base.failure.error;
  return connection->base.failure.status;
}

moonpad_status mp_postgres_run_text(mp_postgres_connection *connection, const char *sql, moonpad_error *error) {
  return mp_postgres_ask_text(connection, sql, NULL, error);
}

/* ---- sending ---- */

static mp_postgres_pending *pending_at(mp_postgres_connection *connection, size_t index) {
  return &connection->pending[connection->pending_first + index];
}

/* Behind each there is room for a sync, which therefore never fails for want of memory. */
static bool push(mp_postgres_connection *connection, mp_postgres_pending pending) {
  if (connection->pending_count == 0) connection->pending_first = 0;
  size_t end = connection->pending_first + connection->pending_count;
  void *items = connection->pending;
  size_t needed = end + (pending.is_sync ? 1 : 2);
  if (!mp_reserve(connection->store->remote.env, &items, &connection->pending_capacity, sizeof pending, needed))
    return false;
  connection->pending = items;
  connection->pending[end] = pending;
  connection->pending_count++;
  return true;
}

static void name_of(int id, char name[16]) {
  snprintf(name, 16, "moonpad_%d", id);
}

static const char *text_of(const mp_postgres *store, int id) {
  return id < MP_PG_STATEMENTS ? mp_postgres_statements[id] : store->tables->statements[id - MP_PG_STATEMENTS];
}

static moonpad_status prepare(mp_postgres_connection *connection, int id, moonpad_error *error) {
  char name[16];
  name_of(id, name);
  if (!push(connection, (mp_postgres_pending){.id = id, .prepares = true})) return mp_no_memory(error);
  if (PQsendPrepare(connection->pg, name, text_of(connection->store, id), 0, NULL) != 1) {
    return mp_postgres_lost(connection, NULL, error);
  }
  connection->prepared[id] = true;
  return MOONPAD_OK;
}

static moonpad_status run_prepared(mp_postgres_connection *connection, int id, const mp_postgres_parameters *parameters,
                                   moonpad_error *error) {
  char name[16];
  const char *values[MP_PG_MOST_PARAMETERS];
  int count = parameters == NULL ? 0 : parameters->count;
  for (int i = 0; i < count; i++) {
    values[i] = parameters->values[i];
    if (parameters->is_array[i]) values[i] = connection->scratch.data + parameters->array_at[i];
  }
  name_of(id, name);
  int sent = PQsendQueryPrepared(connection->pg, name, count, values, count == 0 ? NULL : parameters->lengths,
                                 count == 0 ? NULL : parameters->formats, 1);
  return sent == 1 ? MOONPAD_OK : mp_postgres_lost(connection, NULL, error);
}

static moonpad_status check_parameters(const mp_postgres_parameters *parameters, const mp_postgres_connection *from,
                                       moonpad_error *error) {
  if (parameters == NULL) return MOONPAD_OK;
  if (from->scratch.failed) return mp_no_memory(error);
  if (!parameters->too_large) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_LIMIT, "%s: longer than PostgreSQL takes in one statement (about 1 GiB)",
                 from->store->remote.place);
}

/* A failure before anything of it was sent leaves the connection as it was. */
static moonpad_status send(mp_postgres_connection *connection, mp_postgres_pending pending,
                           const mp_postgres_parameters *parameters, moonpad_error *error) {
  moonpad_status status = connection->base.failure.status;
  if (status != MOONPAD_OK) {
    if (error != NULL) *error = connection->base.failure.error;
    return status;
  }
  moonpad_error reason = {MOONPAD_OK, ""};
  status = check_parameters(parameters, connection, &reason);
  if (status == MOONPAD_OK && !connection->prepared[pending.id]) status = prepare(connection, pending.id, &reason);
  if (status == MOONPAD_OK && !push(connection, pending)) status = mp_no_memory(&reason);
  if (status == MOONPAD_OK) status = run_prepared(connection, pending.id, parameters, &reason);
  if (status == MOONPAD_OK) return MOONPAD_OK;
  if (error != NULL) *error = reason;
  return mp_postgres_note(connection, status, &reason);
}

moonpad_status mp_postgres_send(mp_postgres_connection *connection, int id, const mp_postgres_parameters *parameters,
                                mp_postgres_rows rows, void *context, moonpad_error *error) {
  mp_postgres_pending pending = {.id = id, .rows = rows, .context = context};
  return send(connection, pending, parameters, error);
}

moonpad_status mp_postgres_send_by_row(mp_postgres_connection *connection, int id,
                                       const mp_postgres_parameters *parameters, mp_postgres_rows rows, void *context,
                                       moonpad_error *error) {
  mp_postgres_pending pending = {.id = id, .rows = rows, .context = context, .by_row = true};
  return send(connection, pending, parameters, error);
}

moonpad_status mp_postgres_send_sync(mp_postgres_connection *connection, moonpad_error *error) {
  if (mp_remote_is_broken(&connection->base)) {
    if (error != NULL) *error = connection->base.failure.error;
    return connection->base.failure.status;
  }
  if (!push(connection, (mp_postgres_pending){.is_sync = true})) return mp_no_memory(error);
  return PQpipelineSync(connection->pg) == 1 ? MOONPAD_OK : mp_postgres_lost(connection, NULL, error);
}

/* ---- receiving ---- */

static void take_result(mp_postgres_connection *connection, const mp_postgres_pending *pending,
                        const PGresult *result) {
  ExecStatusType status = PQresultStatus(result);
  bool has_rows = status == PGRES_TUPLES_OK || status == PGRES_SINGLE_TUPLE;
  if (has_rows || status == PGRES_COMMAND_OK) {
    if (!has_rows || pending->rows == NULL || connection->base.failure.status != MOONPAD_OK) return;
    moonpad_error reason = {MOONPAD_OK, ""};
    moonpad_status taken = pending->rows(pending->context, result, &reason);
    if (taken != MOONPAD_OK) mp_postgres_note(connection, taken, &reason);
    return;
  }
  if (pending->prepares) connection->prepared[pending->id] = false;
  if (status != PGRES_PIPELINE_ABORTED) mp_postgres_fail(connection, result, NULL);
}

/* All results of the first pending statement. */
static moonpad_status receive_one(mp_postgres_connection *connection, moonpad_error *error) {
  mp_postgres_pending pending = *pending_at(connection, 0);
  for (;;) {
    moonpad_status status = wait_for_answer(connection, error);
    if (status != MOONPAD_OK) return status;
    PGresult *result = PQgetResult(connection->pg);
    if (result == NULL) break;
    bool is_sync = PQresultStatus(result) == PGRES_PIPELINE_SYNC;
    if (!is_sync) take_result(connection, &pending, result);
    PQclear(result);
    if (is_sync || mp_remote_is_broken(&connection->base)) break;
  }
  connection->pending_first++;
  connection->pending_count--;
  return mp_remote_is_broken(&connection->base) ? connection->base.failure.status : MOONPAD_OK;
}

moonpad_status mp_postgres_receive_part(mp_postgres_connection *connection, moonpad_error *error) {
  bool is_sync = false;
  while (!is_sync && connection->pending_count > 0 && !mp_remote_is_broken(&connection->base)) {
    mp_postgres_pending *pending = pending_at(connection, 0);
    is_sync = pending->is_sync;
    if (pending->by_row) PQsetSingleRowMode(connection->pg);
    receive_one(connection, NULL);
  }
  if (connection->base.failure.status != MOONPAD_OK && error != NULL) *error = connection->base.failure.error;
  return connection->base.failure.status;
}

moonpad_status mp_postgres_receive(mp_postgres_connection *connection, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  do {
    status = mp_postgres_receive_part(connection, error);
  } while (connection->pending_count > 0 && !mp_remote_is_broken(&connection->base));
  mp_buffer_clear(&connection->scratch);
  return status;
}

moonpad_status mp_postgres_round_trip(mp_postgres_connection *connection, moonpad_error *error) {
  if (mp_postgres_send_sync(connection, error) != MOONPAD_OK) return connection->base.failure.status;
  return mp_postgres_receive(connection, error);
}

moonpad_status mp_postgres_finish_walk(mp_postgres_connection *connection, const moonpad_status *walked,
                                       const moonpad_error *reason, moonpad_error *error) {
  moonpad_status status = mp_postgres_round_trip(connection, error);
  if (status != MOONPAD_OK) return status;
  status = mp_walk_end(*walked);
  if (status != MOONPAD_OK && error != NULL) *error = *reason;
  return status;
}
