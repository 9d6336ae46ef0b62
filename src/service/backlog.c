/* Tasks that are run together. */
#include "service/backlog.h"

#include <string.h>

#include "base/error.h"

static void run_some(mp_task *task) {
  mp_backlog *backlog = (mp_backlog *)task;
  mp_task *tasks[MP_BACKLOG_BATCH];
  size_t count = 0;
  mp_mutex_lock(&backlog->executor->mutex);
  mp_run_together run = backlog->run;
  for (; count < MP_BACKLOG_BATCH && backlog->waiting.first != NULL; count++) {
    tasks[count] = mp_task_pop(&backlog->waiting);
    mp_task_push(&backlog->batch, tasks[count]);
  }
  mp_mutex_unlock(&backlog->executor->mutex);
  run(tasks, count, backlog->gives_up, &backlog->error);
}

/* Goes on behind what others have submitted meanwhile; it is never under way twice. */
static void run_more(mp_task *task) {
  mp_backlog *backlog = (mp_backlog *)task;
  mp_executor *executor = backlog->executor;
  for (mp_task *done; (done = mp_task_pop(&backlog->batch)) != NULL;) mp_executor_done(executor, done);
  /* Closing waits once for a lock that another process holds, however much is queued. */
  backlog->gives_up = atomic_load(&executor->closed) && backlog->error.code == MOONPAD_BUSY;
  backlog->scheduled = backlog->waiting.first != NULL && mp_executor_push(executor, task);
}

void mp_backlog_init(mp_backlog *backlog, mp_executor *executor) {
  memset(backlog, 0, sizeof *backlog);
  backlog->task.run = run_some;
  backlog->task.writes = true;
  backlog->task.ended = run_more;
  backlog->executor = executor;
}

/* With the mutex held. */
static moonpad_status push(mp_backlog *backlog, mp_task *task, moonpad_error *error) {
  moonpad_status status = mp_executor_accept(backlog->executor, task, error);
  if (status != MOONPAD_OK) return status;
  mp_task_push(&backlog->waiting, task);
  if (!backlog->scheduled) backlog->scheduled = mp_executor_push(backlog->executor, &backlog->task);
  if (backlog->scheduled) return MOONPAD_OK;
  mp_task_unlink(&backlog->waiting, task);
  mp_executor_withdraw(task);
  return mp_no_memory(error);
}

moonpad_status mp_backlog_add(mp_backlog *backlog, mp_task *task, mp_run_together run, moonpad_error *error) {
  mp_mutex_lock(&backlog->executor->mutex);
  backlog->run = run;
  moonpad_status status = push(backlog, task, error);
  mp_mutex_unlock(&backlog->executor->mutex);
  return status;
}
