/*
** Completion queues: tasks that are done, until the thread that polls the queue takes them. Each
** service has one queue; a thread may have one of its own (moonpad_queue_new, contract 6).
** queue_poll.h has what also needs the service.
*/
#ifndef MP_SERVICE_QUEUE_H
#define MP_SERVICE_QUEUE_H

#include <stdatomic.h>

#include "base/env.h"
#include "base/wakeup.h"
#include "service/executor.h"

struct moonpad_queue {
  /* Session objects may hold it after it was closed. */
  atomic_uint references;
  mp_env *env;
  /*
  ** Counted by a queue that moonpad_queue_new made, not by the service's own. Once the queue is
  ** closed, the service may be gone, and `executor` with it.
  */
  moonpad_service *service;
  /* Its mutex guards all that follows. */
  mp_executor *executor;
  /* For anybody who waits for the queue: something is done. */
  mp_condition ready;
  mp_task_list done;
  /*
  ** How many of `done` (not abandoned) and `due` there are; without threads also of `under_way`,
  ** which a poll runs. `fd` is raised while there is any.
  */
  size_t wanted;
  /* Made when somebody asks for it. */
  mp_wakeup fd;
  /* The others of `done`: a poll drops them. */
  size_t abandoned;
  /* Tasks that are not done yet and will come here. */
  size_t under_way;
  /* Steps that have something to do without any task (mp_queue_add_due). */
  size_t due;
  /* The last of them, in the order of `last_number`. */
  uint64_t due_number;
  uint64_t last_number;
  /* `last_number` when mp_queue_await returned last: only what came after it ends the next one. */
  uint64_t awaited_number;
  /* The same for a poll that waits. */
  uint64_t polled_number;
  bool closed;
};

/* `env` is not counted here. False: the system has no condition variable left. */
bool mp_queue_init(moonpad_queue *queue, mp_env *env, moonpad_service *service, mp_executor *executor);
/* Nothing may be under way for it, and nobody wait for it. Drops what is done. */
void mp_queue_destroy(moonpad_queue *queue);
/* Of a queue that moonpad_queue_new made, or NULL. The last release also releases `env`. */
moonpad_queue *mp_queue_retain(moonpad_queue *queue);
void mp_queue_release(moonpad_queue *queue);

/* With the mutex held: a task that will come here, until it is done or taken back. */
void mp_queue_add_under_way(moonpad_queue *queue);
void mp_queue_remove_under_way(moonpad_queue *queue);
/* With the mutex held: puts in a task that is done. */
void mp_queue_put(moonpad_queue *queue, mp_task *task);
/* With the mutex held: takes out a task that is in it. */
void mp_queue_take(moonpad_queue *queue, mp_task *task);

/* The following are for the thread that polls the queue. */

/* Takes out a task of a step (MP_TAKEN_BY_STEP). False: it is not done yet. */
bool mp_task_take(mp_task *task);
/* Nobody waits for a task of a step any more. Drops it, now if it is done, else in a later poll. */
void mp_task_abandon(mp_task *task);
/* Waits until the task is done, and does not take it out. */
void mp_task_wait(const mp_task *task);
/* Drops abandoned tasks that are done. */
void mp_queue_drop_abandoned(moonpad_queue *queue);
/*
** Takes out the next task for a poll to finish or drop that was done up to number `last`; NULL:
** there is none.
*/
mp_task *mp_queue_next(moonpad_queue *queue, uint64_t last);
/*
** Waits until something is done or due, at most so long, and not when nothing is under way. Returns
** the last number.
*/
uint64_t mp_queue_wait(moonpad_queue *queue, int64_t timeout_ms);

/*
** Says that a step has something to do, although no task of it is done: the fd becomes readable.
** Taken back with mp_queue_remove_due, before the queue is released; after moonpad_queue_free both
** do nothing.
*/
void mp_queue_add_due(moonpad_queue *queue);
void mp_queue_remove_due(moonpad_queue *queue);

/*
** Waits, at most so long, until something is done or due that was not yet when this returned the
** last time. Does not wait, and returns false, when nothing is under way and nothing is new.
*/
bool mp_queue_await(moonpad_queue *queue, int64_t timeout_ms);

#endif
