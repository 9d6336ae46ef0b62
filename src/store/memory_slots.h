/* Internal ids of the memory store: found in one step, never given twice, and costing no more than what exists at once. */
#ifndef MP_STORE_MEMORY_SLOTS_H
#define MP_STORE_MEMORY_SLOTS_H

#include "base/env.h"

typedef struct mp_memory_slot {
  void *item;          /* NULL: free */
  uint32_t generation; /* how often this slot was taken; part of the id, so that a used slot gives a new one */
  uint32_t next_free;  /* index + 1; 0: none */
} mp_memory_slot;

typedef struct mp_memory_slots {
  mp_memory_slot *slots;
  size_t capacity;
  size_t count;
  uint32_t free; /* index + 1; 0: none */
} mp_memory_slots;

/* Makes sure that the next mp_memory_slots_take has a place; false when there is none. */
bool mp_memory_slots_reserve(mp_env *env, mp_memory_slots *slots);
/* The new id of `item`, greater than 0. */
int64_t mp_memory_slots_take(mp_memory_slots *slots, void *item);
/* NULL when nothing has that id any more, or ever had. */
void *mp_memory_slots_get(const mp_memory_slots *slots, int64_t id);
void mp_memory_slots_drop(mp_memory_slots *slots, int64_t id);
void mp_memory_slots_free(mp_env *env, mp_memory_slots *slots);

#endif
