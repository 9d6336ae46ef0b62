/* The public C API call by call, on both stores: history, backup, export and import. */
#include "service_support.h"

#include <stdio.h>

/* ---- History ---- */

static moonpad_session *with_history(host *self) {
  moonpad_session *session = host_create(self, "s", "{\"k\":0,\"user:u\":0,\"gone\":[1]}");
  OK(moonpad_append_event(session,
                          T("{\"id\":\"e1\",\"author\":\"user\",\"invocationId\":\"i1\",\"timestamp\":11.5,\"actions\":"
                            "{\"stateDelta\":{\"k\":1,\"user:u\":1}}}"),
                          NULL, &failure));
  OK(moonpad_append_event(
      session,
      T("{\"id\":\"e2\",\"author\":\"agent\",\"invocationId\":\"i2\",\"timestamp\":12,\"x\":1e3,"
        "\"actions\":{\"stateDelta\":{\"gone\":null,\"new\":2.0}},\"removedStateKeys\":[\"gone\"]}"),
      NULL, &failure));
  return session;
}

static void test_history(void **state) {
  host *self = *state;
  moonpad_session *session = with_history(self), *fork = NULL;
  static const char *const states[] = {"{\"gone\":[1],\"k\":0}", "{\"gone\":[1],\"k\":1}", "{\"k\":1,\"new\":2.0}"};
  moonpad_buffer json = {0};
  for (int64_t i = 0; i <= 2; i++) {
    OK(moonpad_state_at(session, i, &json, &failure));
    GIVES(json, states[i]);
  }
  FAILS(MOONPAD_NOT_FOUND, moonpad_state_at(session, 3, &json, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_state_at(session, -1, &json, &failure));
  assert_null(json.data);

  OK(moonpad_fork(session, 1, T("fork"), &fork, &failure));
  assert_int_equal(moonpad_session_revision(fork), 1);
  assert_int_equal(host_event_count(fork), 1);
  STATE(fork, "{\"gone\":[1],\"k\":1,\"user:u\":1}");
  moonpad_session_free(fork);
  FAILS(MOONPAD_ALREADY_EXISTS, moonpad_fork(session, 1, T("fork"), &fork, &failure));
  assert_null(fork);
  FAILS(MOONPAD_NOT_FOUND, moonpad_fork(session, 9, T("other"), &fork, &failure));
  OK(moonpad_fork(session, 0, T(""), &fork, &failure));
  assert_int_equal(moonpad_session_id(fork).length, 36);
  moonpad_session_free(fork);

  moonpad_event *event = NULL;
  FAILS(MOONPAD_NOT_FOUND, moonpad_rewind(session, T("unknown"), &event, &failure));
  assert_null(event);
  OK(moonpad_rewind(session, T("i2"), &event, &failure));
  assert_int_equal(moonpad_event_revision(event), 3);
  assert_string_equal(host_in_event(event, "actions.rewindBeforeInvocationId"), "i2");
  moonpad_event_free(event);
  STATE(session, "{\"gone\":[1],\"k\":1,\"user:u\":1}");
  OK(moonpad_rewind(session, T("i1"), NULL, &failure));
  STORED(self, "s", "{\"gone\":[1],\"k\":0,\"user:u\":1}");
  moonpad_session_free(session);
}

static void test_backup(void **state) {
  host *self = *state;
  moonpad_session_free(with_history(self));
  if (self->folder[0] == '\0') {
    FAILS(MOONPAD_UNSUPPORTED, moonpad_backup(self->service, T("/tmp/moonpad-never"), &failure));
    return;
  }
  char path[128], url[160];
  snprintf(path, sizeof path, "%s/copy.db", self->folder);
  snprintf(url, sizeof url, "sqlite:%s", path);
  OK(moonpad_backup(self->service, T(path), &failure));
  moonpad_service *original = self->service;
  OK(moonpad_open(T(url), &self->options, &self->service, &failure));
  STORED(self, "s", "{\"k\":1,\"new\":2.0,\"user:u\":1}");
  moonpad_service_release(self->service);
  self->service = original;
}

/* ---- Export and import ---- */

typedef struct lines {
  char text[16][1024];
  size_t lengths[16];
  size_t count;
  size_t next;
  size_t stop_at; /* refuses this line; 0: none */
} lines;

static bool keep_line(void *context, moonpad_string line) {
  lines *kept = context;
  if (kept->stop_at == kept->count + 1 || kept->count == 16 || line.length >= sizeof kept->text[0]) return false;
  memcpy(kept->text[kept->count], line.data, line.length);
  kept->lengths[kept->count++] = line.length;
  return true;
}

static bool give_line(void *context, moonpad_string *line) {
  lines *kept = context;
  if (kept->next == kept->count) return false;
  line->data = kept->text[kept->next];
  line->length = kept->lengths[kept->next++];
  return true;
}

static void test_export_and_import(void **state) {
  host *self = *state;
  moonpad_session *session = with_history(self), *copy = NULL;
  lines *first = calloc(1, sizeof *first), *second = calloc(1, sizeof *second);
  assert_true(first != NULL && second != NULL);
  OK(moonpad_export_session(session, keep_line, first, &failure));
  assert_int_equal(first->count, 3);
  for (size_t i = 0; i < first->count; i++) {
    char *line = first->text[i];
    assert_int_equal(line[first->lengths[i] - 1], '\n');
    assert_null(memchr(line, '\n', first->lengths[i] - 1));
  }

  FAILS(MOONPAD_ALREADY_EXISTS, moonpad_import_session(self->service, NULL, give_line, first, &copy, &failure));
  assert_null(copy);
  moonpad_session_name name = {T(""), T(""), T("copy")};
  first->next = 0;
  OK(moonpad_import_session(self->service, &name, give_line, first, &copy, &failure));
  SAYS(moonpad_session_id(copy), "copy");
  SAYS(moonpad_session_user_id(copy), "u");
  assert_int_equal(moonpad_session_revision(copy), 2);
  assert_true(moonpad_session_last_update_time(copy) == 12.0);
  assert_true(moonpad_session_create_time(copy) == moonpad_session_create_time(session));
  STATE(copy, "{\"k\":1,\"new\":2.0,\"user:u\":1}");
  moonpad_buffer json = {0};
  OK(moonpad_state_at(copy, 0, &json, &failure));
  GIVES(json, "{\"gone\":[1],\"k\":0}");
  for (size_t i = 0; i < 2; i++) {
    moonpad_event *one = NULL, *two = NULL;
    OK(moonpad_session_event(session, i, &one, &failure));
    OK(moonpad_session_event(copy, i, &two, &failure));
    assert_int_equal(moonpad_event_json(one).length, moonpad_event_json(two).length);
    assert_memory_equal(moonpad_event_json(one).data, moonpad_event_json(two).data, moonpad_event_json(one).length);
    moonpad_event_free(one);
    moonpad_event_free(two);
  }
  /* Exact both ways: what is exported again differs in the name alone. */
  OK(moonpad_export_session(copy, keep_line, second, &failure));
  assert_int_equal(second->count, first->count);
  for (size_t i = 1; i < first->count; i++) {
    assert_int_equal(second->lengths[i], first->lengths[i]);
    assert_memory_equal(second->text[i], first->text[i], first->lengths[i]);
  }
  moonpad_session_free(copy);

  /* All or nothing: a broken line names itself, and no session is left. */
  name.session_id = T("broken");
  for (size_t i = 0; i < second->count; i++) {
    memcpy(second, first, sizeof *second);
    second->next = 0;
    second->text[i][second->lengths[i] / 2] = '\x01';
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_session(self->service, &name, give_line, second, &copy, &failure));
    char number[32];
    snprintf(number, sizeof number, "line %zu", i + 1);
    assert_non_null(strstr(failure.message, number));
    FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(self->service, &(moonpad_session_name){T("app"), T("u"), T("broken")},
                                                 NULL, &copy, &failure));
  }
  second->count = 0;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_import_session(self->service, &name, give_line, second, &copy, &failure));
  for (size_t stop = 1; stop <= 3; stop++) {
    second->count = 0;
    second->stop_at = stop;
    FAILS(MOONPAD_STORAGE, moonpad_export_session(session, keep_line, second, &failure));
  }
  free(first);
  free(second);
  moonpad_session_free(session);
}

/* Whatever it is called, a session that travels is only ever itself. */
static void test_export_and_import_keep_names_apart(void **state) {
  static const char *const names[] = {
      "a",  "a/b",     "a:b",      "%",         "'; DROP TABLE sessions; --", "\"",   "a\",\"b",
      "\\", "\\u0061", "\xc3\xa9", "e\xcc\x81", "\xf0\x9f\x8c\x99",           "null", "{}",
      "A",  "user:"};
  enum { COUNT = sizeof names / sizeof names[0] };
  host *self = *state;
  lines *exported = calloc(1, sizeof *exported);
  assert_non_null(exported);
  for (size_t i = 0; i < COUNT; i++) {
    char json[64];
    moonpad_session_name name = {T(names[i]), T(names[i]), T(names[i])};
    moonpad_session *session = NULL;
    snprintf(json, sizeof json, "{\"k\":%zu}", i);
    OK(moonpad_create_session(self->service, &name, T(json), &session, &failure));
    moonpad_session_free(session);
  }
  for (size_t i = 0; i < COUNT; i++) {
    char json[64];
    moonpad_session_name name = {T(names[i]), T(names[i]), T(names[i])}, renamed = {T(""), T("taken over"), T("")};
    moonpad_session *session = NULL, *copy = NULL;
    snprintf(json, sizeof json, "{\"k\":%zu}", i);
    OK(moonpad_get_session(self->service, &name, NULL, &session, &failure));
    exported->count = exported->next = 0;
    OK(moonpad_export_session(session, keep_line, exported, &failure));
    moonpad_session_free(session);
    FAILS(MOONPAD_ALREADY_EXISTS, moonpad_import_session(self->service, NULL, give_line, exported, &copy, &failure));
    exported->next = 0;
    OK(moonpad_import_session(self->service, &renamed, give_line, exported, &copy, &failure));
    STATE(copy, json);
    SAYS(moonpad_session_app_name(copy), names[i]);
    SAYS(moonpad_session_id(copy), names[i]);
    SAYS(moonpad_session_user_id(copy), "taken over");
    moonpad_session_free(copy);
    OK(moonpad_get_session(self->service, &name, NULL, &session, &failure));
    STATE(session, json);
    moonpad_session_free(session);
  }
  free(exported);
}

/* What another service let in is measured by the one that takes it. The state is at its largest in revision 0, 9 bytes: gone [1], k 0. */
static void test_import_keeps_to_the_limits(void **state) {
  host *self = *state;
  moonpad_session *session = with_history(self), *copy = NULL;
  lines *exported = calloc(1, sizeof *exported);
  assert_non_null(exported);
  OK(moonpad_export_session(session, keep_line, exported, &failure));
  moonpad_session_free(session);
  size_t event = 0; /* the longest, without its newline */
  for (size_t i = 1; i < exported->count; i++) {
    if (exported->lengths[i] - 1 > event) event = exported->lengths[i] - 1;
  }
  const struct {
    int64_t value, event, state;
    bool fits;
  } limits[] = {{3, (int64_t)event, 9, true},
                {2, (int64_t)event, 9, false},
                {3, (int64_t)event - 1, 9, false},
                {3, (int64_t)event, 8, false},
                {0, 0, 0, true}};
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    moonpad_options options = self->options;
    moonpad_service *service = NULL;
    options.max_value_bytes = limits[i].value;
    options.max_event_bytes = limits[i].event;
    options.max_state_bytes = limits[i].state;
    OK(moonpad_open(T("memory:"), &options, &service, &failure));
    exported->next = 0;
    if (limits[i].fits) {
      OK(moonpad_import_session(service, NULL, give_line, exported, &copy, &failure));
      moonpad_session_free(copy);
    } else {
      FAILS(MOONPAD_LIMIT, moonpad_import_session(service, NULL, give_line, exported, &copy, &failure));
      moonpad_session_name name = host_name("s");
      FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(service, &name, NULL, &copy, &failure));
    }
    moonpad_service_release(service);
  }
  free(exported);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_BOTH(test_history),
      ON_BOTH(test_backup),
      ON_BOTH(test_export_and_import),
      ON_BOTH(test_export_and_import_keep_names_apart),
      ON_BOTH(test_import_keeps_to_the_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
