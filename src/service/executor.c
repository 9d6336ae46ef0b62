/* The threads that run tasks. */
#include "service/executor.h"

#include <signal.h>

#include "base/condition.h"
#include "base/error.h"
#include "service/queue.h"

/* ---- Workers ---- */

static void run(mp_executor *executor, mp_task *task) {
  executor->running++;
  pthread_mutex_unlock(&executor->mutex);
  task->run(task);
  pthread_mutex_lock(&executor->mutex);
  executor->running--;
}

static void end(mp_executor *executor, mp_task *task) {
  if (task->ended != NULL) {
    task->ended(task);
  } else if (task->queue != NULL) {
    mp_executor_done(executor, task);
  }
  pthread_cond_broadcast(&executor->finished);
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

static void wait_for_work(mp_executor *executor) {
  const mp_timer *timer = first_timer(executor);
  if (timer == NULL) {
    pthread_cond_wait(&executor->work, &executor->mutex);
    return;
  }
  struct timespec until = {.tv_sec = (time_t)timer->due};
  until.tv_nsec = (long)((timer->due - (double)until.tv_sec) * 1e9);
  pthread_cond_timedwait(&executor->work, &executor->mutex, &until);
}

/* The first task that may run now; NULL: there is none. */
static mp_task *take_next(mp_executor *executor) {
  push_due(executor);
  mp_task *task = executor->waiting.first;
  while (task != NULL && task->writes && executor->writing == MP_WRITERS) task = task->next;
  if (task != NULL) mp_task_unlink(&executor->waiting, task);
  return task;
}

/* A worker that may write again needs no signal: it looks for the next task itself. */
static void run_counted(mp_executor *executor, mp_task *task) {
  bool writes = task->writes;
  executor->writing += writes;
  run(executor, task);
  executor->writing -= writes;
}

static void *work(void *context) {
  mp_executor *executor = context;
  pthread_mutex_lock(&executor->mutex);
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
  pthread_mutex_unlock(&executor->mutex);
  return NULL;
}

/* With all signals blocked: they are for the host's own threads. */
static bool start_worker(mp_executor *executor) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&executor->workers[executor->worker_count], NULL, work, executor) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) executor->worker_count++;
  return started;
}

bool mp_executor_push(mp_executor *executor, mp_task *task) {
  mp_task_push(&executor->waiting, task);
  /* A worker that has been signalled and has not woken up yet still counts as idle. */
  bool needs_worker = executor->waiting.count > executor->idle && executor->worker_count < MP_WORKERS;
  if (needs_worker && !start_worker(executor) && executor->worker_count == 0) {
    mp_task_unlink(&executor->waiting, task);
    return false;
  }
  pthread_cond_signal(&executor->work);
  return true;
}

static mp_timer *timer_of(mp_executor *executor, const mp_task *task) {
  mp_timer *timer = executor->timers;
  while (timer->task != NULL && timer->task != task) timer++;
  return timer;
}

bool mp_executor_later(mp_executor *executor, mp_task *task, double seconds) {
  pthread_mutex_lock(&executor->mutex);
  bool is_taken = !atomic_load(&executor->closed) && (executor->worker_count > 0 || start_worker(executor));
  if (is_taken) {
    mp_timer *timer = timer_of(executor, task);
    double due = mp_monotonic() + (seconds < LONGEST ? seconds : LONGEST);
    if (!timer->is_set || due < timer->due) *timer = (mp_timer){.task = task, .due = due, .is_set = true};
    /* Those who wait may wait for too long. */
    pthread_cond_broadcast(&executor->work);
  }
  pthread_mutex_unlock(&executor->mutex);
  return is_taken;
}

/* ---- Submitting ---- */

moonpad_status mp_executor_check_open(const mp_executor *executor, moonpad_error *error) {
  if (!atomic_load(&executor->closed)) return MOONPAD_OK;
  return mp_fail(error, MOONPAD_CLOSED, "the service is closed");
}

moonpad_status mp_executor_accept(mp_executor *executor, mp_task *task, moonpad_error *error) {
  moonpad_status status = mp_executor_check_open(executor, error);
  if (status != MOONPAD_OK || task->queue == NULL) return status;
  if (task->queue->closed) return mp_fail(error, MOONPAD_CLOSED, "the queue has been freed");
  task->queue->under_way++;
  return MOONPAD_OK;
}

void mp_executor_withdraw(mp_task *task) {
  if (task->queue != NULL) task->queue->under_way--;
}

void mp_executor_done(mp_executor *executor, mp_task *task) {
  task->queue->under_way--;
  mp_queue_put(task->queue, task);
  pthread_cond_broadcast(&executor->finished);
}

moonpad_status mp_executor_submit(mp_executor *executor, mp_task *task, moonpad_error *error) {
  pthread_mutex_lock(&executor->mutex);
  moonpad_status status = mp_executor_accept(executor, task, error);
  if (status == MOONPAD_OK && !mp_executor_push(executor, task)) {
    mp_executor_withdraw(task);
    status = mp_no_memory(error);
  }
  pthread_mutex_unlock(&executor->mutex);
  return status;
}

moonpad_status mp_executor_run(mp_executor *executor, mp_task *task, moonpad_error *error) {
  pthread_mutex_lock(&executor->mutex);
  moonpad_status status = mp_executor_accept(executor, task, error);
  if (status == MOONPAD_OK) {
    run(executor, task);
    end(executor, task);
  }
  pthread_mutex_unlock(&executor->mutex);
  return status;
}

/* ---- Beginning and end ---- */

bool mp_executor_init(mp_executor *executor) {
  memset(executor, 0, sizeof *executor);
  atomic_init(&executor->closed, false);
  if (pthread_mutex_init(&executor->mutex, NULL) != 0) return false;
  if (mp_condition_init(&executor->work)) {
    if (pthread_cond_init(&executor->finished, NULL) == 0) return true;
    pthread_cond_destroy(&executor->work);
  }
  pthread_mutex_destroy(&executor->mutex);
  return false;
}

void mp_executor_destroy(mp_executor *executor) {
  pthread_cond_destroy(&executor->finished);
  pthread_cond_destroy(&executor->work);
  pthread_mutex_destroy(&executor->mutex);
}

void mp_executor_stop(mp_executor *executor) {
  pthread_mutex_lock(&executor->mutex);
  bool is_first = !atomic_exchange(&executor->closed, true);
  for (size_t i = 0; i < MP_TIMERS; i++) executor->timers[i].is_set = false;
  pthread_cond_broadcast(&executor->work);
  /* The store is closed next, so no task may be running any more, on whatever thread. */
  while (is_first ? executor->running > 0 || executor->waiting.first != NULL : !executor->ended) {
    pthread_cond_wait(&executor->finished, &executor->mutex);
  }
  pthread_mutex_unlock(&executor->mutex);
  if (!is_first) return;
  for (unsigned i = 0; i < executor->worker_count; i++) pthread_join(executor->workers[i], NULL);
  pthread_mutex_lock(&executor->mutex);
  executor->ended = true;
  pthread_cond_broadcast(&executor->finished);
  pthread_mutex_unlock(&executor->mutex);
}
