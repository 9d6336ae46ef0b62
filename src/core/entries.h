/* Lists of keys of the state with their values and the revisions of their last changes. */
#ifndef MP_CORE_ENTRIES_H
#define MP_CORE_ENTRIES_H

#include "base/map.h"
#include "core/scope.h"
#include "core/value.h"

/* As stores and the text of events know one: borrowed, with its value, for the call. */
typedef struct mp_state_row {
  mp_scope scope;
  moonpad_string key; /* without prefix */
  mp_value *value;    /* NULL: removed */
  int64_t revision;
} mp_state_row;

/* As the service keeps one. */
typedef struct mp_entry {
  moonpad_string key; /* with prefix */
  uint64_t hash;      /* of the key */
  /* counted: what `key` lies in; NULL: it is borrowed for the life of the list */
  mp_key *owned;
  mp_value *value;  /* counted; NULL: none */
  int64_t revision; /* of its scope; 0 where nobody asks for it */
  mp_scope scope;
} mp_entry;

#define MP_INLINE_ENTRIES 6 /* as a rule: more take an allocation */

/* It does not move. Entries do, when others are added or when it is sorted. */
typedef struct mp_entries {
  mp_env *env;
  mp_entry *items; /* `few`, or allocated */
  size_t count;
  size_t capacity;
  size_t *index; /* of a long list that has been searched: positions from 1, by hash; 0: none */
  size_t index_size;
  mp_entry few[MP_INLINE_ENTRIES];
} mp_entries;

static inline void mp_entries_init(mp_entries *list, mp_env *env) {
  list->env = env;
  list->items = list->few;
  list->count = 0;
  list->capacity = MP_INLINE_ENTRIES;
  list->index = NULL;
  list->index_size = 0;
}
/* Gives back keys and values; the list is empty and keeps its memory, or loses that as well. */
void mp_entries_clear(mp_entries *list);
void mp_entries_free(mp_entries *list);

/* For mp_entries_add: room for another one, and the last one into the index. */
bool mp_entries_grow(mp_entries *list);
void mp_entries_index_last(mp_entries *list);
/*
** Adds an entry for the caller to fill in: it has no value and revision 0. The key is borrowed.
** NULL when out of memory.
*/
static inline mp_entry *mp_entries_add(mp_entries *list, moonpad_string key, uint64_t hash) {
  if (list->count == list->capacity && !mp_entries_grow(list)) return NULL;
  mp_entry *entry = &list->items[list->count++];
  *entry = (mp_entry){.key = key, .hash = hash, .scope = mp_scope_of(key)};
  if (list->index != NULL) mp_entries_index_last(list);
  return entry;
}
/*
** The same with the caller's reference to a key, which is used up in any case. It may be NULL:
** out of memory before.
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
/* The first that was added of this key; NULL: there is none. Cannot fail. */
mp_entry *mp_entries_find(mp_entries *list, moonpad_string key, uint64_t hash);

/* By the bytes of the keys. */
void mp_entries_sort(mp_entries *list);
/*
** Those that have a value as a JSON object, in the order of the list. A prefix of the scope
** `strip` is left out.
*/
void mp_entries_write(const mp_entries *list, mp_scope strip, mp_buffer *out);
/* The keys of the others as a JSON array. */
void mp_entries_write_removed(const mp_entries *list, mp_buffer *out);
/* What the entries of a scope that have a value take, keys included: what limits count. */
size_t mp_entries_bytes(const mp_entries *list, mp_scope scope);

static inline mp_state_row mp_row_of(const mp_entry *entry) {
  return (mp_state_row){entry->scope, mp_scope_strip(entry->scope, entry->key), entry->value, entry->revision};
}
/* All of a list, which is to stay as long. The caller frees the array; NULL when out of memory. */
mp_state_row *mp_rows_of(const mp_entries *list);

#endif
