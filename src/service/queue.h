/*
** Completion queues: what is done, until the thread that it is for polls. A service has one of
** its own; a thread may have another (moonpad_queue_new). The mutex of the executor guards what
** is inside.
*/
#ifndef MP_SERVICE_QUEUE_H
#define MP_SERVICE_QUEUE_H

#include <stdatomic.h>

#include "base/env.h"
#include "service/executor.h"

struct moonpad_queue {
  atomic_uint references; /* session objects know it longer than it can be polled */
  mp_env *env;
  moonpad_service *service; /* counted, save by the service's own queue */
  pthread_cond_t ready;     /* for whoever waits for it: something is done */
  mp_task_list done;
  /* of these, and what is due: somebody takes them, which the file descriptor says */
  size_t wanted;
  size_t left;      /* the others: a poll drops them */
  size_t under_way; /* tasks that will be done */
  size_t due;       /* steps that have something to do, of which no task tells */
  uint64_t due_number;
  uint64_t last_number;
  /* What was done when a wait ended the last time: a step may not have taken it yet. */
  uint64_t awaited_number; /* of mp_queue_await */
  uint64_t polled_number;  /* of a poll that may wait */
  bool closed;
  int read_fd; /* -1: nobody has asked for it */
  int write_fd;
};

/* `service` is not counted here. False when the system has no room for it. */
bool mp_queue_init(moonpad_queue *queue, mp_env *env, moonpad_service *service);
/* Nothing is under way for it, nobody waits for it. What is done is dropped. */
void mp_queue_destroy(moonpad_queue *queue);
/* Of one that moonpad_queue_new has made, or NULL. */
moonpad_queue *mp_queue_retain(moonpad_queue *queue);
void mp_queue_release(moonpad_queue *queue);

/* With the mutex held. */
void mp_queue_put(moonpad_queue *queue, mp_task *task);
/* With the mutex held: takes out one that is in it. */
void mp_queue_take(moonpad_queue *queue, mp_task *task);

/* Takes out a task of a step. False: it is not done yet. On the thread that polls its queue. */
bool mp_task_take(mp_task *task);
/*
** Nobody waits for a task of a step any more: it is dropped, now where it is done, else by a later
** poll. On the thread that polls its queue.
*/
void mp_task_abandon(mp_task *task);
/* Until it is done. Who waits does not take it. */
void mp_task_wait(const mp_task *task);
/* Drops what was abandoned and is done. */
void mp_queue_drop_left(moonpad_queue *queue);

/*
** A step has something to do, of which no task tells: as when one is done that a step takes.
** Taken back once, before the queue is released; after moonpad_queue_free that is only for order's
** sake. On the thread that polls the queue.
*/
void mp_queue_add_due(moonpad_queue *queue);
void mp_queue_remove_due(moonpad_queue *queue);

/* As moonpad_queue_poll. *failed: how many of them. */
size_t mp_queue_poll(moonpad_queue *queue, int64_t timeout_ms, size_t *failed);
/*
** Waits for something to be done that was not when this returned the last time, and has not been
** taken; for so long at most, and not at all when nothing is under way: false then.
*/
bool mp_queue_await(moonpad_queue *queue, int64_t timeout_ms);

#endif
