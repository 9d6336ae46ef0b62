/*
** Plans (store/plan.h): each is one call of a script, which is a transaction by itself. Several go
** out together and are answered in order.
*/
#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "store/redis/redis.h"

#define KEYS 13

/* ---- the keys ---- */

static void add_keys(mp_redis_arguments *out, const mp_redis *store, const mp_plan *plan) {
  static const char *const parts[] = {":v", ":z", ":e", ":i"}, *const shared[] = {"", ":v", ":z"};
  char id[MP_NUMBER_BYTES + 1];
  id[mp_format_integer(plan->ref.session, id)] = '\0';
  mp_redis_begin_key(out, store, plan->ref.name.app_name);
  mp_buffer_add_literal(&out->bytes, "s:");
  mp_redis_encode(out, plan->ref.name.user_id);
  mp_buffer_add_char(&out->bytes, ':');
  mp_redis_encode(out, plan->ref.name.session_id);
  mp_redis_end_argument(out);
  for (size_t i = 0; i < 4; i++) {
    mp_redis_begin_key(out, store, plan->ref.name.app_name);
    mp_buffer_add_string(&out->bytes, moonpad_text(id));
    mp_redis_end_key(out, parts[i]);
  }
  for (size_t i = 0; i < 6; i++) {
    mp_redis_begin_key(out, store, plan->ref.name.app_name);
    mp_buffer_add_string(&out->bytes, moonpad_text(i < 3 ? "u:" : "a"));
    if (i < 3) mp_redis_encode(out, plan->ref.name.user_id);
    mp_redis_end_key(out, shared[i % 3]);
  }
  mp_redis_begin_key(out, store, plan->ref.name.app_name);
  mp_redis_end_key(out, "l");
  mp_redis_begin_key(out, store, plan->ref.name.app_name);
  mp_buffer_add_literal(&out->bytes, "u:");
  mp_redis_encode(out, plan->ref.name.user_id);
  mp_redis_end_key(out, ":l");
}

/* ---- the arguments ---- */

static void add_event(mp_redis_arguments *out, const mp_event_row *event) {
  mp_redis_add(out, event->id);
  mp_redis_add_time(out, event->timestamp);
  mp_redis_add_about(out, event);
  mp_redis_add_switch(out, (event->kinds & MP_EVENT_USER_MESSAGE) != 0);
}

static void add_list_names(mp_redis_arguments *out, const moonpad_session_name *name) {
  mp_buffer_add_string(&out->bytes, name->user_id);
  mp_buffer_add_char(&out->bytes, '\0');
  mp_redis_add(out, name->session_id);
  mp_redis_add(out, name->session_id);
}

static void add_operation(mp_redis_arguments *out, const mp_guarded *operation) {
  static const char *const kinds[] = {"s", "r", "a", "e"};
  mp_redis_add_text(out, kinds[operation->kind]);
  mp_redis_add_integer(out, (int64_t)operation->scope);
  mp_redis_add_integer(out, operation->base);
  mp_redis_add(out, operation->key);
  mp_redis_add_value(out, operation->kind == MP_GUARDED_REMOVE ? NULL : operation->value);
}

static void add_plan(mp_redis_arguments *out, const mp_redis *store, const mp_plan *plan) {
  add_keys(out, store, plan);
  mp_redis_add_integer(out, plan->ref.session);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) mp_redis_add_integer(out, plan->snapshot[scope]);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) mp_redis_add_time(out, plan->touched_since[scope]);
  mp_redis_add_integer(out, plan->max_events);
  mp_redis_add_integer(out, plan->max_value_bytes);
  mp_redis_add_integer(out, plan->max_event_bytes);
  mp_redis_add_time(out, plan->touched);
  add_event(out, &plan->event);
  add_list_names(out, &plan->ref.name);
  mp_redis_add_integer(out, (int64_t)plan->count);
  mp_redis_add_integer(out, (int64_t)plan->span_count);
  for (size_t i = 0; i < plan->count; i++) add_operation(out, &plan->operations[i]);
  for (size_t i = 0; i < plan->span_count; i++) {
    size_t after = plan->spans[i].after;
    mp_redis_add_integer(out, after == MP_NO_RESULT ? 0 : (int64_t)after + 1);
    mp_redis_add(out, plan->spans[i].text);
  }
}

/* ---- the answer ---- */

static bool take_results(mp_env *env, mp_plan *plan, const redisReply *results) {
  size_t next = 0;
  for (size_t i = 0; i < plan->count; i++) {
    mp_guarded *operation = &plan->operations[i];
    if (!mp_plan_adds(operation)) continue;
    const redisReply *json = mp_redis_item(results, next++);
    if (mp_redis_string(json).data == NULL) return false;
    if (operation->kind == MP_GUARDED_ADD) {
      operation->result->as.as.integer = mp_redis_integer(json);
    } else {
      operation->result = mp_value_from_trusted_json(env, mp_redis_string(json));
    }
    if (operation->result == NULL) return false;
  }
  return true;
}

static bool emit_changes(mp_redis_connection *connection, mp_plan *plan, const redisReply *rows) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i + 3 < mp_redis_count(rows); i += 4) {
    mp_state_row row;
    status = mp_redis_read_row(connection, rows, i, &row, NULL);
    if (status == MOONPAD_OK) status = plan->each_state(plan->context, &row, NULL);
    mp_value_release(connection->store->remote.env, row.value);
  }
  return status == MOONPAD_OK || status == MP_STOP;
}

/* Never fails: what cannot be taken in is found out by the service in a transaction. */
static void take_stored(mp_redis_connection *connection, mp_plan *plan, const redisReply *reply) {
  mp_env *env = connection->store->remote.env;
  bool is_complete =
      mp_redis_read_heads(mp_redis_item(reply, 1), &plan->facts) && take_results(env, plan, mp_redis_item(reply, 2));
  if (!is_complete) {
    mp_plan_forget(env, plan);
    plan->outcome = MP_OUTCOME_DUPLICATE;
    return;
  }
  mp_plan_note_whole(plan);
  plan->lacks_changes = !emit_changes(connection, plan, mp_redis_item(reply, 3));
  if (plan->lacks_changes && plan->begin != NULL) plan->begin(plan->context);
  plan->outcome = MP_OUTCOME_STORED;
}

static void take_answer(mp_redis_connection *connection, mp_sent_plan *sent, const redisReply *reply) {
  const redisReply *word = mp_redis_item(reply, 0);
  mp_plan *plan = sent->plan;
  if (mp_redis_says(word, "S")) {
    take_stored(connection, plan, reply);
    return;
  }
  mp_plan_forget(connection->store->remote.env, plan);
  plan->outcome = mp_redis_says(word, "M")   ? MP_OUTCOME_MISSING
                  : mp_redis_says(word, "D") ? MP_OUTCOME_DUPLICATE
                                             : MP_OUTCOME_REFUSED;
  /* Its own first sending may be what stands against it. */
  if (plan->outcome == MP_OUTCOME_REFUSED && sent->is_resent) plan->outcome = MP_OUTCOME_DUPLICATE;
}

/* What is worth trying again stays untried; the failure is left in the connection. */
static void note_failure(mp_redis_connection *connection, mp_plan *plan) {
  const mp_remote_failure *failure = &connection->base.failure;
  mp_plan_forget(connection->store->remote.env, plan);
  if (failure->again == MP_AGAIN_NEVER) plan->error = failure->error;
}

/* ---- sending ---- */

static bool send_plan(mp_redis_connection *connection, mp_sent_plan *sent, bool by_hash) {
  mp_redis_arguments arguments;
  mp_env *env = connection->store->remote.env;
  mp_plan *plan = sent->plan;
  moonpad_error error;
  mp_plan_forget(env, plan);
  if (plan->begin != NULL) plan->begin(plan->context);
  mp_redis_arguments_init(&arguments, env);
  bool has_room = mp_plan_reserve_sums(env, plan);
  if (!has_room) mp_redis_note(connection, mp_no_memory(&error), &error, NULL);
  if (has_room) add_plan(&arguments, connection->store, plan);
  const mp_redis_arguments *parts[] = {&arguments};
  bool is_sent = has_room && mp_redis_go_to_app(connection, plan->ref.name.app_name, NULL) == MOONPAD_OK &&
                 mp_redis_send_script(connection, MP_REDIS_APPEND, KEYS, by_hash, parts, 1, NULL) == MOONPAD_OK;
  mp_redis_arguments_free(&arguments);
  if (!is_sent) note_failure(connection, plan);
  return is_sent;
}

/*
** Receives the answer to a plan. True: the server does not know the script, and nothing has come of
** it.
*/
static bool receive_plan(mp_redis_connection *connection, mp_sent_plan *sent) {
  redisReply *reply = NULL;
  moonpad_status status = mp_redis_go_to_app(connection, sent->plan->ref.name.app_name, NULL);
  if (status == MOONPAD_OK) reply = mp_redis_receive(connection, NULL);
  if (reply == NULL) {
    mp_plan_forget(connection->store->remote.env, sent->plan);
    return false;
  }
  bool lacks_script = mp_redis_lacks_script(reply);
  if (!lacks_script && reply->type == REDIS_REPLY_ERROR) {
    mp_redis_fail(connection, reply, NULL);
    note_failure(connection, sent->plan);
  } else if (!lacks_script) {
    take_answer(connection, sent, reply);
  }
  freeReplyObject(reply);
  return lacks_script;
}

/* The failure of one plan, on a connection that goes on. */
static void keep_failure(mp_redis_connection *connection, mp_remote_failure *last) {
  if (mp_remote_is_broken(&connection->base)) return;
  if (connection->base.failure.again != MP_AGAIN_NEVER) *last = connection->base.failure;
  mp_remote_clear_failure(&connection->base);
}

/*
** Leaves in `plans` those for which the script was missing, and returns how many these are. *last:
** why one of those that are untried is to be sent again.
*/
static size_t send_all(mp_redis_connection *connection, mp_sent_plan **plans, size_t count, bool by_hash,
                       mp_remote_failure *last) {
  bool is_sent[MP_LARGEST_SEND];
  size_t left = 0;
  for (size_t i = 0; i < count; i++) {
    is_sent[i] = !mp_remote_is_broken(&connection->base) && send_plan(connection, plans[i], by_hash);
    keep_failure(connection, last);
  }
  if (connection->node_count > 1) mp_redis_flush(connection);
  for (size_t i = 0; i < count && !mp_remote_is_broken(&connection->base); i++) {
    if (!is_sent[i]) continue;
    if (receive_plan(connection, plans[i])) plans[left++] = plans[i];
    keep_failure(connection, last);
  }
  return left;
}

/* `plans` go on with some of one app, at one node: so many. */
static size_t count_of_app(mp_sent_plan *const *plans, size_t count) {
  moonpad_string app = plans[0]->plan->ref.name.app_name;
  size_t same = 1;
  for (; same < count; same++) {
    if (!mp_redis_is_same(plans[same]->plan->ref.name.app_name, app)) break;
  }
  return same;
}

/* It is stored, or may be: by an earlier sending, whose answer was lost. */
static bool may_be_stored(const mp_sent_plan *sent) {
  mp_plan_outcome outcome = sent->plan->outcome;
  return outcome == MP_OUTCOME_STORED || (outcome == MP_OUTCOME_DUPLICATE && sent->is_resent);
}

/* What is stored and not where it has to be has failed, and is found when it is sent again. */
static void wait_for_replicas(mp_redis_connection *connection, mp_sent_plan *const *plans, size_t count) {
  moonpad_error error;
  moonpad_status status = mp_redis_go_to_app(connection, plans[0]->plan->ref.name.app_name, &error);
  if (status == MOONPAD_OK) status = mp_redis_wait_for_replicas(connection, &error);
  if (status == MOONPAD_OK) return;
  if (!mp_remote_is_broken(&connection->base)) mp_remote_clear_failure(&connection->base);
  for (size_t i = 0; i < count; i++) {
    if (!may_be_stored(plans[i])) continue;
    mp_plan_forget(connection->store->remote.env, plans[i]->plan);
    if (!mp_remote_is_broken(&connection->base)) plans[i]->plan->error = error;
  }
}

void mp_redis_send_plans(mp_remote_connection *base, mp_sent_plan *const *plans, size_t count) {
  mp_redis_connection *connection = (mp_redis_connection *)base;
  mp_sent_plan *left[MP_LARGEST_SEND];
  memcpy(left, plans, count * sizeof *left);
  mp_remote_failure last = {.status = MOONPAD_OK};
  size_t lacking = send_all(connection, left, count, true, &last);
  if (lacking > 0 && !mp_remote_is_broken(base)) send_all(connection, left, lacking, false, &last);
  for (size_t i = 0, same; connection->store->replicas > 0 && i < count && !mp_remote_is_broken(base); i += same) {
    same = count_of_app(plans + i, count - i);
    wait_for_replicas(connection, plans + i, same);
  }
  if (!mp_remote_is_broken(base)) base->failure = last;
}
