/*
** What a change set knows of one key: its pending write, whether it was read and at which
** revision, what lies below (contract 1.3, 1.4, 2.2).
*/
#include "base/error.h"
#include "core/tree_write.h"
#include "service/changes/change_set.h"

mp_change *mp_change_of(moonpad_changes *changes, moonpad_string key) {
  uint64_t hash = mp_hash(key.data, key.length);
  mp_change *change = mp_map_get_hashed(&changes->map, key.data, key.length, hash);
  if (change != NULL) return change;
  mp_view_entry *entry = mp_view_touch(changes->view, key);
  if (entry == NULL) return NULL;
  change = mp_allocate_zeroed(changes->env, sizeof *change);
  if (change == NULL) return NULL;
  change->owner = changes;
  change->entry = entry;
  change->read_now = changes->all_read_now;
  if (changes->below == NULL) change->under = &entry->value;
  mp_buffer_init(&change->further, changes->env);
  if (!mp_map_put(&changes->map, entry->key, change)) {
    mp_release(changes->env, change);
    return NULL;
  }
  return change;
}

/* ---- what it shows ---- */

/* One piece of text out of those in `value` and those behind it. */
static moonpad_status fold_items(mp_change *change, moonpad_error *error) {
  mp_buffer text;
  mp_buffer_init(&text, change->owner->env);
  moonpad_string first = change->value->as.as.text;
  mp_buffer_room(&text, first.length + change->further.length);
  mp_buffer_add(&text, first.data, first.length - 1);
  mp_buffer_add_string(&text, mp_buffer_text(&change->further));
  mp_buffer_add_char(&text, ']');
  mp_value *items = text.failed ? NULL : mp_value_new_json(text.env, MOONPAD_ARRAY, mp_buffer_text(&text));
  mp_buffer_free(&text);
  if (items == NULL) return mp_no_memory(error);
  mp_value_release(change->owner->env, change->value);
  change->value = items;
  mp_buffer_free(&change->further);
  return MOONPAD_OK;
}

moonpad_status mp_change_fold(mp_change *change, moonpad_error *error) {
  if (change->further.length != 0) return fold_items(change, error);
  if (change->root == NULL || !change->pending || change->kind != MP_SET || !mp_tree_is_dirty(change->root)) {
    return MOONPAD_OK;
  }
  mp_value *value = mp_node_value(change->root);
  if (value == NULL) return mp_no_memory(error);
  mp_value_release(change->owner->env, change->value);
  change->value = value;
  mp_value_retain(value);
  mp_value_release(change->owner->env, change->root_source);
  change->root_source = value;
  return MOONPAD_OK;
}

/* The value under an increment or append, were it committed now. */
static moonpad_status local_result(mp_change *change, mp_value **result, moonpad_error *error) {
  moonpad_status status = mp_change_fold(change, error);
  if (status != MOONPAD_OK) return status;
  return mp_apply_pending(change->owner->env, change->kind, mp_key_text(change->entry->key), *change->under,
                          change->value, result, error);
}

moonpad_status mp_change_shown(mp_change *change, const mp_value **value, mp_value **owned, moonpad_error *error) {
  *owned = NULL;
  if (!change->pending) {
    *value = *change->under;
  } else if (change->kind == MP_SET) {
    moonpad_status status = mp_change_fold(change, error);
    if (status != MOONPAD_OK) return status;
    *value = change->value;
  } else if (change->kind == MP_REMOVE) {
    *value = NULL;
  } else {
    moonpad_status status = local_result(change, owned, error);
    if (status != MOONPAD_OK) return status;
    *value = *owned;
  }
  return MOONPAD_OK;
}

/* ---- what lies below ---- */

void mp_change_forget_below(mp_change *change) {
  change->read_now = false;
  if (change->under != &change->below_value) return;
  mp_value_release(change->owner->env, change->below_value);
  change->below_value = NULL;
  change->under = NULL;
  change->over_pending = change->over_written = false;
}

void mp_changes_forget_below(moonpad_changes *changes) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change_forget_below(slot->value);
  }
}

const mp_version *mp_change_version(const mp_change *change, const moonpad_changes *changes) {
  const mp_version *seen = NULL, *stored = NULL;
  const mp_version *at = changes->in_call ? change->versions : NULL;
  for (; at != NULL && at->number > changes->call_began; at = at->older) {
    if (at->number > changes->began) {
      seen = at;
    } else if (at->patch == NULL) {
      stored = at;
    }
  }
  bool was_pending = seen != NULL ? seen->was_pending : change->pending;
  return stored != NULL && !was_pending ? stored : seen;
}

moonpad_status mp_change_look_below(mp_change *change, moonpad_error *error) {
  if (mp_change_knows_below(change)) return MOONPAD_OK;
  if (change->under != NULL) mp_change_forget_below(change);
  moonpad_changes *changes = change->owner;
  const mp_key *key = change->entry->key;
  mp_change *below = mp_map_get_hashed(&changes->below->map, key->bytes, key->length, key->hash);
  const mp_version *version = below == NULL ? NULL : mp_change_version(below, changes);
  const mp_value *shown = version != NULL ? version->value : change->entry->value;
  mp_value *owned = NULL;
  if (version != NULL) {
    change->over_pending = version->was_pending;
    change->over_written = version->was_written;
  } else if (below != NULL) {
    moonpad_status status = mp_change_shown(below, &shown, &owned, error);
    if (status != MOONPAD_OK) return status;
    change->over_pending = below->pending;
    change->over_written = mp_change_is_written(below);
  }
  change->below_value = owned != NULL ? owned : mp_value_retain((mp_value *)shown);
  change->under = &change->below_value;
  return MOONPAD_OK;
}

moonpad_status mp_change_look(moonpad_changes *changes, moonpad_string key, mp_change **change, moonpad_error *error) {
  *change = mp_change_of(changes, key);
  return *change == NULL ? mp_no_memory(error) : mp_change_look_below(*change, error);
}

/* ---- marks ---- */

void mp_change_touch(mp_change *change, bool reading) {
  const moonpad_changes *changes = change->owner;
  mp_scope scope = mp_change_base_scope(change);
  if (!change->touched) {
    change->touched = true;
    change->read = changes->all_read;
    if (changes->session == NULL) {
      change->base = 0;
    } else if (changes->all_read) {
      change->base = changes->all_base[scope];
    } else {
      change->base = mp_changes_seen_at(changes, scope);
    }
  }
  if (!change->pending && change->base < changes->clean_at[scope]) change->base = changes->clean_at[scope];
  /* What was written itself, here or below, tells nothing about what others have stored. */
  if (!reading || mp_change_is_written(change)) return;
  change->read_now = true;
  if (!change->over_written) change->read = true;
}

/* ---- what is pending ---- */

void mp_change_drop_root(mp_change *change) {
  if (change->root == NULL) return;
  mp_tree_detach(change->root);
  mp_node_release(change->root);
  mp_value_release(change->owner->env, change->root_source);
  change->root = NULL;
  change->root_source = NULL;
}

void mp_change_forget_pending(mp_change *change) {
  if (change->pending) change->owner->pending_count--;
  change->pending = false;
  change->last_writer_wins = false;
  change->by_path = false;
  change->created = false;
  mp_value_release(change->owner->env, change->value);
  change->value = NULL;
  mp_buffer_free(&change->further);
}

void mp_change_begin_pending(mp_change *change, mp_operation_kind kind) {
  if (!change->pending) change->owner->pending_count++;
  change->pending = true;
  change->kind = kind;
}

void mp_change_clear(mp_change *change) {
  mp_change_forget_pending(change);
  change->touched = false;
  change->read = change->read_now = false;
}
