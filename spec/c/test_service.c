/*
** The public C API call by call, on every store: services, sessions, events. What Lua adds on top
** is tested in Lua.
*/
#include "service_support.h"

#include <stdio.h>
#include <unistd.h>

#include "comma_locale.h"

/* ---- Opening and closing ---- */

static void test_the_library_names_its_version_and_its_statuses(void **state) {
  (void)state;
  assert_string_equal(moonpad_version(), MOONPAD_VERSION);
  int major, minor, patch;
  assert_int_equal(sscanf(MOONPAD_VERSION, "%d.%d.%d", &major, &minor, &patch), 3);
  assert_int_equal(moonpad_version_number(), major * 1000000 + minor * 1000 + patch);
  assert_int_equal(moonpad_version_number(), MOONPAD_VERSION_NUMBER);
  static const char *const names[] = {
      "ok",   "invalid_argument", "not_found", "already_exists", "conflict", "template",  "model",      "tool", "limit",
      "busy", "closed",           "cancelled", "storage",        "corrupt",  "no_memory", "unsupported"};
  for (int i = 1; i <= MOONPAD_UNSUPPORTED; i++) assert_string_equal(moonpad_status_name((moonpad_status)i), names[i]);
  assert_non_null(moonpad_status_name(MOONPAD_OK));
  assert_non_null(moonpad_status_name((moonpad_status)999));
}

static void test_options_have_the_documented_defaults(void **state) {
  (void)state;
  moonpad_options options;
  memset(&options, 0xA5, sizeof options);
  moonpad_options_init(&options);
  assert_int_equal(options.size, sizeof options);
  assert_int_equal(options.durability, MOONPAD_DURABILITY_FULL);
  assert_int_equal(options.on_conflict, MOONPAD_ON_CONFLICT_ERROR);
  assert_int_equal(options.busy_timeout_ms, 5000);
  assert_int_equal(options.num_recent_events, -1);
  assert_int_equal(options.max_value_bytes, 16 << 20);
  assert_int_equal(options.max_event_bytes, 64 << 20);
  assert_int_equal(options.max_state_bytes, 256 << 20);
  assert_null(options.allocator);
  assert_true(options.clock == NULL && options.random == NULL && options.log == NULL);
}

static void test_open_refuses_what_it_cannot_open(void **state) {
  (void)state;
  moonpad_service *service = (moonpad_service *)1;
  FAILS(MOONPAD_UNSUPPORTED, moonpad_open(T("mongodb://joe:secret@host/db"), NULL, &service, &failure));
  assert_null(service);
  assert_null(strstr(failure.message, "secret"));
  assert_non_null(strstr(failure.message, "sqlite:"));
  FAILS(MOONPAD_STORAGE, moonpad_open(T("sqlite:/no such folder/test.db"), NULL, &service, &failure));
  assert_null(service);
  assert_int_equal(moonpad_open(T("mongodb://host"), NULL, &service, NULL), MOONPAD_UNSUPPORTED);
  moonpad_options options;
  moonpad_options_init(&options);
  options.busy_timeout_ms = -1;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_open(T("memory:"), &options, &service, &failure));
  moonpad_options_init(&options);
  options.durability = (moonpad_durability)7;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_open(T("memory:"), &options, &service, &failure));
  moonpad_options_init(&options);
  options.on_conflict = (moonpad_on_conflict)7;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_open(T("memory:"), &options, &service, &failure));
  OK(moonpad_open(T("memory:"), NULL, &service, &failure));
  moonpad_service_release(service);
}

static void test_release_accepts_null(void **state) {
  (void)state;
  moonpad_service_release(NULL);
  moonpad_session_free(NULL);
  moonpad_event_free(NULL);
  moonpad_changes_free(NULL);
  moonpad_session_list_free(NULL);
  moonpad_buffer empty = {0};
  moonpad_buffer_free(&empty);
}

static void test_a_service_is_counted_and_can_be_closed(void **state) {
  host *self = *state;
  assert_ptr_equal(moonpad_service_retain(self->service), self->service);
  moonpad_service_release(self->service);
  moonpad_session *session = host_create(self, "s", "{\"k\":[1]}");
  assert_ptr_equal(moonpad_session_service(session), self->service);
  moonpad_service_close(self->service);
  moonpad_service_close(self->service);
  moonpad_session_name name = host_name("s");
  moonpad_session *other = (moonpad_session *)1;
  FAILS(MOONPAD_CLOSED, moonpad_get_session(self->service, &name, NULL, &other, &failure));
  assert_null(other);
  FAILS(MOONPAD_CLOSED, moonpad_create_session(self->service, &name, T(""), &other, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_refresh(session, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_backup(self->service, T("/tmp/never"), &failure));
  moonpad_buffer json = {0};
  FAILS(MOONPAD_CLOSED, moonpad_get_app_state(self->service, T("app"), &json, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_state_at(session, 0, &json, &failure));
  assert_null(json.data);
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  STATE(session, "{\"k\":[1]}");
  moonpad_session_free(session);
}

static bool no_line(void *context, moonpad_string *line) {
  (void)context;
  *line = T("{\"moonpadSession\":1}");
  return false;
}

static void test_every_call_on_a_closed_service(void **state) {
  host *self = *state;
  moonpad_service *service = self->service;
  moonpad_session_name name = host_name("s");
  moonpad_session *session = (moonpad_session *)1;
  moonpad_session_list *list = (moonpad_session_list *)1;
  moonpad_value one = moonpad_integer(1), sum;
  moonpad_buffer json = {0};
  bool existed = true;
  moonpad_service_close(service);
  FAILS(MOONPAD_CLOSED, moonpad_create_session(service, &name, T(""), &session, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_get_session(service, &name, NULL, &session, &failure));
  assert_null(session);
  FAILS(MOONPAD_CLOSED, moonpad_delete_session(service, &name, &existed, &failure));
  assert_false(existed);
  FAILS(MOONPAD_CLOSED, moonpad_list_sessions(service, T("app"), NULL, &list, &failure));
  assert_null(list);
  static const char *const updates[] = {"{}", "{\"k\":1}"};
  FAILS(MOONPAD_CLOSED, moonpad_get_app_state(service, T("app"), &json, &failure));
  assert_null(json.data);
  FAILS(MOONPAD_CLOSED, moonpad_get_user_state(service, T("app"), T("u"), &json, &failure));
  assert_null(json.data);
  for (int i = 0; i < 2; i++) {
    FAILS(MOONPAD_CLOSED, moonpad_update_app_state(service, T("app"), T(updates[i]), T(""), &failure));
    FAILS(MOONPAD_CLOSED, moonpad_update_user_state(service, T("app"), T("u"), T(updates[i]), T(""), &failure));
  }
  FAILS(MOONPAD_CLOSED, moonpad_increment_app_state(service, T("app"), T("k"), &one, &sum, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_increment_user_state(service, T("app"), T("u"), T("k"), &one, &sum, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_import_session(service, NULL, no_line, NULL, &session, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_backup(service, T("/tmp/moonpad-never-written"), &failure));
  assert_int_equal(moonpad_poll(service, TIMEOUT_MS), 0);
}

static void expect_readable(moonpad_session *session) {
  moonpad_buffer text = {0};
  moonpad_changes *changes = NULL;
  size_t count = 0;
  SAYS(moonpad_session_id(session), "s");
  assert_int_equal(moonpad_session_revision(session), 2);
  STATE(session, "{\"k\":2,\"own\":[7]}");
  assert_int_equal(host_read(session, "k", "").as.integer, 2);
  OK(moonpad_session_render(session, T("<k>"), NULL, &text, &failure));
  GIVES(text, "2");
  OK(moonpad_session_event_count(session, &count, &failure));
  assert_int_equal(count, 2);
  OK(moonpad_session_changes(session, &changes, &failure));
  assert_int_equal(moonpad_session_conflict_count(session), 0);
  assert_int_equal(moonpad_session_conflict_key(session, 0).length, 0);
}

static void expect_closed_for_writes(moonpad_session *session) {
  static const char *const events[] = {"{\"author\":\"a\"}", "{\"author\":\"a\",\"partial\":true}"};
  moonpad_event *event = (moonpad_event *)1;
  for (size_t i = 0; i < 2; i++) {
    FAILS(MOONPAD_CLOSED, moonpad_append_event(session, T(events[i]), &event, &failure));
    assert_null(event);
    FAILS(MOONPAD_CLOSED, moonpad_append_event(session, T(events[i]), NULL, &failure));
  }
  FAILS(MOONPAD_CLOSED, moonpad_append_event_async(session, T(events[0]), NULL, NULL, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_update_session(session, &event, &failure));
  assert_null(event);
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  for (int writes = 0; writes < 2; writes++) {
    FAILS(MOONPAD_CLOSED, moonpad_changes_commit(changes, T("{}"), &event, &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_commit_async(changes, T("{}"), NULL, NULL, &failure));
    set_json(changes, "k", "", "[1]");
  }
  assert_true(moonpad_changes_pending(changes));
  moonpad_changes_free(changes);
  FAILS(MOONPAD_CLOSED, moonpad_rewind(session, T("i"), &event, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_rewind_to_revision(session, 0, &event, &failure));
}

static bool never_called(void *context, moonpad_string line) {
  (void)context;
  (void)line;
  return false;
}

static void expect_closed_for_reads(moonpad_session *session) {
  moonpad_session *other = (moonpad_session *)1;
  moonpad_event *event = (moonpad_event *)1;
  moonpad_buffer json = {0};
  FAILS(MOONPAD_CLOSED, moonpad_refresh(session, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_session_event(session, 0, &event, &failure));
  assert_null(event);
  FAILS(MOONPAD_CLOSED, moonpad_state_at(session, 0, &json, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_fork(session, 1, T(""), &other, &failure));
  assert_null(other);
  FAILS(MOONPAD_CLOSED, moonpad_export_session(session, never_called, NULL, &failure));
}

/*
** What it holds can be read, with what is pending on it; all that would ask the store, or store
** something, is closed.
*/
static void test_a_session_of_a_closed_service(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}"), *clean, *filtered = NULL;
  host_append(session, "{\"k\":2}");
  host_append(session, "{}");
  clean = host_get(self, "s");
  moonpad_session_name name = host_name("s");
  moonpad_get_options options;
  moonpad_get_options_init(&options);
  options.has_after_timestamp = true;
  OK(moonpad_get_session(self->service, &name, &options, &filtered, &failure));
  moonpad_changes *own = NULL;
  OK(moonpad_session_changes(session, &own, &failure));
  set_json(own, "own", "", "[7]");
  moonpad_service_close(self->service);
  expect_readable(session);
  expect_closed_for_writes(session);
  expect_closed_for_writes(clean);
  expect_closed_for_reads(session);
  expect_closed_for_reads(clean);
  expect_readable(session);
  size_t count = 9;
  FAILS(MOONPAD_CLOSED, moonpad_session_event_count(filtered, &count, &failure));
  assert_int_equal(count, 0);
  moonpad_session_free(filtered);
  moonpad_session_free(clean);
  moonpad_session_free(session);
}

static void test_a_session_keeps_its_service(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
  moonpad_service_retain(self->service);
  moonpad_service_release(self->service);
  host_append(session, "{\"k\":2}");
  moonpad_service *service = self->service;
  self->service = NULL;
  moonpad_service_release(service);
  host_append(session, "{\"k\":3}");
  assert_int_equal(host_read(session, "k", "").as.integer, 3);
  moonpad_session_free(session);
}

/* ---- Sessions ---- */

static void test_a_created_session_has_its_names_and_state(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, " s ", "{\"k\":1,\"user:u\":[2.0],\"app:a\":\"x\",\"temp:t\":4}");
  SAYS(moonpad_session_id(session), "s");
  SAYS(moonpad_session_app_name(session), "app");
  SAYS(moonpad_session_user_id(session), "u");
  assert_true(moonpad_session_create_time(session) == 1000.5);
  assert_true(moonpad_session_last_update_time(session) == 1000.5);
  assert_int_equal(moonpad_session_revision(session), 0);
  assert_int_equal(moonpad_session_conversation_count(session), 0);
  assert_int_equal(host_event_count(session), 0);
  STATE(session, "{\"app:a\":\"x\",\"k\":1,\"user:u\":[2.0]}");
  moonpad_session_free(session);
  STORED(self, "s", "{\"app:a\":\"x\",\"k\":1,\"user:u\":[2.0]}");

  moonpad_session_name name = host_name("s");
  session = (moonpad_session *)1;
  FAILS(MOONPAD_ALREADY_EXISTS, moonpad_create_session(self->service, &name, T(""), &session, &failure));
  assert_null(session);
  static const char *const wrong[] = {"[]", "1", "{", "{\"k\":NaN}", "{\"k\":1}x", "{\"k\":\"\xff\"}"};
  name = host_name("new");
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_create_session(self->service, &name, T(wrong[i]), &session, &failure));
  }
  FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(self->service, &name, NULL, &session, &failure));
  assert_null(session);
  name.user_id = T("");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_create_session(self->service, &name, T(""), &session, &failure));
  name.user_id = (moonpad_string){"a\0b", 3};
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_create_session(self->service, &name, T(""), &session, &failure));
}

static void test_ids_come_from_the_injected_source(void **state) {
  host *self = *state;
  self->seed = 0x10;
  moonpad_session *session = host_create(self, "  ", "");
  SAYS(moonpad_session_id(session), "11111111-1111-4111-9111-111111111111");
  moonpad_event *event = NULL;
  self->now = 2000.25;
  OK(moonpad_append_event(session, T("{\"author\":\"agent\"}"), &event, &failure));
  assert_int_equal(moonpad_event_id(event).length, 36);
  assert_int_equal(moonpad_event_id(event).data[14], '7');
  assert_true(moonpad_event_timestamp(event) == 2000.25);
  assert_true(moonpad_session_last_update_time(session) == 2000.25);
  /* UUIDv7 begins with the milliseconds of the injected clock: 2000250 = 0x1e857a. */
  assert_memory_equal(moonpad_event_id(event).data, "0000001e-857a-7", 15);
  moonpad_event_free(event);
  moonpad_session_free(session);
}

static void test_a_get_shows_as_many_events_as_asked(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":0}");
  for (int i = 1; i <= 4; i++) {
    char event[128];
    snprintf(event, sizeof event,
             "{\"id\":\"e%d\",\"author\":\"user\",\"timestamp\":%d,\"content\":{\"role\":\"user\",\"parts\":[{\"text\":"
             "\"x\"}]}}",
             i, i * 10);
    OK(moonpad_append_event(session, T(event), NULL, &failure));
  }
  moonpad_session_free(session);
  moonpad_session_name name = host_name("s");
  moonpad_get_options options;
  moonpad_get_options_init(&options);
  assert_int_equal(options.size, sizeof options);
  assert_true(options.num_recent_events == MOONPAD_DEFAULT);
  assert_false(options.has_after_timestamp);
  static const struct {
    int64_t recent;
    double after; /* 0: none */
    size_t count;
    const char *first;
  } cases[] = {{-1, 0, 4, "e1"},  {2, 0, 2, "e3"},  {0, 0, 0, NULL},   {99, 0, 4, "e1"},
               {-1, 20, 3, "e2"}, {1, 20, 1, "e4"}, {-1, 41, 0, NULL}, {0, 20, 0, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    options.num_recent_events = cases[i].recent;
    options.has_after_timestamp = cases[i].after > 0;
    options.after_timestamp = cases[i].after;
    OK(moonpad_get_session(self->service, &name, &options, &session, &failure));
    assert_int_equal(host_event_count(session), cases[i].count);
    assert_int_equal(moonpad_session_revision(session), 4);
    assert_int_equal(moonpad_session_conversation_count(session), 4);
    if (cases[i].first != NULL) {
      moonpad_event *event = NULL;
      OK(moonpad_session_event(session, 0, &event, &failure));
      SAYS(moonpad_event_id(event), cases[i].first);
      moonpad_event_free(event);
    }
    moonpad_session_free(session);
  }
  options.num_recent_events = -2;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_get_session(self->service, &name, &options, &session, &failure));
  assert_null(session);
  name.session_id = T("unknown");
  FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(self->service, &name, NULL, &session, &failure));
  name.session_id = T("  ");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_get_session(self->service, &name, NULL, &session, &failure));
}

static void test_sessions_are_listed_page_by_page(void **state) {
  host *self = *state;
  static const char *const ids[] = {"c", "a", "b"};
  for (int i = 0; i < 3; i++) {
    self->now = 100 + i;
    moonpad_session_free(host_create(self, ids[i], "{\"k\":1}"));
  }
  moonpad_session_list *list = NULL;
  OK(moonpad_list_sessions(self->service, T("app"), NULL, &list, &failure));
  assert_int_equal(moonpad_session_list_count(list), 3);
  for (size_t i = 0; i < 3; i++) SAYS(moonpad_session_id(moonpad_session_list_at(list, i)), ids[i]);
  assert_int_equal(moonpad_session_list_cursor(list).length, 0);
  moonpad_session *taken = moonpad_session_list_take(list, 1);
  assert_non_null(taken);
  assert_null(moonpad_session_list_take(list, 1));
  moonpad_session_list_free(list);
  SAYS(moonpad_session_id(taken), "a");
  STATE(taken, "{\"k\":1}");
  assert_int_equal(host_event_count(taken), 0);
  host_append(taken, "{\"k\":2}");
  moonpad_session_free(taken);

  moonpad_list_options options;
  moonpad_list_options_init(&options);
  assert_int_equal(options.size, sizeof options);
  options.limit = 2;
  options.newest_first = true;
  options.has_user_id = true;
  options.user_id = T("u");
  char cursor[512];
  OK(moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
  assert_int_equal(moonpad_session_list_count(list), 2);
  SAYS(moonpad_session_id(moonpad_session_list_at(list, 0)), "b");
  moonpad_string more = moonpad_session_list_cursor(list);
  assert_in_range(more.length, 1, sizeof cursor);
  memcpy(cursor, more.data, more.length);
  options.after = (moonpad_string){cursor, more.length};
  moonpad_session_list_free(list);
  OK(moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
  assert_int_equal(moonpad_session_list_count(list), 1);
  SAYS(moonpad_session_id(moonpad_session_list_at(list, 0)), "c");
  assert_int_equal(moonpad_session_list_cursor(list).length, 0);
  moonpad_session_list_free(list);

  options.after = T("no cursor");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
  assert_null(list);
  options.after = T("");
  options.user_id = T("nobody");
  OK(moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
  assert_int_equal(moonpad_session_list_count(list), 0);
  moonpad_session_list_free(list);
  options.limit = INT64_MAX; /* more than there can be */
  options.user_id = T("u");
  OK(moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
  assert_int_equal(moonpad_session_list_count(list), 3);
  assert_int_equal(moonpad_session_list_cursor(list).length, 0);
  moonpad_session_list_free(list);
  options.limit = -1;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
}

static void test_what_is_no_cursor_is_refused(void **state) {
  static const char *const wrong[] = {"null",
                                      "[]",
                                      "{}",
                                      "1.5",
                                      "\"\\n\"",
                                      "[1.5]",
                                      "[1.5,\"u\"]",
                                      "[1,\"u\",\"s\"]",
                                      "[1.5,1,2]",
                                      "[1.5,\"u\",null]",
                                      "[1.5,[\"u\"],\"s\"]",
                                      "[null,\"u\",\"s\"]",
                                      "[1e400,\"u\",\"s\"]",
                                      "[1.5,\"u\",\"s\",1]",
                                      "[1.5,\"u\",\"s\"]]",
                                      "[1.5,\"u\",\"s\"",
                                      "[1.5,\"\xff\",\"s\"]"};
  host *self = *state;
  moonpad_session_free(host_create(self, "s", ""));
  moonpad_session_list *list = NULL;
  moonpad_list_options options;
  moonpad_list_options_init(&options);
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    options.after = T(wrong[i]);
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
    assert_string_equal(failure.message, "after: not a cursor that listSessions returned");
    assert_null(list);
  }
  /* Nobody is called so, but it is one. */
  options.after = T("[1.5,\"\",\"\"]");
  OK(moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
  moonpad_session_list_free(list);
}

static void test_read_by_path(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(
      self, "s",
      "{\"i\":9007199254740993,\"f\":1.0,\"t\":true,\"n\":null,\"s\":\"a\\u0000b\","
      "\"o\":{\"address\":{\"city\":\"Kyiv\"},\"items\":[{\"name\":\"tea\"},{\"name\":\"mi\\nlk\"}],\"e\":[]}}");
  assert_int_equal(host_read(session, "i", "").type, MOONPAD_INTEGER);
  assert_int_equal(host_read(session, "i", "").as.integer, 9007199254740993);
  assert_int_equal(host_read(session, "f", "").type, MOONPAD_FLOAT);
  assert_true(host_read(session, "f", "").as.number == 1.0);
  assert_int_equal(host_read(session, "t", "").type, MOONPAD_BOOLEAN);
  assert_true(host_read(session, "t", "").as.boolean);
  assert_int_equal(host_read(session, "n", "").type, MOONPAD_NULL);
  moonpad_value text = host_read(session, "s", "");
  assert_int_equal(text.type, MOONPAD_STRING);
  assert_int_equal(text.as.text.length, 3);
  assert_memory_equal(text.as.text.data, "a\0b", 3);
  SAYS(host_read(session, "o", "address.city").as.text, "Kyiv");
  SAYS(host_read(session, "o", "items[2].name").as.text, "mi\nlk");
  assert_int_equal(host_read(session, "o", "items").type, MOONPAD_ARRAY);
  SAYS(host_read(session, "o", "address").as.text, "{\"city\":\"Kyiv\"}");
  assert_int_equal(host_read(session, "o", "e").type, MOONPAD_ARRAY);
  SAYS(host_read(session, "o", "e").as.text, "[]");
  static const char *const absent[] = {"nothing",    "items[3]",   "address.city.x",
                                       "items.name", "address[1]", "items[2].name.x"};
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
    assert_int_equal(host_read(session, "o", absent[i]).type, MOONPAD_ABSENT);
  }
  assert_int_equal(host_read(session, "missing", "").type, MOONPAD_ABSENT);
  assert_int_equal(host_read(session, "missing", "a.b").type, MOONPAD_ABSENT);
  assert_int_equal(host_read(session, "i", "x").type, MOONPAD_ABSENT);
  moonpad_value value;
  static const char *const wrong[] = {"[", "a[", "a[x]", "a..b", ".a", "a.", "a]", "items[-1]"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_session_read(session, T("o"), T(wrong[i]), &value, &failure));
  }
  moonpad_session_free(session);
}

/* ---- Events ---- */

static void test_an_event_is_stored_and_shown(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"gone\":1}");
  moonpad_event *event = NULL;
  OK(moonpad_append_event(
      session,
      T("{\"id\":\"e1\",\"invocationId\":\"i1\",\"author\":\"agent\",\"timestamp\":5.5,\"mine\":[1.0],"
        "\"actions\":{\"stateDelta\":{\"k\":{\"a\":[]},\"user:u\":1,\"temp:t\":2,\"gone\":null,\"nil\":null}},"
        "\"removedStateKeys\":[\"gone\"]}"),
      &event, &failure));
  assert_int_equal(moonpad_event_revision(event), 1);
  SAYS(moonpad_event_id(event), "e1");
  assert_true(moonpad_event_timestamp(event) == 5.5);
  assert_string_equal(host_in_event(event, "actions.stateDelta.k"), "{\"a\":[]}");
  assert_string_equal(host_in_event(event, "actions.stateDelta.gone"), "null");
  assert_string_equal(host_in_event(event, "removedStateKeys"), "[\"gone\"]");
  assert_string_equal(host_in_event(event, "mine"), "[1.0]");
  assert_string_equal(host_in_event(event, "revision"), "absent");
  assert_null(strstr(moonpad_event_json(event).data, "temp:t"));
  moonpad_event_free(event);
  STATE(session, "{\"k\":{\"a\":[]},\"nil\":null,\"temp:t\":2,\"user:u\":1}");
  STORED(self, "s", "{\"k\":{\"a\":[]},\"nil\":null,\"user:u\":1}");
  assert_int_equal(moonpad_session_revision(session), 1);

  OK(moonpad_append_event(session, T("{\"author\":\"a\",\"partial\":true,\"actions\":{\"stateDelta\":{\"k\":1}}}"),
                          &event, &failure));
  assert_int_equal(moonpad_event_revision(event), 0);
  assert_string_equal(host_in_event(event, "actions.stateDelta.k"), "1");
  assert_string_equal(host_in_event(event, "id"), "absent");
  moonpad_event_free(event);
  assert_int_equal(moonpad_session_revision(session), 1);

  static const char *const wrong[] = {"",
                                      "[]",
                                      "1",
                                      "{",
                                      "{\"author\":7}",
                                      "{\"author\":\"a\",\"state_delta\":{}}",
                                      "{\"author\":\"a\",\"stateDelta\":{}}",
                                      "{\"author\":\"a\",\"actions\":{\"state_delta\":{}}}",
                                      "{\"author\":\"a\",\"timestamp\":\"x\"}",
                                      "{\"author\":\"a\",\"author\":\"b\"}x",
                                      "{\"author\":\"\xff\"}",
                                      "{\"author\":\"a\",\"removedStateKeys\":\"k\"}",
                                      "{\"author\":\"a\",\"actions\":{\"stateDelta\":[]}}"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    event = (moonpad_event *)1;
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_append_event(session, T(wrong[i]), &event, &failure));
    assert_null(event);
  }
  assert_int_equal(moonpad_session_revision(session), 1);
  moonpad_session_free(session);
}

/* A host may have set one that writes 1,5. */
static void test_the_locale_does_not_matter(void **state) {
  host *self = *state;
  moonpad_event *event = NULL;
  begin_comma_locale();
  moonpad_session *session = host_create(self, "s", "");
  self->now = 1763700000.125;
  host_append(session, "{\"k\":0.1}");
  moonpad_session_free(session);
  session = host_get(self, "s");
  OK(moonpad_session_event(session, 0, &event, &failure));
  assert_true(moonpad_event_timestamp(event) == 1763700000.125);
  assert_true(moonpad_session_last_update_time(session) == 1763700000.125);
  moonpad_event_free(event);
  STATE(session, "{\"k\":0.1}");
  moonpad_session_free(session);
  end_comma_locale();
}

static void test_append_event_twice(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "");
  moonpad_string same = T("{\"id\":\"e1\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":1,\"temp:t\":1}}}");
  moonpad_event *event = NULL;
  OK(moonpad_append_event(session, same, NULL, &failure));
  host_append(session, "{\"k\":2}");
  self->now += 10;
  OK(moonpad_append_event(session, same, &event, &failure));
  assert_int_equal(moonpad_event_revision(event), 1);
  assert_true(moonpad_event_timestamp(event) == 1000.5);
  moonpad_event_free(event);
  OK(moonpad_append_event(
      session, T("{ \"actions\" : { \"stateDelta\" : { \"k\" : 1 } } , \"author\" : \"a\" , \"id\" : \"e1\" }"), NULL,
      &failure));
  FAILS(MOONPAD_ALREADY_EXISTS,
        moonpad_append_event(session, T("{\"id\":\"e1\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":1.0}}}"),
                             NULL, &failure));
  assert_int_equal(moonpad_session_revision(session), 2);
  assert_int_equal(host_read(session, "k", "").as.integer, 2);
  moonpad_session_free(session);
}

static void test_events_are_read_by_index(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "");
  for (int i = 0; i < 300; i++) host_append(session, "{\"k\":1}");
  moonpad_session *again = host_get(self, "s");
  moonpad_session *objects[] = {session, again};
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(host_event_count(objects[i]), 300);
    static const size_t indices[] = {0, 299, 150, 1, 298, 127, 128, 129};
    for (size_t j = 0; j < sizeof indices / sizeof indices[0]; j++) {
      moonpad_event *event = NULL;
      OK(moonpad_session_event(objects[i], indices[j], &event, &failure));
      assert_int_equal(moonpad_event_revision(event), indices[j] + 1);
      moonpad_event_free(event);
    }
    moonpad_event *none = (moonpad_event *)1;
    assert_int_not_equal(moonpad_session_event(objects[i], 300, &none, &failure), MOONPAD_OK);
    assert_null(none);
  }
  moonpad_session_free(again);
  moonpad_session_free(session);
}

static void test_refresh_and_conflicts(void **state) {
  host *self = *state;
  moonpad_session *mine = host_create(self, "s", "{\"k\":\"old\",\"j\":1}"), *theirs = host_get(self, "s");
  host_append(theirs, "{\"k\":\"theirs\",\"new\":1}");
  STATE(mine, "{\"j\":1,\"k\":\"old\"}");
  FAILS(MOONPAD_CONFLICT,
        moonpad_append_event(mine,
                             T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":\"mine\",\"j\":2,\"new\":2}}}"),
                             NULL, &failure));
  assert_int_equal(moonpad_session_conflict_count(mine), 2);
  moonpad_string keys[2] = {moonpad_session_conflict_key(mine, 0), moonpad_session_conflict_key(mine, 1)};
  bool sorted = keys[0].length == 1;
  SAYS(keys[sorted ? 0 : 1], "k");
  SAYS(keys[sorted ? 1 : 0], "new");
  assert_int_equal(moonpad_session_revision(mine), 0);
  OK(moonpad_refresh(mine, &failure));
  assert_int_equal(moonpad_session_revision(mine), 1);
  STATE(mine, "{\"j\":1,\"k\":\"theirs\",\"new\":1}");
  host_append(mine, "{\"k\":\"mine\"}");
  assert_int_equal(moonpad_session_conflict_count(mine), 0);
  STORED(self, "s", "{\"j\":1,\"k\":\"mine\",\"new\":1}");
  moonpad_session_free(theirs);
  moonpad_session_free(mine);
}

/* ---- Configured limits ---- */

static void test_what_exceeds_a_configured_limit_is_refused(void **state) {
  host *self = *state;
  moonpad_service_release(self->service);
  self->options.max_value_bytes = 100;
  self->options.max_event_bytes = 400;
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
  moonpad_session *session = host_create(self, "s", "");
  char event[700], text[600];
  memset(text, 'x', sizeof text);
  snprintf(event, sizeof event, "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":\"%.*s\"}}}", 200, text);
  FAILS(MOONPAD_LIMIT, moonpad_append_event(session, T(event), NULL, &failure));
  snprintf(event, sizeof event, "{\"author\":\"a\",\"x\":\"%.*s\"}", 500, text);
  FAILS(MOONPAD_LIMIT, moonpad_append_event(session, T(event), NULL, &failure));
  snprintf(event, sizeof event, "{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":\"%.*s\"}}}", 90, text);
  OK(moonpad_append_event(session, T(event), NULL, &failure));
  assert_int_equal(moonpad_session_revision(session), 1);
  moonpad_session_free(session);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_library_names_its_version_and_its_statuses),
      cmocka_unit_test(test_options_have_the_documented_defaults),
      cmocka_unit_test(test_open_refuses_what_it_cannot_open),
      cmocka_unit_test(test_release_accepts_null),
      ON_EVERY_STORE(test_a_service_is_counted_and_can_be_closed),
      ON_EVERY_STORE(test_every_call_on_a_closed_service),
      ON_EVERY_STORE(test_a_session_of_a_closed_service),
      ON_EVERY_STORE(test_a_session_keeps_its_service),
      ON_EVERY_STORE(test_a_created_session_has_its_names_and_state),
      ON_EVERY_STORE(test_ids_come_from_the_injected_source),
      ON_EVERY_STORE(test_a_get_shows_as_many_events_as_asked),
      ON_EVERY_STORE(test_sessions_are_listed_page_by_page),
      ON_EVERY_STORE(test_what_is_no_cursor_is_refused),
      ON_EVERY_STORE(test_read_by_path),
      ON_EVERY_STORE(test_an_event_is_stored_and_shown),
      ON_EVERY_STORE(test_the_locale_does_not_matter),
      ON_EVERY_STORE(test_append_event_twice),
      ON_EVERY_STORE(test_events_are_read_by_index),
      ON_EVERY_STORE(test_refresh_and_conflicts),
      ON_EVERY_STORE(test_what_exceeds_a_configured_limit_is_refused),
  };
  return HOST_RUN(tests);
}
