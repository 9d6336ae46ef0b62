/* An asynchronous append as a task, and how a worker stores such tasks. */
#ifndef MP_SERVICE_APPEND_STORE_QUEUED_H
#define MP_SERVICE_APPEND_STORE_QUEUED_H

#include "service/append/append.h"

typedef struct mp_queued_append {
  /* The first member. */
  mp_in_flight in_flight;
  mp_append append;
  /* The session object's. */
  mp_failure *failure;
  /* Code MOONPAD_OK: stored. */
  moonpad_error error;
} mp_queued_append;

/* An mp_run_together: stores them together, each with an answer of its own. */
void mp_queued_append_store_batch(mp_task *const *tasks, size_t count, bool gives_up, moonpad_error *error);
/* The same for one, as an mp_task.run. */
void mp_queued_append_store_one(mp_task *task);

#endif
