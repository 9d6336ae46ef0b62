/* Lists of state keys with their values and the revision of the last change of each. */
#ifndef MP_CORE_ENTRIES_H
#define MP_CORE_ENTRIES_H

#include "base/map.h"
#include "core/scope.h"
#include "core/value.h"

/* A state key as stores and events know it. Key and value are borrowed for the call. */
typedef struct mp_state_row {
  mp_scope scope;
  moonpad_string key; /* without the prefix of its scope */
  mp_value *value;    /* NULL: removed */
  int64_t revision;
} mp_state_row;

/* A state key as the service keeps it. */
typedef struct mp_entry {
  moonpad_string key; /* with the prefix of its scope */
  uint64_t hash;      /* of the key */
  /* the reference that keeps the bytes of `key` alive; NULL: they are borrowed */
  mp_key *owned;
  mp_value *value;  /* one reference; NULL: no value */
  int64_t revision; /* of its scope; 0 if not needed */
  mp_scope scope;
} mp_entry;

#define MP_INLINE_ENTRIES 6 /* more take an allocation */

/*
** The struct must not be moved in memory: `items` may point into it. Adding entries and sorting
** move the entries.
*/
typedef struct mp_entries {
  mp_env *env;
  mp_entry *items; /* `inline_items`, or allocated */
  size_t count;
  size_t capacity;
  size_t *index; /* hash table of a long list, made by a search: positions from 1; 0: empty slot */
  size_t index_size;
  mp_entry inline_items[MP_INLINE_ENTRIES];
} mp_entries;

static inline void mp_entries_init(mp_entries *list, mp_env *env) {
  list->env = env;
  list->items = list->inline_items;
  list->count = 0;
  list->capacity = MP_INLINE_ENTRIES;
  list->index = NULL;
  list->index_size = 0;
}
/* Both release keys and values and leave an empty list. Clearing keeps the list's memory. */
void mp_entries_clear(mp_entries *list);
void mp_entries_free(mp_entries *list);

/* The slow path of mp_entries_add: grows the list; puts the last entry into the index. */
bool mp_entries_grow(mp_entries *list);
void mp_entries_index_last(mp_entries *list);
/*
** Adds an entry without value and with revision 0, for the caller to fill in. The key is borrowed
** for the life of the list. NULL when out of memory.
*/
static inline mp_entry *mp_entries_add(mp_entries *list, moonpad_string key, uint64_t hash) {
  if (list->count == list->capacity && !mp_entries_grow(list)) return NULL;
  mp_entry *entry = &list->items[list->count++];
  *entry = (mp_entry){.key = key, .hash = hash, .scope = mp_scope_of(key)};
  if (list->index != NULL) mp_entries_index_last(list);
  return entry;
}
/*
** The same with a counted key. Takes over the caller's reference, also on failure. `key` may be
** NULL (it could not be allocated): then the result is NULL.
*/
static inline mp_entry *mp_entries_add_owned(mp_entries *list, mp_key *key) {
  mp_entry *entry = key == NULL ? NULL : mp_entries_add(list, mp_key_text(key), key->hash);
  if (entry == NULL) {
    mp_key_release(list->env, key);
  } else {
    entry->owned = key;
  }
  return entry;
}
/*
** Sets the value (retained; NULL: none) and the revision of a key, which is added if it is missing.
** False when out of memory: nothing has changed.
*/
bool mp_entries_put(mp_entries *list, moonpad_string key, mp_value *value, int64_t revision);
/* The first entry that was added with this key, or NULL. Needs no memory. */
mp_entry *mp_entries_find(mp_entries *list, moonpad_string key, uint64_t hash);

/* Removes the entries of a scope. The others stay in their order. */
void mp_entries_remove_scope(mp_entries *list, mp_scope scope);
/* Sorts by the bytes of the keys. */
void mp_entries_sort(mp_entries *list);
/*
** Writes the entries that have a value as a JSON object, in the order of the list. The prefix of
** scope `strip` is left out of the keys.
*/
void mp_entries_write(const mp_entries *list, mp_scope strip, mp_buffer *out);
/* Writes the keys of the entries without a value as a JSON array. */
void mp_entries_write_removed(const mp_entries *list, mp_buffer *out);
/* The bytes of keys and values of a scope's entries that have a value. Limits count these. */
size_t mp_entries_bytes(const mp_entries *list, mp_scope scope);

static inline mp_state_row mp_row_of(const mp_entry *entry) {
  return (mp_state_row){entry->scope, mp_scope_strip(entry->scope, entry->key), entry->value, entry->revision};
}
/*
** All entries as rows, which borrow from the list. The caller frees the array with mp_release. NULL
** when out of memory.
*/
mp_state_row *mp_rows_of(const mp_entries *list);

#endif
