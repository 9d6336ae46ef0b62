/* After the transaction: the session object takes in what has been stored. */
#include "service/append/append.h"

#include "service/changes/changes.h"
#include "service/session/ahead.h"

/* The view takes over the draft's reference, where it has one. */
static void show_result(moonpad_session *session, mp_operation *operation, int64_t revision) {
  if (operation->given != NULL && operation->kind == MP_SET) {
    mp_view_move(&session->view, operation->entry, operation->value, revision);
    operation->given->value = operation->value = operation->result = NULL;
  } else {
    mp_view_set(&session->view, operation->entry, operation->result, revision);
  }
}

void mp_append_keep_house(const mp_append *append, moonpad_session *session) {
  mp_expiry_renew(&append->expiry);
  if (mp_trims(append->service)) session->turns = append->turns;
}

void mp_append_note_in_sight(const mp_append *append, moonpad_session *session) {
  moonpad_changes *writer = append->by_hand ? session->own : append->changes;
  if (writer != NULL) mp_changes_note_appended(writer);
}

void mp_append_apply(mp_append *append, moonpad_session *session) {
  bool complete = !append->lacks_others && mp_changed_keys_reserve(&append->others, &session->view);
  if (complete) mp_changed_keys_apply(&append->others, &session->view, &append->row);
  for (size_t i = mp_append_first_taken_in(append); i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    show_result(session, operation, mp_row_revision(&append->row, operation->scope));
    if (append->changes != NULL) mp_changes_stored(append->changes, operation->entry);
  }
  mp_append_keep_house(append, session);
  if (append->changes != NULL && append->duplicate) moonpad_changes_discard(append->changes);
  if (complete) mp_session_take_back(session, &append->others, &append->facts.row);
  if (complete) session->row = append->row;
  mp_append_note_in_sight(append, session);
}

void mp_append_keep_conflicts(mp_append *append, moonpad_session *session) {
  mp_session_keep_conflicts(session, append->conflicts, append->conflict_count);
  append->conflicts = NULL;
  append->conflict_count = append->conflict_capacity = 0;
}

/* The value that the operation was to store, one reference for the caller; false: not known. */
static bool wanted_value(const mp_append *append, const mp_operation *operation, mp_value **value) {
  bool adds = mp_is_computed(operation->kind);
  *value = adds ? NULL : mp_value_retain(operation->value);
  return !adds || mp_apply_pending(append->env, operation->kind, mp_key_text(operation->key), operation->previous_value,
                                   operation->value, value, NULL) == MOONPAD_OK;
}

void mp_append_write_refused(const mp_append *append, mp_buffer *out) {
  size_t count = 0;
  bool known = true;
  mp_state_row *delta = mp_allocate(append->env, append->count * sizeof *delta);
  while (delta != NULL && known && count < append->count) {
    const mp_operation *operation = &append->operations[count];
    moonpad_string key = mp_scope_strip(operation->scope, mp_key_text(operation->key));
    delta[count] = (mp_state_row){.scope = operation->scope, .key = key};
    known = wanted_value(append, operation, &delta[count].value);
    if (known) count++;
  }
  if (delta != NULL && known) mp_event_draft_write(&append->draft, delta, count, NULL, out);
  for (size_t i = 0; i < count; i++) mp_value_release(append->env, delta[i].value);
  mp_release(append->env, delta);
}
