/*
** Files of the SQLite store that go away under it, and come back. spec/moved_file_spec.lua has
** every call, one by one.
*/
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "needs_threads.h"
#include "sqlite_support.h"
#include "store/sqlite/sqlite.h"
#include "store_support.h"

#define THREADS 4
#define ROUNDS  10

typedef struct writer {
  mp_store *store;
  appender work;
  bool is_refused; /* each time, for what it has found in the file */
  atomic_int acknowledged, refused;
  atomic_bool *stop;
  pthread_t thread;
} writer;

static moonpad_status find_nothing(mp_tx *tx, void *context, moonpad_error *error) {
  const char *name = ((appender *)context)->session_id;
  mp_session_row row;
  mp_session_ref nobody = ref_named("nobody's app", "u", name);
  return find_row(tx, &nobody, &row, error);
}

static void *append_until_told(void *context) {
  writer *self = context;
  moonpad_error error = {MOONPAD_OK, ""};
  while (!atomic_load(self->stop)) {
    mp_tx_function function = self->is_refused ? find_nothing : append_once;
    moonpad_status status = self->store->ops->write(self->store, function, &self->work, &error);
    if (status == (self->is_refused ? MOONPAD_NOT_FOUND : MOONPAD_OK)) {
      if (status == MOONPAD_OK) self->work.next++;
      atomic_fetch_add(&self->acknowledged, 1);
    } else if (status == MOONPAD_STORAGE && strstr(error.message, "has been deleted or moved") != NULL) {
      atomic_fetch_add(&self->refused, 1);
    } else {
      fprintf(stderr, "%s\n", error.message);
      return self;
    }
  }
  return NULL;
}

/* Until each of them has done so once more, however busy the machine is. */
static void await_each(writer *writers, size_t offset) {
  for (int i = 0; i < THREADS; i++) {
    atomic_int *count = (atomic_int *)((char *)&writers[i] + offset);
    int before = atomic_load(count);
    WAIT_UNTIL(atomic_load(count) != before);
  }
}

/* The last so many of them are refused all the time. */
static void append_while_the_file_comes_and_goes(sqlite_files *files, int refused) {
  static const char *const names[THREADS] = {"a", "b", "c", "d"};
  writer writers[THREADS];
  atomic_bool stop = false;
  char away[160];
  snprintf(away, sizeof away, "%s/away", files->folder);
  files->options.durability = MOONPAD_DURABILITY_FULL;
  mp_store *store = folder_open(files);
  for (int i = 0; i < THREADS; i++) {
    writers[i] = (writer){.store = store, .work = {files->env, names[i], i, 0, 300, false}, .stop = &stop};
    writers[i].is_refused = i >= THREADS - refused;
    assert_int_equal(pthread_create(&writers[i].thread, NULL, append_until_told, &writers[i]), 0);
  }
  for (int round = 0; round < ROUNDS; round++) {
    await_each(writers, offsetof(writer, acknowledged));
    assert_int_equal(rename(files->path, away), 0);
    await_each(writers, offsetof(writer, refused));
    assert_int_equal(rename(away, files->path), 0);
  }
  atomic_store(&stop, true);
  for (int i = 0; i < THREADS; i++) {
    void *failed;
    assert_int_equal(pthread_join(writers[i].thread, &failed), 0);
    assert_null(failed);
  }
  folder_close(store);
  store = folder_open(files);
  for (int i = 0; i < THREADS - refused; i++) {
    assert_int_equal(count_appended(store, names[i]), atomic_load(&writers[i].acknowledged));
  }
  folder_close(store);
  expect_sound_file(files->path);
}

/* Many share a commit: either all of these are found afterwards, or none was acknowledged. */
static void test_threads_append_to_no_file_that_is_gone(void **state) {
  NEEDS_THREADS();
  append_while_the_file_comes_and_goes(*state, 0);
}

/* Those who share a commit with it have savepoints then. */
static void test_what_is_not_found_is_not_said_of_a_file_that_is_gone(void **state) {
  NEEDS_THREADS();
  append_while_the_file_comes_and_goes(*state, 1);
}

/* ---- asynchronous appends ---- */

typedef struct answers {
  int stored, refused;
} answers;

static void count_answer(void *context, moonpad_session *session, const moonpad_event *event,
                         const moonpad_error *error) {
  answers *found = context;
  (void)session;
  if (event != NULL) found->stored++;
  if (error != NULL && error->code == MOONPAD_STORAGE) found->refused++;
}

static void append_three(moonpad_service *service, moonpad_session *session, answers *found) {
  *found = (answers){0, 0};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(
        moonpad_append_event_async(session, moonpad_text("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"n\":1}}}"),
                                   count_answer, found, NULL),
        MOONPAD_OK);
  }
  while (found->stored + found->refused < 3) assert_true(moonpad_poll(service, TIMEOUT_MS) > 0);
}

static void test_asynchronous_appends_fail_while_the_file_is_away(void **state) {
  sqlite_files *files = *state;
  char url[160], away[160];
  answers found;
  moonpad_service *service;
  moonpad_session *session;
  moonpad_session_name name = {moonpad_text("app"), moonpad_text("u"), moonpad_text("s")};
  snprintf(url, sizeof url, "sqlite:%s", files->path);
  snprintf(away, sizeof away, "%s/away", files->folder);
  assert_int_equal(moonpad_open(moonpad_text(url), NULL, &service, NULL), MOONPAD_OK);
  assert_int_equal(moonpad_create_session(service, &name, moonpad_text("{}"), &session, NULL), MOONPAD_OK);
  append_three(service, session, &found);
  assert_int_equal(found.stored, 3);
  assert_int_equal(rename(files->path, away), 0);
  append_three(service, session, &found);
  assert_int_equal(found.refused, 3);
  assert_int_equal(moonpad_session_revision(session), 3);
  assert_int_equal(rename(away, files->path), 0);
  append_three(service, session, &found);
  assert_int_equal(found.stored, 3);
  assert_int_equal(moonpad_session_revision(session), 6);
  moonpad_session_free(session);
  moonpad_service_release(service);
  assert_int_equal(sql_integer(files->path, "SELECT count(*) FROM events"), 6);
}

/* A file that takes the place of the one that is open has the same name and another number. */
static void test_a_new_file_is_not_written_to(void **state) {
  sqlite_files *files = *state;
  size_t before, after;
  mp_store *store = folder_open(files);
  appender one = {files->env, "s", 1, 0, 300, false};
  assert_int_equal(store->ops->write(store, append_once, &one, &files->error), MOONPAD_OK);
  assert_int_equal(unlink(files->path), 0);
  sql_run(files->path, "CREATE TABLE mine(a); INSERT INTO mine VALUES(1)");
  char *content = file_bytes(files->path, &before);
  one.next++;
  assert_int_equal(store->ops->write(store, append_once, &one, &files->error), MOONPAD_STORAGE);
  assert_non_null(strstr(files->error.message, "another file"));
  folder_close(store);
  char *found = file_bytes(files->path, &after);
  assert_true(before == after && memcmp(content, found, before) == 0);
  free(content);
  free(found);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_threads_append_to_no_file_that_is_gone, folder_setup, folder_teardown),
      cmocka_unit_test_setup_teardown(test_what_is_not_found_is_not_said_of_a_file_that_is_gone, folder_setup,
                                      folder_teardown),
      cmocka_unit_test_setup_teardown(test_asynchronous_appends_fail_while_the_file_is_away, folder_setup,
                                      folder_teardown),
      cmocka_unit_test_setup_teardown(test_a_new_file_is_not_written_to, folder_setup, folder_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
