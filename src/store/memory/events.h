/* The history of one session in the memory store. */
#ifndef MP_STORE_MEMORY_EVENTS_H
#define MP_STORE_MEMORY_EVENTS_H

#include "store/memory/arena.h"
#include "store/store.h"

/*
** One event, one piece of memory: `bytes` are the JSON, and after it the id and the invocation,
** unless they are parts of it.
*/
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
  char bytes[];
} mp_memory_event;

/*
** A place of the index. The hash stands beside the row number, so that looking for an id goes to no
** other event and growing goes to none.
*/
typedef struct mp_memory_event_place {
  uint32_t hash;
  uint32_t row; /* number + 1; 0: empty */
} mp_memory_event_place;

typedef struct mp_memory_events {
  mp_memory_event ***pages; /* pages of rows; a page never moves once it is made */
  size_t page_capacity;
  size_t page_count;
  mp_arena blocks;              /* what the rows point to */
  mp_memory_event_place *index; /* of the rows from `rising` on; open addressing */
  uint32_t index_capacity;
  uint32_t count;
  uint32_t rising; /* so many rows from the first on have ids in byte order: they need no index */
} mp_memory_events;

/*
** Revisions rise and ids differ: anything else is refused (invalid_argument, already_exists). On
** failure nothing has changed.
*/
moonpad_status mp_memory_events_append(mp_env *env, mp_memory_events *events, const mp_event_row *row,
                                       moonpad_error *error);
/* Takes the newest event away. */
void mp_memory_events_undo(mp_env *env, mp_memory_events *events);
void mp_memory_events_free(mp_env *env, mp_memory_events *events);

/* mp_parts.each_event */
moonpad_status mp_memory_events_each(const mp_memory_events *events, const mp_event_query *query, mp_each_event each,
                                     void *context, moonpad_error *error);
/*
** Copies the events behind a revision into an empty history. On failure what has been copied is
** still to be freed.
*/
moonpad_status mp_memory_events_copy(mp_env *env, mp_memory_events *to, const mp_memory_events *from, int64_t after,
                                     moonpad_error *error);

#endif
