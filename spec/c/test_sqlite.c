/*
** What is SQLite's own: URLs, which files open and what is said of the others, what a damaged file
** does, backups.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "needs_processes.h"
#include "sqlite_support.h"
#include "store_support.h"

/* ---- URLs ---- */

static void expect_failure(sqlite_files *files, const char *rest, moonpad_status status, const char *message) {
  mp_store *store;
  assert_int_equal(folder_try(files, rest, &store), status);
  if (strstr(files->error.message, message) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", files->error.message, message);
  }
}

static void expect_opens_as(sqlite_files *files, const char *rest, const char *path) {
  mp_store *store;
  if (folder_try(files, rest, &store) != MOONPAD_OK) fail_msg("%s: %s", rest, files->error.message);
  folder_close(store);
  assert_true(file_exists(path, ""));
  assert_int_equal(remove(path), 0);
}

static void test_urls(void **state) {
  sqlite_files *files = *state;
  char before[512], rest[256];
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(files->folder), 0);
  expect_opens_as(files, "plain.db", "plain.db");
  expect_opens_as(files, "///relative.db", "relative.db");
#if !defined(_WIN32) /* where no name has such signs */
  expect_opens_as(files, "file:is-a-name?mode=memory", "file:is-a-name?mode=memory");
  expect_opens_as(files, ":memory:x", ":memory:x");
#endif
  expect_opens_as(files, files->path, files->path);
  snprintf(rest, sizeof rest, "///%s", files->path);
  expect_opens_as(files, rest, files->path);
  expect_failure(files, "", MOONPAD_INVALID_ARGUMENT, "sqlite::memory:");
  expect_failure(files, "//", MOONPAD_INVALID_ARGUMENT, "sqlite::memory:");
  expect_failure(files, "///", MOONPAD_INVALID_ARGUMENT, "sqlite::memory:");
  expect_failure(files, "//host/x.db", MOONPAD_INVALID_ARGUMENT, "two slashes");
  expect_failure(files, "bad\xff.db", MOONPAD_INVALID_ARGUMENT, "UTF-8");
  mp_store *store;
  moonpad_string with_nul = {"a\0b", 3};
  assert_int_equal(mp_sqlite_open(files->env, with_nul, &files->options, &store, NULL), MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(chdir(before), 0);
}

static void test_memory_leaves_no_file(void **state) {
  sqlite_files *files = *state;
  char before[512];
  mp_store *first, *second;
  appender one = {files->env, "s", 1, 0, 10, false};
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(files->folder), 0);
  assert_int_equal(folder_try(files, ":memory:", &first), MOONPAD_OK);
  assert_int_equal(folder_try(files, "///:memory:", &second), MOONPAD_OK);
  assert_int_equal(first->ops->write(first, append_once, &one, NULL), MOONPAD_OK);
  assert_int_equal(count_appended(first, "s"), 1);
  assert_int_equal(count_appended(second, "s"), 0);
  folder_close(first);
  folder_close(second);
  assert_int_equal(chdir(before), 0);
  assert_int_equal(rmdir(files->folder), 0);
  assert_int_equal(mkdir(files->folder, 0700), 0);
}

static void test_survives_a_change_of_folder(void **state) {
  sqlite_files *files = *state;
  char before[512];
  mp_store *store;
  appender one = {files->env, "s", 1, 0, 10, false};
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(files->folder), 0);
  assert_int_equal(folder_try(files, "state.db", &store), MOONPAD_OK);
  assert_int_equal(chdir("/"), 0);
  assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_OK);
  assert_int_equal(count_appended(store, "s"), 1); /* opens the first reader */
  folder_close(store);
  assert_int_equal(chdir(before), 0);
}

/* ---- which files open ---- */

static void test_a_new_file_says_what_it_is(void **state) {
  sqlite_files *files = *state;
  folder_close(folder_open(files));
  assert_false(file_exists(files->path, "-wal"));
  assert_int_equal(sql_integer(files->path, "PRAGMA application_id"), 0x6d706164);
  assert_int_equal(sql_integer(files->path, "PRAGMA user_version"), 2);
  assert_int_equal(sql_integer(files->path, "SELECT journal_mode = 'wal' FROM pragma_journal_mode"), 1);
  assert_true(
      sql_integer(files->path, "SELECT sql LIKE '%-- JSON; NULL: removed%' FROM sqlite_schema WHERE name = 'state'"));
  expect_sound_file(files->path);
}

static void test_empty_files_become_ours(void **state) {
  sqlite_files *files = *state;
  file_write(files->path, "", 0);
  folder_close(folder_open(files));
  assert_int_equal(sql_integer(files->path, "PRAGMA user_version"), 2);
  remove(files->path);
  sql_run(files->path, "PRAGMA journal_mode = WAL; VACUUM");
  folder_close(folder_open(files));
  assert_int_equal(sql_integer(files->path, "PRAGMA user_version"), 2);
}

/* Windows has a path's other parts in its own way. */
static const char *last_part(const char *path) {
#if defined(_WIN32)
  return strrchr(path, '/') + 1;
#else
  return path;
#endif
}

/* The file is refused, and is afterwards what it was, with nothing beside it. */
static void expect_refused(sqlite_files *files, moonpad_status status, const char *message) {
  size_t size, size_after;
  char *bytes = file_bytes(files->path, &size);
  expect_failure(files, files->path, status, message);
  assert_non_null(strstr(files->error.message, last_part(files->path)));
  char *after = file_bytes(files->path, &size_after);
  assert_int_equal(size, size_after);
  assert_memory_equal(bytes, after, size);
  assert_false(file_exists(files->path, "-wal"));
  assert_false(file_exists(files->path, "-shm"));
  assert_false(file_exists(files->path, "-journal"));
  free(bytes);
  free(after);
}

static void test_foreign_files_stay_as_they_are(void **state) {
  sqlite_files *files = *state;
  sql_run(files->path, "CREATE TABLE customers(name)");
  expect_refused(files, MOONPAD_CORRUPT, "not a moonpad database");
  remove(files->path);
  sql_run(files->path, "PRAGMA journal_mode = WAL; CREATE TABLE sessions(name)");
  expect_refused(files, MOONPAD_CORRUPT, "not a moonpad database");
  remove(files->path);
  sql_run(files->path, "PRAGMA application_id = 7; VACUUM");
  expect_refused(files, MOONPAD_CORRUPT, "not a moonpad database");
  remove(files->path);
  file_write(files->path, "x", 1);
  expect_refused(files, MOONPAD_CORRUPT, "not a database");
  char garbage[9000];
  for (size_t i = 0; i < sizeof garbage; i++) garbage[i] = (char)(i * 7919 >> 3);
  file_write(files->path, garbage, sizeof garbage);
  expect_refused(files, MOONPAD_CORRUPT, "not a database");
}

static void test_newer_files_stay_as_they_are(void **state) {
  sqlite_files *files = *state;
  folder_close(folder_open(files));
  sql_run(files->path, "PRAGMA user_version = 3");
  expect_refused(files, MOONPAD_UNSUPPORTED, "schema 3, this build knows 2");
}

static void test_damaged_files(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 3000, false};
  mp_store *store = folder_open(files);
  for (one.next = 0; one.next < 20; one.next++) {
    assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_OK);
  }
  folder_close(store);
  size_t size;
  char *bytes = file_bytes(files->path, &size);
  const size_t cuts[] = {1, 99, 100, 511, 512, 4095, 4096, 5000, 8192, size - 4096, size - 1};
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
    file_write(files->path, bytes, cuts[i]);
    expect_refused(files, MOONPAD_CORRUPT, "");
  }
  file_write(files->path, bytes, size);
  sql_run(files->path, "DROP TABLE base_state");
  expect_failure(files, files->path, MOONPAD_CORRUPT, "tables of moonpad are missing");
  free(bytes);
}

/* ---- files and folders that cannot be used ---- */

static void test_missing_folders(void **state) {
  sqlite_files *files = *state;
  char path[300], folder[256];
  snprintf(folder, sizeof folder, "%s/nowhere", files->folder);
  snprintf(path, sizeof path, "%s/state.db", folder);
  expect_failure(files, path, MOONPAD_STORAGE, folder);
#if !defined(_WIN32) /* which has words of its own for it */
  assert_non_null(strstr(files->error.message, "No such file or directory"));
#endif
  file_write(folder, "", 0);
  expect_failure(files, path, MOONPAD_STORAGE, "is not a folder");
  remove(folder);
  expect_failure(files, files->folder, MOONPAD_STORAGE, "is a folder, not a file");
}

#define STAYS_ROOT 99 /* a container may not let it go */

/*
** Runs in a child without root's rights, which no permission stops. Gives its exit code: the status
** of opening, with 100 added when the message lacks `message`.
*/
static int open_as_nobody(sqlite_files *files, const char *message) {
  pid_t child = fork();
  if (child == 0) {
    mp_store *store;
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(STAYS_ROOT);
    moonpad_status status =
        mp_sqlite_open(files->env, moonpad_text(files->path), &files->options, &store, &files->error);
    bool says = strstr(files->error.message, message) != NULL && strstr(files->error.message, files->path) != NULL;
    _exit((int)status + (says ? 0 : 100));
  }
  int result = 0;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  return WEXITSTATUS(result);
}

static void test_permissions(void **state) {
  NEEDS_PROCESSES();
  sqlite_files *files = *state;
  folder_close(folder_open(files));
  assert_int_equal(chmod(files->folder, 0777), 0);
  assert_int_equal(chmod(files->path, 0444), 0);
  int result = open_as_nobody(files, "read-only");
  if (result == STAYS_ROOT) skip();
  assert_int_equal(result, MOONPAD_STORAGE);
  assert_int_equal(chmod(files->path, 0000), 0);
  assert_int_equal(open_as_nobody(files, "Permission denied"), MOONPAD_STORAGE);
  assert_int_equal(chmod(files->path, 0666), 0);
  assert_int_equal(chmod(files->folder, 0555), 0);
  assert_int_equal(open_as_nobody(files, "its folder cannot be written"), MOONPAD_STORAGE);
  assert_int_equal(chmod(files->folder, 0777), 0);
  assert_int_equal(remove(files->path), 0);
  assert_int_equal(chmod(files->folder, 0555), 0);
  assert_int_equal(open_as_nobody(files, "cannot be written: Permission denied"), MOONPAD_STORAGE);
}

/* ---- what is in a file is not trusted ---- */

static moonpad_status ignore_event(void *context, const mp_event_row *row, moonpad_error *error) {
  (void)error;
  *(size_t *)context += row->json.length;
  return MOONPAD_OK;
}

static moonpad_status ignore_key(void *context, const mp_state_row *row, moonpad_error *error) {
  (void)error;
  *(size_t *)context += row->value == NULL ? 0 : mp_value_size(row->value);
  return MOONPAD_OK;
}

static moonpad_status read_keys(mp_tx *tx, void *context, moonpad_error *error) {
  mp_facts facts;
  mp_session_ref ref = {.session = 1};
  mp_look look = look_at(&ref, MP_SCOPE_SESSION);
  look.since[MP_SCOPE_SESSION] = MP_EVERY_KEY;
  look.each_state = ignore_key;
  look.context = context;
  return tx->ops->look(tx, &look, &facts, error);
}

static moonpad_status read_events(mp_tx *tx, void *context, moonpad_error *error) {
  mp_session_ref ref = {.session = 1};
  return walk_events(tx, &ref, 0, INT64_MAX, ignore_event, context, error);
}

static void expect_read(sqlite_files *files, mp_store *store, mp_tx_function function, moonpad_status status) {
  size_t bytes = 0;
  memset(&files->error, 0, sizeof files->error);
  assert_int_equal(store->ops->read(store, function, &bytes, &files->error), status);
  if (status != MOONPAD_OK) assert_non_null(strstr(files->error.message, "damaged"));
}

static void set_text(sqlite_files *files, const char *table, const char *column, const char *hex) {
  char sql[512];
  snprintf(sql, sizeof sql, "UPDATE %s SET %s = CAST(x'%s' AS TEXT)", table, column, hex);
  sql_run(files->path, sql);
}

static void test_text_that_is_not_ours(void **state) {
  /*
  ** not JSON, cut short, not UTF-8, a NUL, a lone surrogate, bad numbers, a bad escape, trailing
  ** text, no text at all
  */
  static const char *const bad[] = {
      "78",       "7B2261",     "22FF22",         "220022",           "225C75443830302022",
      "2D",       "30312E3031", "225C7531323A22", "7B2261223A317D78", "",
      "5B312C5D", "7B2261227D", "5B31653939395D"};
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 10, false};
  mp_store *store = folder_open(files);
  assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_OK);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    set_text(files, "state", "value", bad[i]);
    set_text(files, "events", "event", bad[i]);
    expect_read(files, store, read_keys, MOONPAD_CORRUPT);
    expect_read(files, store, read_events, MOONPAD_CORRUPT);
  }
  set_text(files, "events", "event", "5B5D"); /* JSON, but no object */
  expect_read(files, store, read_events, MOONPAD_CORRUPT);
  /* White space, of an edit by hand, is welcome. */
  sql_run(files->path, "UPDATE state SET value = ' { \"a\" : 1 }'; UPDATE events SET event = ' { \"a\" : 1 }'");
  expect_read(files, store, read_keys, MOONPAD_OK);
  expect_read(files, store, read_events, MOONPAD_OK);
  folder_close(store);
}

/*
** Events that are read along with their session are not what it is got for: who looks at them
** learns what is wrong.
*/
static void test_a_damaged_event_does_not_keep_its_session(void **state) {
  sqlite_files *files = *state;
  char url[160];
  snprintf(url, sizeof url, "sqlite:%s", files->path);
  moonpad_session_name name = {moonpad_text("hotel"), moonpad_text("ann"), moonpad_text("s")};
  moonpad_error *error = &files->error;
  moonpad_service *service;
  moonpad_session *session;
  moonpad_event *event;
  moonpad_value value;
  assert_int_equal(moonpad_open(moonpad_text(url), NULL, &service, error), MOONPAD_OK);
  assert_int_equal(moonpad_create_session(service, &name, moonpad_text("{\"a\":1}"), &session, error), MOONPAD_OK);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(moonpad_append_event(session, moonpad_text("{\"author\":\"x\"}"), NULL, error), MOONPAD_OK);
  }
  moonpad_session_free(session);
  sql_run(files->path, "UPDATE events SET event = '{{' WHERE rowid = (SELECT max(rowid) FROM events)");
  moonpad_get_options options;
  moonpad_get_options_init(&options);
  options.num_recent_events = 2;
  assert_int_equal(moonpad_get_session(service, &name, &options, &session, error), MOONPAD_OK);
  assert_int_equal(moonpad_session_revision(session), 3);
  assert_int_equal(moonpad_session_read(session, moonpad_text("a"), moonpad_text(""), &value, error), MOONPAD_OK);
  assert_int_equal(value.as.integer, 1);
  assert_int_equal(moonpad_session_event(session, 1, &event, error), MOONPAD_CORRUPT);
  moonpad_session_free(session);
  moonpad_service_release(service);
}

static void test_bytes_that_change(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 200, false};
  mp_store *store = folder_open(files);
  for (one.next = 0; one.next < 60; one.next++) {
    assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_OK);
  }
  folder_close(store);
  size_t size, ignored = 0;
  char *bytes = file_bytes(files->path, &size);
  uint32_t random = 12345;
  for (int round = 0; round < 300; round++) {
    char *damaged = malloc(size);
    assert_non_null(damaged);
    memcpy(damaged, bytes, size);
    for (int i = 0; i < 20; i++) {
      random = random * 1664525u + 1013904223u;
      damaged[100 + (random >> 4) % (size - 100)] = (char)(random >> 24);
    }
    file_write(files->path, damaged, size);
    free(damaged);
    if (folder_try(files, files->path, &store) != MOONPAD_OK) continue;
    /* Whatever they say, they come back. */
    one.next = 1000;
    store->ops->write(store, append_once, &one, NULL);
    store->ops->read(store, read_keys, &ignored, NULL);
    store->ops->read(store, read_events, &ignored, NULL);
    folder_close(store);
  }
  free(bytes);
}

/* ---- backup ---- */

static void test_backup(void **state) {
  sqlite_files *files = *state;
  char copy[160];
  snprintf(copy, sizeof copy, "%s/copy.db", files->folder);
  appender one = {files->env, "s", 1, 0, 500, false};
  mp_store *store = folder_open(files);
  for (one.next = 0; one.next < 100; one.next++) {
    assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_OK);
  }
  assert_int_equal(store->ops->backup(store, moonpad_text(copy), &files->error), MOONPAD_OK);
  assert_false(file_exists(copy, "-journal"));
  assert_int_equal(store->ops->backup(store, moonpad_text(copy), &files->error), MOONPAD_ALREADY_EXISTS);
  assert_non_null(strstr(files->error.message, copy));
  assert_int_equal(store->ops->backup(store, moonpad_text(""), &files->error), MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(store->ops->backup(store, moonpad_text("/nowhere/x.db"), &files->error), MOONPAD_STORAGE);
  folder_close(store);
  expect_sound_file(copy);
  strcpy(files->path, copy);
  store = folder_open(files);
  assert_int_equal(count_appended(store, "s"), 100);
  folder_close(store);
}

static void test_backup_of_memory(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 500, false};
  mp_store *store;
  assert_int_equal(folder_try(files, ":memory:", &store), MOONPAD_OK);
  assert_int_equal(store->ops->write(store, append_once, &one, NULL), MOONPAD_OK);
  assert_int_equal(store->ops->backup(store, moonpad_text(files->path), &files->error), MOONPAD_OK);
  folder_close(store);
  store = folder_open(files);
  assert_int_equal(count_appended(store, "s"), 1);
  folder_close(store);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, folder_setup, folder_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_urls),
      TEST(test_memory_leaves_no_file),
      TEST(test_survives_a_change_of_folder),
      TEST(test_a_new_file_says_what_it_is),
      TEST(test_empty_files_become_ours),
      TEST(test_foreign_files_stay_as_they_are),
      TEST(test_newer_files_stay_as_they_are),
      TEST(test_damaged_files),
      TEST(test_missing_folders),
      TEST(test_permissions),
      TEST(test_text_that_is_not_ours),
      TEST(test_a_damaged_event_does_not_keep_its_session),
      TEST(test_bytes_that_change),
      TEST(test_backup),
      TEST(test_backup_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
