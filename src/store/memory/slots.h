/*
** Internal ids of the memory store. An id is (generation, index of a slot): a lookup is one step, a
** slot is used again, and the ids it had before stay unknown for ever.
*/
#ifndef MP_STORE_MEMORY_SLOTS_H
#define MP_STORE_MEMORY_SLOTS_H

#include "base/env.h"

typedef struct mp_memory_slot {
  void *item;          /* NULL: free */
  uint32_t generation; /* how often this slot has been used */
  uint32_t next_free;  /* index + 1 of the next free slot; 0: none */
} mp_memory_slot;

typedef struct mp_memory_slots {
  mp_memory_slot *slots;
  size_t capacity;
  size_t count;
  uint32_t first_free; /* index + 1; 0: none */
} mp_memory_slots;

#define MP_SLOT_GENERATION_SHIFT 32
#define MP_SLOT_INDEX_MASK       UINT32_C(0xffffffff)

/* Makes room, so that the next mp_memory_slots_add cannot fail. False: out of memory or of ids. */
bool mp_memory_slots_reserve(mp_env *env, mp_memory_slots *slots);
/* Returns the new id of `item`, greater than 0. */
int64_t mp_memory_slots_add(mp_memory_slots *slots, void *item);
/* NULL: no item has that id, or has it any more. */
static inline void *mp_memory_slots_get(const mp_memory_slots *slots, int64_t id) {
  uint64_t bits = (uint64_t)id;
  size_t index = (size_t)(bits & MP_SLOT_INDEX_MASK);
  if (index >= slots->count || slots->slots[index].generation != bits >> MP_SLOT_GENERATION_SHIFT) return NULL;
  return slots->slots[index].item;
}
void mp_memory_slots_remove(mp_memory_slots *slots, int64_t id);
void mp_memory_slots_free(mp_env *env, mp_memory_slots *slots);

#endif
