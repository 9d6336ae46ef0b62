/*
** The state of one owner in the memory store: a hash map of keys, and the order of their writing.
*/
#ifndef MP_STORE_MEMORY_KEYS_H
#define MP_STORE_MEMORY_KEYS_H

#include "base/map.h"
#include "store/store.h"

typedef struct mp_memory_key {
  mp_value *value; /* NULL: a tombstone */
  int64_t revision;
  mp_key *key;                 /* the map's reference */
  struct mp_memory_key *newer; /* written next */
  struct mp_memory_key *older; /* written before */
} mp_memory_key;

typedef struct mp_memory_keys {
  mp_map map; /* text -> mp_memory_key */
  mp_memory_key *newest;
  /*
  ** A key was written with a lower revision than one before it: the list is not sorted by revision.
  */
  bool unordered;
} mp_memory_keys;

/*
** What one write replaced. Writes are undone in reverse order, so `newer` is valid again by then.
*/
typedef struct mp_memory_key_undo {
  mp_memory_keys *keys;
  mp_memory_key *entry;
  mp_memory_key *newer; /* neighbour of the entry before the write */
  mp_value *value;      /* value before the write */
  int64_t revision;     /* revision before the write */
  bool created;         /* the write created the entry: the members above say nothing */
} mp_memory_key_undo;

void mp_memory_keys_init(mp_memory_keys *keys, mp_env *env);
void mp_memory_keys_free(mp_memory_keys *keys);

/* NULL: the key was never written. */
mp_memory_key *mp_memory_keys_find(const mp_memory_keys *keys, moonpad_string key);
/*
** Writes a key, or with NULL as value its tombstone. `shared` (may be NULL) is a counted key with
** the same text, to be retained instead of a copy. False when out of memory: nothing has changed.
*/
bool mp_memory_keys_write(mp_memory_keys *keys, moonpad_string key, mp_key *shared, mp_value *value, int64_t revision,
                          mp_memory_key_undo *undo);
/* Exactly one of them is called for each write. Neither can fail. */
void mp_memory_keys_commit(mp_memory_key_undo *undo);
void mp_memory_keys_undo(mp_memory_key_undo *undo);

/* mp_parts.each_key. Costs no more than what has changed, unless `unordered`. */
moonpad_status mp_memory_keys_each(const mp_memory_keys *keys, mp_scope scope, int64_t since, mp_each_state each,
                                   void *context, moonpad_error *error);

/*
** Copies all rows but the tombstones up to revision `purged` to `to`, which is empty. False when
** out of memory: the caller frees `to`.
*/
bool mp_memory_keys_copy(mp_memory_keys *to, const mp_memory_keys *from, int64_t purged);

#endif
