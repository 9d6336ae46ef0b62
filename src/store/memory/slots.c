/* Slots with generations. */
#include "store/memory/slots.h"

/* Keeps ids positive. A slot that reaches it is not used again. */
#define MAX_GENERATION UINT32_C(0x7fffffff)

bool mp_memory_slots_reserve(mp_env *env, mp_memory_slots *slots) {
  if (slots->first_free != 0) return true;
  if (slots->count >= MP_SLOT_INDEX_MASK) return false;
  void *items = slots->slots;
  if (!mp_reserve(env, &items, &slots->capacity, sizeof(mp_memory_slot), slots->count + 1)) return false;
  slots->slots = items;
  return true;
}

int64_t mp_memory_slots_add(mp_memory_slots *slots, void *item) {
  uint32_t index;
  if (slots->first_free != 0) {
    index = slots->first_free - 1;
    slots->first_free = slots->slots[index].next_free;
  } else {
    index = (uint32_t)slots->count++;
    slots->slots[index].generation = 0;
  }
  mp_memory_slot *slot = &slots->slots[index];
  slot->item = item;
  slot->generation++;
  slot->next_free = 0;
  return (int64_t)(((uint64_t)slot->generation << MP_SLOT_GENERATION_SHIFT) | index);
}

void mp_memory_slots_remove(mp_memory_slots *slots, int64_t id) {
  uint32_t index = (uint32_t)((uint64_t)id & MP_SLOT_INDEX_MASK);
  mp_memory_slot *slot = &slots->slots[index];
  slot->item = NULL;
  if (slot->generation == MAX_GENERATION) return;
  slot->next_free = slots->first_free;
  slots->first_free = index + 1;
}

void mp_memory_slots_free(mp_env *env, mp_memory_slots *slots) {
  mp_release(env, slots->slots);
  slots->slots = NULL;
  slots->capacity = slots->count = 0;
  slots->first_free = 0;
}
