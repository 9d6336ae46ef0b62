/*
** What a caller may leave out: the error, out parameters that the header says may be NULL, and text
** of no bytes without a pointer.
*/
#include <math.h>

#include "service_support.h"

static const moonpad_string nothing = {NULL, 0};

static moonpad_session *scene(host *self) {
  moonpad_session *session = host_create(self, "s", "{\"k\":1,\"o\":{\"a\":[1]},\"\":2}");
  host_append(session, "{\"k\":2}");
  return session;
}

static bool no_line(void *context, moonpad_string *line) {
  (void)context, (void)line;
  return false;
}

static bool empty_line(void *context, moonpad_string *line) {
  bool *given = context;
  *line = nothing;
  return !*given && (*given = true);
}

static bool stop(void *context, moonpad_string line) {
  (void)context, (void)line;
  return false;
}

/* Every call that fails, without anybody to hear why. */
static void test_errors_may_be_left_out(void **state) {
  host *self = *state;
  moonpad_session *session = scene(self), *other = NULL;
  moonpad_session_name name = host_name("s"), none = host_name("none"), bad = {nothing, nothing, nothing};
  moonpad_changes *changes = NULL;
  moonpad_service *service = NULL;
  moonpad_session_list *list = NULL;
  moonpad_event *event = NULL;
  moonpad_event_cursor *cursor = NULL;
  moonpad_buffer json = {0};
  bool given = false;
  moonpad_value value, nan = moonpad_float((double)NAN), broken = moonpad_json(T("[")),
                       text = moonpad_string_value(T("\xff"));
  OK(moonpad_changes_begin(session, &changes, NULL));
#define REFUSED(status, call) assert_int_equal((call), MOONPAD_##status)
  REFUSED(UNSUPPORTED, moonpad_open(nothing, NULL, &service, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_create_session(self->service, &bad, nothing, &other, NULL));
  REFUSED(ALREADY_EXISTS, moonpad_create_session(self->service, &name, nothing, &other, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_create_session(self->service, &none, T("[]"), &other, NULL));
  REFUSED(NOT_FOUND, moonpad_get_session(self->service, &none, NULL, &other, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_get_session(self->service, &bad, NULL, &other, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_delete_session(self->service, &bad, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_list_sessions(self->service, nothing, NULL, &list, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_session_read(session, T("o"), T("a["), &value, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_append_event(session, nothing, &event, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_append_event_async(session, nothing, NULL, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_append_event(session, T("{\"stateDelta\":{}}"), &event, NULL));
  REFUSED(NOT_FOUND, moonpad_session_event(session, 9, &event, NULL));
  moonpad_event_cursor_options backwards;
  moonpad_event_cursor_options_init(&backwards);
  backwards.last_revision = -1;
  REFUSED(INVALID_ARGUMENT, moonpad_event_cursor_open(session, &backwards, &cursor, NULL));
  assert_null(cursor);
  REFUSED(INVALID_ARGUMENT, moonpad_changes_get(changes, T("o"), T("."), &value, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_set(changes, T("k"), nothing, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_set(changes, T("k"), nothing, &nan, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_set(changes, T("k"), nothing, &broken, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_set(changes, T("k"), T("x"), &text, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_remove(changes, T("o"), T("["), NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_increment(changes, T("o"), NULL, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_increment(changes, T("o"), &nan, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_append(changes, T("k"), NULL, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_append(changes, T("k"), &text, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_commit(changes, nothing, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_changes_commit_async(changes, nothing, NULL, NULL, NULL));
  REFUSED(NOT_FOUND, moonpad_state_at(session, 9, &json, NULL));
  REFUSED(NOT_FOUND, moonpad_fork(session, 9, nothing, &other, NULL));
  REFUSED(NOT_FOUND, moonpad_rewind(session, nothing, NULL, NULL));
  REFUSED(NOT_FOUND, moonpad_rewind_to_revision(session, 9, NULL, NULL));
  REFUSED(STORAGE, moonpad_export_session(session, stop, NULL, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_import_session(self->service, NULL, no_line, NULL, &other, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_import_session(self->service, NULL, empty_line, &given, &other, NULL));
  REFUSED(INVALID_ARGUMENT, moonpad_json_read(nothing, nothing, NULL, &value, NULL));
  REFUSED(TEMPLATE, moonpad_session_render(session, T("{missing}"), NULL, &json, NULL));
  assert_true(other == NULL && event == NULL && service == NULL && list == NULL && json.data == NULL);
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* A value that is NULL is named like a bad one. */
static void test_a_value_that_is_null_is_named(void **state) {
  host *self = *state;
  moonpad_session *session = scene(self);
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T("k"), nothing, NULL, &failure));
  assert_string_equal(failure.message, "state[\"k\"]: a value is needed, got NULL");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T("o"), T("a"), NULL, &failure));
  assert_string_equal(failure.message, "state[\"o\"] at \"a\": a value is needed, got NULL");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_increment(changes, T("k"), NULL, &failure));
  assert_string_equal(failure.message, "state[\"k\"]: by: a value is needed, got NULL");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_append(changes, T("k"), NULL, &failure));
  assert_string_equal(failure.message, "state[\"k\"]: item: a value is needed, got NULL");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* Text of no bytes needs no pointer, as a key, a value, a path, a template. */
static void test_text_of_no_bytes_needs_no_pointer(void **state) {
  host *self = *state;
  moonpad_session *session = scene(self);
  moonpad_changes *changes = NULL;
  moonpad_buffer json = {0};
  moonpad_value value, empty = moonpad_string_value(nothing), by = moonpad_integer(1);
  OK(moonpad_session_read(session, nothing, nothing, &value, &failure));
  assert_int_equal(value.as.integer, 2);
  OK(moonpad_changes_begin(session, &changes, &failure));
  OK(moonpad_changes_increment(changes, nothing, &by, &failure));
  OK(moonpad_changes_set(changes, T("k"), nothing, &empty, &failure));
  OK(moonpad_changes_append(changes, T("l"), &empty, &failure));
  OK(moonpad_changes_append(changes, T("l"), &empty, &failure));
  OK(moonpad_changes_get(changes, T("k"), nothing, &value, &failure));
  assert_true(value.type == MOONPAD_STRING && value.as.text.length == 0);
  OK(moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  OK(moonpad_changes_remove(changes, nothing, nothing, &failure));
  OK(moonpad_changes_commit(changes, T("{\"id\":\"\",\"x\":\"\"}"), NULL, &failure));
  STORED(self, "s", "{\"k\":\"\",\"l\":[\"\",\"\"],\"o\":{\"a\":[1]}}");
  OK(moonpad_session_render(session, nothing, NULL, &json, &failure));
  GIVES(json, "");
  OK(moonpad_update_session(session, NULL, &failure));
  moonpad_changes_free(changes);
  moonpad_session_free(session);
  /* Releasing what is not there does nothing. */
  moonpad_changes_free(NULL);
  moonpad_session_free(NULL);
  moonpad_session_list_free(NULL);
  moonpad_event_free(NULL);
  moonpad_buffer_free(NULL);
  moonpad_service_release(NULL);
  moonpad_service_close(NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_errors_may_be_left_out),
      ON_EVERY_STORE(test_a_value_that_is_null_is_named),
      ON_EVERY_STORE(test_text_of_no_bytes_needs_no_pointer),
  };
  return HOST_RUN(tests);
}
