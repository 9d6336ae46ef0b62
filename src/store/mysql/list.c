/*
** Lists of sessions with their state; names of apps and users.
**
** Sessions, keys of the app, of the users and of the sessions come as four results of one snapshot,
** and are put together here: the server would write them to a temporary table to sort them.
*/
#include <stdlib.h>

#include "base/error.h"
#include "store/mysql/mysql.h"

/* Columns behind the heads of a session; and of a key behind those of mp_mysql_read_state. */
enum { USER_ID = MP_MYSQL_HEADS, SESSION_ID };
enum { OWNER = 4 };

#define HEADS                                                                                                          \
  "s.id, s.usr, s.app, s.revision, s.base_revision, u.revision AS u_revision, a.revision AS a_revision,"               \
  " s.conversation_count, s.forgotten, u.forgotten AS u_forgotten, a.forgotten AS a_forgotten, s.create_time,"         \
  " s.last_update_time, s.touched, u.touched AS u_touched, a.touched AS a_touched, u.user_id, s.session_id"

/* ---- asking ---- */

static void add_position(mp_mysql_connection *connection, const mp_list_query *query) {
  mp_mysql_sql(connection, query->newest_first ? " AND (s.last_update_time, u.user_id, s.session_id) < ("
                                               : " AND (s.last_update_time, u.user_id, s.session_id) > (");
  mp_mysql_double(connection, query->after_time);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, query->after_user_id);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, query->after_session_id);
  mp_mysql_sql(connection, ")");
}

/* The sessions that are asked for, in their order. */
static void add_sessions(mp_mysql_connection *connection, const mp_list_query *query, const char *columns) {
  mp_mysql_sql(connection, "SELECT ");
  mp_mysql_sql(connection, columns);
  mp_mysql_sql(connection, " FROM #apps a JOIN #sessions s ON s.app = a.id JOIN #users u ON u.id = s.usr"
                           " WHERE a.app_name = ");
  mp_mysql_bytes(connection, query->app_name);
  if (query->has_user_id) {
    mp_mysql_sql(connection, " AND s.usr = (SELECT n.id FROM #users n WHERE n.app = a.id AND n.user_id = ");
    mp_mysql_bytes(connection, query->user_id);
    mp_mysql_sql(connection, ")");
  }
  if (query->touched_since != 0) {
    mp_mysql_sql(connection, " AND IF(s.touched = 0, s.last_update_time, s.touched) >= ");
    mp_mysql_double(connection, query->touched_since);
  }
  if (query->has_after) add_position(connection, query);
  mp_mysql_sql(connection, query->newest_first ? " ORDER BY s.last_update_time DESC, u.user_id DESC, s.session_id DESC"
                                               : " ORDER BY s.last_update_time, u.user_id, s.session_id");
  if (query->limit > 0) mp_mysql_sql_integer(connection, " LIMIT ", query->limit);
}

typedef struct session_list {
  mp_mysql_connection *connection;
  const mp_list_query *query;
  const mp_listing *listing;
  MYSQL_RES *sessions, *app_keys, *user_keys, *session_keys;
} session_list;

static void add_keys(session_list *self) {
  mp_mysql_connection *connection = self->connection;
  mp_mysql_begin_kept(connection, &self->app_keys);
  mp_mysql_sql(connection, "SELECT scope, `key`, value, revision, owner FROM #state WHERE scope = 2 AND value IS NOT"
                           " NULL AND owner = (SELECT id FROM #apps WHERE app_name = ");
  mp_mysql_bytes(connection, self->query->app_name);
  mp_mysql_sql(connection, ")");
  mp_mysql_begin_kept(connection, &self->user_keys);
  mp_mysql_sql(connection, "SELECT t.scope, t.`key`, t.value, t.revision, t.owner FROM (SELECT DISTINCT usr FROM (");
  add_sessions(connection, self->query, "s.usr");
  mp_mysql_sql(connection, ") l) d STRAIGHT_JOIN #state t ON t.scope = 1 AND t.owner = d.usr AND t.value IS NOT NULL");
  mp_mysql_begin_kept(connection, &self->session_keys);
  mp_mysql_sql(connection, "SELECT t.scope, t.`key`, t.value, t.revision, t.owner FROM (");
  add_sessions(connection, self->query, "s.id");
  mp_mysql_sql(connection, ") l STRAIGHT_JOIN #state t ON t.scope = 0 AND t.owner = l.id AND t.value IS NOT NULL");
}

/* Locks what is listed: until the end nobody makes a session of that user, or deletes the user. */
static void add_lock(mp_mysql_connection *connection, const mp_list_query *query) {
  mp_mysql_begin(connection, NULL, NULL);
  if (query->has_user_id) {
    mp_mysql_sql(connection, "SELECT id FROM #users WHERE user_id = ");
    mp_mysql_bytes(connection, query->user_id);
    mp_mysql_sql(connection, " AND app = (SELECT id FROM #apps WHERE app_name = ");
    mp_mysql_bytes(connection, query->app_name);
    mp_mysql_sql(connection, ") FOR UPDATE");
  } else {
    mp_mysql_sql(connection, "SELECT id FROM #apps WHERE app_name = ");
    mp_mysql_bytes(connection, query->app_name);
    mp_mysql_sql(connection, " FOR UPDATE");
  }
}

/* ---- keys by their owner ---- */

typedef struct owned_key {
  int64_t owner;
  MYSQL_ROW_OFFSET row;
  size_t number; /* in the result */
} owned_key;

typedef struct owned_keys {
  MYSQL_RES *result;
  owned_key *keys;
  size_t count;
} owned_keys;

static int compare_keys(const void *a, const void *b) {
  const owned_key *first = a, *second = b;
  if (first->owner != second->owner) return first->owner > second->owner ? 1 : -1;
  return first->number > second->number ? 1 : -1;
}

static mp_mysql_row current(MYSQL_RES *result, MYSQL_ROW values) {
  return (mp_mysql_row){values, mysql_fetch_lengths(result), mysql_num_fields(result)};
}

static bool sort_keys(mp_env *env, MYSQL_RES *result, owned_keys *sorted) {
  *sorted = (owned_keys){.result = result};
  size_t count = result == NULL ? 0 : (size_t)mysql_num_rows(result);
  if (count == 0) return true;
  sorted->keys = mp_allocate(env, count * sizeof *sorted->keys);
  if (sorted->keys == NULL) return false;
  while (sorted->count < count) {
    MYSQL_ROW_OFFSET row = mysql_row_tell(result);
    MYSQL_ROW values = mysql_fetch_row(result);
    if (values == NULL) break;
    mp_mysql_row read = current(result, values);
    sorted->keys[sorted->count] = (owned_key){mp_mysql_integer_of(&read, OWNER), row, sorted->count};
    sorted->count++;
  }
  qsort(sorted->keys, sorted->count, sizeof *sorted->keys, compare_keys);
  return true;
}

static size_t first_of(const owned_keys *sorted, int64_t owner) {
  size_t low = 0, high = sorted->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (sorted->keys[middle].owner < owner) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/* ---- emitting ---- */

static moonpad_status emit_key(const session_list *self, MYSQL_RES *result, MYSQL_ROW_OFFSET at, moonpad_error *error) {
  mp_state_row found;
  mysql_row_seek(result, at);
  mp_mysql_row row = current(result, mysql_fetch_row(result));
  moonpad_status status = mp_mysql_read_state(self->connection, &row, &found, error);
  if (status == MOONPAD_OK) status = self->listing->state(self->listing->context, &found, error);
  mp_value_release(self->connection->store->remote.env, found.value);
  return status;
}

/* Of one owner; once. */
static moonpad_status emit_keys(const session_list *self, owned_keys *sorted, int64_t owner, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = first_of(sorted, owner); status == MOONPAD_OK && i < sorted->count; i++) {
    owned_key *key = &sorted->keys[i];
    if (key->owner != owner || key->row == NULL) break;
    status = emit_key(self, sorted->result, key->row, error);
    key->row = NULL;
  }
  return status;
}

static moonpad_status emit_session(const session_list *self, const mp_mysql_row *row, const mp_facts *facts,
                                   moonpad_error *error) {
  mp_listed_session listed = {
      .row = facts->row, .user_id = mp_mysql_bytes_of(row, USER_ID), .session_id = mp_mysql_bytes_of(row, SESSION_ID)};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) listed.touched[scope] = facts->touched[scope];
  return self->listing->session(self->listing->context, &listed, error);
}

static moonpad_status emit_all(const session_list *self, owned_keys keys[MP_STORED_SCOPES], moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (MYSQL_ROW values; status == MOONPAD_OK && (values = mysql_fetch_row(self->sessions)) != NULL;) {
    mp_facts facts;
    mp_mysql_row row = current(self->sessions, values);
    if (!mp_mysql_read_heads(&row, 0, &facts)) {
      return mp_mysql_corrupt(self->connection, "a session's revision is out of range", error);
    }
    status = emit_keys(self, &keys[MP_SCOPE_APP], facts.row.app, error);
    if (status == MOONPAD_OK) status = emit_keys(self, &keys[MP_SCOPE_USER], facts.row.user, error);
    if (status == MOONPAD_OK) status = emit_session(self, &row, &facts, error);
    if (status == MOONPAD_OK) status = emit_keys(self, &keys[MP_SCOPE_SESSION], facts.row.id, error);
  }
  return mp_walk_end(status);
}

static moonpad_status emit(const session_list *self, moonpad_error *error) {
  mp_env *env = self->connection->store->remote.env;
  MYSQL_RES *const results[MP_STORED_SCOPES] = {self->session_keys, self->user_keys, self->app_keys};
  owned_keys keys[MP_STORED_SCOPES] = {{NULL, NULL, 0}, {NULL, NULL, 0}, {NULL, NULL, 0}};
  moonpad_status status = MOONPAD_OK;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if (status == MOONPAD_OK && !sort_keys(env, results[scope], &keys[scope])) status = mp_no_memory(error);
  }
  if (status == MOONPAD_OK) status = emit_all(self, keys, error);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) mp_release(env, keys[scope].keys);
  return status;
}

moonpad_status mp_mysql_each_listed(mp_tx *base, const mp_list_query *query, const mp_listing *listing,
                                    moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  session_list self = {.connection = tx->connection, .query = query, .listing = listing};
  moonpad_status status = mp_mysql_before_question(tx, error);
  if (status != MOONPAD_OK) return status;
  if (tx->is_write) add_lock(self.connection, query);
  mp_mysql_begin_kept(self.connection, &self.sessions);
  add_sessions(self.connection, query, HEADS);
  if (listing->state != NULL) add_keys(&self);
  status = mp_mysql_ask(tx, error);
  if (status == MOONPAD_OK) status = emit(&self, error);
  mysql_free_result(self.sessions);
  mysql_free_result(self.app_keys);
  mysql_free_result(self.user_keys);
  mysql_free_result(self.session_keys);
  return status;
}

/* ---- names ---- */

typedef struct name_walk {
  mp_each_name each;
  void *context;
  moonpad_status status; /* of a callback */
  moonpad_error error;
} name_walk;

static moonpad_status take_name(void *context, const mp_mysql_row *row, moonpad_error *error) {
  name_walk *self = context;
  (void)error;
  if (self->status == MOONPAD_OK) self->status = self->each(self->context, mp_mysql_bytes_of(row, 0), &self->error);
  return MOONPAD_OK;
}

/* `app_name` NULL: of apps. */
static moonpad_status each_name(mp_tx *base, const moonpad_string *app_name, mp_each_name each, void *context,
                                moonpad_error *error) {
  mp_mysql_tx *tx = mp_mysql_tx_of(base);
  name_walk self = {.each = each, .context = context};
  moonpad_status status = mp_mysql_before_question(tx, error);
  if (status != MOONPAD_OK) return status;
  mp_mysql_begin(tx->connection, take_name, &self);
  mp_mysql_sql(tx->connection, app_name == NULL ? "SELECT app_name FROM #apps"
                                                : "SELECT user_id FROM #users WHERE app ="
                                                  " (SELECT id FROM #apps WHERE app_name = ");
  if (app_name != NULL) {
    mp_mysql_bytes(tx->connection, *app_name);
    mp_mysql_sql(tx->connection, ")");
  }
  return mp_mysql_finish_walk(tx, &self.status, &self.error, error);
}

moonpad_status mp_mysql_each_app(mp_tx *tx, mp_each_name each, void *context, moonpad_error *error) {
  return each_name(tx, NULL, each, context, error);
}

moonpad_status mp_mysql_each_user(mp_tx *tx, moonpad_string app_name, mp_each_name each, void *context,
                                  moonpad_error *error) {
  return each_name(tx, &app_name, each, context, error);
}
