/* What an append takes from a change set, and leaves in it (contract 2.2). */
#include "base/error.h"
#include "core/tree_write.h"
#include "service/changes/change_set.h"

/* ---- before ---- */

moonpad_status mp_changes_refuse_commit(const moonpad_changes *changes, moonpad_error *error) {
  moonpad_status status = mp_changes_refuse_if_session_freed(changes, error);
  if (status != MOONPAD_OK) return status;
  if (changes->below != NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "this state belongs to a tool call: its answer is committed");
  }
  if (changes->session == NULL) {
    return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "this state belongs to no session: it cannot be committed");
  }
  mp_session_drain_unshown(changes->session);
  return mp_changes_refuse_if_ended(changes, error);
}

moonpad_session *mp_changes_session(const moonpad_changes *changes) {
  return changes->session;
}

mp_key *mp_changes_branch(const moonpad_changes *changes) {
  return changes->branch;
}

bool mp_changes_is_pending(const moonpad_changes *changes, moonpad_string key, uint64_t hash) {
  const mp_change *change = mp_map_get_hashed(&changes->map, key.data, key.length, hash);
  return change != NULL && change->pending;
}

bool mp_changes_has_read(const moonpad_changes *changes, const mp_view_entry *entry) {
  const mp_key *key = entry->key;
  const mp_change *change = mp_map_get_hashed(&changes->map, key->bytes, key->length, key->hash);
  return change != NULL && change->touched ? change->read : changes->all_read;
}

const mp_view_entry *mp_change_entry(const mp_change *change) {
  return change->entry;
}

moonpad_status mp_change_pending_write(mp_change *change, mp_pending_write *write, moonpad_error *error) {
  moonpad_status status = mp_change_fold(change, error);
  *write = (mp_pending_write){.entry = change->entry,
                              .kind = change->kind,
                              .value = change->value,
                              .base = change->base,
                              .has_read = change->read,
                              .last_writer_wins = change->last_writer_wins};
  return status;
}

/* ---- after ---- */

/* What was pending is stored now. The nodes live on where they hold what was stored. */
static void note_stored(mp_change *change) {
  mp_value *stored = change->entry->value;
  if (change->root != NULL) {
    bool same = change->pending && stored != NULL && mp_is_composite(stored->as.type) &&
                mp_equal_values(change->root_source, stored);
    if (same && (change->kind == MP_SET || change->kind == MP_APPEND)) {
      mp_tree_mark_clean(change->root);
      mp_value_retain(stored);
      mp_value_release(change->owner->env, change->root_source);
      change->root_source = stored;
    } else if (change->root_source != stored) {
      mp_change_drop_root(change);
    }
  }
  mp_change_clear(change);
}

void mp_changes_stored(moonpad_changes *changes, const mp_view_entry *entry) {
  mp_change *change = mp_map_get_hashed(&changes->map, entry->key->bytes, entry->key->length, entry->key->hash);
  if (change != NULL && change->pending) note_stored(change);
}

void mp_changes_note_appended(moonpad_changes *changes) {
  if (changes->pending_count > 0) return;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    changes->all_base[scope] = changes->clean_at[scope] = mp_snapshot_revision(changes->session, (mp_scope)scope);
  }
}
