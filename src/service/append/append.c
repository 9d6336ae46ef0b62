/*
** Appending an event (contract 2.1, 2.2): prepare, run in a transaction, apply to the
** session object.
*/
#include "service/append/append.h"

#include "base/error.h"
#include "core/event_read.h"
#include "core/json_scan.h"
#include "service/changes/change_set.h"

/* ---- prepare ---- */

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
  operation->previous_value = NULL;
  operation->expected = NULL;
  operation->bytes_before = entry->bytes;
  operation->result = NULL;
  operation->wanted = NULL;
  operation->note.by = NULL;
  operation->note.is_noted = false;
  return operation;
}

static bool has_read(const moonpad_changes *changes, const mp_view_entry *entry) {
  if (changes == NULL) return false;
  const mp_change *change = mp_map_get_hashed(&changes->map, entry->key->bytes, entry->key->length, entry->key->hash);
  return change != NULL && change->touched ? change->read : changes->all_read;
}

/* Contract 2.2: a delta written by hand is measured against what the session object holds. */
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
    bool decided = append->expected_revision != MP_EXPECT_SNAPSHOT && operation->scope == MP_SCOPE_SESSION;
    operation->base = decided ? append->expected_revision : mp_snapshot_revision(session, operation->scope);
    operation->checked =
        mp_checks_conflicts(append->service) && (operation->scope == MP_SCOPE_SESSION || has_read(reader, entry));
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
    const mp_key *key = change->entry->key;
    if (mp_entries_find(&append->draft.delta, mp_key_text(key), key->hash) != NULL) continue;
    status = mp_change_fold(change, error);
    if (status != MOONPAD_OK) break;
    mp_operation *operation = add_operation(append, change->kind, change->entry, NULL, change->value);
    if (operation == NULL) {
      status = mp_no_memory(error);
      break;
    }
    mp_value_retain(change->value);
    operation->base = change->base;
    operation->has_read = change->read;
    operation->checked = mp_checks_conflicts(append->service) && !change->last_writer_wins &&
                         !mp_is_computed(change->kind) && (operation->scope == MP_SCOPE_SESSION || change->read);
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
    if (mp_is_computed(operation->kind)) {
      status = mp_apply_pending(append->env, operation->kind, mp_key_text(operation->key), operation->entry->value,
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
static void init_append(mp_append *append, moonpad_session *session, moonpad_changes *changes,
                        int64_t expected_revision) {
  append->service = session->service;
  append->env = session->env;
  append->operations = append->inline_operations;
  append->count = append->stored_count = 0;
  append->capacity = MP_INLINE_ENTRIES;
  append->id_given = append->timestamp_given = append->delta_unchanged = false;
  append->held = session->row;
  append->live = NULL;
  append->by_hand = changes == NULL;
  append->changes = changes;
  append->expected_revision = expected_revision;
  append->names = mp_session_names(session);
  append->state_bytes = session->view.state_bytes;
  mp_buffer_init(&append->json, append->env);
  append->stored = (moonpad_string){"", 0};
  append->timestamp = 0;
  append->event_revision = 0;
  append->duplicate = append->differs = append->has_outcome = append->has_looked = append->has_written = false;
  append->may_be_stored = false;
  append->conflicts = NULL;
  append->conflict_count = append->conflict_capacity = 0;
  append->wanted = append->inline_wanted;
  append->wanted_count = 0;
  append->writes = append->inline_writes;
  mp_changed_keys_init(&append->others, append->env);
}

moonpad_status mp_append_prepare(mp_append *append, moonpad_session *session, moonpad_changes *changes,
                                 moonpad_string event, bool is_trusted, int64_t expected_revision,
                                 moonpad_error *error) {
  init_append(append, session, changes, expected_revision);
  moonpad_status status = mp_event_draft_read(append->env, event, is_trusted, &append->draft, error);
  if (status != MOONPAD_OK) return status;
  append->branch = changes == NULL ? NULL : mp_key_retain(changes->branch);
  if (append->draft.partial) return MOONPAD_OK;
  status = add_given(append, session, changes != NULL ? changes : session->own, error);
  if (status == MOONPAD_OK) status = add_pending(append, changes, error);
  if (status == MOONPAD_OK) {
    sort_temp_last(append);
    append->delta_unchanged = append->stored_count == append->count && append->count == append->draft.delta.count;
    status = resolve_temp(append, error);
  }
  if (status == MOONPAD_OK) status = fill_in(append, error);
  if (status == MOONPAD_OK && !reserve_rows(append)) status = mp_no_memory(error);
  if (status != MOONPAD_OK) mp_append_free(append);
  return status;
}

/* ---- run ---- */

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
  append->duplicate = append->differs = append->has_looked = false;
}

moonpad_status mp_append_not_found(const mp_append *append, moonpad_error *error) {
  return mp_fail(error, MOONPAD_NOT_FOUND, "%s does not exist (or was deleted and created anew)",
                 mp_label(&append->names).text);
}

/* Other content is an error only once the look has ended: it also tells what others have stored. */
static moonpad_status note_duplicate(void *context, const mp_event_row *row, moonpad_error *error) {
  mp_append *append = context;
  append->duplicate = true;
  append->event_revision = row->revision;
  append->timestamp = row->timestamp;
  mp_buffer_clear(&append->json);
  mp_buffer_add_string(&append->json, row->json);
  append->stored = mp_buffer_text(&append->json);
  bool same = !append->id_given || (row->digest != 0 && row->digest == append->draft.digest);
  if (append->json.failed) return mp_no_memory(error);
  if (!same) {
    /* what was stored may itself have been handed in again, with all that was filled in */
    mp_event_draft stored;
    moonpad_status status = mp_event_draft_read(append->env, row->json, true, &stored, error);
    if (status == MOONPAD_NO_MEMORY) return status;
    if (status == MOONPAD_OK) {
      same = stored.digest == append->draft.digest;
      mp_event_draft_free(&stored);
    }
  }
  append->differs = !same;
  return MOONPAD_OK;
}

static moonpad_status fail_differing(const mp_append *append, moonpad_error *error) {
  return mp_fail(error, MOONPAD_ALREADY_EXISTS, "%s has an event with id %s and other content",
                 mp_label(&append->names).text, mp_quote(append->draft.id).text);
}

static moonpad_status note_others(void *context, const mp_state_row *row, moonpad_error *error) {
  mp_append *append = context;
  return mp_changed_keys_add_row(&append->others, row, error);
}

/* All that the decision depends on, in one question. */
static moonpad_status look(mp_append *append, mp_tx *tx, moonpad_error *error) {
  mp_session_ref place = mp_session_ref_of_row(&append->names, &append->held);
  mp_look look = mp_look_at(&place, &append->held, &append->others);
  look.keys = append->wanted;
  look.key_count = append->wanted_count;
  if (append->id_given || append->may_be_stored) look.event_id = append->draft.id;
  look.each_state = note_others;
  look.each_event = note_duplicate;
  look.context = append;
  moonpad_status status = mp_look_for_changed_keys(tx, &look, &append->others, &append->facts, error);
  append->row = append->facts.row;
  append->has_looked = status == MOONPAD_OK;
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

/*
** What has changed since `held` is among the others. A key that the object showed and that the
** store has not was removed by somebody, at any time until tombstones were purged. Otherwise nobody
** knows of more than the object did, but for its own appends since.
*/
int64_t mp_append_last_change(mp_append *append, const mp_operation *operation) {
  const mp_key *key = operation->key;
  mp_entries *found = &append->others.found;
  const mp_entry *other = found->count == 0 ? NULL : mp_entries_find(found, mp_key_text(key), key->hash);
  if (other != NULL) return other->revision;
  bool is_gone = (append->others.whole & MP_HEAD(operation->scope)) != 0 && !operation->was_absent;
  if (is_gone) return append->facts.forgotten[operation->scope];
  int64_t own = operation->entry->own.to;
  return own > operation->known_change ? own : operation->known_change;
}

/*
** A delta that was decided in sight of another revision has not seen what the object itself has
** stored since either.
*/
bool mp_append_is_overtaken(mp_append *append, const mp_operation *operation) {
  static const mp_own_writes none;
  if (!operation->checked || mp_row_revision(&append->row, operation->scope) <= operation->base) return false;
  bool decided = append->expected_revision != MP_EXPECT_SNAPSHOT && operation->given != NULL;
  return mp_own_writes_conflict(decided ? &none : &operation->entry->own, mp_append_last_change(append, operation),
                                operation->base, operation->has_read, append->branch);
}

static moonpad_status check(mp_append *append, const mp_operation *operation, moonpad_error *error) {
  return mp_append_is_overtaken(append, operation) ? add_conflict(append, operation, error) : MOONPAD_OK;
}

/* What becomes of a key, and whether it may. */
static moonpad_status resolve(mp_append *append, mp_operation *operation, moonpad_error *error) {
  moonpad_string key = mp_key_text(operation->key);
  moonpad_status status = check(append, operation, error);
  if (status == MOONPAD_OK && mp_is_computed(operation->kind)) {
    status = mp_apply_pending(append->env, operation->kind, key, operation->wanted->value, operation->value,
                              &operation->result, error);
  } else if (status == MOONPAD_OK) {
    operation->result = operation->value;
  }
  return status == MOONPAD_OK ? mp_check_value_size(append->service, key, operation->result, error) : status;
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

bool mp_append_write_event(mp_append *append, size_t *holes) {
  for (size_t i = 0; i < append->stored_count; i++) {
    const mp_operation *operation = &append->operations[i];
    moonpad_string key = mp_scope_strip(operation->scope, mp_key_text(operation->key));
    append->writes[i] = (mp_state_row){operation->scope, key, operation->result, 0};
  }
  if (append->delta_unchanged && mp_event_draft_is_unchanged(&append->draft, &append->stored)) return true;
  mp_buffer_clear(&append->json);
  mp_event_draft_write(&append->draft, append->delta_unchanged ? NULL : append->writes, append->stored_count, holes,
                       &append->json);
  append->stored = append->json.failed ? (moonpad_string){NULL, 0} : mp_buffer_text(&append->json);
  return !append->json.failed;
}

static void count_revisions(mp_append *append, unsigned heads) {
  mp_session_row *row = &append->row;
  row->revision++;
  if ((heads & MP_HEAD(MP_SCOPE_USER)) != 0) row->user_revision++;
  if ((heads & MP_HEAD(MP_SCOPE_APP)) != 0) row->app_revision++;
  row->last_update_time = append->draft.timestamp;
  if (append->draft.is_user_message) row->conversation_count++;
  for (size_t i = 0; i < append->stored_count; i++) {
    append->writes[i].revision = mp_row_revision(row, append->writes[i].scope);
  }
}

mp_event_row mp_append_event_row(const mp_append *append, unsigned heads) {
  const mp_event_draft *draft = &append->draft;
  unsigned kinds = draft->is_user_message ? MP_EVENT_USER_MESSAGE : 0;
  if ((heads & MP_HEAD(MP_SCOPE_SESSION)) != 0) kinds |= MP_EVENT_SESSION_CHANGE;
  uint64_t digest = append->id_given ? draft->digest : 0;
  if (append->id_given && digest == 0) digest = 1;
  mp_event_row row = {
      .revision = append->row.revision,
      .timestamp = draft->timestamp,
      .json = append->stored,
      .digest = digest,
      .kinds = kinds,
  };
  mp_event_draft_stored_ids(draft, append->stored, &row.id, &row.invocation);
  return row;
}

size_t mp_append_first_taken_in(const mp_append *append) {
  if (!append->duplicate) return 0;
  /*
  ** Stored by this very call, though it learns of it as of a duplicate: only temp: is not in
  ** the store.
  */
  bool sent_twice = !append->id_given;
  return sent_twice ? append->stored_count : append->count;
}

bool mp_append_reserve_notes(mp_append *append) {
  for (size_t i = 0; append->branch != NULL && i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    if (!mp_own_writes_reserve(append->env, &operation->entry->own, append->branch, &operation->note)) return false;
  }
  return true;
}

/*
** Of an event that was sent again, because the answer to the first sending was lost. Nobody
** else's change can be hidden: the first sending had looked. Of user and app keys nobody knows
** which revision was that one's.
*/
static void note_sent_before(mp_append *append, mp_operation *operation) {
  int64_t revision = append->event_revision, own = operation->entry->own.to;
  bool is_known = operation->scope == MP_SCOPE_SESSION && operation->checked && !append->id_given;
  if (!is_known || mp_append_last_change(append, operation) != revision) return;
  int64_t before = own > operation->known_change ? own : operation->known_change;
  if (before < revision) mp_own_writes_note(&operation->entry->own, before, revision, &operation->note);
}

void mp_append_note(mp_append *append) {
  size_t first = mp_append_first_taken_in(append);
  for (size_t i = 0; i < first && i < append->stored_count; i++) note_sent_before(append, &append->operations[i]);
  for (size_t i = first; i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    mp_own_writes_note(&operation->entry->own, mp_append_last_change(append, operation),
                       mp_row_revision(&append->row, operation->scope), &operation->note);
  }
}

/* Writes what has been decided. From here on only the store can fail. */
static moonpad_status store(mp_append *append, mp_tx *tx, moonpad_error *error) {
  mp_batch batch = {
      .row = &append->row,
      .keys = append->writes,
      .key_count = append->stored_count,
      .event_count = 1,
  };
  for (size_t i = 0; i < append->stored_count; i++) batch.heads |= MP_HEAD(append->operations[i].scope);
  count_revisions(append, batch.heads);
  mp_append_note(append);
  mp_event_row event = mp_append_event_row(append, batch.heads);
  batch.heads |= MP_HEAD(MP_SCOPE_SESSION);
  batch.events = &event;
  batch.ref = mp_session_ref_of_row(&append->names, &append->row);
  return tx->ops->apply(tx, &batch, error);
}

/* The rules (contract 2.1, 2.2), in sight of what was found. */
static moonpad_status decide(mp_append *append, moonpad_error *error) {
  moonpad_status status = MOONPAD_OK;
  for (size_t i = 0; status == MOONPAD_OK && i < append->stored_count; i++) {
    status = resolve(append, &append->operations[i], error);
  }
  for (size_t i = append->stored_count; status == MOONPAD_OK && i < append->count; i++) {
    status = check(append, &append->operations[i], error);
  }
  if (status == MOONPAD_OK && append->conflict_count > 0) {
    status = mp_fail_in_conflict(
        append->conflicts, append->conflict_count,
        "somebody else changed %s since it was looked at: refresh the session, then decide again", error);
  }
  if (status != MOONPAD_OK) return status;
  if (!mp_append_write_event(append, NULL)) return mp_no_memory(error);
  append->timestamp = append->draft.timestamp;
  append->event_revision = append->row.revision + 1;
  return check_sizes(append, error);
}

moonpad_status mp_append_run(mp_tx *tx, void *context, moonpad_error *error) {
  mp_append *append = context;
  mp_append_forget_outcome(append);
  append->has_outcome = true;
  append->has_written = false;
  if (append->live != NULL) append->others.view = &append->live->view;
  moonpad_status status = look(append, tx, error);
  if (status == MOONPAD_NOT_FOUND) return mp_append_not_found(append, error);
  if (status != MOONPAD_OK) return status;
  if (append->differs) return fail_differing(append, error);
  if (!mp_append_reserve_notes(append)) return mp_no_memory(error);
  if (append->duplicate) {
    mp_append_note(append);
    return MOONPAD_OK;
  }
  status = decide(append, error);
  if (status != MOONPAD_OK) return status;
  append->has_written = true;
  return store(append, tx, error);
}

/* ---- apply ---- */

/* The view takes over the draft's reference, where it has one. */
static void show_result(moonpad_session *session, mp_operation *operation, int64_t revision) {
  if (operation->given != NULL && operation->kind == MP_SET) {
    mp_view_move(&session->view, operation->entry, operation->value, revision);
    operation->given->value = operation->value = operation->result = NULL;
  } else {
    mp_view_set(&session->view, operation->entry, operation->result, revision);
  }
}

void mp_append_apply(mp_append *append, moonpad_session *session) {
  bool complete = mp_changed_keys_reserve(&append->others, &session->view);
  if (complete) mp_changed_keys_apply(&append->others, &session->view, &append->row);
  for (size_t i = mp_append_first_taken_in(append); i < append->count; i++) {
    mp_operation *operation = &append->operations[i];
    show_result(session, operation, mp_row_revision(&append->row, operation->scope));
    if (append->changes != NULL) mp_changes_stored(append->changes, operation->entry);
  }
  if (append->changes != NULL && append->duplicate) mp_changes_reset(append->changes, false);
  if (complete) session->row = append->row;
  moonpad_changes *writer = append->by_hand ? session->own : append->changes;
  if (writer != NULL && writer->pending_count == 0) mp_changes_note_clean(writer);
}

void mp_append_keep_conflicts(mp_append *append, moonpad_session *session) {
  mp_session_keep_conflicts(session, append->conflicts, append->conflict_count);
  append->conflicts = NULL;
  append->conflict_count = append->conflict_capacity = 0;
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

moonpad_event *mp_append_event(const mp_append *append) {
  if (append->stored.data == NULL) return NULL;
  return mp_event_new(append->env, append->stored, append->draft.id, append->event_revision, append->timestamp);
}

void mp_append_borrow_event(const mp_append *append, moonpad_event *event) {
  *event = (moonpad_event){append->env, append->event_revision, append->timestamp, append->draft.id, append->stored};
}
