/*
** Exports and imports line by line, on every store. What the lines say is tested in
** test_service_history.c.
*/
#include "service_support.h"

#include <stdio.h>

#define EVENTS 60
#define LINES  (EVENTS + 1)

static moonpad_session *with_events(host *self) {
  moonpad_session *session = host_create(self, "s", "{\"base\":[1.0,{}],\"user:u\":1}");
  for (int i = 1; i <= EVENTS; i++) {
    char event[128];
    snprintf(event, sizeof event,
             "{\"id\":\"e%d\",\"author\":\"user\",\"timestamp\":%d,\"actions\":{\"stateDelta\":{\"n\":%d}}}", i, i, i);
    OK(moonpad_append_event(session, T(event), NULL, &failure));
  }
  return session;
}

/* The lines of an export in one text, and where each ends. */
typedef struct exported_text {
  char text[64 * 1024];
  size_t ends[LINES + 1];
  size_t count;
} exported_text;

static bool keep_line(void *context, moonpad_string line) {
  exported_text *kept = context;
  size_t begin = kept->count == 0 ? 0 : kept->ends[kept->count - 1];
  assert_true(kept->count <= LINES && begin + line.length < sizeof kept->text);
  memcpy(kept->text + begin, line.data, line.length);
  kept->ends[kept->count++] = begin + line.length;
  return true;
}

static exported_text *text_of(moonpad_session *session) {
  exported_text *kept = calloc(1, sizeof *kept);
  assert_non_null(kept);
  OK(moonpad_export_session(session, keep_line, kept, &failure));
  assert_int_equal(kept->count, LINES);
  return kept;
}

static moonpad_string line_at(const exported_text *kept, size_t index) {
  size_t begin = index == 0 ? 0 : kept->ends[index - 1];
  return (moonpad_string){kept->text + begin, kept->ends[index] - begin};
}

static void expect_line(moonpad_export *exporting, const exported_text *kept, size_t index) {
  moonpad_string line;
  OK(moonpad_export_next(exporting, &line, &failure));
  assert_int_equal(line.length, line_at(kept, index).length);
  assert_memory_equal(line.data, line_at(kept, index).data, line.length);
}

static void expect_end(moonpad_export *exporting) {
  moonpad_string line = T("something");
  OK(moonpad_export_next(exporting, &line, &failure));
  assert_true(line.data == NULL && line.length == 0);
}

/* ---- Export ---- */

static void test_lines_are_those_of_the_whole_export(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self);
  exported_text *kept = text_of(session);
  moonpad_export *one = NULL, *other = NULL;
  OK(moonpad_export_open(session, &one, &failure));
  moonpad_get_options none;
  moonpad_session_name name = host_name("s");
  moonpad_get_options_init(&none);
  none.num_recent_events = 0;
  moonpad_session *view = NULL;
  OK(moonpad_get_session(self->service, &name, &none, &view, &failure));
  OK(moonpad_export_open(view, &other, &failure));
  moonpad_session_free(view); /* needed no more */
  for (size_t i = 0; i < LINES; i++) {
    expect_line(one, kept, i);
    expect_line(other, kept, i);
    /* nothing is locked, and what comes is no part of it */
    if (i % 7 == 0) host_append(session, "{\"later\":true}");
  }
  for (int i = 0; i < 3; i++) expect_end(one);
  expect_end(other);
  moonpad_export_free(one);
  moonpad_export_free(other);
  moonpad_export_free(NULL);
  moonpad_session_free(session);
  free(kept);
}

static void test_an_export_loses_no_line_without_memory(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self);
  exported_text *kept = text_of(session);
  moonpad_export *exporting = NULL;
  int refused = 0;
  for (long allowed = 0; exporting == NULL; allowed++) {
    self->allowed = allowed;
    moonpad_status status = moonpad_export_open(session, &exporting, &failure);
    self->allowed = -1;
    assert_true(status == (exporting == NULL ? MOONPAD_NO_MEMORY : MOONPAD_OK));
  }
  for (size_t i = 0; i < LINES; i++) {
    moonpad_string line;
    moonpad_status status = MOONPAD_NO_MEMORY;
    for (long allowed = 0; status == MOONPAD_NO_MEMORY; allowed++) {
      self->allowed = allowed;
      status = moonpad_export_next(exporting, &line, &failure);
      self->allowed = -1;
      if (status != MOONPAD_OK) refused++;
    }
    expect_ok(status, __LINE__);
    assert_int_equal(line.length, line_at(kept, i).length);
    assert_memory_equal(line.data, line_at(kept, i).data, line.length);
  }
  assert_true(refused > 0);
  expect_end(exporting);
  moonpad_export_free(exporting);
  moonpad_session_free(session);
  free(kept);
}

static void test_an_export_ends_with_its_session_or_service(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self);
  moonpad_session_name name = host_name("s");
  moonpad_export *begun = NULL, *fresh = NULL, *none = (moonpad_export *)1;
  moonpad_string line;
  OK(moonpad_export_open(session, &begun, &failure));
  OK(moonpad_export_next(begun, &line, &failure));
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  for (int i = 0; i < 2; i++) {
    FAILS(MOONPAD_NOT_FOUND, moonpad_export_next(begun, &line, &failure));
    assert_null(line.data);
  }
  FAILS(MOONPAD_NOT_FOUND, moonpad_export_open(session, &none, &failure));
  assert_null(none);
  moonpad_session_free(session);
  session = with_events(self);
  OK(moonpad_export_open(session, &fresh, &failure));
  moonpad_service_close(self->service);
  FAILS(MOONPAD_CLOSED, moonpad_export_next(begun, &line, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_export_next(fresh, &line, &failure)); /* the header, too */
  FAILS(MOONPAD_CLOSED, moonpad_export_open(session, &none, &failure));
  moonpad_session_free(session);
  moonpad_service_release(self->service);
  self->service = NULL;
  FAILS(MOONPAD_CLOSED, moonpad_export_next(fresh, &line, &failure));
  moonpad_export_free(begun);
  moonpad_export_free(fresh);
}

/* ---- Import ---- */

static moonpad_import *import_of(host *self, const char *session_id, const exported_text *kept, size_t lines) {
  char id[32], app[8] = "app";
  snprintf(id, sizeof id, "%s", session_id);
  moonpad_import *importing = NULL;
  moonpad_session_name name = {T(app), T(""), T(id)};
  OK(moonpad_import_begin(self->service, &name, &importing, &failure));
  memset(id, 'x', sizeof id); /* what was given has been copied */
  memset(app, 'x', sizeof app);
  for (size_t i = 0; i < lines; i++) OK(moonpad_import_line(importing, line_at(kept, i), &failure));
  return importing;
}

static void expect_no_session(host *self, const char *id) {
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name(id);
  FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(self->service, &name, NULL, &session, &failure));
}

static void test_an_import_is_there_when_it_is_committed(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self), *copy = NULL;
  exported_text *kept = text_of(session);
  moonpad_import *importing = import_of(self, "copy", kept, LINES);
  expect_no_session(self, "copy");
  OK(moonpad_import_commit(importing, &copy, &failure));
  SAYS(moonpad_session_id(copy), "copy");
  SAYS(moonpad_session_user_id(copy), "u");
  assert_int_equal(moonpad_session_revision(copy), EVENTS);
  assert_int_equal(moonpad_session_conversation_count(copy), moonpad_session_conversation_count(session));
  STATE(copy, "{\"base\":[1.0,{}],\"n\":60,\"user:u\":1}");
  exported_text *again = text_of(copy);
  for (size_t i = 1; i < LINES; i++) {
    assert_int_equal(line_at(again, i).length, line_at(kept, i).length);
    assert_memory_equal(line_at(again, i).data, line_at(kept, i).data, line_at(kept, i).length);
  }
  moonpad_session *none = (moonpad_session *)1;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_commit(importing, &none, &failure));
  assert_string_equal(failure.message, "the import has been committed");
  assert_null(none);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_line(importing, line_at(kept, 0), &failure));
  moonpad_import_free(importing);
  moonpad_import_free(NULL);
  moonpad_session_free(copy);
  moonpad_session_free(session);
  free(again);
  free(kept);
}

static void test_an_import_that_is_left_leaves_nothing(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self), *copy = NULL;
  exported_text *kept = text_of(session);
  for (size_t lines = 0; lines <= LINES; lines += 20) {
    moonpad_import *importing = import_of(self, "copy", kept, lines);
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_commit(importing, &copy, &failure));
    if (lines == 0) assert_string_equal(failure.message, "line 1: there is no header");
    assert_null(copy);
    moonpad_import_free(importing);
    expect_no_session(self, "copy");
  }
  moonpad_import_free(import_of(self, "copy", kept, LINES));
  expect_no_session(self, "copy");
  /* Lines that are still missing may come. */
  moonpad_import *importing = import_of(self, "copy", kept, 20);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_commit(importing, &copy, &failure));
  for (size_t i = 20; i < LINES; i++) OK(moonpad_import_line(importing, line_at(kept, i), &failure));
  OK(moonpad_import_commit(importing, &copy, &failure));
  moonpad_import_free(importing);
  moonpad_session_free(copy);
  moonpad_session_free(session);
  free(kept);
}

static void test_a_wrong_line_ends_an_import(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self), *copy = (moonpad_session *)1;
  exported_text *kept = text_of(session);
  moonpad_import *importing = import_of(self, "copy", kept, 3);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_line(importing, T("{\"id\":1}"), &failure));
  assert_string_equal(failure.message, "line 4: event.id: must be a string");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_line(importing, line_at(kept, 3), &failure));
  assert_string_equal(failure.message, "line 4: event.id: must be a string");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_commit(importing, &copy, &failure));
  assert_string_equal(failure.message, "line 4: event.id: must be a string");
  assert_null(copy);
  assert_int_equal(moonpad_import_line(importing, T("{"), NULL), MOONPAD_INVALID_ARGUMENT);
  moonpad_import_free(importing);
  expect_no_session(self, "copy");
  /* Nor is a line that there was no memory for simply left out. */
  importing = import_of(self, "copy", kept, 3);
  self->allowed = 0;
  FAILS(MOONPAD_NO_MEMORY, moonpad_import_line(importing, line_at(kept, 3), &failure));
  self->allowed = -1;
  FAILS(MOONPAD_NO_MEMORY, moonpad_import_commit(importing, &copy, &failure));
  moonpad_import_free(importing);
  moonpad_session_free(session);
  free(kept);
}

static void test_a_commit_that_fails_can_be_repeated(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self), *copy = (moonpad_session *)1;
  exported_text *kept = text_of(session);
  moonpad_import *importing = import_of(self, "", kept, LINES);
  for (int i = 0; i < 2; i++) {
    FAILS(MOONPAD_ALREADY_EXISTS, moonpad_import_commit(importing, &copy, &failure));
    assert_null(copy);
  }
  moonpad_session_name name = host_name("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  int refused = 0;
  moonpad_status status = MOONPAD_NO_MEMORY;
  for (long allowed = 0; status == MOONPAD_NO_MEMORY; allowed++) {
    self->allowed = allowed;
    status = moonpad_import_commit(importing, &copy, &failure);
    self->allowed = -1;
    if (status == MOONPAD_OK) continue;
    refused++;
    expect_no_session(self, "s");
  }
  expect_ok(status, __LINE__);
  assert_true(refused > 3);
  STORED(self, "s", "{\"base\":[1.0,{}],\"n\":60,\"user:u\":1}");
  moonpad_import_free(importing);
  moonpad_session_free(copy);
  moonpad_session_free(session);
  free(kept);
}

static void test_an_import_of_a_closed_service_is_closed(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self), *copy = (moonpad_session *)1;
  exported_text *kept = text_of(session);
  moonpad_import *half = import_of(self, "half", kept, 3), *whole = import_of(self, "whole", kept, LINES);
  moonpad_import *none = (moonpad_import *)1;
  moonpad_service_close(self->service);
  FAILS(MOONPAD_CLOSED, moonpad_import_line(half, line_at(kept, 3), &failure));
  FAILS(MOONPAD_CLOSED, moonpad_import_commit(whole, &copy, &failure));
  assert_null(copy);
  FAILS(MOONPAD_CLOSED, moonpad_import_begin(self->service, NULL, &none, &failure));
  assert_null(none);
  moonpad_session_free(session);
  moonpad_service_release(self->service);
  self->service = NULL;
  FAILS(MOONPAD_CLOSED, moonpad_import_commit(whole, &copy, &failure));
  moonpad_import_free(half);
  moonpad_import_free(whole);
  free(kept);
}

/* No lock is held between lines: one goes on while the other does, in the same store. */
static void test_an_import_can_take_what_an_export_gives(void **state) {
  host *self = *state;
  moonpad_session *session = with_events(self), *copy = NULL;
  moonpad_export *exporting = NULL;
  moonpad_import *importing = NULL;
  moonpad_session_name name = {T(""), T("v"), T("")};
  OK(moonpad_export_open(session, &exporting, &failure));
  OK(moonpad_import_begin(self->service, &name, &importing, &failure));
  for (;;) {
    moonpad_string line;
    OK(moonpad_export_next(exporting, &line, &failure));
    if (line.data == NULL) break;
    OK(moonpad_import_line(importing, line, &failure));
  }
  OK(moonpad_import_commit(importing, &copy, &failure));
  SAYS(moonpad_session_user_id(copy), "v");
  assert_int_equal(moonpad_session_revision(copy), EVENTS);
  moonpad_export_free(exporting);
  moonpad_import_free(importing);
  moonpad_session_free(copy);
  moonpad_session_free(session);
}

/* Of a history without its beginning nobody can count the messages but its header. */
static void test_a_fork_of_what_was_trimmed_counts_on(void **state) {
  host *self = *state;
  static const char *const lines[] = {"{\"moonpadSession\":1,\"appName\":\"app\",\"userId\":\"u\",\"sessionId\":\"t\","
                                      "\"createTime\":1.0,\"baseRevision\":5,"
                                      "\"revision\":7,\"conversationCount\":5,\"baseState\":{\"k\":1}}",
                                      "{\"id\":\"e6\",\"invocationId\":\"i\",\"timestamp\":6,\"author\":\"user\","
                                      "\"content\":{\"parts\":[{\"text\":\"a\"}]}}",
                                      "{\"id\":\"e7\",\"invocationId\":\"i\",\"timestamp\":7,\"author\":\"user\","
                                      "\"content\":{\"parts\":[{\"text\":\"b\"}]}}"};
  moonpad_import *importing;
  moonpad_session *session, *fork;
  OK(moonpad_import_begin(self->service, NULL, &importing, &failure));
  for (size_t i = 0; i < 3; i++) OK(moonpad_import_line(importing, T(lines[i]), &failure));
  OK(moonpad_import_commit(importing, &session, &failure));
  moonpad_import_free(importing);
  for (int64_t at = 5; at <= 7; at++) {
    OK(moonpad_fork(session, at, T(""), &fork, &failure));
    assert_int_equal(moonpad_session_conversation_count(fork), at - 2);
    assert_true(moonpad_session_last_update_time(fork) == (at == 5 ? moonpad_session_create_time(fork) : (double)at));
    STATE(fork, "{\"k\":1}");
    moonpad_session_free(fork);
  }
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_lines_are_those_of_the_whole_export),
      ON_EVERY_STORE(test_an_export_loses_no_line_without_memory),
      ON_EVERY_STORE(test_an_export_ends_with_its_session_or_service),
      ON_EVERY_STORE(test_an_import_is_there_when_it_is_committed),
      ON_EVERY_STORE(test_an_import_that_is_left_leaves_nothing),
      ON_EVERY_STORE(test_a_wrong_line_ends_an_import),
      ON_EVERY_STORE(test_a_commit_that_fails_can_be_repeated),
      ON_EVERY_STORE(test_an_import_of_a_closed_service_is_closed),
      ON_EVERY_STORE(test_an_import_can_take_what_an_export_gives),
      ON_EVERY_STORE(test_a_fork_of_what_was_trimmed_counts_on),
  };
  return HOST_RUN(tests);
}
