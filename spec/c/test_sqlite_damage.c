/*
** Files that are damaged: cut short, with bytes changed, with a log that is. What is refused is
** left as it is, to the byte, with nothing beside it; what opens may turn out to be damaged where
** it is read. Which damage and how much: fault_steps.h.
*/
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call_support.h"
#include "fault_steps.h"
#include "sqlite_support.h"

#define T(text)    moonpad_text(text)
#define EVENTS     40
#define PAGE_BYTES 4096

static size_t below(size_t limit) {
  return (size_t)(next_random() % limit);
}

static moonpad_session_name session_name(void) {
  moonpad_session_name name = {T("app"), T("u"), T("s")};
  return name;
}

static moonpad_status open_service(const sqlite_files *files, moonpad_service **service, moonpad_error *error) {
  char url[160];
  moonpad_options options;
  moonpad_options_init(&options);
  options.durability = MOONPAD_DURABILITY_NORMAL;
  snprintf(url, sizeof url, "sqlite:%s", files->path);
  return moonpad_open(T(url), &options, service, error);
}

/* The n-th event sets `last` to n. */
static moonpad_status append_next(moonpad_session *session, moonpad_error *error) {
  char event[700];
  snprintf(
      event, sizeof event,
      "{\"author\":\"a\",\"content\":{\"parts\":[{\"text\":\"%0400d\"}]},\"actions\":{\"stateDelta\":{\"last\":%lld,"
      "\"user:last\":1,\"app:last\":[2]}}}",
      7, (long long)moonpad_session_revision(session) + 1);
  return moonpad_append_event(session, T(event), NULL, error);
}

/* The caller releases the service. */
static moonpad_service *make_file(const sqlite_files *files) {
  moonpad_service *service;
  moonpad_session *session;
  moonpad_session_name name = session_name();
  moonpad_error error = {MOONPAD_OK, ""};
  if (open_service(files, &service, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  assert_int_equal(moonpad_create_session(service, &name, T("{\"k\":[1,2]}"), &session, &error), MOONPAD_OK);
  for (int i = 0; i < EVENTS; i++) assert_int_equal(append_next(session, &error), MOONPAD_OK);
  moonpad_session_free(session);
  return service;
}

static void expect_untouched(const sqlite_files *files, const char *bytes, size_t size) {
  size_t size_after;
  char *after = file_bytes(files->path, &size_after);
  assert_int_equal(size_after, size);
  assert_memory_equal(after, bytes, size);
  free(after);
  assert_false(file_exists(files->path, "-wal"));
  assert_false(file_exists(files->path, "-shm"));
  assert_false(file_exists(files->path, "-journal"));
}

static void expect_refusal(moonpad_status status, const moonpad_error *error) {
  if (status != MOONPAD_CORRUPT && status != MOONPAD_UNSUPPORTED && status != MOONPAD_STORAGE)
    fail_msg("opening: %s: %s", moonpad_status_name(status), error->message);
  assert_true(error->message[0] != '\0');
}

/* ---- cut short ---- */

static void test_cut_at_any_length(void **state) {
  sqlite_files *files = *state;
  size_t size;
  fault_seed();
  moonpad_service_release(make_file(files));
  char *bytes = file_bytes(files->path, &size);
  long cuts = fault_count(60);
  for (long i = 0; i < cuts; i++) {
    moonpad_service *service;
    moonpad_error error = {MOONPAD_OK, ""};
    size_t length = 1 + below(size - 1);
    if (i % 3 == 0) length = length < 512 ? 512 : length / 512 * 512;
    file_write(files->path, bytes, length);
    moonpad_status status = open_service(files, &service, &error);
    if (status != MOONPAD_CORRUPT) fail_msg("cut at %zu: %s", length, moonpad_status_name(status));
    assert_null(service);
    expect_untouched(files, bytes, length);
  }
  free(bytes);
}

/* ---- bytes changed ---- */

/*
** In the header of the file, in that of a page, anywhere. True when the header of the file is what
** it was.
*/
static bool change_bytes(char *bytes, size_t size) {
  bool header_kept = true;
  for (size_t left = 1 + below(4); left > 0; left--) {
    size_t at = below(size);
    if (below(3) == 0) at = below(100);
    if (below(3) == 0) at = at / PAGE_BYTES * PAGE_BYTES + below(12);
    if (at < 100) header_kept = false;
    bytes[at] = (char)(below(2) == 0 ? bytes[at] ^ (1 << below(8)) : (int)below(256));
  }
  return header_kept;
}

static void expect_answer(moonpad_status status, const char *what, const moonpad_error *error) {
  bool expected = status == MOONPAD_OK || status == MOONPAD_CORRUPT || status == MOONPAD_NOT_FOUND;
  if (!expected) fail_msg("%s: %s: %s", what, moonpad_status_name(status), error->message);
}

static void read_session(moonpad_session *session) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_buffer json = {0};
  size_t count = 0;
  expect_answer(moonpad_state_at(session, moonpad_session_revision(session), &json, &error), "state_at", &error);
  moonpad_buffer_free(&json);
  moonpad_status status = moonpad_session_event_count(session, &count, &error);
  /* A changed revision may promise any number of events. */
  for (size_t i = 0; status == MOONPAD_OK && i < count && i < 2 * EVENTS; i++) {
    moonpad_event *event = NULL;
    status = moonpad_session_event(session, i, &event, &error);
    moonpad_event_free(event);
  }
  expect_answer(status, "events", &error);
}

static void read_all(moonpad_service *service) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_session_name name = session_name();
  moonpad_session *session = NULL;
  moonpad_session_list *list = NULL;
  moonpad_buffer json = {0};
  expect_answer(moonpad_get_session(service, &name, NULL, &session, &error), "get", &error);
  if (session != NULL) read_session(session);
  moonpad_session_free(session);
  expect_answer(moonpad_list_sessions(service, T("app"), NULL, &list, &error), "list", &error);
  moonpad_session_list_free(list);
  expect_answer(moonpad_get_user_state(service, T("app"), T("u"), &json, &error), "user state", &error);
  moonpad_buffer_free(&json);
}

/* Whatever it answers: it answers. */
static void write_some(moonpad_service *service) {
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_session_name name = session_name();
  moonpad_session *session = NULL;
  if (moonpad_get_session(service, &name, NULL, &session, &error) == MOONPAD_OK) {
    if (append_next(session, &error) != MOONPAD_OK) assert_true(error.message[0] != '\0');
    moonpad_session_free(session);
  }
  moonpad_delete_session(service, &name, NULL, &error);
}

static void test_changed_bytes(void **state) {
  sqlite_files *files = *state;
  size_t size;
  long opened = 0, changes = fault_count(150);
  fault_seed();
  moonpad_service_release(make_file(files));
  char *good = file_bytes(files->path, &size), *bytes = malloc(size);
  assert_non_null(bytes);
  for (long i = 0; i < changes; i++) {
    moonpad_service *service;
    moonpad_error error = {MOONPAD_OK, ""};
    memcpy(bytes, good, size);
    bool header_kept = change_bytes(bytes, size);
    file_write(files->path, bytes, size);
    moonpad_status status = open_service(files, &service, &error);
    if (status != MOONPAD_OK) {
      expect_refusal(status, &error);
      assert_null(service);
      expect_untouched(files, bytes, size);
      continue;
    }
    opened++;
    read_all(service);
    if (i % 2 == 0) write_some(service);
    moonpad_service_release(service);
    /* reading changes nothing */
    if (header_kept && i % 2 == 1) expect_untouched(files, bytes, size);
    remove(files->path);
  }
  assert_in_range(opened, changes / 10, changes);
  free(bytes);
  free(good);
}

/* ---- no text where text must be ---- */

/* Changed bytes can do this; SQLite itself refuses to store it. */
static void set_to_null(const sqlite_files *files, const char *table, const char *column, const char *which) {
  char sql[600];
  snprintf(sql, sizeof sql,
           "PRAGMA writable_schema = ON;"
           "UPDATE sqlite_schema SET sql = replace(sql, '%s TEXT NOT NULL', '%s TEXT          ') WHERE name = '%s';"
           "PRAGMA writable_schema = RESET; UPDATE %s SET %s = NULL WHERE %s; PRAGMA writable_schema = ON;"
           "UPDATE sqlite_schema SET sql = replace(sql, '%s TEXT          ', '%s TEXT NOT NULL') WHERE name = '%s'",
           column, column, table, table, column, which, column, column, table);
  sql_run(files->path, sql);
}

static void test_missing_event(void **state) {
  sqlite_files *files = *state;
  moonpad_service *service;
  moonpad_session *session;
  moonpad_event *event;
  moonpad_buffer json;
  moonpad_session_name name = session_name();
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_service_release(make_file(files));
  set_to_null(files, "events", "event", "revision = 3");
  assert_int_equal(open_service(files, &service, &error), MOONPAD_OK);
  assert_int_equal(moonpad_get_session(service, &name, NULL, &session, &error), MOONPAD_OK);
  assert_int_equal(moonpad_session_event(session, 2, &event, &error), MOONPAD_CORRUPT);
  assert_non_null(strstr(error.message, "the database is damaged"));
  assert_int_equal(moonpad_state_at(session, 40, &json, &error), MOONPAD_CORRUPT);
  moonpad_session_free(session);
  moonpad_service_release(service);
}

static void test_missing_user(void **state) {
  sqlite_files *files = *state;
  moonpad_service *service;
  moonpad_session_list *list;
  moonpad_error error = {MOONPAD_OK, ""};
  moonpad_service_release(make_file(files));
  set_to_null(files, "users", "user_id", "1");
  assert_int_equal(open_service(files, &service, &error), MOONPAD_OK);
  assert_int_equal(moonpad_list_sessions(service, T("app"), NULL, &list, &error), MOONPAD_CORRUPT);
  assert_non_null(strstr(error.message, "the database is damaged"));
  moonpad_service_release(service);
}

/* ---- a log that was left behind, and is damaged ---- */

static void damage_log(const char *good, size_t size, const char *path, bool cut) {
  char *bytes = malloc(size);
  assert_non_null(bytes);
  memcpy(bytes, good, size);
  size_t length = cut ? below(size + 1) : size;
  for (size_t i = below(5) + 1; !cut && i > 0; i--) bytes[below(size)] ^= (char)(1 << below(8));
  file_write(path, bytes, length);
  free(bytes);
}

/*
** Its checksums tell how far it is good: what is found is the beginning of what was there, in
** whole events.
*/
static void expect_beginning(const sqlite_files *files) {
  moonpad_service *service;
  moonpad_session *session = NULL;
  moonpad_session_name name = session_name();
  moonpad_error error = {MOONPAD_OK, ""};
  expect_sound_file(files->path);
  if (open_service(files, &service, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  moonpad_status status = moonpad_get_session(service, &name, NULL, &session, &error);
  if (status != MOONPAD_NOT_FOUND) {
    size_t count = 0;
    moonpad_value last;
    assert_int_equal(status, MOONPAD_OK);
    assert_int_equal(moonpad_session_event_count(session, &count, &error), MOONPAD_OK);
    assert_int_equal(moonpad_session_revision(session), count);
    assert_int_equal(moonpad_session_read(session, T("last"), T(""), &last, &error), MOONPAD_OK);
    assert_int_equal(last.type == MOONPAD_ABSENT ? 0 : last.as.integer, count);
    free(call_stored(service, "app").data);
    assert_int_equal(append_next(session, &error), MOONPAD_OK);
  }
  moonpad_session_free(session);
  moonpad_service_release(service);
}

static void test_damaged_logs(void **state) {
  sqlite_files *files = *state;
  char log[160];
  size_t size, log_size;
  fault_seed();
  snprintf(log, sizeof log, "%s-wal", files->path);
  moonpad_service *service = make_file(files);
  char *bytes = file_bytes(files->path, &size), *good = file_bytes(log, &log_size);
  moonpad_service_release(service);
  long rounds = fault_count(60);
  for (long i = 0; i < rounds; i++) {
    file_write(files->path, bytes, size);
    damage_log(good, log_size, log, i % 2 == 0);
    expect_beginning(files);
  }
  free(bytes);
  free(good);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, folder_setup, folder_teardown)
  const struct CMUnitTest tests[] = {TEST(test_cut_at_any_length), TEST(test_changed_bytes), TEST(test_missing_event),
                                     TEST(test_missing_user), TEST(test_damaged_logs)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
