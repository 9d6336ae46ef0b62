/*
** Change sets: their life, what they know of a key, and what an append leaves of it (contract 1.3).
*/
#include "service/changes/changes.h"

#include "base/error.h"
#include "core/tree_write.h"
#include "service/changes/change_set.h"

/* ---- life ---- */

static moonpad_changes *changes_new(mp_env *env, moonpad_session *session) {
  moonpad_changes *changes = mp_allocate_zeroed(env, sizeof *changes);
  if (changes == NULL) return NULL;
  changes->env = mp_env_retain(env);
  changes->session = session;
  mp_view_init(&changes->private_view, env);
  mp_map_init(&changes->map, env);
  mp_buffer_init(&changes->scratch, env);
  changes->view = session == NULL ? &changes->private_view : &session->view;
  return changes;
}

moonpad_status mp_changes_new_detached(mp_env *env, moonpad_changes **changes, moonpad_error *error) {
  *changes = changes_new(env, NULL);
  return *changes == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

mp_env *mp_changes_env(const moonpad_changes *changes) {
  return changes->env;
}

static void change_free(mp_change *change) {
  mp_env *env = change->owner->env;
  mp_change_drop_root(change);
  mp_change_forget_below(change);
  mp_change_drop_versions(change);
  mp_value_release(env, change->value);
  mp_buffer_free(&change->further);
  mp_release(env, change);
}

/* What it knows of keys, whose entries are the session object's. */
static void forget_keys(moonpad_changes *changes) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) change_free(slot->value);
  mp_map_free(&changes->map);
}

/* ---- what a session object tells its change sets ---- */

/* After a refresh: what is pending counts as decided in sight of what the object holds now. */
static void rebase(moonpad_changes *changes) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (!change->touched) continue;
    change->base = mp_snapshot_revision(changes->session, change->entry->scope);
  }
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    changes->all_base[scope] = mp_snapshot_revision(changes->session, (mp_scope)scope);
  }
}

static void refreshed(moonpad_session *session) {
  for (moonpad_changes *changes = session->sets; changes != NULL; changes = changes->next) rebase(changes);
}

/* It is about to be freed: its change sets forget what they hold of it. */
static void freeing(moonpad_session *session) {
  moonpad_changes_free(session->own);
  for (moonpad_changes *changes; (changes = session->sets) != NULL;) {
    session->sets = changes->next;
    mp_changes_thaw(changes);
    forget_keys(changes);
    mp_map_init(&changes->map, changes->env);
    changes->view = &changes->private_view;
    changes->pending_count = 0;
    changes->session = NULL;
    changes->below = NULL;
    changes->in_call = false;
    changes->session_freed = true;
  }
}

static void link_to_session(moonpad_changes *changes, moonpad_session *session) {
  static const mp_session_hooks hooks = {refreshed, freeing};
  changes->next = session->sets;
  session->sets = changes;
  session->hooks = &hooks;
  session->view.will_change = mp_changes_keep_version;
  session->view.context = session;
}

static void unlink_from_session(moonpad_changes *changes) {
  moonpad_session *session = changes->session;
  if (session == NULL) return;
  moonpad_changes **link = &session->sets;
  while (*link != NULL && *link != changes) link = &(*link)->next;
  if (*link == changes) *link = changes->next;
  if (session->own == changes) session->own = NULL;
  if (session->frozen == changes) session->frozen = NULL;
  if (session->sets == NULL) session->view.will_change = NULL;
}

moonpad_status moonpad_changes_begin(moonpad_session *session, moonpad_changes **changes, moonpad_error *error) {
  *changes = changes_new(session->env, session);
  if (*changes == NULL) return mp_no_memory(error);
  link_to_session(*changes, session);
  return MOONPAD_OK;
}

moonpad_changes *mp_session_own_changes(moonpad_session *session) {
  if (session->own == NULL) moonpad_changes_begin(session, &session->own, NULL);
  return session->own;
}

void moonpad_changes_free(moonpad_changes *changes) {
  if (changes == NULL) return;
  mp_call_end(changes);
  unlink_from_session(changes);
  forget_keys(changes);
  mp_env *env = changes->env;
  mp_key_release(env, changes->branch);
  mp_value_release(env, changes->lent);
  mp_buffer_free(&changes->scratch);
  mp_view_free(&changes->private_view);
  mp_release(env, changes);
  mp_env_release(env);
}

moonpad_status mp_changes_set_branch(moonpad_changes *changes, moonpad_string branch, moonpad_error *error) {
  mp_key *name = NULL;
  if (branch.length != 0) {
    name = mp_key_new(changes->env, branch);
    if (name == NULL) return mp_no_memory(error);
  }
  mp_key_release(changes->env, changes->branch);
  changes->branch = name;
  return MOONPAD_OK;
}

/* ---- one key ---- */

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
  change->held = owned != NULL ? owned : mp_value_retain((mp_value *)shown);
  change->under = &change->held;
  return MOONPAD_OK;
}

void mp_change_forget_below(mp_change *change) {
  change->read_now = false;
  if (change->under != &change->held) return;
  mp_value_release(change->owner->env, change->held);
  change->held = NULL;
  change->under = NULL;
  change->over_pending = change->over_written = false;
}

void mp_changes_forget_below(moonpad_changes *changes) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change_forget_below(slot->value);
  }
}

moonpad_status mp_change_look(moonpad_changes *changes, moonpad_string key, mp_change **change, moonpad_error *error) {
  *change = mp_change_of(changes, key);
  return *change == NULL ? mp_no_memory(error) : mp_change_look_below(*change, error);
}

/* Temporary keys go with those of the session. */
static mp_scope base_scope(const mp_change *change) {
  mp_scope scope = change->entry->scope;
  return scope == MP_SCOPE_TEMP ? MP_SCOPE_SESSION : scope;
}

void mp_change_touch(mp_change *change, bool reading) {
  const moonpad_changes *changes = change->owner;
  mp_scope scope = base_scope(change);
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
  change->by_place = false;
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

/* ---- all of it ---- */

void mp_changes_reset(moonpad_changes *changes, bool keep_marks) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (change->pending) {
      mp_change_drop_root(change);
      mp_change_forget_pending(change);
    }
    if (!keep_marks) change->touched = change->read = change->read_now = false;
  }
  if (!keep_marks) changes->all_read = changes->all_read_now = false;
}

void moonpad_changes_discard(moonpad_changes *changes) {
  mp_changes_reset(changes, false);
}

void mp_changes_end(moonpad_changes *changes, const char *reason) {
  mp_changes_reset(changes, false);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change_drop_root(slot->value);
  }
  mp_call_end(changes);
  changes->ended = reason;
}

void mp_changes_promote(moonpad_changes *changes) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (!change->pending || change->kind != MP_SET || mp_change_fold(change, NULL) != MOONPAD_OK) continue;
    mp_value_release(changes->env, change->entry->value);
    change->entry->value = mp_value_retain(change->value);
    if (change->root != NULL) mp_tree_mark_clean(change->root);
    mp_change_clear(change);
  }
}
