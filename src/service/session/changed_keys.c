/* Keys that a transaction has found changed, and how they get into a view. */
#include "service/session/changed_keys.h"

#include "base/error.h"

void mp_changed_keys_init(mp_changed_keys *changed, mp_env *env) {
  mp_entries_init(&changed->found, env);
  changed->view = NULL;
  changed->complete_scopes = changed->ahead_scopes = 0;
}

void mp_changed_keys_clear(mp_changed_keys *changed) {
  mp_entries_clear(&changed->found);
  changed->complete_scopes = changed->ahead_scopes = 0;
}

void mp_changed_keys_free(mp_changed_keys *changed) {
  mp_entries_free(&changed->found);
  changed->view = NULL;
  changed->complete_scopes = 0;
}

/* The view's own key, where the view is known. */
static mp_key *changed_key(const mp_changed_keys *changed, moonpad_string name) {
  if (changed->view == NULL) return mp_key_new(changed->found.env, name);
  const mp_view_entry *entry = mp_view_touch(changed->view, name);
  return entry == NULL ? NULL : mp_key_retain(entry->key);
}

moonpad_status mp_changed_keys_add_row(void *context, const mp_state_row *row, moonpad_error *error) {
  mp_changed_keys *changed = context;
  char room[MP_PREFIXED_BYTES];
  if (row->key.length > MOONPAD_MAX_KEY_BYTES) {
    return mp_fail(error, MOONPAD_CORRUPT, "a stored state key is longer than %d bytes", MOONPAD_MAX_KEY_BYTES);
  }
  moonpad_string name = mp_scope_join(row->scope, row->key, room);
  mp_entry *entry = mp_entries_add_owned(&changed->found, changed_key(changed, name));
  if (entry == NULL) return mp_no_memory(error);
  entry->value = mp_value_retain(row->value);
  entry->revision = row->revision;
  return MOONPAD_OK;
}

mp_session_ref mp_session_ref_of_row(const moonpad_session_name *name, const mp_session_row *row) {
  return (mp_session_ref){*name, row->id, row->user, row->app};
}

mp_look mp_look_at(const mp_session_ref *ref, const mp_session_row *snapshot, mp_changed_keys *changed) {
  mp_look look = {.ref = *ref, .heads = MP_ALL_HEADS, .each_state = mp_changed_keys_add_row, .context = changed};
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    look.since[scope] = snapshot == NULL ? MP_EVERY_KEY : mp_row_revision(snapshot, (mp_scope)scope);
  }
  return look;
}

void mp_changed_keys_note_complete(mp_changed_keys *changed, const mp_facts *facts) {
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if (facts->whole[scope]) changed->complete_scopes |= MP_HEAD(scope);
  }
}

/* Of these scopes, all keys will be asked for. */
static unsigned find_ahead(mp_look *look, const mp_session_row *row) {
  unsigned ahead = 0;
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    bool is_asked = (look->heads & MP_HEAD(scope)) != 0 && look->since[scope] != MP_NO_KEYS;
    if (!is_asked || look->since[scope] <= mp_row_revision(row, (mp_scope)scope)) continue;
    look->since[scope] = MP_EVERY_KEY;
    ahead |= MP_HEAD(scope);
  }
  return ahead;
}

static moonpad_status look_again(mp_tx *tx, mp_look *look, mp_changed_keys *changed, mp_facts *facts,
                                 moonpad_error *error) {
  for (size_t i = 0; i < look->key_count; i++) {
    mp_value_release(changed->found.env, look->keys[i].value);
    look->keys[i].value = NULL;
  }
  mp_changed_keys_clear(changed);
  return tx->ops->look(tx, look, facts, error);
}

moonpad_status mp_look_for_changed_keys(mp_tx *tx, mp_look *look, mp_changed_keys *changed, mp_facts *facts,
                                        moonpad_error *error) {
  mp_changed_keys_clear(changed);
  moonpad_status status = tx->ops->look(tx, look, facts, error);
  unsigned ahead = status == MOONPAD_OK ? find_ahead(look, &facts->row) : 0;
  if (ahead != 0) status = look_again(tx, look, changed, facts, error);
  changed->ahead_scopes = ahead;
  if (status == MOONPAD_OK) mp_changed_keys_note_complete(changed, facts);
  return status;
}

moonpad_status mp_look_for_live_keys(mp_tx *tx, mp_look *look, mp_expiry *expiry, mp_changed_keys *changed,
                                     mp_facts *facts, moonpad_error *error) {
  moonpad_status status = mp_look_for_changed_keys(tx, look, changed, facts, error);
  if (status == MOONPAD_OK) status = mp_expiry_judge(expiry, facts);
  if (status != MOONPAD_OK) return status;
  /* State that has expired: the scope has been found, and there is nothing in it. */
  for (int scope = 0; scope < MP_STORED_SCOPES; scope++) {
    if ((expiry->expired & MP_HEAD(scope)) != 0) mp_entries_remove_scope(&changed->found, (mp_scope)scope);
  }
  changed->complete_scopes |= expiry->expired;
  return mp_expiry_touch(expiry, tx, MP_ALL_HEADS & ~expiry->expired, error);
}

/* ---- putting them into a view ---- */

bool mp_changed_keys_reserve(const mp_changed_keys *changed, mp_view *view) {
  for (size_t i = 0; i < changed->found.count; i++) {
    const mp_entry *found = &changed->found.items[i];
    if (mp_view_touch_hashed(view, found->key, found->hash) == NULL) return false;
  }
  return true;
}

static bool is_in(const mp_view_entry *entry, unsigned scopes) {
  return entry->scope != MP_SCOPE_TEMP && (scopes & MP_HEAD(entry->scope)) != 0;
}

/*
** Marks what the view has of the scopes that were found complete. Of those that it is ahead in, no
** key has a later revision than is stored.
*/
static void mark_stale(const mp_view *view, const mp_changed_keys *changed, const mp_session_row *row) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&view->entries, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    int64_t last = mp_row_revision(row, entry->scope);
    entry->stale = is_in(entry, changed->complete_scopes) && mp_view_stored(entry) != NULL;
    if (is_in(entry, changed->ahead_scopes) && entry->revision > last) entry->revision = last;
  }
}

/* Removes what is still marked: it was not found again. */
static void remove_stale(mp_view *view, const mp_changed_keys *changed, const mp_session_row *row) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&view->entries, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    if (entry->stale) {
      mp_view_set(view, entry, NULL, mp_row_revision(row, entry->scope));
      if (is_in(entry, changed->ahead_scopes)) entry->is_taken_back = true;
    }
    entry->stale = false;
  }
}

void mp_changed_keys_apply(const mp_changed_keys *changed, mp_view *view, const mp_session_row *row) {
  if (changed->complete_scopes != 0) mark_stale(view, changed, row);
  for (size_t i = 0; i < changed->found.count; i++) {
    const mp_entry *found = &changed->found.items[i];
    mp_view_entry *entry = mp_map_get_hashed(&view->entries, found->key.data, found->key.length, found->hash);
    entry->stale = false;
    /* The same value again is no change: the nodes that were opened from it stay. */
    mp_value *stored = mp_view_stored(entry);
    bool is_known = entry->revision == found->revision && mp_equal_values(stored, found->value);
    mp_view_set(view, entry, is_known ? stored : found->value, found->revision);
    if (!is_known && is_in(entry, changed->ahead_scopes)) entry->is_taken_back = true;
  }
  if (changed->complete_scopes != 0) remove_stale(view, changed, row);
}
