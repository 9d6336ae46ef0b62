/* Change sets: all keys at once (contract 1.3). */
#include "service/changes.h"

#include <stdlib.h>

#include "base/error.h"
#include "core/json.h"
#include "service/pending.h"

static int compare_keys(const void *a, const void *b) {
  const mp_key *const *x = a;
  const mp_key *const *y = b;
  return mp_text_compare(mp_key_text(*x), mp_key_text(*y));
}

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
static moonpad_status list_shown(const moonpad_changes *changes, mp_key_list *list, moonpad_error *error) {
  list->env = changes->env;
  list->count = 0;
  list->keys = mp_allocate(changes->env, changes->view->count * sizeof *list->keys);
  if (list->keys == NULL) return mp_no_memory(error);
  size_t position = 0;
  for (const mp_map_slot *slot; (slot = mp_map_next(changes->view, &position)) != NULL;) {
    mp_view_entry *entry = slot->value;
    if (shows_key(changes, entry)) list->keys[list->count++] = mp_key_retain(entry->key);
  }
  if (list->count > 1) qsort(list->keys, list->count, sizeof *list->keys, compare_keys);
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

moonpad_status mp_changes_keys(moonpad_changes *changes, mp_key_list *list, moonpad_error *error) {
  list->keys = NULL;
  list->count = 0;
  mp_changes_mark_all_read(changes);
  return list_shown(changes, list, error);
}

void mp_key_list_free(mp_key_list *list) {
  for (size_t i = 0; i < list->count; i++) mp_key_release(list->env, list->keys[i]);
  mp_release(list->env, list->keys);
  list->keys = NULL;
  list->count = 0;
}

/* Begins behind what `out` holds already: a state may stand in the middle of what is encoded. */
static void open_bracket(mp_buffer *out, char bracket, size_t *begin) {
  mp_buffer_add_char(out, bracket);
  *begin = out->length;
}

static void write_member(mp_buffer *out, size_t begin, const mp_key *key, const mp_value *value) {
  if (out->length > begin) mp_buffer_add_char(out, ',');
  mp_json_write_string(out, mp_key_text(key));
  mp_buffer_add_char(out, ':');
  mp_value_write(out, value);
}

/* What the change set shows under a key, as JSON; nothing where it shows none. */
static moonpad_status write_shown(moonpad_changes *changes, const mp_key *key, mp_buffer *out, size_t begin,
                                  moonpad_error *error) {
  mp_change *change = find_change(changes, key);
  if (change == NULL) {
    const mp_view_entry *entry = mp_map_get_hashed(changes->view, key->bytes, key->length, key->hash);
    if (entry->value != NULL) write_member(out, begin, key, entry->value);
    return MOONPAD_OK;
  }
  const mp_value *shown;
  mp_value *owned;
  moonpad_status status = mp_change_shown(change, &shown, &owned, error);
  if (status == MOONPAD_OK && shown != NULL) write_member(out, begin, key, shown);
  mp_value_release(changes->env, owned);
  return status;
}

static moonpad_status close_object(mp_buffer *out, char bracket, moonpad_error *error) {
  mp_buffer_add_char(out, bracket);
  return out->failed ? mp_no_memory(error) : MOONPAD_OK;
}

moonpad_status mp_changes_write_all(moonpad_changes *changes, bool is_read, mp_buffer *out, moonpad_error *error) {
  mp_key_list list;
  if (is_read) mp_changes_mark_all_read(changes);
  moonpad_status status = list_shown(changes, &list, error);
  if (status != MOONPAD_OK) return status;
  size_t begin;
  open_bracket(out, '{', &begin);
  for (size_t i = 0; status == MOONPAD_OK && i < list.count; i++) {
    status = write_shown(changes, list.keys[i], out, begin, error);
  }
  mp_key_list_free(&list);
  return status == MOONPAD_OK ? close_object(out, '}', error) : status;
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
  size_t begin, removed_begin = 0;
  open_bracket(out, '{', &begin);
  if (removed != NULL) open_bracket(removed, '[', &removed_begin);
  for (size_t i = 0; status == MOONPAD_OK && i < count; i++) {
    const mp_key *key = list[i]->entry->key;
    if (shows_key(changes, list[i]->entry)) {
      status = write_shown(changes, key, out, begin, error);
    } else if (removed != NULL) {
      if (removed->length > removed_begin) mp_buffer_add_char(removed, ',');
      mp_json_write_string(removed, mp_key_text(key));
    }
  }
  mp_release(changes->env, list);
  if (status == MOONPAD_OK && removed != NULL) status = close_object(removed, ']', error);
  return status == MOONPAD_OK ? close_object(out, '}', error) : status;
}
