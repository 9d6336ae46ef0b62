/* Whole questions in one statement. */
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres.h"

/* Columns of statements.c. */
enum { KIND, SCOPE, REVISION, KEY, VALUE, DIGEST, TIMESTAMP, NUMBERS, TIMES };
enum { HEADS, CHANGED_KEY, WANTED_KEY, EVENT_BY_ID, RECENT_EVENT };

typedef struct looking {
  mp_postgres_connection *connection;
  mp_look *look;
  mp_facts *facts;
  bool is_found;
  moonpad_status status; /* of a callback */
  moonpad_error error;
} looking;

/* ---- the heads ---- */

bool mp_postgres_read_heads(const PGresult *rows, int row, int numbers, int times, mp_facts *facts) {
  int64_t n[11];
  double t[5];
  if (!mp_postgres_integers(rows, row, numbers, n, 11) || !mp_postgres_doubles(rows, row, times, t, 5)) return false;
  facts->row = (mp_session_row){.id = n[0],
                                .user = n[1],
                                .app = n[2],
                                .revision = n[3],
                                .base_revision = n[4],
                                .user_revision = n[5],
                                .app_revision = n[6],
                                .conversation_count = n[7],
                                .create_time = t[0],
                                .last_update_time = t[1]};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    facts->forgotten[scope] = n[8 + scope];
    facts->touched[scope] = t[2 + scope];
  }
  const mp_session_row *row_found = &facts->row;
  return row_found->base_revision >= 0 && row_found->base_revision <= row_found->revision &&
         row_found->user_revision >= 0 && row_found->app_revision >= 0;
}

static void note_whole(const mp_look *look, mp_facts *facts) {
  const int64_t revisions[] = {facts->row.revision, facts->row.user_revision, facts->row.app_revision};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((look->heads & MP_HEAD(scope)) == 0 || look->since[scope] >= revisions[scope]) continue;
    facts->whole[scope] = look->since[scope] < facts->forgotten[scope];
  }
}

/* ---- rows ---- */

static moonpad_status emit_key(looking *self, const PGresult *rows, int row) {
  mp_state_row found;
  moonpad_status status = mp_postgres_read_state(self->connection, (mp_scope)mp_postgres_integer(rows, row, SCOPE),
                                                 mp_postgres_bytes(rows, row, KEY), mp_postgres_bytes(rows, row, VALUE),
                                                 mp_postgres_integer(rows, row, REVISION), &found, &self->error);
  if (status == MOONPAD_OK) status = self->look->each_state(self->look->context, &found, &self->error);
  mp_value_release(self->connection->store->remote.env, found.value);
  return status;
}

static moonpad_status emit_keys(looking *self, const PGresult *rows, mp_scope scope) {
  moonpad_status status = MOONPAD_OK;
  for (int row = 0; status == MOONPAD_OK && row < PQntuples(rows); row++) {
    if (mp_postgres_integer(rows, row, KIND) != CHANGED_KEY || mp_postgres_integer(rows, row, SCOPE) != (int)scope)
      continue;
    status = emit_key(self, rows, row);
  }
  return status;
}

static moonpad_status take_wanted(looking *self, const PGresult *rows, int row) {
  int64_t number = mp_postgres_integer(rows, row, SCOPE);
  if (number < 1 || (uint64_t)number > self->look->key_count) return MOONPAD_OK;
  mp_state_row *wanted = &self->look->keys[number - 1], found;
  moonpad_status status =
      mp_postgres_read_state(self->connection, wanted->scope, wanted->key, mp_postgres_bytes(rows, row, VALUE),
                             mp_postgres_integer(rows, row, REVISION), &found, &self->error);
  if (status == MOONPAD_OK) *wanted = found;
  return status;
}

static moonpad_status emit_event(looking *self, const PGresult *rows, int row) {
  mp_event_row event = {.revision = mp_postgres_integer(rows, row, REVISION),
                        .timestamp = mp_postgres_double(rows, row, TIMESTAMP),
                        .id = mp_postgres_bytes(rows, row, KEY),
                        .json = mp_postgres_bytes(rows, row, VALUE),
                        .digest = (uint64_t)mp_postgres_integer(rows, row, DIGEST)};
  moonpad_status status = mp_postgres_check_event(self->connection, &event.json, &self->error);
  return status == MOONPAD_OK ? self->look->each_event(self->look->context, &event, &self->error) : status;
}

static moonpad_status take_each(looking *self, const PGresult *rows, int kind,
                                moonpad_status (*take)(looking *, const PGresult *, int)) {
  moonpad_status status = MOONPAD_OK;
  for (int row = 0; status == MOONPAD_OK && row < PQntuples(rows); row++) {
    if (mp_postgres_integer(rows, row, KIND) == kind) status = take(self, rows, row);
  }
  return status;
}

static moonpad_status take_answer(looking *self, const PGresult *rows) {
  static const mp_scope order[] = {MP_SCOPE_APP, MP_SCOPE_USER, MP_SCOPE_SESSION};
  self->is_found = PQntuples(rows) > 0 && mp_postgres_integer(rows, 0, KIND) == HEADS;
  if (!self->is_found) return MOONPAD_OK;
  if (!mp_postgres_read_heads(rows, 0, NUMBERS, TIMES, self->facts)) {
    return mp_postgres_corrupt(self->connection, "a revision is out of range", &self->error);
  }
  note_whole(self->look, self->facts);
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < sizeof order / sizeof *order; i++) {
    status = emit_keys(self, rows, order[i]);
  }
  status = mp_walk_end(status);
  if (status == MOONPAD_OK) status = take_each(self, rows, WANTED_KEY, take_wanted);
  if (status == MOONPAD_OK) status = take_each(self, rows, EVENT_BY_ID, emit_event);
  if (status == MOONPAD_OK) status = take_each(self, rows, RECENT_EVENT, emit_event);
  return mp_walk_end(status);
}

static moonpad_status take_rows(void *context, const PGresult *rows, moonpad_error *error) {
  looking *self = context;
  (void)error;
  self->status = take_answer(self, rows);
  return MOONPAD_OK;
}

/* ---- asking ---- */

static void add_text_or_null(mp_postgres_parameters *parameters, moonpad_string text, bool is_given) {
  if (is_given) {
    mp_postgres_add_text(parameters, text);
  } else {
    mp_postgres_add_null(parameters);
  }
}

/* The three parameters that say where. */
static void add_place(mp_postgres_parameters *parameters, const mp_look *look) {
  const moonpad_session_name *name = &look->ref.name;
  bool is_session = look->heads == MP_ALL_HEADS, is_app = look->heads == MP_HEAD(MP_SCOPE_APP);
  bool by_id = is_session && look->ref.session != 0;
  if (by_id) {
    mp_postgres_add_integer(parameters, look->ref.session);
  } else {
    mp_postgres_add_text(parameters, name->app_name);
  }
  add_text_or_null(parameters, name->user_id, !by_id && !is_app);
  add_text_or_null(parameters, name->session_id, !by_id && is_session);
}

static void add_wanted(mp_postgres_parameters *parameters, const mp_look *look) {
  mp_postgres_begin_array(parameters, MP_PG_INT4);
  for (size_t i = 0; i < look->key_count; i++) mp_postgres_item_small(parameters, (int)look->keys[i].scope);
  mp_postgres_end_array(parameters);
  mp_postgres_begin_array(parameters, MP_PG_BYTEA);
  for (size_t i = 0; i < look->key_count; i++) mp_postgres_item_bytes(parameters, look->keys[i].key);
  mp_postgres_end_array(parameters);
}

static moonpad_status send_lock(mp_postgres_tx *tx, const mp_look *look, moonpad_error *error) {
  mp_postgres_parameters parameters;
  const moonpad_session_name *name = &look->ref.name;
  int id = look->heads == MP_HEAD(MP_SCOPE_APP)    ? MP_PG_LOCK_APP
           : look->heads == MP_HEAD(MP_SCOPE_USER) ? MP_PG_LOCK_USER
           : look->ref.session != 0                ? MP_PG_LOCK_SESSION
                                                   : MP_PG_LOCK_SESSION_BY_NAME;
  mp_postgres_parameters_init(&parameters, tx->connection);
  if (id == MP_PG_LOCK_SESSION) {
    mp_postgres_add_integer(&parameters, look->ref.session);
  } else {
    mp_postgres_add_text(&parameters, name->app_name);
    if (id != MP_PG_LOCK_APP) mp_postgres_add_text(&parameters, name->user_id);
    if (id == MP_PG_LOCK_SESSION_BY_NAME) mp_postgres_add_text(&parameters, name->session_id);
  }
  return mp_postgres_send(tx->connection, id, &parameters, NULL, NULL, error);
}

static int statement_of(const mp_look *look) {
  if (look->heads == MP_HEAD(MP_SCOPE_APP)) return MP_PG_LOOK_AT_APP;
  if (look->heads == MP_HEAD(MP_SCOPE_USER)) return MP_PG_LOOK_AT_USER;
  bool by_id = look->ref.session != 0;
  if (look->key_count == 0 && look->event_id.data == NULL) return by_id ? MP_PG_GET : MP_PG_GET_BY_NAME;
  return by_id ? MP_PG_LOOK : MP_PG_LOOK_BY_NAME;
}

static moonpad_status send_look(looking *self, moonpad_error *error) {
  const mp_look *look = self->look;
  mp_postgres_parameters parameters;
  int id = statement_of(look);
  mp_postgres_parameters_init(&parameters, self->connection);
  add_place(&parameters, look);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    bool asks = (look->heads & MP_HEAD(scope)) != 0;
    mp_postgres_add_integer(&parameters, asks ? look->since[scope] : MP_NO_KEYS);
  }
  mp_postgres_add_integer(&parameters, look->recent > 0 ? look->recent : 0);
  if (id != MP_PG_GET && id != MP_PG_GET_BY_NAME) {
    add_wanted(&parameters, look);
    if (look->event_id.data == NULL) {
      mp_postgres_add_null(&parameters);
    } else {
      mp_postgres_add_bytes(&parameters, look->event_id);
    }
  }
  return mp_postgres_send(self->connection, id, &parameters, take_rows, self, error);
}

static moonpad_status ask(mp_postgres_tx *tx, looking *self, moonpad_error *error) {
  moonpad_status status = mp_postgres_before_question(tx, error);
  if (status == MOONPAD_OK && self->look->create) status = mp_postgres_before_write(tx, error);
  if (status == MOONPAD_OK && self->look->create) {
    moonpad_session_name name = self->look->ref.name;
    if (self->look->heads == MP_HEAD(MP_SCOPE_APP)) name.user_id.data = NULL;
    status = mp_postgres_make_shared(tx, &name, error);
  }
  if (status == MOONPAD_OK && tx->is_write) status = send_lock(tx, self->look, error);
  if (status == MOONPAD_OK) status = send_look(self, error);
  if (status == MOONPAD_OK) status = mp_postgres_round_trip(self->connection, error);
  if (status != MOONPAD_OK) return status;
  if (self->status != MOONPAD_OK && error != NULL) *error = self->error;
  return self->status != MOONPAD_OK ? self->status : self->is_found ? MOONPAD_OK : MOONPAD_NOT_FOUND;
}

moonpad_status mp_postgres_look(mp_tx *base, mp_look *look, mp_facts *facts, moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  looking self = {.connection = tx->connection, .look = look, .facts = facts};
  memset(facts, 0, sizeof *facts);
  for (size_t i = 0; i < look->key_count; i++) {
    look->keys[i].value = NULL;
    look->keys[i].revision = 0;
  }
  moonpad_status status = ask(tx, &self, error);
  if (status == MOONPAD_OK) return status;
  for (size_t i = 0; i < look->key_count; i++) {
    mp_value_release(tx->env, look->keys[i].value);
    look->keys[i].value = NULL;
  }
  return status;
}
