/*
** A backlog: tasks that a worker runs together, up to MP_BACKLOG_BATCH of them in one go, because
** that costs little more than running one (group commit). What they do is not known here.
*/
#ifndef MP_SERVICE_BACKLOG_H
#define MP_SERVICE_BACKLOG_H

#include "service/executor.h"

#define MP_BACKLOG_BATCH 64

/*
** Runs so many tasks, in order, on a worker and without a lock. *error is what the store answered
** the last time; it is kept from batch to batch. `gives_up`: the service is being closed and that
** answer was `busy`, so nothing is tried any more: they all fail with it.
*/
typedef void (*mp_run_together)(mp_task *const *tasks, size_t count, bool gives_up, moonpad_error *error);

typedef struct mp_backlog {
  /* Runs some of them. The first member. */
  mp_task task;
  mp_executor *executor;
  /* Guarded by the executor's mutex: what waits, and what is being run. */
  mp_task_list waiting;
  mp_task_list batch;
  /* The task is submitted, or runs. */
  bool scheduled;
  /* That of all its tasks. */
  mp_run_together run;
  /* The following belong to the worker that runs the task. */
  moonpad_error error;
  bool gives_up;
} mp_backlog;

void mp_backlog_init(mp_backlog *backlog, mp_executor *executor);

/*
** Adds a task; all tasks of a backlog have the same `run`. Any thread. Errors: closed, no_memory
** (no worker could be started); it has not been taken then.
*/
moonpad_status mp_backlog_add(mp_backlog *backlog, mp_task *task, mp_run_together run, moonpad_error *error);

#endif
