/*
** A new block is a quarter of all blocks before it, so that a short history takes little more than
** it needs, up to a size where the cost of a call of the allocator no longer matters. The pages of
** such a large block are faulted in together: one by one, each costs as much as an append.
*/
#include "store/memory/arena.h"

#include <stdint.h>

#include "base/platform.h"

#define LARGE_BLOCK 65536
#define ALIGNMENT   ((size_t)8)

struct mp_memory_arena_block {
  mp_memory_arena_block *older;
  char *older_next; /* `next` of the arena when `older` was its newest block */
  char *end;
  size_t total; /* bytes of this block and all older blocks */
  char bytes[];
};

static size_t rounded_up(size_t size) {
  return (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static bool add_block(mp_env *env, mp_memory_arena *arena, size_t needed) {
  size_t total = arena->newest == NULL ? 0 : arena->newest->total;
  size_t size = total / 4 < LARGE_BLOCK ? total / 4 : LARGE_BLOCK;
  if (needed > SIZE_MAX - total - sizeof(mp_memory_arena_block)) return false;
  if (size < needed + sizeof(mp_memory_arena_block)) size = needed + sizeof(mp_memory_arena_block);
  mp_memory_arena_block *block = mp_allocate(env, size);
  if (block == NULL) return false;
  if (size >= LARGE_BLOCK) mp_prepare_pages(block, size);
  block->older = arena->newest;
  block->older_next = arena->next;
  block->end = (char *)block + size;
  block->total = total + size;
  arena->newest = block;
  arena->next = block->bytes;
  return true;
}

void *mp_memory_arena_allocate(mp_env *env, mp_memory_arena *arena, size_t size) {
  if (size > SIZE_MAX - ALIGNMENT) return NULL;
  size = rounded_up(size);
  size_t left = arena->newest == NULL ? 0 : (size_t)(arena->newest->end - arena->next);
  if (size > left && !add_block(env, arena, size)) return NULL;
  void *piece = arena->next;
  arena->next += size;
  return piece;
}

void mp_memory_arena_release_last(mp_env *env, mp_memory_arena *arena, void *piece) {
  mp_memory_arena_block *block = arena->newest;
  arena->next = piece;
  if (arena->next != block->bytes) return;
  arena->newest = block->older;
  arena->next = block->older_next;
  mp_release(env, block);
}

void mp_memory_arena_free(mp_env *env, mp_memory_arena *arena) {
  for (mp_memory_arena_block *block = arena->newest; block != NULL;) {
    mp_memory_arena_block *older = block->older;
    mp_release(env, block);
    block = older;
  }
  arena->newest = NULL;
  arena->next = NULL;
}
