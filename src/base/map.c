/*
** A hash map with open addressing and linear probing. Removing moves later entries back, so there
** are no tombstones.
*/
#include "base/map.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST 8

mp_key *mp_key_new(mp_env *env, moonpad_string text) {
  return mp_key_new_hashed(env, text, mp_hash(text.data, text.length));
}

mp_key *mp_key_new_hashed(mp_env *env, moonpad_string text, uint64_t hash) {
  return mp_key_new_with(env, text, hash, 0, NULL);
}

mp_key *mp_key_new_with(mp_env *env, moonpad_string text, uint64_t hash, size_t size, void **room) {
  const size_t alignment = 8;
  if (text.length >= UINT32_MAX - sizeof(mp_key)) return NULL;
  size_t used = sizeof(mp_key) + text.length + 1;
  if (room != NULL) used = (used + alignment - 1) & ~(alignment - 1);
  mp_key *key = mp_allocate(env, used + size);
  if (key == NULL) return NULL;
  atomic_init(&key->references, 1);
  key->length = (uint32_t)text.length;
  key->hash = hash;
  if (text.length != 0) memcpy(key->bytes, text.data, text.length);
  key->bytes[text.length] = '\0';
  if (room != NULL) *room = memset((char *)key + used, 0, size);
  return key;
}

int mp_text_compare(moonpad_string a, moonpad_string b) {
  size_t shorter = a.length < b.length ? a.length : b.length;
  int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);
  if (order != 0) return order;
  return a.length < b.length ? -1 : a.length > b.length;
}

static int compare_by_key(const void *a, const void *b) {
  return mp_text_compare(*(const moonpad_string *)a, *(const moonpad_string *)b);
}

/* The items are usually sorted already, which is checked first. */
void mp_sort_by_key(void *items, size_t count, size_t item_size) {
  const char *item = items;
  for (size_t i = 1; i < count; i++, item += item_size) {
    if (compare_by_key(item, item + item_size) <= 0) continue;
    qsort(items, count, item_size, compare_by_key);
    return;
  }
}

void mp_map_init(mp_map *map, mp_env *env) {
  map->slots = NULL;
  map->capacity = 0;
  map->count = 0;
  map->env = env;
}

void mp_map_free(mp_map *map) {
  for (size_t i = 0; i < map->capacity; i++) mp_key_release(map->env, map->slots[i].key);
  mp_release(map->env, map->slots);
  mp_map_init(map, map->env);
}

void *mp_map_get(const mp_map *map, moonpad_string text) {
  if (map->count == 0) return NULL;
  return mp_map_get_hashed(map, text.data, text.length, mp_hash(text.data, text.length));
}

static bool rehash(mp_map *map, size_t capacity) {
  if (capacity > SIZE_MAX / sizeof(mp_map_slot)) return false;
  mp_map_slot *slots = mp_allocate_zeroed(map->env, capacity * sizeof *slots);
  if (slots == NULL) return false;
  size_t mask = capacity - 1;
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->slots[i].key == NULL) continue;
    size_t slot = (size_t)map->slots[i].key->hash & mask;
    while (slots[slot].key != NULL) slot = (slot + 1) & mask;
    slots[slot] = map->slots[i];
  }
  mp_release(map->env, map->slots);
  map->slots = slots;
  map->capacity = capacity;
  return true;
}

bool mp_map_reserve(mp_map *map, size_t more) {
  if (more > SIZE_MAX / 4 - map->count) return false;
  size_t needed = map->count + more;
  size_t capacity = map->capacity < SMALLEST ? SMALLEST : map->capacity;
  while (needed > capacity / 4 * 3) capacity *= 2;
  return capacity == map->capacity || rehash(map, capacity);
}

bool mp_map_put(mp_map *map, mp_key *key, void *value) {
  if (map->count != 0) {
    mp_map_slot *slot = mp_map_slot_of(map, key->bytes, key->length, key->hash);
    if (slot->key != NULL) {
      slot->value = value;
      return true;
    }
  }
  if (!mp_map_reserve(map, 1)) return false;
  mp_map_slot *slot = mp_map_slot_of(map, key->bytes, key->length, key->hash);
  slot->key = mp_key_retain(key);
  slot->value = value;
  map->count++;
  return true;
}

/*
** Empties slot `gap`. Then moves back each later entry of the run that could be nearer to its home
** slot, so that probing finds all of them.
*/
static void close_gap(mp_map *map, size_t gap) {
  size_t mask = map->capacity - 1;
  for (size_t i = (gap + 1) & mask; map->slots[i].key != NULL; i = (i + 1) & mask) {
    size_t home = (size_t)map->slots[i].key->hash & mask;
    if (((i - home) & mask) >= ((i - gap) & mask)) {
      map->slots[gap] = map->slots[i];
      gap = i;
    }
  }
  map->slots[gap].key = NULL;
  map->slots[gap].value = NULL;
}

void *mp_map_remove(mp_map *map, moonpad_string text) {
  if (map->count == 0) return NULL;
  mp_map_slot *slot = mp_map_slot_of(map, text.data, text.length, mp_hash(text.data, text.length));
  if (slot->key == NULL) return NULL;
  void *value = slot->value;
  mp_key *key = slot->key;
  close_gap(map, (size_t)(slot - map->slots));
  map->count--;
  /* Last, because `text` may be the text of this key. */
  mp_key_release(map->env, key);
  return value;
}

const mp_map_slot *mp_map_next(const mp_map *map, size_t *position) {
  while (*position < map->capacity) {
    const mp_map_slot *slot = &map->slots[(*position)++];
    if (slot->key != NULL) return slot;
  }
  return NULL;
}
