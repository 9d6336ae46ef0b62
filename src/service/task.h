/*
** A task: something to be done that may wait for a store. It is submitted on one thread, runs on a
** worker of the executor (executor.h), and then stands in a completion queue (queue.h) until the
** thread that polls that queue takes it out. What a task does is not known here.
*/
#ifndef MP_SERVICE_TASK_H
#define MP_SERVICE_TASK_H

#include "moonpad.h"

typedef struct mp_task mp_task;

/* Who takes a task that is done out of its queue. */
typedef enum mp_task_taker {
  MP_TAKEN_BY_POLL = 0,
  MP_TAKEN_BY_STEP, /* a step of a run, with mp_task_take: a poll leaves the task there */
  MP_TAKEN_BY_NONE  /* abandoned: the next poll drops the task */
} mp_task_taker;

/*
** The first member of a larger struct, its submitter's. What is in a queue is given back to the
** submitter in one of three ways: a poll calls `finish`, or `drop`, or a step takes it with
** mp_task_take. `run` must not touch what belongs to the submitter's thread (a session object, a
** Lua state): read it before submitting, change it in `finish`.
*/
struct mp_task {
  /*
  ** On a worker, without a lock. May ask the store. Must not release the service, whose last
  ** release waits for the workers.
  */
  void (*run)(mp_task *task);
  /*
  ** After `run`, with the executor's mutex held. May push the task again. NULL: the task is done
  ** and goes into its queue.
  */
  void (*ended)(mp_task *task);
  /* On the thread that polls `queue`. The status says how it went: a poll counts failures. */
  moonpad_status (*finish)(mp_task *task);
  /* Instead of `finish` when nobody takes it: on the thread that polls or frees `queue`. */
  void (*drop)(mp_task *task);
  /* Where it goes when it is done; NULL: nowhere, and `run` is all. */
  moonpad_queue *queue;
  /* It may wait for a lock of the store: see MP_WRITERS. */
  bool writes;
  /* Once submitted, changed with the mutex held, when it is abandoned. */
  mp_task_taker taker;
  /* Private to the executor and its queues, guarded by the executor's mutex. */
  mp_task *next;
  mp_task *previous;
  /* Counts the tasks of its queue in the order they were done; 0: not done yet. */
  uint64_t number;
};

/* A doubly linked list. A task is in one list at most. */
typedef struct mp_task_list {
  mp_task *first;
  mp_task *last;
  size_t count;
} mp_task_list;
void mp_task_push(mp_task_list *list, mp_task *task);
void mp_task_unlink(mp_task_list *list, mp_task *task);
/* Takes out the first; NULL: the list is empty. */
mp_task *mp_task_pop(mp_task_list *list);

#endif
