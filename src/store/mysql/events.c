/* Walks over events and the base state. */
#include "base/error.h"
#include "store/mysql/mysql.h"
#include "store/stored.h"

typedef struct event_walk {
  mp_mysql_connection *connection;
  const mp_event_query *query;
  mp_each_event each;
  mp_each_state each_state; /* of the base state, instead of events */
  void *context;
  moonpad_status status; /* of a callback */
  moonpad_error error;
} event_walk;

moonpad_status mp_mysql_check_event(mp_mysql_connection *connection, moonpad_string *json, moonpad_error *error) {
  moonpad_status status = mp_stored_event(connection->store->remote.env, &connection->scratch, json);
  if (status == MOONPAD_NO_MEMORY) return mp_no_memory(error);
  return status == MOONPAD_OK ? status : mp_mysql_corrupt(connection, "an event is not a JSON object", error);
}

/* ---- events ---- */

/* Columns of a walk's statement. */
enum { REVISION, TIMESTAMP, ID, DIGEST, EVENT, KINDS, INVOCATION };

static moonpad_status emit_event(event_walk *self, const mp_mysql_row *row) {
  const mp_event_query *query = self->query;
  mp_event_row event = {.revision = mp_mysql_integer_of(row, REVISION),
                        .timestamp = mp_mysql_double_of(row, TIMESTAMP),
                        .id = mp_mysql_bytes_of(row, ID),
                        .digest = (uint64_t)mp_mysql_integer_of(row, DIGEST)};
  if (query->tags || query->kinds != 0) event.kinds = (unsigned)mp_mysql_integer_of(row, KINDS);
  if (query->tags) event.invocation = mp_mysql_bytes_of(row, INVOCATION);
  if (!query->without_json) {
    event.json = mp_mysql_bytes_of(row, EVENT);
    moonpad_status status = mp_mysql_check_event(self->connection, &event.json, &self->error);
    if (status != MOONPAD_OK) return status;
  }
  return self->each(self->context, &event, &self->error);
}

static moonpad_status take_event(void *context, const mp_mysql_row *row, moonpad_error *error) {
  event_walk *self = context;
  (void)error;
  if (self->status == MOONPAD_OK) self->status = emit_event(self, row);
  return MOONPAD_OK;
}

static void add_events(event_walk *self, int64_t session) {
  mp_mysql_connection *connection = self->connection;
  const mp_event_query *query = self->query;
  mp_mysql_begin(connection, take_event, self);
  mp_mysql_sql(connection, "SELECT revision, timestamp, id, digest, ");
  mp_mysql_sql(connection, query->without_json ? "NULL" : "event");
  mp_mysql_sql(connection, query->tags ? ", kinds, COALESCE(invocation, '')" : ", kinds");
  mp_mysql_sql_integer(connection, " FROM #events WHERE session = ", session);
  mp_mysql_sql_integer(connection, " AND revision >= ", query->first);
  mp_mysql_sql_integer(connection, " AND revision <= ", query->last);
  if (query->kinds != 0) {
    mp_mysql_sql_integer(connection, " AND (kinds & ", (int64_t)query->kinds);
    mp_mysql_sql(connection, ") <> 0");
  }
  if (query->id.data != NULL) {
    mp_mysql_sql(connection, " AND id = ");
    mp_mysql_bytes(connection, query->id);
  }
  mp_mysql_sql(connection, query->newest_first ? " ORDER BY revision DESC" : " ORDER BY revision");
}

moonpad_status mp_mysql_each_event(mp_tx *base, const mp_session_ref *session, const mp_event_query *query,
                                   mp_each_event each, void *context, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  event_walk self = {.connection = tx->connection, .query = query, .each = each, .context = context};
  moonpad_status status = mp_mysql_before_question(tx, error);
  if (status != MOONPAD_OK) return status;
  add_events(&self, session->session);
  return mp_mysql_finish_walk(tx, &self.status, &self.error, error);
}

/* ---- an invocation ---- */

static moonpad_status take_revision(void *context, const mp_mysql_row *row, moonpad_error *error) {
  (void)error;
  *(int64_t *)context = mp_mysql_integer_of(row, 0);
  return MOONPAD_OK;
}

moonpad_status mp_mysql_find_invocation(mp_tx *base, const mp_session_ref *session, moonpad_string invocation,
                                        int64_t *revision, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  mp_mysql_connection *connection = tx->connection;
  int64_t found = -1;
  moonpad_status status = mp_mysql_before_question(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin(connection, take_revision, &found);
  mp_mysql_sql_integer(connection, "SELECT revision FROM #events WHERE session = ", session->session);
  mp_mysql_sql(connection, " AND invocation = ");
  mp_mysql_bytes(connection, invocation);
  mp_mysql_sql(connection, " ORDER BY revision LIMIT 1");
  status = mp_mysql_ask(tx, error);
  if (status != MOONPAD_OK) return status;
  if (found < 0) return MOONPAD_NOT_FOUND;
  *revision = found;
  return MOONPAD_OK;
}

/* ---- the base state ---- */

static moonpad_status take_base_key(void *context, const mp_mysql_row *row, moonpad_error *error) {
  event_walk *self = context;
  mp_state_row found;
  (void)error;
  if (self->status != MOONPAD_OK) return MOONPAD_OK;
  self->status = mp_mysql_read_state(self->connection, row, &found, &self->error);
  if (self->status == MOONPAD_OK) self->status = self->each_state(self->context, &found, &self->error);
  mp_value_release(self->connection->store->remote.env, found.value);
  return MOONPAD_OK;
}

moonpad_status mp_mysql_each_base_key(mp_tx *base, const mp_session_ref *session, mp_each_state each, void *context,
                                      moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  event_walk self = {.connection = tx->connection, .each_state = each, .context = context};
  moonpad_status status = mp_mysql_before_question(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin(self.connection, take_base_key, &self);
  mp_mysql_sql_integer(self.connection,
                       "SELECT 0, `key`, value, 0 FROM #base_state WHERE session = ", session->session);
  return mp_mysql_finish_walk(tx, &self.status, &self.error, error);
}
