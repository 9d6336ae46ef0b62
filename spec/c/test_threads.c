/*
** Many threads on one service: no event and no increment is lost, doubled or out of order. Public C
** API only.
*/
#include "scope.h"
#include "shared_service.h"

#include <pthread.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <time.h>

enum { THREADS = 8, APPENDS = 150 };

typedef struct worker {
  shared_service *store;
  int number;
  int done;
  moonpad_error error;
  const char *failed; /* what went wrong; NULL: nothing */
} worker;

static const moonpad_session_name NAME = {{"app", 3}, {"u", 1}, {"s", 1}};

/* ---- Opening ---- */

static int open_with_session(void **state, const char *before, bool in_file) {
  shared_service *opened = shared_open_behind(before, in_file);
  moonpad_session *session = NULL;
  moonpad_error error;
  assert_int_equal(moonpad_create_session(opened->service, &NAME, moonpad_text("{}"), &session, &error), MOONPAD_OK);
  moonpad_session_free(session);
  *state = opened;
  return 0;
}

static int setup_memory(void **state) {
  return open_with_session(state, "", false);
}

static int setup_plans(void **state) {
  return open_with_session(state, "slow:0:", true);
}

static int setup_file(void **state) {
  return open_with_session(state, "", true);
}

/* ---- Workers: cmocka's assertions are for the main thread alone ---- */

static bool gave(worker *self, moonpad_status status, const char *what) {
  if (status == MOONPAD_OK) return true;
  self->failed = what;
  return false;
}

static moonpad_session *own_session(worker *self) {
  moonpad_session *session = NULL;
  gave(self, moonpad_get_session(self->store->service, &NAME, NULL, &session, &self->error), "get_session");
  return session;
}

static void run_workers(shared_service *opened, void *(*run)(void *), worker workers[THREADS]) {
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){opened, i, 0, {MOONPAD_OK, ""}, NULL};
    assert_int_equal(pthread_create(&threads[i], NULL, run, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  for (int i = 0; i < THREADS; i++) {
    if (workers[i].failed != NULL) {
      fail_msg("thread %d: %s: %s: %s", i, workers[i].failed, moonpad_status_name(workers[i].error.code),
               workers[i].error.message);
    }
  }
}

static int64_t stored_integer(shared_service *opened, const char *key) {
  moonpad_session *session = NULL;
  moonpad_value value;
  moonpad_error error;
  assert_int_equal(moonpad_get_session(opened->service, &NAME, NULL, &session, &error), MOONPAD_OK);
  assert_int_equal(moonpad_session_read(session, moonpad_text(key), moonpad_text(""), &value, &error), MOONPAD_OK);
  assert_int_equal(value.type, MOONPAD_INTEGER);
  int64_t integer = value.as.integer;
  moonpad_session_free(session);
  return integer;
}

/*
** Every event is there once, in order, and those of each thread in the order in which it
** appended them.
*/
static void expect_history(shared_service *opened, int64_t events) {
  moonpad_session *session = NULL;
  moonpad_error error;
  assert_int_equal(moonpad_get_session(opened->service, &NAME, NULL, &session, &error), MOONPAD_OK);
  assert_int_equal(moonpad_session_revision(session), events);
  size_t count = 0;
  assert_int_equal(moonpad_session_event_count(session, &count, &error), MOONPAD_OK);
  assert_int_equal(count, events);
  int64_t last[THREADS] = {0};
  for (size_t i = 0; i < count; i++) {
    moonpad_event *event = NULL;
    assert_int_equal(moonpad_session_event(session, i, &event, &error), MOONPAD_OK);
    assert_int_equal(moonpad_event_revision(event), i + 1);
    moonpad_buffer scratch = {0};
    moonpad_value writer, number;
    assert_int_equal(
        moonpad_json_read(moonpad_event_json(event), moonpad_text("customMetadata.writer"), &scratch, &writer, &error),
        MOONPAD_OK);
    assert_int_equal(
        moonpad_json_read(moonpad_event_json(event), moonpad_text("customMetadata.number"), &scratch, &number, &error),
        MOONPAD_OK);
    assert_in_range(writer.as.integer, 0, THREADS - 1);
    assert_int_equal(number.as.integer, last[writer.as.integer] + 1);
    last[writer.as.integer] = number.as.integer;
    moonpad_buffer_free(&scratch);
    moonpad_event_free(event);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(last[i], events / THREADS);
  moonpad_session_free(session);
}

static void label(char *text, size_t size, const worker *self, int number) {
  snprintf(text, size, "{\"author\":\"agent\",\"customMetadata\":{\"writer\":%d,\"number\":%d}}", self->number, number);
}

/* ---- Appends through change sets ---- */

static void *commit_changes(void *argument) {
  worker *self = argument;
  moonpad_session *session = own_session(self);
  moonpad_changes *changes = NULL;
  if (session == NULL || !gave(self, moonpad_changes_begin(session, &changes, &self->error), "changes_begin"))
    return NULL;
  char own[16], event[128];
  snprintf(own, sizeof own, "own%d", self->number);
  moonpad_value one = moonpad_integer(1);
  int64_t revision = 0;
  for (int i = 1; i <= APPENDS && self->failed == NULL; i++) {
    moonpad_value number = moonpad_integer(i);
    moonpad_event *stored = NULL;
    label(event, sizeof event, self, i);
    gave(self, moonpad_changes_increment(changes, moonpad_text("n"), &one, &self->error), "increment n");
    gave(self, moonpad_changes_increment(changes, moonpad_text("user:n"), &one, &self->error), "increment user:n");
    gave(self, moonpad_changes_set(changes, moonpad_text(own), moonpad_text(""), &number, &self->error), "set");
    if (i % 10 == 0)
      gave(self, moonpad_changes_append(changes, moonpad_text("app:log"), &number, &self->error), "append");
    if (!gave(self, moonpad_changes_commit(changes, moonpad_text(event), &stored, &self->error), "commit")) break;
    if (moonpad_event_revision(stored) <= revision) self->failed = "a revision did not grow";
    revision = moonpad_event_revision(stored);
    if (moonpad_session_revision(session) != revision) self->failed = "the session object is not at its own event";
    moonpad_event_free(stored);
  }
  moonpad_changes_free(changes);
  moonpad_session_free(session);
  return NULL;
}

static void test_commits_lose_nothing(void **state) {
  shared_service *opened = *state;
  worker workers[THREADS];
  run_workers(opened, commit_changes, workers);
  assert_int_equal(stored_integer(opened, "n"), THREADS * APPENDS);
  assert_int_equal(stored_integer(opened, "user:n"), THREADS * APPENDS);
  for (int i = 0; i < THREADS; i++) {
    char own[16];
    snprintf(own, sizeof own, "own%d", i);
    assert_int_equal(stored_integer(opened, own), APPENDS);
  }
  expect_history(opened, THREADS * APPENDS);
  moonpad_buffer log = {0};
  assert_int_equal(moonpad_get_app_state(opened->service, NAME.app_name, &log, NULL), MOONPAD_OK);
  int items = 0;
  for (size_t i = 0; i < log.length; i++) items += log.data[i] == ',';
  assert_int_equal(items + 1, THREADS * APPENDS / 10);
  moonpad_buffer_free(&log);
}

/* ---- Appends of whole events, and counters that change at once ---- */

static void *append_events(void *argument) {
  worker *self = argument;
  moonpad_session *session = own_session(self);
  moonpad_value one = moonpad_integer(1), sum;
  for (int i = 1; i <= APPENDS && session != NULL && self->failed == NULL; i++) {
    char event[256];
    snprintf(event, sizeof event,
             "{\"author\":\"agent\",\"customMetadata\":{\"writer\":%d,\"number\":%d},"
             "\"actions\":{\"stateDelta\":{\"own%d\":%d,\"user:own%d\":%d,\"temp:t\":1}}}",
             self->number, i, self->number, i, self->number, i);
    gave(self, moonpad_append_event(session, moonpad_text(event), NULL, &self->error), "append_event");
    gave(self,
         moonpad_increment_user_state(self->store->service, NAME.app_name, NAME.user_id, moonpad_text("direct"), &one,
                                      &sum, &self->error),
         "increment_user_state");
  }
  moonpad_session_free(session);
  return NULL;
}

static void test_events_and_direct_increments_lose_nothing(void **state) {
  shared_service *opened = *state;
  worker workers[THREADS];
  run_workers(opened, append_events, workers);
  assert_int_equal(stored_integer(opened, "user:direct"), THREADS * APPENDS);
  for (int i = 0; i < THREADS; i++) {
    char own[24];
    snprintf(own, sizeof own, "own%d", i);
    assert_int_equal(stored_integer(opened, own), APPENDS);
    snprintf(own, sizeof own, "user:own%d", i);
    assert_int_equal(stored_integer(opened, own), APPENDS);
  }
  expect_history(opened, THREADS * APPENDS);
}

/* ---- Asynchronous appends: each thread polls for its own service handle's completions ---- */

static atomic_int completed, broken;

static void count_completion(void *context, moonpad_session *session, const moonpad_event *event,
                             const moonpad_error *error) {
  (void)context;
  (void)session;
  if (event == NULL || error != NULL) atomic_fetch_add(&broken, 1);
  atomic_fetch_add(&completed, 1);
}

static void test_asynchronous_appends_of_many_sessions_lose_nothing(void **state) {
  shared_service *opened = *state;
  moonpad_session *sessions[THREADS];
  moonpad_error error;
  atomic_store(&completed, 0);
  atomic_store(&broken, 0);
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(moonpad_get_session(opened->service, &NAME, NULL, &sessions[i], &error), MOONPAD_OK);
  }
  moonpad_value one = moonpad_integer(1);
  for (int n = 1; n <= APPENDS; n++) {
    for (int i = 0; i < THREADS; i++) {
      moonpad_changes *changes = NULL;
      char event[128];
      worker self = {opened, i, 0, {MOONPAD_OK, ""}, NULL};
      label(event, sizeof event, &self, n);
      assert_int_equal(moonpad_session_changes(sessions[i], &changes, &error), MOONPAD_OK);
      assert_int_equal(moonpad_changes_increment(changes, moonpad_text("n"), &one, &error), MOONPAD_OK);
      assert_int_equal(moonpad_changes_increment(changes, moonpad_text("user:n"), &one, &error), MOONPAD_OK);
      assert_int_equal(moonpad_changes_commit_async(changes, moonpad_text(event), count_completion, NULL, &error),
                       MOONPAD_OK);
    }
    moonpad_poll(opened->service, 0);
  }
  while (atomic_load(&completed) < THREADS * APPENDS && moonpad_poll(opened->service, TIMEOUT_MS) > 0) continue;
  assert_int_equal(atomic_load(&completed), THREADS * APPENDS);
  assert_int_equal(atomic_load(&broken), 0);
  for (int i = 0; i < THREADS; i++) moonpad_session_free(sessions[i]);
  assert_int_equal(stored_integer(opened, "n"), THREADS * APPENDS);
  assert_int_equal(stored_integer(opened, "user:n"), THREADS * APPENDS);
  expect_history(opened, THREADS * APPENDS);
}

/* ---- A session waits for its own appends, not for everybody's ---- */

enum { BEFORE = 500, AFTER = 10000 }; /* many batches of the writer */

static void queue_appends(moonpad_session *session, int count) {
  moonpad_error error;
  for (int i = 0; i < count; i++) {
    assert_int_equal(moonpad_append_event_async(session, moonpad_text("{\"author\":\"agent\"}"), NULL, NULL, &error),
                     MOONPAD_OK);
  }
}

static sqlite3 *lock_file(const char *path) {
  sqlite3 *db;
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  return db;
}

/* How many are left of those that were queued behind the own one, when that is stored. */
static int64_t wait_for_own(shared_service *opened, int round) {
  moonpad_session *own = NULL, *busy = NULL, *stored = NULL;
  moonpad_session_name name = NAME, busy_name = NAME;
  char own_id[16], busy_id[16];
  snprintf(own_id, sizeof own_id, "own%d", round);
  snprintf(busy_id, sizeof busy_id, "busy%d", round);
  name.session_id = moonpad_text(own_id);
  busy_name.session_id = moonpad_text(busy_id);
  assert_int_equal(moonpad_create_session(opened->service, &name, moonpad_text(""), &own, NULL), MOONPAD_OK);
  assert_int_equal(moonpad_create_session(opened->service, &busy_name, moonpad_text(""), &busy, NULL), MOONPAD_OK);
  sqlite3 *other = lock_file(opened->file); /* nothing is stored before all are queued */
  queue_appends(busy, BEFORE);
  queue_appends(own, 1);
  queue_appends(busy, AFTER);
  assert_int_equal(sqlite3_close(other), SQLITE_OK);
  moonpad_session_free(own);
  assert_int_equal(moonpad_get_session(opened->service, &busy_name, NULL, &stored, NULL), MOONPAD_OK);
  int64_t revision = moonpad_session_revision(stored);
  assert_in_range(revision, BEFORE, BEFORE + AFTER);
  moonpad_session_free(stored);
  assert_int_equal(moonpad_get_session(opened->service, &name, NULL, &stored, NULL), MOONPAD_OK);
  assert_int_equal(moonpad_session_revision(stored), 1);
  moonpad_session_free(stored);
  moonpad_session_free(busy);
  return BEFORE + AFTER - revision;
}

/* All may be stored because this thread did not get on: but not each time. */
static void test_a_session_waits_for_its_own_appends_only(void **state) {
  for (int round = 0; round < 10; round++) {
    if (wait_for_own(*state, round) > 0) return;
  }
  fail_msg("it waits for all appends");
}

/* ---- Readers among writers ---- */

static void *write_or_read(void *argument) {
  worker *self = argument;
  if (self->number % 2 == 0) return commit_changes(argument);
  int64_t last = 0;
  for (int i = 0; i < APPENDS && self->failed == NULL; i++) {
    moonpad_session *session = own_session(self);
    if (session == NULL) return NULL;
    /* A snapshot is one moment: the counter, the user's counter and the number of events agree. */
    int64_t revision = moonpad_session_revision(session);
    moonpad_value own, shared;
    size_t count = 0;
    gave(self, moonpad_session_read(session, moonpad_text("n"), moonpad_text(""), &own, &self->error), "read");
    int64_t n = own.type == MOONPAD_INTEGER ? own.as.integer : 0;
    gave(self, moonpad_session_read(session, moonpad_text("user:n"), moonpad_text(""), &shared, &self->error), "read");
    int64_t user = shared.type == MOONPAD_INTEGER ? shared.as.integer : 0;
    gave(self, moonpad_session_event_count(session, &count, &self->error), "event_count");
    if (revision < last || n != revision || user != revision || (int64_t)count != revision)
      self->failed = "a snapshot is torn";
    last = revision;
    moonpad_event *event = NULL;
    if (count > 0 && gave(self, moonpad_session_event(session, count - 1, &event, &self->error), "event") &&
        moonpad_event_revision(event) != revision) {
      self->failed = "the last event is not the snapshot's";
    }
    moonpad_event_free(event);
    moonpad_session_free(session);
  }
  return NULL;
}

static void test_snapshots_are_whole_while_others_write(void **state) {
  worker workers[THREADS];
  run_workers(*state, write_or_read, workers);
  assert_int_equal(stored_integer(*state, "n"), THREADS / 2 * APPENDS);
}

/* ---- Closing under load ---- */

static atomic_int appended;

static void *append_until_closed(void *argument) {
  worker *self = argument;
  moonpad_session *session = own_session(self);
  while (session != NULL) {
    moonpad_status status = moonpad_append_event(session, moonpad_text("{\"author\":\"agent\"}"), NULL, &self->error);
    if (status == MOONPAD_CLOSED) break;
    if (!gave(self, status, "append_event")) break;
    self->done++;
    atomic_fetch_add(&appended, 1);
  }
  if (session == NULL && self->error.code == MOONPAD_CLOSED) self->failed = NULL;
  moonpad_session_free(session);
  return NULL;
}

/* In the middle of it: when many have been stored. */
static void *close_soon(void *argument) {
  shared_service *opened = argument;
  for (double limit = time_limit(); atomic_load(&appended) < 20 * THREADS && wait_before(limit);) continue;
  moonpad_service_close(opened->service);
  return NULL;
}

static void test_closing_waits_for_calls_under_way(void **state) {
  shared_service *opened = *state;
  pthread_t closer;
  atomic_store(&appended, 0);
  assert_int_equal(pthread_create(&closer, NULL, close_soon, opened), 0);
  worker workers[THREADS];
  run_workers(opened, append_until_closed, workers);
  assert_int_equal(pthread_join(closer, NULL), 0);
  assert_true(atomic_load(&appended) >= 20 * THREADS);
  if (opened->file[0] == '\0') return;
  /* What was acknowledged before is in the file. */
  int64_t done = 0;
  for (int i = 0; i < THREADS; i++) done += workers[i].done;
  char url[128];
  snprintf(url, sizeof url, "sqlite:%s", opened->file);
  moonpad_service_release(opened->service);
  assert_int_equal(moonpad_open(moonpad_text(url), NULL, &opened->service, NULL), MOONPAD_OK);
  moonpad_session *session = NULL;
  assert_int_equal(moonpad_get_session(opened->service, &NAME, NULL, &session, NULL), MOONPAD_OK);
  assert_int_equal(moonpad_session_revision(session), done);
  moonpad_session_free(session);
}

/* ---- Closing while others queue ---- */

enum { CLOSINGS = 150, CLOSERS = 2 };

typedef struct closer {
  shared_service *store;
  int begins_at; /* when so many are queued */
  pthread_t thread;
} closer;

static void *queue_until_closed(void *argument) {
  worker *self = argument;
  moonpad_session *session = own_session(self);
  moonpad_status status = session == NULL ? self->error.code : MOONPAD_OK;
  while (status == MOONPAD_OK) {
    status = moonpad_append_event_async(session, moonpad_text("{\"author\":\"agent\"}"), count_completion, NULL,
                                        &self->error);
    if (status != MOONPAD_OK) break;
    self->done++;
    atomic_fetch_add(&appended, 1);
  }
  self->failed = NULL;
  if (status != MOONPAD_CLOSED) self->failed = "not closed";
  /* waits, and finds the store closed */
  if (session != NULL && self->number % 2 == 0) moonpad_refresh(session, NULL);
  moonpad_session_free(session);
  return NULL;
}

static void *close_when_queued(void *argument) {
  closer *self = argument;
  while (atomic_load(&appended) < self->begins_at) sched_yield();
  moonpad_service_close(self->store->service);
  return NULL;
}

/* What was queued is stored, what was not is refused, and nobody waits for ever. */
static void close_among_queued(shared_service *opened, int begins_at) {
  closer closers[CLOSERS];
  worker workers[THREADS];
  atomic_store(&appended, 0);
  atomic_store(&completed, 0);
  atomic_store(&broken, 0);
  for (int i = 0; i < CLOSERS; i++) {
    closers[i] = (closer){.store = opened, .begins_at = begins_at};
    assert_int_equal(pthread_create(&closers[i].thread, NULL, close_when_queued, &closers[i]), 0);
  }
  run_workers(opened, queue_until_closed, workers);
  for (int i = 0; i < CLOSERS; i++) assert_int_equal(pthread_join(closers[i].thread, NULL), 0);
  int done = 0;
  for (int i = 0; i < THREADS; i++) done += workers[i].done;
  assert_int_equal(moonpad_poll(opened->service, 0), done);
  assert_int_equal(atomic_load(&completed), done);
  assert_int_equal(atomic_load(&broken), 0);
}

static void close_often(int (*setup)(void **), int times) {
  for (int i = 0; i < times; i++) {
    void *opened;
    setup(&opened);
    close_among_queued(opened, i % 7 * THREADS);
    shared_close(&opened);
  }
}

static void test_closing_among_asynchronous_appends_in_memory(void **state) {
  (void)state;
  close_often(setup_memory, CLOSINGS);
}

static void test_closing_among_asynchronous_appends_on_a_file(void **state) {
  (void)state;
  close_often(setup_file, CLOSINGS / 10);
}

#define ON_EVERY_STORE(test)                                                                                           \
  {#test " on memory:", test, setup_memory, shared_close, NULL},                                                       \
      {#test " on slow:0:sqlite:", test, setup_plans, shared_close, NULL}, {                                           \
#test " on sqlite:", test, setup_file, shared_close, NULL                                                          \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_commits_lose_nothing),
      ON_EVERY_STORE(test_events_and_direct_increments_lose_nothing),
      ON_EVERY_STORE(test_asynchronous_appends_of_many_sessions_lose_nothing),
      {"test_a_session_waits_for_its_own_appends_only", test_a_session_waits_for_its_own_appends_only, setup_file,
       shared_close, NULL},
      ON_EVERY_STORE(test_snapshots_are_whole_while_others_write),
      ON_EVERY_STORE(test_closing_waits_for_calls_under_way),
      cmocka_unit_test(test_closing_among_asynchronous_appends_in_memory),
      cmocka_unit_test(test_closing_among_asynchronous_appends_on_a_file),
  };
  SCOPE_LEAVE_OUT_FILES();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
