/*
** Plans (store/plan.h): each is one call of append_1 (schema.c). One plan is a transaction by
** itself; several share one. If that fails, each is sent by itself, all in one round trip.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/postgres/postgres.h"

/* ---- sending ---- */

static void add_numbers(mp_postgres_parameters *parameters, const int64_t numbers[MP_STORED_SCOPES]) {
  mp_postgres_begin_array(parameters, MP_PG_INT8);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) mp_postgres_item_integer(parameters, numbers[scope]);
  mp_postgres_end_array(parameters);
}

/* The smallest guard of each scope, and the heads that count up. */
static unsigned add_guards(mp_postgres_parameters *parameters, const mp_plan *plan) {
  int64_t least[MP_STORED_SCOPES] = {MP_UNGUARDED, MP_UNGUARDED, MP_UNGUARDED};
  unsigned heads = MP_HEAD(MP_SCOPE_SESSION);
  for (size_t i = 0; i < plan->count; i++) {
    const mp_guarded *operation = &plan->operations[i];
    int64_t *found = &least[operation->scope];
    heads |= MP_HEAD(operation->scope);
    if (operation->base != MP_UNGUARDED && (*found < 0 || operation->base < *found)) *found = operation->base;
  }
  add_numbers(parameters, least);
  return heads;
}

static void add_since(mp_postgres_parameters *parameters, const mp_plan *plan) {
  bool expires = false;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) expires = expires || plan->touched_since[scope] != 0;
  if (!expires) {
    mp_postgres_add_null(parameters);
    return;
  }
  mp_postgres_begin_array(parameters, MP_PG_FLOAT8);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    mp_postgres_item_double(parameters, plan->touched_since[scope]);
  }
  mp_postgres_end_array(parameters);
}

typedef enum operation_column { OPERATION_SCOPE, OPERATION_KEY, OPERATION_VALUE, OPERATION_BASE } operation_column;

static void add_operation(mp_postgres_parameters *parameters, const mp_guarded *operation, operation_column column) {
  switch (column) {
  case OPERATION_SCOPE:
    mp_postgres_item_small(parameters, (int)operation->scope);
    break;
  case OPERATION_KEY:
    mp_postgres_item_bytes(parameters, operation->key);
    break;
  case OPERATION_VALUE:
    mp_postgres_item_value(parameters, operation->kind == MP_GUARDED_REMOVE ? NULL : operation->value);
    break;
  case OPERATION_BASE:
    mp_postgres_item_integer(parameters, operation->base);
    break;
  }
}

/* Four arrays of the operations that add, or of the others; NULL where there are none. */
static void add_operations(mp_postgres_parameters *parameters, const mp_plan *plan, bool added) {
  static const mp_postgres_type types[] = {MP_PG_INT4, MP_PG_BYTEA, MP_PG_TEXT, MP_PG_INT8};
  size_t count = 0;
  for (size_t i = 0; i < plan->count; i++) count += mp_plan_adds(&plan->operations[i]) == added;
  for (int column = OPERATION_SCOPE; column <= OPERATION_BASE; column++) {
    if (count == 0) {
      mp_postgres_add_null(parameters);
      continue;
    }
    mp_postgres_begin_array(parameters, types[column]);
    for (size_t i = 0; i < plan->count; i++) {
      if (mp_plan_adds(&plan->operations[i]) != added) continue;
      add_operation(parameters, &plan->operations[i], (operation_column)column);
    }
    mp_postgres_end_array(parameters);
  }
}

/* The number, from 1, of an operation among those that add. */
static int number_of(const mp_plan *plan, size_t operation) {
  int number = 0;
  for (size_t i = 0; i <= operation; i++) number += mp_plan_adds(&plan->operations[i]);
  return number;
}

static void add_text(mp_postgres_parameters *parameters, const mp_plan *plan) {
  size_t first = plan->spans[0].after == MP_NO_RESULT ? 1 : 0;
  mp_postgres_add_text(parameters, first == 1 ? plan->spans[0].text : (moonpad_string){"", 0});
  if (first == plan->span_count) {
    mp_postgres_add_null(parameters);
    mp_postgres_add_null(parameters);
    return;
  }
  mp_postgres_begin_array(parameters, MP_PG_TEXT);
  for (size_t i = first; i < plan->span_count; i++) mp_postgres_item_bytes(parameters, plan->spans[i].text);
  mp_postgres_end_array(parameters);
  mp_postgres_begin_array(parameters, MP_PG_INT4);
  for (size_t i = first; i < plan->span_count; i++) {
    mp_postgres_item_small(parameters, number_of(plan, plan->spans[i].after));
  }
  mp_postgres_end_array(parameters);
}

static void add_plan(mp_postgres_parameters *parameters, const mp_plan *plan) {
  const mp_event_row *event = &plan->event;
  mp_postgres_add_integer(parameters, plan->ref.session);
  add_numbers(parameters, plan->snapshot);
  unsigned heads = add_guards(parameters, plan);
  mp_postgres_add_small(parameters, (int)heads);
  mp_postgres_add_bytes(parameters, event->id);
  mp_postgres_add_double(parameters, event->timestamp);
  mp_postgres_add_integer(parameters, (int64_t)event->digest);
  mp_postgres_add_small(parameters, (int)event->kinds);
  if (event->invocation.length > 0) {
    mp_postgres_add_text(parameters, event->invocation);
  } else {
    mp_postgres_add_null(parameters);
  }
  mp_postgres_add_double(parameters, plan->touched);
  add_since(parameters, plan);
  add_operations(parameters, plan, false);
  add_operations(parameters, plan, true);
  add_text(parameters, plan);
  mp_postgres_add_integer(parameters, plan->max_value_bytes);
  mp_postgres_add_integer(parameters, plan->max_event_bytes);
  mp_postgres_add_integer(parameters, plan->max_events);
}

/* ---- the answer ---- */

/* Columns of append_1. */
enum { NUMBERS, TIMES, RESULTS, CHANGED_SCOPE, CHANGED_KEY, CHANGED_VALUE, CHANGED_REVISION };

typedef struct answer {
  mp_postgres_connection *connection;
  mp_sent_plan *sent;
  bool is_sent;
  bool is_complete; /* what the plan has found is in it */
} answer;

static int64_t integer_of(moonpad_string json) {
  char digits[24];
  snprintf(digits, sizeof digits, "%.*s", (int)json.length, json.data);
  return strtoll(digits, NULL, 10);
}

static bool take_results(mp_env *env, mp_plan *plan, const PGresult *rows) {
  mp_postgres_array results = mp_postgres_array_of(rows, 0, RESULTS);
  moonpad_string json;
  for (size_t i = 0; i < plan->count; i++) {
    if (!mp_plan_adds(&plan->operations[i])) continue;
    if (!mp_postgres_next_item(&results, &json) || json.data == NULL) return false;
    mp_guarded *operation = &plan->operations[i];
    if (operation->kind == MP_GUARDED_ADD) {
      operation->result->as.as.integer = integer_of(json);
    } else {
      operation->result = mp_value_from_trusted_json(env, json);
    }
    if (operation->result == NULL) return false;
  }
  return true;
}

static bool emit_changes(mp_postgres_connection *connection, mp_plan *plan, const PGresult *rows) {
  mp_postgres_array columns[4];
  for (int i = 0; i < 4; i++) columns[i] = mp_postgres_array_of(rows, 0, CHANGED_SCOPE + i);
  moonpad_string scope, key, value, revision;
  moonpad_status status = MOONPAD_OK;
  while (status == MOONPAD_OK && mp_postgres_next_item(&columns[0], &scope) &&
         mp_postgres_next_item(&columns[1], &key) && mp_postgres_next_item(&columns[2], &value) &&
         mp_postgres_next_item(&columns[3], &revision)) {
    mp_state_row row;
    status = mp_postgres_read_state(connection, (mp_scope)mp_postgres_item_as_integer(scope), key, value,
                                    mp_postgres_item_as_integer(revision), &row, NULL);
    if (status == MOONPAD_OK) status = plan->each_state(plan->context, &row, NULL);
    mp_value_release(connection->store->remote.env, row.value);
  }
  return status == MOONPAD_OK || status == MP_STOP;
}

/* Never fails: what cannot be taken in is found out by the service in a transaction. */
static moonpad_status take_answer(void *context, const PGresult *rows, moonpad_error *error) {
  answer *self = context;
  mp_plan *plan = self->sent->plan;
  mp_env *env = self->connection->store->remote.env;
  (void)error;
  self->is_complete = PQntuples(rows) == 1 && mp_postgres_read_heads(rows, 0, NUMBERS, TIMES, &plan->facts) &&
                      take_results(env, plan, rows);
  if (!self->is_complete) return MOONPAD_OK;
  mp_plan_note_whole(plan);
  plan->lacks_changes = !emit_changes(self->connection, plan, rows);
  if (plan->lacks_changes && plan->begin != NULL) plan->begin(plan->context);
  return MOONPAD_OK;
}

static void forget(mp_postgres_connection *connection, answer *answers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    mp_plan *plan = answers[i].sent->plan;
    mp_plan_forget(connection->store->remote.env, plan);
    if (plan->begin != NULL) plan->begin(plan->context);
    answers[i].connection = connection;
    answers[i].is_complete = false;
  }
}

static void note_stored(mp_postgres_connection *connection, const answer *self) {
  mp_plan *plan = self->sent->plan;
  if (!self->is_complete) mp_plan_forget(connection->store->remote.env, plan);
  plan->outcome = self->is_complete ? MP_OUTCOME_STORED : MP_OUTCOME_DUPLICATE;
}

static moonpad_status send_plan(mp_postgres_connection *connection, answer *self) {
  mp_postgres_parameters parameters;
  moonpad_error error;
  if (!mp_plan_reserve_sums(connection->store->remote.env, self->sent->plan)) {
    return mp_postgres_note(connection, mp_no_memory(&error), &error);
  }
  mp_postgres_parameters_init(&parameters, connection);
  add_plan(&parameters, self->sent->plan);
  return mp_postgres_send(connection, MP_PG_APPEND, &parameters, take_answer, self, NULL);
}

/* ---- one transaction for all ---- */

/* Those sessions, or the users that are counted up. */
static moonpad_status lock_heads(mp_postgres_connection *connection, mp_scope scope, const answer *answers,
                                 size_t count) {
  bool is_user = scope == MP_SCOPE_USER;
  mp_postgres_parameters parameters;
  mp_postgres_parameters_init(&parameters, connection);
  mp_postgres_begin_array(&parameters, MP_PG_INT8);
  for (size_t i = 0; i < count; i++) {
    const mp_plan *plan = answers[i].sent->plan;
    if ((mp_plan_heads(plan) & MP_HEAD(scope)) == 0) continue;
    mp_postgres_item_integer(&parameters, is_user ? plan->ref.user : plan->ref.session);
  }
  mp_postgres_end_array(&parameters);
  return mp_postgres_send(connection, is_user ? MP_PG_LOCK_USERS : MP_PG_LOCK_SESSIONS, &parameters, NULL, NULL, NULL);
}

/*
** Every transaction locks sessions before users before apps, and of each in one order, so that none
** waits for one that waits for it. The apps are locked by the plans themselves, as late as can be,
** because most others want them: the plans come in the order of their apps, or of their sessions
** where only those are locked, and that is enough then.
*/
static moonpad_status lock_in_order(mp_postgres_connection *connection, answer *answers, size_t count) {
  unsigned heads = 0;
  for (size_t i = 0; i < count; i++) heads |= mp_plan_heads(answers[i].sent->plan);
  bool has_sessions_alone = heads == MP_HEAD(MP_SCOPE_SESSION);
  if (has_sessions_alone) return MOONPAD_OK;
  moonpad_status status = lock_heads(connection, MP_SCOPE_SESSION, answers, count);
  return status == MOONPAD_OK ? lock_heads(connection, MP_SCOPE_USER, answers, count) : status;
}

static moonpad_status send_together(mp_postgres_connection *connection, answer *answers, size_t count) {
  forget(connection, answers, count);
  moonpad_status status = mp_postgres_send(connection, MP_PG_BEGIN, NULL, NULL, NULL, NULL);
  if (status == MOONPAD_OK) status = lock_in_order(connection, answers, count);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) status = send_plan(connection, &answers[i]);
  if (status == MOONPAD_OK) status = mp_postgres_send(connection, MP_PG_COMMIT, NULL, NULL, NULL, NULL);
  if (status == MOONPAD_OK) status = mp_postgres_round_trip(connection, NULL);
  if (status == MOONPAD_OK) {
    for (size_t i = 0; i < count; i++) note_stored(connection, &answers[i]);
    return status;
  }
  if (mp_remote_is_broken(&connection->base)) return status;
  mp_postgres_round_trip(connection, NULL); /* of what was sent before a failure of this side */
  if (mp_remote_is_broken(&connection->base)) return status;
  mp_remote_clear_failure(&connection->base);
  mp_postgres_send(connection, MP_PG_ROLLBACK, NULL, NULL, NULL, NULL);
  connection->base.must_close = mp_postgres_round_trip(connection, NULL) != MOONPAD_OK;
  return status;
}

/* ---- each by itself ---- */

static void note_failure(mp_postgres_connection *connection, answer *self) {
  static const char *const refused[] = {"MP001", "22P02", "22003"};
  const mp_remote_failure *failure = &connection->base.failure;
  mp_plan *plan = self->sent->plan;
  mp_plan_forget(connection->store->remote.env, plan);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    if (strcmp(failure->code, refused[i]) == 0) plan->outcome = MP_OUTCOME_REFUSED;
  }
  if (strcmp(failure->code, "MP002") == 0) plan->outcome = MP_OUTCOME_MISSING;
  if (failure->status == MOONPAD_ALREADY_EXISTS) plan->outcome = MP_OUTCOME_DUPLICATE;
  /* Its own first sending may be what stands against it. */
  if (plan->outcome == MP_OUTCOME_REFUSED && self->sent->is_resent) plan->outcome = MP_OUTCOME_DUPLICATE;
  if (plan->outcome != MP_OUTCOME_NOT_TRIED || failure->again != MP_AGAIN_NEVER) return;
  plan->error = failure->error;
}

/*
** Those whose turn has not come when the connection is lost stay untried, like those that failed
** because of others. The failure of the last of these is left in the connection.
*/
static void send_apart(mp_postgres_connection *connection, answer *answers, size_t count) {
  mp_remote_failure last = {.status = MOONPAD_OK};
  forget(connection, answers, count);
  if (connection->pending_count > 0) mp_postgres_receive(connection, NULL);
  for (size_t i = 0; i < count && !mp_remote_is_broken(&connection->base); i++) {
    answers[i].is_sent = send_plan(connection, &answers[i]) == MOONPAD_OK;
    if (!answers[i].is_sent && !mp_remote_is_broken(&connection->base)) {
      note_failure(connection, &answers[i]);
      mp_remote_clear_failure(&connection->base);
    }
    mp_postgres_send_sync(connection, NULL);
  }
  for (size_t i = 0; i < count && !mp_remote_is_broken(&connection->base); i++) {
    mp_remote_clear_failure(&connection->base);
    moonpad_status status = mp_postgres_receive_part(connection, NULL);
    if (!answers[i].is_sent) continue;
    if (status == MOONPAD_OK) note_stored(connection, &answers[i]);
    if (status != MOONPAD_OK && !mp_remote_is_broken(&connection->base)) note_failure(connection, &answers[i]);
    if (mp_remote_is_untried(answers[i].sent)) last = connection->base.failure;
  }
  if (!mp_remote_is_broken(&connection->base)) connection->base.failure = last;
}

/* ---- the whole ---- */

void mp_postgres_send_plans(mp_remote_connection *base, mp_sent_plan *const *plans, size_t count) {
  mp_postgres_connection *connection = (mp_postgres_connection *)base;
  answer answers[MP_LARGEST_SEND];
  for (size_t i = 0; i < count; i++) answers[i] = (answer){.sent = plans[i]};
  bool is_done = count > 1 && send_together(connection, answers, count) == MOONPAD_OK;
  bool is_usable = !mp_remote_is_broken(base) && !base->must_close;
  if (!is_done && is_usable) send_apart(connection, answers, count);
}
