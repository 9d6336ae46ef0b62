/*
** Internal ids of the memory store: found in one step, never given twice, and costing no more than
** what exists at once.
*/
#ifndef MP_STORE_MEMORY_SLOTS_H
#define MP_STORE_MEMORY_SLOTS_H

#include "base/env.h"

typedef struct mp_memory_slot {
  void *item; /* NULL: free */
  /* how often this slot was taken; part of the id, so that a used slot gives a new one */
  uint32_t generation;
  uint32_t next_free; /* index + 1; 0: none */
} mp_memory_slot;

typedef struct mp_memory_slots {
  mp_memory_slot *slots;
  size_t capacity;
  size_t count;
  uint32_t free; /* index + 1; 0: none */
} mp_memory_slots;

/* An id is (generation, index). */
#define MP_SLOT_GENERATION_SHIFT 32
#define MP_SLOT_INDEX_MASK       UINT32_C(0xffffffff)

/* Makes sure that the next mp_memory_slots_take has a place; false when there is none. */
bool mp_memory_slots_reserve(mp_env *env, mp_memory_slots *slots);
/* The new id of `item`, greater than 0. */
int64_t mp_memory_slots_take(mp_memory_slots *slots, void *item);
/* NULL when nothing has that id any more, or ever had. */
static inline void *mp_memory_slots_get(const mp_memory_slots *slots, int64_t id) {
  uint64_t bits = (uint64_t)id;
  size_t index = (size_t)(bits & MP_SLOT_INDEX_MASK);
  if (index >= slots->count || slots->slots[index].generation != bits >> MP_SLOT_GENERATION_SHIFT) return NULL;
  return slots->slots[index].item;
}
void mp_memory_slots_drop(mp_memory_slots *slots, int64_t id);
void mp_memory_slots_free(mp_env *env, mp_memory_slots *slots);

#endif
