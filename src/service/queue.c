/* Completion queues. */
#include "service/queue.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/condition.h"
#include "base/error.h"
#include "base/wakeup.h"

/* ---- The file descriptor: readable while something is done ---- */

static void raise_fd(const moonpad_queue *queue) {
  static const uint64_t one = 1;
  if (queue->write_fd < 0) return;
  while (write(queue->write_fd, &one, sizeof one) < 0 && errno == EINTR) continue;
}

static void lower_fd(const moonpad_queue *queue) {
  uint64_t raised;
  if (queue->read_fd < 0) return;
  while (read(queue->read_fd, &raised, sizeof raised) < 0 && errno == EINTR) continue;
}

static void close_fds(moonpad_queue *queue) {
  if (queue->read_fd >= 0) close(queue->read_fd);
  if (queue->write_fd >= 0 && queue->write_fd != queue->read_fd) close(queue->write_fd);
  queue->read_fd = queue->write_fd = -1;
}

moonpad_status moonpad_queue_fd(moonpad_queue *queue, int *fd, moonpad_error *error) {
  int code = 0, fds[2];
  *fd = -1;
  pthread_mutex_lock(queue->mutex);
  if (queue->read_fd < 0) {
    if (mp_wakeup_make_fds(fds)) {
      queue->read_fd = fds[0];
      queue->write_fd = fds[1];
      if (queue->wanted > 0) raise_fd(queue);
    } else {
      code = errno;
    }
  }
  *fd = queue->read_fd;
  pthread_mutex_unlock(queue->mutex);
  if (code == 0) return MOONPAD_OK;
  char reason[100];
  if (strerror_r(code, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", code);
  return mp_fail(error, MOONPAD_STORAGE, "no file descriptor for a queue: %s", reason);
}

/* ---- What is done ---- */

static void add_wanted(moonpad_queue *queue) {
  if (queue->wanted++ == 0) raise_fd(queue);
}

static void remove_wanted(moonpad_queue *queue) {
  if (--queue->wanted == 0) lower_fd(queue);
}

void mp_queue_put(moonpad_queue *queue, mp_task *task) {
  task->number = ++queue->last_number;
  mp_task_push(&queue->done, task);
  if (task->taker == MP_TAKEN_BY_NONE) {
    queue->abandoned++;
  } else {
    add_wanted(queue);
  }
  pthread_cond_broadcast(&queue->ready);
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
  pthread_mutex_lock(queue->mutex);
  queue->due++;
  queue->due_number = ++queue->last_number;
  add_wanted(queue);
  pthread_mutex_unlock(queue->mutex);
}

void mp_queue_remove_due(moonpad_queue *queue) {
  /* Its service, and so the mutex, may be gone. */
  if (queue->closed) return;
  pthread_mutex_lock(queue->mutex);
  queue->due--;
  remove_wanted(queue);
  pthread_mutex_unlock(queue->mutex);
}

bool mp_task_take(mp_task *task) {
  moonpad_queue *queue = task->queue;
  pthread_mutex_lock(queue->mutex);
  bool is_done = task->number != 0;
  if (is_done) mp_queue_take(queue, task);
  pthread_mutex_unlock(queue->mutex);
  return is_done;
}

void mp_task_abandon(mp_task *task) {
  moonpad_queue *queue = task->queue;
  pthread_mutex_lock(queue->mutex);
  bool is_done = task->number != 0;
  if (is_done) mp_queue_take(queue, task);
  task->taker = MP_TAKEN_BY_NONE;
  pthread_mutex_unlock(queue->mutex);
  if (is_done) task->drop(task);
}

void mp_task_wait(const mp_task *task) {
  moonpad_queue *queue = task->queue;
  pthread_mutex_lock(queue->mutex);
  while (task->number == 0) pthread_cond_wait(&queue->ready, queue->mutex);
  pthread_mutex_unlock(queue->mutex);
}

/* The first that a poll finishes or drops. */
static mp_task *find_up_to(const moonpad_queue *queue, uint64_t last) {
  mp_task *task = queue->done.first;
  while (task != NULL && task->taker == MP_TAKEN_BY_STEP) task = task->next;
  return task != NULL && task->number <= last ? task : NULL;
}

mp_task *mp_queue_next(moonpad_queue *queue, uint64_t last) {
  pthread_mutex_lock(queue->mutex);
  mp_task *task = find_up_to(queue, last);
  if (task != NULL) mp_queue_take(queue, task);
  pthread_mutex_unlock(queue->mutex);
  return task;
}

static mp_task *take_abandoned(moonpad_queue *queue) {
  mp_task *task = NULL;
  pthread_mutex_lock(queue->mutex);
  if (queue->abandoned > 0) {
    for (task = queue->done.first; task->taker != MP_TAKEN_BY_NONE;) task = task->next;
    mp_queue_take(queue, task);
  }
  pthread_mutex_unlock(queue->mutex);
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

static struct timespec time_after(int64_t timeout_ms) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  time.tv_sec += (time_t)(timeout_ms / 1000);
  time.tv_nsec += (long)(timeout_ms % 1000) * 1000000L;
  if (time.tv_nsec < 1000000000L) return time;
  time.tv_nsec -= 1000000000L;
  time.tv_sec++;
  return time;
}

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
  struct timespec deadline = time_after(timeout_ms);
  while (!has_news(queue, seen) && queue->under_way > 0) {
    if (pthread_cond_timedwait(&queue->ready, queue->mutex, &deadline) == ETIMEDOUT) return;
  }
}

bool mp_queue_await(moonpad_queue *queue, int64_t timeout_ms) {
  pthread_mutex_lock(queue->mutex);
  bool had_reason = queue->under_way > 0 || has_news(queue, queue->awaited_number);
  wait_for_news(queue, queue->awaited_number, timeout_ms);
  queue->awaited_number = queue->last_number;
  pthread_mutex_unlock(queue->mutex);
  return had_reason;
}

/*
** What a step is to take ends the wait as well, unless it was there already when such a wait ended
** the last time: a thread that polls and never steps must not spin.
*/
uint64_t mp_queue_wait(moonpad_queue *queue, int64_t timeout_ms) {
  pthread_mutex_lock(queue->mutex);
  if (find_up_to(queue, UINT64_MAX) == NULL) wait_for_news(queue, queue->polled_number, timeout_ms);
  uint64_t last = queue->last_number;
  if (timeout_ms > 0) queue->polled_number = last;
  pthread_mutex_unlock(queue->mutex);
  return last;
}

/* ---- Beginning and end ---- */

bool mp_queue_init(moonpad_queue *queue, mp_env *env, moonpad_service *service, pthread_mutex_t *mutex) {
  memset(queue, 0, sizeof *queue);
  atomic_init(&queue->references, 1);
  queue->env = env;
  queue->service = service;
  queue->mutex = mutex;
  queue->read_fd = queue->write_fd = -1;
  return mp_condition_init(&queue->ready);
}

void mp_queue_destroy(moonpad_queue *queue) {
  drop_done(queue);
  close_fds(queue);
  pthread_cond_destroy(&queue->ready);
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
