/* Completion queues. */
#include "service/queue.h"

#include "base/error.h"

moonpad_status moonpad_queue_fd(moonpad_queue *queue, int *fd, moonpad_error *error) {
  mp_mutex_lock(&queue->executor->mutex);
  int number = mp_wakeup_make(&queue->fd);
  *fd = mp_wakeup_fd(&queue->fd);
  mp_mutex_unlock(&queue->executor->mutex);
  if (number == 0) return MOONPAD_OK;
  char reason[128];
  return mp_fail(error, MOONPAD_STORAGE, "no file descriptor for a queue: %s",
                 mp_system_message(number, reason, sizeof reason));
}

/* ---- What is done ---- */

static void add_wanted(moonpad_queue *queue) {
  if (queue->wanted++ == 0) mp_wakeup_raise(&queue->fd);
}

static void remove_wanted(moonpad_queue *queue) {
  if (--queue->wanted == 0) mp_wakeup_lower(&queue->fd);
}

void mp_queue_add_under_way(moonpad_queue *queue) {
  queue->under_way++;
  if (!MP_HAS_THREADS) add_wanted(queue);
}

void mp_queue_remove_under_way(moonpad_queue *queue) {
  queue->under_way--;
  if (!MP_HAS_THREADS) remove_wanted(queue);
}

void mp_queue_put(moonpad_queue *queue, mp_task *task) {
  task->number = ++queue->last_number;
  mp_task_push(&queue->done, task);
  if (task->taker == MP_TAKEN_BY_NONE) {
    queue->abandoned++;
  } else {
    add_wanted(queue);
  }
  mp_condition_broadcast(&queue->ready);
}

void mp_queue_take(moonpad_queue *queue, mp_task *task) {
  mp_task_unlink(&queue->done, task);
  if (task->taker == MP_TAKEN_BY_NONE) {
    queue->abandoned--;
  } else {
    remove_wanted(queue);
  }
}

void mp_queue_add_due(moonpad_queue *queue) {
  /* Nobody polls it any more. */
  if (queue->closed) return;
  mp_mutex_lock(&queue->executor->mutex);
  queue->due++;
  queue->due_number = ++queue->last_number;
  add_wanted(queue);
  mp_mutex_unlock(&queue->executor->mutex);
}

void mp_queue_remove_due(moonpad_queue *queue) {
  /* Its service, and so the mutex, may be gone. */
  if (queue->closed) return;
  mp_mutex_lock(&queue->executor->mutex);
  queue->due--;
  remove_wanted(queue);
  mp_mutex_unlock(&queue->executor->mutex);
}

bool mp_task_take(mp_task *task) {
  moonpad_queue *queue = task->queue;
  mp_executor_help(queue->executor);
  mp_mutex_lock(&queue->executor->mutex);
  bool is_done = task->number != 0;
  if (is_done) mp_queue_take(queue, task);
  mp_mutex_unlock(&queue->executor->mutex);
  return is_done;
}

void mp_task_abandon(mp_task *task) {
  moonpad_queue *queue = task->queue;
  mp_mutex_lock(&queue->executor->mutex);
  bool is_done = task->number != 0;
  if (is_done) mp_queue_take(queue, task);
  task->taker = MP_TAKEN_BY_NONE;
  mp_mutex_unlock(&queue->executor->mutex);
  if (is_done) task->drop(task);
}

void mp_task_wait(const mp_task *task) {
  moonpad_queue *queue = task->queue;
  mp_mutex_lock(&queue->executor->mutex);
  while (task->number == 0) mp_executor_wait(queue->executor, &queue->ready);
  mp_mutex_unlock(&queue->executor->mutex);
}

/* The first that a poll finishes or drops. */
static mp_task *find_up_to(const moonpad_queue *queue, uint64_t last) {
  mp_task *task = queue->done.first;
  while (task != NULL && task->taker == MP_TAKEN_BY_STEP) task = task->next;
  return task != NULL && task->number <= last ? task : NULL;
}

mp_task *mp_queue_next(moonpad_queue *queue, uint64_t last) {
  mp_mutex_lock(&queue->executor->mutex);
  mp_task *task = find_up_to(queue, last);
  if (task != NULL) mp_queue_take(queue, task);
  mp_mutex_unlock(&queue->executor->mutex);
  return task;
}

static mp_task *take_abandoned(moonpad_queue *queue) {
  mp_task *task = NULL;
  mp_mutex_lock(&queue->executor->mutex);
  if (queue->abandoned > 0) {
    for (task = queue->done.first; task->taker != MP_TAKEN_BY_NONE;) task = task->next;
    mp_queue_take(queue, task);
  }
  mp_mutex_unlock(&queue->executor->mutex);
  return task;
}

void mp_queue_drop_abandoned(moonpad_queue *queue) {
  for (mp_task *task; (task = take_abandoned(queue)) != NULL;) task->drop(task);
}

/* Nothing is under way, and nobody polls any more, so no lock is needed. */
static void drop_done(moonpad_queue *queue) {
  for (mp_task *task; (task = queue->done.first) != NULL;) {
    mp_queue_take(queue, task);
    task->drop(task);
  }
}

/* ---- Waiting ---- */

/* Is anything done for somebody to take, or due, with a number above `seen`? */
static bool has_news(const moonpad_queue *queue, uint64_t seen) {
  if (queue->due > 0 && queue->due_number > seen) return true;
  const mp_task *task = queue->done.last;
  while (task != NULL && task->taker == MP_TAKEN_BY_NONE) task = task->previous;
  return task != NULL && task->number > seen;
}

/* With the mutex held. Does not wait when nothing is under way. */
static void wait_for_news(moonpad_queue *queue, uint64_t seen, int64_t timeout_ms) {
  if (timeout_ms <= 0 || queue->under_way == 0 || has_news(queue, seen)) return;
  double until = mp_monotonic() + (double)timeout_ms * 1e-3;
  while (!has_news(queue, seen) && queue->under_way > 0) {
    if (!mp_executor_wait_until(queue->executor, &queue->ready, until)) return;
  }
}

bool mp_queue_await(moonpad_queue *queue, int64_t timeout_ms) {
  mp_mutex_lock(&queue->executor->mutex);
  bool had_reason = queue->under_way > 0 || has_news(queue, queue->awaited_number);
  wait_for_news(queue, queue->awaited_number, timeout_ms);
  queue->awaited_number = queue->last_number;
  mp_mutex_unlock(&queue->executor->mutex);
  return had_reason;
}

/*
** What a step is to take ends the wait as well, unless it was there already when such a wait ended
** the last time: a thread that polls and never steps must not spin.
*/
uint64_t mp_queue_wait(moonpad_queue *queue, int64_t timeout_ms) {
  mp_mutex_lock(&queue->executor->mutex);
  if (find_up_to(queue, UINT64_MAX) == NULL) wait_for_news(queue, queue->polled_number, timeout_ms);
  uint64_t last = queue->last_number;
  if (timeout_ms > 0) queue->polled_number = last;
  mp_mutex_unlock(&queue->executor->mutex);
  return last;
}

/* ---- Beginning and end ---- */

bool mp_queue_init(moonpad_queue *queue, mp_env *env, moonpad_service *service, mp_executor *executor) {
  memset(queue, 0, sizeof *queue);
  atomic_init(&queue->references, 1);
  queue->env = env;
  queue->service = service;
  queue->executor = executor;
  mp_wakeup_init(&queue->fd);
  return mp_condition_init(&queue->ready);
}

void mp_queue_destroy(moonpad_queue *queue) {
  drop_done(queue);
  mp_wakeup_free(&queue->fd);
  mp_condition_destroy(&queue->ready);
}

moonpad_queue *mp_queue_retain(moonpad_queue *queue) {
  if (queue != NULL) atomic_fetch_add_explicit(&queue->references, 1, memory_order_relaxed);
  return queue;
}

void mp_queue_release(moonpad_queue *queue) {
  if (queue == NULL || atomic_fetch_sub_explicit(&queue->references, 1, memory_order_acq_rel) != 1) return;
  mp_env *env = queue->env;
  mp_release(env, queue);
  mp_env_release(env);
}
