/*
** The executor of a service: threads that do what may wait for a store, so that nobody else has to.
** A *task* is submitted on one thread, runs on a worker, and then stands in a completion queue
** (queue.h) until the thread that it is for polls. What a task does is not known here.
*/
#ifndef MP_SERVICE_EXECUTOR_H
#define MP_SERVICE_EXECUTOR_H

#include <pthread.h>

#include "moonpad.h"

/*
** SQLite writes one after the other: more help where some read meanwhile, or a store is far away.
*/
#define MP_WORKERS 4
/* So many of them write at a time: while a file is locked, somebody can still read. */
#define MP_WRITERS (MP_WORKERS - 1)

typedef struct mp_task mp_task;

/* Who takes a task out of its queue once it is done. */
typedef enum mp_task_taker {
  MP_TAKEN_BY_POLL = 0,
  MP_TAKEN_BY_STEP, /* mp_task_take; a poll leaves it there */
  MP_TAKEN_BY_NONE  /* who waited has gone: the next poll drops it, and is not called for that */
} mp_task_taker;

/*
** Something to be done. It is a part of what its submitter knows about it, which stays until
** `finish` or `drop` is called, one of them and once, and gives it back. What needs the
** submitter's own thread (a session object, a Lua state) is read before it is submitted and
** changed by `finish`.
*/
struct mp_task {
  /* On a worker, without a lock; may ask the store. It must not let go of the service. */
  void (*run)(mp_task *task);
  /* With the mutex held, after `run`; NULL: it goes into its queue. It may be submitted anew. */
  void (*ended)(moonpad_service *service, mp_task *task);
  /* On the thread that polls `queue`. What became of it: a poll counts what failed. */
  moonpad_status (*finish)(mp_task *task);
  /*
  ** Instead of `finish`, where nobody takes it any more: on the thread that polls or frees
  ** the queue.
  */
  void (*drop)(mp_task *task);
  moonpad_queue *queue; /* gets it when it is done; NULL: nobody does, and `run` is all */
  bool writes;          /* it may wait for a lock that others hold: see MP_WRITERS */
  mp_task_taker taker;  /* changed by mp_task_abandon only once it has been submitted */
  /* The executor's own, guarded by its mutex. */
  mp_task *next;
  mp_task *previous;
  uint64_t number; /* in the order in which those of its queue were done; 0: it is not */
};

typedef struct mp_task_list {
  mp_task *first;
  mp_task *last;
  size_t count;
} mp_task_list;
void mp_task_push(mp_task_list *list, mp_task *task);
void mp_task_unlink(mp_task_list *list, mp_task *task);
/* NULL: there is none. */
mp_task *mp_task_pop(mp_task_list *list);

typedef struct mp_executor {
  pthread_mutex_t mutex;   /* guards all of this, and the service's queues */
  pthread_cond_t work;     /* for workers: there is some */
  pthread_cond_t finished; /* for whoever waits for tasks of somebody else's: some are done */
  mp_task_list waiting;
  pthread_t workers[MP_WORKERS]; /* started by the tasks that need one */
  unsigned worker_count;
  unsigned idle;    /* of them */
  unsigned running; /* tasks, on whatever thread */
  unsigned writing; /* of these, on workers */
  bool stopping;    /* takes no more tasks; the workers end when nothing waits any more */
  bool ended;       /* they have */
} mp_executor;

/* Starts no thread. False when the system has no room for it. */
bool mp_executor_init(mp_executor *executor);
void mp_executor_destroy(mp_executor *executor);

/*
** Hands over a task. Errors: closed, no_memory (no thread can be started); it has not been
** taken then.
*/
moonpad_status mp_submit(moonpad_service *service, mp_task *task, moonpad_error *error);
/*
** The same for a task that waits for nothing, such as one whose store answers from memory: it is
** run at once, by the caller. Errors: closed.
*/
moonpad_status mp_run_at_once(moonpad_service *service, mp_task *task, moonpad_error *error);

/*
** The same for a task that another task runs, with others in one go. With the mutex held: from
** `accept` on it counts as under way, until it is `done`, or withdrawn.
*/
moonpad_status mp_task_accept(moonpad_service *service, mp_task *task, moonpad_error *error);
void mp_task_withdraw(mp_task *task);
void mp_task_done(moonpad_service *service, mp_task *task);
/* With the mutex held. False: there is no thread, and none can be started; it was not taken. */
bool mp_executor_push(moonpad_service *service, mp_task *task);

/*
** From now on the service is closed. Finishes what has been submitted, then ends the threads; what
** is done stays in the queues. Idempotent; any thread but a worker.
*/
void mp_executor_stop(moonpad_service *service);

#endif
