/*
** The SQLite store among threads and processes, and when it is killed, starved of disk or
** locked out.
*/
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "fault_steps.h"
#include "needs_processes.h"
#include "needs_threads.h"
#include "sqlite_support.h"
#include "store/sqlite/sqlite.h"
#include "store_support.h"

/* ---- processes ---- */

#define PROCESSES           4
#define APPENDS_PER_PROCESS (scope_is("quick") ? 30 : 150)

/*
** In a child: opens when the parent closes the gate, appends, and ends with the status of what
** failed first.
*/
static void run_appender(sqlite_files *files, int gate, int tag, const char *session_id) {
  char byte;
  mp_store *store;
  appender one = {files->env, session_id, tag, 0, 300, false};
  (void)!read(gate, &byte, 1);
  moonpad_status status = mp_sqlite_open(files->env, moonpad_text(files->path), &files->options, &store, &files->error);
  if (status != MOONPAD_OK) fprintf(stderr, "%s\n", files->error.message);
  for (; status == MOONPAD_OK && one.next < APPENDS_PER_PROCESS; one.next++) {
    status = store->ops->write(store, append_once, &one, &files->error);
  }
  if (status == MOONPAD_OK) folder_close(store);
  _exit((int)status);
}

static void race(sqlite_files *files, const char *const session_ids[PROCESSES]) {
  int gate[2];
  pid_t children[PROCESSES];
  assert_int_equal(pipe(gate), 0);
  for (int i = 0; i < PROCESSES; i++) {
    children[i] = fork();
    if (children[i] != 0) continue;
    close(gate[1]);
    run_appender(files, gate[0], i, session_ids[i]);
  }
  close(gate[0]);
  close(gate[1]);
  for (int i = 0; i < PROCESSES; i++) {
    int result = -1;
    assert_int_equal(waitpid(children[i], &result, 0), children[i]);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), MOONPAD_OK);
  }
}

static void test_processes_create_and_append(void **state) {
  NEEDS_PROCESSES();
  sqlite_files *files = *state;
  static const char *const one_session[PROCESSES] = {"s", "s", "s", "s"};
  static const char *const sessions[PROCESSES] = {"a", "b", "c", "d"};
  for (int round = 0; round < 8; round++) { /* that nobody sees a half made file */
    race(files, round % 2 == 0 ? one_session : sessions);
    mp_store *store = folder_open(files);
    int64_t events = 0;
    if (round % 2 == 0) events = count_appended(store, "s");
    for (int i = 0; round % 2 == 1 && i < PROCESSES; i++) events += count_appended(store, sessions[i]);
    assert_int_equal(events, PROCESSES * APPENDS_PER_PROCESS);
    assert_int_equal(shared_counter(store, MP_SCOPE_USER), events);
    assert_int_equal(shared_counter(store, MP_SCOPE_APP), events);
    folder_close(store);
    expect_sound_file(files->path);
    assert_int_equal(remove(files->path), 0);
  }
}

/* Appends for ever, and says after each how many are committed. */
static void append_until_killed(sqlite_files *files, int report) {
  mp_store *store;
  appender one = {files->env, "s", (int)getpid(), 0, 700, false};
  if (mp_sqlite_open(files->env, moonpad_text(files->path), &files->options, &store, NULL) != MOONPAD_OK) _exit(1);
  for (;; one.next++) {
    if (store->ops->write(store, append_once, &one, NULL) != MOONPAD_OK) _exit(2);
    if (write(report, "x", 1) != 1) _exit(3);
  }
}

static void test_killed_while_appending(void **state) {
  NEEDS_PROCESSES();
  sqlite_files *files = *state;
  int64_t reported = 0;
  for (int round = 0; round < fault_rounds(12); round++) {
    int report[2];
    char bytes[4096];
    ssize_t got;
    assert_int_equal(pipe(report), 0);
    pid_t child = fork();
    if (child == 0) append_until_killed(files, report[1]);
    close(report[1]);
    assert_int_equal(read(report[0], bytes, 1), 1); /* however slow the machine is, it has begun */
    reported++;
    struct timespec pause = {0, 3000000L + round * 7000000L};
    nanosleep(&pause, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFSIGNALED(result));
    while ((got = read(report[0], bytes, sizeof bytes)) > 0) reported += got;
    close(report[0]);
    mp_store *store = folder_open(files);
    int64_t found = count_appended(store, "s");
    /* the last may be committed and not yet reported */
    assert_in_range(found, reported, reported + 1);
    reported = found;
    folder_close(store);
    expect_sound_file(files->path);
  }
  assert_true(reported > 0);
}

/* ---- a full disk ---- */

static void limit_files(rlim_t bytes) {
  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = bytes;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_full_disk(void **state) {
  NEEDS_PROCESSES();
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 5000, false};
  mp_store *store = folder_open(files);
  struct rlimit unlimited;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
  void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
  for (int round = 0; round < 3; round++) {
    moonpad_status status = MOONPAD_OK;
    int64_t done = 0;
    limit_files((rlim_t)(300000 + round * 1000));
    for (; status == MOONPAD_OK && done < 100000; one.next++, done++) {
      status = store->ops->write(store, append_once, &one, &files->error);
    }
    one.next--;
    char copy[160];
    snprintf(copy, sizeof copy, "%s/copy.db", files->folder);
    limit_files(20000);
    moonpad_status backed_up = store->ops->backup(store, moonpad_text(copy), NULL);
    bool copy_left = file_exists(copy, "") || file_exists(copy, "-journal");
    limit_files(unlimited.rlim_cur);
    assert_int_equal(status, MOONPAD_STORAGE);
    assert_non_null(strstr(files->error.message, files->path));
    assert_int_equal(backed_up, MOONPAD_STORAGE);
    assert_false(copy_left);
    assert_int_equal(count_appended(store, "s"), one.next);
    /* There is room again: it goes on where it was. */
    for (int i = 0; i < 5; i++, one.next++) {
      assert_int_equal(store->ops->write(store, append_once, &one, &files->error), MOONPAD_OK);
    }
    assert_int_equal(count_appended(store, "s"), one.next);
  }
  signal(SIGXFSZ, before);
  folder_close(store);
  expect_sound_file(files->path);
}

/* ---- threads ---- */

#define THREADS            8
#define APPENDS_PER_THREAD 200

typedef struct writer {
  pthread_t thread;
  mp_store *store;
  appender appender;
  bool fails_sometimes;
  int64_t stored;
  int64_t surprises;
  atomic_int *total; /* stored by all of them */
} writer;

static void *write_many(void *context) {
  writer *self = context;
  for (int i = 0; i < APPENDS_PER_THREAD; i++, self->appender.next++) {
    moonpad_error error = {MOONPAD_OK, ""};
    self->appender.fail = self->fails_sometimes && i % 7 == 3;
    moonpad_status status = self->store->ops->write(self->store, append_once, &self->appender, &error);
    char number[16];
    snprintf(number, sizeof number, "%d", self->appender.next);
    if (status == MOONPAD_OK) self->stored++;
    bool expected =
        self->appender.fail ? status == MOONPAD_CONFLICT && strcmp(error.message, number) == 0 : status == MOONPAD_OK;
    if (!expected) self->surprises++;
  }
  return NULL;
}

static void run_threads(sqlite_files *files, const char *const *session_ids, bool fails_sometimes) {
  writer writers[THREADS];
  memset(writers, 0, sizeof writers);
  mp_store *store = folder_open(files);
  int64_t stored = 0, events = 0;
  for (int i = 0; i < THREADS; i++) {
    writers[i].store = store;
    writers[i].fails_sometimes = fails_sometimes && i % 2 == 0;
    writers[i].appender = (appender){files->env, session_ids[i], i, 0, 200, false};
    assert_int_equal(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
    assert_int_equal(writers[i].surprises, 0);
    stored += writers[i].stored;
  }
  for (int i = 0; i < THREADS; i++) {
    bool again = i > 0 && strcmp(session_ids[i], session_ids[i - 1]) == 0;
    if (!again) events += count_appended(store, session_ids[i]);
  }
  assert_int_equal(events, stored);
  assert_int_equal(shared_counter(store, MP_SCOPE_APP), stored);
  assert_int_equal(shared_counter(store, MP_SCOPE_USER), stored);
  folder_close(store);
  expect_sound_file(files->path);
}

static const char *const one_id[THREADS] = {"s", "s", "s", "s", "s", "s", "s", "s"};
static const char *const own_ids[THREADS] = {"0", "1", "2", "3", "4", "5", "6", "7"};

static void test_threads_share_commits(void **state) {
  NEEDS_THREADS();
  sqlite_files *files = *state;
  files->options.durability = MOONPAD_DURABILITY_FULL;
  run_threads(files, own_ids, false);
}

static void test_threads_on_one_session(void **state) {
  NEEDS_THREADS();
  run_threads(*state, one_id, false);
}

static void test_one_failure_leaves_the_others(void **state) {
  NEEDS_THREADS();
  sqlite_files *files = *state;
  files->options.durability = MOONPAD_DURABILITY_FULL;
  run_threads(files, own_ids, true);
}

static void test_threads_in_memory(void **state) {
  NEEDS_THREADS();
  sqlite_files *files = *state;
  writer writers[THREADS];
  memset(writers, 0, sizeof writers);
  mp_store *store;
  assert_int_equal(folder_try(files, ":memory:", &store), MOONPAD_OK);
  for (int i = 0; i < THREADS; i++) {
    writers[i] = (writer){.store = store, .appender = {files->env, one_id[i], i, 0, 50, false}};
    assert_int_equal(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
  assert_int_equal(count_appended(store, "s"), THREADS * APPENDS_PER_THREAD);
  folder_close(store);
}

typedef struct backing_up {
  mp_store *store;
  char path[160];
  moonpad_status status;
} backing_up;

static void *back_up(void *context) {
  backing_up *self = context;
  self->status = self->store->ops->backup(self->store, moonpad_text(self->path), NULL);
  return NULL;
}

static void test_backup_while_others_write(void **state) {
  NEEDS_THREADS();
  sqlite_files *files = *state;
  mp_store *store = folder_open(files);
  writer work = {.store = store, .appender = {files->env, "s", 1, 0, 9000, false}};
  write_many(&work);
  backing_up copy = {.store = store};
  snprintf(copy.path, sizeof copy.path, "%s/copy.db", files->folder);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, back_up, &copy), 0);
  write_many(&work);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(copy.status, MOONPAD_OK);
  assert_int_equal(work.surprises, 0);
  folder_close(store);
  expect_sound_file(copy.path);
  strcpy(files->path, copy.path);
  store = folder_open(files);
  int64_t found = count_appended(store, "s"); /* a moment of the whole: events and counter agree */
  assert_in_range(found, APPENDS_PER_THREAD, 2 * APPENDS_PER_THREAD);
  assert_int_equal(shared_counter(store, MP_SCOPE_APP), found);
  folder_close(store);
}

/* ---- locks ---- */

static sqlite3 *lock_file(const sqlite_files *files) {
  sqlite3 *other;
  assert_int_equal(sqlite3_open(files->path, &other), SQLITE_OK);
  assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
  return other;
}

static void unlock_file(sqlite3 *other) {
  assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_close(other), SQLITE_OK);
}

static void test_busy_and_readers_that_do_not_wait(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 10, false};
  files->options.busy_timeout_ms = 60;
  mp_store *store = folder_open(files);
  assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_OK);
  sqlite3 *other = lock_file(files);
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  one.next = 1;
  assert_int_equal(store->ops->write(store, append_once, &one, &files->error), MOONPAD_BUSY);
  clock_gettime(CLOCK_MONOTONIC, &end);
  double waited = (double)(end.tv_sec - start.tv_sec) * 1e3 + (double)(end.tv_nsec - start.tv_nsec) * 1e-6;
  assert_true(waited >= 59);
  assert_non_null(strstr(files->error.message, "60 ms"));
  assert_int_equal(count_appended(store, "s"), 1);
  unlock_file(other);
  assert_int_equal(store->ops->write(store, append_once, &one, &files->error), MOONPAD_OK);
  assert_int_equal(count_appended(store, "s"), 2);
  folder_close(store);
}

static void test_closed(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 10, false};
  mp_store *store = folder_open(files);
  assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_OK);
  assert_int_equal(count_appended(store, "s"), 1);
  store->ops->close(store);
  store->ops->close(store);
  assert_false(file_exists(files->path, "-wal"));
  assert_int_equal(store->ops->write(store, append_once, &one, &files->error), MOONPAD_CLOSED);
  assert_int_equal(store->ops->read(store, append_once, &one, &files->error), MOONPAD_CLOSED);
  assert_int_equal(store->ops->backup(store, moonpad_text("/tmp/never.db"), &files->error), MOONPAD_CLOSED);
  store->ops->free(store);
}

/*
** Writers and readers at work while another thread closes: each call ends well or says that it
** is closed.
*/
static void *write_until_closed(void *context) {
  writer *self = context;
  moonpad_status status = MOONPAD_OK;
  for (; status == MOONPAD_OK; self->appender.next++) {
    status = self->store->ops->write(self->store, append_once, &self->appender, NULL);
    if (status != MOONPAD_OK) break;
    self->stored++;
    atomic_fetch_add(self->total, 1);
  }
  if (status != MOONPAD_CLOSED) self->surprises++;
  return NULL;
}

static void test_closed_under_way(void **state) {
  NEEDS_THREADS();
  sqlite_files *files = *state;
  writer writers[THREADS];
  memset(writers, 0, sizeof writers);
  atomic_int total;
  atomic_init(&total, 0);
  mp_store *store = folder_open(files);
  for (int i = 0; i < THREADS; i++) {
    writers[i] = (writer){.store = store, .total = &total, .appender = {files->env, "s", i, 0, 50, false}};
    assert_int_equal(pthread_create(&writers[i].thread, NULL, write_until_closed, &writers[i]), 0);
  }
  WAIT_UNTIL(atomic_load(&total) >= 20 * THREADS);
  store->ops->close(store);
  int64_t stored = 0;
  for (int i = 0; i < THREADS; i++) {
    assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
    assert_int_equal(writers[i].surprises, 0);
    stored += writers[i].stored;
  }
  assert_true(stored >= 20 * THREADS);
  store->ops->free(store);
  store = folder_open(files);
  assert_int_equal(count_appended(store, "s"), stored);
  folder_close(store);
}

/* ---- what the writing connection remembers ---- */

static moonpad_status delete_own(mp_tx *tx, void *context, moonpad_error *error) {
  mp_session_ref ref = ref_named("app", "u", context);
  mp_session_row row;
  moonpad_status status = find_row(tx, &ref, &row, error);
  if (status == MOONPAD_OK) status = tx->ops->remove_session(tx, &ref, error);
  if (status == MOONPAD_OK) status = find_row(tx, &ref, &row, error);
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : MOONPAD_CORRUPT;
}

static moonpad_status delete_and_fail(mp_tx *tx, void *context, moonpad_error *error) {
  moonpad_status status = delete_own(tx, context, error);
  return status == MOONPAD_OK ? mp_fail(error, MOONPAD_CONFLICT, "on purpose") : status;
}

/* append_once ends the program when what is remembered is not what is stored. */
static void expect_append(sqlite_files *files, mp_store *store, appender *one) {
  if (store->ops->write(store, append_once, one, &files->error) != MOONPAD_OK) fail_msg("%s", files->error.message);
  one->next++;
}

static void test_nothing_is_remembered_wrongly(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 10, false}, two = {files->env, "t", 2, 0, 10, false};
  char session_id[] = "s";
  mp_store *store = folder_open(files), *other = folder_open(files);
  for (int round = 0; round < 3; round++) {
    expect_append(files, store, &one);
    expect_append(files, store, &two); /* its user and app are those of the first */
    expect_append(files, store, &one);
    one.fail = true; /* what it wrote is gone */
    assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_CONFLICT);
    one.fail = false;
    expect_append(files, store, &one);
    expect_append(files, other, &one); /* another connection of this process */
    expect_append(files, store, &one);
    sql_run(files->path, "UPDATE sessions SET conversation_count = 77, last_update_time = 99 WHERE session_id = 's';"
                         "UPDATE state SET revision = revision + 5 WHERE key = 0");
    expect_append(files, store, &one);
    assert_int_equal(store->ops->write(store, delete_and_fail, session_id, NULL), MOONPAD_CONFLICT);
    expect_append(files, store, &one);
    assert_int_equal(sql_integer(files->path, "SELECT conversation_count FROM sessions WHERE session_id = 's'"), 79);
    assert_int_equal(store->ops->write(store, delete_own, session_id, NULL), MOONPAD_OK);
  }
  folder_close(other);
  folder_close(store);
}

/* ---- the WAL ---- */

#define LARGE_EVENT 100000 /* bytes: 200 of them are 5,000 pages */

static long long wal_size(const sqlite_files *files) {
  char name[512];
  struct stat status;
  snprintf(name, sizeof name, "%s-wal", files->path);
  assert_int_equal(stat(name, &status), 0);
  return (long long)status.st_size;
}

/* Its header counts how often it has started over. */
static int64_t wal_restarts(const sqlite_files *files) {
  char name[512];
  unsigned char header[16];
  snprintf(name, sizeof name, "%s-wal", files->path);
  FILE *file = fopen(name, "rb");
  assert_non_null(file);
  assert_int_equal(fread(header, 1, sizeof header, file), sizeof header);
  fclose(file);
  return (int64_t)header[12] << 24 | (int64_t)header[13] << 16 | (int64_t)header[14] << 8 | (int64_t)header[15];
}

/*
** Two services of one file, as two processes would be: there are new frames whenever a
** checkpoint ends.
*/
static void write_by_two_services(sqlite_files *files, moonpad_durability durability) {
  static const char *const session_ids[] = {"a", "b"};
  writer writers[2];
  memset(writers, 0, sizeof writers);
  files->options.durability = durability;
  for (int i = 0; i < 2; i++) {
    writers[i].store = folder_open(files);
    writers[i].appender = (appender){files->env, session_ids[i], i, 0, LARGE_EVENT, false};
  }
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]), 0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(pthread_join(writers[i].thread, NULL), 0);
    assert_int_equal(writers[i].surprises, 0);
  }
  assert_true(wal_restarts(files) >= 1);
  /*
  ** Half of what was written. With "normal" it depends on how much is written while the disk takes
  ** what is there.
  */
  if (durability == MOONPAD_DURABILITY_FULL) assert_true(wal_size(files) < LARGE_EVENT * APPENDS_PER_THREAD);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(count_appended(writers[i].store, session_ids[i]), APPENDS_PER_THREAD);
    folder_close(writers[i].store);
  }
  expect_sound_file(files->path);
  assert_int_equal(remove(files->path), 0);
}

static void test_wal_starts_over_while_several_write(void **state) {
  NEEDS_SYSTEM_THREADS();
  write_by_two_services(*state, MOONPAD_DURABILITY_NORMAL);
  write_by_two_services(*state, MOONPAD_DURABILITY_FULL);
}

static void append_large(sqlite_files *files, mp_store *store, appender *one, int count) {
  for (int i = 0; i < count; i++) expect_append(files, store, one);
}

static void test_wal_starts_over_after_a_long_read(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, LARGE_EVENT, false};
  sqlite3 *reader;
  files->options.durability = MOONPAD_DURABILITY_NORMAL;
  mp_store *store = folder_open(files);
  expect_append(files, store, &one);
  assert_int_equal(sqlite3_open(files->path, &reader), SQLITE_OK);
  assert_int_equal(sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM events", NULL, NULL, NULL), SQLITE_OK);
  append_large(files, store, &one, 150);
  long long grown = wal_size(files);
  assert_true(grown > 150 * LARGE_EVENT); /* nothing of it can be written over */
  assert_int_equal(sqlite3_close(reader), SQLITE_OK);
  append_large(files, store, &one, 150);
  long long size = wal_size(files);
  append_large(files, store, &one, 200);
  assert_int_equal(wal_size(files), size);
  folder_close(store);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, folder_setup, folder_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_processes_create_and_append),
      TEST(test_killed_while_appending),
      TEST(test_full_disk),
      TEST(test_threads_share_commits),
      TEST(test_threads_on_one_session),
      TEST(test_one_failure_leaves_the_others),
      TEST(test_threads_in_memory),
      TEST(test_backup_while_others_write),
      TEST(test_busy_and_readers_that_do_not_wait),
      TEST(test_nothing_is_remembered_wrongly),
      TEST(test_wal_starts_over_while_several_write),
      TEST(test_wal_starts_over_after_a_long_read),
      TEST(test_closed),
      TEST(test_closed_under_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
