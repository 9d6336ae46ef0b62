/* What every store must do with transactions: all or nothing, one after the other, and an end. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "fault_steps.h"
#include "store_support.h"

#define EVERY_ONE 5000 /* more than a transaction here allocates */

/* ---- a random life of a store ---- */

typedef struct random_life {
  opened_store *opened;
  uint64_t seed;
  int steps;
  bool fails;        /* ends with an error, after all its steps */
  store_dump inside; /* what the transaction itself saw at its end */
} random_life;

static uint32_t draw(uint64_t *seed, uint32_t below) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 33) % below;
}

static moonpad_string draw_user(uint64_t *seed) {
  return moonpad_text(dumped_users[draw(seed, sizeof dumped_users / sizeof *dumped_users)]);
}

static moonpad_string draw_app(uint64_t *seed) {
  return moonpad_text(dumped_apps[draw(seed, sizeof dumped_apps / sizeof *dumped_apps)]);
}

static moonpad_session_name draw_session(uint64_t *seed) {
  static const char *const sessions[] = {"s1", "s2", "s"};
  moonpad_session_name name = {draw_app(seed), draw_user(seed), moonpad_text(sessions[draw(seed, 3)])};
  return name;
}

/* *value NULL: a tombstone. */
static moonpad_status draw_value(uint64_t *seed, mp_env *env, mp_value **value, moonpad_error *error) {
  char text[48];
  snprintf(text, sizeof text, "[%u,\"text\"]", (unsigned)draw(seed, 1000));
  uint32_t type = draw(seed, 4);
  *value = NULL;
  if (type == 0) return MOONPAD_OK;
  if (type == 1) *value = mp_value_new_integer(env, (int64_t)draw(seed, 1000));
  if (type == 2) *value = mp_value_new_json(env, MOONPAD_ARRAY, moonpad_text(text));
  if (type == 3) *value = mp_value_new_string(env, moonpad_text(text));
  return *value == NULL ? mp_no_memory(error) : MOONPAD_OK;
}

static moonpad_string draw_key(uint64_t *seed) {
  static const char *const keys[] = {"a", "b", "cart", "", "profile", "x"};
  return moonpad_text(keys[draw(seed, 6)]);
}

static moonpad_status shared_step(random_life *life, mp_tx *tx, uint64_t *seed, moonpad_error *error) {
  int64_t id;
  int64_t revision;
  bool of_user = draw(seed, 2) == 0;
  mp_scope scope = of_user ? MP_SCOPE_USER : MP_SCOPE_APP;
  moonpad_string app = draw_app(seed);
  moonpad_string user = draw_user(seed);
  TRY(tx->ops->find_shared(tx, app, of_user ? &user : NULL, true, &id, &revision, error));
  mp_value *value;
  TRY(draw_value(seed, life->opened->env, &value, error));
  moonpad_status status = tx->ops->write_key(tx, scope, id, draw_key(seed), value, revision + 1, error);
  mp_value_release(life->opened->env, value);
  TRY(status);
  TRY(tx->ops->set_shared_revision(tx, scope, id, revision + 1, error));
  return MOONPAD_OK;
}

static moonpad_status session_step(random_life *life, mp_tx *tx, uint64_t *seed, mp_session_row *row,
                                   moonpad_error *error) {
  char id[32];
  char json[64];
  row->revision++;
  row->last_update_time = (double)draw(seed, 5);
  snprintf(id, sizeof id, "e%" PRId64, row->revision);
  snprintf(json, sizeof json, "{\"n\":%u}", (unsigned)draw(seed, 1000));
  mp_event_row event = event_row(row->revision, row->last_update_time, id, json);
  event.digest = draw(seed, 3);
  TRY(tx->ops->append_event(tx, row->id, &event, error));
  for (uint32_t keys = draw(seed, 4); keys != 0; keys--) {
    mp_value *value;
    TRY(draw_value(seed, life->opened->env, &value, error));
    moonpad_string key = draw_key(seed);
    moonpad_status status = tx->ops->write_key(tx, MP_SCOPE_SESSION, row->id, key, value, row->revision, error);
    if (status == MOONPAD_OK && value != NULL && draw(seed, 3) == 0) {
      status = tx->ops->write_base_key(tx, row->id, key, value, error);
    }
    mp_value_release(life->opened->env, value);
    TRY(status);
  }
  row->conversation_count += draw(seed, 2);
  TRY(tx->ops->update_session(tx, row, error));
  return MOONPAD_OK;
}

static moonpad_status life_step(random_life *life, mp_tx *tx, uint64_t *seed, moonpad_error *error) {
  if (draw(seed, 4) == 0) return shared_step(life, tx, seed, error);
  mp_session_row row;
  mp_session_row again;
  moonpad_session_name name = draw_session(seed);
  moonpad_status status = tx->ops->find_session(tx, &name, &row, error);
  if (status == MOONPAD_NOT_FOUND) {
    TRY(tx->ops->create_session(tx, &name, (double)draw(seed, 9), &row, error));
  } else {
    TRY(status);
    EXPECT(MOONPAD_ALREADY_EXISTS, tx->ops->create_session(tx, &name, 1.0, &again, error));
  }
  if (draw(seed, 6) == 0) {
    TRY(tx->ops->delete_session(tx, row.id, error));
    EXPECT(MOONPAD_NOT_FOUND, tx->ops->load_session(tx, row.id, &again, error));
    return MOONPAD_OK;
  }
  return session_step(life, tx, seed, &row, error);
}

static moonpad_status lives(mp_tx *tx, void *context, moonpad_error *error) {
  random_life *life = context;
  uint64_t seed = life->seed;
  for (int i = 0; i < life->steps; i++) TRY(life_step(life, tx, &seed, error));
  dump_free(&life->inside);
  TRY(dump_all(tx, false, &life->inside, error));
  return life->fails ? mp_fail(error, MOONPAD_CONFLICT, "it was all in vain") : MOONPAD_OK;
}

/* Each round is first lived in vain, which must leave nothing, then for good, which must leave what the transaction saw and what the memory store has. */
static void test_random_life(void **state) {
  opened_store *opened = *state;
  opened_store memory;
  store_open(&memory, memory_kind(), NULL);
  store_dump before = {NULL, 0, 0};
  store_dump after = {NULL, 0, 0};
  /* Under valgrind, where each takes fifty times as long, every length comes twice. */
  const uint64_t rounds = runs_under_valgrind() ? 14 : 60;
  for (uint64_t round = 0; round < rounds; round++) {
    random_life life = {opened, round * 1000 + 7, (int)(round % 7) * 10 + 1, true, {NULL, 0, 0}};
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

/* ---- a failure after every kind of write ---- */

static moonpad_status makes_one_of_each(mp_tx *tx, void *context, moonpad_error *error) {
  test_scene *scene = context;
  mp_session_row row;
  moonpad_session_name name = session_named("shop", "ann", "s1");
  TRY(need_session(tx, &name, &row, error));
  scene->session = row.id;
  TRY(append_next(tx, row.id, "e1", "{}", error));
  TRY(write_text(scene->opened, tx, MP_SCOPE_SESSION, row.id, "a", "1", 1, error));
  TRY(write_text(scene->opened, tx, MP_SCOPE_USER, row.user, "a", "2", 1, error));
  TRY(write_text(scene->opened, tx, MP_SCOPE_APP, row.app, "a", "3", 1, error));
  TRY(tx->ops->set_shared_revision(tx, MP_SCOPE_USER, row.user, 1, error));
  return tx->ops->set_shared_revision(tx, MP_SCOPE_APP, row.app, 1, error);
}

#define WRITES 14

typedef struct single_write {
  opened_store *opened;
  mp_value *value;
  int number;
  bool fails;  /* returns an error after the write */
  bool shrugs; /* returns MOONPAD_OK although the write ran out of memory */
} single_write;

static moonpad_status do_single_write(single_write *write, mp_tx *tx, moonpad_error *error) {
  mp_session_row row;
  int64_t id;
  int64_t revision;
  moonpad_session_name name = session_named("shop", "ann", "s1");
  moonpad_session_name other_session = session_named("shop", "ann", "s2");
  moonpad_session_name other_user = session_named("shop", "bob", "s1");
  moonpad_session_name other_app = session_named("game", "cy", "s1");
  TRY(tx->ops->find_session(tx, &name, &row, error));
  mp_session_row updated = row;
  updated.revision = 9;
  updated.base_revision = 8;
  updated.conversation_count = 7;
  updated.last_update_time = 6.0;
  mp_event_row event = event_row(row.revision + 1, 5.0, "e2", "{\"id\":\"e2\"}");
  switch (write->number) {
  case 0:
    return tx->ops->create_session(tx, &other_session, 1.0, &row, error);
  case 1:
    return tx->ops->create_session(tx, &other_user, 1.0, &row, error);
  case 2:
    return tx->ops->create_session(tx, &other_app, 1.0, &row, error);
  case 3:
    return tx->ops->delete_session(tx, row.id, error);
  case 4:
    return tx->ops->write_key(tx, MP_SCOPE_SESSION, row.id, moonpad_text("a"), write->value, 2, error);
  case 5:
    return tx->ops->write_key(tx, MP_SCOPE_SESSION, row.id, moonpad_text("a"), NULL, 2, error);
  case 6:
    return tx->ops->write_key(tx, MP_SCOPE_USER, row.user, moonpad_text("new"), write->value, 2, error);
  case 7:
    return tx->ops->write_key(tx, MP_SCOPE_APP, row.app, moonpad_text("new"), NULL, 2, error);
  case 8:
    return tx->ops->write_base_key(tx, row.id, moonpad_text("a"), write->value, error);
  case 9:
    return tx->ops->set_shared_revision(tx, MP_SCOPE_USER, row.user, 5, error);
  case 10:
    return tx->ops->set_shared_revision(tx, MP_SCOPE_APP, row.app, 5, error);
  case 11:
    return tx->ops->append_event(tx, row.id, &event, error);
  case 12:
    return tx->ops->update_session(tx, &updated, error);
  default:
    return tx->ops->find_shared(tx, moonpad_text("shop2"), &other_app.user_id, true, &id, &revision, error);
  }
}

static moonpad_status writes_once(mp_tx *tx, void *context, moonpad_error *error) {
  single_write *write = context;
  moonpad_status status = do_single_write(write, tx, error);
  if (status != MOONPAD_OK) return status == MOONPAD_NO_MEMORY && write->shrugs ? MOONPAD_OK : status;
  return write->fails ? MOONPAD_BUSY : MOONPAD_OK;
}

static void test_each_write_is_undone(void **state) {
  test_scene scene = scene_of(state);
  single_write write = {scene.opened, mp_value_new_float(scene.opened->env, 0.5), 0, true, false};
  write_ok(scene.opened, makes_one_of_each, &scene);
  dump_store(scene.opened, true, &scene.before);
  for (write.number = 0; write.number < WRITES; write.number++) {
    write_fails(scene.opened, MOONPAD_BUSY, NULL, writes_once, &write);
    dump_store(scene.opened, true, &scene.after);
    expect_same_dump(&scene.before, &scene.after);
  }
  write.fails = false; /* and each of them does something that would show */
  for (write.number = 4; write.number < WRITES; write.number++) {
    write_ok(scene.opened, writes_once, &write);
    dump_store(scene.opened, true, &scene.after);
    if (strcmp(scene.before.text, scene.after.text) == 0) fail_msg("write %d does nothing", write.number);
    dump_store(scene.opened, true, &scene.before);
  }
  mp_value_release(scene.opened->env, write.value);
  scene_free(&scene);
}

/* ---- running out of memory ---- */

typedef struct hungry_store {
  opened_store opened;
  counting_allocator allocator;
  test_scene scene;
} hungry_store;

static void hungry_open(hungry_store *hungry) {
  memset(hungry, 0, sizeof *hungry);
  counting_init(&hungry->allocator);
  store_open(&hungry->opened, memory_kind(), &hungry->allocator.hooks);
  hungry->scene.opened = &hungry->opened;
  write_ok(&hungry->opened, makes_one_of_each, &hungry->scene);
  dump_store(&hungry->opened, true, &hungry->scene.before);
}

static void hungry_close(hungry_store *hungry) {
  scene_free(&hungry->scene);
  store_close(&hungry->opened);
  assert_int_equal(hungry->allocator.live, 0);
  assert_int_equal(hungry->allocator.bytes, 0);
}

/* Lets the n-th allocation of a transaction fail, for every n; where that takes too long, not for all of the later ones. */
static void test_transaction_without_memory(void **state) {
  (void)state;
  moonpad_error error;
  moonpad_status status = MOONPAD_NO_MEMORY;
  fault_seed();
  for (long n = 1; status == MOONPAD_NO_MEMORY; n = fault_after(n, EVERY_ONE)) {
    hungry_store hungry;
    hungry_open(&hungry);
    random_life life = {&hungry.opened, 99, 120, false, {NULL, 0, 0}};
    counting_arm(&hungry.allocator, n);
    status = hungry.opened.store->ops->write(hungry.opened.store, lives, &life, &error);
    long made = hungry.allocator.made;
    counting_arm(&hungry.allocator, 0);
    if (status == MOONPAD_NO_MEMORY) {
      assert_true(made >= n);
      dump_store(&hungry.opened, true, &hungry.scene.after);
      expect_same_dump(&hungry.scene.before, &hungry.scene.after);
      write_ok(&hungry.opened, lives, &life); /* nothing is broken */
    } else {
      assert_int_equal(status, MOONPAD_OK);
      assert_true(n > 100 && made < n);
    }
    dump_free(&life.inside);
    hungry_close(&hungry);
  }
}

/* The same for each single write, in a transaction that commits all the same: the write must have done all or nothing. */
static void test_single_write_without_memory(void **state) {
  (void)state;
  for (int number = 0; number < WRITES; number++) {
    bool done = false;
    for (long n = 1; !done; n++) {
      hungry_store hungry;
      hungry_open(&hungry);
      single_write write = {&hungry.opened, mp_value_new_integer(hungry.opened.env, 4), number, false, true};
      counting_arm(&hungry.allocator, n);
      write_ok(&hungry.opened, writes_once, &write);
      done = hungry.allocator.made < n;
      counting_arm(&hungry.allocator, 0);
      dump_store(&hungry.opened, true, &hungry.scene.after);
      if (!done) expect_same_dump(&hungry.scene.before, &hungry.scene.after);
      if (done) assert_string_not_equal(hungry.scene.before.text, hungry.scene.after.text);
      mp_value_release(hungry.opened.env, write.value);
      hungry_close(&hungry);
    }
  }
}

static moonpad_status lists_all(mp_tx *tx, void *context, moonpad_error *error) {
  return dump_all(tx, true, context, error);
}

static void test_reading_and_opening_without_memory(void **state) {
  (void)state;
  moonpad_error error;
  hungry_store hungry;
  hungry_open(&hungry);
  moonpad_status status = MOONPAD_NO_MEMORY;
  for (long n = 1; status == MOONPAD_NO_MEMORY; n++) {
    dump_free(&hungry.scene.after);
    counting_arm(&hungry.allocator, n);
    status = hungry.opened.store->ops->read(hungry.opened.store, lists_all, &hungry.scene.after, &error);
  }
  assert_int_equal(status, MOONPAD_OK);
  expect_same_dump(&hungry.scene.before, &hungry.scene.after);
  status = MOONPAD_NO_MEMORY;
  moonpad_options options = store_options(NULL);
  for (long n = 1; status == MOONPAD_NO_MEMORY; n++) {
    mp_store *store = (mp_store *)&hungry;
    counting_arm(&hungry.allocator, n);
    status = mp_memory_open(hungry.opened.env, moonpad_text(""), &options, &store, &error);
    if (status == MOONPAD_NO_MEMORY) {
      assert_null(store);
      continue;
    }
    assert_int_equal(status, MOONPAD_OK);
    store->ops->close(store);
    store->ops->free(store);
  }
  hungry_close(&hungry);
}

/* ---- threads ---- */

#define THREADS           2
#define WRITES_PER_THREAD 400

typedef struct store_worker {
  opened_store *opened;
  int number;
  int64_t session;
  int64_t user;
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
  TRY(tx->ops->read_key(tx, MP_SCOPE_USER, worker->user, moonpad_text("count"), &value, &revision, error));
  int64_t count = value == NULL ? 0 : value->as.as.integer;
  mp_value_release(env, value);
  CHECK(count == revision);
  snprintf(id, sizeof id, "e%d-%d", worker->number, worker->turn);
  TRY(append_next(tx, worker->session, id, "{}", error));
  value = mp_value_new_integer(env, count + 1);
  moonpad_status status =
      tx->ops->write_key(tx, MP_SCOPE_USER, worker->user, moonpad_text("count"), value, revision + 1, error);
  mp_value_release(env, value);
  TRY(status);
  TRY(tx->ops->set_shared_revision(tx, MP_SCOPE_USER, worker->user, revision + 1, error));
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
  TRY(tx->ops->load_session(tx, worker->session, &row, error));
  TRY(tx->ops->read_key(tx, MP_SCOPE_USER, worker->user, moonpad_text("count"), &value, &revision, error));
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
  TRY(tx->ops->load_session(tx, workers[0].session, &row, error));
  TRY(tx->ops->each_event(tx, row.id, INT64_MIN, INT64_MAX, counts_events, &events, error));
  CHECK(events == row.revision && events == workers[0].done + workers[1].done);
  return MOONPAD_OK;
}

static moonpad_status makes_counted_session(mp_tx *tx, void *context, moonpad_error *error) {
  store_worker *worker = context;
  mp_session_row row;
  moonpad_session_name name = session_named("shop", "ann", "s1");
  TRY(tx->ops->create_session(tx, &name, 1.0, &row, error));
  worker->session = row.id;
  worker->user = row.user;
  return MOONPAD_OK;
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
  assert_int_equal(store->ops->backup(store, moonpad_text("/tmp/moonpad-not-written.db"), NULL), MOONPAD_CLOSED);
  assert_int_equal(calls, 0);
}

static void test_closed_while_in_use(void **state) {
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

/* ---- backup, opening ---- */

static void test_backup(void **state) {
  opened_store *opened = *state;
  moonpad_error error = {MOONPAD_OK, ""};
  random_life life = {opened, 5, 50, false, {NULL, 0, 0}};
  write_ok(opened, lives, &life);
  char folder[] = "/tmp/moonpad-backup-XXXXXX";
  assert_non_null(mkdtemp(folder));
  opened_store copy;
  memset(&copy, 0, sizeof copy);
  snprintf(copy.folder, sizeof copy.folder, "%s", folder);
  snprintf(copy.path, sizeof copy.path, "%s/copy.db", folder);
  moonpad_status status = opened->store->ops->backup(opened->store, moonpad_text(copy.path), &error);
  if (!opened->kind->has_backup) {
    assert_int_equal(status, MOONPAD_UNSUPPORTED);
    assert_non_null(strstr(error.message, "backup"));
    copy.env = mp_env_retain(opened->env);
  } else {
    if (status != MOONPAD_OK) fail_msg("backup: %s", error.message);
    store_dump found = {NULL, 0, 0};
    copy.kind = file_kind();
    copy.env = mp_env_retain(opened->env);
    store_reopen(&copy);
    dump_store(&copy, false, &found);
    expect_same_dump(&life.inside, &found);
    dump_free(&found);
  }
  store_close(&copy);
  dump_free(&life.inside);
}

static void test_opening_memory(void **state) {
  (void)state;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_options options = store_options(NULL);
  mp_env *env = mp_env_new(&options);
  mp_store *store = (mp_store *)&options;
  assert_int_equal(mp_memory_open(env, moonpad_text("/file"), &options, &store, &error), MOONPAD_INVALID_ARGUMENT);
  assert_null(store);
  assert_non_null(strstr(error.message, "/file"));
  assert_int_equal(mp_memory_open(env, moonpad_text(""), &options, &store, &error), MOONPAD_OK);
  mp_env_release(env); /* the store holds it */
  store->ops->close(store);
  store->ops->free(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      STORE_TEST(test_random_life), STORE_TEST(test_each_write_is_undone),
      STORE_TEST(test_two_threads), STORE_TEST(test_closed),
      STORE_TEST(test_backup),      STORE_TEST(test_closed_while_in_use),
  };
  const struct CMUnitTest memory_tests[] = {
      cmocka_unit_test(test_opening_memory),
      cmocka_unit_test(test_transaction_without_memory),
      cmocka_unit_test(test_single_write_without_memory),
      cmocka_unit_test(test_reading_and_opening_without_memory),
  };
  return RUN_ON_EVERY_STORE(tests) + cmocka_run_group_tests_name("memory: without memory", memory_tests, NULL, NULL);
}
