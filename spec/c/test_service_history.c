/* The public C API call by call, on every store: history, backup, export and import. */
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

static void test_history_is_looked_at_forked_and_rewound(void **state) {
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

/* Keys that had gone when it was forked come back as well. */
static void test_a_fork_goes_back_as_its_origin_does(void **state) {
  host *self = *state;
  for (int64_t at = 0; at <= 2; at++) {
    char id[8], fork_id[8];
    snprintf(id, sizeof id, "s%d", (int)at);
    snprintf(fork_id, sizeof fork_id, "f%d", (int)at);
    moonpad_session *session = host_create(self, id, "{\"kept\":1,\"gone\":[2]}"), *fork;
    host_append(session, "{\"other\":3}");
    OK(moonpad_append_event(session,
                            T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"gone\":null}},"
                              "\"removedStateKeys\":[\"gone\"]}"),
                            NULL, &failure));
    static const char *const states[] = {"{\"gone\":[2],\"kept\":1}", "{\"gone\":[2],\"kept\":1,\"other\":3}",
                                         "{\"kept\":1,\"other\":3}"};
    OK(moonpad_fork(session, at, T(fork_id), &fork, &failure));
    for (int64_t back = at; back >= 0; back--) {
      OK(moonpad_rewind_to_revision(fork, back, NULL, &failure));
      STATE(fork, states[back]);
      STORED(self, fork_id, states[back]);
    }
    moonpad_session_free(fork);
    moonpad_session_free(session);
  }
}

static void test_rewind_to_a_revision(void **state) {
  host *self = *state;
  moonpad_session *session = with_history(self);
  moonpad_event *event = NULL;
  static const int64_t nowhere[] = {3, -1, INT64_MIN, INT64_MAX};
  for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
    FAILS(MOONPAD_NOT_FOUND, moonpad_rewind_to_revision(session, nowhere[i], &event, &failure));
    assert_null(event);
  }
  SAYS(moonpad_text(failure.message), "revision 9223372036854775807: the session has revisions 0 to 2");
  static const struct {
    int64_t to;
    const char *state, *delta;
  } steps[] = {{2, "{\"k\":1,\"new\":2.0,\"user:u\":1}", "{}"}, /* the newest: nothing to restore */
               {1, "{\"gone\":[1],\"k\":1,\"user:u\":1}", "{\"new\":null,\"gone\":[1]}"},
               {0, "{\"gone\":[1],\"k\":0,\"user:u\":1}", "{\"k\":0}"},
               {4, "{\"gone\":[1],\"k\":1,\"user:u\":1}", "{\"k\":1}"}}; /* after a rewind */
  for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
    char number[8];
    snprintf(number, sizeof number, "%lld", (long long)steps[i].to);
    OK(moonpad_rewind_to_revision(session, steps[i].to, &event, &failure));
    assert_int_equal(moonpad_event_revision(event), 3 + (int64_t)i);
    assert_string_equal(host_in_event(event, "actions.rewindToRevision"), number);
    assert_string_equal(host_in_event(event, "author"), "user");
    moonpad_value value;
    OK(moonpad_json_read(moonpad_event_json(event), T("actions.stateDelta"), NULL, &value, &failure));
    SAYS(value.as.text, steps[i].delta);
    moonpad_event_free(event);
    STATE(session, steps[i].state);
    STORED(self, "s", steps[i].state);
  }
  /* A session object that has not seen what others appended goes back from what is stored. */
  moonpad_session *late = host_get(self, "s");
  host_append(session, "{\"others\":[true]}");
  OK(moonpad_rewind_to_revision(late, 0, NULL, &failure));
  STATE(late, "{\"gone\":[1],\"k\":0,\"user:u\":1}");
  STORED(self, "s", "{\"gone\":[1],\"k\":0,\"user:u\":1}");
  moonpad_session_name name = host_name("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_rewind_to_revision(late, 0, NULL, &failure));
  moonpad_session_free(late);
  moonpad_session_free(session);
}

static void test_a_backup_is_a_store_of_its_own(void **state) {
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

/*
** What another service let in is measured by the one that takes it. The state is at its largest in
** revision 0, 9 bytes: gone [1], k 0.
*/
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

/* ---- Imports that another hand has written ---- */

static void put_line(lines *kept, const char *text) {
  kept->lengths[kept->count] = strlen(text);
  assert_true(kept->lengths[kept->count] < sizeof kept->text[0]);
  memcpy(kept->text[kept->count++], text, strlen(text));
}

/* A header in which one member is replaced; NULL leaves it out. */
static void put_header(lines *kept, const char *member, const char *value) {
  static const char *const members[][2] = {{"moonpadSession", "1"}, {"appName", "\"app\""},     {"userId", "\"u\""},
                                           {"sessionId", "\"s\""},  {"createTime", "5.5"},      {"baseRevision", "0"},
                                           {"revision", "0"},       {"conversationCount", "0"}, {"baseState", "{}"}};
  char text[1024] = "{";
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    const char *shown = strcmp(members[i][0], member) == 0 ? value : members[i][1];
    size_t used = strlen(text);
    if (shown != NULL) {
      snprintf(text + used, sizeof text - used, "%s\"%s\":%s", used == 1 ? "" : ",", members[i][0], shown);
    }
  }
  strcat(text, "}");
  kept->count = kept->next = 0;
  put_line(kept, text);
}

/* What lies before the base revision has been trimmed away. */
static void test_rewind_goes_back_to_the_base_at_most(void **state) {
  host *self = *state;
  moonpad_session *session = NULL;
  lines *given = calloc(1, sizeof *given);
  assert_non_null(given);
  put_line(given, "{\"moonpadSession\":1,\"appName\":\"app\",\"userId\":\"u\",\"sessionId\":\"s\",\"createTime\":1,"
                  "\"baseRevision\":7,\"revision\":8,\"conversationCount\":0,\"baseState\":{\"k\":7}}");
  put_line(given, "{\"id\":\"e8\",\"invocationId\":\"i\",\"timestamp\":2,\"actions\":{\"stateDelta\":{\"k\":8}}}");
  OK(moonpad_import_session(self->service, NULL, give_line, given, &session, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_rewind_to_revision(session, 6, NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_rewind_to_revision(session, 0, NULL, &failure));
  STATE(session, "{\"k\":8}");
  OK(moonpad_rewind_to_revision(session, 7, NULL, &failure));
  STORED(self, "s", "{\"k\":7}");
  assert_int_equal(moonpad_session_revision(session), 9);
  moonpad_session_free(session);
  free(given);
}

static void import_is_refused(host *self, lines *given, const char *message, int line) {
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  given->next = 0;
  moonpad_status status = moonpad_import_session(self->service, NULL, give_line, given, &session, &failure);
  expect_failure(MOONPAD_INVALID_ARGUMENT, status, line);
  if (strcmp(failure.message, message) != 0) {
    fail_msg("line %d: %.*s: \"%s\" is not \"%s\"", line, (int)given->lengths[0], given->text[0], failure.message,
             message);
  }
  assert_null(session);
  expect_failure(MOONPAD_NOT_FOUND, moonpad_get_session(self->service, &name, NULL, &session, &failure), line);
}
#define REFUSED(given, message) import_is_refused(self, (given), (message), __LINE__)

static void test_import_headers_of_wrong_types_are_refused(void **state) {
  static const struct {
    const char *member, *message;
    const char *wrong[12];
  } members[] = {
#define NOT_A_COUNT                                                                                                    \
  NULL, "null", "true", "-1", "1.5", "9223372036854775808", "\"\"", "\"\\n\"", "\"1\"", "[]", "[1]", "{\"a\":1}"
      {"moonpadSession", "not the header of an exported session", {NOT_A_COUNT}},
      {"baseRevision", "the header's baseRevision: must be an integer from 0 to 17179869183", {NOT_A_COUNT}},
      {"revision", "the header's revision: must be an integer from 0 to 17179869183", {NOT_A_COUNT}},
      {"conversationCount", "the header's conversationCount: must be an integer from 0 to 17179869183", {NOT_A_COUNT}},
      {"appName", "the header's appName: must be a string", {NULL, "null", "true", "1", "1.5", "[]", "{}"}},
      {"userId", "the header's userId: must be a string", {NULL, "null", "true", "1", "1.5", "[]", "{}"}},
      {"sessionId", "the header's sessionId: must be a string", {NULL, "null", "true", "1", "1.5", "[]", "{}"}},
      {"createTime",
       "the header's createTime: must be a number",
       {NULL, "null", "true", "\"\"", "\"\\n\"", "[1]", "{}"}},
      {"baseState", "the header's baseState: must be an object", {NULL, "null", "true", "1", "1.5", "\"\\n\"", "[]"}},
  };
  host *self = *state;
  lines *given = calloc(1, sizeof *given);
  assert_non_null(given);
  for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
    char message[128];
    snprintf(message, sizeof message, "line 1: %s", members[i].message);
    for (size_t j = 0; j < 12 && (j == 0 || members[i].wrong[j] != NULL); j++) {
      put_header(given, members[i].member, members[i].wrong[j]);
      REFUSED(given, message);
    }
  }
  put_header(given, "userId", "\"\"");
  REFUSED(given, "userId: must not be empty");
  put_header(given, "baseState", "{\"user:k\":1}");
  REFUSED(given, "line 1: baseState holds a key of another scope");
  put_header(given, "createTime", "1e400");
  REFUSED(given, "line 1: a number too large for a double at byte 79");
  moonpad_session *session = NULL;
  put_header(given, "moonpadSession", "2");
  FAILS(MOONPAD_UNSUPPORTED, moonpad_import_session(self->service, NULL, give_line, given, &session, &failure));
  free(given);
}

/* Counting on from there must be possible, on every store alike. */
static void test_import_bounds_revisions(void **state) {
  host *self = *state;
  lines *given = calloc(1, sizeof *given);
  assert_non_null(given);
  static const char *const beyond[] = {"17179869184", "9223372036854775807"};
  for (size_t i = 0; i < 2; i++) {
    put_header(given, "revision", beyond[i]);
    REFUSED(given, "line 1: the header's revision: must be an integer from 0 to 17179869183");
    put_header(given, "baseRevision", beyond[i]);
    REFUSED(given, "line 1: the header's baseRevision: must be an integer from 0 to 17179869183");
    put_header(given, "conversationCount", beyond[i]);
    REFUSED(given, "line 1: the header's conversationCount: must be an integer from 0 to 17179869183");
  }
  put_header(given, "baseRevision", "1");
  REFUSED(given, "line 1: the header's revision: is less than its baseRevision");
  put_header(given, "revision", "1");
  REFUSED(given, "line 1: the header announced 1 events, 0 came");
  put_header(given, "revision", "0");
  put_line(given, "{\"id\":\"a\",\"timestamp\":1,\"invocationId\":\"i\"}");
  REFUSED(given, "line 2: the header announced 0 events, this is one more");

  /* The last revision that can be counted is reached by an append, and none comes after it. */
  moonpad_session *session = NULL;
  given->count = given->next = 0;
  put_line(given, "{\"moonpadSession\":1,\"appName\":\"app\",\"userId\":\"u\",\"sessionId\":\"s\",\"createTime\":1,"
                  "\"baseRevision\":17179869182,\"revision\":17179869182,\"conversationCount\":17179869182,"
                  "\"baseState\":{\"k\":1}}");
  OK(moonpad_import_session(self->service, NULL, give_line, given, &session, &failure));
  host_append(session, "{\"k\":2}");
  assert_int_equal(moonpad_session_revision(session), INT64_C(17179869183));
  FAILS(MOONPAD_LIMIT, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
  assert_string_equal(failure.message, "revision 17179869184: a session counts no further than 17179869183");
  STORED(self, "s", "{\"k\":2}");
  moonpad_session_free(session);
  free(given);
}

#define HEAD "{\"id\":\"a\",\"invocationId\":\"i\",\"timestamp\":1.0"

/* One event beside a header that announces one. */
static void put_event(lines *kept, const char *event) {
  put_header(kept, "revision", "1");
  put_line(kept, event);
}

static void test_imported_events_are_stored_as_appended_ones(void **state) {
  static const char *const events[][2] = {
      {HEAD ",\"actions\":{\"stateDelta\":{}}}", HEAD ",\"actions\":{\"stateDelta\":{}}}"},
      {HEAD "}", HEAD ",\"actions\":{\"stateDelta\":{}}}"},
      {HEAD ",\"actions\":null,\"content\":null,\"removedStateKeys\":null}", HEAD ",\"actions\":{\"stateDelta\":{}}}"},
      {HEAD ",\"actions\":{\"stateDelta\":null}}", HEAD ",\"actions\":{\"stateDelta\":{}}}"},
      {HEAD ",\"actions\":{},\"removedStateKeys\":{}}", HEAD ",\"actions\":{\"stateDelta\":{}}}"},
      {HEAD ",\"revision\":7,\"x\":null,\"actions\":{\"stateDelta\":{}}}",
       HEAD ",\"x\":null,\"actions\":{\"stateDelta\":{}}}"},
      {"{\"removedStateKeys\":[\"a\",\"a\"],\"actions\":{\"escalate\":true,\"stateDelta\":{\"a\":null,\"b\":null}},"
       "\"timestamp\":1,"
       "\"invocationId\":\"i\",\"id\":\"a\"}",
       "{\"id\":\"a\",\"invocationId\":\"i\",\"timestamp\":1,\"actions\":{\"stateDelta\":{\"a\":null,\"b\":null},"
       "\"escalate\":true},"
       "\"removedStateKeys\":[\"a\"]}"},
  };
  host *self = *state;
  lines *given = calloc(1, sizeof *given);
  assert_non_null(given);
  for (size_t i = 0; i < sizeof events / sizeof events[0]; i++) {
    moonpad_session *session = NULL;
    moonpad_session_name name = host_name("s");
    moonpad_event *event = NULL;
    put_event(given, events[i][0]);
    OK(moonpad_import_session(self->service, NULL, give_line, given, &session, &failure));
    OK(moonpad_session_event(session, 0, &event, &failure));
    SAYS(moonpad_event_json(event), events[i][1]);
    moonpad_event_free(event);
    moonpad_session_free(session);
    OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  }
  free(given);
}

static void test_imported_events_that_cannot_be_are_refused(void **state) {
  host *self = *state;
  lines *given = calloc(1, sizeof *given);
  assert_non_null(given);
  static const char incomplete[] = "line 2: an exported event has id, timestamp and invocationId, and is not partial";
  static const char *const cases[][2] = {
      {"[]", "line 2: not an object"},
      {"", "line 2: the text ends too early at byte 1"},
      {"{}", incomplete},
      {"{\"id\":null,\"invocationId\":\"i\",\"timestamp\":1}", incomplete},
      {HEAD ",\"partial\":true}", incomplete},
      {"{\"id\":5,\"invocationId\":\"i\",\"timestamp\":1}", "line 2: event.id: must be a string"},
      {"{\"id\":\"a\",\"invocationId\":[],\"timestamp\":1}", "line 2: event.invocationId: must be a string"},
      {"{\"id\":\"a\",\"invocationId\":\"i\",\"timestamp\":\"1\"}", "line 2: event.timestamp: must be a number"},
      {HEAD ",\"actions\":[]}", "line 2: event.actions: must be an object"},
      {HEAD ",\"actions\":{\"stateDelta\":5}}", "line 2: event.actions.stateDelta: must be an object"},
      {HEAD ",\"actions\":{\"stateDelta\":{\"a\":1}},\"removedStateKeys\":[\"a\"]}",
       "line 2: event.removedStateKeys: \"a\" must be null in actions.stateDelta to be removed"},
      {HEAD ",\"actions\":{\"stateDelta\":{\"temp:a\":1}}}",
       "line 2: event.actions.stateDelta[\"temp:a\"]: a temporary key is never stored"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    put_event(given, cases[i][0]);
    REFUSED(given, cases[i][1]);
  }
  put_header(given, "revision", "3");
  put_line(given, HEAD "}");
  put_line(given, "{\"id\":\"b\",\"invocationId\":\"i\",\"timestamp\":1}");
  put_line(given, HEAD "}");
  REFUSED(given, "line 4: the id \"a\" comes a second time");
  free(given);
}

/* An array of so many levels. */
static void put_levels(char *text, size_t levels) {
  memset(text, '[', levels);
  memset(text + levels, ']', levels);
  text[2 * levels] = '\0';
}

static void test_imported_values_are_no_deeper_than_others(void **state) {
  host *self = *state;
  lines *given = calloc(1, sizeof *given);
  assert_non_null(given);
  for (size_t levels = MOONPAD_MAX_DEPTH; levels <= MOONPAD_MAX_DEPTH + 1; levels++) {
    char value[2 * MOONPAD_MAX_DEPTH + 3], base[512], event[512];
    put_levels(value, levels);
    snprintf(base, sizeof base, "{\"k\":%s}", value);
    snprintf(event, sizeof event, HEAD ",\"actions\":{\"stateDelta\":{\"k\":%s}}}", value);
    for (int in_event = 0; in_event < 2; in_event++) {
      moonpad_session *session = NULL;
      moonpad_session_name name = host_name("s");
      if (in_event) {
        put_event(given, event);
      } else {
        put_header(given, "baseState", base);
      }
      if (levels > MOONPAD_MAX_DEPTH) {
        REFUSED(given, in_event ? "line 2: event.actions.stateDelta[\"k\"]: nested deeper than 128"
                                : "line 1: baseState[\"k\"]: nested deeper than 128");
        continue;
      }
      OK(moonpad_import_session(self->service, NULL, give_line, given, &session, &failure));
      SAYS(host_read(session, "k", "").as.text, value);
      moonpad_session_free(session);
      OK(moonpad_delete_session(self->service, &name, NULL, &failure));
    }
  }
  free(given);
}

/* ---- Messages of the user are counted alike everywhere ---- */

static void test_messages_of_the_user_are_counted_alike(void **state) {
  static const struct {
    const char *event;
    bool counts;
  } cases[] = {
      {",\"author\":\"user\",\"content\":{\"parts\":[{\"text\":\"x\"}]}}", true},
      {",\"author\":\"user\",\"content\":{\"role\":\"model\",\"parts\":[{}]}}", true},
      {",\"author\":\"\\u0075ser\",\"content\":{\"parts\":[{\"text\":\"x\"}]}}", true},
      {",\"content\":{\"parts\":[{\"text\":\"x\"}]},\"author\":\"user\"}", true},
      {",\"author\":\"user\",\"content\":{\"parts\":[]}}", false},
      {",\"author\":\"user\",\"content\":{\"parts\":{}}}", false},
      {",\"author\":\"user\",\"content\":{\"parts\":null}}", false},
      {",\"author\":\"user\",\"content\":{}}", false},
      {",\"author\":\"user\",\"content\":null}", false},
      {",\"author\":\"user\"}", false},
      {",\"author\":\"users\",\"content\":{\"parts\":[{\"text\":\"x\"}]}}", false},
      {",\"author\":null,\"content\":{\"role\":\"user\",\"parts\":[{\"text\":\"x\"}]}}", false},
  };
  host *self = *state;
  lines *exported = calloc(1, sizeof *exported);
  assert_non_null(exported);
  moonpad_session *session = host_create(self, "s", "{}"), *copy = NULL;
  int64_t expected = 0;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char event[256];
    snprintf(event, sizeof event, "{\"id\":\"e%zu\"%s", i, cases[i].event);
    OK(moonpad_append_event(session, T(event), NULL, &failure));
    expected += cases[i].counts ? 1 : 0;
    if (moonpad_session_conversation_count(session) != expected) fail_msg("counted live: %s", event);
    OK(moonpad_fork(session, (int64_t)i + 1, T(""), &copy, &failure));
    if (moonpad_session_conversation_count(copy) != expected) fail_msg("counted by a fork: %s", event);
    moonpad_session_free(copy);
  }
  OK(moonpad_export_session(session, keep_line, exported, &failure));
  moonpad_session_free(session);
  moonpad_session_name name = host_name("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  OK(moonpad_import_session(self->service, NULL, give_line, exported, &copy, &failure));
  assert_int_equal(moonpad_session_conversation_count(copy), expected);
  moonpad_session_free(copy);
  free(exported);
}

static void test_an_import_announces_the_messages_that_it_has(void **state) {
  host *self = *state;
  lines *given = calloc(1, sizeof *given);
  assert_non_null(given);
  static const char message[] = HEAD ",\"author\":\"user\",\"content\":{\"parts\":[{\"text\":\"x\"}]}}";
  put_event(given, message);
  REFUSED(given, "line 1: the header's conversationCount: 0, and the events hold 1 messages of the user");
  put_header(given, "conversationCount", "1");
  REFUSED(given, "line 1: the header's conversationCount: 1, and the events hold 0 messages of the user");
  free(given);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_history_is_looked_at_forked_and_rewound),
      ON_EVERY_STORE(test_a_fork_goes_back_as_its_origin_does),
      ON_EVERY_STORE(test_rewind_to_a_revision),
      ON_EVERY_STORE(test_rewind_goes_back_to_the_base_at_most),
      ON_EVERY_STORE(test_a_backup_is_a_store_of_its_own),
      ON_EVERY_STORE(test_export_and_import),
      ON_EVERY_STORE(test_export_and_import_keep_names_apart),
      ON_EVERY_STORE(test_import_keeps_to_the_limits),
      ON_EVERY_STORE(test_import_headers_of_wrong_types_are_refused),
      ON_EVERY_STORE(test_import_bounds_revisions),
      ON_EVERY_STORE(test_imported_events_are_stored_as_appended_ones),
      ON_EVERY_STORE(test_imported_events_that_cannot_be_are_refused),
      ON_EVERY_STORE(test_imported_values_are_no_deeper_than_others),
      ON_EVERY_STORE(test_messages_of_the_user_are_counted_alike),
      ON_EVERY_STORE(test_an_import_announces_the_messages_that_it_has),
  };
  return HOST_RUN(tests);
}
