/*
** For tests in which threads meet in the middle of a call: a gate for one, and calls on threads of
** their own.
*/
#ifndef THREAD_SUPPORT_H
#define THREAD_SUPPORT_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "service_support.h"
#include "store/sqlite/sqlite.h"

/* Stops the first thread besides the main one that asks for memory, until it is opened. */
typedef struct thread_gate {
  host *owner;
  pthread_t main;
  mp_sqlite *writing;
  atomic_bool armed;
  sem_t reached, open;
} thread_gate;

/* `writing`: only while this store has a transaction under way; NULL: anywhere. */
void gate_arm(thread_gate *self, host *owner, mp_sqlite *writing);
/* Until somebody stands at it. */
void gate_wait(thread_gate *self);
void gate_open(thread_gate *self);
void gate_free(thread_gate *self);

/* Until so many transactions wait for the one under way. */
void wait_for_queue(mp_sqlite *store, unsigned count);

/* A call on a thread of its own, and what it gave. */
typedef struct task {
  moonpad_service *service;
  moonpad_session *session;
  const char *name; /* of a session */
  moonpad_status status;
  moonpad_error error;
  size_t polled;
  pthread_t thread;
  sem_t done; /* posted by run_free and run_close */
} task;

void task_start(task *self, void *(*run)(void *));
void task_join(task *self);

void *run_create(void *context); /* frees it */
void *run_refresh(void *context);
void *run_free(void *context);
void *run_close(void *context);
void *run_close_and_release(void *context);

#endif
