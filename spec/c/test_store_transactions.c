/* What every store must do with transactions: all or nothing, one after the other, and an end. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fault_steps.h"
#include "needs_threads.h"
#include "store_life.h"

/* ---- a random life of a store ---- */

/*
** Each round is first lived in vain, which must leave nothing, then for good, which must leave what
** the transaction saw and what the memory store has.
*/
static void test_random_life(void **state) {
  opened_store *opened = *state;
  opened_store memory;
  store_open(&memory, memory_kind(), NULL);
  store_dump before = {NULL, 0, 0};
  store_dump after = {NULL, 0, 0};
  /*
  ** A round takes many times as long under valgrind and on servers: every length comes twice there,
  ** in a sample once.
  */
  uint64_t rounds = runs_under_valgrind() || opened->kind->server != NULL ? 14 : 60, first = 0;
  if (scope_stride() > 1) rounds = 7, first = (uint64_t)scope_turn() % 8;
  for (uint64_t round = first; round < first + rounds; round++) {
    random_life life = {opened, opened->kind->has, round * 1000 + 7, (int)(round % 7) * 10 + 1, true, {NULL, 0, 0}};
    dump_store(opened, true, &before);
    write_fails(opened, MOONPAD_CONFLICT, "it was all in vain", lives, &life);
    dump_store(opened, true, &after);
    expect_same_dump(&before, &after);
    life.fails = false;
    write_ok(opened, lives, &life);
    dump_store(opened, false, &after);
    expect_same_dump(&life.inside, &after);
    life.opened = &memory;
    write_ok(&memory, lives, &life);
    dump_store(&memory, false, &before);
    expect_same_dump(&before, &after);
    dump_free(&life.inside);
  }
  if (opened->kind->is_file) {
    store_reopen(opened);
    dump_store(opened, false, &after);
    expect_same_dump(&before, &after);
  }
  dump_free(&before);
  dump_free(&after);
  store_close(&memory);
}

/* ---- threads ---- */

#define THREADS           2
#define WRITES_PER_THREAD 400

typedef struct store_worker {
  opened_store *opened;
  int number;
  mp_session_ref session;
  atomic_bool *stop; /* NULL: after WRITES_PER_THREAD */
  int done;
  moonpad_status status;
  moonpad_error error;
  int turn;
} store_worker;

static moonpad_status counts_up(mp_tx *tx, void *context, moonpad_error *error) {
  store_worker *worker = context;
  mp_env *env = worker->opened->env;
  mp_value *value;
  int64_t revision;
  char id[32];
  TRY(read_one(tx, &worker->session, MP_SCOPE_USER, moonpad_text("count"), &value, &revision, error));
  int64_t count = value == NULL ? 0 : value->as.as.integer;
  mp_value_release(env, value);
  CHECK(count == revision);
  snprintf(id, sizeof id, "e%d-%d", worker->number, worker->turn);
  TRY(append_next(tx, &worker->session, id, "{}", error));
  value = mp_value_new_integer(env, count + 1);
  moonpad_status status =
      write_value(tx, &worker->session, MP_SCOPE_USER, moonpad_text("count"), value, revision + 1, error);
  mp_value_release(env, value);
  TRY(status);
  return worker->turn % 5 == 4 ? mp_fail(error, MOONPAD_CANCELLED, "every fifth is undone") : MOONPAD_OK;
}

static void *writes_in_thread(void *context) {
  store_worker *worker = context;
  mp_store *store = worker->opened->store;
  for (worker->turn = 0; worker->stop != NULL || worker->turn < WRITES_PER_THREAD; worker->turn++) {
    worker->status = store->ops->write(store, counts_up, worker, &worker->error);
    if (worker->status == MOONPAD_OK) worker->done++;
    if (worker->status != MOONPAD_OK && worker->status != MOONPAD_CANCELLED) return NULL;
  }
  worker->status = MOONPAD_OK;
  return NULL;
}

/* One snapshot: the count, its revision, and the events are of one moment. */
static moonpad_status sees_one_moment(mp_tx *tx, void *context, moonpad_error *error) {
  store_worker *worker = context;
  mp_session_row row;
  mp_value *value;
  int64_t revision;
  TRY(find_row(tx, &worker->session, &row, error));
  TRY(read_one(tx, &worker->session, MP_SCOPE_USER, moonpad_text("count"), &value, &revision, error));
  int64_t count = value == NULL ? 0 : value->as.as.integer;
  mp_value_release(worker->opened->env, value);
  CHECK(count == row.revision && count == row.user_revision && count == revision);
  return MOONPAD_OK;
}

static void *reads_in_thread(void *context) {
  store_worker *worker = context;
  mp_store *store = worker->opened->store;
  while (!atomic_load(worker->stop)) {
    worker->status = store->ops->read(store, sees_one_moment, worker, &worker->error);
    if (worker->status != MOONPAD_OK) return NULL;
    worker->done++;
  }
  return NULL;
}

static moonpad_status counts_events(void *context, const mp_event_row *row, moonpad_error *error) {
  int64_t *count = context;
  CHECK(row->revision == ++*count);
  return MOONPAD_OK;
}

static moonpad_status sees_all_writes(mp_tx *tx, void *context, moonpad_error *error) {
  store_worker *workers = context;
  mp_session_row row;
  int64_t events = 0;
  TRY(sees_one_moment(tx, &workers[0], error));
  TRY(find_row(tx, &workers[0].session, &row, error));
  TRY(walk_events(tx, &workers[0].session, INT64_MIN, INT64_MAX, counts_events, &events, error));
  CHECK(events == row.revision && events == workers[0].done + workers[1].done);
  return MOONPAD_OK;
}

static moonpad_status makes_counted_session(mp_tx *tx, void *context, moonpad_error *error) {
  store_worker *worker = context;
  worker->session = ref_named("shop", "ann", "s1");
  return make_session(tx, &worker->session, 1.0, error);
}

static void prepare_workers(opened_store *opened, store_worker *workers, int count) {
  memset(workers, 0, (size_t)count * sizeof *workers);
  workers[0].opened = opened;
  write_ok(opened, makes_counted_session, &workers[0]);
  for (int i = 1; i < count; i++) {
    workers[i] = workers[0];
    workers[i].number = i;
  }
}

static void expect_worker(const store_worker *worker, moonpad_status status) {
  if (worker->status != status)
    fail_msg("worker %d: status %d: %s", worker->number, worker->status, worker->error.message);
}

static void test_two_threads(void **state) {
  NEEDS_THREADS();
  store_worker workers[THREADS + 1];
  pthread_t threads[THREADS + 1];
  atomic_bool stop;
  atomic_init(&stop, false);
  prepare_workers(*state, workers, THREADS + 1);
  workers[THREADS].stop = &stop;
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_create(&threads[i], NULL, writes_in_thread, &workers[i]), 0);
  }
  assert_int_equal(pthread_create(&threads[THREADS], NULL, reads_in_thread, &workers[THREADS]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  atomic_store(&stop, true);
  pthread_join(threads[THREADS], NULL);
  for (int i = 0; i <= THREADS; i++) expect_worker(&workers[i], MOONPAD_OK);
  for (int i = 0; i < THREADS; i++) assert_int_equal(workers[i].done, WRITES_PER_THREAD / 5 * 4);
  read_ok(*state, sees_all_writes, workers);
}

/* ---- closing ---- */

static moonpad_status does_nothing(mp_tx *tx, void *context, moonpad_error *error) {
  (void)tx;
  (void)error;
  ++*(int *)context;
  return MOONPAD_OK;
}

static void test_closed(void **state) {
  opened_store *opened = *state;
  mp_store *store = opened->store;
  moonpad_error error = {MOONPAD_OK, ""};
  int calls = 0;
  store->ops->close(store);
  store->ops->close(store);
  assert_int_equal(store->ops->write(store, does_nothing, &calls, &error), MOONPAD_CLOSED);
  assert_int_equal(error.code, MOONPAD_CLOSED);
  assert_string_equal(error.message, "the service is closed");
  error.message[0] = '\0';
  assert_int_equal(store->ops->read(store, does_nothing, &calls, &error), MOONPAD_CLOSED);
  assert_string_equal(error.message, "the service is closed");
  assert_int_equal(store->ops->write(store, does_nothing, &calls, NULL), MOONPAD_CLOSED);
  assert_int_equal(store->ops->read(store, does_nothing, &calls, NULL), MOONPAD_CLOSED);
  if (opened->kind->has_backup) {
    assert_int_equal(store->ops->backup(store, moonpad_text("/tmp/moonpad-not-written.db"), NULL), MOONPAD_CLOSED);
  }
  assert_int_equal(calls, 0);
}

static void test_closed_while_in_use(void **state) {
  NEEDS_THREADS();
  opened_store *opened = *state;
  store_worker workers[THREADS];
  pthread_t threads[THREADS];
  atomic_bool never;
  atomic_init(&never, false);
  prepare_workers(opened, workers, THREADS);
  for (int i = 0; i < THREADS; i++) {
    workers[i].stop = &never;
    assert_int_equal(pthread_create(&threads[i], NULL, writes_in_thread, &workers[i]), 0);
  }
  int calls = 0;
  for (int i = 0; i < 50; i++) read_ok(opened, does_nothing, &calls);
  opened->store->ops->close(opened->store);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) expect_worker(&workers[i], MOONPAD_CLOSED);
  if (opened->kind->is_file) {
    store_reopen(opened);
    read_ok(opened, sees_all_writes, workers);
  }
}

/* ---- backup ---- */

static void test_backup(void **state) {
  opened_store *opened = *state;
  moonpad_error error = {MOONPAD_OK, ""};
  if (!opened->kind->has_backup) {
    print_message("%s has no backup\n", opened->kind->url);
    if (!MP_HAS(mp_store_ops, opened->store->ops, backup)) skip();
    moonpad_string path = moonpad_text("/tmp/moonpad-not-written.db");
    assert_int_equal(opened->store->ops->backup(opened->store, path, &error), MOONPAD_UNSUPPORTED);
    return;
  }
  random_life life = {opened, opened->kind->has, 5, 50, false, {NULL, 0, 0}};
  write_ok(opened, lives, &life);
  char folder[] = "/tmp/moonpad-backup-XXXXXX";
  assert_non_null(mkdtemp(folder));
  opened_store copy;
  memset(&copy, 0, sizeof copy);
  snprintf(copy.folder, sizeof copy.folder, "%s", folder);
  snprintf(copy.path, sizeof copy.path, "%s/copy.db", folder);
  moonpad_status status = opened->store->ops->backup(opened->store, moonpad_text(copy.path), &error);
  if (status != MOONPAD_OK) fail_msg("backup: %s", error.message);
  store_dump found = {NULL, 0, 0};
  copy.kind = file_kind();
  copy.env = mp_env_retain(opened->env);
  store_reopen(&copy);
  dump_store(&copy, false, &found);
  expect_same_dump(&life.inside, &found);
  dump_free(&found);
  store_close(&copy);
  dump_free(&life.inside);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_random_life), STORE_TEST(test_two_threads),         STORE_TEST(test_closed),
      STORE_TEST(test_backup),      STORE_TEST(test_closed_while_in_use),
  };
  return RUN_ON_EVERY_STORE(tests);
}
