/*
** The transaction of an append: it looks at what is stored, decides by the rules (an event id that
** is stored already: idempotency; conflicts, results, limits; contract 2.1, 2.2), then writes.
*/
#include "service/append/append.h"

#include "base/error.h"
#include "core/event_read.h"
#include "service/expiry/trim.h"
#include "service/limits.h"
#include "service/names.h"

/*
** An event with this id is stored already. That its content differs is noted here, and is an error
** after the look: the look goes on, because it also finds what others have stored.
*/
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
    /* the stored event itself may come again, with all that moonpad had filled in */
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
static moonpad_status look_once(mp_append *append, mp_tx *tx, moonpad_error *error) {
  mp_session_ref ref = mp_session_ref_of_row(&append->names, &append->snapshot);
  mp_look look = mp_look_at(&ref, &append->snapshot, &append->others);
  look.keys = append->wanted;
  look.key_count = append->wanted_count;
  if (append->id_given || append->may_be_stored) look.event_id = append->draft.id;
  look.each_state = note_others;
  look.each_event = note_duplicate;
  look.context = append;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((append->distrusted_scopes & MP_HEAD(scope)) != 0) look.since[scope] = MP_EVERY_KEY;
  }
  moonpad_status status = mp_look_for_changed_keys(tx, &look, &append->others, &append->facts, error);
  append->others.ahead_scopes |= append->distrusted_scopes;
  append->row = append->facts.row;
  append->has_looked = status == MOONPAD_OK;
  return status;
}

/* The state of a user or an app that has expired is removed first, as somebody else would. */
static moonpad_status look(mp_append *append, mp_tx *tx, moonpad_error *error) {
  bool removed = false;
  moonpad_status status = look_once(append, tx, error);
  if (status == MOONPAD_OK) status = mp_expiry_judge(&append->expiry, &append->facts);
  if (status == MOONPAD_OK) status = mp_expiry_remove_state(&append->expiry, tx, &removed, error);
  append->has_written = removed;
  if (status != MOONPAD_OK || !removed) return status;
  mp_append_forget_outcome(append);
  return look_once(append, tx, error);
}

static moonpad_status add_conflict(mp_append *append, const mp_operation *operation, moonpad_error *error) {
  if (!mp_reserve(append->env, (void **)&append->conflicts, &append->conflict_capacity, sizeof *append->conflicts,
                  append->conflict_count + 1)) {
    return mp_no_memory(error);
  }
  append->conflicts[append->conflict_count++] = mp_key_retain(operation->key);
  return MOONPAD_OK;
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

/* User and app count as used, too; the heads that are written anyway say so already. */
static moonpad_status use(mp_append *append, mp_tx *tx, unsigned written, moonpad_error *error) {
  append->expiry.stored |= written;
  return mp_expiry_touch(&append->expiry, tx, MP_ALL_HEADS & ~written, error);
}

static moonpad_status trim(mp_append *append, mp_tx *tx, moonpad_error *error) {
  mp_session_ref ref = mp_session_ref_of_row(&append->names, &append->row);
  mp_trimming trimming = {append->service, &ref, append->now, append->service->options.max_events,
                          append->draft.is_user_message};
  mp_known_turns known = append->turns;
  moonpad_status status = mp_trim(&trimming, tx, &append->row, &known, NULL, error);
  if (status == MOONPAD_OK) append->turns = known;
  return status;
}

/* Writes what has been decided. From here on only the store can fail. */
static moonpad_status store(mp_append *append, mp_tx *tx, moonpad_error *error) {
  mp_batch batch = {
      .row = &append->row,
      .touched = append->now,
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
  moonpad_status status = tx->ops->apply(tx, &batch, error);
  if (status == MOONPAD_OK) status = use(append, tx, batch.heads, error);
  return status == MOONPAD_OK && mp_trims(append->service) ? trim(append, tx, error) : status;
}

/* The rules (contract 2.1, 2.2), knowing what the look has found. */
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
        "somebody else changed %s since it was looked at: refresh the session, then decide again (increment and "
        "append never conflict)",
        error);
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
  if (status == MOONPAD_NOT_FOUND) return mp_fail_not_found(&append->names, error);
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
