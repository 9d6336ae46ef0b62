/* Carrying out a plan in a transaction. */
#include "store/plan.h"

#include "base/error.h"
#include "core/operations.h"

#define INLINE_OPERATIONS 8 /* as many need no allocation */

typedef struct plan_run {
  mp_env *env;
  mp_plan *plan;
  mp_state_row *keys; /* what is stored of each operation's key; inline_keys, or allocated */
  mp_state_row *writes;
  bool duplicate;
  mp_buffer event; /* the text, if it has more than one span */
  mp_state_row inline_keys[INLINE_OPERATIONS];
  mp_state_row inline_writes[INLINE_OPERATIONS];
} plan_run;

void mp_plan_forget(mp_env *env, mp_plan *plan) {
  for (size_t i = 0; i < plan->count; i++) {
    mp_value_release(env, plan->operations[i].result);
    plan->operations[i].result = NULL;
  }
  plan->error.code = MOONPAD_OK;
  plan->outcome = MP_OUTCOME_NOT_TRIED;
  plan->lacks_changes = false;
  memset(&plan->facts, 0, sizeof plan->facts);
}

static bool begin(plan_run *run, mp_env *env, mp_plan *plan) {
  run->env = env;
  run->plan = plan;
  run->duplicate = false;
  mp_buffer_init(&run->event, env);
  run->keys = run->inline_keys;
  run->writes = run->inline_writes;
  mp_plan_forget(env, plan);
  if (plan->begin != NULL) plan->begin(plan->context);
  if (plan->count > INLINE_OPERATIONS) {
    run->keys = mp_allocate_zeroed(env, plan->count * sizeof *run->keys);
    run->writes = mp_allocate(env, plan->count * sizeof *run->writes);
    if (run->keys == NULL || run->writes == NULL) return false;
  }
  for (size_t i = 0; i < plan->count; i++) {
    run->keys[i] = (mp_state_row){.scope = plan->operations[i].scope, .key = plan->operations[i].key};
  }
  return true;
}

static void end(plan_run *run) {
  if (run->keys != NULL) {
    for (size_t i = 0; i < run->plan->count; i++) mp_value_release(run->env, run->keys[i].value);
  }
  if (run->keys != run->inline_keys) mp_release(run->env, run->keys);
  if (run->writes != run->inline_writes) mp_release(run->env, run->writes);
  mp_buffer_free(&run->event);
}

/* ---- what is stored ---- */

static moonpad_status emit_state(void *context, const mp_state_row *row, moonpad_error *error) {
  const plan_run *run = context;
  return run->plan->each_state(run->plan->context, row, error);
}

static moonpad_status note_event(void *context, const mp_event_row *row, moonpad_error *error) {
  plan_run *run = context;
  (void)row, (void)error;
  run->duplicate = true;
  return MOONPAD_OK;
}

static moonpad_status look(plan_run *run, mp_tx *tx, moonpad_error *error) {
  const mp_plan *plan = run->plan;
  mp_look asked = {.ref = plan->ref,
                   .heads = MP_ALL_HEADS,
                   .keys = run->keys,
                   .key_count = plan->count,
                   .each_state = emit_state,
                   .each_event = note_event,
                   .context = run};
  memcpy(asked.since, plan->snapshot, sizeof asked.since);
  if (plan->id_given) asked.event_id = plan->event.id;
  return tx->ops->look(tx, &asked, &run->plan->facts, error);
}

/* ---- may it be stored? ---- */

static int64_t *head_revision(mp_session_row *row, mp_scope scope) {
  return scope == MP_SCOPE_USER ? &row->user_revision : scope == MP_SCOPE_APP ? &row->app_revision : &row->revision;
}

static bool heads_allow(const mp_plan *plan, mp_session_row *row) {
  if (plan->max_events != 0 && row->revision + 1 - row->base_revision > plan->max_events) return false;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    int64_t revision = *head_revision(row, (mp_scope)scope);
    double used = plan->facts.touched[scope];
    if (scope == MP_SCOPE_SESSION && used == 0) used = row->last_update_time;
    if (revision < plan->snapshot[scope] || revision >= MP_MAX_REVISION) return false;
    if (used != 0 && used < plan->touched_since[scope]) return false;
  }
  return true;
}

static bool guard_holds(const mp_plan *plan, const mp_guarded *operation, const mp_state_row *found) {
  if (operation->base == MP_UNGUARDED) return true;
  bool has_row = found->value != NULL || found->revision != 0;
  return operation->base >= (has_row ? found->revision : plan->facts.forgotten[operation->scope]);
}

/* Computes the new value. If there is none, that is no failure: *refused. */
static moonpad_status compute(plan_run *run, size_t index, bool *refused, moonpad_error *error) {
  mp_guarded *operation = &run->plan->operations[index];
  const mp_value *there = run->keys[index].value;
  moonpad_error reason;
  moonpad_status status = MOONPAD_OK;
  if (operation->kind == MP_GUARDED_ADD) {
    *refused = there != NULL && there->as.type != MOONPAD_INTEGER;
    if (*refused) return MOONPAD_OK;
    status = mp_add_number(run->env, operation->key, there, operation->value, &operation->result, &reason);
  } else {
    status = mp_extend_array(run->env, operation->key, there, operation->value, &operation->result, &reason);
  }
  *refused = status == MOONPAD_INVALID_ARGUMENT;
  if (status != MOONPAD_OK) return *refused ? MOONPAD_OK : mp_fail(error, status, "%s", reason.message);
  int64_t limit = run->plan->max_value_bytes;
  *refused = limit != 0 && mp_value_size(operation->result) > (size_t)limit;
  return MOONPAD_OK;
}

static moonpad_status decide(plan_run *run, bool *refused, moonpad_error *error) {
  mp_plan *plan = run->plan;
  moonpad_status status = MOONPAD_OK;
  *refused = !heads_allow(plan, &plan->facts.row);
  for (size_t i = 0; !*refused && i < plan->count; i++) {
    *refused = !guard_holds(plan, &plan->operations[i], &run->keys[i]);
  }
  for (size_t i = 0; status == MOONPAD_OK && !*refused && i < plan->count; i++) {
    mp_guarded_kind kind = plan->operations[i].kind;
    if (kind == MP_GUARDED_ADD || kind == MP_GUARDED_EXTEND) status = compute(run, i, refused, error);
  }
  return status;
}

/* The event's whole text: in run->event, unless it is a single span. */
static moonpad_status join(plan_run *run, moonpad_string *text, moonpad_error *error) {
  const mp_plan *plan = run->plan;
  *text = plan->spans[0].text;
  if (plan->span_count == 1 && plan->spans[0].after == MP_NO_RESULT) return MOONPAD_OK;
  for (size_t i = 0; i < plan->span_count; i++) {
    const mp_plan_span *span = &plan->spans[i];
    if (span->after != MP_NO_RESULT) mp_value_write(&run->event, plan->operations[span->after].result);
    mp_buffer_add_string(&run->event, span->text);
  }
  *text = mp_buffer_text(&run->event);
  return run->event.failed ? mp_no_memory(error) : MOONPAD_OK;
}

/* ---- storing ---- */

static moonpad_status store(plan_run *run, mp_tx *tx, moonpad_string text, moonpad_error *error) {
  const mp_plan *plan = run->plan;
  mp_session_row *row = &run->plan->facts.row;
  unsigned heads = MP_HEAD(MP_SCOPE_SESSION);
  for (size_t i = 0; i < plan->count; i++) heads |= MP_HEAD(plan->operations[i].scope);
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((heads & MP_HEAD(scope)) != 0) ++*head_revision(row, (mp_scope)scope);
  }
  for (size_t i = 0; i < plan->count; i++) {
    const mp_guarded *operation = &plan->operations[i];
    run->writes[i] =
        (mp_state_row){operation->scope, operation->key, operation->value, *head_revision(row, operation->scope)};
    if (operation->result != NULL) run->writes[i].value = operation->result;
    if (operation->kind == MP_GUARDED_REMOVE) run->writes[i].value = NULL;
  }
  mp_event_row event = plan->event;
  event.revision = row->revision;
  event.json = text;
  row->last_update_time = event.timestamp;
  if ((event.kinds & MP_EVENT_USER_MESSAGE) != 0) row->conversation_count++;
  mp_batch batch = {.ref = plan->ref,
                    .row = row,
                    .heads = heads,
                    .touched = plan->touched,
                    .keys = run->writes,
                    .key_count = plan->count,
                    .events = &event,
                    .event_count = 1};
  return tx->ops->apply(tx, &batch, error);
}

static moonpad_status carry_out(plan_run *run, mp_tx *tx, mp_plan_outcome *outcome, moonpad_error *error) {
  moonpad_status status = look(run, tx, error);
  *outcome = status == MOONPAD_NOT_FOUND ? MP_OUTCOME_MISSING : MP_OUTCOME_DUPLICATE;
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  if (status != MOONPAD_OK || run->duplicate) return status;
  bool refused = false;
  moonpad_string text;
  *outcome = MP_OUTCOME_REFUSED;
  status = decide(run, &refused, error);
  if (status != MOONPAD_OK || refused) return status;
  status = join(run, &text, error);
  int64_t limit = run->plan->max_event_bytes;
  if (status != MOONPAD_OK || (limit != 0 && text.length > (size_t)limit)) return status;
  *outcome = MP_OUTCOME_STORED;
  return store(run, tx, text, error);
}

moonpad_status mp_plan_run(mp_tx *tx, mp_env *env, mp_plan *plan, moonpad_error *error) {
  plan_run run;
  mp_plan_outcome outcome = MP_OUTCOME_NOT_TRIED;
  moonpad_status status = begin(&run, env, plan) ? carry_out(&run, tx, &outcome, error) : mp_no_memory(error);
  end(&run);
  if (status != MOONPAD_OK || outcome != MP_OUTCOME_STORED) mp_plan_forget(env, plan);
  if (status == MOONPAD_OK) plan->outcome = outcome;
  return status;
}
