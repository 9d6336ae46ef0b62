/* Change sets: their life, what ends them, what their session object tells them. */
#include "base/error.h"
#include "core/tree_write.h"
#include "service/changes/change_set.h"

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

/* After a refresh: the snapshot is the base of all that is pending (contract 2.2). */
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

/*
** A key that is stored otherwise than it was shown has a base before what is stored, so that a
** write of it conflicts; no other base is later than what is stored.
*/
static void take_key_back(mp_change *change, const mp_session_row *stored) {
  mp_scope scope = mp_change_base_scope(change);
  int64_t last = mp_row_revision(stored, scope), seen = change->owner->clean_at[scope];
  if (change->entry->is_taken_back) last = change->entry->revision - 1;
  if (!change->pending && change->base < seen) change->base = seen;
  if (change->base > last) change->base = last;
}

/* Up to which revision of each scope what was shown is what is stored. */
static void find_common(const mp_view *view, const mp_session_row *stored, int64_t common[MP_STORED_SCOPES]) {
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) common[scope] = mp_row_revision(stored, (mp_scope)scope);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&view->entries, &position)) != NULL;) {
    const mp_view_entry *entry = slot->value;
    if (entry->is_taken_back && entry->revision <= common[entry->scope]) common[entry->scope] = entry->revision - 1;
  }
}

static void take_set_back(moonpad_changes *changes, unsigned scopes, const mp_session_row *stored,
                          const int64_t common[MP_STORED_SCOPES]) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    bool is_back = (scopes & MP_HEAD(mp_change_base_scope(change))) != 0;
    if (is_back && change->touched) take_key_back(change, stored);
  }
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((scopes & MP_HEAD(scope)) == 0) continue;
    if (changes->all_base[scope] > common[scope]) changes->all_base[scope] = common[scope];
    if (changes->began_at[scope] > common[scope]) changes->began_at[scope] = common[scope];
    changes->clean_at[scope] = 0;
  }
}

static void taken_back(moonpad_session *session, unsigned scopes, const mp_session_row *stored) {
  int64_t common[MP_STORED_SCOPES];
  find_common(&session->view, stored, common);
  for (moonpad_changes *changes = session->sets; changes != NULL; changes = changes->next) {
    take_set_back(changes, scopes, stored, common);
  }
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
  static const mp_session_hooks hooks = {refreshed, taken_back, freeing};
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
  mp_in_flight_forget_writer(&session->in_flight, changes);
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
  mp_value_release(env, changes->handed_out);
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

/* ---- dropping and ending ---- */

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

/* ---- what it takes ---- */

static const char is_being_stored[] = "its event is being stored";

void mp_changes_freeze(moonpad_changes *changes) {
  if (changes->ended == NULL) changes->ended = is_being_stored;
}

void mp_changes_thaw(moonpad_changes *changes) {
  if (changes->ended == is_being_stored) changes->ended = NULL;
}

moonpad_status mp_changes_refuse_if_ended(const moonpad_changes *changes, moonpad_error *error) {
  if (changes->ended == NULL) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_INVALID_ARGUMENT, "this state takes no more writes: %s", changes->ended);
}

moonpad_status mp_changes_refuse_if_session_freed(const moonpad_changes *changes, moonpad_error *error) {
  if (!changes->session_freed) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_CLOSED, "the session object of this change set has been freed");
}
