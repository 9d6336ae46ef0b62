/*
** Every call of the C API beside another one that fails. Both wait for the same writer and share a
** commit, so that what the call has done in its transaction is undone and done again: it gives what
** it gives alone, and keeps nothing of its first attempt. To have them share a commit, the test
** looks how many wait for the writer of the SQLite store.
*/
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "call_support.h"
#include "service/service.h"
#include "store/sqlite/sqlite.h"

/* A writer that is stopped in its transaction, and one who will be refused. */
typedef struct other_writers {
  moonpad_service *service;
  mp_sqlite *store;
  atomic_bool armed, done;
  sem_t reached, open;
  bool shared; /* the call waited for the writer */
  moonpad_status stopped, refused;
} other_writers;

static other_writers others;
static _Thread_local bool is_stopped_here;
static atomic_long alive; /* blocks */

/* ---- The allocator, in which the writer is stopped ---- */

static unsigned waiting(mp_sqlite *store, bool *writing) {
  mp_mutex_lock(&store->mutex);
  unsigned count = store->waiting;
  *writing = store->writing;
  mp_mutex_unlock(&store->mutex);
  return count;
}

static void stop_writer(void) {
  bool writing = false;
  if (!is_stopped_here || !atomic_load(&others.armed)) return;
  waiting(others.store, &writing);
  if (!writing || !atomic_exchange(&others.armed, false)) return;
  sem_post(&others.reached);
  sem_wait(&others.open);
}

static void *allocate(void *context, size_t size) {
  (void)context;
  stop_writer();
  void *block = malloc(size);
  if (block != NULL) atomic_fetch_add(&alive, 1);
  return block;
}

static void *resize(void *context, void *block, size_t size) {
  if (block == NULL) return allocate(context, size);
  stop_writer();
  return realloc(block, size);
}

static void release(void *context, void *block) {
  (void)context;
  if (block != NULL) atomic_fetch_sub(&alive, 1);
  free(block);
}

static const moonpad_allocator hooks = {allocate, resize, release, NULL};

/* ---- The other writers ---- */

static moonpad_status create(void) {
  moonpad_session *session = NULL;
  moonpad_session_name name = {moonpad_text("beside"), moonpad_text("u"), moonpad_text("s")};
  moonpad_status status = moonpad_create_session(others.service, &name, moonpad_text("{\"k\":1}"), &session, NULL);
  moonpad_session_free(session);
  return status;
}

static void *run_stopped(void *unused) {
  (void)unused;
  is_stopped_here = true;
  others.stopped = create();
  return NULL;
}

static void *run_refused(void *unused) {
  (void)unused;
  others.refused = create();
  return NULL;
}

/* Lets one who fails wait behind the call, then lets the writer go on. */
static void *run_director(void *unused) {
  pthread_t refused;
  bool writing;
  (void)unused;
  while (waiting(others.store, &writing) == 0 && !atomic_load(&others.done)) sched_yield();
  others.shared = waiting(others.store, &writing) > 0;
  if (others.shared && pthread_create(&refused, NULL, run_refused, NULL) == 0) {
    while (waiting(others.store, &writing) < 2) sched_yield();
    sem_post(&others.open);
    pthread_join(refused, NULL);
  } else {
    sem_post(&others.open);
  }
  return NULL;
}

/* ---- The calls ---- */

/* Runs the call so that it shares a commit with one that fails. True when it was run again. */
static bool run_in_shared_commit(const call_expectation *expected, const call_setting *setting) {
  call_scene scene;
  moonpad_error error;
  pthread_t stopped, director;
  call_scene_make(&scene, setting);
  memset(&others, 0, sizeof others);
  others.service = scene.service;
  others.store = (mp_sqlite *)scene.service->store;
  atomic_store(&others.armed, true);
  sem_init(&others.reached, 0, 0);
  sem_init(&others.open, 0, 0);
  assert_int_equal(pthread_create(&stopped, NULL, run_stopped, NULL), 0);
  while (sem_wait(&others.reached) != 0) continue;
  assert_int_equal(pthread_create(&director, NULL, run_director, NULL), 0);
  moonpad_status status = call_run(&scene, expected->call, &error);
  atomic_store(&others.done, true);
  pthread_join(director, NULL);
  pthread_join(stopped, NULL);
  if (status != MOONPAD_OK) fail_msg("%s: %s: %s", expected->call->name, moonpad_status_name(status), error.message);
  assert_int_equal(others.stopped, MOONPAD_OK);
  if (others.shared) assert_int_equal(others.refused, MOONPAD_ALREADY_EXISTS);
  call_expect_after(expected, 0, &scene);
  call_scene_free(&scene);
  sem_destroy(&others.reached);
  sem_destroy(&others.open);
  return others.shared;
}

static void test_every_call_run_again(void **state) {
  size_t run_again = 0;
  (void)state;
  call_setting setting = {"sqlite::memory:", "", "", MOONPAD_DURABILITY_NORMAL, &hooks, false};
  for (size_t i = 0; i < every_call_count; i++) {
    call_expectation expected = {0};
    call_learn(&expected, &every_calls[i], &setting);
    if (run_in_shared_commit(&expected, &setting)) run_again++;
    call_forget(&expected);
    assert_int_equal(atomic_load(&alive), 0);
  }
  assert_true(run_again > every_call_count / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_call_run_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
