/*
** Memory for what a history holds: handed out piece after piece, given back from the end, freed all
** at once.
*/
#ifndef MP_STORE_MEMORY_ARENA_H
#define MP_STORE_MEMORY_ARENA_H

#include "base/env.h"

typedef struct mp_memory_block mp_memory_block;

/* All zeros: nothing yet. */
typedef struct mp_arena {
  mp_memory_block *newest;
  char *next; /* in the newest: where the next piece begins */
} mp_arena;

/* Aligned for pointers and numbers; NULL when out of memory: nothing has changed. */
void *mp_arena_take(mp_env *env, mp_arena *blocks, size_t size);
/* The piece that was taken last of those that are left. */
void mp_arena_give_back(mp_env *env, mp_arena *blocks, void *piece);
void mp_arena_free(mp_env *env, mp_arena *blocks);

#endif
