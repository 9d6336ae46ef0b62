/* Change sets: all keys at once (contract 1.3). */
#include <stdlib.h>

#include "base/error.h"
#include "service/changes/change_set.h"

/* What the set knows of a key, or those below it; NULL: the view shows what there is. */
static mp_change *find_change(const moonpad_changes *changes, const mp_key *key) {
  for (; changes != NULL; changes = changes->below) {
    mp_change *change = mp_map_get_hashed(&changes->map, key->bytes, key->length, key->hash);
    if (change != NULL && (change->pending || change->under != NULL)) return change;
  }
  return NULL;
}

static bool shows_key(const moonpad_changes *changes, const mp_view_entry *entry) {
  const mp_change *change = find_change(changes, entry->key);
  if (change == NULL) return entry->value != NULL;
  return change->pending ? change->kind != MP_REMOVE : *change->under != NULL;
}

/* Every change has an entry in the view, so the view names all keys there are. */
static moonpad_status add_keys(const moonpad_changes *changes, mp_entries *keys, moonpad_error *error) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->view->entries, &position)) != NULL;) {
    const mp_view_entry *entry = slot->value;
    if (!shows_key(changes, entry)) continue;
    if (mp_entries_add_owned(keys, mp_key_retain(entry->key)) == NULL) return mp_no_memory(error);
  }
  mp_entries_sort(keys);
  return MOONPAD_OK;
}

void mp_changes_mark_all_read(moonpad_changes *changes) {
  if (changes->session == NULL) return;
  bool again = changes->all_read;
  for (int scope = 0; scope < MP_STORED_SCOPES && !again; scope++) {
    changes->all_base[scope] = mp_changes_seen_at(changes, (mp_scope)scope);
  }
  changes->all_read = changes->all_read_now = true;
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (!change->pending) change->read_now = true;
    if (change->touched) mp_change_touch(change, true);
  }
}

/*
** Of a set in a transaction: looks at the keys that have changed below since that began, and
** `pending` at those that were pending there. When the call is over, what it saw counts no longer.
*/
static moonpad_status look_below(moonpad_changes *changes, bool pending, moonpad_error *error) {
  moonpad_changes *below = changes->below;
  moonpad_status status = MOONPAD_OK;
  size_t position = 0;
  const mp_map_slot *slot;
  if (below != NULL && !changes->in_call) mp_changes_forget_below(changes);
  while (below != NULL && status == MOONPAD_OK && (slot = mp_map_next(&below->map, &position)) != NULL) {
    const mp_change *change = slot->value;
    mp_change *own;
    if (!(pending && change->pending) && mp_change_version(change, changes) == NULL) continue;
    status = mp_change_look(changes, mp_key_text(change->entry->key), &own, error);
  }
  return status;
}

moonpad_status mp_changes_keys(moonpad_changes *changes, mp_entries *keys, moonpad_error *error) {
  mp_entries_init(keys, changes->env);
  mp_changes_mark_all_read(changes);
  moonpad_status status = look_below(changes, false, error);
  if (status == MOONPAD_OK) status = add_keys(changes, keys, error);
  if (status != MOONPAD_OK) mp_entries_free(keys);
  return status;
}

/* Writes what is shown under sorted keys, and which of them show nothing. `removed` may be NULL. */
static moonpad_status write_shown(const moonpad_changes *changes, mp_entries *keys, mp_buffer *out, mp_buffer *removed,
                                  moonpad_error *error) {
  for (size_t i = 0; i < keys->count; i++) {
    mp_entry *key = &keys->items[i];
    mp_change *change = find_change(changes, key->owned);
    if (change == NULL) {
      const mp_view_entry *entry =
          mp_map_get_hashed(&changes->view->entries, key->key.data, key->key.length, key->hash);
      key->value = mp_value_retain(entry->value);
      continue;
    }
    const mp_value *shown;
    mp_value *owned;
    moonpad_status status = mp_change_shown(change, &shown, &owned, error);
    if (status != MOONPAD_OK) return status;
    key->value = owned != NULL ? owned : mp_value_retain((mp_value *)shown);
  }
  mp_entries_write(keys, MP_SCOPE_SESSION, out);
  if (removed != NULL) mp_entries_write_removed(keys, removed);
  return out->failed || (removed != NULL && removed->failed) ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_changes_write_all(moonpad_changes *changes, bool is_read, mp_buffer *out, moonpad_error *error) {
  mp_entries keys;
  mp_entries_init(&keys, changes->env);
  if (is_read) mp_changes_mark_all_read(changes);
  moonpad_status status = look_below(changes, false, error);
  if (status == MOONPAD_OK) status = add_keys(changes, &keys, error);
  if (status == MOONPAD_OK) status = write_shown(changes, &keys, out, NULL, error);
  mp_entries_free(&keys);
  return status;
}

static int compare_changes(const void *a, const void *b) {
  const mp_change *const *x = a;
  const mp_change *const *y = b;
  return mp_text_compare(mp_key_text((*x)->entry->key), mp_key_text((*y)->entry->key));
}

moonpad_status mp_changes_pending_list(moonpad_changes *changes, mp_change ***list, size_t *count,
                                       moonpad_error *error) {
  *count = 0;
  *list = mp_allocate(changes->env, changes->pending_count * sizeof **list);
  if (*list == NULL) return mp_no_memory(error);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (change->pending) (*list)[(*count)++] = change;
  }
  if (*count > 1) qsort(*list, *count, sizeof **list, compare_changes);
  return MOONPAD_OK;
}

bool moonpad_changes_pending(const moonpad_changes *changes) {
  bool is_pending = changes->pending_count > 0;
  size_t position = 0;
  const mp_map_slot *slot;
  while (!is_pending && changes->below != NULL && (slot = mp_map_next(&changes->below->map, &position)) != NULL) {
    const mp_change *below = slot->value;
    const mp_version *version = mp_change_version(below, changes);
    is_pending = version != NULL ? version->was_pending : below->pending;
  }
  return is_pending;
}

/* What it sees of others' writes is a look at these keys. */
static moonpad_status add_pending_keys(moonpad_changes *changes, mp_entries *keys, moonpad_error *error) {
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (!change->pending && !change->over_pending) continue;
    if (!change->pending) mp_change_touch(change, true);
    if (mp_entries_add_owned(keys, mp_key_retain(change->entry->key)) == NULL) return mp_no_memory(error);
  }
  mp_entries_sort(keys);
  return MOONPAD_OK;
}

moonpad_status mp_changes_write_delta(moonpad_changes *changes, mp_buffer *out, mp_buffer *removed,
                                      moonpad_error *error) {
  mp_entries keys;
  mp_entries_init(&keys, changes->env);
  moonpad_status status = look_below(changes, true, error);
  if (status == MOONPAD_OK) status = add_pending_keys(changes, &keys, error);
  if (status == MOONPAD_OK) status = write_shown(changes, &keys, out, removed, error);
  mp_entries_free(&keys);
  return status;
}
