/* What has become of an append, undoing it, and its end. */
#include "service/append/append.h"

#include "base/error.h"

static void forget_wanted(mp_append *append) {
  for (size_t i = 0; i < append->wanted_count; i++) {
    mp_value_release(append->env, append->wanted[i].value);
    append->wanted[i].value = NULL;
    append->wanted[i].revision = 0;
  }
}

static void forget_result(mp_append *append, mp_operation *operation) {
  bool computed = mp_is_computed(operation->kind);
  if (computed) mp_value_release(append->env, operation->result);
  operation->result = NULL;
}

void mp_append_forget_outcome(mp_append *append) {
  if (!append->has_outcome) return;
  for (size_t i = append->count; i-- > 0;) {
    mp_operation *operation = &append->operations[i];
    mp_own_writes_undo(&operation->entry->own, &operation->note);
    if (i < append->stored_count) forget_result(append, operation);
  }
  forget_wanted(append);
  for (size_t i = 0; i < append->conflict_count; i++) mp_key_release(append->env, append->conflicts[i]);
  append->conflict_count = 0;
  append->stored = (moonpad_string){"", 0};
  mp_buffer_clear(&append->json);
  mp_changed_keys_clear(&append->others);
  append->duplicate = append->differs = append->has_looked = append->lacks_others = false;
}

void mp_append_free(mp_append *append) {
  for (size_t i = 0; i < append->conflict_count; i++) mp_key_release(append->env, append->conflicts[i]);
  for (size_t i = 0; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    forget_result(append, operation);
    if (operation->given == NULL) mp_value_release(append->env, operation->value);
    mp_value_release(append->env, operation->previous_value);
    mp_value_release(append->env, operation->expected);
  }
  if (append->operations != append->inline_operations) mp_release(append->env, append->operations);
  forget_wanted(append);
  if (append->wanted != append->inline_wanted) mp_release(append->env, append->wanted);
  if (append->writes != append->inline_writes) mp_release(append->env, append->writes);
  mp_release(append->env, append->conflicts);
  mp_key_release(append->env, append->branch);
  mp_buffer_free(&append->json);
  mp_changed_keys_free(&append->others);
  mp_event_draft_free(&append->draft);
  append->count = append->stored_count = 0;
}

size_t mp_append_first_taken_in(const mp_append *append) {
  if (!append->duplicate) return 0;
  /*
  ** Without a given id the duplicate is this append's own first sending, whose answer was lost. The
  ** look has brought its keys; only temp: keys are left to take in.
  */
  bool sent_twice = !append->id_given;
  return sent_twice ? append->stored_count : append->count;
}

moonpad_event *mp_append_event(const mp_append *append) {
  if (append->stored.data == NULL) return NULL;
  return mp_event_new(append->env, append->stored, append->draft.id, append->event_revision, append->timestamp);
}

mp_env *mp_append_env(const mp_append *append) {
  return append->env;
}

mp_key **mp_append_take_conflicts(mp_append *append, size_t *count) {
  mp_key **keys = append->conflicts;
  *count = append->conflict_count;
  append->conflicts = NULL;
  append->conflict_count = append->conflict_capacity = 0;
  return keys;
}

void mp_append_borrow_event(const mp_append *append, moonpad_event *event) {
  *event = (moonpad_event){append->env, append->event_revision, append->timestamp, append->draft.id, append->stored};
}
