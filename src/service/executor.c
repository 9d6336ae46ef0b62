/* The threads that run tasks. */
#include "service/executor.h"

#include "base/error.h"
#include "base/platform.h"
#include "service/queue.h"

/* ---- Running ---- */

static void run(mp_executor *executor, mp_task *task) {
  executor->running++;
  mp_mutex_unlock(&executor->mutex);
  task->run(task);
  mp_mutex_lock(&executor->mutex);
  executor->running--;
}

static void end(mp_executor *executor, mp_task *task) {
  if (task->ended != NULL) {
    task->ended(task);
  } else if (task->queue != NULL) {
    mp_executor_done(executor, task);
  }
  mp_condition_broadcast(&executor->finished);
}

/* ---- Timers ---- */

#define LONGEST 1e9 /* seconds: far more than a process runs */

/* The timer that is due first; NULL: none is set. */
static mp_timer *first_timer(mp_executor *executor) {
  mp_timer *first = NULL;
  for (size_t i = 0; i < MP_TIMERS; i++) {
    mp_timer *timer = &executor->timers[i];
    if (timer->is_set && (first == NULL || timer->due < first->due)) first = timer;
  }
  return first;
}

static bool is_waiting(const mp_executor *executor, const mp_task *task) {
  const mp_task *other = executor->waiting.first;
  while (other != NULL && other != task) other = other->next;
  return other != NULL;
}

/* Lets what is due wait for a worker, as others do. */
static void push_due(mp_executor *executor) {
  mp_timer *timer;
  while ((timer = first_timer(executor)) != NULL && timer->due <= mp_monotonic()) {
    timer->is_set = false;
    if (!is_waiting(executor, timer->task)) mp_task_push(&executor->waiting, timer->task);
  }
}

/* The first task that may run now; NULL: there is none. */
static mp_task *take_waiting(mp_executor *executor) {
  mp_task *task = executor->waiting.first;
  while (task != NULL && task->writes && executor->writing == MP_WRITERS) task = task->next;
  if (task != NULL) mp_task_unlink(&executor->waiting, task);
  return task;
}

/* The same, and what is due may be it. */
static mp_task *take_next(mp_executor *executor) {
  push_due(executor);
  return take_waiting(executor);
}

/* A worker that may write again needs no signal: it looks for the next task itself. */
static void run_counted(mp_executor *executor, mp_task *task) {
  bool writes = task->writes;
  executor->writing += writes;
  run(executor, task);
  executor->writing -= writes;
}

/* ---- With threads: workers ---- */

static void wait_for_work(mp_executor *executor) {
  const mp_timer *timer = first_timer(executor);
  if (timer == NULL) {
    mp_condition_wait(&executor->work, &executor->mutex);
  } else {
    mp_condition_wait_until(&executor->work, &executor->mutex, timer->due);
  }
}

static void work(void *context) {
  mp_executor *executor = context;
  mp_mutex_lock(&executor->mutex);
  executor->idle++;
  for (;;) {
    mp_task *task;
    while ((task = take_next(executor)) == NULL && !atomic_load(&executor->closed)) wait_for_work(executor);
    executor->idle--;
    if (task == NULL) break;
    run_counted(executor, task);
    /* `end` may push a task: this worker can take it, so no other one need be started for it. */
    executor->idle++;
    end(executor, task);
  }
  mp_mutex_unlock(&executor->mutex);
}

static bool start_worker(mp_executor *executor) {
  bool started = mp_thread_start(&executor->workers[executor->worker_count], work, executor);
  if (started) executor->worker_count++;
  return started;
}

/* ---- Without threads: whoever would wait for a worker ---- */

/* With the mutex held. False: no task can run now. */
static bool run_waiting(mp_executor *executor) {
  mp_task *task = MP_HAS_THREADS ? NULL : take_waiting(executor);
  if (task == NULL) return false;
  run_counted(executor, task);
  end(executor, task);
  return true;
}

void mp_executor_wait(mp_executor *executor, mp_condition *condition) {
  if (!run_waiting(executor)) mp_condition_wait(condition, &executor->mutex);
}

bool mp_executor_wait_until(mp_executor *executor, mp_condition *condition, double until) {
  if (run_waiting(executor)) return true;
  return mp_condition_wait_until(condition, &executor->mutex, until);
}

void mp_executor_help(mp_executor *executor) {
  if (MP_HAS_THREADS) return;
  mp_mutex_lock(&executor->mutex);
  /* Once: what is due again meanwhile, as after a failure, waits for the next call. */
  push_due(executor);
  while (run_waiting(executor)) continue;
  mp_mutex_unlock(&executor->mutex);
}

/* ---- Submitting ---- */

/* False: there is nobody who would run what waits. */
static bool ensure_worker(mp_executor *executor) {
  return !MP_HAS_THREADS || executor->worker_count > 0 || start_worker(executor);
}

bool mp_executor_push(mp_executor *executor, mp_task *task) {
  mp_task_push(&executor->waiting, task);
  if (!MP_HAS_THREADS) return true;
  /* A worker that has been signalled and has not woken up yet still counts as idle. */
  bool needs_worker = executor->waiting.count > executor->idle && executor->worker_count < MP_WORKERS;
  if (needs_worker && !start_worker(executor) && executor->worker_count == 0) {
    mp_task_unlink(&executor->waiting, task);
    return false;
  }
  mp_condition_signal(&executor->work);
  return true;
}

static mp_timer *timer_of(mp_executor *executor, const mp_task *task) {
  mp_timer *timer = executor->timers;
  while (timer->task != NULL && timer->task != task) timer++;
  return timer;
}

bool mp_executor_later(mp_executor *executor, mp_task *task, double seconds) {
  mp_mutex_lock(&executor->mutex);
  bool is_taken = !atomic_load(&executor->closed) && ensure_worker(executor);
  if (is_taken) {
    mp_timer *timer = timer_of(executor, task);
    double due = mp_monotonic() + (seconds < LONGEST ? seconds : LONGEST);
    if (!timer->is_set || due < timer->due) *timer = (mp_timer){.task = task, .due = due, .is_set = true};
    /* Those who wait may wait for too long. */
    mp_condition_broadcast(&executor->work);
  }
  mp_mutex_unlock(&executor->mutex);
  return is_taken;
}

moonpad_status mp_executor_check_open(const mp_executor *executor, moonpad_error *error) {
  if (!atomic_load(&executor->closed)) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
}

moonpad_status mp_executor_accept(mp_executor *executor, mp_task *task, moonpad_error *error) {
  moonpad_status status = mp_executor_check_open(executor, error);
  if (status != MOONPAD_OK || task->queue == NULL) return status;
  if (task->queue->closed) return mp_fail(error, MOONPAD_CLOSED, "the queue has been freed");
  mp_queue_add_under_way(task->queue);
  return MOONPAD_OK;
}

void mp_executor_withdraw(mp_task *task) {
  if (task->queue != NULL) mp_queue_remove_under_way(task->queue);
}

void mp_executor_done(mp_executor *executor, mp_task *task) {
  mp_queue_remove_under_way(task->queue);
  mp_queue_put(task->queue, task);
  mp_condition_broadcast(&executor->finished);
}

moonpad_status mp_executor_submit(mp_executor *executor, mp_task *task, moonpad_error *error) {
  mp_mutex_lock(&executor->mutex);
  moonpad_status status = mp_executor_accept(executor, task, error);
  if (status == MOONPAD_OK && !mp_executor_push(executor, task)) {
    mp_executor_withdraw(task);
    status = mp_no_memory(error);
  }
  mp_mutex_unlock(&executor->mutex);
  return status;
}

moonpad_status mp_executor_run(mp_executor *executor, mp_task *task, moonpad_error *error) {
  mp_mutex_lock(&executor->mutex);
  moonpad_status status = mp_executor_accept(executor, task, error);
  if (status == MOONPAD_OK) {
    run(executor, task);
    end(executor, task);
  }
  mp_mutex_unlock(&executor->mutex);
  return status;
}

/* ---- Beginning and end ---- */

bool mp_executor_init(mp_executor *executor) {
  memset(executor, 0, sizeof *executor);
  atomic_init(&executor->closed, false);
  if (!mp_mutex_init(&executor->mutex)) return false;
  if (mp_condition_init(&executor->work)) {
    if (mp_condition_init(&executor->finished)) return true;
    mp_condition_destroy(&executor->work);
  }
  mp_mutex_destroy(&executor->mutex);
  return false;
}

void mp_executor_destroy(mp_executor *executor) {
  mp_condition_destroy(&executor->finished);
  mp_condition_destroy(&executor->work);
  mp_mutex_destroy(&executor->mutex);
}

void mp_executor_stop(mp_executor *executor) {
  mp_mutex_lock(&executor->mutex);
  bool is_first = !atomic_exchange(&executor->closed, true);
  for (size_t i = 0; i < MP_TIMERS; i++) executor->timers[i].is_set = false;
  mp_condition_broadcast(&executor->work);
  /* The store is closed next, so no task may be running any more, on whatever thread. */
  while (is_first ? executor->running > 0 || executor->waiting.first != NULL : !executor->ended) {
    mp_executor_wait(executor, &executor->finished);
  }
  mp_mutex_unlock(&executor->mutex);
  if (!is_first) return;
  for (unsigned i = 0; i < executor->worker_count; i++) mp_thread_join(&executor->workers[i]);
  mp_mutex_lock(&executor->mutex);
  executor->ended = true;
  mp_condition_broadcast(&executor->finished);
  mp_mutex_unlock(&executor->mutex);
}
