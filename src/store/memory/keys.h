/*
** The state keys of one scope in the memory store: found by key, and walked from the newest
** change back.
*/
#ifndef MP_STORE_MEMORY_KEYS_H
#define MP_STORE_MEMORY_KEYS_H

#include "base/map.h"
#include "store/store.h"

typedef struct mp_memory_key {
  mp_value *value; /* NULL: removed */
  int64_t revision;
  mp_key *key;                 /* the map's */
  struct mp_memory_key *newer; /* neighbours in the order of writing */
  struct mp_memory_key *older;
} mp_memory_key;

typedef struct mp_memory_keys {
  mp_map map;
  mp_memory_key *newest;
  /*
  ** a key was written with a lower revision than one before it: the order says nothing
  ** about revisions
  */
  bool unordered;
} mp_memory_keys;

/*
** What one write replaced. Writes are undone in the reverse order, so the neighbour is there again
** when its turn comes.
*/
typedef struct mp_memory_key_undo {
  mp_memory_keys *keys;
  mp_memory_key *entry;
  mp_memory_key *newer;
  mp_value *value;
  int64_t revision;
  bool made; /* the write made the entry */
} mp_memory_key_undo;

void mp_memory_keys_init(mp_memory_keys *keys, mp_env *env);
void mp_memory_keys_free(mp_memory_keys *keys);

/* NULL where the key was never written. */
mp_memory_key *mp_memory_keys_find(const mp_memory_keys *keys, moonpad_string key);
/*
** `shared` (may be NULL) is a counted key with that very text, to be used instead of a new one.
** False when out of memory: nothing has changed.
*/
bool mp_memory_keys_write(mp_memory_keys *keys, moonpad_string key, mp_key *shared, mp_value *value, int64_t revision,
                          mp_memory_key_undo *undo);
/* Of each write exactly one: makes it final, or as if it had never been. Neither can fail. */
void mp_memory_keys_keep(mp_memory_key_undo *undo);
void mp_memory_keys_undo(mp_memory_key_undo *undo);

/* mp_parts.each_key */
moonpad_status mp_memory_keys_each(const mp_memory_keys *keys, mp_scope scope, int64_t since, mp_each_state each,
                                   void *context, moonpad_error *error);

/*
** Copies all but tombstones up to the revision `purged` into `to`, which is empty. False when out
** of memory: `to` is still to be freed.
*/
bool mp_memory_keys_copy(mp_memory_keys *to, const mp_memory_keys *from, int64_t purged);

#endif
