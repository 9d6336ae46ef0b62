/* Errors and edges that moonpad.h names, and that no other test is about, on every store. */
#include <stdio.h>
#include <string.h>

#include "service_support.h"

/* In a value that is given, array and object mean the same: what it is stands in the text. */
static void test_the_type_of_json_is_read_off_its_text(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  moonpad_changes *changes = NULL;
  moonpad_value array = moonpad_json(T(" [1, 2]")), object = {MOONPAD_ARRAY, {.text = T("{\"a\" : 1}")}};
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_changes_set(changes, T("array"), T(""), &array, &failure));
  OK(moonpad_changes_set(changes, T("object"), T(""), &object, &failure));
  assert_int_equal(changed(changes, "array", "").type, MOONPAD_ARRAY);
  SAYS(changed(changes, "array", "").as.text, "[1,2]");
  assert_int_equal(changed(changes, "object", "").type, MOONPAD_OBJECT);
  SAYS(changed(changes, "object", "").as.text, "{\"a\":1}");
  moonpad_value scalar = moonpad_json(T("1"));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T("scalar"), T(""), &scalar, &failure));
  moonpad_session_free(session);
}

static void test_a_path_is_looked_at_where_there_is_a_value(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":{}}");
  moonpad_value value;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_session_read(session, T("k"), T("a..b"), &value, &failure));
  assert_int_equal(value.type, MOONPAD_ABSENT);
  OK(moonpad_session_read(session, T("none"), T("a..b"), &value, &failure));
  assert_int_equal(value.type, MOONPAD_ABSENT);
  moonpad_session_free(session);
}

static void test_beyond_the_end_there_is_nothing(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}");
  moonpad_session_list *list = NULL;
  moonpad_event *event = (moonpad_event *)1;
  OK(moonpad_list_sessions(self->service, T("app"), NULL, &list, &failure));
  assert_int_equal(moonpad_session_list_count(list), 1);
  assert_null(moonpad_session_list_at(list, 1));
  assert_null(moonpad_session_list_take(list, 1));
  moonpad_session_free(moonpad_session_list_take(list, 0));
  assert_null(moonpad_session_list_at(list, 0));
  assert_null(moonpad_session_list_take(list, 0));
  moonpad_session_list_free(list);
  assert_null(moonpad_session_conflict_key(session, 0).data);
  FAILS(MOONPAD_NOT_FOUND, moonpad_session_event(session, 0, &event, &failure));
  assert_null(event);
  moonpad_session_free(session);
}

static void test_what_is_read_of_a_deleted_session(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}"), *filtered = NULL, *forked = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_get_options options;
  moonpad_event *event = NULL;
  moonpad_buffer json = {0};
  moonpad_export *exporting = NULL;
  size_t count = 7;
  host_append(session, "{\"k\":1}");
  moonpad_get_options_init(&options);
  options.has_after_timestamp = true;
  OK(moonpad_get_session(self->service, &name, &options, &filtered, &failure));
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  OK(moonpad_session_event_count(filtered, &count, &failure));
  assert_int_equal(count, 0);
  OK(moonpad_session_event_count(session, &count, &failure));
  assert_int_equal(count, 1);
  FAILS(MOONPAD_NOT_FOUND, moonpad_session_event(session, 0, &event, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_refresh(session, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_append_event(session, T("{}"), NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_state_at(session, 0, &json, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_fork(session, 0, T("f"), &forked, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_rewind(session, T("i"), NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_rewind_to_revision(session, 0, NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_export_open(session, &exporting, &failure));
  moonpad_session_free(filtered);
  moonpad_session_free(session);
}

static void test_revisions_and_invocations_that_are_none(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{}"), *forked = NULL;
  static const int64_t revisions[] = {-1, 1, INT64_MAX, INT64_MIN};
  moonpad_buffer json = {0};
  for (size_t i = 0; i < sizeof revisions / sizeof *revisions; i++) {
    FAILS(MOONPAD_NOT_FOUND, moonpad_state_at(session, revisions[i], &json, &failure));
    FAILS(MOONPAD_NOT_FOUND, moonpad_fork(session, revisions[i], T(""), &forked, &failure));
    FAILS(MOONPAD_NOT_FOUND, moonpad_rewind_to_revision(session, revisions[i], NULL, &failure));
  }
  FAILS(MOONPAD_NOT_FOUND, moonpad_rewind(session, T(""), NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_rewind(session, (moonpad_string){NULL, 0}, NULL, &failure));
  FAILS(MOONPAD_ALREADY_EXISTS, moonpad_fork(session, 0, T(" s "), &forked, &failure));
  assert_null(forked);
  moonpad_session_free(session);
}

static void note_status(void *context, moonpad_session *session, const moonpad_event *event,
                        const moonpad_error *error) {
  (void)session, (void)event;
  *(moonpad_status *)context = error == NULL ? MOONPAD_OK : error->code;
}

/* With small limits: of a value 20 bytes, of an event 400, of a session's state 60. */
static moonpad_service *open_limited(const host *self) {
  moonpad_service *service = NULL;
  moonpad_options options = self->options;
  options.max_value_bytes = 20;
  options.max_event_bytes = 400;
  options.max_state_bytes = 60;
  OK(moonpad_open(T(self->url), &options, &service, &failure));
  return service;
}

static void test_limits_are_told_where_they_are_met(void **state) {
  host *self = *state;
  moonpad_service *service = open_limited(self);
  moonpad_session *session = NULL, *other = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_changes *changes = NULL;
  moonpad_string wide = T("{\"k\":\"0123456789012345678901234\"}");
  moonpad_value item = moonpad_string_value(T("0123456789")), one = moonpad_integer(1);
  FAILS(MOONPAD_LIMIT, moonpad_create_session(service, &name, wide, &session, &failure));
  OK(moonpad_create_session(service, &name, T("{\"o\":{}}"), &session, &failure));
  FAILS(MOONPAD_LIMIT, moonpad_update_user_state(service, T("app"), T("u"), wide, T(""), &failure));
  FAILS(MOONPAD_LIMIT, moonpad_update_app_state(service, T("app"), wide, T(""), &failure));
  /* A whole value at the assignment, what it grows to at the commit. */
  OK(moonpad_changes_begin(session, &changes, &failure));
  moonpad_value long_text = moonpad_string_value(T("0123456789012345678901234"));
  FAILS(MOONPAD_LIMIT, moonpad_changes_set(changes, T("k"), T(""), &long_text, &failure));
  OK(moonpad_changes_set(changes, T("o"), T("a"), &long_text, &failure));
  FAILS(MOONPAD_LIMIT, moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  moonpad_changes_discard(changes);
  for (int i = 0; i < 3; i++) OK(moonpad_changes_append(changes, T("l"), &item, &failure));
  FAILS(MOONPAD_LIMIT, moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  moonpad_changes_discard(changes);
  /* Without waiting it is the callback that gets it. */
  moonpad_status told = MOONPAD_OK;
  char event[700];
  snprintf(event, sizeof event, "{\"author\":\"%0500d\"}", 0);
  OK(moonpad_append_event_async(session, T(event), note_status, &told, &failure));
  while (told == MOONPAD_OK && moonpad_poll(service, TIMEOUT_MS) > 0) continue;
  assert_int_equal(told, MOONPAD_LIMIT);
  OK(moonpad_changes_increment(changes, T("n"), &one, &failure));
  OK(moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  name = host_name("other");
  FAILS(MOONPAD_LIMIT, moonpad_create_session(service, &name,
                                              T("{\"abcdefghijklmnopqrstuvwxyz0123456789\":1,\"k\":[1,2,3,4,5,6],"
                                                "\"l\":[1,2,3,4,5,6]}"),
                                              &other, &failure));
  assert_null(other);
  moonpad_changes_free(changes);
  moonpad_session_free(session);
  moonpad_service_release(service);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_the_type_of_json_is_read_off_its_text),
      ON_EVERY_STORE(test_a_path_is_looked_at_where_there_is_a_value),
      ON_EVERY_STORE(test_beyond_the_end_there_is_nothing),
      ON_EVERY_STORE(test_what_is_read_of_a_deleted_session),
      ON_EVERY_STORE(test_revisions_and_invocations_that_are_none),
      ON_EVERY_STORE(test_limits_are_told_where_they_are_met),
  };
  return HOST_RUN(tests);
}
