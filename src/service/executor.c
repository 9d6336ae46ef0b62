/* Tasks and the threads that run them. */
#include "service/executor.h"

#include <signal.h>
#include <time.h>

#include "base/error.h"
#include "service/queue.h"
#include "service/service.h"

/* ---- Lists ---- */

void mp_task_push(mp_task_list *list, mp_task *task) {
  task->next = NULL;
  task->previous = list->last;
  if (list->last == NULL) {
    list->first = task;
  } else {
    list->last->next = task;
  }
  list->last = task;
  list->count++;
}

void mp_task_unlink(mp_task_list *list, mp_task *task) {
  *(task->previous == NULL ? &list->first : &task->previous->next) = task->next;
  *(task->next == NULL ? &list->last : &task->next->previous) = task->previous;
  task->next = task->previous = NULL;
  list->count--;
}

mp_task *mp_task_pop(mp_task_list *list) {
  mp_task *task = list->first;
  if (task != NULL) mp_task_unlink(list, task);
  return task;
}

/* ---- Workers ---- */

static void run(mp_executor *executor, mp_task *task) {
  executor->running++;
  pthread_mutex_unlock(&executor->mutex);
  task->run(task);
  pthread_mutex_lock(&executor->mutex);
  executor->running--;
}

static void end(moonpad_service *service, mp_task *task) {
  if (task->ended != NULL) {
    task->ended(service, task);
  } else if (task->queue != NULL) {
    mp_task_done(service, task);
  }
  pthread_cond_broadcast(&service->executor.finished);
}

/* The first that may run now; NULL: there is none. */
static mp_task *take_next(mp_executor *executor) {
  mp_task *task = executor->waiting.first;
  while (task != NULL && task->writes && executor->writing == MP_WRITERS) task = task->next;
  if (task != NULL) mp_task_unlink(&executor->waiting, task);
  return task;
}

/* Whoever ends a task that writes looks for the next one itself. */
static void run_next(mp_executor *executor, mp_task *task) {
  bool writes = task->writes;
  executor->writing += writes;
  run(executor, task);
  executor->writing -= writes;
}

static void *work(void *context) {
  moonpad_service *service = context;
  mp_executor *executor = &service->executor;
  pthread_mutex_lock(&executor->mutex);
  executor->idle++;
  for (;;) {
    mp_task *task;
    while ((task = take_next(executor)) == NULL && !executor->stopping) {
      pthread_cond_wait(&executor->work, &executor->mutex);
    }
    executor->idle--;
    if (task == NULL) break;
    run_next(executor, task);
    executor->idle++; /* what it submits needs no other thread */
    end(service, task);
  }
  pthread_mutex_unlock(&executor->mutex);
  return NULL;
}

/* Signals are for the host's own threads. */
static bool start_worker(moonpad_service *service) {
  mp_executor *executor = &service->executor;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = pthread_create(&executor->workers[executor->worker_count], NULL, work, service) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (started) executor->worker_count++;
  return started;
}

bool mp_executor_push(moonpad_service *service, mp_task *task) {
  mp_executor *executor = &service->executor;
  mp_task_push(&executor->waiting, task);
  /* Who has been woken and has not come yet still counts as idle. */
  bool wants_one = executor->waiting.count > executor->idle && executor->worker_count < MP_WORKERS;
  if (wants_one && !start_worker(service) && executor->worker_count == 0) {
    mp_task_unlink(&executor->waiting, task);
    return false;
  }
  pthread_cond_signal(&executor->work);
  return true;
}

/* ---- Submitting ---- */

moonpad_status mp_task_accept(moonpad_service *service, mp_task *task, moonpad_error *error) {
  moonpad_status status = mp_check_open(service, error);
  if (status != MOONPAD_OK || task->queue == NULL) return status;
  if (task->queue->closed) return mp_fail(error, MOONPAD_CLOSED, "the queue has been freed");
  task->queue->under_way++;
  return MOONPAD_OK;
}

void mp_task_withdraw(mp_task *task) {
  if (task->queue != NULL) task->queue->under_way--;
}

void mp_task_done(moonpad_service *service, mp_task *task) {
  task->queue->under_way--;
  mp_queue_put(task->queue, task);
  pthread_cond_broadcast(&service->executor.finished);
}

moonpad_status mp_submit(moonpad_service *service, mp_task *task, moonpad_error *error) {
  pthread_mutex_lock(&service->executor.mutex);
  moonpad_status status = mp_task_accept(service, task, error);
  if (status == MOONPAD_OK && !mp_executor_push(service, task)) {
    mp_task_withdraw(task);
    status = mp_no_memory(error);
  }
  pthread_mutex_unlock(&service->executor.mutex);
  return status;
}

moonpad_status mp_run_at_once(moonpad_service *service, mp_task *task, moonpad_error *error) {
  mp_executor *executor = &service->executor;
  pthread_mutex_lock(&executor->mutex);
  moonpad_status status = mp_task_accept(service, task, error);
  if (status == MOONPAD_OK) {
    run(executor, task);
    end(service, task);
  }
  pthread_mutex_unlock(&executor->mutex);
  return status;
}

/* ---- Beginning and end ---- */

bool mp_executor_init(mp_executor *executor) {
  if (pthread_mutex_init(&executor->mutex, NULL) != 0) return false;
  if (pthread_cond_init(&executor->work, NULL) == 0) {
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

void mp_executor_stop(moonpad_service *service) {
  mp_executor *executor = &service->executor;
  pthread_mutex_lock(&executor->mutex);
  atomic_store(&service->closed, true);
  bool is_first = !executor->stopping;
  executor->stopping = true;
  pthread_cond_broadcast(&executor->work);
  /*
  ** Nobody takes the store away while somebody still uses it: the workers, or who runs a task
  ** at once.
  */
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
