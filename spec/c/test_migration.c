/*
** Files that were written with schema 1 (spec/fixtures/schema_1) and are opened now: all that
** was in them is in them, to the byte, whatever happens on the way. A disk that fails, a process
** that is killed, power that is cut and memory that ends leave a file of schema 1, which is
** migrated when it is opened next, or one of schema 2.
*/
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "counting_allocator.h"
#include "fault_steps.h"
#include "faulty_vfs.h"
#include "needs_processes.h"
#include "sqlite_memory.h"
#include "sqlite_support.h"

#define MOST_TABLES 32

/* ---- what was written then ---- */

typedef struct old_file {
  const char *name;
  const char *sql; /* run on it first; may be NULL */
  char *bytes, *log;
  size_t size, log_size; /* log_size 0: there is none */
  char *queries[MOST_TABLES];
  size_t query_count;
  char *rows; /* what they give */
} old_file;

static old_file old_files[] = {
    {.name = "sessions"},
    {.name = "killed"},
    {.name = "sessions", .sql = "PRAGMA journal_mode = DELETE"},
    {.name = "empty"},
    {.name = "kept"},
    {.name = "sessions",
     .sql = "CREATE TABLE notes(a); INSERT INTO notes VALUES('of somebody else'); CREATE INDEX by_time ON "
            "events(timestamp);"
            "CREATE VIEW last AS SELECT * FROM sessions; CREATE TRIGGER t AFTER INSERT ON notes BEGIN SELECT 1; END"},
};
#define OLD_FILES (sizeof old_files / sizeof *old_files)
#define SESSIONS  (&old_files[0])
/* The first ones: with a log that is empty, one that is not, and another kind of journal. */
#define HARMED_FILES 3

static bool unpack(const char *name, const char *suffix, const char *path) {
  char command[400];
  snprintf(command, sizeof command, "f=spec/fixtures/schema_1/%s.db%s.gz; [ ! -f $f ] || gzip -dc $f > '%s%s'", name,
           suffix, path, suffix);
  assert_int_equal(system(command), 0);
  return file_exists(path, suffix);
}

static char *copy_text(const char *text) {
  char *copy = malloc(strlen(text) + 1);
  assert_non_null(copy);
  return strcpy(copy, text);
}

/* The first column of all rows, a line each, behind what `text` holds, which is freed. */
static char *add_rows(sqlite3 *db, const char *sql, char *text) {
  sqlite3_stmt *statement;
  size_t length = strlen(text);
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  while (sqlite3_step(statement) == SQLITE_ROW) {
    size_t size = (size_t)sqlite3_column_bytes(statement, 0);
    text = realloc(text, length + size + 2);
    assert_non_null(text);
    memcpy(text + length, sqlite3_column_text(statement, 0), size);
    strcpy(text + length + size, "\n");
    length += size + 1;
  }
  if (sqlite3_finalize(statement) != SQLITE_OK) fail_msg("%s: %s", sql, sqlite3_errmsg(db));
  return text;
}

static char *rows_of(const old_file *file, sqlite3 *db) {
  char *rows = copy_text("");
  for (size_t i = 0; i < file->query_count; i++) rows = add_rows(db, file->queries[i], rows);
  return rows;
}

/* Asks for all columns of all tables as they are now. */
static void make_queries(old_file *file, sqlite3 *db) {
  char *text = add_rows(db,
                        "SELECT 'SELECT ' || (SELECT group_concat('quote(\"' || name || '\")', ' || '','' || ')"
                        " FROM pragma_table_xinfo(t.name)) || ' FROM \"' || t.name || '\"'"
                        " FROM sqlite_schema t WHERE type = 'table' ORDER BY name",
                        copy_text(""));
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    assert_true(file->query_count < MOST_TABLES);
    file->queries[file->query_count++] = copy_text(line);
  }
  free(text);
  assert_true(file->query_count >= 6);
}

static sqlite3 *open_raw(const char *path) {
  sqlite3 *db;
  assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
  return db;
}

static void learn(const sqlite_files *files, old_file *file) {
  if (file->query_count > 0) return;
  unpack(file->name, "", files->path);
  if (file->sql != NULL) sql_run(files->path, file->sql);
  file->bytes = file_bytes(files->path, &file->size);
  if (unpack(file->name, "-wal", files->path)) {
    char log[200];
    snprintf(log, sizeof log, "%s-wal", files->path);
    file->log = file_bytes(log, &file->log_size);
  }
  sqlite3 *db = open_raw(files->path);
  make_queries(file, db);
  file->rows = rows_of(file, db);
  sqlite3_close(db);
  assert_int_equal(sql_integer(files->path, "PRAGMA user_version"), 1);
  remove_files(files->path);
}

/* Puts it where it is to be opened. */
static void put(const sqlite_files *files, const old_file *file) {
  char log[200];
  remove_files(files->path);
  file_write(files->path, file->bytes, file->size);
  snprintf(log, sizeof log, "%s-wal", files->path);
  if (file->log_size > 0) file_write(log, file->log, file->log_size);
}

static void forget(old_file *file) {
  for (size_t i = 0; i < file->query_count; i++) free(file->queries[i]);
  free(file->bytes);
  free(file->log);
  free(file->rows);
}

static int forget_all(void **state) {
  (void)state;
  for (size_t i = 0; i < OLD_FILES; i++) forget(&old_files[i]);
  return 0;
}

/* ---- what must hold whatever has happened ---- */

#define NEW_COLUMNS                                                                                                    \
  "(SELECT count(*) FROM pragma_table_info('sessions') WHERE name IN ('recent', 'touched', 'forgotten'))"              \
  " + (SELECT count(*) FROM pragma_table_info('state') WHERE name IN ('touched', 'forgotten'))"                        \
  " + (SELECT count(*) FROM pragma_table_info('events') WHERE name IN ('invocation', 'kinds'))"                        \
  " + (SELECT count(*) FROM pragma_table_info('tokens') WHERE name IN ('token', 'time'))"
#define NEW_COLUMN_COUNT 9

/* It is of one schema or the other, and all that was in it is there. Gives the schema. */
static int64_t expect_whole(const old_file *file, const char *path) {
  expect_sound_file(path);
  int64_t version = sql_integer(path, "PRAGMA user_version");
  assert_in_range(version, 1, 2);
  assert_int_equal(sql_integer(path, "SELECT " NEW_COLUMNS), version == 1 ? 0 : NEW_COLUMN_COUNT);
  sqlite3 *db = open_raw(path);
  char *rows = rows_of(file, db);
  assert_string_equal(rows, file->rows);
  free(rows);
  sqlite3_close(db);
  return version;
}

/* The same, in a copy: who looks would put in order what opening has to. */
static int64_t expect_whole_copy(const old_file *file, const char *path) {
  static const char *const suffixes[] = {"", "-wal", "-journal"};
  char from[200], to[200], copy[160];
  size_t size;
  snprintf(copy, sizeof copy, "%s.copy", path);
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    if (!file_exists(path, suffixes[i])) continue;
    snprintf(from, sizeof from, "%s%s", path, suffixes[i]);
    snprintf(to, sizeof to, "%s%s", copy, suffixes[i]);
    char *bytes = file_bytes(from, &size);
    file_write(to, bytes, size);
    free(bytes);
  }
  int64_t version = expect_whole(file, copy);
  remove_files(copy);
  return version;
}

/* All works again. */
static void expect_migrates(const sqlite_files *files, const old_file *file, const char *path) {
  mp_store *store;
  moonpad_error error = {MOONPAD_OK, ""};
  if (mp_sqlite_open(files->env, moonpad_text(path), &files->options, &store, &error) != MOONPAD_OK)
    fail_msg("%s: %s", file->name, error.message);
  folder_close(store);
  assert_int_equal(expect_whole(file, path), 2);
  assert_false(file_exists(path, "-wal"));
  assert_false(file_exists(path, "-journal"));
}

static void test_nothing_is_lost(void **state) {
  sqlite_files *files = *state;
  for (size_t i = 0; i < OLD_FILES; i++) {
    learn(files, &old_files[i]);
    put(files, &old_files[i]);
    expect_migrates(files, &old_files[i], files->path);
    expect_migrates(files, &old_files[i], files->path); /* once is enough */
  }
}

static void test_new_columns_are_empty(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 10, false};
  for (int migrated = 0; migrated < 2; migrated++) {
    if (migrated) put(files, SESSIONS);
    mp_store *store = folder_open(files);
    assert_int_equal(store->ops->write(store, append_once, &one, &files->error), MOONPAD_OK);
    folder_close(store);
    assert_int_equal(sql_integer(files->path, "SELECT " NEW_COLUMNS), NEW_COLUMN_COUNT);
    assert_int_equal(sql_integer(files->path, "SELECT count(*) FROM events WHERE invocation IS NOT NULL"), 0);
    assert_int_equal(sql_integer(files->path, "SELECT count(*) FROM sessions WHERE forgotten IS NOT NULL"), 0);
    assert_int_equal(sql_integer(files->path, "SELECT count(*) FROM tokens"), 0);
    remove_files(files->path);
  }
}

/*
** In a new file an event's JSON is its last column, so that what stands before it is found
** without it.
*/
static void test_json_comes_last(void **state) {
  sqlite_files *files = *state;
  folder_close(folder_open(files));
  assert_int_equal(sql_integer(files->path, "SELECT name = 'event' FROM pragma_table_info('events') ORDER BY cid DESC"),
                   1);
}

/* ---- what cannot be migrated ---- */

static void expect_refused(sqlite_files *files, moonpad_status status, const char *message) {
  mp_store *store;
  assert_int_equal(folder_try(files, files->path, &store), status);
  if (strstr(files->error.message, message) == NULL) fail_msg("%s", files->error.message);
  assert_non_null(strstr(files->error.message, files->path));
}

static void test_a_table_in_the_way(void **state) {
  sqlite_files *files = *state;
  old_file file = {.name = "sessions", .sql = "CREATE TABLE tokens(of_somebody_else)"};
  learn(files, &file);
  put(files, &file);
  expect_refused(files, MOONPAD_STORAGE, "table tokens already exists (while it was migrated to schema 2)");
  assert_int_equal(sql_integer(files->path, "PRAGMA user_version"), 1);
  sql_run(files->path, "ALTER TABLE tokens RENAME TO others");
  folder_close(folder_open(files));
  assert_int_equal(sql_integer(files->path, "SELECT " NEW_COLUMNS), NEW_COLUMN_COUNT);
  assert_int_equal(sql_integer(files->path, "SELECT count(of_somebody_else) FROM others"), 0);
  forget(&file);
}

static void test_missing_tables(void **state) {
  sqlite_files *files = *state;
  put(files, SESSIONS);
  sql_run(files->path, "DROP TABLE base_state");
  expect_refused(files, MOONPAD_CORRUPT, "tables of moonpad are missing");
  assert_int_equal(sql_integer(files->path, "PRAGMA user_version"), 1);
}

/* A writer of the version before, who is in no hurry. */
static void test_somebody_writes(void **state) {
  sqlite_files *files = *state;
  put(files, SESSIONS);
  files->options.busy_timeout_ms = 5;
  sqlite3 *db = open_raw(files->path);
  assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE; CREATE TABLE mine(a)", NULL, NULL, NULL), SQLITE_OK);
  expect_refused(files, MOONPAD_BUSY, "busyTimeoutMs (5 ms) (while it was migrated to schema 2)");
  assert_int_equal(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
  /* Who only reads is in nobody's way, and goes on to see what he saw. */
  assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM events", NULL, NULL, NULL), SQLITE_OK);
  folder_close(folder_open(files));
  char *version = add_rows(db, "PRAGMA user_version", copy_text(""));
  assert_string_equal(version, "1\n");
  free(version);
  assert_int_equal(sqlite3_close(db), SQLITE_OK);
  assert_int_equal(expect_whole(SESSIONS, files->path), 2);
}

/* The content of a backup from before the migration is brought into the file while it is open. */
static void test_schema_1_comes_back(void **state) {
  sqlite_files *files = *state;
  appender one = {files->env, "s", 1, 0, 10, false};
  char old[160];
  sqlite3 *from, *to;
  put(files, SESSIONS);
  snprintf(old, sizeof old, "%s/old.db", files->folder);
  file_write(old, SESSIONS->bytes, SESSIONS->size);
  mp_store *store = folder_open(files);
  from = open_raw(old);
  to = open_raw(files->path);
  sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
  assert_non_null(backup);
  assert_int_equal(sqlite3_backup_step(backup, -1), SQLITE_DONE);
  assert_int_equal(sqlite3_backup_finish(backup), SQLITE_OK);
  sqlite3_close(from);
  sqlite3_close(to);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(store->ops->write(store, append_once, &one, &files->error), MOONPAD_STORAGE);
    assert_non_null(strstr(files->error.message, "schema 1: close the service and open it again"));
  }
  folder_close(store);
  expect_migrates(files, SESSIONS, files->path);
}

/* ---- a disk that fails ---- */

static bool is_expected(moonpad_status status) {
  return status == MOONPAD_OK || status == MOONPAD_STORAGE || status == MOONPAD_BUSY;
}

/* Opens and closes with a fault. False when nothing has failed. */
static bool fail_once(sqlite_files *files, const old_file *file, fault_kind kind, long n, bool lasting) {
  mp_store *store;
  put(files, file);
  faulty_vfs_arm(kind, n, lasting);
  moonpad_status status = folder_try(files, files->path, &store);
  if (status == MOONPAD_OK) folder_close(store);
  bool has_failed = faulty_vfs_has_failed();
  faulty_vfs_arm(FAULT_NONE, 0, false);
  if (!is_expected(status)) fail_msg("%s, %d at %ld: %s", file->name, (int)kind, n, files->error.message);
  assert_true(has_failed || status == MOONPAD_OK);
  expect_whole_copy(file, files->path);
  expect_migrates(files, file, files->path);
  return has_failed;
}

static void test_on_a_failing_disk(void **state) {
  sqlite_files *files = *state;
  files->options.busy_timeout_ms = 5;
  for (size_t i = 0; i < HARMED_FILES; i++) {
    for (int kind = FAULT_READ; kind < FAULT_KINDS; kind++) {
      /* Without any lock, SQLite tries for ten seconds to read at all. */
      for (int lasting = 0; lasting < (kind == FAULT_LOCK ? 1 : 2); lasting++) {
        /* The first in every turn: there may be no more of this kind. */
        long n = 1;
        while (fail_once(files, &old_files[i], (fault_kind)kind, n, lasting == 1))
          n = fault_in_turn(n, valgrind_stride());
        assert_true(n > 1);
      }
    }
  }
}

/* ---- a process that is killed ---- */

/* Before the n-th call that changes something on the disk. False when it has come to its end. */
static bool kill_once(const sqlite_files *files, const old_file *file, long n) {
  int result = 0;
  put(files, file);
  pid_t child = fork();
  if (child == 0) {
    mp_store *store;
    faulty_vfs_kill(n);
    moonpad_status status = mp_sqlite_open(files->env, moonpad_text(files->path), &files->options, &store, NULL);
    if (status == MOONPAD_OK) folder_close(store);
    _exit((int)status);
  }
  assert_int_equal(waitpid(child, &result, 0), child);
  if (WIFSIGNALED(result)) {
    assert_int_equal(WTERMSIG(result), SIGKILL);
    return true;
  }
  assert_true(WIFEXITED(result));
  assert_int_equal(WEXITSTATUS(result), MOONPAD_OK);
  return false;
}

static void test_killed_at_every_step(void **state) {
  NEEDS_PROCESSES();
  sqlite_files *files = *state;
  for (size_t i = 0; i < HARMED_FILES; i++) {
    size_t found[3] = {0, 0, 0};
    for (long n = 1; kill_once(files, &old_files[i], n); n = fault_in_turn(n, valgrind_stride())) {
      found[expect_whole_copy(&old_files[i], files->path)]++;
      expect_migrates(files, &old_files[i], files->path);
    }
    assert_true((found[1] > 0 && found[2] > 0) || fault_is_sample());
  }
}

/* ---- power that is cut ---- */

typedef struct power_run {
  sqlite_files *files;
  const old_file *file;
  char after[160];
  size_t found[3];
} power_run;

static void expect_survives(void *context) {
  power_run *run = context;
  run->found[expect_whole_copy(run->file, run->after)]++;
  expect_migrates(run->files, run->file, run->after);
  remove_files(run->after);
}

static void test_power_cuts(void **state) {
  sqlite_files *files = *state;
  power_run run = {.files = files};
  char folder[128];
  uint64_t seed = fault_seeds((long)HARMED_FILES * fault_count(5));
  snprintf(folder, sizeof folder, "%s/after", files->folder);
  snprintf(run.after, sizeof run.after, "%s/state.db", folder);
  assert_int_equal(mkdir(folder, 0700), 0);
  for (size_t i = 0; i < HARMED_FILES; i++) {
    run.file = &old_files[i];
    memset(run.found, 0, sizeof run.found);
    for (long round = 0; round < fault_count(5); round++) {
      put(files, run.file);
      faulty_vfs_record(folder, 1, seed++, expect_survives, &run);
      folder_close(folder_open(files));
      faulty_vfs_stop();
      assert_int_equal(expect_whole(run.file, files->path), 2);
    }
    assert_true(run.found[1] > 0 && run.found[2] > 0);
  }
  rmdir(folder);
}

/* ---- memory that ends ---- */

static void expect_no_memory(const sqlite_files *files, const old_file *file, long n, moonpad_status status) {
  if (status != MOONPAD_OK && status != MOONPAD_NO_MEMORY)
    fail_msg("%s at %ld: status %d: %s", file->name, n, (int)status, files->error.message);
}

static bool lack_sqlite_memory(sqlite_files *files, const old_file *file, long n, bool lasting) {
  mp_store *store;
  put(files, file);
  sqlite3_int64 used = sqlite3_memory_used();
  sqlite_memory_arm(n, lasting);
  moonpad_status status = folder_try(files, files->path, &store);
  if (status == MOONPAD_OK) folder_close(store);
  bool has_failed = sqlite_memory_disarm();
  assert_int_equal(sqlite3_memory_used(), used);
  expect_no_memory(files, file, n, status);
  return has_failed;
}

static bool lack_memory(sqlite_files *files, const old_file *file, long n, bool lasting) {
  counting_allocator counter;
  mp_store *store;
  counting_init(&counter);
  moonpad_options options = files->options;
  options.allocator = &counter.hooks;
  mp_env *env = mp_env_new(&options);
  assert_non_null(env);
  put(files, file);
  counting_arm(&counter, (size_t)n);
  counter.lasting = lasting;
  moonpad_status status = mp_sqlite_open(env, moonpad_text(files->path), &options, &store, &files->error);
  if (status == MOONPAD_OK) folder_close(store);
  bool has_failed = counting_has_failed(&counter);
  counting_arm(&counter, 0);
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
  expect_no_memory(files, file, n, status);
  return has_failed;
}

static void test_without_memory(void **state) {
  sqlite_files *files = *state;
  for (size_t i = 0; i < HARMED_FILES; i++) {
    const old_file *file = &old_files[i];
    for (int lasting = 0; lasting < 2; lasting++) {
      for (long n = 1; lack_sqlite_memory(files, file, n, lasting == 1); n = fault_after(n, 20)) {
        expect_whole_copy(file, files->path);
        expect_migrates(files, file, files->path);
      }
      long first = fault_in_turn(0, valgrind_stride()), n = first;
      for (; lack_memory(files, file, n, lasting == 1); n = fault_in_turn(n, valgrind_stride()))
        expect_migrates(files, file, files->path);
      assert_true(n > first);
    }
  }
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, folder_setup, folder_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_nothing_is_lost), /* first: it learns what the files hold */
      TEST(test_new_columns_are_empty), TEST(test_json_comes_last),      TEST(test_a_table_in_the_way),
      TEST(test_missing_tables),        TEST(test_somebody_writes),      TEST(test_schema_1_comes_back),
      TEST(test_on_a_failing_disk),     TEST(test_killed_at_every_step), TEST(test_power_cuts),
      TEST(test_without_memory),
  };
  fault_seed();
  sqlite_memory_install();
  faulty_vfs_install();
  return cmocka_run_group_tests(tests, NULL, forget_all);
}
