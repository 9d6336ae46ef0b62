/* See thread_support.h. */
#include "thread_support.h"

#include <errno.h>
#include <sched.h>

/* ---- The gate, and the queue of writers ---- */

static bool is_writing(mp_sqlite *store) {
  mp_mutex_lock(&store->mutex);
  bool writing = store->writing;
  mp_mutex_unlock(&store->mutex);
  return writing;
}

static bool stop_at_gate(void *context, bool asks) {
  thread_gate *self = context;
  (void)asks;
  if (pthread_equal(pthread_self(), self->main) || (self->writing != NULL && !is_writing(self->writing))) return true;
  if (!atomic_exchange(&self->armed, false)) return true;
  sem_post(&self->reached);
  sem_wait(&self->open);
  return true;
}

void gate_arm(thread_gate *self, host *owner, mp_sqlite *writing) {
  self->owner = owner;
  self->main = pthread_self();
  self->writing = writing;
  atomic_init(&self->armed, true);
  assert_int_equal(sem_init(&self->reached, 0, 0), 0);
  assert_int_equal(sem_init(&self->open, 0, 0), 0);
  host_at_memory(owner, stop_at_gate, self);
}

void gate_wait(thread_gate *self) {
  while (sem_wait(&self->reached) != 0) assert_int_equal(errno, EINTR);
}

void gate_open(thread_gate *self) {
  sem_post(&self->open);
}

void gate_free(thread_gate *self) {
  host_at_memory(self->owner, NULL, NULL);
  sem_destroy(&self->reached);
  sem_destroy(&self->open);
}

void wait_for_queue(mp_sqlite *store, unsigned count) {
  for (unsigned waiting = 0; waiting < count; sched_yield()) {
    mp_mutex_lock(&store->mutex);
    waiting = store->waiting;
    mp_mutex_unlock(&store->mutex);
  }
}

/* ---- Calls on threads of their own ---- */

void task_start(task *self, void *(*run)(void *)) {
  assert_int_equal(sem_init(&self->done, 0, 0), 0);
  assert_int_equal(pthread_create(&self->thread, NULL, run, self), 0);
}

void task_join(task *self) {
  assert_int_equal(pthread_join(self->thread, NULL), 0);
  sem_destroy(&self->done);
}

void *run_create(void *context) {
  task *self = context;
  moonpad_session_name name = host_name(self->name);
  self->status = moonpad_create_session(self->service, &name, T("{\"k\":1}"), &self->session, &self->error);
  moonpad_session_free(self->session);
  return NULL;
}

void *run_refresh(void *context) {
  task *self = context;
  self->status = moonpad_refresh(self->session, &self->error);
  return NULL;
}

void *run_free(void *context) {
  task *self = context;
  moonpad_session_free(self->session);
  sem_post(&self->done);
  return NULL;
}

void *run_close(void *context) {
  task *self = context;
  moonpad_service_close(self->service);
  sem_post(&self->done);
  return NULL;
}

void *run_close_and_release(void *context) {
  task *self = context;
  moonpad_service_close(self->service);
  moonpad_service_release(self->service);
  return NULL;
}
