/*
** An append as a plan: what can be decided from the snapshot (store/plan.h). For stores behind a
** network: the built-in ones take no plans.
*/
#include "store/plan.h"

#include "service/append/append.h"
#include "service/limits.h"
#include "service/names.h"

typedef struct making {
  mp_append_sending *sending;
  mp_append *append;
  mp_plan *plan;
  /* These three are the ones below, or one allocation; one element for each stored operation. */
  mp_guarded *operations;
  /* Where its result goes in the event's text. */
  size_t *unresolved;
  /* The event's text between the results. */
  mp_plan_span *spans;
  size_t span_count;
  /* The heads of the keys that are written. */
  unsigned heads;
  mp_guarded inline_operations[MP_INLINE_ENTRIES];
  size_t inline_unresolved[MP_INLINE_ENTRIES];
  mp_plan_span inline_spans[MP_INLINE_ENTRIES + 1];
} making;

static bool reserve(making *made) {
  size_t count = made->append->stored_count;
  made->operations = made->inline_operations;
  made->unresolved = made->inline_unresolved;
  made->spans = made->inline_spans;
  if (count <= MP_INLINE_ENTRIES) return true;
  size_t each = sizeof *made->operations + sizeof *made->spans + sizeof *made->unresolved;
  made->operations = mp_allocate(made->append->env, count * each + sizeof *made->spans);
  if (made->operations == NULL) return false;
  made->spans = (mp_plan_span *)(made->operations + count);
  made->unresolved = (size_t *)(made->spans + count + 1);
  return true;
}

static bool is_added(const mp_guarded *planned) {
  return planned->kind == MP_GUARDED_ADD || planned->kind == MP_GUARDED_EXTEND;
}

/* ---- each operation ---- */

static bool adds_integers(const mp_operation *operation) {
  const mp_value *there = operation->previous_value;
  return operation->kind == MP_INCREMENT && operation->value->as.type == MOONPAD_INTEGER &&
         (there == NULL || there->as.type == MOONPAD_INTEGER);
}

static bool extends_array(const mp_operation *operation) {
  return operation->kind == MP_APPEND && operation->value->as.as.text.length > 2 &&
         mp_check_extensible(mp_key_text(operation->key), operation->previous_value, NULL) == MOONPAD_OK;
}

/*
** What the store cannot add up (floats, other types) is computed here, and guarded by the
** snapshot's revision: the store refuses it when the key has changed since.
*/
static bool plan_sum(const mp_append *append, mp_operation *operation, mp_guarded *planned) {
  if (adds_integers(operation) || extends_array(operation)) {
    planned->kind = operation->kind == MP_INCREMENT ? MP_GUARDED_ADD : MP_GUARDED_EXTEND;
    planned->value = operation->value;
    return true;
  }
  planned->base = mp_row_revision(&append->snapshot, operation->scope);
  moonpad_status status = mp_apply_pending(append->env, operation->kind, mp_key_text(operation->key),
                                           operation->previous_value, operation->value, &operation->result, NULL);
  planned->value = operation->result;
  return status == MOONPAD_OK;
}

/*
** The newest revision of the key that is no conflict; the store refuses when the key is newer. It
** is not overtaken as far as the object knows.
*/
static int64_t guard(mp_append *append, const mp_operation *operation) {
  int64_t known = mp_append_last_change(append, operation);
  if (!operation->checked) return MP_UNGUARDED;
  return known > operation->base ? known : operation->base;
}

static bool plan_operation(mp_append *append, mp_operation *operation, mp_guarded *planned) {
  moonpad_string key = mp_key_text(operation->key);
  if (mp_append_is_overtaken(append, operation)) return false;
  *planned = (mp_guarded){.kind = operation->kind == MP_REMOVE ? MP_GUARDED_REMOVE : MP_GUARDED_SET,
                          .scope = operation->scope,
                          .key = mp_scope_strip(operation->scope, key),
                          .base = guard(append, operation)};
  if (mp_is_computed(operation->kind)) {
    if (!plan_sum(append, operation, planned)) return false;
  } else {
    planned->value = operation->result = operation->value;
  }
  return is_added(planned) || mp_check_value_size(append->service, key, planned->value, NULL) == MOONPAD_OK;
}

/*
** Of a result that the store makes, it is the most that it can be: SIZE_MAX where nothing
** limits it.
*/
static size_t most_bytes(const mp_append *append, const mp_guarded *planned) {
  int64_t limit = append->service->options.max_value_bytes;
  if (planned->value == NULL) return 0;
  if (planned->kind == MP_GUARDED_ADD) return sizeof "-9223372036854775808" - 1;
  if (planned->kind != MP_GUARDED_EXTEND) return mp_value_size(planned->value);
  return limit == 0 ? SIZE_MAX : (size_t)limit;
}

static bool state_fits(const making *made) {
  const mp_append *append = made->append;
  int64_t limit = append->service->options.max_state_bytes;
  if (limit == 0) return true;
  size_t left = (size_t)limit, bytes = append->state_bytes;
  for (size_t i = 0; i < append->stored_count; i++) bytes -= append->operations[i].bytes_before;
  for (size_t i = 0; i < append->stored_count; i++) {
    const mp_operation *operation = &append->operations[i];
    if (operation->scope != MP_SCOPE_SESSION || operation->kind == MP_REMOVE) continue;
    size_t most = most_bytes(append, &made->operations[i]);
    if (most > left || operation->key->length > left - most) return false;
    left -= most + operation->key->length;
  }
  return bytes <= left;
}

static bool plan_operations(making *made) {
  mp_append *append = made->append;
  for (size_t i = 0; i < append->stored_count; i++) {
    if (!plan_operation(append, &append->operations[i], &made->operations[i])) return false;
    made->heads |= MP_HEAD(append->operations[i].scope);
  }
  for (size_t i = append->stored_count; i < append->count; i++) {
    if (mp_append_is_overtaken(append, &append->operations[i])) return false;
  }
  return state_fits(made);
}

/* ---- the event's text ---- */

static void take_spans(making *made, moonpad_string text) {
  size_t at = 0;
  made->spans[0].after = MP_NO_RESULT;
  for (size_t i = 0; i < made->append->stored_count; i++) {
    if (!is_added(&made->operations[i])) continue;
    made->spans[made->span_count - 1].text = (moonpad_string){text.data + at, made->unresolved[i] - at};
    made->spans[made->span_count++].after = i;
    at = made->unresolved[i];
  }
  made->spans[made->span_count - 1].text = (moonpad_string){text.data + at, text.length - at};
}

/* The text with the results that are known, unless the given text is stored unchanged. */
static bool write_event(mp_append *append, const mp_guarded *planned, size_t *unresolved) {
  for (size_t i = 0; i < append->stored_count; i++) {
    unresolved[i] = append->operations[i].result == NULL && is_added(&planned[i]);
  }
  return mp_append_write_event(append, unresolved);
}

/* ---- the whole ---- */

static void begin_others(void *context) {
  mp_changed_keys_clear(context);
}

/*
** An append that deletes turns is more than one round trip. Of a session object that is behind the
** store finds out (max_events).
*/
static bool may_trim(const mp_append *append) {
  const moonpad_options *options = &append->service->options;
  int64_t events = append->snapshot.revision + 1 - append->snapshot.base_revision;
  return options->event_ttl_seconds > 0 || (options->max_events > 0 && events > options->max_events);
}

static bool make_plan(making *made) {
  mp_append *append = made->append;
  const moonpad_options *options = &append->service->options;
  if (!reserve(made) || may_trim(append) || append->distrusted_scopes != 0) return false;
  if (!mp_append_reserve_notes(append)) return false;
  if (!plan_operations(made) || !write_event(append, made->operations, made->unresolved)) return false;
  made->span_count = 1;
  take_spans(made, append->stored);
  if (mp_check_event_size(append->service, append->stored.length, NULL) != MOONPAD_OK) return false;
  *made->plan = (mp_plan){.ref = mp_session_ref_of_row(&append->names, &append->snapshot),
                          .operations = made->operations,
                          .count = append->stored_count,
                          .event = mp_append_event_row(append, made->heads),
                          .spans = made->spans,
                          .span_count = made->span_count,
                          .id_given = append->id_given,
                          .max_value_bytes = options->max_value_bytes,
                          .max_event_bytes = options->max_event_bytes,
                          .max_events = options->max_events,
                          .touched = append->now,
                          .begin = begin_others,
                          .each_state = mp_changed_keys_add_row,
                          .context = &append->others};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    made->plan->snapshot[scope] = mp_row_revision(&append->snapshot, (mp_scope)scope);
    made->plan->touched_since[scope] = mp_expiry_since(&append->expiry, (mp_scope)scope);
  }
  return true;
}

/*
** It is stored: nothing may fail any more. Without memory for its text there is no event to
** hand out.
*/
static void take_outcome(making *made) {
  mp_append *append = made->append;
  append->facts = made->plan->facts;
  append->row = append->facts.row;
  append->timestamp = append->draft.timestamp;
  append->event_revision = append->row.revision;
  (void)mp_expiry_judge(&append->expiry, &append->facts);
  append->expiry.stored = made->heads | MP_HEAD(MP_SCOPE_SESSION);
  append->expiry.expired = 0;
  mp_changed_keys_note_complete(&append->others, &append->facts);
  append->lacks_others = made->plan->lacks_changes;
  append->has_looked = true;
  mp_append_note(append);
  for (size_t i = 0; i < append->stored_count; i++) {
    if (!is_added(&made->operations[i])) continue;
    append->operations[i].result = made->operations[i].result;
    made->operations[i].result = NULL;
  }
  if (made->span_count > 1) write_event(append, made->operations, made->unresolved);
}

static void take_answer(making *made) {
  mp_append_sending *sending = made->sending;
  const mp_plan *plan = made->plan;
  sending->append->may_be_stored = plan->outcome == MP_OUTCOME_DUPLICATE;
  sending->status = plan->error.code;
  if (sending->status != MOONPAD_OK && sending->error != NULL) *sending->error = plan->error;
  if (plan->outcome == MP_OUTCOME_STORED) take_outcome(made);
  if (plan->outcome == MP_OUTCOME_MISSING) sending->status = mp_fail_not_found(&made->append->names, sending->error);
  sending->decided = sending->status != MOONPAD_OK || plan->outcome == MP_OUTCOME_STORED;
}

/* Field by field: most of it is room. */
static bool begin(making *made, mp_plan *plan, mp_append_sending *sending) {
  mp_append *append = sending->append;
  made->sending = sending;
  made->append = append;
  made->plan = plan;
  made->heads = 0;
  sending->decided = false;
  sending->status = MOONPAD_OK;
  append->has_outcome = true;
  append->row = append->snapshot;
  if (append->live != NULL) append->others.view = &append->live->view;
  return make_plan(made);
}

static void end(making *made) {
  if (made->operations != made->inline_operations) mp_release(made->append->env, made->operations);
}

static void send_plans(mp_append_sending *sendings, size_t count, mp_plan *plans, making *all) {
  mp_store *store = sendings[0].append->service->store;
  size_t made = 0;
  for (size_t i = 0; i < count; i++) {
    if (begin(&all[made], &plans[made], &sendings[i])) {
      made++;
    } else {
      end(&all[made]);
    }
  }
  if (made > 0) store->ops->append(store, plans, made);
  for (size_t i = 0; i < made; i++) {
    take_answer(&all[i]);
    mp_plan_forget(all[i].append->env, &plans[i]);
    end(&all[i]);
  }
}

/* Without memory for the plans nothing is sent: all are for mp_append_run. */
void mp_append_send(mp_append_sending *sendings, size_t count) {
  mp_env *env = sendings[0].append->env;
  making one;
  mp_plan plan;
  if (count == 1) {
    send_plans(sendings, 1, &plan, &one);
    return;
  }
  for (size_t i = 0; i < count; i++) sendings[i].decided = false;
  mp_plan *plans = mp_allocate(env, count * (sizeof *plans + sizeof(making)));
  if (plans != NULL) send_plans(sendings, count, plans, (making *)(plans + count));
  mp_release(env, plans);
}
