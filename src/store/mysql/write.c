/* Applies batches; makes and removes sessions and users; copies histories. */
#include "base/error.h"
#include "store/mysql/mysql.h"

/* ---- making ---- */

static moonpad_status take_creation(void *context, const mp_mysql_row *row, moonpad_error *error) {
  mp_session_row *made = context;
  (void)error;
  made->id = mp_mysql_integer_of(row, 0);
  made->user = mp_mysql_integer_of(row, 1);
  made->app = mp_mysql_integer_of(row, 2);
  made->user_revision = mp_mysql_integer_of(row, 3);
  made->app_revision = mp_mysql_integer_of(row, 4);
  return MOONPAD_OK;
}

moonpad_status mp_mysql_create_session(mp_tx *base, const moonpad_session_name *name, double create_time,
                                       mp_session_row *row, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  mp_mysql_connection *connection = tx->connection;
  *row = (mp_session_row){.create_time = create_time, .last_update_time = create_time};
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin_call(connection, take_creation, row);
  mp_mysql_sql(connection, "CALL #create_session_1(");
  mp_mysql_bytes(connection, name->app_name);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, name->user_id);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, name->session_id);
  mp_mysql_sql(connection, ",");
  mp_mysql_double(connection, create_time);
  mp_mysql_sql(connection, ")");
  status = mp_mysql_ask(tx, error);
  return status == MOONPAD_OK && row->id == 0 ? MOONPAD_ALREADY_EXISTS : status;
}

/* ---- removing ---- */

moonpad_status mp_mysql_remove_session(mp_tx *base, const mp_session_ref *session, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin_call(tx->connection, NULL, NULL);
  mp_mysql_sql_integer(tx->connection, "CALL #remove_session_1(", session->session);
  mp_mysql_sql(tx->connection, ")");
  return MOONPAD_OK;
}

static moonpad_status take_count(void *context, const mp_mysql_row *row, moonpad_error *error) {
  (void)error;
  *(int64_t *)context = mp_mysql_integer_of(row, 0);
  return MOONPAD_OK;
}

moonpad_status mp_mysql_remove_user(mp_tx *base, const mp_session_ref *user, int64_t *sessions, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  mp_mysql_connection *connection = tx->connection;
  int64_t removed = -1;
  *sessions = 0;
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin_call(connection, take_count, &removed);
  mp_mysql_sql(connection, "CALL #remove_user_1(");
  mp_mysql_bytes(connection, user->name.app_name);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, user->name.user_id);
  mp_mysql_sql(connection, ")");
  status = mp_mysql_ask(tx, error);
  if (status != MOONPAD_OK) return status;
  if (removed < 0) return MOONPAD_NOT_FOUND;
  *sessions = removed;
  return MOONPAD_OK;
}

/* ---- apply ---- */

/* A statement takes so many rows, or bytes of them: it is held in memory, here and there. */
#define ROWS_PER_STATEMENT  1000
#define BYTES_PER_STATEMENT ((size_t)1 << 20)

/* Rows of one INSERT: begins it, and ends it where it is long enough. */
typedef struct inserting {
  mp_mysql_connection *connection;
  const char *begin, *end;
  bool appends_events;
  size_t rows;
  size_t at; /* where it begins in the text */
} inserting;

static void next_row(inserting *self) {
  if (self->rows++ > 0) {
    mp_mysql_sql(self->connection, ",(");
    return;
  }
  self->at = self->connection->text.length;
  if (self->appends_events) {
    mp_mysql_begin_events(self->connection);
  } else {
    mp_mysql_begin(self->connection, NULL, NULL);
  }
  mp_mysql_sql(self->connection, self->begin);
  mp_mysql_sql(self->connection, "(");
}

static moonpad_status end_row(inserting *self, bool is_last, moonpad_error *error) {
  bool is_long = self->rows >= ROWS_PER_STATEMENT || self->connection->text.length - self->at >= BYTES_PER_STATEMENT;
  if (self->rows == 0 || (!is_last && !is_long)) return MOONPAD_OK;
  mp_mysql_sql(self->connection, self->end);
  self->rows = 0;
  return mp_mysql_send_some(self->connection, error);
}

#define LAST_COUNTS " ON DUPLICATE KEY UPDATE value = VALUES(value)"

static moonpad_status write_keys(mp_mysql_connection *connection, const mp_batch *batch, moonpad_error *error) {
  inserting keys = {connection, "INSERT INTO #state VALUES ", LAST_COUNTS ", revision = VALUES(revision)", false, 0, 0};
  const int64_t owners[] = {batch->row->id, batch->row->user, batch->row->app};
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < batch->key_count; i++) {
    const mp_state_row *key = &batch->keys[i];
    next_row(&keys);
    mp_mysql_integer(connection, (int64_t)key->scope);
    mp_mysql_sql_integer(connection, ",", owners[key->scope]);
    mp_mysql_sql(connection, ",");
    mp_mysql_bytes(connection, key->key);
    mp_mysql_sql(connection, ",");
    mp_mysql_value(connection, key->value);
    mp_mysql_sql_integer(connection, ",", key->revision);
    mp_mysql_sql(connection, ")");
    status = end_row(&keys, i + 1 == batch->key_count, error);
  }
  return status;
}

/* A key may come twice: the last time counts. */
static moonpad_status write_base_keys(mp_mysql_connection *connection, const mp_batch *batch, moonpad_error *error) {
  inserting keys = {connection, "INSERT INTO #base_state VALUES ", LAST_COUNTS, false, 0, 0};
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < batch->base_key_count; i++) {
    const mp_state_row *key = &batch->base_keys[i];
    if (key->value != NULL) {
      next_row(&keys);
      mp_mysql_integer(connection, batch->row->id);
      mp_mysql_sql(connection, ",");
      mp_mysql_bytes(connection, key->key);
      mp_mysql_sql(connection, ",");
      mp_mysql_value(connection, key->value);
      mp_mysql_sql(connection, ")");
    }
    bool is_last = i + 1 == batch->base_key_count || key->value == NULL;
    status = end_row(&keys, is_last, error);
    if (key->value != NULL || status != MOONPAD_OK) continue;
    mp_mysql_begin(connection, NULL, NULL);
    mp_mysql_sql_integer(connection, "DELETE FROM #base_state WHERE session = ", batch->row->id);
    mp_mysql_sql(connection, " AND `key` = ");
    mp_mysql_bytes(connection, key->key);
  }
  return status;
}

static moonpad_status append_events(mp_mysql_connection *connection, const mp_batch *batch, moonpad_error *error) {
  inserting events = {connection, "INSERT INTO #events VALUES ", "", true, 0, 0};
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < batch->event_count; i++) {
    const mp_event_row *event = &batch->events[i];
    next_row(&events);
    mp_mysql_integer(connection, batch->row->id);
    mp_mysql_sql_integer(connection, ",", event->revision);
    mp_mysql_sql(connection, ",");
    mp_mysql_event(connection, event);
    mp_mysql_sql(connection, ",");
    mp_mysql_bytes(connection, event->json);
    mp_mysql_sql(connection, ")");
    status = end_row(&events, i + 1 == batch->event_count, error);
  }
  return status;
}

static void add_touched(mp_mysql_connection *connection, double touched, int64_t id) {
  if (touched > 0) {
    mp_mysql_sql(connection, ", touched = GREATEST(touched, ");
    mp_mysql_double(connection, touched);
    mp_mysql_sql(connection, ")");
  }
  mp_mysql_sql_integer(connection, " WHERE id = ", id);
}

static void update_heads(mp_mysql_connection *connection, const mp_batch *batch) {
  const mp_session_row *row = batch->row;
  if ((batch->heads & MP_HEAD(MP_SCOPE_SESSION)) != 0) {
    mp_mysql_begin(connection, NULL, NULL);
    mp_mysql_sql_integer(connection, "UPDATE #sessions SET revision = ", row->revision);
    mp_mysql_sql_integer(connection, ", base_revision = ", row->base_revision);
    mp_mysql_sql_integer(connection, ", conversation_count = ", row->conversation_count);
    mp_mysql_sql(connection, ", last_update_time = ");
    mp_mysql_double(connection, row->last_update_time);
    add_touched(connection, batch->touched, row->id);
  }
  if ((batch->heads & MP_HEAD(MP_SCOPE_USER)) != 0) {
    mp_mysql_begin(connection, NULL, NULL);
    mp_mysql_sql_integer(connection, "UPDATE #users SET revision = ", row->user_revision);
    add_touched(connection, batch->touched, row->user);
  }
  if ((batch->heads & MP_HEAD(MP_SCOPE_APP)) != 0) {
    mp_mysql_begin(connection, NULL, NULL);
    mp_mysql_sql_integer(connection, "UPDATE #apps SET revision = ", row->app_revision);
    add_touched(connection, batch->touched, row->app);
  }
}

moonpad_status mp_mysql_apply(mp_tx *base, const mp_batch *batch, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  mp_mysql_connection *connection = tx->connection;
  moonpad_status status = mp_remote_check_revisions(batch, error);
  if (status == MOONPAD_OK) status = mp_mysql_before_write(tx, error);
  if (status == MOONPAD_OK) status = write_keys(connection, batch, error);
  if (status == MOONPAD_OK) status = write_base_keys(connection, batch, error);
  if (status == MOONPAD_OK) status = append_events(connection, batch, error);
  if (status == MOONPAD_OK) update_heads(connection, batch);
  return status;
}

/* ---- copying ---- */

moonpad_status mp_mysql_copy_history(mp_tx *base, const mp_session_ref *from, const mp_session_ref *to, int64_t last,
                                     moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  mp_mysql_connection *connection = tx->connection;
  moonpad_status status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql_integer(connection, "INSERT INTO #base_state SELECT ", to->session);
  mp_mysql_sql_integer(connection, ", `key`, value FROM #base_state WHERE session = ", from->session);
  mp_mysql_begin_events(connection);
  mp_mysql_sql_integer(connection, "INSERT INTO #events SELECT ", to->session);
  mp_mysql_sql_integer(
      connection,
      ", revision, id, timestamp, digest, kinds, invocation, event FROM #events WHERE session = ", from->session);
  mp_mysql_sql_integer(connection, " AND revision <= ", last);
  mp_mysql_sql(connection, " ORDER BY revision");
  return MOONPAD_OK;
}
