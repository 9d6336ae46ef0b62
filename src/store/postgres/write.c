/* Applies batches; makes and removes sessions and users; copies histories. */
#include "base/error.h"
#include "store/postgres/postgres.h"

/* ---- making ---- */

moonpad_status mp_postgres_make_shared(mp_postgres_tx *tx, const moonpad_session_name *name, moonpad_error *error) {
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_text(&parameters, name->app_name);
  moonpad_status status = mp_postgres_send(tx->connection, MP_PG_CREATE_APP, &parameters, NULL, NULL, error);
  if (status != MOONPAD_OK || name->user_id.data == NULL) return status;
  mp_postgres_add_text(&parameters, name->user_id);
  return mp_postgres_send(tx->connection, MP_PG_CREATE_USER, &parameters, NULL, NULL, error);
}

static moonpad_status take_is_there(void *context, const PGresult *rows, moonpad_error *error) {
  (void)error;
  *(bool *)context = PQntuples(rows) > 0;
  return MOONPAD_OK;
}

typedef struct creation {
  mp_session_row *row;
  bool is_made;
} creation;

static moonpad_status take_creation(void *context, const PGresult *rows, moonpad_error *error) {
  creation *made = context;
  (void)error;
  made->is_made = PQntuples(rows) > 0;
  if (!made->is_made) return MOONPAD_OK;
  made->row->id = mp_postgres_integer(rows, 0, 0);
  made->row->user = mp_postgres_integer(rows, 0, 1);
  made->row->app = mp_postgres_integer(rows, 0, 2);
  made->row->user_revision = mp_postgres_integer(rows, 0, 3);
  made->row->app_revision = mp_postgres_integer(rows, 0, 4);
  return MOONPAD_OK;
}

/* Somebody deletes the user at this very moment. */
static moonpad_status user_is_gone(mp_postgres_connection *connection, moonpad_error *error) {
  moonpad_error reason;
  moonpad_status status =
      mp_fail(&reason, MOONPAD_BUSY, "%s: the user was deleted at the same time", connection->store->remote.place);
  mp_postgres_note(connection, status, &reason);
  connection->base.failure.again = MP_AGAIN_CALL;
  if (error != NULL) *error = reason;
  return status;
}

moonpad_status mp_postgres_create_session(mp_tx *base, const moonpad_session_name *name, double create_time,
                                          mp_session_row *row, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  creation made = {row, false};
  bool has_user = false;
  *row = (mp_session_row){.create_time = create_time, .last_update_time = create_time};
  moonpad_status status = mp_postgres_before_write(tx, error);
  if (status == MOONPAD_OK) status = mp_postgres_make_shared(tx, name, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_text(&parameters, name->app_name);
  mp_postgres_add_text(&parameters, name->user_id);
  if (status == MOONPAD_OK) {
    status = mp_postgres_send(tx->connection, MP_PG_LOCK_USER_AND_APP, &parameters, take_is_there, &has_user, error);
  }
  mp_postgres_add_text(&parameters, name->session_id);
  mp_postgres_add_double(&parameters, create_time);
  if (status == MOONPAD_OK) {
    status = mp_postgres_send(tx->connection, MP_PG_CREATE_SESSION, &parameters, take_creation, &made, error);
  }
  if (status == MOONPAD_OK) status = mp_postgres_round_trip(tx->connection, error);
  if (status != MOONPAD_OK || made.is_made) return status;
  return has_user ? MOONPAD_ALREADY_EXISTS : user_is_gone(tx->connection, error);
}

/* ---- removing ---- */

moonpad_status mp_postgres_remove_session(mp_tx *base, const mp_session_ref *session, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  moonpad_status status = mp_postgres_before_write(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_integer(&parameters, session->session);
  return status == MOONPAD_OK ? mp_postgres_send(tx->connection, MP_PG_REMOVE_SESSION, &parameters, NULL, NULL, error)
                              : status;
}

static moonpad_status take_count(void *context, const PGresult *rows, moonpad_error *error) {
  (void)error;
  bool is_found = PQntuples(rows) > 0 && !mp_postgres_is_null(rows, 0, 0);
  *(int64_t *)context = is_found ? mp_postgres_integer(rows, 0, 0) : -1;
  return MOONPAD_OK;
}

moonpad_status mp_postgres_remove_user(mp_tx *base, const mp_session_ref *user, int64_t *sessions,
                                       moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  int64_t removed = -1;
  *sessions = 0;
  moonpad_status status = mp_postgres_before_write(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_text(&parameters, user->name.app_name);
  mp_postgres_add_text(&parameters, user->name.user_id);
  if (status == MOONPAD_OK) {
    status = mp_postgres_send(tx->connection, MP_PG_REMOVE_USER, &parameters, take_count, &removed, error);
  }
  if (status == MOONPAD_OK) status = mp_postgres_round_trip(tx->connection, error);
  if (status != MOONPAD_OK) return status;
  if (removed < 0) return MOONPAD_NOT_FOUND;
  *sessions = removed;
  return MOONPAD_OK;
}

/* ---- apply ---- */

static moonpad_status write_keys(mp_postgres_connection *connection, const mp_batch *batch, moonpad_error *error) {
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, connection);
  mp_postgres_add_integer(&parameters, batch->row->id);
  mp_postgres_add_integer(&parameters, batch->row->user);
  mp_postgres_add_integer(&parameters, batch->row->app);
  mp_postgres_begin_array(&parameters, MP_PG_INT4);
  for (size_t i = 0; i < batch->key_count; i++) mp_postgres_item_small(&parameters, (int)batch->keys[i].scope);
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_BYTEA);
  for (size_t i = 0; i < batch->key_count; i++) mp_postgres_item_bytes(&parameters, batch->keys[i].key);
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_TEXT);
  for (size_t i = 0; i < batch->key_count; i++) mp_postgres_item_value(&parameters, batch->keys[i].value);
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_INT8);
  for (size_t i = 0; i < batch->key_count; i++) mp_postgres_item_integer(&parameters, batch->keys[i].revision);
  mp_postgres_end_array(&parameters);
  return mp_postgres_send(connection, MP_PG_WRITE_KEYS, &parameters, NULL, NULL, error);
}

/* First the keys that are removed go, then those with a value are written. */
static moonpad_status write_base_keys(mp_postgres_connection *connection, const mp_batch *batch, bool removes,
                                      moonpad_error *error) {
  mp_postgres_parameters parameters;
  size_t count = 0;
  mp_postgres_parameters_init(&parameters, connection);
  mp_postgres_add_integer(&parameters, batch->row->id);
  mp_postgres_begin_array(&parameters, MP_PG_BYTEA);
  for (size_t i = 0; i < batch->base_key_count; i++) {
    if (removes && batch->base_keys[i].value != NULL) continue;
    mp_postgres_item_bytes(&parameters, batch->base_keys[i].key);
    count++;
  }
  mp_postgres_end_array(&parameters);
  if (count == 0) return MOONPAD_OK;
  if (removes) return mp_postgres_send(connection, MP_PG_REMOVE_BASE_KEYS, &parameters, NULL, NULL, error);
  mp_postgres_begin_array(&parameters, MP_PG_TEXT);
  for (size_t i = 0; i < batch->base_key_count; i++) {
    mp_postgres_item_value(&parameters, batch->base_keys[i].value);
  }
  mp_postgres_end_array(&parameters);
  return mp_postgres_send(connection, MP_PG_WRITE_BASE_KEYS, &parameters, NULL, NULL, error);
}

static moonpad_status append_events(mp_postgres_connection *connection, int64_t session, const mp_event_row *events,
                                    size_t count, moonpad_error *error) {
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, connection);
  mp_postgres_add_integer(&parameters, session);
  mp_postgres_begin_array(&parameters, MP_PG_INT8);
  for (size_t i = 0; i < count; i++) mp_postgres_item_integer(&parameters, events[i].revision);
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_BYTEA);
  for (size_t i = 0; i < count; i++) mp_postgres_item_bytes(&parameters, events[i].id);
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_FLOAT8);
  for (size_t i = 0; i < count; i++) mp_postgres_item_double(&parameters, events[i].timestamp);
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_INT8);
  for (size_t i = 0; i < count; i++) mp_postgres_item_integer(&parameters, (int64_t)events[i].digest);
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_INT4);
  for (size_t i = 0; i < count; i++) mp_postgres_item_small(&parameters, (int)events[i].kinds);
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_TEXT);
  for (size_t i = 0; i < count; i++) {
    bool has_one = events[i].invocation.length > 0;
    if (has_one) mp_postgres_item_bytes(&parameters, events[i].invocation);
    if (!has_one) mp_postgres_item_null(&parameters);
  }
  mp_postgres_end_array(&parameters);
  mp_postgres_begin_array(&parameters, MP_PG_TEXT);
  for (size_t i = 0; i < count; i++) mp_postgres_item_bytes(&parameters, events[i].json);
  mp_postgres_end_array(&parameters);
  return mp_postgres_send(connection, MP_PG_APPEND_EVENTS, &parameters, NULL, NULL, error);
}

/* A statement takes so many events, or bytes of them: it is held in memory, here and there. */
#define EVENTS_PER_STATEMENT 1000
#define BYTES_PER_STATEMENT  ((size_t)4 << 20)

static moonpad_status append_all_events(mp_postgres_connection *connection, const mp_batch *batch,
                                        moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t first = 0; status == MOONPAD_OK && first < batch->event_count;) {
    size_t count = 0, bytes = 0;
    while (first + count < batch->event_count && count < EVENTS_PER_STATEMENT && bytes < BYTES_PER_STATEMENT) {
      bytes += batch->events[first + count++].json.length;
    }
    status = append_events(connection, batch->row->id, batch->events + first, count, error);
    first += count;
  }
  return status;
}

static moonpad_status update_session(mp_postgres_connection *connection, const mp_batch *batch, moonpad_error *error) {
  const mp_session_row *row = batch->row;
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, connection);
  mp_postgres_add_integer(&parameters, row->id);
  mp_postgres_add_integer(&parameters, row->revision);
  mp_postgres_add_integer(&parameters, row->base_revision);
  mp_postgres_add_integer(&parameters, row->conversation_count);
  mp_postgres_add_double(&parameters, row->last_update_time);
  mp_postgres_add_double(&parameters, batch->touched);
  return mp_postgres_send(connection, MP_PG_UPDATE_SESSION, &parameters, NULL, NULL, error);
}

static moonpad_status update_shared(mp_postgres_connection *connection, const mp_batch *batch, bool is_user,
                                    moonpad_error *error) {
  const mp_session_row *row = batch->row;
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, connection);
  mp_postgres_add_integer(&parameters, is_user ? row->user : row->app);
  mp_postgres_add_integer(&parameters, is_user ? row->user_revision : row->app_revision);
  mp_postgres_add_double(&parameters, batch->touched);
  return mp_postgres_send(connection, is_user ? MP_PG_UPDATE_USER : MP_PG_UPDATE_APP, &parameters, NULL, NULL, error);
}

moonpad_status mp_postgres_apply(mp_tx *base, const mp_batch *batch, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_connection *connection = tx->connection;
  moonpad_status status = mp_remote_check_revisions(batch, error);
  if (status == MOONPAD_OK) status = mp_postgres_before_write(tx, error);
  if (status == MOONPAD_OK && batch->key_count > 0) status = write_keys(connection, batch, error);
  if (status == MOONPAD_OK && batch->base_key_count > 0) {
    status = write_base_keys(connection, batch, true, error);
    if (status == MOONPAD_OK) status = write_base_keys(connection, batch, false, error);
  }
  if (status == MOONPAD_OK) status = append_all_events(connection, batch, error);
  if (status == MOONPAD_OK && (batch->heads & MP_HEAD(MP_SCOPE_SESSION)) != 0) {
    status = update_session(connection, batch, error);
  }
  if (status == MOONPAD_OK && (batch->heads & MP_HEAD(MP_SCOPE_USER)) != 0) {
    status = update_shared(connection, batch, true, error);
  }
  if (status == MOONPAD_OK && (batch->heads & MP_HEAD(MP_SCOPE_APP)) != 0) {
    status = update_shared(connection, batch, false, error);
  }
  return status;
}

/* ---- copying ---- */

moonpad_status mp_postgres_copy_history(mp_tx *base, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                        moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  mp_postgres_parameters parameters;
  moonpad_status status = mp_postgres_before_write(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_integer(&parameters, from->session);
  mp_postgres_add_integer(&parameters, to->session);
  if (status == MOONPAD_OK) {
    status = mp_postgres_send(tx->connection, MP_PG_COPY_BASE_STATE, &parameters, NULL, NULL, error);
  }
  mp_postgres_add_integer(&parameters, last);
  return status == MOONPAD_OK ? mp_postgres_send(tx->connection, MP_PG_COPY_EVENTS, &parameters, NULL, NULL, error)
                              : status;
}
