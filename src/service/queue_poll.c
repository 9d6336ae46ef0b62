/* The public calls on completion queues (contract 6). */
#include "service/queue_poll.h"

#include "base/error.h"
#include "service/service.h"

size_t mp_queue_poll(moonpad_queue *queue, int64_t timeout_ms, size_t *failed) {
  size_t count = 0;
  *failed = 0;
  /* `finish` may release both. */
  moonpad_service *service = moonpad_service_retain(queue->service);
  mp_queue_retain(queue);
  mp_executor_help(queue->executor);
  mp_queue_drop_abandoned(queue);
  /* What `finish` submits waits for the next poll: otherwise this one might never end. */
  uint64_t last = mp_queue_wait(queue, timeout_ms);
  for (mp_task *task; (task = mp_queue_next(queue, last)) != NULL;) {
    if (task->taker == MP_TAKEN_BY_NONE) {
      task->drop(task);
      continue;
    }
    count++;
    if (task->finish(task) != MOONPAD_OK) ++*failed;
  }
  mp_queue_release(queue);
  moonpad_service_release(service);
  return count;
}

size_t moonpad_queue_poll(moonpad_queue *queue, int64_t timeout_ms) {
  size_t failed;
  return mp_queue_poll(queue, timeout_ms, &failed);
}

size_t moonpad_poll(moonpad_service *service, int64_t timeout_ms) {
  return moonpad_queue_poll(&service->queue, timeout_ms);
}

moonpad_status moonpad_fd(moonpad_service *service, int *fd, moonpad_error *error) {
  return moonpad_queue_fd(&service->queue, fd, error);
}

moonpad_status moonpad_queue_new(moonpad_service *service, moonpad_queue **queue, moonpad_error *error) {
  *queue = NULL;
  moonpad_status status = mp_check_open(service, error);
  if (status != MOONPAD_OK) return status;
  moonpad_queue *made = mp_allocate(service->env, sizeof *made);
  if (made == NULL) return mp_no_memory(error);
  if (!mp_queue_init(made, service->env, service, &service->executor)) {
    mp_release(service->env, made);
    return mp_no_memory(error);
  }
  mp_env_retain(service->env);
  moonpad_service_retain(service);
  *queue = made;
  return MOONPAD_OK;
}

void moonpad_queue_free(moonpad_queue *queue) {
  if (queue == NULL) return;
  mp_mutex_lock(&queue->executor->mutex);
  queue->closed = true;
  while (queue->under_way > 0) mp_executor_wait(queue->executor, &queue->ready);
  mp_mutex_unlock(&queue->executor->mutex);
  mp_queue_destroy(queue);
  moonpad_service *service = queue->service;
  mp_queue_release(queue);
  moonpad_service_release(service);
}
