/*
** Plans (store/plan.h): each is a call of append_1 (tables.c) that decides, and statements that
** write what was decided. One plan is a transaction by itself; several share
** one. If that fails, each is sent by itself.
*/
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/mysql/mysql.h"

typedef struct answer {
  mp_mysql_connection *connection;
  mp_sent_plan *sent;
  bool is_complete; /* what the plan has found is in it */
  bool has_results;
} answer;

static size_t added_count(const mp_plan *plan) {
  size_t count = 0;
  for (size_t i = 0; i < plan->count; i++) count += mp_plan_adds(&plan->operations[i]);
  return count;
}

/* Its event is known before it is sent: no sum is in it. */
static bool is_whole(const mp_plan *plan) {
  return plan->span_count == 1 && plan->spans[0].after == MP_NO_RESULT;
}

/* ---- the answer ---- */

static void emit_change(answer *self, const mp_mysql_row *row) {
  mp_plan *plan = self->sent->plan;
  mp_state_row found;
  if (plan->lacks_changes) return;
  moonpad_status status = mp_mysql_read_state(self->connection, row, &found, NULL);
  if (status == MOONPAD_OK) status = plan->each_state(plan->context, &found, NULL);
  mp_value_release(self->connection->store->remote.env, found.value);
  if (status == MOONPAD_OK || status == MP_STOP) return;
  plan->lacks_changes = true;
  if (plan->begin != NULL) plan->begin(plan->context);
}

/*
** Never fails: what cannot be taken in is found out by the service in a transaction. What others
** have changed comes before the heads.
*/
static moonpad_status take_row(void *context, const mp_mysql_row *row, moonpad_error *error) {
  answer *self = context;
  mp_plan *plan = self->sent->plan;
  (void)error;
  if (row->count != MP_MYSQL_HEADS) {
    emit_change(self, row);
    return MOONPAD_OK;
  }
  self->is_complete = mp_mysql_read_heads(row, 0, &plan->facts);
  if (self->is_complete) mp_plan_note_whole(plan);
  return MOONPAD_OK;
}

static moonpad_status take_results(void *context, const mp_mysql_row *row, moonpad_error *error) {
  answer *self = context;
  mp_plan *plan = self->sent->plan;
  unsigned column = 0;
  (void)error;
  self->has_results = true;
  for (size_t i = 0; i < plan->count; i++) {
    mp_guarded *operation = &plan->operations[i];
    if (!mp_plan_adds(operation)) continue;
    moonpad_string json = mp_mysql_bytes_of(row, column);
    if (json.data == NULL) {
      self->has_results = false;
    } else if (operation->kind == MP_GUARDED_ADD) {
      operation->result->as.as.integer = mp_mysql_integer_of(row, column);
    } else {
      operation->result = mp_value_from_trusted_json(self->connection->store->remote.env, json);
      self->has_results = self->has_results && operation->result != NULL;
    }
    column++;
  }
  return MOONPAD_OK;
}

/* ---- the text of a plan ---- */

static void add_numbers(mp_mysql_connection *connection, const int64_t numbers[MP_STORED_SCOPES]) {
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) mp_mysql_sql_integer(connection, ",", numbers[scope]);
}

/* The smallest guard of each scope. */
static void add_least(mp_mysql_connection *connection, const mp_plan *plan) {
  int64_t least[MP_STORED_SCOPES] = {MP_UNGUARDED, MP_UNGUARDED, MP_UNGUARDED};
  for (size_t i = 0; i < plan->count; i++) {
    const mp_guarded *operation = &plan->operations[i];
    int64_t *found = &least[operation->scope];
    if (operation->base != MP_UNGUARDED && (*found < 0 || operation->base < *found)) *found = operation->base;
  }
  add_numbers(connection, least);
}

static void add_since(mp_mysql_connection *connection, const mp_plan *plan) {
  bool expires = false;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) expires = expires || plan->touched_since[scope] != 0;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    mp_mysql_sql(connection, ",");
    if (expires) {
      mp_mysql_double(connection, plan->touched_since[scope]);
    } else {
      mp_mysql_sql(connection, "NULL");
    }
  }
}

/* Of each guarded key its scope, base and length in digits, and itself. */
static void add_guards(mp_mysql_connection *connection, const mp_plan *plan) {
  mp_buffer *scratch = &connection->scratch;
  mp_buffer_clear(scratch);
  for (size_t i = 0; i < plan->count; i++) {
    const mp_guarded *operation = &plan->operations[i];
    char head[32];
    if (operation->base == MP_UNGUARDED) continue;
    int length = snprintf(head, sizeof head, "%d%018lld%04zu", (int)operation->scope, (long long)operation->base,
                          operation->key.length);
    mp_buffer_add(scratch, head, (size_t)length);
    mp_buffer_add_string(scratch, operation->key);
  }
  if (scratch->failed) connection->text.failed = true;
  mp_mysql_bytes(connection, (moonpad_string){scratch->length == 0 ? "" : scratch->data, scratch->length});
  mp_buffer_clear(scratch);
}

static void add_head(answer *self) {
  mp_mysql_connection *connection = self->connection;
  const mp_plan *plan = self->sent->plan;
  const mp_event_row *event = &plan->event;
  bool may_be_known = plan->id_given || self->sent->is_resent;
  mp_mysql_begin_append(connection, take_row, self);
  mp_mysql_sql_integer(connection, "CALL #append_1(", plan->ref.session);
  mp_mysql_sql_integer(connection, ",", plan->ref.user);
  mp_mysql_sql_integer(connection, ",", plan->ref.app);
  add_numbers(connection, plan->snapshot);
  add_least(connection, plan);
  mp_mysql_sql_integer(connection, ",", (int64_t)mp_plan_heads(plan));
  mp_mysql_sql(connection, may_be_known ? ",1," : ",0,");
  mp_mysql_event(connection, event);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, is_whole(plan) ? plan->spans[0].text : (moonpad_string){NULL, 0});
  mp_mysql_sql(connection, ",");
  mp_mysql_double(connection, plan->touched);
  add_since(connection, plan);
  mp_mysql_sql_integer(connection, ",", plan->max_events);
  mp_mysql_sql(connection, ",");
  add_guards(connection, plan);
  mp_mysql_sql(connection, ")");
}

/* The user variable that holds the result of an operation that adds. */
static void add_variable(mp_mysql_connection *connection, size_t operation) {
  mp_mysql_sql_integer(connection, "@mp_v", (int64_t)operation);
}

static const char *const owners[] = {"@mp_session", "@mp_user", "@mp_app"};
static const char *const revisions[] = {"@mp_s", "@mp_u", "@mp_a"};

/* The scope, the owner and the key of an operation, each with a comma behind it. */
static void add_address(mp_mysql_connection *connection, const mp_guarded *operation) {
  mp_mysql_integer(connection, (int64_t)operation->scope);
  mp_mysql_sql(connection, ",");
  mp_mysql_sql(connection, owners[operation->scope]);
  mp_mysql_sql(connection, ",");
  mp_mysql_bytes(connection, operation->key);
  mp_mysql_sql(connection, ",");
}

static void add_sums(mp_mysql_connection *connection, const mp_plan *plan) {
  for (size_t i = 0; i < plan->count; i++) {
    const mp_guarded *operation = &plan->operations[i];
    if (!mp_plan_adds(operation)) continue;
    mp_mysql_begin_call(connection, NULL, NULL);
    mp_mysql_sql(connection, operation->kind == MP_GUARDED_ADD ? "CALL #sum_1(" : "CALL #extend_1(");
    add_address(connection, operation);
    mp_mysql_value(connection, operation->value);
    mp_mysql_sql_integer(connection, ",", plan->max_value_bytes);
    mp_mysql_sql(connection, ",");
    add_variable(connection, i);
    mp_mysql_sql(connection, ")");
  }
}

/* Without results the service knows how long the event is, and with sums how long it is at most. */
static void add_length_check(mp_mysql_connection *connection, const mp_plan *plan) {
  int64_t length = 0, most = 0;
  for (size_t i = 0; i < plan->span_count; i++) {
    size_t after = plan->spans[i].after;
    length += (int64_t)plan->spans[i].text.length;
    if (after == MP_NO_RESULT) continue;
    most += plan->operations[after].kind == MP_GUARDED_ADD ? 20 : plan->max_event_bytes + 1;
  }
  if (plan->max_event_bytes <= 0 || length + most <= plan->max_event_bytes) return;
  mp_mysql_begin_call(connection, NULL, NULL);
  mp_mysql_sql_integer(connection, "CALL #check_length_1(", length);
  for (size_t i = 0; i < plan->span_count; i++) {
    if (plan->spans[i].after == MP_NO_RESULT) continue;
    mp_mysql_sql(connection, "+LENGTH(");
    add_variable(connection, plan->spans[i].after);
    mp_mysql_sql(connection, ")");
  }
  mp_mysql_sql_integer(connection, ",", plan->max_event_bytes);
  mp_mysql_sql(connection, ")");
}

static void add_keys(mp_mysql_connection *connection, const mp_plan *plan) {
  if (plan->count == 0) return;
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection, "INSERT INTO #state VALUES ");
  for (size_t i = 0; i < plan->count; i++) {
    const mp_guarded *operation = &plan->operations[i];
    mp_mysql_sql(connection, i == 0 ? "(" : ",(");
    add_address(connection, operation);
    if (mp_plan_adds(operation)) {
      add_variable(connection, i);
    } else {
      mp_mysql_value(connection, operation->kind == MP_GUARDED_REMOVE ? NULL : operation->value);
    }
    mp_mysql_sql(connection, ",");
    mp_mysql_sql(connection, revisions[operation->scope]);
    mp_mysql_sql(connection, ")");
  }
  mp_mysql_sql(connection, " ON DUPLICATE KEY UPDATE value = VALUES(value), revision = VALUES(revision)");
}

static void add_event(mp_mysql_connection *connection, const mp_plan *plan) {
  mp_mysql_begin_events(connection);
  mp_mysql_sql(connection, "INSERT INTO #events VALUES (@mp_session,@mp_s,");
  mp_mysql_event(connection, &plan->event);
  mp_mysql_sql(connection, ",CONCAT(");
  for (size_t i = 0; i < plan->span_count; i++) {
    if (i > 0) mp_mysql_sql(connection, ",");
    if (plan->spans[i].after != MP_NO_RESULT) {
      add_variable(connection, plan->spans[i].after);
      mp_mysql_sql(connection, ",");
    }
    mp_mysql_bytes(connection, plan->spans[i].text);
  }
  mp_mysql_sql(connection, "))");
}

static void add_results(answer *self) {
  const mp_plan *plan = self->sent->plan;
  bool is_first = true;
  mp_mysql_begin(self->connection, take_results, self);
  mp_mysql_sql(self->connection, "SELECT ");
  for (size_t i = 0; i < plan->count; i++) {
    if (!mp_plan_adds(&plan->operations[i])) continue;
    if (!is_first) mp_mysql_sql(self->connection, ",");
    add_variable(self->connection, i);
    is_first = false;
  }
}

static void add_plan(answer *self) {
  const mp_plan *plan = self->sent->plan;
  mp_mysql_connection *connection = self->connection;
  add_head(self);
  add_sums(connection, plan);
  add_length_check(connection, plan);
  add_keys(connection, plan);
  if (!is_whole(plan)) add_event(connection, plan);
  self->has_results = added_count(plan) == 0;
  if (!self->has_results) add_results(self);
}

/* ---- sending ---- */

static moonpad_status prepare(mp_mysql_connection *connection, answer *self) {
  mp_env *env = connection->store->remote.env;
  mp_plan *plan = self->sent->plan;
  moonpad_error error;
  mp_plan_forget(env, plan);
  if (plan->begin != NULL) plan->begin(plan->context);
  self->connection = connection;
  self->is_complete = false;
  if (mp_plan_reserve_sums(env, plan)) return MOONPAD_OK;
  return mp_mysql_note(connection, mp_no_memory(&error), &error);
}

static void note_stored(const answer *self) {
  mp_plan *plan = self->sent->plan;
  bool is_known = self->is_complete && self->has_results;
  if (!is_known) mp_plan_forget(self->connection->store->remote.env, plan);
  plan->outcome = is_known ? MP_OUTCOME_STORED : MP_OUTCOME_DUPLICATE;
}

/* ---- one transaction for all ---- */

/* Those sessions, or the users that are counted up. */
static void lock_heads(mp_mysql_connection *connection, mp_scope scope, const answer *answers, size_t count) {
  bool is_user = scope == MP_SCOPE_USER;
  mp_mysql_begin(connection, NULL, NULL);
  mp_mysql_sql(connection,
               is_user ? "SELECT id FROM #users WHERE id IN (0" : "SELECT id FROM #sessions WHERE id IN (0");
  for (size_t i = 0; i < count; i++) {
    const mp_plan *plan = answers[i].sent->plan;
    if ((mp_plan_heads(plan) & MP_HEAD(scope)) == 0) continue;
    mp_mysql_sql_integer(connection, ",", is_user ? plan->ref.user : plan->ref.session);
  }
  mp_mysql_sql(connection, ") ORDER BY id FOR UPDATE");
}

/*
** Every transaction locks sessions before users before apps, and of each in one order, so that none
** waits for one that waits for it. The apps are locked by the plans themselves, as late as can be,
** because most others want them: the plans come in the order of their apps, or of their sessions
** where only those are locked, and that is enough then.
*/
static void lock_in_order(mp_mysql_connection *connection, answer *answers, size_t count) {
  unsigned heads = 0;
  for (size_t i = 0; i < count; i++) heads |= mp_plan_heads(answers[i].sent->plan);
  bool has_sessions_alone = heads == MP_HEAD(MP_SCOPE_SESSION);
  if (has_sessions_alone) return;
  lock_heads(connection, MP_SCOPE_SESSION, answers, count);
  lock_heads(connection, MP_SCOPE_USER, answers, count);
}

static moonpad_status send_together(mp_mysql_connection *connection, answer *answers, size_t count) {
  moonpad_status status = MOONPAD_OK;
  mp_mysql_add_begin(connection);
  lock_in_order(connection, answers, count);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    status = prepare(connection, &answers[i]);
    if (status == MOONPAD_OK) add_plan(&answers[i]);
  }
  if (status == MOONPAD_OK) status = mp_mysql_commit(connection, NULL);
  mp_mysql_forget(connection);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) note_stored(&answers[i]);
  return status;
}

/* ---- each by itself ---- */

static mp_plan_outcome outcome_of(const mp_remote_failure *failure) {
  unsigned long number = strtoul(failure->code, NULL, 10);
  if (failure->status == MOONPAD_ALREADY_EXISTS) return MP_OUTCOME_DUPLICATE;
  if (number == MP_MYSQL_MISSING) return MP_OUTCOME_MISSING;
  /* What is longer than a packet is NULL where it was put together; `write` sends it in parts. */
  bool is_refused = number == MP_MYSQL_REFUSED || number == ER_BAD_NULL_ERROR;
  return is_refused || failure->status == MOONPAD_LIMIT ? MP_OUTCOME_REFUSED : MP_OUTCOME_NOT_TRIED;
}

static void note_failure(mp_mysql_connection *connection, answer *self) {
  const mp_remote_failure *failure = &connection->base.failure;
  mp_plan *plan = self->sent->plan;
  mp_plan_forget(connection->store->remote.env, plan);
  plan->outcome = outcome_of(failure);
  /* Its own first sending may be what stands against it. */
  if (plan->outcome == MP_OUTCOME_REFUSED && self->sent->is_resent) plan->outcome = MP_OUTCOME_DUPLICATE;
  if (plan->outcome != MP_OUTCOME_NOT_TRIED || failure->again != MP_AGAIN_NEVER) return;
  plan->error = failure->error;
}

/*
** Those whose turn has not come when the connection is lost stay untried, like those that failed
** because of others. The failure of the last of these is left in the connection.
*/
static void send_apart(mp_mysql_connection *connection, answer *answers, size_t count) {
  mp_remote_failure last = {.status = MOONPAD_OK};
  for (size_t i = 0; i < count && !mp_remote_is_broken(&connection->base); i++) {
    mp_remote_clear_failure(&connection->base);
    moonpad_status status = prepare(connection, &answers[i]);
    if (status == MOONPAD_OK) {
      mp_mysql_add_begin(connection);
      add_plan(&answers[i]);
      status = mp_mysql_commit(connection, NULL);
    }
    mp_mysql_forget(connection);
    if (status == MOONPAD_OK) note_stored(&answers[i]);
    if (status != MOONPAD_OK && !mp_remote_is_broken(&connection->base)) note_failure(connection, &answers[i]);
    if (mp_remote_is_untried(answers[i].sent)) last = connection->base.failure;
  }
  if (!mp_remote_is_broken(&connection->base)) connection->base.failure = last;
}

/* ---- the whole ---- */

void mp_mysql_send_plans(mp_remote_connection *base, mp_sent_plan *const *plans, size_t count) {
  mp_mysql_connection *connection = (mp_mysql_connection *)base;
  answer answers[MP_LARGEST_SEND];
  for (size_t i = 0; i < count; i++) answers[i] = (answer){.sent = plans[i]};
  bool is_done = count > 1 && send_together(connection, answers, count) == MOONPAD_OK;
  bool is_usable = !mp_remote_is_broken(base) && !base->must_close;
  if (!is_done && is_usable) send_apart(connection, answers, count);
}
