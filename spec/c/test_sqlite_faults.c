/* The SQLite store on a disk that fails, and on one whose power is cut. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fault_steps.h"
#include "faulty_vfs.h"
#include "service/service.h"
#include "sqlite_memory.h"
#include "sqlite_support.h"

/*
** ---- A session whose events can be counted: the n-th writes n into each stored scope and into a
** key of its own ----
*/

typedef struct fault_scene {
  char url[160];
  moonpad_service *service;
  moonpad_session *session;
  long tried, acknowledged; /* events; those of failed calls may be stored or not */
} fault_scene;

static moonpad_session_name session_name(void) {
  moonpad_session_name name = {moonpad_text("app"), moonpad_text("u"), moonpad_text("s")};
  return name;
}

static moonpad_status open_scene(fault_scene *scene, const char *path, moonpad_durability durability,
                                 moonpad_error *error) {
  moonpad_options options;
  moonpad_options_init(&options);
  options.durability = durability;
  options.busy_timeout_ms = 5;
  snprintf(scene->url, sizeof scene->url, "sqlite:%s", path);
  return moonpad_open(moonpad_text(scene->url), &options, &scene->service, error);
}

/* scene->session stays NULL when it is not there. */
static moonpad_status find_session(fault_scene *scene, moonpad_error *error) {
  moonpad_session_name name = session_name();
  moonpad_status status = moonpad_get_session(scene->service, &name, NULL, &scene->session, error);
  return status == MOONPAD_NOT_FOUND ? MOONPAD_OK : status;
}

static void create_scene(fault_scene *scene, const char *path, moonpad_durability durability) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_session_name name = session_name();
  memset(scene, 0, sizeof *scene);
  if (open_scene(scene, path, durability, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  assert_int_equal(moonpad_create_session(scene->service, &name, moonpad_text("{\"last\":0}"), &scene->session, &error),
                   MOONPAD_OK);
}

static void close_scene(fault_scene *scene) {
  moonpad_session_free(scene->session);
  moonpad_service_release(scene->service);
  scene->session = NULL;
  scene->service = NULL;
}

static moonpad_status append_next(fault_scene *scene, moonpad_error *error) {
  char event[256];
  long number = ++scene->tried;
  snprintf(event, sizeof event,
           "{\"id\":\"e%ld\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"last\":%ld,\"user:last\":%ld,"
           "\"app:last\":%ld,\"k%ld\":%ld}}}",
           number, number, number, number, number, number);
  moonpad_status status = moonpad_append_event(scene->session, moonpad_text(event), NULL, error);
  if (status == MOONPAD_OK) scene->acknowledged++;
  return status;
}

/* ---- What must hold whatever has happened ---- */

static int64_t integer_of(moonpad_session *session, const char *key) {
  moonpad_value value;
  assert_int_equal(moonpad_session_read(session, moonpad_text(key), moonpad_text(""), &value, NULL), MOONPAD_OK);
  return value.type == MOONPAD_INTEGER ? value.as.integer : value.type == MOONPAD_ABSENT ? 0 : -1;
}

/*
** The events are whole and in order, each has left its key, and the last one speaks in all scopes.
** Returns the number of the last; `count` gets how many there are.
*/
static long expect_whole(moonpad_session *session, size_t *count) {
  long last = 0;
  assert_int_equal(moonpad_session_event_count(session, count, NULL), MOONPAD_OK);
  assert_int_equal(moonpad_session_revision(session), (int64_t)*count);
  for (size_t i = 0; i < *count; i++) {
    moonpad_event *event;
    char key[32];
    assert_int_equal(moonpad_session_event(session, i, &event, NULL), MOONPAD_OK);
    moonpad_string id = moonpad_event_id(event);
    snprintf(key, sizeof key, "%.*s", (int)id.length, id.data);
    long number = strtol(key + 1, NULL, 10);
    assert_int_equal(moonpad_event_revision(event), (int64_t)i + 1);
    moonpad_event_free(event);
    assert_true(number > last);
    last = number;
    snprintf(key, sizeof key, "k%ld", number);
    assert_int_equal(integer_of(session, key), number);
  }
  assert_int_equal(integer_of(session, "last"), last);
  assert_int_equal(integer_of(session, "user:last"), last);
  assert_int_equal(integer_of(session, "app:last"), last);
  return last;
}

/* ---- 1: calls that fail ---- */

static bool is_expected(moonpad_status status) {
  return status == MOONPAD_OK || status == MOONPAD_STORAGE || status == MOONPAD_BUSY || status == MOONPAD_CORRUPT;
}

static void expect_outcome(moonpad_status status, const moonpad_error *error, fault_kind kind, long n) {
  if (!is_expected(status)) fail_msg("fault %d at %ld: status %d: %s", kind, n, status, error->message);
  if (status != MOONPAD_OK) assert_true(error->message[0] != '\0');
}

/* Some of everything that touches the file, with the fault in one of the calls. */
static void use_scene(fault_scene *scene, fault_kind kind, long n) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_session *found = NULL;
  moonpad_session_name name = session_name();
  for (int i = 0; i < 3; i++) expect_outcome(append_next(scene, &error), &error, kind, n);
  expect_outcome(moonpad_get_session(scene->service, &name, NULL, &found, &error), &error, kind, n);
  if (found != NULL) {
    moonpad_event *event = NULL;
    expect_outcome(moonpad_session_event(found, 0, &event, &error), &error, kind, n);
    moonpad_event_free(event);
  }
  moonpad_session_free(found);
  expect_outcome(moonpad_refresh(scene->session, &error), &error, kind, n);
  expect_outcome(mp_vacuum(scene->service, &error), &error, kind, n);
  expect_outcome(append_next(scene, &error), &error, kind, n);
}

static void expect_repaired(fault_scene *scene, const sqlite_files *files) {
  moonpad_error error = {MOONPAD_OK, ""};
  size_t count;
  long before = scene->acknowledged;
  if (moonpad_refresh(scene->session, &error) != MOONPAD_OK) fail_msg("refresh afterwards: %s", error.message);
  if (append_next(scene, &error) != MOONPAD_OK) fail_msg("an append afterwards: %s", error.message);
  assert_int_equal(scene->acknowledged, before + 1);
  close_scene(scene);
  expect_sound_file(files->path);
  if (open_scene(scene, files->path, MOONPAD_DURABILITY_FULL, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  assert_int_equal(find_session(scene, &error), MOONPAD_OK);
  assert_int_equal(expect_whole(scene->session, &count), scene->tried);
  assert_in_range(count, (size_t)scene->acknowledged, (size_t)scene->tried);
}

/* The n-th operation of a kind, until there are no more of them. The first one in every turn. */
static void fail_each(const sqlite_files *files, fault_kind kind, bool lasting) {
  bool has_failed = true;
  long n = 1;
  for (; has_failed; n = fault_in_turn(n, 1)) {
    fault_scene scene;
    moonpad_error error = {MOONPAD_OK, ""};
    create_scene(&scene, files->path, MOONPAD_DURABILITY_FULL);
    assert_int_equal(append_next(&scene, &error), MOONPAD_OK);
    faulty_vfs_arm(kind, n, lasting);
    use_scene(&scene, kind, n);
    has_failed = faulty_vfs_has_failed();
    faulty_vfs_arm(FAULT_NONE, 0, false);
    expect_repaired(&scene, files);
    close_scene(&scene);
    remove_files(files->path);
  }
  assert_true(n > 2 || kind == FAULT_READ); /* what was read before is in the cache */
}

static void test_calls_on_a_failing_disk(void **state) {
  for (int kind = FAULT_READ; kind < FAULT_KINDS; kind++) {
    if (kind == FAULT_OPEN) continue;
    fail_each(*state, (fault_kind)kind, false);
    fail_each(*state, (fault_kind)kind, true);
  }
}

/* ---- 2: opening and closing on a failing disk ---- */

static void test_opening_on_a_failing_disk(void **state) {
  const sqlite_files *files = *state;
  for (int kind = FAULT_READ; kind < FAULT_KINDS; kind++) {
    bool has_failed = true;
    for (long n = 1; has_failed; n = fault_in_turn(n, 1)) {
      fault_scene scene;
      moonpad_error error = {MOONPAD_OK, ""};
      size_t count;
      create_scene(&scene, files->path, MOONPAD_DURABILITY_FULL);
      assert_int_equal(append_next(&scene, &error), MOONPAD_OK);
      faulty_vfs_arm((fault_kind)kind, n, true);
      close_scene(&scene); /* writes the WAL back */
      moonpad_status status = open_scene(&scene, files->path, MOONPAD_DURABILITY_FULL, &error);
      expect_outcome(status, &error, (fault_kind)kind, n);
      if (status == MOONPAD_OK) moonpad_service_release(scene.service);
      has_failed = faulty_vfs_has_failed();
      faulty_vfs_arm(FAULT_NONE, 0, false);
      assert_int_equal(open_scene(&scene, files->path, MOONPAD_DURABILITY_FULL, &error), MOONPAD_OK);
      assert_int_equal(find_session(&scene, &error), MOONPAD_OK);
      assert_int_equal(expect_whole(scene.session, &count), 1);
      close_scene(&scene);
      expect_sound_file(files->path);
      remove_files(files->path);
    }
  }
}

/* ---- 3: a power cut ---- */

#define EVENTS_BEFORE_CLOSE 200 /* more than one checkpoint */
#define EVENTS_AFTERWARDS   60
#define WRITES_BETWEEN_CUTS 220

typedef struct power_run {
  fault_scene scene;
  moonpad_durability durability;
  char after[160]; /* what a cut leaves */
  uint64_t seed;
  long cuts;
} power_run;

/*
** What is found after a cut: all that was acknowledged (`full`), or the beginning of it (`normal`),
** and nothing by halves.
*/
static void expect_survivors(void *context) {
  power_run *run = context;
  fault_scene scene;
  moonpad_error error = {MOONPAD_OK, ""};
  size_t count = 0;
  long last = 0;
  memset(&scene, 0, sizeof scene);
  run->cuts++;
  expect_sound_file(run->after);
  moonpad_status status = open_scene(&scene, run->after, run->durability, &error);
  if (status == MOONPAD_OK) status = find_session(&scene, &error);
  if (status != MOONPAD_OK) fail_msg("seed %llu, cut %ld: %s", (unsigned long long)run->seed, run->cuts, error.message);
  if (scene.session != NULL) last = expect_whole(scene.session, &count);
  assert_int_equal(last, (long)count);
  bool lost = run->durability == MOONPAD_DURABILITY_FULL && last < run->scene.acknowledged;
  if (lost || last > run->scene.tried) {
    fail_msg("seed %llu, cut %ld: %ld events of %ld, and %ld were acknowledged", (unsigned long long)run->seed,
             run->cuts, last, run->scene.tried, run->scene.acknowledged);
  }
  close_scene(&scene);
  remove_files(run->after);
}

static void append_many(fault_scene *scene, int count) {
  moonpad_error error = {MOONPAD_OK, ""};
  for (int i = 0; i < count; i++) {
    if (append_next(scene, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  }
}

/* Creating the file, appending, closing, opening again, appending: with power cuts now and then. */
static void run_with_cuts(const sqlite_files *files, const char *folder, power_run *run) {
  fault_scene *scene = &run->scene;
  moonpad_error error = {MOONPAD_OK, ""};
  memset(scene, 0, sizeof *scene);
  faulty_vfs_record(folder, WRITES_BETWEEN_CUTS, run->seed, expect_survivors, run);
  create_scene(scene, files->path, run->durability);
  append_many(scene, EVENTS_BEFORE_CLOSE);
  close_scene(scene);
  assert_int_equal(open_scene(scene, files->path, run->durability, &error), MOONPAD_OK);
  assert_int_equal(find_session(scene, &error), MOONPAD_OK);
  append_many(scene, EVENTS_AFTERWARDS);
  close_scene(scene);
  assert_true(faulty_vfs_stop() > EVENTS_BEFORE_CLOSE + EVENTS_AFTERWARDS);
  remove_files(files->path);
}

static void cut_often(const sqlite_files *files, moonpad_durability durability, long runs) {
  char folder[128];
  power_run run = {.durability = durability};
  snprintf(folder, sizeof folder, "%s/after", files->folder);
  snprintf(run.after, sizeof run.after, "%s/state.db", folder);
  assert_int_equal(mkdir(folder, 0700), 0);
  uint64_t seed = fault_seeds(runs);
  for (long i = 0; i < runs; i++) {
    run.seed = seed++;
    run_with_cuts(files, folder, &run);
  }
  assert_true(run.cuts > runs * 5);
  rmdir(folder);
}

static void test_power_cuts_lose_nothing_acknowledged(void **state) {
  cut_often(*state, MOONPAD_DURABILITY_FULL, fault_count(10));
}

static void test_power_cuts_leave_whole_events(void **state) {
  cut_often(*state, MOONPAD_DURABILITY_NORMAL, fault_count(10));
}

/* ---- 4: SQLite without memory ---- */

static bool may_lack_memory(moonpad_status status) {
  return status == MOONPAD_OK || status == MOONPAD_NO_MEMORY;
}

/* Opening, creating, appending, reading, closing. False when nothing failed. */
static bool live_without_memory(const sqlite_files *files, long n, bool lasting, fault_scene *scene) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_session_name name = session_name();
  sqlite_memory_arm(n, lasting);
  moonpad_status status = open_scene(scene, files->path, MOONPAD_DURABILITY_NORMAL, &error);
  if (status == MOONPAD_OK) {
    status = moonpad_create_session(scene->service, &name, moonpad_text("{\"last\":0}"), &scene->session, &error);
    for (int i = 0; status == MOONPAD_OK && i < 2; i++) status = append_next(scene, &error);
    moonpad_session *found = NULL;
    moonpad_status reading = moonpad_get_session(scene->service, &name, NULL, &found, &error);
    bool was_created = scene->session != NULL;
    moonpad_status vacuum = mp_vacuum(scene->service, &error);
    if (!may_lack_memory(vacuum)) fail_msg("vacuum at %ld: status %d: %s", n, vacuum, error.message);
    if (!may_lack_memory(reading) && (was_created || reading != MOONPAD_NOT_FOUND))
      fail_msg("reading at %ld: status %d: %s", n, reading, error.message);
    moonpad_session_free(found);
    close_scene(scene);
  }
  if (!may_lack_memory(status)) fail_msg("at %ld: status %d: %s", n, status, error.message);
  return sqlite_memory_disarm();
}

/* The first ones one by one, then one in 13. */
static long next_without_memory(long n) {
  return fault_in_turn(n, (n < 200 ? 1 : 13) * valgrind_stride());
}

static void test_sqlite_without_memory(void **state) {
  const sqlite_files *files = *state;
  for (int lasting = 0; lasting < 2; lasting++) {
    bool has_failed = true;
    long n = next_without_memory(0);
    for (; has_failed; n = next_without_memory(n)) {
      fault_scene scene;
      moonpad_error error = {MOONPAD_OK, ""};
      size_t count = 0;
      memset(&scene, 0, sizeof scene);
      sqlite3_int64 used = sqlite3_memory_used();
      has_failed = live_without_memory(files, n, lasting == 1, &scene);
      assert_int_equal(sqlite3_memory_used(), used);
      assert_int_equal(open_scene(&scene, files->path, MOONPAD_DURABILITY_NORMAL, &error), MOONPAD_OK);
      assert_int_equal(find_session(&scene, &error), MOONPAD_OK);
      if (scene.session != NULL) expect_whole(scene.session, &count);
      assert_in_range(count, (size_t)scene.acknowledged, (size_t)scene.tried);
      close_scene(&scene);
      remove_files(files->path);
    }
  }
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, folder_setup, folder_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_calls_on_a_failing_disk),
      TEST(test_opening_on_a_failing_disk),
      TEST(test_power_cuts_lose_nothing_acknowledged),
      TEST(test_power_cuts_leave_whole_events),
      TEST(test_sqlite_without_memory),
  };
  sqlite_memory_install();
  faulty_vfs_install();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
