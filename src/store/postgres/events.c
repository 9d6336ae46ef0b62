/* Walks over events and the base state. */
#include "base/error.h"
#include "store/postgres/postgres.h"
#include "store/stored.h"

/* Columns of statements.c. */
enum { REVISION, TIMESTAMP, ID, DIGEST, EVENT, KINDS, INVOCATION };

typedef struct event_walk {
  mp_postgres_connection *connection;
  const mp_event_query *query;
  mp_each_event each;
  mp_each_state each_state; /* of the base state, instead of events */
  void *context;
  moonpad_status status; /* of a callback */
  moonpad_error error;
} event_walk;

moonpad_status mp_postgres_check_event(mp_postgres_connection *connection, moonpad_string *json, moonpad_error *error) {
  moonpad_status status = mp_stored_event(connection->store->remote.env, &connection->scratch, json);
  if (status == MOONPAD_NO_MEMORY) return mp_no_memory(error);
  return status == MOONPAD_OK ? status : mp_postgres_corrupt(connection, "an event is not a JSON object", error);
}

static moonpad_status emit_event(event_walk *self, const PGresult *rows, int row) {
  const mp_event_query *query = self->query;
  mp_event_row event = {.revision = mp_postgres_integer(rows, row, REVISION),
                        .timestamp = mp_postgres_double(rows, row, TIMESTAMP),
                        .id = mp_postgres_bytes(rows, row, ID),
                        .digest = (uint64_t)mp_postgres_integer(rows, row, DIGEST)};
  if (query->tags || query->kinds != 0) event.kinds = (unsigned)mp_postgres_integer(rows, row, KINDS);
  if (query->tags) event.invocation = mp_postgres_bytes(rows, row, INVOCATION);
  /* By id an event is found that may be none of those asked for. */
  if (event.revision < query->first || event.revision > query->last) return MOONPAD_OK;
  if (query->kinds != 0 && (query->kinds & event.kinds) == 0) return MOONPAD_OK;
  if (!query->without_json) {
    event.json = mp_postgres_bytes(rows, row, EVENT);
    moonpad_status status = mp_postgres_check_event(self->connection, &event.json, &self->error);
    if (status != MOONPAD_OK) return status;
  }
  return self->each(self->context, &event, &self->error);
}

static moonpad_status take_events(void *context, const PGresult *rows, moonpad_error *error) {
  event_walk *self = context;
  (void)error;
  for (int row = 0; self->status == MOONPAD_OK && row < PQntuples(rows); row++) {
    self->status = emit_event(self, rows, row);
  }
  return MOONPAD_OK;
}

static moonpad_status send_events(event_walk *self, int64_t session, moonpad_error *error) {
  const mp_event_query *query = self->query;
  mp_postgres_parameters parameters;
  bool by_id = query->id.data != NULL;
  mp_postgres_parameters_init(&parameters, self->connection);
  mp_postgres_add_integer(&parameters, session);
  if (by_id) {
    mp_postgres_add_bytes(&parameters, query->id);
    mp_postgres_add_null(&parameters);
  } else {
    mp_postgres_add_integer(&parameters, query->first);
    mp_postgres_add_integer(&parameters, query->last);
  }
  mp_postgres_add_boolean(&parameters, !query->without_json);
  if (by_id) {
    mp_postgres_add_null(&parameters);
  } else {
    mp_postgres_add_small(&parameters, (int)query->kinds);
  }
  mp_postgres_add_boolean(&parameters, query->tags);
  int id = by_id ? MP_PG_EVENT_BY_ID : query->newest_first ? MP_PG_EVENTS_NEWEST : MP_PG_EVENTS;
  return mp_postgres_send_by_row(self->connection, id, &parameters, take_events, self, error);
}

moonpad_status mp_postgres_each_event(mp_tx *base, const mp_session_ref *session, const mp_event_query *query,
                                      mp_each_event each, void *context, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  event_walk self = {.connection = tx->connection, .query = query, .each = each, .context = context};
  moonpad_status status = mp_postgres_before_question(tx, error);
  if (status == MOONPAD_OK) status = send_events(&self, session->session, error);
  return status == MOONPAD_OK ? mp_postgres_finish_walk(self.connection, &self.status, &self.error, error) : status;
}

/* ---- an invocation ---- */

static moonpad_status take_revision(void *context, const PGresult *rows, moonpad_error *error) {
  (void)error;
  if (PQntuples(rows) > 0) *(int64_t *)context = mp_postgres_integer(rows, 0, 0);
  return MOONPAD_OK;
}

moonpad_status mp_postgres_find_invocation(mp_tx *base, const mp_session_ref *session, moonpad_string invocation,
                                           int64_t *revision, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  int64_t found = -1;
  moonpad_status status = mp_postgres_before_question(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_integer(&parameters, session->session);
  mp_postgres_add_text(&parameters, invocation);
  if (status == MOONPAD_OK) {
    status = mp_postgres_send(tx->connection, MP_PG_FIND_INVOCATION, &parameters, take_revision, &found, error);
  }
  if (status == MOONPAD_OK) status = mp_postgres_round_trip(tx->connection, error);
  if (status != MOONPAD_OK) return status;
  if (found < 0) return MOONPAD_NOT_FOUND;
  *revision = found;
  return MOONPAD_OK;
}

/* ---- the base state ---- */

static moonpad_status emit_base_key(event_walk *self, const PGresult *rows, int row) {
  mp_state_row found;
  moonpad_status status = mp_postgres_read_state(self->connection, MP_SCOPE_SESSION, mp_postgres_bytes(rows, row, 0),
                                                 mp_postgres_bytes(rows, row, 1), 0, &found, &self->error);
  if (status == MOONPAD_OK) status = self->each_state(self->context, &found, &self->error);
  mp_value_release(self->connection->store->remote.env, found.value);
  return status;
}

static moonpad_status take_base_keys(void *context, const PGresult *rows, moonpad_error *error) {
  event_walk *self = context;
  (void)error;
  for (int row = 0; self->status == MOONPAD_OK && row < PQntuples(rows); row++) {
    self->status = emit_base_key(self, rows, row);
  }
  return MOONPAD_OK;
}

moonpad_status mp_postgres_each_base_key(mp_tx *base, const mp_session_ref *session, mp_each_state each, void *context,
                                         moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  event_walk self = {.connection = tx->connection, .each_state = each, .context = context};
  moonpad_status status = mp_postgres_before_question(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_integer(&parameters, session->session);
  if (status == MOONPAD_OK) {
    status = mp_postgres_send_by_row(tx->connection, MP_PG_BASE_KEYS, &parameters, take_base_keys, &self, error);
  }
  return status == MOONPAD_OK ? mp_postgres_finish_walk(self.connection, &self.status, &self.error, error) : status;
}
