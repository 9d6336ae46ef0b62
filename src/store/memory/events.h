/* The events of one session in the memory store: appended, found by id or revision, walked over. */
#ifndef MP_STORE_MEMORY_EVENTS_H
#define MP_STORE_MEMORY_EVENTS_H

#include "store/memory/arena.h"
#include "store/store.h"

/* One event, in one piece of the arena. */
typedef struct mp_memory_event {
  int64_t revision;
  double timestamp;
  uint64_t digest;
  uint32_t json_length;
  uint32_t id_length;
  uint32_t id_offset;
  uint32_t invocation_length;
  uint32_t invocation_offset;
  uint32_t kinds;
  char bytes[]; /* the JSON; behind it id and invocation, unless they are parts of it */
} mp_memory_event;

/*
** A slot of the hash index of ids. With the hash in it, a lookup reads no other event, and growing
** the index reads none.
*/
typedef struct mp_memory_event_slot {
  uint32_t hash;
  uint32_t row; /* number of the event + 1; 0: empty */
} mp_memory_event_slot;

typedef struct mp_memory_events {
  mp_memory_event ***pages; /* pages of pointers to events; a page never moves */
  size_t page_capacity;
  size_t page_count;
  mp_memory_arena arena;       /* holds the events */
  mp_memory_event_slot *index; /* of the events behind the sorted prefix; open addressing */
  uint32_t index_capacity;
  uint32_t count;
  uint32_t trimmed; /* the first rows: still in memory, but not there for anybody */
  /* Length of the sorted prefix: the first events whose ids ascend bytewise. Not in the index. */
  uint32_t sorted;
} mp_memory_events;

/*
** Errors: invalid_argument (the revision does not come after the last one), already_exists (the
** id), limit, no_memory. On failure nothing has changed.
*/
moonpad_status mp_memory_events_append(mp_env *env, mp_memory_events *events, const mp_event_row *row,
                                       moonpad_error *error);
/* Removes the last event. Cannot fail. */
void mp_memory_events_undo_append(mp_env *env, mp_memory_events *events);
void mp_memory_events_free(mp_env *env, mp_memory_events *events);

/* mp_parts.each_event */
moonpad_status mp_memory_events_each(const mp_memory_events *events, const mp_event_query *query, mp_each_event each,
                                     void *context, moonpad_error *error);
/*
** How many rows there are up to a revision, trimmed ones included: what `trimmed` would be if they
** were trimmed. If that is at least half of all, it is time to copy the others: so trimming costs
** no more than appending did.
*/
uint32_t mp_memory_events_up_to(const mp_memory_events *events, int64_t revision);
/*
** Copies the events after a revision to `to`, which is empty. On failure the caller frees what has
** been copied.
*/
moonpad_status mp_memory_events_copy(mp_env *env, mp_memory_events *to, const mp_memory_events *from, int64_t after,
                                     moonpad_error *error);

#endif
