/*
** Preparing an append on the thread of the session object: reading the event, taking the pending
** writes along, each with the base of its key (contract 2.1, 2.2).
*/
#include "service/append/append.h"

#include "base/error.h"
#include "core/event_read.h"
#include "core/json_scan.h"
#include "service/changes/changes.h"
#include "service/session/ahead.h"

static bool reserve_operation(mp_append *append) {
  if (append->count < append->capacity) return true;
  return mp_reserve_beyond(append->env, (void **)&append->operations, append->inline_operations, &append->capacity,
                           sizeof *append->operations, append->count * 2);
}

static mp_operation *add_operation(mp_append *append, mp_operation_kind kind, mp_view_entry *entry, mp_entry *given,
                                   mp_value *value) {
  if (!reserve_operation(append)) return NULL;
  mp_operation *operation = &append->operations[append->count++];
  operation->kind = kind;
  operation->key = entry->key;
  operation->scope = entry->scope;
  operation->given = given;
  operation->value = value;
  operation->was_absent = entry->value == NULL;
  operation->checked = operation->has_read = false;
  operation->base = 0;
  operation->known_change = entry->revision;
  operation->entry = entry;
  operation->previous_value = mp_value_retain(entry->value);
  operation->expected = NULL;
  operation->bytes_before = entry->bytes;
  operation->result = NULL;
  operation->wanted = NULL;
  operation->note.by = NULL;
  operation->note.is_noted = false;
  return operation;
}

/* Contract 2.2: the base of a delta written by hand is what the session object holds. */
static moonpad_status add_given(mp_append *append, moonpad_session *session, const moonpad_changes *reader,
                                moonpad_error *error) {
  for (size_t i = 0; i < append->draft.delta.count; i++) {
    mp_entry *given = &append->draft.delta.items[i];
    mp_view_entry *entry = mp_view_touch_hashed(&session->view, given->key, given->hash);
    mp_operation *operation =
        entry == NULL ? NULL
                      : add_operation(append, given->value == NULL ? MP_REMOVE : MP_SET, entry, given, given->value);
    if (operation == NULL) return mp_no_memory(error);
    if (operation->scope == MP_SCOPE_TEMP) continue;
    bool is_expected = operation->scope == MP_SCOPE_SESSION && mp_append_expects_revision(append);
    operation->base = is_expected ? append->expected_revision : mp_snapshot_revision(session, operation->scope);
    operation->checked =
        mp_checks_conflicts(append->service) &&
        (operation->scope == MP_SCOPE_SESSION || (reader != NULL && mp_changes_has_read(reader, entry)));
  }
  return MOONPAD_OK;
}

static moonpad_status add_pending_write(mp_append *append, const mp_pending_write *write) {
  mp_operation *operation = add_operation(append, write->kind, write->entry, NULL, write->value);
  if (operation == NULL) return MOONPAD_NO_MEMORY;
  mp_value_retain(write->value);
  operation->base = write->base;
  operation->has_read = write->has_read;
  operation->checked = mp_checks_conflicts(append->service) && !write->last_writer_wins &&
                       !mp_is_computed(write->kind) && (operation->scope == MP_SCOPE_SESSION || write->has_read);
  return MOONPAD_OK;
}

/* A key that is in the event's own delta as well is left out: the event has the last word. */
static moonpad_status add_pending(mp_append *append, moonpad_changes *changes, moonpad_error *error) {
  if (changes == NULL || !moonpad_changes_pending(changes)) return MOONPAD_OK;
  mp_change **list;
  size_t count;
  moonpad_status status = mp_changes_pending_list(changes, &list, &count, error);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    const mp_key *key = mp_change_entry(list[i])->key;
    if (mp_entries_find(&append->draft.delta, mp_key_text(key), key->hash) != NULL) continue;
    mp_pending_write write;
    status = mp_change_pending_write(list[i], &write, error);
    if (status == MOONPAD_OK && add_pending_write(append, &write) != MOONPAD_OK) status = mp_no_memory(error);
  }
  mp_release(append->env, list);
  return status;
}

/*
** temp: is never stored (contract 1.1): stored scopes go to the front, and stored_count says how
** many they are. The transaction looks at no other.
*/
static void set_temp_aside(mp_append *append) {
  size_t stored = 0;
  while (stored < append->count && append->operations[stored].scope != MP_SCOPE_TEMP) stored++;
  for (size_t i = stored; i < append->count; i++) {
    if (append->operations[i].scope == MP_SCOPE_TEMP) continue;
    mp_operation moved = append->operations[i];
    memmove(&append->operations[stored + 1], &append->operations[stored], (i - stored) * sizeof moved);
    append->operations[stored++] = moved;
  }
  append->stored_count = stored;
}

/* temp: never reaches a store: its values are known now. */
static moonpad_status resolve_temp(mp_append *append, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = append->stored_count; status == MOONPAD_OK && i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    if (mp_is_computed(operation->kind)) {
      status = mp_apply_pending(append->env, operation->kind, mp_key_text(operation->key), operation->entry->value,
                                operation->value, &operation->result, error);
    } else {
      operation->result = operation->value;
    }
  }
  return status;
}

/*
** Increments and appends are part of what was given (contract 2.1 point 3). The digest is stored in
** files (core/digest.h): this must never change.
*/
static bool digest_operations(mp_append *append) {
  for (size_t i = 0; i < append->stored_count; i++) {
    const mp_operation *operation = &append->operations[i];
    if (operation->given != NULL) continue;
    mp_buffer text;
    mp_buffer_init(&text, append->env);
    if (operation->value != NULL) mp_value_write(&text, operation->value);
    bool starved = text.failed;
    uint64_t value = text.length == 0 || starved ? MP_DIGEST_REMOVED : mp_json_digest(mp_buffer_text(&text));
    mp_buffer_free(&text);
    if (starved) return false;
    append->draft.digest +=
        (operation->key->hash ^ (value * 31 + (uint64_t)operation->kind)) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return true;
}

static moonpad_status fill_in(mp_append *append, moonpad_error *error) {
  mp_event_draft *draft = &append->draft;
  append->id_given = draft->id.length != 0;
  append->timestamp_given = draft->timestamp_json.length != 0;
  if (append->id_given && !digest_operations(append)) return mp_no_memory(error);
  bool needs_time = !append->id_given || !append->timestamp_given;
  moonpad_status status = mp_now(append->env, &append->now, error);
  if (status != MOONPAD_OK && needs_time) return status;
  double now = needs_time ? append->now : draft->timestamp;
  append->now = status == MOONPAD_OK ? mp_time_of_use(append->now) : 0;
  if (!append->id_given) mp_event_draft_make_id(draft, now);
  if (!append->timestamp_given) mp_event_draft_set_timestamp(draft, now);
  if (draft->invocation.length == 0) mp_event_draft_make_invocation(draft, now);
  return MOONPAD_OK;
}

static moonpad_status begin_housekeeping(mp_append *append, const moonpad_session *session, moonpad_error *error) {
  mp_session_ref ref = mp_session_ref_of_row(&append->names, &append->snapshot);
  moonpad_status status = mp_expiry_begin(&append->expiry, append->service, &ref, MP_ALL_HEADS, error);
  append->expiry.writes = true;
  if (mp_trims(append->service)) append->turns = session->turns;
  return status;
}

/*
** Memory for what the transaction asks and writes: after this only the store can fail for lack
** of it.
*/
static bool reserve_rows(mp_append *append) {
  if (append->stored_count > MP_INLINE_ENTRIES) {
    append->wanted = mp_allocate(append->env, append->stored_count * sizeof *append->wanted);
    append->writes = mp_allocate(append->env, append->stored_count * sizeof *append->writes);
    if (append->wanted == NULL || append->writes == NULL) return false;
  }
  for (size_t i = 0; i < append->stored_count; i++) {
    mp_operation *operation = &append->operations[i];
    if (!mp_is_computed(operation->kind)) continue;
    moonpad_string key = mp_scope_strip(operation->scope, mp_key_text(operation->key));
    operation->wanted = &append->wanted[append->wanted_count++];
    *operation->wanted = (mp_state_row){.scope = operation->scope, .key = key};
  }
  return true;
}

/*
** All but the row, which the transaction reads, and the draft. Field by field: to clear so much
** memory at once takes longer.
*/
static void init_append(mp_append *append, moonpad_session *session, const mp_append_request *request) {
  append->service = session->service;
  append->env = session->env;
  append->operations = append->inline_operations;
  append->count = append->stored_count = 0;
  append->capacity = MP_INLINE_ENTRIES;
  append->id_given = append->timestamp_given = append->delta_unchanged = false;
  append->snapshot = session->row;
  append->live = NULL;
  append->distrusted_scopes = 0;
  append->by_hand = request->changes == NULL;
  append->changes = request->changes;
  append->expected_revision = request->expected_revision;
  append->names = mp_session_names(session);
  append->state_bytes = session->view.state_bytes;
  mp_buffer_init(&append->json, append->env);
  append->stored = (moonpad_string){"", 0};
  append->timestamp = 0;
  append->event_revision = 0;
  append->duplicate = append->differs = append->has_outcome = append->has_looked = append->has_written = false;
  append->lacks_others = false;
  append->may_be_stored = false;
  append->conflicts = NULL;
  append->conflict_count = append->conflict_capacity = 0;
  append->wanted = append->inline_wanted;
  append->wanted_count = 0;
  append->writes = append->inline_writes;
  mp_changed_keys_init(&append->others, append->env);
}

static moonpad_status refuse_shared_keys(const mp_append *append, moonpad_error *error) {
  for (size_t i = 0; append->changes != NULL && i < append->draft.delta.count; i++) {
    const mp_entry *given = &append->draft.delta.items[i];
    if (!mp_changes_is_pending(append->changes, given->key, given->hash)) continue;
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT,
                   "event.actions.stateDelta[%s]: this key has a pending write as well: leave one of them out",
                   mp_quote(given->key).text);
  }
  return MOONPAD_OK;
}

static moonpad_status add_operations(mp_append *append, moonpad_session *session, moonpad_error *error) {
  moonpad_changes *changes = append->changes;
  moonpad_status status = add_given(append, session, changes != NULL ? changes : session->own, error);
  if (status == MOONPAD_OK) status = add_pending(append, changes, error);
  if (status != MOONPAD_OK) return status;
  set_temp_aside(append);
  append->delta_unchanged = append->stored_count == append->count && append->count == append->draft.delta.count;
  return resolve_temp(append, error);
}

moonpad_status mp_append_prepare(mp_append *append, moonpad_session *session, const mp_append_request *request,
                                 moonpad_error *error) {
  mp_session_forget_taken_back(session);
  init_append(append, session, request);
  moonpad_status status = mp_event_draft_read(append->env, request->event, request->is_trusted, &append->draft, error);
  if (status != MOONPAD_OK) return status;
  append->branch = append->changes == NULL ? NULL : mp_key_retain(mp_changes_branch(append->changes));
  if (append->draft.partial) return MOONPAD_OK;
  if (request->refuses_shared_keys) status = refuse_shared_keys(append, error);
  if (status == MOONPAD_OK) status = add_operations(append, session, error);
  if (status == MOONPAD_OK) status = fill_in(append, error);
  if (status == MOONPAD_OK) status = begin_housekeeping(append, session, error);
  if (status == MOONPAD_OK && !reserve_rows(append)) status = mp_no_memory(error);
  if (status != MOONPAD_OK) mp_append_free(append);
  return status;
}
