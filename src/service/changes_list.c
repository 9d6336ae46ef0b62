/* Change sets: all keys at once (contract 1.3). */
#include "service/changes.h"

#include <stdlib.h>

#include "base/error.h"
#include "service/pending.h"

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
  for (const mp_map_slot *slot; (slot = mp_map_next(changes->view, &position)) != NULL;) {
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
    changes->all_base[scope] = mp_held_revision(changes->session, (mp_scope)scope);
  }
  changes->all_read = changes->all_read_now = true;
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(&changes->map, &position)) != NULL;) {
    mp_change *change = slot->value;
    if (!change->pending) change->read_now = true;
    if (change->touched) mp_change_touch(change, true);
  }
}

moonpad_status mp_changes_keys(moonpad_changes *changes, mp_entries *keys, moonpad_error *error) {
  mp_entries_init(keys, changes->env);
  mp_changes_mark_all_read(changes);
  moonpad_status status = add_keys(changes, keys, error);
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
      const mp_view_entry *entry = mp_map_get_hashed(changes->view, key->key.data, key->key.length, key->hash);
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
  moonpad_status status = add_keys(changes, &keys, error);
  if (status == MOONPAD_OK) status = write_shown(changes, &keys, out, NULL, error);
  mp_entries_free(&keys);
  return status;
}

static int compare_changes(const void *a, const void *b) {
  const mp_change *const *x = a;
  const mp_change *const *y = b;
  return mp_text_compare(mp_key_text((*x)->entry->key), mp_key_text((*y)->entry->key));
}

/* Not stored yet, as far as the set can see. */
static bool is_pending(const moonpad_changes *changes, const mp_change *change) {
  return (change->pending || change->over_pending) && find_change(changes, change->entry->key) == change;
}

moonpad_status mp_changes_pending_list(moonpad_changes *changes, bool with_below, mp_change ***list, size_t *count,
                                       moonpad_error *error) {
  *count = 0;
  size_t most = changes->pending_count;
  for (const moonpad_changes *at = changes; with_below && at != NULL; at = at->below) most += at->map.count;
  *list = mp_allocate(changes->env, most * sizeof **list);
  if (*list == NULL) return mp_no_memory(error);
  for (const moonpad_changes *at = changes; at != NULL; at = with_below ? at->below : NULL) {
    size_t position = 0;
    for (const mp_map_slot *slot; (slot = mp_map_next(&at->map, &position)) != NULL;) {
      mp_change *change = slot->value;
      if (with_below ? is_pending(changes, change) : change->pending) (*list)[(*count)++] = change;
    }
  }
  if (*count > 1) qsort(*list, *count, sizeof **list, compare_changes);
  return MOONPAD_OK;
}

bool moonpad_changes_pending(const moonpad_changes *changes) {
  if (changes->pending_count > 0 || changes->below == NULL) return changes->pending_count > 0;
  for (const moonpad_changes *at = changes; at != NULL; at = at->below) {
    size_t position = 0;
    for (const mp_map_slot *slot; (slot = mp_map_next(&at->map, &position)) != NULL;) {
      if (is_pending(changes, slot->value)) return true;
    }
  }
  return false;
}

moonpad_status mp_changes_write_delta(moonpad_changes *changes, mp_buffer *out, mp_buffer *removed,
                                      moonpad_error *error) {
  mp_change **list;
  size_t count;
  moonpad_status status = mp_changes_pending_list(changes, true, &list, &count, error);
  if (status != MOONPAD_OK) return status;
  mp_entries keys;
  mp_entries_init(&keys, changes->env);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    if (mp_entries_add_owned(&keys, mp_key_retain(list[i]->entry->key)) == NULL) status = mp_no_memory(error);
  }
  mp_release(changes->env, list);
  if (status == MOONPAD_OK) status = write_shown(changes, &keys, out, removed, error);
  mp_entries_free(&keys);
  return status;
}
