/* Lists of state keys: adding, finding by hash, sorting, writing as JSON. */
#include "core/entries.h"

#include "core/json_write.h"

#define LINEAR_SEARCH_LIMIT 8 /* longer lists get a hash table */

static void drop_index(mp_entries *list) {
  mp_release(list->env, list->index);
  list->index = NULL;
  list->index_size = 0;
}

void mp_entries_clear(mp_entries *list) {
  for (size_t i = 0; i < list->count; i++) {
    mp_key_release(list->env, list->items[i].owned);
    mp_value_release(list->env, list->items[i].value);
  }
  list->count = 0;
  if (list->index != NULL) drop_index(list);
}

void mp_entries_free(mp_entries *list) {
  mp_entries_clear(list);
  if (list->items != list->inline_items) mp_release(list->env, list->items);
  mp_entries_init(list, list->env);
}

/* ---- finding ---- */

static bool has_key(const mp_entry *entry, moonpad_string key, uint64_t hash) {
  return entry->hash == hash && entry->key.length == key.length && mp_same_bytes(entry->key.data, key.data, key.length);
}

/* The slot of the key in the index, or the empty one where it would be put. */
static size_t *index_slot(const mp_entries *list, moonpad_string key, uint64_t hash) {
  size_t mask = list->index_size - 1;
  for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
    size_t position = list->index[i];
    if (position == 0 || has_key(&list->items[position - 1], key, hash)) return &list->index[i];
  }
}

static void index_entry(mp_entries *list, size_t position) {
  const mp_entry *entry = &list->items[position];
  size_t *slot = index_slot(list, entry->key, entry->hash);
  if (*slot == 0) *slot = position + 1;
}

static bool make_index(mp_entries *list) {
  size_t size = 32;
  while (size / 4 < list->count) size *= 2;
  list->index = mp_allocate_zeroed(list->env, size * sizeof *list->index);
  if (list->index == NULL) return false;
  list->index_size = size;
  for (size_t i = 0; i < list->count; i++) index_entry(list, i);
  return true;
}

mp_entry *mp_entries_find(mp_entries *list, moonpad_string key, uint64_t hash) {
  if (list->count > LINEAR_SEARCH_LIMIT && (list->index != NULL || make_index(list))) {
    size_t position = *index_slot(list, key, hash);
    return position == 0 ? NULL : &list->items[position - 1];
  }
  for (size_t i = 0; i < list->count; i++) {
    if (has_key(&list->items[i], key, hash)) return &list->items[i];
  }
  return NULL;
}

/* ---- adding ---- */

bool mp_entries_grow(mp_entries *list) {
  return mp_reserve_beyond(list->env, (void **)&list->items, list->inline_items, &list->capacity, sizeof *list->items,
                           list->count * 2);
}

/* An index that is half full is dropped: the next search makes a larger one. */
void mp_entries_index_last(mp_entries *list) {
  if (list->count > list->index_size / 2) {
    drop_index(list);
  } else {
    index_entry(list, list->count - 1);
  }
}

bool mp_entries_put(mp_entries *list, moonpad_string key, mp_value *value, int64_t revision) {
  uint64_t hash = mp_hash(key.data, key.length);
  mp_entry *entry = mp_entries_find(list, key, hash);
  if (entry == NULL) entry = mp_entries_add_owned(list, mp_key_new_hashed(list->env, key, hash));
  if (entry == NULL) return false;
  mp_value_retain(value);
  mp_value_release(list->env, entry->value);
  entry->value = value;
  entry->revision = revision;
  return true;
}

/* ---- the whole list ---- */

void mp_entries_remove_scope(mp_entries *list, mp_scope scope) {
  size_t kept = 0;
  if (list->index != NULL) drop_index(list);
  for (size_t i = 0; i < list->count; i++) {
    mp_entry *entry = &list->items[i];
    if (entry->scope != scope) {
      list->items[kept++] = *entry;
      continue;
    }
    mp_value_release(list->env, entry->value);
    mp_key_release(list->env, entry->owned);
  }
  list->count = kept;
}

void mp_entries_sort(mp_entries *list) {
  if (list->index != NULL) drop_index(list);
  mp_sort_by_key(list->items, list->count, sizeof *list->items);
}

void mp_entries_write(const mp_entries *list, mp_scope strip, mp_buffer *out) {
  mp_buffer_add_char(out, '{');
  for (size_t i = 0; i < list->count; i++) {
    const mp_entry *entry = &list->items[i];
    if (entry->value != NULL) mp_value_write_member(out, mp_scope_strip(strip, entry->key), entry->value);
  }
  mp_buffer_add_char(out, '}');
}

void mp_entries_write_removed(const mp_entries *list, mp_buffer *out) {
  bool is_first = true;
  mp_buffer_add_char(out, '[');
  for (size_t i = 0; i < list->count; i++) {
    if (list->items[i].value != NULL) continue;
    if (!is_first) mp_buffer_add_char(out, ',');
    mp_json_write_string(out, list->items[i].key);
    is_first = false;
  }
  mp_buffer_add_char(out, ']');
}

size_t mp_entries_bytes(const mp_entries *list, mp_scope scope) {
  size_t bytes = 0;
  for (size_t i = 0; i < list->count; i++) {
    const mp_entry *entry = &list->items[i];
    if (entry->scope == scope && entry->value != NULL) bytes += entry->key.length + mp_value_size(entry->value);
  }
  return bytes;
}

mp_state_row *mp_rows_of(const mp_entries *list) {
  mp_state_row *rows = mp_allocate(list->env, list->count * sizeof *rows);
  for (size_t i = 0; rows != NULL && i < list->count; i++) rows[i] = mp_row_of(&list->items[i]);
  return rows;
}
