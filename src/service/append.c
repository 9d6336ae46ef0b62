/* Appending an event (contract 2.1, 2.2): prepare, run in a transaction, apply to the session object. */
#include "service/append.h"

#include <stdio.h>

#include "base/error.h"
#include "core/json.h"
#include "service/lane.h"
#include "service/pending.h"

/* ---- prepare ---- */

static bool reserve_operation(mp_append *append) {
  if (append->count < append->capacity) return true;
  bool first = append->operations == append->few_operations;
  void *operations = first ? NULL : append->operations;
  if (first) append->capacity = 0;
  bool grown = mp_reserve(append->env, &operations, &append->capacity, sizeof *append->operations, append->count * 2);
  if (!grown) {
    if (first) append->capacity = MP_FEW_KEYS;
    return false;
  }
  if (first) memcpy(operations, append->few_operations, sizeof append->few_operations);
  append->operations = operations;
  return true;
}

static mp_operation *add_operation(mp_append *append, mp_operation_kind kind, mp_view_entry *entry,
                                   mp_delta_entry *given, mp_value *value) {
  if (!reserve_operation(append)) return NULL;
  mp_operation *operation = &append->operations[append->count++];
  operation->kind = kind;
  operation->key = entry->key;
  operation->scope = entry->scope;
  operation->given = given;
  operation->value = value;
  operation->checked = false;
  operation->base = 0;
  operation->entry = entry;
  operation->shown_before = NULL;
  operation->expected = NULL;
  operation->bytes_before = entry->bytes;
  operation->result = NULL;
  operation->previous_revision = -1;
  return operation;
}

static bool in_draft(const mp_append *append, const mp_key *key) {
  for (size_t i = 0; i < append->draft.delta_count; i++) {
    const mp_delta_entry *there = &append->draft.delta[i];
    if (there->hash == key->hash && there->key.length == key->length &&
        (key->length == 0 || memcmp(there->key.data, key->bytes, key->length) == 0)) {
      return true;
    }
  }
  return false;
}

static bool has_read(const moonpad_changes *changes, const mp_view_entry *entry) {
  if (changes == NULL) return false;
  const mp_change *change = mp_map_get_hashed(&changes->map, entry->key->bytes, entry->key->length, entry->key->hash);
  if (change != NULL && (change->touched || change->beyond_all_read)) return change->touched && change->read;
  return changes->all_read;
}

static bool checks_conflicts(const mp_append *append) {
  return append->service->options.on_conflict != MOONPAD_ON_CONFLICT_OVERWRITE;
}

/* Contract 2.2: a delta written by hand is measured against what the session object holds. */
static moonpad_status add_given(mp_append *append, moonpad_session *session, const moonpad_changes *reader,
                                moonpad_error *error) {
  for (size_t i = 0; i < append->draft.delta_count; i++) {
    mp_delta_entry *given = &append->draft.delta[i];
    mp_view_entry *entry = mp_view_touch_hashed(&session->view, append->env, given->key, given->hash);
    mp_operation *operation =
        entry == NULL ? NULL
                      : add_operation(append, given->value == NULL ? MP_REMOVE : MP_SET, entry, given, given->value);
    if (operation == NULL) return mp_no_memory(error);
    if (operation->scope == MP_SCOPE_TEMP) continue;
    bool decided = append->decided_at != MP_DECIDED_AS_HELD && operation->scope == MP_SCOPE_SESSION;
    operation->base = decided ? append->decided_at : mp_held_revision(session, operation->scope);
    operation->checked = checks_conflicts(append) && (operation->scope == MP_SCOPE_SESSION || has_read(reader, entry));
  }
  return MOONPAD_OK;
}

static moonpad_status add_pending(mp_append *append, moonpad_changes *changes, moonpad_error *error) {
  if (changes == NULL || changes->pending_count == 0) return MOONPAD_OK;
  mp_change **list;
  size_t count;
  moonpad_status status = mp_changes_pending_list(changes, &list, &count, error);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    mp_change *change = list[i];
    if (in_draft(append, change->entry->key)) continue;
    status = mp_change_fold(change, error);
    if (status != MOONPAD_OK) break;
    mp_operation *operation = add_operation(append, change->kind, change->entry, NULL, change->value);
    if (operation == NULL) {
      status = mp_no_memory(error);
      break;
    }
    mp_value_retain(change->value);
    operation->base = mp_change_measure(change);
    operation->checked = checks_conflicts(append) && !change->unchecked &&
                         (change->kind == MP_SET || change->kind == MP_REMOVE) &&
                         (operation->scope == MP_SCOPE_SESSION || change->read);
    /* Nobody but the branches of this run can have overtaken it, and what they have stored is in sight. */
    if (operation->scope == MP_SCOPE_TEMP && change->entry->revision <= operation->base) operation->checked = false;
  }
  mp_release(append->env, list);
  return status;
}

/* Stored scopes to the front, so that the transaction need not look at temp:. */
static void sort_temp_last(mp_append *append) {
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
    if (operation->kind == MP_INCREMENT || operation->kind == MP_APPEND) {
      status = mp_add_pending(append->env, operation->kind, mp_key_text(operation->key), operation->entry->value,
                              operation->value, &operation->result, error);
    } else {
      operation->result = operation->value;
    }
  }
  return status;
}

/* Increments and appends are part of what was given (contract 2.1 point 3). */
static bool digest_operations(mp_append *append) {
  for (size_t i = 0; i < append->stored_count; i++) {
    const mp_operation *operation = &append->operations[i];
    if (operation->given != NULL) continue;
    mp_buffer text;
    mp_buffer_init(&text, append->env);
    if (operation->value != NULL) mp_value_write(&text, operation->value);
    bool starved = text.failed;
    uint64_t value = text.length == 0 || starved ? 7 : mp_json_digest(mp_buffer_text(&text));
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
  double now = draft->timestamp;
  if (!append->id_given || !append->timestamp_given) {
    moonpad_status status = mp_now(append->env, &now, error);
    if (status != MOONPAD_OK) return status;
  }
  if (!append->id_given) mp_event_draft_make_id(draft, now);
  if (!append->timestamp_given) mp_event_draft_set_timestamp(draft, now);
  if (draft->invocation.length == 0) mp_event_draft_make_invocation(draft, now);
  return MOONPAD_OK;
}

/* To apply what has been stored cannot fail. */
static bool reserve_changes(const mp_append *append, moonpad_session *session) {
  for (size_t i = 0; i < append->count; i++) {
    if (!mp_changes_reserve(session, append->operations[i].entry)) return false;
  }
  return true;
}

/* Room for what the delta becomes, unless it stays as it is: nothing else pending, nothing temporary. */
static bool reserve_resolved(mp_append *append) {
  append->delta_as_given = append->stored_count == append->count && append->count == append->draft.delta_count;
  if (append->delta_as_given) return true;
  append->resolved = append->few_resolved;
  if (append->stored_count <= MP_FEW_KEYS) return true;
  append->resolved = mp_allocate(append->env, append->stored_count * sizeof *append->resolved);
  return append->resolved != NULL;
}

/* All but the row, which the transaction reads, and the draft. Field by field: to clear so much memory at once takes longer. */
static void init_append(mp_append *append, moonpad_session *session, moonpad_changes *changes, int64_t decided_at) {
  append->service = session->service;
  append->env = session->env;
  append->operations = append->few_operations;
  append->count = append->stored_count = 0;
  append->capacity = MP_FEW_KEYS;
  append->id_given = append->timestamp_given = append->delta_as_given = false;
  append->held = session->row;
  append->lane = NULL;
  append->live = NULL;
  append->changes = changes;
  append->decided_at = decided_at;
  append->names = mp_session_names(session);
  append->state_bytes = session->state_bytes;
  mp_buffer_init(&append->json, append->env);
  append->stored = (moonpad_string){"", 0};
  append->timestamp = 0;
  append->event_revision = 0;
  append->duplicate = append->has_outcome = false;
  append->conflicts = NULL;
  append->conflict_count = append->conflict_capacity = 0;
  append->resolved = NULL;
  mp_gathering_init(&append->others, append->env);
}

moonpad_status mp_append_prepare(mp_append *append, moonpad_session *session, moonpad_changes *changes,
                                 moonpad_string event, bool own_json, int64_t decided_at, moonpad_error *error) {
  init_append(append, session, changes, decided_at);
  moonpad_status status = mp_event_draft_read(append->env, event, own_json, &append->draft, error);
  if (status != MOONPAD_OK) return status;
  if (append->draft.partial) return MOONPAD_OK;
  status = add_given(append, session, changes != NULL ? changes : session->own, error);
  if (status == MOONPAD_OK) status = add_pending(append, changes, error);
  if (status == MOONPAD_OK) {
    sort_temp_last(append);
    status = resolve_temp(append, error);
  }
  if (status == MOONPAD_OK) status = fill_in(append, error);
  if (status == MOONPAD_OK && (!reserve_resolved(append) || !reserve_changes(append, session))) {
    status = mp_no_memory(error);
  }
  if (status != MOONPAD_OK) mp_append_free(append);
  return status;
}

/* ---- run ---- */

static void forget_result(mp_append *append, mp_operation *operation) {
  bool computed = operation->kind == MP_INCREMENT || operation->kind == MP_APPEND;
  if (computed) mp_value_release(append->env, operation->result);
  operation->result = NULL;
}

void mp_append_forget_outcome(mp_append *append) {
  if (!append->has_outcome) return;
  for (size_t i = 0; i < append->stored_count; i++) {
    forget_result(append, &append->operations[i]);
    append->operations[i].previous_revision = -1;
  }
  for (size_t i = 0; i < append->conflict_count; i++) mp_key_release(append->env, append->conflicts[i]);
  append->conflict_count = 0;
  append->stored = (moonpad_string){"", 0};
  mp_buffer_clear(&append->json);
  mp_gathering_clear(&append->others);
  append->duplicate = false;
}

static moonpad_status not_found(const mp_append *append, moonpad_error *error) {
  return mp_fail(error, MOONPAD_NOT_FOUND, "%s does not exist (or was deleted and created anew)",
                 mp_label(&append->names).text);
}

static moonpad_status note_duplicate(void *context, const mp_event_row *row, moonpad_error *error) {
  mp_append *append = context;
  append->duplicate = true;
  append->event_revision = row->revision;
  append->timestamp = row->timestamp;
  mp_buffer_clear(&append->json);
  mp_buffer_add_string(&append->json, row->json);
  append->stored = mp_buffer_text(&append->json);
  bool same = row->digest != 0 && row->digest == append->draft.digest;
  if (append->json.failed) return mp_no_memory(error);
  if (!same) {
    mp_event_draft stored; /* what was stored may itself have been handed in again, with all that was filled in */
    moonpad_status status = mp_event_draft_read(append->env, row->json, true, &stored, error);
    if (status == MOONPAD_NO_MEMORY) return status;
    if (status == MOONPAD_OK) {
      same = stored.digest == append->draft.digest;
      mp_event_draft_free(&stored);
    }
  }
  return same ? MOONPAD_OK : MOONPAD_ALREADY_EXISTS;
}

static moonpad_status check_duplicate(mp_append *append, mp_tx *tx, moonpad_error *error) {
  if (!append->id_given) return MOONPAD_OK;
  moonpad_string id = append->draft.id;
  moonpad_status status = tx->ops->find_event(tx, append->held.id, id, note_duplicate, append, error);
  if (status == MOONPAD_NOT_FOUND) return MOONPAD_OK;
  if (status == MOONPAD_ALREADY_EXISTS) {
    return mp_fail(error, status, "%s has an event with id %s and other content", mp_label(&append->names).text,
                   mp_quote(id).text);
  }
  return status;
}

static moonpad_status add_conflict(mp_append *append, const mp_operation *operation, moonpad_error *error) {
  if (!mp_reserve(append->env, (void **)&append->conflicts, &append->conflict_capacity, sizeof *append->conflicts,
                  append->conflict_count + 1)) {
    return mp_no_memory(error);
  }
  append->conflicts[append->conflict_count++] = mp_key_retain(operation->key);
  return MOONPAD_OK;
}

/* Looks the key up where something depends on what is stored there now. */
static moonpad_status resolve(mp_append *append, mp_tx *tx, mp_operation *operation, moonpad_error *error) {
  bool adds = operation->kind == MP_INCREMENT || operation->kind == MP_APPEND;
  bool overtaken = mp_row_revision(&append->row, operation->scope) > operation->base;
  mp_value *there = NULL;
  moonpad_string key = mp_key_text(operation->key);
  moonpad_status status = MOONPAD_OK;
  if (adds || overtaken) {
    status = tx->ops->read_key(tx, operation->scope, mp_row_scope_id(&append->row, operation->scope),
                               mp_scope_strip(operation->scope, key), &there, &operation->previous_revision, error);
    if (status != MOONPAD_OK) return status;
    int64_t changed = operation->previous_revision;
    if (operation->checked && changed > operation->base && !mp_lane_wrote(append->lane, operation->key, changed)) {
      status = add_conflict(append, operation, error);
    }
  }
  if (status == MOONPAD_OK && adds) {
    status = mp_add_pending(append->env, operation->kind, key, there, operation->value, &operation->result, error);
  } else if (status == MOONPAD_OK) {
    operation->result = operation->value;
  }
  mp_value_release(append->env, there);
  if (status != MOONPAD_OK) return status;
  return mp_check_value_size(append->service, key, operation->result, error);
}

static moonpad_status conflict(const mp_append *append, moonpad_error *error) {
  char names[600];
  size_t used = 0;
  names[0] = '\0';
  for (size_t i = 0; i < append->conflict_count && used + 300 < sizeof names; i++) {
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                             mp_quote(mp_key_text(append->conflicts[i])).text);
  }
  return mp_fail(error, MOONPAD_CONFLICT,
                 "somebody else changed %s since it was looked at: refresh the session, then decide again", names);
}

static moonpad_status check_sizes(const mp_append *append, moonpad_error *error) {
  moonpad_status status = mp_check_event_size(append->service, append->stored.length, error);
  if (status != MOONPAD_OK) return status;
  int64_t limit = append->service->options.max_state_bytes;
  if (limit == 0) return MOONPAD_OK;
  size_t bytes = append->state_bytes;
  for (size_t i = 0; i < append->stored_count; i++) {
    const mp_operation *operation = &append->operations[i];
    if (operation->scope == MP_SCOPE_SESSION && operation->result != NULL) {
      bytes += operation->key->length + mp_value_size(operation->result);
    }
    bytes -= operation->bytes_before;
  }
  if (bytes <= (size_t)limit) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_LIMIT, "%s: its state would take %zu bytes, and maxStateBytes is %lld",
                 mp_label(&append->names).text, bytes, (long long)limit);
}

static bool touches(const mp_append *append, mp_scope scope) {
  for (size_t i = 0; i < append->stored_count; i++) {
    if (append->operations[i].scope == scope) return true;
  }
  return false;
}

static moonpad_status write_keys(mp_append *append, mp_tx *tx, moonpad_error *error) {
  for (size_t i = 0; i < append->stored_count; i++) {
    const mp_operation *operation = &append->operations[i];
    moonpad_status status =
        tx->ops->write_key(tx, operation->scope, mp_row_scope_id(&append->row, operation->scope),
                           mp_scope_strip(operation->scope, mp_key_text(operation->key)), operation->result,
                           mp_row_revision(&append->row, operation->scope), error);
    if (status != MOONPAD_OK) return status;
  }
  return MOONPAD_OK;
}

/* Writes what has been decided. From here on only the store can fail. */
static moonpad_status store(mp_append *append, mp_tx *tx, moonpad_error *error) {
  mp_session_row *row = &append->row;
  moonpad_status status = MOONPAD_OK;
  row->revision++;
  row->last_update_time = append->draft.timestamp;
  if (append->draft.is_user_message) row->conversation_count++;
  if (touches(append, MP_SCOPE_USER)) {
    status = tx->ops->set_shared_revision(tx, MP_SCOPE_USER, row->user, ++row->user_revision, error);
  }
  if (status == MOONPAD_OK && touches(append, MP_SCOPE_APP)) {
    status = tx->ops->set_shared_revision(tx, MP_SCOPE_APP, row->app, ++row->app_revision, error);
  }
  if (status == MOONPAD_OK) status = write_keys(append, tx, error);
  if (status != MOONPAD_OK) return status;
  uint64_t digest = append->id_given ? append->draft.digest : 0;
  if (append->id_given && digest == 0) digest = 1;
  mp_event_row event = {row->revision, append->draft.timestamp, append->draft.id, append->stored, digest};
  status = tx->ops->append_event(tx, row->id, &event, error);
  return status == MOONPAD_OK ? tx->ops->update_session(tx, row, error) : status;
}

static moonpad_status decide(mp_append *append, mp_tx *tx, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < append->stored_count; i++) {
    status = resolve(append, tx, &append->operations[i], error);
  }
  for (size_t i = append->stored_count; status == MOONPAD_OK && i < append->count; i++) {
    if (append->operations[i].checked) status = add_conflict(append, &append->operations[i], error);
  }
  if (status == MOONPAD_OK && append->conflict_count > 0) status = conflict(append, error);
  if (status != MOONPAD_OK) return status;
  for (size_t i = 0; append->resolved != NULL && i < append->stored_count; i++) {
    append->resolved[i].key = append->operations[i].key;
    append->resolved[i].value = append->operations[i].result;
  }
  if (append->resolved != NULL || !mp_event_draft_stands(&append->draft, &append->stored)) {
    mp_event_draft_write(&append->draft, append->resolved, append->stored_count, &append->json);
    if (append->json.failed) return mp_no_memory(error);
    append->stored = mp_buffer_text(&append->json);
  }
  append->timestamp = append->draft.timestamp;
  append->event_revision = append->row.revision + 1;
  return check_sizes(append, error);
}

moonpad_status mp_append_run(mp_tx *tx, void *context, moonpad_error *error) {
  mp_append *append = context;
  mp_append_forget_outcome(append);
  append->has_outcome = true;
  if (append->live != NULL) append->others.view = &append->live->view;
  moonpad_status status = tx->ops->load_session(tx, append->held.id, &append->row, error);
  if (status == MOONPAD_NOT_FOUND) return not_found(append, error);
  if (status == MOONPAD_OK) status = check_duplicate(append, tx, error);
  if (status == MOONPAD_OK) status = mp_gather_changes(&append->others, tx, &append->row, &append->held, error);
  if (status != MOONPAD_OK || append->duplicate) return status;
  status = decide(append, tx, error);
  return status == MOONPAD_OK ? store(append, tx, error) : status;
}

/* ---- apply ---- */

/* The view takes over the draft's reference, where it has one. */
static void show_result(moonpad_session *session, mp_operation *operation, int64_t revision) {
  if (operation->given != NULL && operation->kind == MP_SET) {
    mp_view_give(session, operation->entry, operation->value, revision);
    operation->given->value = operation->value = operation->result = NULL;
  } else {
    mp_view_set(session, operation->entry, operation->result, revision);
  }
}

void mp_append_apply(mp_append *append, moonpad_session *session) {
  mp_view_apply(session, &append->others);
  size_t count = append->duplicate ? 0 : append->count;
  for (size_t i = 0; i < count; i++) {
    mp_operation *operation = &append->operations[i];
    int64_t before = operation->entry->revision;
    int64_t after = mp_row_revision(&append->row, operation->scope);
    show_result(session, operation, after);
    mp_changes_after_own_append(session, operation->entry, before, after, append->changes);
  }
  if (append->changes != NULL && append->duplicate) mp_changes_reset(append->changes, false);
  session->row = append->row;
  moonpad_changes *writer = append->changes != NULL ? append->changes : session->own;
  if (writer != NULL && writer->pending_count == 0) mp_changes_note_clean(writer);
}

void mp_append_keep_conflicts(mp_append *append, moonpad_session *session) {
  for (size_t i = 0; i < session->conflict_count; i++) mp_key_release(session->env, session->conflicts[i]);
  mp_release(session->env, session->conflicts);
  session->conflicts = append->conflicts;
  session->conflict_count = append->conflict_count;
  append->conflicts = NULL;
  append->conflict_count = append->conflict_capacity = 0;
}

void mp_append_free(mp_append *append) {
  for (size_t i = 0; i < append->conflict_count; i++) mp_key_release(append->env, append->conflicts[i]);
  for (size_t i = 0; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    forget_result(append, operation);
    if (operation->given == NULL) mp_value_release(append->env, operation->value);
    mp_value_release(append->env, operation->shown_before);
    mp_value_release(append->env, operation->expected);
  }
  if (append->operations != append->few_operations) mp_release(append->env, append->operations);
  if (append->resolved != append->few_resolved) mp_release(append->env, append->resolved);
  mp_release(append->env, append->conflicts);
  mp_buffer_free(&append->json);
  mp_gathering_free(&append->others);
  mp_event_draft_free(&append->draft);
  append->count = append->stored_count = 0;
}

moonpad_event *mp_append_event(const mp_append *append) {
  return mp_event_new(append->env, append->stored, append->draft.id, append->event_revision, append->timestamp);
}

void mp_append_lend_event(const mp_append *append, moonpad_event *event) {
  *event = (moonpad_event){append->env, append->event_revision, append->timestamp, append->draft.id, append->stored};
}
