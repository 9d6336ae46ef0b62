/*
** What happens between two locks: threads that meet at a chosen moment, in the middle of a call. A
** thread is stopped where it asks for memory, which no thread does while it holds the service's own
** lock. That lock, and who waits for the SQLite store, is what these tests know of the inside.
*/
#include "service_support.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "faulty_vfs.h"
#include "service/session/session.h"
#include "thread_support.h"

/* ---- Completions ---- */

typedef struct outcome {
  int count;
  moonpad_status status;
  int64_t revision;
  char message[1016];
  char conflict[16]; /* the first key */
} outcome;

static void note_outcome(void *context, moonpad_session *session, const moonpad_event *event,
                         const moonpad_error *error) {
  outcome *got = context;
  got->count++;
  got->status = error == NULL ? MOONPAD_OK : error->code;
  got->revision = event == NULL ? -1 : moonpad_event_revision(event);
  snprintf(got->message, sizeof got->message, "%s", error == NULL ? "" : error->message);
  moonpad_string key = session == NULL ? T("") : moonpad_session_conflict_key(session, 0);
  snprintf(got->conflict, sizeof got->conflict, "%.*s", (int)key.length, key.data);
}

static void append_async(moonpad_session *session, const char *delta, outcome *got) {
  host_append_async(session, delta, note_outcome, got);
}

static void poll_for(host *self, size_t count) {
  size_t polled = 0, more;
  while (polled < count && (more = moonpad_poll(self->service, TIMEOUT_MS)) > 0) polled += more;
  assert_int_equal(polled, count);
  assert_int_equal(moonpad_poll(self->service, 0), 0);
}

/* ---- Closing in the middle of an asynchronous append ---- */

typedef struct closing {
  moonpad_service *service;
  pthread_t main;
  long left; /* until the service is closed; 0: it has been, or is not to be */
  task closer;
} closing;

/* From here on it is closed; to close the store, it waits for who is in the middle of using it. */
static bool close_in_the_middle(void *context, bool asks) {
  closing *self = context;
  (void)asks;
  if (!pthread_equal(pthread_self(), self->main) || self->left == 0 || --self->left > 0) return true;
  self->closer = (task){.service = self->service};
  task_start(&self->closer, run_close);
  while (!atomic_load(&self->service->executor.closed)) sched_yield();
  return true;
}

/*
** True when the call got so far. It has either been done, and then it is stored, or it is closed,
** and nothing has changed.
*/
static bool close_at(host *self, long n, bool is_first) {
  char id[32];
  outcome first = {0}, got = {0};
  moonpad_value one = moonpad_integer(1);
  snprintf(id, sizeof id, "s%d.%ld", is_first, n);
  moonpad_session *session = host_create(self, id, "{\"n\":1,\"k\":\"old\"}");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  if (!is_first) {
    append_async(session, "{\"k\":\"before\"}", &first);
    poll_for(self, 1);
  }
  OK(moonpad_changes_increment(changes, T("n"), &one, &failure));
  set_json(changes, "k", "", "[\"new\"]");
  closing at = {.service = self->service, .main = pthread_self(), .left = n};
  host_at_memory(self, close_in_the_middle, &at);
  moonpad_status status = moonpad_changes_commit_async(changes, T("{\"author\":\"a\"}"), note_outcome, &got, &failure);
  host_at_memory(self, NULL, NULL);
  bool got_so_far = at.left == 0;
  if (got_so_far) task_join(&at.closer);
  if (status == MOONPAD_OK) {
    poll_for(self, 1);
    assert_int_equal(got.status, MOONPAD_OK);
    assert_false(moonpad_changes_pending(changes));
    STATE(session, "{\"k\":[\"new\"],\"n\":2}");
  } else {
    expect_failure(MOONPAD_CLOSED, status, __LINE__);
    assert_int_equal(moonpad_poll(self->service, 0), 0);
    assert_true(moonpad_changes_pending(changes));
    STATE(session, is_first ? "{\"k\":\"old\",\"n\":1}" : "{\"k\":\"before\",\"n\":1}");
  }
  moonpad_changes_free(changes);
  moonpad_session_free(session);
  host_reopen(self);
  return got_so_far;
}

static void test_a_service_is_closed_in_the_middle_of_an_async_append(void **state) {
  host *self = *state;
  long n = 1;
  while (close_at(self, n, false)) n++;
  assert_true(n > 1);
}

/* The first one starts the thread that stores. */
static void test_a_service_is_closed_in_the_middle_of_its_first_async_append(void **state) {
  host *self = *state;
  long n = 1;
  while (close_at(self, n, true)) n++;
  assert_true(n > 1);
}

/* ---- Two who close ---- */

static bool is_closed(moonpad_session *session, size_t *queued) {
  moonpad_status status = moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure);
  if (status == MOONPAD_OK) ++*queued;
  return status == MOONPAD_CLOSED;
}

/* The first one waits for what is queued; so does the second, before it takes the store away. */
static void test_two_close_at_the_same_time(void **state) {
  host *self = *state;
  enum { JOBS = 200 }; /* several batches */
  outcome got = {0};
  thread_gate gate;
  size_t queued = JOBS;
  moonpad_session *session = host_create(self, "s", ""), *probing = host_create(self, "probing", "");
  gate_arm(&gate, self, NULL);
  for (int i = 0; i < JOBS; i++) append_async(session, "{\"k\":1}", &got);
  gate_wait(&gate);
  task first = {.service = self->service}, second = {.service = self->service};
  task_start(&first, run_close);
  while (!is_closed(probing, &queued)) sched_yield();
  task_start(&second, run_close);
  /* Time for the second one to go wrong. */
  struct timespec pause = {0, 1000 * 1000};
  for (int i = 0; i < 50; i++) nanosleep(&pause, NULL);
  assert_int_not_equal(sem_trywait(&second.done), 0);
  gate_open(&gate);
  task_join(&first);
  task_join(&second);
  poll_for(self, queued);
  assert_int_equal(got.count, JOBS);
  assert_int_equal(got.status, MOONPAD_OK);
  assert_int_equal(got.revision, JOBS);
  assert_int_equal(self->warnings, 0);
  moonpad_session_free(probing);
  moonpad_session_free(session);
  gate_free(&gate);
}

static void *run_poll(void *context) {
  task *self = context;
  self->polled = moonpad_poll(self->service, TIMEOUT_MS);
  return NULL;
}

static void test_a_service_is_closed_beside_one_who_polls(void **state) {
  host *self = *state;
  thread_gate gate;
  outcome got = {0};
  moonpad_session *session = host_create(self, "s", "");
  gate_arm(&gate, self, NULL);
  append_async(session, "{\"k\":1}", &got);
  gate_wait(&gate);
  task polling = {.service = self->service}, closer = {.service = self->service};
  task_start(&polling, run_poll);
  task_start(&closer, run_close);
  gate_open(&gate);
  task_join(&closer);
  task_join(&polling);
  assert_int_equal(polling.polled, 1);
  assert_int_equal(got.status, MOONPAD_OK);
  moonpad_session_free(session);
  gate_free(&gate);
}

static void test_a_service_is_closed_beside_one_who_waits_for_its_appends(void **state) {
  host *self = *state;
  thread_gate gate;
  outcome got = {0};
  size_t queued = 0;
  moonpad_session *session = host_create(self, "s", ""), *probing = host_create(self, "probing", "");
  gate_arm(&gate, self, NULL);
  append_async(session, "{\"k\":1}", &got);
  gate_wait(&gate);
  task waiting = {.session = session}, closer = {.service = self->service};
  task_start(&waiting, run_refresh);
  task_start(&closer, run_close);
  while (!is_closed(probing, &queued)) sched_yield();
  gate_open(&gate);
  task_join(&closer);
  task_join(&waiting);
  assert_true(waiting.status == MOONPAD_OK || waiting.status == MOONPAD_CLOSED);
  STATE(session, "{\"k\":1}");
  poll_for(self, 1 + queued);
  assert_int_equal(got.status, MOONPAD_OK);
  moonpad_session_free(probing);
  moonpad_session_free(session);
  gate_free(&gate);
}

/* Whoever releases it last, it is closed once, after all that is queued. */
static void test_a_service_is_closed_while_others_release_it(void **state) {
  host *self = *state;
  thread_gate gate;
  outcome got = {0};
  moonpad_session *session = host_create(self, "s", "");
  gate_arm(&gate, self, NULL);
  append_async(session, "{\"k\":1}", &got);
  gate_wait(&gate);
  task freeing = {.session = session}, closers[2];
  for (int i = 0; i < 2; i++) closers[i] = (task){.service = moonpad_service_retain(self->service)};
  task_start(&freeing, run_free);
  for (int i = 0; i < 2; i++) task_start(&closers[i], run_close_and_release);
  moonpad_service_release(self->service);
  gate_open(&gate);
  task_join(&freeing);
  for (int i = 0; i < 2; i++) task_join(&closers[i]);
  assert_int_equal(got.count, 0);
  assert_int_equal(self->alive, 0);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
  if (self->folder[0] != '\0') STORED(self, "s", "{\"k\":1}");
  gate_free(&gate);
}

/* ---- Nobody is called, and nothing is waited for, with the lock held ---- */

typedef struct lock_watch {
  moonpad_service *service;
  atomic_bool held;
} lock_watch;

static bool lock_in_time(mp_mutex *mutex) {
#if defined(_WIN32)
  for (double until = mp_monotonic() + TIMEOUT_SECONDS; mp_monotonic() < until; Sleep(1)) {
    if (TryAcquireSRWLockExclusive((SRWLOCK *)&mutex->system)) return true;
  }
  return false;
#else
  struct timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += TIMEOUT_SECONDS;
  return pthread_mutex_timedlock(mutex, &deadline) == 0;
#endif
}

static bool look_at_lock(void *context, bool asks) {
  lock_watch *self = context;
  (void)asks;
  if (atomic_load(&self->held)) return true;
  if (lock_in_time(&self->service->executor.mutex)) {
    mp_mutex_unlock(&self->service->executor.mutex);
  } else {
    atomic_store(&self->held, true);
  }
  return true;
}

static void look_when_called(void *context, moonpad_session *session, const moonpad_event *event,
                             const moonpad_error *error) {
  (void)session;
  (void)event;
  (void)error;
  look_at_lock(context, false);
}

static void append_watched(moonpad_session *session, const char *event, lock_watch *watch) {
  OK(moonpad_append_event_async(session, T(event), look_when_called, watch, &failure));
}

static void test_nothing_of_the_host_is_called_while_the_service_is_locked(void **state) {
  host *self = *state;
  lock_watch watch = {self->service, false};
  moonpad_session *session = host_create(self, "s", "{\"k\":\"old\",\"l\":[1]}"), *theirs = host_get(self, "s");
  moonpad_session *freed = host_get(self, "s");
  host_append(theirs, "{\"k\":\"theirs\",\"new\":[1]}");
  host_at_memory(self, look_at_lock, &watch);
  /* One that conflicts is undone when it is waited for, with those behind it. */
  append_watched(session, "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"l\":[\"mine\"],\"k\":[\"mine\"]}}}",
                 &watch);
  append_watched(session, "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":[\"mine again\"]}}}", &watch);
  OK(moonpad_refresh(session, &failure));
  STATE(session, "{\"k\":\"theirs\",\"l\":[1],\"new\":[1]}");
  append_watched(session, "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":[\"mine\"]}}}", &watch);
  append_watched(freed, "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":[\"mine\"]}}}", &watch);
  moonpad_session_free(freed);
  poll_for(self, 4);
  append_watched(session, "{\"author\":\"a\"}", &watch);
  moonpad_service_close(self->service);
  poll_for(self, 1);
  host_at_memory(self, NULL, NULL);
  assert_false(atomic_load(&watch.held));
  moonpad_session_free(theirs);
  moonpad_session_free(session);
}

/* One that a transaction makes and, when it is run again, frees. */
static void test_a_session_that_queued_nothing_is_freed_without_the_lock(void **state) {
  host *self = *state;
  struct timespec deadline;
  task freeing = {.service = self->service, .session = host_create(self, "s", "{\"k\":1}")};
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += TIMEOUT_SECONDS;
  mp_mutex_lock(&self->service->executor.mutex);
  task_start(&freeing, run_free);
  int waited = sem_timedwait(&freeing.done, &deadline);
  mp_mutex_unlock(&self->service->executor.mutex);
  task_join(&freeing);
  assert_int_equal(waited, 0);
}

/*
** Three transactions share a commit; one fails, so that the others are run again. One of them made
** a session object the first time, another belongs to a session whose failed append is being
** undone.
*/
static void test_a_transaction_is_run_again_while_another_is_undone(void **state) {
  host *self = *state;
  mp_sqlite *store = (mp_sqlite *)self->service->store;
  outcome got = {0}, unused = {0};
  thread_gate gate;
  moonpad_session *failed = host_create(self, "gone", ""), *other = host_create(self, "other", "");
  moonpad_session_name name = host_name("gone");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  append_async(failed, "{\"k\":1}", &got);
  append_async(other, "{\"k\":1}", &unused);
  OK(moonpad_refresh(other, &failure)); /* both are done now, the first one not undone yet */
  task stopped = {.service = self->service, .name = "stopped"}, made = {.service = self->service, .name = "made"};
  task refused = {.service = self->service, .name = "other"};
  task refreshed = {.service = self->service, .session = failed};
  gate_arm(&gate, self, store);
  task_start(&stopped, run_create);
  gate_wait(&gate);
  task_start(&made, run_create);
  wait_for_queue(store, 1);
  task_start(&refused, run_create);
  wait_for_queue(store, 2);
  task_start(&refreshed, run_refresh);
  wait_for_queue(store, 3);
  gate_open(&gate);
  task_join(&stopped);
  task_join(&made);
  task_join(&refused);
  task_join(&refreshed);
  assert_int_equal(stopped.status, MOONPAD_OK);
  assert_int_equal(made.status, MOONPAD_OK);
  assert_int_equal(refused.status, MOONPAD_ALREADY_EXISTS);
  assert_int_equal(refreshed.status, MOONPAD_NOT_FOUND);
  poll_for(self, 2);
  assert_int_equal(got.status, MOONPAD_NOT_FOUND);
  moonpad_session_free(other);
  moonpad_session_free(failed);
  gate_free(&gate);
}

/* ---- A batch that is run again ---- */

/*
** It conflicts with what is stored, each time; the second time must not take the first for an
** append of its own before it.
*/
static void test_a_batch_that_is_run_again_begins_anew(void **state) {
  host *self = *state;
  mp_sqlite *store = (mp_sqlite *)self->service->store;
  outcome mine = {0}, behind = {0};
  thread_gate gate;
  moonpad_session *session = host_create(self, "s", "{\"k\":\"old\"}"), *theirs = host_get(self, "s");
  host_append(theirs, "{\"k\":\"theirs\"}");
  task stopped = {.service = self->service, .name = "stopped"}, refused = {.service = self->service, .name = "s"};
  gate_arm(&gate, self, store);
  task_start(&stopped, run_create);
  gate_wait(&gate);
  append_async(session, "{\"k\":\"mine\"}", &mine);
  wait_for_queue(store, 1);
  task_start(&refused, run_create);
  wait_for_queue(store, 2);
  append_async(session, "{\"l\":\"mine\"}", &behind);
  gate_open(&gate);
  task_join(&stopped);
  task_join(&refused);
  assert_int_equal(refused.status, MOONPAD_ALREADY_EXISTS);
  poll_for(self, 2);
  assert_int_equal(mine.status, MOONPAD_CONFLICT);
  assert_string_equal(mine.conflict, "k");
  assert_ptr_equal(strstr(mine.message, "somebody else changed \"k\""), mine.message);
  assert_int_equal(behind.status, MOONPAD_CONFLICT);
  assert_ptr_equal(strstr(behind.message, "an earlier append of this session object failed: somebody else"),
                   behind.message);
  STORED(self, "s", "{\"k\":\"theirs\"}");
  moonpad_session_free(theirs);
  moonpad_session_free(session);
  gate_free(&gate);
}

/* ---- A store that cannot ---- */

enum { BATCHED = 3 };

/* Appends that are stored in one batch, after the one at the gate. */
typedef struct batched {
  moonpad_session *first, *sessions[BATCHED];
  outcome first_got, got[BATCHED];
} batched;

static void batched_queue(batched *self, host *owner, thread_gate *gate) {
  memset(self, 0, sizeof *self);
  self->first = host_create(owner, "", "");
  for (int i = 0; i < BATCHED; i++) {
    self->sessions[i] = host_create(owner, "", "");
  }
  gate_arm(gate, owner, NULL);
  append_async(self->first, "{\"k\":1}", &self->first_got);
  gate_wait(gate);
  for (int i = 0; i < BATCHED; i++) append_async(self->sessions[i], "{\"k\":1}", &self->got[i]);
}

static void batched_free(batched *self) {
  for (int i = 0; i < BATCHED; i++) moonpad_session_free(self->sessions[i]);
  moonpad_session_free(self->first);
}

typedef struct starvation {
  host *owner;
  pthread_t main;
  atomic_int left; /* refusals */
} starvation;

/* The thread that stores, once the append at the gate is done. */
static bool starve(void *context, bool asks) {
  starvation *self = context;
  if (pthread_equal(pthread_self(), self->main) || !asks) return true;
  moonpad_service *service = self->owner->service;
  mp_mutex_lock(&service->executor.mutex);
  bool begun = service->queue.last_number > 0;
  mp_mutex_unlock(&service->executor.mutex);
  if (!begun || atomic_load(&self->left) == 0) return true;
  atomic_fetch_sub(&self->left, 1);
  return false;
}

/* All of them at once, then the first one by itself: the rest need not be asked for. */
static void test_without_memory_appends_are_not_tried_one_by_one(void **state) {
  host *self = *state;
  batched all;
  thread_gate gate;
  batched_queue(&all, self, &gate);
  starvation starving = {self, pthread_self(), 2};
  host_at_memory(self, starve, &starving);
  gate_open(&gate);
  poll_for(self, 1 + BATCHED);
  host_at_memory(self, NULL, NULL);
  assert_int_equal(all.first_got.status, MOONPAD_OK);
  assert_int_equal(atomic_load(&starving.left), 0);
  for (int i = 0; i < BATCHED; i++) assert_int_equal(all.got[i].status, MOONPAD_NO_MEMORY);
  /* All of them can be used at once. */
  for (int i = 0; i < BATCHED; i++) append_async(all.sessions[i], "{\"k\":2}", &all.got[i]);
  poll_for(self, BATCHED);
  for (int i = 0; i < BATCHED; i++) {
    assert_int_equal(all.got[i].status, MOONPAD_OK);
    STATE(all.sessions[i], "{\"k\":2}");
  }
  batched_free(&all);
  gate_free(&gate);
}

static void reopen_without_timeout(host *self) {
  self->options.busy_timeout_ms = 0;
  host_reopen(self);
}

/* All of them got the same. */
static moonpad_status batched_status(const batched *self) {
  for (int i = 1; i < BATCHED; i++) assert_int_equal(self->got[i].status, self->got[0].status);
  return self->got[0].status;
}

/*
** Lets the n-th lock after the append at the gate be somebody else's. Not every lock is one that
** SQLite needs.
*/
static moonpad_status lock_out(host *self, long n) {
  batched all;
  thread_gate gate;
  reopen_without_timeout(self);
  batched_queue(&all, self, &gate);
  faulty_vfs_arm(FAULT_LOCK, n, false);
  gate_open(&gate);
  poll_for(self, 1 + BATCHED);
  assert_true(faulty_vfs_has_failed());
  assert_int_equal(all.first_got.status, MOONPAD_OK);
  batched_free(&all);
  gate_free(&gate);
  return batched_status(&all);
}

/* Who waited together for as long as each may wait is not made to wait again. */
static void test_who_is_locked_out_together_is_not_tried_one_by_one(void **state) {
  long n = 1;
  while (lock_out(*state, n) == MOONPAD_OK) n++;
  assert_int_equal(lock_out(*state, n), MOONPAD_BUSY);
}

static moonpad_status close_locked_out(host *self, long n) {
  enum { JOBS = 200 }; /* several batches */
  batched all;
  thread_gate gate;
  outcome got = {0};
  size_t queued = 1 + BATCHED + JOBS;
  reopen_without_timeout(self);
  moonpad_session *last = host_create(self, "", "");
  batched_queue(&all, self, &gate);
  for (int i = 0; i < JOBS; i++) append_async(last, "{\"k\":1}", &got);
  task closer = {.service = self->service};
  task_start(&closer, run_close);
  while (!is_closed(last, &queued)) sched_yield();
  faulty_vfs_arm(FAULT_LOCK, n, false);
  gate_open(&gate);
  task_join(&closer);
  poll_for(self, queued);
  assert_true(faulty_vfs_has_failed());
  assert_int_equal(all.first_got.status, MOONPAD_OK);
  assert_int_equal(got.count, JOBS);
  assert_int_equal(got.status, batched_status(&all));
  batched_free(&all);
  moonpad_session_free(last);
  gate_free(&gate);
  return got.status;
}

/* However many are queued: whoever closes waits for a lock once. */
static void test_a_service_that_is_closed_while_locked_out_waits_once(void **state) {
  long n = 1;
  while (close_locked_out(*state, n) == MOONPAD_OK) n++;
  assert_int_equal(close_locked_out(*state, n), MOONPAD_BUSY);
}

/* Who was locked out before is not the one who closes. */
static void test_what_is_queued_before_closing_is_tried_whatever_came_before(void **state) {
  host *self = *state;
  long n = 1;
  while (lock_out(self, n) == MOONPAD_OK) n++;
  for (int i = 0; i < 20; i++) {
    outcome locked_out = {0}, got = {0};
    reopen_without_timeout(self);
    moonpad_session *session = host_create(self, "", "");
    faulty_vfs_arm(FAULT_LOCK, n, false);
    append_async(session, "{\"k\":1}", &locked_out);
    poll_for(self, 1);
    append_async(session, "{\"k\":2}", &got);
    moonpad_service_close(self->service);
    poll_for(self, 1);
    assert_int_equal(locked_out.status, MOONPAD_BUSY);
    assert_int_equal(got.status, MOONPAD_OK);
    moonpad_session_free(session);
  }
}

#define ON_FILE(test) cmocka_unit_test_setup_teardown(test, host_setup_file, host_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_a_service_is_closed_in_the_middle_of_an_async_append),
      ON_EVERY_STORE(test_a_service_is_closed_in_the_middle_of_its_first_async_append),
      ON_FILE(test_two_close_at_the_same_time),
      ON_FILE(test_a_service_is_closed_beside_one_who_polls),
      ON_FILE(test_a_service_is_closed_beside_one_who_waits_for_its_appends),
      ON_FILE(test_a_service_is_closed_while_others_release_it),
      ON_EVERY_STORE(test_nothing_of_the_host_is_called_while_the_service_is_locked),
      ON_EVERY_STORE(test_a_session_that_queued_nothing_is_freed_without_the_lock),
      {"test_a_transaction_is_run_again_while_another_is_undone",
       test_a_transaction_is_run_again_while_another_is_undone, host_setup_sqlite_memory, host_teardown, NULL},
      ON_FILE(test_a_batch_that_is_run_again_begins_anew),
      ON_FILE(test_without_memory_appends_are_not_tried_one_by_one),
      ON_FILE(test_who_is_locked_out_together_is_not_tried_one_by_one),
      ON_FILE(test_a_service_that_is_closed_while_locked_out_waits_once),
      ON_FILE(test_what_is_queued_before_closing_is_tried_whatever_came_before),
  };
  faulty_vfs_install();
  return HOST_RUN(tests);
}
