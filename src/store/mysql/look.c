/* Whole questions: one call of look_1 (tables.c), and a statement for the keys that are wanted. */
#include <string.h>

#include "base/error.h"
#include "store/mysql/mysql.h"
#include "store/stored.h"

/* Columns of the results of look_1 by their number: which result a row belongs to. */
enum { KEY_COLUMNS = 4, EVENT_COLUMNS = 5 };

typedef struct looking {
  mp_mysql_connection *connection;
  mp_look *look;
  mp_facts *facts;
  bool is_found;
  bool keys_are_over, events_are_over; /* a callback said MP_STOP */
  size_t next_wanted;
  moonpad_status status; /* of a callback, or of what was found */
  moonpad_error error;
} looking;

/* ---- rows ---- */

bool mp_mysql_read_heads(const mp_mysql_row *row, unsigned first, mp_facts *facts) {
  int64_t n[11];
  double t[5];
  for (unsigned i = 0; i < 11; i++) n[i] = mp_mysql_integer_of(row, first + i);
  for (unsigned i = 0; i < 5; i++) t[i] = mp_mysql_double_of(row, first + 11 + i);
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
  const mp_session_row *found = &facts->row;
  return found->base_revision >= 0 && found->base_revision <= found->revision && found->user_revision >= 0 &&
         found->app_revision >= 0;
}

moonpad_status mp_mysql_read_state(mp_mysql_connection *connection, const mp_mysql_row *row, mp_state_row *state,
                                   moonpad_error *error) {
  moonpad_string value = mp_mysql_bytes_of(row, 2);
  *state = (mp_state_row){.scope = (mp_scope)mp_mysql_integer_of(row, 0),
                          .key = mp_mysql_bytes_of(row, 1),
                          .revision = mp_mysql_integer_of(row, 3)};
  if (value.data == NULL) return MOONPAD_OK;
  moonpad_status status = mp_stored_value(connection->store->remote.env, value, &state->value);
  if (status == MOONPAD_NO_MEMORY) return mp_no_memory(error);
  return status == MOONPAD_OK ? status : mp_mysql_corrupt(connection, "a value of the state is not JSON", error);
}

static void note_whole(const mp_look *look, mp_facts *facts) {
  const int64_t revisions[] = {facts->row.revision, facts->row.user_revision, facts->row.app_revision};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((look->heads & MP_HEAD(scope)) == 0 || look->since[scope] >= revisions[scope]) continue;
    facts->whole[scope] = look->since[scope] < facts->forgotten[scope];
  }
}

static moonpad_status take_heads(looking *self, const mp_mysql_row *row) {
  self->is_found = true;
  if (!mp_mysql_read_heads(row, 0, self->facts)) {
    return mp_mysql_corrupt(self->connection, "a revision is out of range", &self->error);
  }
  note_whole(self->look, self->facts);
  return MOONPAD_OK;
}

static moonpad_status emit_key(looking *self, const mp_mysql_row *row) {
  mp_state_row found;
  if (self->keys_are_over) return MOONPAD_OK;
  moonpad_status status = mp_mysql_read_state(self->connection, row, &found, &self->error);
  if (status == MOONPAD_OK) status = self->look->each_state(self->look->context, &found, &self->error);
  mp_value_release(self->connection->store->remote.env, found.value);
  self->keys_are_over = status == MP_STOP;
  return mp_walk_end(status);
}

static moonpad_status emit_event(looking *self, const mp_mysql_row *row) {
  if (self->events_are_over) return MOONPAD_OK;
  mp_event_row event = {.revision = mp_mysql_integer_of(row, 0),
                        .timestamp = mp_mysql_double_of(row, 1),
                        .id = mp_mysql_bytes_of(row, 2),
                        .digest = (uint64_t)mp_mysql_integer_of(row, 3),
                        .json = mp_mysql_bytes_of(row, 4)};
  moonpad_status status = mp_mysql_check_event(self->connection, &event.json, &self->error);
  if (status == MOONPAD_OK) status = self->look->each_event(self->look->context, &event, &self->error);
  self->events_are_over = status == MP_STOP;
  return mp_walk_end(status);
}

static moonpad_status take_row(void *context, const mp_mysql_row *row, moonpad_error *error) {
  looking *self = context;
  (void)error;
  if (self->status != MOONPAD_OK) return MOONPAD_OK;
  self->status = row->count == MP_MYSQL_HEADS  ? take_heads(self, row)
                 : row->count == KEY_COLUMNS   ? emit_key(self, row)
                 : row->count == EVENT_COLUMNS ? emit_event(self, row)
                                               : MOONPAD_OK;
  return MOONPAD_OK;
}

/* ---- wanted keys: in the order of their index, in which they mostly are asked for, too ---- */

static mp_state_row *find_wanted(looking *self, mp_scope scope, moonpad_string key) {
  const mp_look *look = self->look;
  for (size_t i = 0; i < look->key_count; i++) {
    size_t at = (self->next_wanted + i) % look->key_count;
    if (look->keys[at].scope != scope || mp_text_compare(look->keys[at].key, key) != 0) continue;
    self->next_wanted = at + 1;
    return &look->keys[at];
  }
  return NULL;
}

static moonpad_status take_wanted(void *context, const mp_mysql_row *row, moonpad_error *error) {
  looking *self = context;
  mp_state_row found;
  (void)error;
  if (self->status != MOONPAD_OK) return MOONPAD_OK;
  self->status = mp_mysql_read_state(self->connection, row, &found, &self->error);
  if (self->status != MOONPAD_OK) return MOONPAD_OK;
  mp_state_row *wanted = find_wanted(self, found.scope, found.key);
  if (wanted == NULL || wanted->value != NULL) {
    mp_value_release(self->connection->store->remote.env, found.value);
    return MOONPAD_OK;
  }
  wanted->value = found.value;
  wanted->revision = found.revision;
  return MOONPAD_OK;
}

static void add_wanted_of(mp_mysql_connection *connection, const mp_look *look, mp_scope scope, bool *is_first) {
  static const char *const owners[] = {"(scope = 0 AND owner = @mp_session", "(scope = 1 AND owner = @mp_user",
                                       "(scope = 2 AND owner = @mp_app"};
  bool has_any = false;
  for (size_t i = 0; i < look->key_count; i++) {
    if (look->keys[i].scope != scope) continue;
    if (!has_any) {
      if (!*is_first) mp_mysql_sql(connection, " OR ");
      mp_mysql_sql(connection, owners[scope]);
      mp_mysql_sql(connection, " AND `key` IN (");
    } else {
      mp_mysql_sql(connection, ",");
    }
    mp_mysql_bytes(connection, look->keys[i].key);
    has_any = true;
    *is_first = false;
  }
  if (has_any) mp_mysql_sql(connection, "))");
}

static void add_wanted(looking *self) {
  bool is_first = true;
  mp_mysql_begin(self->connection, take_wanted, self);
  mp_mysql_sql(self->connection, "SELECT scope, `key`, value, revision FROM #state WHERE ");
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    add_wanted_of(self->connection, self->look, (mp_scope)scope, &is_first);
  }
}

/* ---- asking ---- */

static void add_name(mp_mysql_connection *connection, moonpad_string name, bool is_given) {
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, is_given ? name : (moonpad_string){NULL, 0});
}

/* How a question is put: p_mode of look_1. */
typedef enum look_mode { PART_OF_READ, PART_OF_WRITE, ALONE } look_mode;

static void add_look(looking *self, look_mode mode) {
  mp_mysql_connection *connection = self->connection;
  const mp_look *look = self->look;
  bool is_session = look->heads == MP_ALL_HEADS, by_id = is_session && look->ref.session != 0;
  mp_mysql_begin_call(connection, take_row, self);
  mp_mysql_sql(connection, "CALL #look_1(");
  if (by_id) {
    mp_mysql_integer(connection, look->ref.session);
  } else {
    mp_mysql_sql(connection, "NULL");
  }
  add_name(connection, look->ref.name.app_name, !by_id);
  add_name(connection, look->ref.name.user_id, !by_id && look->heads != MP_HEAD(MP_SCOPE_APP));
  add_name(connection, look->ref.name.session_id, !by_id && is_session);
  /* A user is found by its app's name, but is not asked about its app. */
  mp_mysql_sql(connection, ",");
  mp_mysql_integer(connection, (int64_t)look->heads);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    mp_mysql_sql(connection, ",");
    mp_mysql_integer(connection, (look->heads & MP_HEAD(scope)) != 0 ? look->since[scope] : MP_NO_KEYS);
  }
  mp_mysql_sql(connection, ",");
  mp_mysql_integer(connection, look->recent > 0 ? look->recent : 0);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, look->event_id);
  mp_mysql_sql_integer(connection, ",", (int64_t)mode);
  mp_mysql_sql(connection, ")");
}

static void add_make_shared(mp_mysql_connection *connection, const mp_look *look) {
  mp_mysql_begin_call(connection, NULL, NULL);
  mp_mysql_sql(connection, "CALL #make_shared_1(");
  mp_mysql_bytes(connection, look->ref.name.app_name);
  add_name(connection, look->ref.name.user_id, look->heads != MP_HEAD(MP_SCOPE_APP));
  mp_mysql_sql(connection, ")");
}

/* A question alone is one statement: what begins and ends its snapshot is in the procedure. */
static moonpad_status ask_alone(mp_mysql_tx *tx, looking *self, moonpad_error *error) {
  tx->begun = true;
  self->connection->is_open = true;
  add_look(self, ALONE);
  moonpad_status status = mp_mysql_round_trip(self->connection, error);
  if (status == MOONPAD_OK) self->connection->is_open = false;
  return status;
}

static moonpad_status ask_in_transaction(mp_mysql_tx *tx, looking *self, moonpad_error *error) {
  moonpad_status status = mp_mysql_before_question(tx, error);
  if (status == MOONPAD_OK && self->look->create) status = mp_mysql_before_write(tx, error);
  if (status != MOONPAD_OK) return status;
  if (self->look->create) add_make_shared(self->connection, self->look);
  add_look(self, tx->is_write ? PART_OF_WRITE : PART_OF_READ);
  if (self->look->key_count > 0) add_wanted(self);
  return mp_mysql_ask(tx, error);
}

static moonpad_status ask(mp_mysql_tx *tx, looking *self, moonpad_error *error) {
  bool is_alone = !tx->is_write && !tx->is_snapshot && !tx->begun && self->look->key_count == 0;
  moonpad_status status = is_alone ? ask_alone(tx, self, error) : ask_in_transaction(tx, self, error);
  if (status != MOONPAD_OK) return status;
  if (self->status != MOONPAD_OK && error != NULL) *error = self->error;
  return self->status != MOONPAD_OK ? self->status : self->is_found ? MOONPAD_OK : MOONPAD_NOT_FOUND;
}

moonpad_status mp_mysql_look(mp_tx *base, mp_look *look, mp_facts *facts, moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
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
