/* Polling a completion queue: the part of queue.h that also needs the service. */
#ifndef MP_SERVICE_QUEUE_POLL_H
#define MP_SERVICE_QUEUE_POLL_H

#include "service/queue.h"

/* As moonpad_queue_poll. *failed: how many of the tasks failed. */
size_t mp_queue_poll(moonpad_queue *queue, int64_t timeout_ms, size_t *failed);

#endif
