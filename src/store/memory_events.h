/* The history of one session in the memory store. */
#ifndef MP_STORE_MEMORY_EVENTS_H
#define MP_STORE_MEMORY_EVENTS_H

#include "store/store.h"

/* One event, one block: the id and then the JSON are `bytes`. */
typedef struct mp_memory_event {
  int64_t revision;
  double timestamp;
  uint64_t digest;
  uint32_t id_length;
  uint32_t json_length;
  char bytes[];
} mp_memory_event;

/* Pages never move once they are made. The hashes of the ids stand beside the rows, so that a growing index reads them in sequence. */
typedef struct mp_memory_event_page {
  mp_memory_event **rows;
  uint32_t *hashes; /* in the same block */
} mp_memory_event_page;

typedef struct mp_memory_events {
  mp_memory_event_page *pages;
  size_t page_capacity;
  size_t page_count;
  uint32_t *index; /* open addressing over row number + 1; 0: empty */
  uint32_t index_capacity;
  uint32_t count;
} mp_memory_events;

/* Revisions rise and ids differ: anything else is refused (invalid_argument, already_exists). On failure nothing has changed. */
moonpad_status mp_memory_events_append(mp_env *env, mp_memory_events *events, const mp_event_row *row,
                                       moonpad_error *error);
/* Takes the newest event away. */
void mp_memory_events_undo(mp_env *env, mp_memory_events *events);
void mp_memory_events_free(mp_env *env, mp_memory_events *events);

/* mp_tx_ops.find_event, each_event */
moonpad_status mp_memory_events_find(const mp_memory_events *events, moonpad_string id, mp_each_event each,
                                     void *context, moonpad_error *error);
moonpad_status mp_memory_events_each(const mp_memory_events *events, int64_t first, int64_t last, mp_each_event each,
                                     void *context, moonpad_error *error);

#endif
