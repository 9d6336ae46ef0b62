/*
** The executor of a service: threads that do what may wait for a store, so that the host's threads
** need not wait. They are started when there is work for them. What a task is: task.h.
**
** Without threads (MP_HAS_THREADS) a task is run by whoever polls, steps, waits or closes.
*/
#ifndef MP_SERVICE_EXECUTOR_H
#define MP_SERVICE_EXECUTOR_H

#include <stdatomic.h>

#include "base/platform.h"
#include "service/task.h"

/*
** SQLite has one writer at a time. More workers help where some read meanwhile, or where a store is
** behind a network.
*/
#define MP_WORKERS 4
/* At most so many run tasks that write: while a file is locked, somebody can still read. */
#define MP_WRITERS (MP_WORKERS - 1)

/* Of one task, which has no queue. */
typedef struct mp_timer {
  mp_task *task;
  double due; /* by a clock that only goes forwards */
  bool is_set;
} mp_timer;
/* A service has so many tasks that run later: sweeping, and storing renewals. */
#define MP_TIMERS 2

typedef struct mp_executor {
  /* Guards all of this and every queue of the service. */
  mp_mutex mutex;
  /* For workers: a task waits. */
  mp_condition work;
  /* For anybody who waits until a task is done. */
  mp_condition finished;
  mp_task_list waiting;
  mp_thread workers[MP_WORKERS];
  /* Threads that have been started. */
  unsigned worker_count;
  /* Of these, how many wait for work. */
  unsigned idle;
  /* Tasks that run now, on workers or on their submitters' threads. */
  unsigned running;
  /* Of these, how many write, on workers. */
  unsigned writing;
  /* Tasks that are to run later, in no order. */
  mp_timer timers[MP_TIMERS];
  /* The workers have been joined. */
  bool ended;
  /* Takes no more tasks; workers end once there is none for them. Set with the mutex held. */
  atomic_bool closed;
} mp_executor;

/* Starts no thread. False: the system has no mutex or condition variable left. */
bool mp_executor_init(mp_executor *executor);
void mp_executor_destroy(mp_executor *executor);

/* Errors: closed. Any thread. */
moonpad_status mp_executor_check_open(const mp_executor *executor, moonpad_error *error);

/*
** Hands over a task, to be run on a worker. Any thread. Errors: closed (the service, or the task's
** queue), no_memory (no worker could be started); the task has not been taken then.
*/
moonpad_status mp_executor_submit(mp_executor *executor, mp_task *task, moonpad_error *error);
/*
** Runs the task before it returns, on the caller's thread: for a task that waits for nothing, as on
** a store in memory. Errors: closed.
*/
moonpad_status mp_executor_run(mp_executor *executor, mp_task *task, moonpad_error *error);

/*
** Lets a worker run a task in so many seconds, or sooner if that was asked for before. The task has
** no queue, and may be set again once it has begun to run. False: closed, or no worker could be
** started. Any thread.
*/
bool mp_executor_later(mp_executor *executor, mp_task *task, double seconds);

/*
** For the tasks of a backlog, which no worker takes singly. All with the mutex held. From `accept`
** on the task's queue counts it as under way, until `done` puts it into the queue, or `withdraw`
** takes it back. Errors of `accept`: closed.
*/
moonpad_status mp_executor_accept(mp_executor *executor, mp_task *task, moonpad_error *error);
void mp_executor_withdraw(mp_task *task);
void mp_executor_done(mp_executor *executor, mp_task *task);
/* With the mutex held: lets a worker run it. False: there is no worker and none can be started. */
bool mp_executor_push(mp_executor *executor, mp_task *task);

/*
** With the mutex held: waits for `finished` or for a queue's `ready`. `_until`: at most until
** mp_monotonic() is so much, and false then. Without threads both run a task that waits instead.
*/
void mp_executor_wait(mp_executor *executor, mp_condition *condition);
bool mp_executor_wait_until(mp_executor *executor, mp_condition *condition, double until);
/*
** Without threads: runs the tasks that wait, and those that are due. With threads: nothing, they
** are the workers'. For the thread that polls, without the mutex.
*/
void mp_executor_help(mp_executor *executor);

/*
** Closes it, waits until all tasks that were submitted are done, and ends the threads. What was to
** run later does not. What is done stays in the queues. May be called again, and by several threads
** at a time: each returns once the threads have ended. Any thread but a worker.
*/
void mp_executor_stop(mp_executor *executor);

#endif
