/* What keys showed before they changed, for tool calls that had begun (contract 1.4 point 5). */
#include "base/error.h"
#include "service/changes/change_set.h"

/* ---- one version ---- */

moonpad_status mp_version_new(mp_change *change, mp_patch *patch, mp_version **made, moonpad_error *error) {
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_shown(change, &shown, &owned, error);
  if (status == MOONPAD_NO_MEMORY) return status;
  /* what is pending does not fit on it any more */
  if (status != MOONPAD_OK) shown = change->entry->value;
  mp_version *version = mp_allocate_zeroed(change->owner->env, sizeof *version);
  if (version == NULL) {
    mp_value_release(change->owner->env, owned);
    return mp_no_memory(error);
  }
  version->value = owned != NULL ? owned : mp_value_retain((mp_value *)shown);
  version->was_pending = change->pending;
  version->was_written = mp_change_is_written(change);
  version->patch = patch == NULL ? NULL : mp_patch_retain(patch);
  *made = version;
  return MOONPAD_OK;
}

void mp_version_free(mp_env *env, mp_version *version) {
  if (version == NULL) return;
  mp_value_release(env, version->value);
  mp_patch_release(version->patch);
  mp_release(env, version);
}

void mp_change_add_version(mp_change *change, mp_version *version) {
  version->number = ++change->owner->changed;
  version->older = change->versions;
  change->versions = version;
}

void mp_change_drop_versions(mp_change *change) {
  for (mp_version *version; (version = change->versions) != NULL;) {
    change->versions = version->older;
    mp_version_free(change->owner->env, version);
  }
}

void mp_changes_keep_version(void *context, const mp_view_entry *entry) {
  const moonpad_session *session = context;
  for (moonpad_changes *changes = session->sets; changes != NULL; changes = changes->next) {
    if (changes->open == 0) continue;
    mp_change *change = mp_change_of(changes, mp_key_text(entry->key));
    if (change != NULL && mp_change_is_written(change)) continue;
    mp_version *version;
    if (change == NULL || mp_version_new(change, NULL, &version, NULL) != MOONPAD_OK) {
      changes->has_lost = true;
    } else {
      mp_change_add_version(change, version);
    }
  }
}

/* ---- a call ---- */

void mp_call_begin(moonpad_changes *changes) {
  changes->in_call = true;
  changes->call_began = changes->below->changed;
  changes->below->open++;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    changes->began_at[scope] = mp_snapshot_revision(changes->session, (mp_scope)scope);
  }
}

void mp_call_look_anew(moonpad_changes *changes) {
  mp_changes_forget_below(changes);
  changes->began = changes->below->changed;
  changes->all_read_now = false;
}

/* Nobody needs what its keys showed before. */
static void drop_versions(moonpad_changes *below) {
  size_t position = 0;
  for (const mp_map_slot *slot; below->changed > 0 && (slot = mp_map_next(&below->map, &position)) != NULL;) {
    mp_change_drop_versions(slot->value);
  }
  below->changed = 0;
  below->has_lost = false;
}

void mp_call_end(moonpad_changes *changes) {
  if (!changes->in_call) return;
  mp_call_look_anew(changes);
  changes->in_call = false;
  if (--changes->below->open == 0) drop_versions(changes->below);
}
