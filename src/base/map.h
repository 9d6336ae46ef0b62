/*
** A hash map from byte strings to pointers. Keys are reference-counted and immutable, so several
** maps may share a key.
*/
#ifndef MP_BASE_MAP_H
#define MP_BASE_MAP_H

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/env.h"

typedef struct mp_key {
  atomic_uint references;
  uint32_t length;
  uint64_t hash;
  char bytes[]; /* NUL-terminated; the NUL is not counted */
} mp_key;

/* One reference for the caller; NULL when out of memory. */
mp_key *mp_key_new(mp_env *env, moonpad_string text);
mp_key *mp_key_new_hashed(mp_env *env, moonpad_string text, uint64_t hash);
/*
** With `size` bytes of zeros in the same allocation, aligned for pointers: *room. They live as long
** as the key.
*/
mp_key *mp_key_new_with(mp_env *env, moonpad_string text, uint64_t hash, size_t size, void **room);
static inline mp_key *mp_key_retain(mp_key *key) {
  if (key != NULL) atomic_fetch_add_explicit(&key->references, 1, memory_order_relaxed);
  return key;
}
static inline void mp_key_release(mp_env *env, mp_key *key) {
  if (key != NULL && atomic_fetch_sub_explicit(&key->references, 1, memory_order_acq_rel) == 1) mp_release(env, key);
}
static inline moonpad_string mp_key_text(const mp_key *key) {
  moonpad_string text;
  text.data = key->bytes;
  text.length = key->length;
  return text;
}
/* By bytes; a prefix comes before longer texts. As memcmp: negative, 0 or positive. */
int mp_text_compare(moonpad_string a, moonpad_string b);
/* Sorts items whose first member is their key, a moonpad_string, by that key. */
void mp_sort_by_key(void *items, size_t count, size_t item_size);

typedef struct mp_map_slot {
  mp_key *key; /* NULL: empty */
  void *value;
} mp_map_slot;

typedef struct mp_map {
  mp_map_slot *slots;
  size_t capacity; /* a power of two, or 0 */
  size_t count;
  mp_env *env;
} mp_map;

void mp_map_init(mp_map *map, mp_env *env);
void mp_map_free(mp_map *map); /* releases the keys, not the values */

/*
** The slot of the key, or the empty slot where it would be put. The map must have an empty slot.
** The value of an empty slot is NULL.
*/
static inline mp_map_slot *mp_map_slot_of(const mp_map *map, const char *data, size_t length, uint64_t hash) {
  size_t mask = map->capacity - 1;
  for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
    mp_map_slot *slot = &map->slots[i];
    const mp_key *key = slot->key;
    if (key == NULL) return slot;
    if (key->hash == hash && key->length == length && mp_same_bytes(key->bytes, data, length)) return slot;
  }
}

/* The value, or NULL. */
void *mp_map_get(const mp_map *map, moonpad_string text);
static inline void *mp_map_get_hashed(const mp_map *map, const char *data, size_t length, uint64_t hash) {
  return map->count == 0 ? NULL : mp_map_slot_of(map, data, length, hash)->value;
}
/* Makes room for `more` insertions, which then cannot fail. */
bool mp_map_reserve(mp_map *map, size_t more);
/*
** Inserts or replaces. Takes a reference of its own to `key`; `value` must not be NULL. False when
** out of memory: the map is then unchanged.
*/
bool mp_map_put(mp_map *map, mp_key *key, void *value);
/* Removes and returns the value, or NULL. */
void *mp_map_remove(mp_map *map, moonpad_string text);

/*
** Iterates in no particular order: start with *position = 0; NULL at the end. The map must not
** change meanwhile.
*/
const mp_map_slot *mp_map_next(const mp_map *map, size_t *position);

#endif
