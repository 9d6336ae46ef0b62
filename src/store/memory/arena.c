/*
** A block is a quarter of all that is there already, so that a short history takes little more
** than it needs, up to a size of which a call of the allocator is not felt any more. The pages of
** such a large one are asked for together: met one by one, each costs as much as an append.
*/
#include "store/memory/arena.h"

#include <stdint.h>

#define LARGE_BLOCK 65536
#define ALIGNMENT   ((size_t)8)

struct mp_memory_block {
  mp_memory_block *older;
  char *older_next; /* where the next piece of `older` would have begun */
  char *end;
  size_t total; /* bytes of this block and all older ones */
  char bytes[];
};

static size_t rounded_up(size_t size) {
  return (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static bool add_block(mp_env *env, mp_arena *blocks, size_t needed) {
  size_t total = blocks->newest == NULL ? 0 : blocks->newest->total;
  size_t size = total / 4 < LARGE_BLOCK ? total / 4 : LARGE_BLOCK;
  if (needed > SIZE_MAX - total - sizeof(mp_memory_block)) return false;
  if (size < needed + sizeof(mp_memory_block)) size = needed + sizeof(mp_memory_block);
  mp_memory_block *block = mp_allocate(env, size);
  if (block == NULL) return false;
  if (size >= LARGE_BLOCK) mp_prepare_pages(block, size);
  block->older = blocks->newest;
  block->older_next = blocks->next;
  block->end = (char *)block + size;
  block->total = total + size;
  blocks->newest = block;
  blocks->next = block->bytes;
  return true;
}

void *mp_arena_take(mp_env *env, mp_arena *blocks, size_t size) {
  if (size > SIZE_MAX - ALIGNMENT) return NULL;
  size = rounded_up(size);
  size_t left = blocks->newest == NULL ? 0 : (size_t)(blocks->newest->end - blocks->next);
  if (size > left && !add_block(env, blocks, size)) return NULL;
  void *piece = blocks->next;
  blocks->next += size;
  return piece;
}

void mp_arena_give_back(mp_env *env, mp_arena *blocks, void *piece) {
  mp_memory_block *block = blocks->newest;
  blocks->next = piece;
  if (blocks->next != block->bytes) return;
  blocks->newest = block->older;
  blocks->next = block->older_next;
  mp_release(env, block);
}

void mp_arena_free(mp_env *env, mp_arena *blocks) {
  for (mp_memory_block *block = blocks->newest; block != NULL;) {
    mp_memory_block *older = block->older;
    mp_release(env, block);
    block = older;
  }
  blocks->newest = NULL;
  blocks->next = NULL;
}
