/*
** An arena: memory that is allocated piece by piece, released from the last piece back, and freed
** all at once. Holds the events of one session.
*/
#ifndef MP_STORE_MEMORY_ARENA_H
#define MP_STORE_MEMORY_ARENA_H

#include "base/env.h"

typedef struct mp_memory_arena_block mp_memory_arena_block;

/* All zeros: empty. */
typedef struct mp_memory_arena {
  mp_memory_arena_block *newest;
  char *next; /* where the next piece begins, in the newest block */
} mp_memory_arena;

/* Aligned for pointers and numbers. NULL when out of memory: nothing has changed. */
void *mp_memory_arena_allocate(mp_env *env, mp_memory_arena *arena, size_t size);
/* Releases the piece that was allocated last of those that are left. */
void mp_memory_arena_release_last(mp_env *env, mp_memory_arena *arena, void *piece);
void mp_memory_arena_free(mp_env *env, mp_memory_arena *arena);

#endif
