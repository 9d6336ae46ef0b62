/* The asynchronous appends of one session object: order, waiting, applying. */
#include "service/session/in_flight.h"

void mp_in_flight_link(mp_in_flight_queue *queue, mp_in_flight *append) {
  append->service = queue->service;
  append->owner = queue;
  *(queue->last == NULL ? &queue->first : &queue->last->next) = append;
  queue->last = append;
  queue->unapplied++;
}

void mp_in_flight_unlink(mp_in_flight *append) {
  mp_in_flight_queue *queue = append->owner;
  if (queue == NULL) return;
  /* As a rule it is the first. */
  mp_in_flight *before = NULL;
  for (mp_in_flight *at = queue->first; at != append; at = at->next) before = at;
  *(before == NULL ? &queue->first : &before->next) = append->next;
  if (queue->last == append) queue->last = before;
}

void mp_in_flight_withdraw(mp_in_flight *append) {
  mp_in_flight_unlink(append);
  append->owner->unapplied--;
}

void mp_in_flight_forget_writer(mp_in_flight_queue *queue, const moonpad_changes *writer) {
  for (mp_in_flight *at = queue->first; at != NULL; at = at->next) {
    if (at->writer == writer) at->writer = NULL;
  }
}

bool mp_in_flight_reserve_failure(mp_in_flight_queue *queue) {
  mp_env *env = queue->service->env;
  if (queue->failure == NULL) queue->failure = mp_allocate_zeroed(env, sizeof *queue->failure);
  return queue->failure != NULL;
}

/* ---- applying ---- */

static void apply_one(mp_in_flight *append) {
  mp_in_flight_queue *queue = append->owner;
  if (append->is_applied) return;
  append->is_applied = true;
  queue->unapplied--;
  append->apply(append, queue->session);
  if (queue->unapplied > 0) return;
  queue->failure->error.code = MOONPAD_OK;
  queue->failure->is_final = queue->has_failed = false;
  queue->failure->ahead_scopes = 0;
}

void mp_in_flight_apply(mp_in_flight *last) {
  mp_in_flight_queue *queue = last->owner;
  if (queue == NULL) return;
  for (mp_in_flight *append = queue->first; append != last; append = append->next) apply_one(append);
  apply_one(last);
}

/* With the mutex held. Only for its own appends: there may always be more of other objects. */
static void wait_for_last(const mp_in_flight_queue *queue) {
  mp_executor *executor = &queue->service->executor;
  while (queue->last->task.number == 0) mp_executor_wait(executor, &executor->finished);
}

/* Applying frees memory, so it is done without the mutex. */
void mp_in_flight_drain(mp_in_flight_queue *queue) {
  if (queue->unapplied == 0) return;
  mp_mutex *mutex = &queue->service->executor.mutex;
  mp_mutex_lock(mutex);
  wait_for_last(queue);
  mp_mutex_unlock(mutex);
  mp_in_flight_apply(queue->last);
}

bool mp_in_flight_try_drain(mp_in_flight_queue *queue) {
  if (queue->unapplied == 0) return true;
  mp_in_flight *last = NULL;
  mp_executor_help(&queue->service->executor);
  mp_mutex *mutex = &queue->service->executor.mutex;
  mp_mutex_lock(mutex);
  for (mp_in_flight *append = queue->first; append != NULL && append->task.number != 0; append = append->next) {
    last = append;
  }
  mp_mutex_unlock(mutex);
  if (last != NULL) mp_in_flight_apply(last);
  return queue->unapplied == 0;
}

/* ---- appends that nobody waits for ---- */

void mp_in_flight_abandon(mp_in_flight *append) {
  /* A callback may release the service: keep it until this function returns. */
  moonpad_service *service = moonpad_service_retain(append->service);
  append->is_abandoned = true;
  mp_task_abandon(&append->task);
  moonpad_service_release(service);
}

/*
** The first abandoned one that a step was to take and that is done. Those still in flight go to a
** step, or to nobody.
*/
static mp_in_flight *find_for_step(const mp_in_flight_queue *queue, bool is_awaited) {
  mp_in_flight *found = NULL;
  mp_mutex *mutex = &queue->service->executor.mutex;
  mp_mutex_lock(mutex);
  for (mp_in_flight *append = queue->first; append != NULL && found == NULL; append = append->next) {
    mp_task *task = &append->task;
    if (!append->is_abandoned) continue;
    if (task->number == 0) {
      task->taker = is_awaited ? MP_TAKEN_BY_STEP : MP_TAKEN_BY_NONE;
    } else if (task->taker == MP_TAKEN_BY_STEP) {
      found = append;
    }
  }
  mp_mutex_unlock(mutex);
  return found;
}

bool mp_in_flight_drain_abandoned(mp_in_flight_queue *queue, bool is_awaited) {
  for (mp_in_flight *append; (append = find_for_step(queue, is_awaited)) != NULL;) mp_in_flight_abandon(append);
  return mp_in_flight_try_drain(queue);
}

/* ---- the end of the session object ---- */

static void detach_all(mp_in_flight_queue *queue) {
  mp_mutex *mutex = &queue->service->executor.mutex;
  mp_mutex_lock(mutex);
  wait_for_last(queue);
  for (mp_in_flight *append = queue->first; append != NULL; append = append->next) append->owner = NULL;
  mp_mutex_unlock(mutex);
  queue->first = queue->last = NULL;
}

void mp_in_flight_detach(mp_in_flight_queue *queue) {
  /* A session object made and freed within a transaction must not take the lock (service.h). */
  if (queue->first != NULL) detach_all(queue);
  mp_release(queue->service->env, queue->failure);
  mp_queue_release(queue->completions);
  queue->completions = NULL;
}
