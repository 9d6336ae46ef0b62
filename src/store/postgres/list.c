/* Lists of sessions with their state, in one statement; names of apps. */
#include <math.h>

#include "base/error.h"
#include "store/postgres/postgres.h"

/* Columns of statements.c. */
enum { KIND, SCOPE, REVISION, KEY, VALUE, NUMBERS, TIMES, USER_ID, SESSION_ID };
#define SESSION 2 /* the kind of row that is a session; the others are keys */

typedef struct list_walk {
  mp_postgres_connection *connection;
  const mp_listing *listing;
  mp_each_name each_name; /* of apps, instead of the listing */
  void *context;
  moonpad_status status; /* of a callback */
  moonpad_error error;
} list_walk;

static moonpad_status emit_session(list_walk *self, const PGresult *rows, int row) {
  mp_facts facts;
  if (!mp_postgres_read_heads(rows, row, NUMBERS, TIMES, &facts)) {
    return mp_postgres_corrupt(self->connection, "a session's revision is out of range", &self->error);
  }
  mp_listed_session listed = {.row = facts.row,
                              .user_id = mp_postgres_bytes(rows, row, USER_ID),
                              .session_id = mp_postgres_bytes(rows, row, SESSION_ID)};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) listed.touched[scope] = facts.touched[scope];
  return self->listing->session(self->listing->context, &listed, &self->error);
}

static moonpad_status emit_key(list_walk *self, const PGresult *rows, int row) {
  mp_state_row found;
  moonpad_status status = mp_postgres_read_state(self->connection, (mp_scope)mp_postgres_integer(rows, row, SCOPE),
                                                 mp_postgres_bytes(rows, row, KEY), mp_postgres_bytes(rows, row, VALUE),
                                                 mp_postgres_integer(rows, row, REVISION), &found, &self->error);
  if (status == MOONPAD_OK) status = self->listing->state(self->listing->context, &found, &self->error);
  mp_value_release(self->connection->store->remote.env, found.value);
  return status;
}

static moonpad_status take_rows(void *context, const PGresult *rows, moonpad_error *error) {
  list_walk *self = context;
  (void)error;
  for (int row = 0; self->status == MOONPAD_OK && row < PQntuples(rows); row++) {
    bool is_session = mp_postgres_integer(rows, row, KIND) == SESSION;
    self->status = is_session ? emit_session(self, rows, row) : emit_key(self, rows, row);
  }
  return MOONPAD_OK;
}

static moonpad_status take_names(void *context, const PGresult *rows, moonpad_error *error) {
  list_walk *self = context;
  (void)error;
  for (int row = 0; self->status == MOONPAD_OK && row < PQntuples(rows); row++) {
    self->status = self->each_name(self->context, mp_postgres_bytes(rows, row, 0), &self->error);
  }
  return MOONPAD_OK;
}

static moonpad_status send_list(list_walk *self, const mp_list_query *query, moonpad_error *error) {
  mp_postgres_parameters parameters;
  int oldest = query->has_user_id ? MP_PG_LIST_USER_OLDEST : MP_PG_LIST_APP_OLDEST;
  int newest = query->has_user_id ? MP_PG_LIST_USER_NEWEST : MP_PG_LIST_APP_NEWEST;
  const moonpad_string none = {"", 0};
  /* Sorts before all sessions in the order asked for. */
  double end = query->newest_first ? (double)INFINITY : -(double)INFINITY;
  mp_postgres_parameters_init(&parameters, self->connection);
  mp_postgres_add_text(&parameters, query->app_name);
  if (query->has_user_id) {
    mp_postgres_add_text(&parameters, query->user_id);
  } else {
    mp_postgres_add_null(&parameters);
  }
  mp_postgres_add_double(&parameters, query->has_after ? query->after_time : end);
  mp_postgres_add_text(&parameters, query->has_after ? query->after_user_id : none);
  mp_postgres_add_text(&parameters, query->has_after ? query->after_session_id : none);
  mp_postgres_add_double(&parameters, query->touched_since != 0 ? query->touched_since : -(double)INFINITY);
  if (query->limit > 0) {
    mp_postgres_add_integer(&parameters, query->limit);
  } else {
    mp_postgres_add_null(&parameters);
  }
  mp_postgres_add_boolean(&parameters, self->listing->state != NULL);
  int id = query->newest_first ? newest : oldest;
  return mp_postgres_send_by_row(self->connection, id, &parameters, take_rows, self, error);
}

/* Locks what is listed: until the end nobody makes a session of that user, or deletes the user. */
static moonpad_status send_lock(mp_postgres_tx *tx, const mp_list_query *query, moonpad_error *error) {
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, tx->connection);
  mp_postgres_add_text(&parameters, query->app_name);
  if (query->has_user_id) mp_postgres_add_text(&parameters, query->user_id);
  int id = query->has_user_id ? MP_PG_LOCK_USER : MP_PG_LOCK_APP;
  return mp_postgres_send(tx->connection, id, &parameters, NULL, NULL, error);
}

moonpad_status mp_postgres_each_listed(mp_tx *base, const mp_list_query *query, const mp_listing *listing,
                                       moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  list_walk self = {.connection = tx->connection, .listing = listing};
  moonpad_status status = mp_postgres_before_question(tx, error);
  if (status == MOONPAD_OK && tx->is_write) status = send_lock(tx, query, error);
  if (status == MOONPAD_OK) status = send_list(&self, query, error);
  return status == MOONPAD_OK ? mp_postgres_finish_walk(self.connection, &self.status, &self.error, error) : status;
}

/* `app_name` NULL: of apps. */
static moonpad_status each_name(mp_tx *base, const moonpad_string *app_name, mp_each_name each, void *context,
                                moonpad_error *error) {
  mp_postgres_tx *tx = mp_postgres_tx_of(base);
  list_walk self = {.connection = tx->connection, .each_name = each, .context = context};
  mp_postgres_parameters parameters;
  moonpad_status status = mp_postgres_before_question(tx, error);
  mp_postgres_parameters_init(&parameters, tx->connection);
  if (app_name != NULL) mp_postgres_add_text(&parameters, *app_name);
  int id = app_name == NULL ? MP_PG_LIST_APPS : MP_PG_LIST_USERS;
  if (status == MOONPAD_OK) status = mp_postgres_send(self.connection, id, &parameters, take_names, &self, error);
  return status == MOONPAD_OK ? mp_postgres_finish_walk(self.connection, &self.status, &self.error, error) : status;
}

moonpad_status mp_postgres_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error) {
  return each_name(tx, NULL, each, context, error);
}

moonpad_status mp_postgres_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                     moonpad_error *error) {
  return each_name(tx, &app_name, each, context, error);
}
