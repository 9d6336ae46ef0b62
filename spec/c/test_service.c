/* The public C API call by call, on both stores, with every hook of the host injected. What Lua adds on top is tested in Lua. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "moonpad.h"

#define T(text) moonpad_text(text)

typedef struct host {
  moonpad_service *service;
  moonpad_options options;
  moonpad_allocator allocator;
  pthread_mutex_t lock;
  long alive; /* blocks */
  unsigned soiled;
  long allowed; /* allocations until one fails; -1: none does */
  double now;
  unsigned seed; /* what the next random bytes are made of */
  int warnings;
  moonpad_status last_warning;
  char folder[64];
  char url[128];
} host;

/* ---- Hooks ---- */

static bool may_allocate(host *self) {
  if (self->allowed < 0) return true;
  if (self->allowed == 0) return false;
  self->allowed--;
  return true;
}

/* A new block holds digits, other ones each time: who reads beyond what was written finds a longer number, and is found out. */
static void soil(host *self, void *block, size_t size) {
  self->alive++;
  memset(block, '0' + (int)(++self->soiled % 10), size);
}

static void *host_allocate(void *context, size_t size) {
  host *self = context;
  pthread_mutex_lock(&self->lock);
  void *block = may_allocate(self) ? malloc(size) : NULL;
  if (block != NULL) soil(self, block, size);
  pthread_mutex_unlock(&self->lock);
  return block;
}

static void *host_resize(void *context, void *block, size_t size) {
  host *self = context;
  pthread_mutex_lock(&self->lock);
  void *grown = may_allocate(self) ? realloc(block, size) : NULL;
  if (grown != NULL && block == NULL) soil(self, grown, size);
  pthread_mutex_unlock(&self->lock);
  return grown;
}

static void host_release(void *context, void *block) {
  host *self = context;
  pthread_mutex_lock(&self->lock);
  if (block != NULL) self->alive--;
  pthread_mutex_unlock(&self->lock);
  free(block);
}

static double host_clock(void *context) {
  host *self = context;
  pthread_mutex_lock(&self->lock);
  double now = self->now;
  pthread_mutex_unlock(&self->lock);
  return now;
}

/* The n-th answer: all bytes alike while that tells answers apart, then mixed. */
static void host_random(void *context, unsigned char bytes[16]) {
  host *self = context;
  pthread_mutex_lock(&self->lock);
  uint64_t seed = ++self->seed;
  pthread_mutex_unlock(&self->lock);
  for (int i = 0; i < 16; i++) {
    if (seed > 255) seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    bytes[i] = (unsigned char)(seed > 255 ? seed >> 56 : seed);
  }
}

static void host_log(void *context, moonpad_status status, const char *message) {
  host *self = context;
  pthread_mutex_lock(&self->lock);
  self->warnings++;
  self->last_warning = status;
  pthread_mutex_unlock(&self->lock);
  assert_non_null(message);
}

static int setup(void **state, bool in_file) {
  host *self = calloc(1, sizeof *self);
  assert_non_null(self);
  pthread_mutex_init(&self->lock, NULL);
  self->allowed = -1;
  self->now = 1000.5;
  strcpy(self->url, "memory:");
  if (in_file) {
    strcpy(self->folder, "/tmp/moonpad-service-XXXXXX");
    assert_non_null(mkdtemp(self->folder));
    snprintf(self->url, sizeof self->url, "sqlite:%s/test.db", self->folder);
  }
  self->allocator = (moonpad_allocator){host_allocate, host_resize, host_release, self};
  moonpad_options_init(&self->options);
  self->options.allocator = &self->allocator;
  self->options.clock = host_clock;
  self->options.clock_context = self;
  self->options.random = host_random;
  self->options.random_context = self;
  self->options.log = host_log;
  self->options.log_context = self;
  moonpad_error error;
  if (moonpad_open(T(self->url), &self->options, &self->service, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  *state = self;
  return 0;
}

static int setup_memory(void **state) {
  return setup(state, false);
}

static int setup_file(void **state) {
  return setup(state, true);
}

/* Every block that the service allocated is back. */
static int teardown(void **state) {
  host *self = *state;
  moonpad_service_release(self->service);
  long alive = self->alive;
  if (self->folder[0] != '\0') {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", self->folder);
    assert_int_equal(system(command), 0);
  }
  pthread_mutex_destroy(&self->lock);
  free(self);
  assert_int_equal(alive, 0);
  return 0;
}

/* ---- Short forms ---- */

static moonpad_error failure;

static void expect_ok(moonpad_status status, int line) {
  if (status != MOONPAD_OK) fail_msg("line %d: %s: %s", line, moonpad_status_name(status), failure.message);
}
#define OK(call) expect_ok((call), __LINE__)

static void expect_failure(moonpad_status expected, moonpad_status status, int line) {
  if (status != expected) {
    fail_msg("line %d: expected %s, got %s", line, moonpad_status_name(expected), moonpad_status_name(status));
  }
  if (failure.code != expected) fail_msg("line %d: the error's code is %s", line, moonpad_status_name(failure.code));
  if (failure.message[0] == '\0') fail_msg("line %d: the error has no message", line);
}
#define FAILS(status, call) expect_failure((status), (call), __LINE__)

static void expect_text(moonpad_string found, const char *expected, int line) {
  if (found.length != strlen(expected) || memcmp(found.data, expected, found.length) != 0) {
    fail_msg("line %d: \"%.*s\" is not \"%s\"", line, (int)found.length, found.data, expected);
  }
}
#define SAYS(found, expected) expect_text((found), (expected), __LINE__)

static void expect_buffer(moonpad_buffer *buffer, const char *expected, int line) {
  expect_text((moonpad_string){buffer->data, buffer->length}, expected, line);
  if (buffer->data[buffer->length] != '\0') fail_msg("line %d: the buffer does not end in NUL", line);
  moonpad_buffer_free(buffer);
}
#define GIVES(buffer, expected) expect_buffer(&(buffer), (expected), __LINE__)

static moonpad_session_name name_of(const char *id) {
  return (moonpad_session_name){T("app"), T("u"), T(id)};
}

static moonpad_session *create(host *self, const char *id, const char *state) {
  moonpad_session_name name = name_of(id);
  moonpad_session *session = NULL;
  OK(moonpad_create_session(self->service, &name, T(state), &session, &failure));
  assert_non_null(session);
  return session;
}

static moonpad_session *get(host *self, const char *id) {
  moonpad_session_name name = name_of(id);
  moonpad_session *session = NULL;
  OK(moonpad_get_session(self->service, &name, NULL, &session, &failure));
  return session;
}

static moonpad_value read_value(moonpad_session *session, const char *key, const char *path) {
  moonpad_value value;
  OK(moonpad_session_read(session, T(key), T(path), &value, &failure));
  return value;
}

static void expect_state(moonpad_session *session, const char *expected, int line) {
  moonpad_buffer json = {0};
  expect_ok(moonpad_session_state(session, &json, &failure), line);
  expect_buffer(&json, expected, line);
}
#define STATE(session, expected) expect_state((session), (expected), __LINE__)

static void expect_stored(host *self, const char *id, const char *expected, int line) {
  moonpad_session *session = get(self, id);
  expect_state(session, expected, line);
  moonpad_session_free(session);
}
#define STORED(self, id, expected) expect_stored((self), (id), (expected), __LINE__)

static void append(moonpad_session *session, const char *delta) {
  char event[512];
  snprintf(event, sizeof event, "{\"author\":\"agent\",\"actions\":{\"stateDelta\":%s}}", delta);
  OK(moonpad_append_event(session, T(event), NULL, &failure));
}

static size_t event_count(moonpad_session *session) {
  size_t count = 99;
  OK(moonpad_session_event_count(session, &count, &failure));
  return count;
}

/* A string or integer inside an event, as text. */
static const char *in_event(const moonpad_event *event, const char *path) {
  static char text[256];
  moonpad_buffer scratch = {0};
  moonpad_value value;
  OK(moonpad_json_read(moonpad_event_json(event), T(path), &scratch, &value, &failure));
  if (value.type == MOONPAD_INTEGER)
    snprintf(text, sizeof text, "%lld", (long long)value.as.integer);
  else if (value.type == MOONPAD_NULL)
    strcpy(text, "null");
  else if (value.type == MOONPAD_ABSENT)
    strcpy(text, "absent");
  else if (value.type >= MOONPAD_STRING)
    snprintf(text, sizeof text, "%.*s", (int)value.as.text.length, value.as.text.data);
  else
    strcpy(text, "other");
  moonpad_buffer_free(&scratch);
  return text;
}

/* ---- Opening and closing ---- */

static void test_the_library_names_its_version_and_its_statuses(void **state) {
  (void)state;
  assert_string_equal(moonpad_version(), MOONPAD_VERSION);
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
  moonpad_session *session = create(self, "s", "{\"k\":[1]}");
  assert_ptr_equal(moonpad_session_service(session), self->service);
  moonpad_service_close(self->service);
  moonpad_service_close(self->service);
  moonpad_session_name name = name_of("s");
  moonpad_session *other = (moonpad_session *)1;
  FAILS(MOONPAD_CLOSED, moonpad_get_session(self->service, &name, NULL, &other, &failure));
  assert_null(other);
  FAILS(MOONPAD_CLOSED, moonpad_create_session(self->service, &name, T(""), &other, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_refresh(session, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_backup(self->service, T("/tmp/never"), &failure));
  moonpad_buffer json = {0};
  FAILS(MOONPAD_CLOSED, moonpad_get_shared_state(self->service, T("app"), T(""), &json, &failure));
  FAILS(MOONPAD_CLOSED, moonpad_state_at(session, 0, &json, &failure));
  assert_null(json.data);
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  STATE(session, "{\"k\":[1]}");
  moonpad_session_free(session);
}

static void test_a_session_keeps_its_service(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"k\":1}");
  moonpad_service_retain(self->service);
  moonpad_service_release(self->service);
  append(session, "{\"k\":2}");
  moonpad_service *service = self->service;
  self->service = NULL;
  moonpad_service_release(service);
  append(session, "{\"k\":3}");
  assert_int_equal(read_value(session, "k", "").as.integer, 3);
  moonpad_session_free(session);
}

/* ---- Sessions ---- */

static void test_create_session(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, " s ", "{\"k\":1,\"user:u\":[2.0],\"app:a\":\"x\",\"temp:t\":4}");
  SAYS(moonpad_session_id(session), "s");
  SAYS(moonpad_session_app_name(session), "app");
  SAYS(moonpad_session_user_id(session), "u");
  assert_true(moonpad_session_create_time(session) == 1000.5);
  assert_true(moonpad_session_last_update_time(session) == 1000.5);
  assert_int_equal(moonpad_session_revision(session), 0);
  assert_int_equal(moonpad_session_conversation_count(session), 0);
  assert_int_equal(event_count(session), 0);
  STATE(session, "{\"app:a\":\"x\",\"k\":1,\"user:u\":[2.0]}");
  moonpad_session_free(session);
  STORED(self, "s", "{\"app:a\":\"x\",\"k\":1,\"user:u\":[2.0]}");

  moonpad_session_name name = name_of("s");
  session = (moonpad_session *)1;
  FAILS(MOONPAD_ALREADY_EXISTS, moonpad_create_session(self->service, &name, T(""), &session, &failure));
  assert_null(session);
  static const char *const wrong[] = {"[]", "1", "{", "{\"k\":NaN}", "{\"k\":1}x", "{\"k\":\"\xff\"}"};
  name = name_of("new");
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
  moonpad_session *session = create(self, "  ", "");
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

static void test_get_session(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"k\":0}");
  for (int i = 1; i <= 4; i++) {
    char event[128];
    snprintf(event, sizeof event,
             "{\"id\":\"e%d\",\"author\":\"user\",\"timestamp\":%d,\"content\":{\"role\":\"user\",\"parts\":[{\"text\":"
             "\"x\"}]}}",
             i, i * 10);
    OK(moonpad_append_event(session, T(event), NULL, &failure));
  }
  moonpad_session_free(session);
  moonpad_session_name name = name_of("s");
  moonpad_get_options options;
  moonpad_get_options_init(&options);
  assert_int_equal(options.size, sizeof options);
  assert_int_equal(options.num_recent_events, MOONPAD_ALL_EVENTS);
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
    assert_int_equal(event_count(session), cases[i].count);
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

static void test_delete_session(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"user:u\":1}");
  moonpad_session_name name = name_of("s");
  bool existed = false;
  OK(moonpad_delete_session(self->service, &name, &existed, &failure));
  assert_true(existed);
  OK(moonpad_delete_session(self->service, &name, &existed, &failure));
  assert_false(existed);
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  moonpad_session *again = create(self, "s", "");
  FAILS(MOONPAD_NOT_FOUND, moonpad_append_event(session, T("{\"author\":\"a\"}"), NULL, &failure));
  FAILS(MOONPAD_NOT_FOUND, moonpad_refresh(session, &failure));
  STATE(again, "{\"user:u\":1}");
  moonpad_session_free(again);
  moonpad_session_free(session);
}

static void test_list_sessions(void **state) {
  host *self = *state;
  static const char *const ids[] = {"c", "a", "b"};
  for (int i = 0; i < 3; i++) {
    self->now = 100 + i;
    moonpad_session_free(create(self, ids[i], "{\"k\":1}"));
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
  assert_int_equal(event_count(taken), 0);
  append(taken, "{\"k\":2}");
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
  options.limit = -1;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_list_sessions(self->service, T("app"), &options, &list, &failure));
}

static void test_read_by_path(void **state) {
  host *self = *state;
  moonpad_session *session =
      create(self, "s",
             "{\"i\":9007199254740993,\"f\":1.0,\"t\":true,\"n\":null,\"s\":\"a\\u0000b\","
             "\"o\":{\"address\":{\"city\":\"Kyiv\"},\"items\":[{\"name\":\"tea\"},{\"name\":\"mi\\nlk\"}],\"e\":[]}}");
  assert_int_equal(read_value(session, "i", "").type, MOONPAD_INTEGER);
  assert_int_equal(read_value(session, "i", "").as.integer, 9007199254740993);
  assert_int_equal(read_value(session, "f", "").type, MOONPAD_FLOAT);
  assert_true(read_value(session, "f", "").as.number == 1.0);
  assert_int_equal(read_value(session, "t", "").type, MOONPAD_BOOLEAN);
  assert_true(read_value(session, "t", "").as.boolean);
  assert_int_equal(read_value(session, "n", "").type, MOONPAD_NULL);
  moonpad_value text = read_value(session, "s", "");
  assert_int_equal(text.type, MOONPAD_STRING);
  assert_int_equal(text.as.text.length, 3);
  assert_memory_equal(text.as.text.data, "a\0b", 3);
  SAYS(read_value(session, "o", "address.city").as.text, "Kyiv");
  SAYS(read_value(session, "o", "items[2].name").as.text, "mi\nlk");
  assert_int_equal(read_value(session, "o", "items").type, MOONPAD_ARRAY);
  SAYS(read_value(session, "o", "address").as.text, "{\"city\":\"Kyiv\"}");
  assert_int_equal(read_value(session, "o", "e").type, MOONPAD_ARRAY);
  SAYS(read_value(session, "o", "e").as.text, "[]");
  static const char *const absent[] = {"nothing",    "items[3]",   "address.city.x",
                                       "items.name", "address[1]", "items[2].name.x"};
  for (size_t i = 0; i < sizeof absent / sizeof absent[0]; i++) {
    assert_int_equal(read_value(session, "o", absent[i]).type, MOONPAD_ABSENT);
  }
  assert_int_equal(read_value(session, "missing", "").type, MOONPAD_ABSENT);
  assert_int_equal(read_value(session, "missing", "a.b").type, MOONPAD_ABSENT);
  assert_int_equal(read_value(session, "i", "x").type, MOONPAD_ABSENT);
  moonpad_value value;
  static const char *const wrong[] = {"[", "a[", "a[x]", "a..b", ".a", "a.", "a]", "items[-1]"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_session_read(session, T("o"), T(wrong[i]), &value, &failure));
  }
  moonpad_session_free(session);
}

/* ---- Events ---- */

static void test_append_event(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"gone\":1}");
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
  assert_string_equal(in_event(event, "actions.stateDelta.k"), "{\"a\":[]}");
  assert_string_equal(in_event(event, "actions.stateDelta.gone"), "null");
  assert_string_equal(in_event(event, "removedStateKeys"), "[\"gone\"]");
  assert_string_equal(in_event(event, "mine"), "[1.0]");
  assert_string_equal(in_event(event, "revision"), "absent");
  assert_null(strstr(moonpad_event_json(event).data, "temp:t"));
  moonpad_event_free(event);
  STATE(session, "{\"k\":{\"a\":[]},\"nil\":null,\"temp:t\":2,\"user:u\":1}");
  STORED(self, "s", "{\"k\":{\"a\":[]},\"nil\":null,\"user:u\":1}");
  assert_int_equal(moonpad_session_revision(session), 1);

  OK(moonpad_append_event(session, T("{\"author\":\"a\",\"partial\":true,\"actions\":{\"stateDelta\":{\"k\":1}}}"),
                          &event, &failure));
  assert_int_equal(moonpad_event_revision(event), 0);
  assert_string_equal(in_event(event, "actions.stateDelta.k"), "1");
  assert_string_equal(in_event(event, "id"), "absent");
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

static void test_append_event_twice(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "");
  moonpad_string same = T("{\"id\":\"e1\",\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":1,\"temp:t\":1}}}");
  moonpad_event *event = NULL;
  OK(moonpad_append_event(session, same, NULL, &failure));
  append(session, "{\"k\":2}");
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
  assert_int_equal(read_value(session, "k", "").as.integer, 2);
  moonpad_session_free(session);
}

static void test_events_are_read_by_index(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "");
  for (int i = 0; i < 300; i++) append(session, "{\"k\":1}");
  moonpad_session *again = get(self, "s");
  moonpad_session *objects[] = {session, again};
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(event_count(objects[i]), 300);
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
  moonpad_session *mine = create(self, "s", "{\"k\":\"old\",\"j\":1}"), *theirs = get(self, "s");
  append(theirs, "{\"k\":\"theirs\",\"new\":1}");
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
  append(mine, "{\"k\":\"mine\"}");
  assert_int_equal(moonpad_session_conflict_count(mine), 0);
  STORED(self, "s", "{\"j\":1,\"k\":\"mine\",\"new\":1}");
  moonpad_session_free(theirs);
  moonpad_session_free(mine);
}

/* ---- Change sets ---- */

static void set_json(moonpad_changes *changes, const char *key, const char *path, const char *json) {
  moonpad_value value = moonpad_json(T(json));
  OK(moonpad_changes_set(changes, T(key), T(path), &value, &failure));
}

static moonpad_value changed(moonpad_changes *changes, const char *key, const char *path) {
  moonpad_value value;
  OK(moonpad_changes_get(changes, T(key), T(path), &value, &failure));
  return value;
}

static void test_change_sets(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"k\":1,\"o\":{\"a\":[1,2]},\"gone\":1}");
  moonpad_changes *one = NULL, *two = NULL;
  OK(moonpad_changes_begin(session, &one, &failure));
  OK(moonpad_changes_begin(session, &two, &failure));
  assert_false(moonpad_changes_pending(one));
  moonpad_value five = moonpad_integer(5), item = moonpad_string_value(T("x"));
  set_json(one, "o", "a[3]", "{\"b\":[]}");
  set_json(one, "o", "c", "[true]");
  OK(moonpad_changes_remove(one, T("gone"), T(""), &failure));
  OK(moonpad_changes_remove(one, T("never"), T(""), &failure));
  OK(moonpad_changes_increment(one, T("k"), &five, &failure));
  OK(moonpad_changes_append(one, T("list"), &item, &failure));
  OK(moonpad_changes_set(one, T("temp:t"), T(""), &five, &failure));
  assert_true(moonpad_changes_pending(one));
  SAYS(changed(one, "o", "").as.text, "{\"a\":[1,2,{\"b\":[]}],\"c\":[true]}");
  SAYS(changed(one, "o", "a[3].b").as.text, "[]");
  assert_int_equal(changed(one, "k", "").as.integer, 6);
  assert_int_equal(changed(one, "gone", "").type, MOONPAD_ABSENT);
  SAYS(changed(one, "list", "[1]").as.text, "x");
  /* Neither the session object nor another change set sees it before it is committed. */
  assert_int_equal(changed(two, "k", "").as.integer, 1);
  assert_int_equal(changed(two, "gone", "").as.integer, 1);
  SAYS(read_value(session, "o", "").as.text, "{\"a\":[1,2]}");
  moonpad_event *event = NULL;
  OK(moonpad_changes_commit(one, T("{\"author\":\"me\",\"actions\":{\"stateDelta\":{\"extra\":1}}}"), &event,
                            &failure));
  assert_string_equal(in_event(event, "author"), "me");
  assert_string_equal(in_event(event, "actions.stateDelta.k"), "6");
  assert_string_equal(in_event(event, "actions.stateDelta.extra"), "1");
  assert_string_equal(in_event(event, "removedStateKeys[1]"), "gone");
  moonpad_event_free(event);
  assert_false(moonpad_changes_pending(one));
  STATE(session, "{\"extra\":1,\"k\":6,\"list\":[\"x\"],\"o\":{\"a\":[1,2,{\"b\":[]}],\"c\":[true]},\"temp:t\":5}");
  assert_int_equal(changed(two, "k", "").as.integer, 6);
  moonpad_changes_free(two);
  moonpad_changes_free(one);
  moonpad_session_free(session);
}

static void test_change_sets_refuse_what_cannot_be(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"k\":\"text\",\"list\":[1,2,3],\"max\":9223372036854775807}");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  moonpad_value one = moonpad_integer(1);
  static const char *const places[][2] = {{"missing", "a"}, {"k", "x"},      {"list", "[5]"},
                                          {"list", "x"},    {"list", "[0]"}, {"list", "["}};
  for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T(places[i][0]), T(places[i][1]), &one, &failure));
  }
  static const char *const wrong[] = {"", "{", "[1,]", "nope", "{\"a\":1}x", "[\"\xff\"]"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    moonpad_value value = moonpad_json(T(wrong[i]));
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T("new"), T(""), &value, &failure));
  }
  double zero = 0;
  moonpad_value values[] = {moonpad_float(zero / zero), moonpad_float(1e308 * 10), moonpad_string_value(T("\xff"))};
  for (size_t i = 0; i < 3; i++) {
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T("new"), T(""), &values[i], &failure));
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_increment(changes, T("n"), &values[i], &failure));
  }
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_increment(changes, T("k"), &one, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_increment(changes, T("max"), &one, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_append(changes, T("k"), &one, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_remove(changes, T("list"), T("[1]"), &failure));
  OK(moonpad_changes_remove(changes, T("list"), T("[9]"), &failure));
  assert_false(moonpad_changes_pending(changes));
  OK(moonpad_changes_remove(changes, T("list"), T("[3]"), &failure));
  SAYS(changed(changes, "list", "").as.text, "[1,2]");
  moonpad_changes_discard(changes);
  assert_false(moonpad_changes_pending(changes));
  SAYS(changed(changes, "list", "").as.text, "[1,2,3]");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

static void test_a_failed_commit_leaves_its_writes_pending(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"k\":1}"), *other = get(self, "s");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  set_json(changes, "k", "", "{\"mine\":true}");
  append(other, "{\"k\":2}");
  FAILS(MOONPAD_CONFLICT, moonpad_changes_commit(changes, T("{\"author\":\"a\"}"), NULL, &failure));
  SAYS(moonpad_session_conflict_key(session, 0), "k");
  assert_true(moonpad_changes_pending(changes));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_commit(changes, T("[]"), NULL, &failure));
  assert_true(moonpad_changes_pending(changes));
  OK(moonpad_refresh(session, &failure));
  assert_int_equal(changed(changes, "k", "").type, MOONPAD_OBJECT);
  OK(moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  STORED(self, "s", "{\"k\":{\"mine\":true}}");
  moonpad_changes_free(changes);
  moonpad_session_free(other);
  moonpad_session_free(session);
}

static void test_update_session(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"k\":1}");
  moonpad_event *event = (moonpad_event *)1;
  OK(moonpad_update_session(session, &event, &failure));
  assert_null(event);
  moonpad_changes *changes = NULL, *same = NULL;
  OK(moonpad_session_changes(session, &changes, &failure));
  OK(moonpad_session_changes(session, &same, &failure));
  assert_ptr_equal(changes, same);
  set_json(changes, "k", "", "[2]");
  STATE(session, "{\"k\":[2]}");
  STORED(self, "s", "{\"k\":1}");
  OK(moonpad_update_session(session, &event, &failure));
  assert_string_equal(in_event(event, "author"), "system");
  moonpad_event_free(event);
  STORED(self, "s", "{\"k\":[2]}");
  set_json(changes, "k", "", "[3]");
  OK(moonpad_update_session(session, NULL, &failure));
  STORED(self, "s", "{\"k\":[3]}");
  moonpad_session_free(session);
}

/* ---- User and app state ---- */

static void test_shared_state(void **state) {
  host *self = *state;
  moonpad_buffer json = {0};
  OK(moonpad_get_shared_state(self->service, T("app"), T("u"), &json, &failure));
  GIVES(json, "{}");
  OK(moonpad_update_shared_state(self->service, T("app"), T("u"), T("{\"b\":{\"x\":1},\"a\":1}"), T(""), &failure));
  OK(moonpad_update_shared_state(self->service, T("app"), T("u"), T("{\"b\":{\"y\":2.0},\"c\":null}"),
                                 T("[\"a\",\"never\"]"), &failure));
  OK(moonpad_get_shared_state(self->service, T("app"), T("u"), &json, &failure));
  GIVES(json, "{\"b\":{\"y\":2.0},\"c\":null}");
  OK(moonpad_update_shared_state(self->service, T("app"), T(""), T("{\"a\":7}"), T("[]"), &failure));
  OK(moonpad_get_shared_state(self->service, T("app"), T(""), &json, &failure));
  GIVES(json, "{\"a\":7}");
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_update_shared_state(self->service, T("app"), T("u"), T("[]"), T(""), &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_update_shared_state(self->service, T("app"), T("u"), T("{}"), T("[1]"), &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_update_shared_state(self->service, T(""), T("u"), T("{}"), T(""), &failure));

  moonpad_value by = moonpad_integer(3), result;
  OK(moonpad_increment_state(self->service, T("app"), T(""), T("a"), &by, &result, &failure));
  assert_int_equal(result.as.integer, 10);
  by = moonpad_float(0.5);
  OK(moonpad_increment_state(self->service, T("app"), T("u"), T("n"), &by, &result, &failure));
  assert_int_equal(result.type, MOONPAD_FLOAT);
  assert_true(result.as.number == 0.5);
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_increment_state(self->service, T("app"), T("u"), T("b"), &by, &result, &failure));
  by = moonpad_boolean(true);
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_increment_state(self->service, T("app"), T("u"), T("n"), &by, &result, &failure));
}

/* ---- History ---- */

static moonpad_session *with_history(host *self) {
  moonpad_session *session = create(self, "s", "{\"k\":0,\"user:u\":0,\"gone\":[1]}");
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
  assert_int_equal(event_count(fork), 1);
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
  assert_string_equal(in_event(event, "actions.rewindBeforeInvocationId"), "i2");
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
      moonpad_session_name name = name_of("s");
      FAILS(MOONPAD_NOT_FOUND, moonpad_get_session(service, &name, NULL, &copy, &failure));
    }
    moonpad_service_release(service);
  }
  free(exported);
}

/* ---- JSON and templates ---- */

static void test_json_read(void **state) {
  (void)state;
  moonpad_string json = T(" {\"a\" : [ {\"b\":\"x\\u0041\"} , 2.5 ], \"c\":{} } ");
  moonpad_buffer scratch = {0};
  moonpad_value value;
  OK(moonpad_json_read(json, T("a[1].b"), &scratch, &value, &failure));
  SAYS(value.as.text, "xA");
  OK(moonpad_json_read(json, T("a[2]"), &scratch, &value, &failure));
  assert_true(value.type == MOONPAD_FLOAT && value.as.number == 2.5);
  OK(moonpad_json_read(json, T("c"), &scratch, &value, &failure));
  assert_int_equal(value.type, MOONPAD_OBJECT);
  OK(moonpad_json_read(json, T("d.e"), &scratch, &value, &failure));
  assert_int_equal(value.type, MOONPAD_ABSENT);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_json_read(T("{\"a\" oops"), T("a"), &scratch, &value, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_json_read(json, T("a["), &scratch, &value, &failure));
  moonpad_buffer_free(&scratch);
}

static bool look_up(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  int *calls = context;
  (*calls)++;
  if (name.length == 5 && memcmp(name.data, "topic", 5) == 0) *value = moonpad_string_value(T("moons {topic}"));
  if (name.length == 6 && memcmp(name.data, "user:n", 6) == 0) *value = moonpad_json(T("{\"a\":[1,2.0]}"));
  if (name.length == 4 && memcmp(name.data, "stop", 4) == 0) {
    error->code = MOONPAD_CANCELLED;
    strcpy(error->message, "enough");
    return false;
  }
  return true;
}

static void test_render(void **state) {
  (void)state;
  int calls = 0;
  moonpad_buffer result = {0};
  OK(moonpad_render(T("{topic} <topic>, {user:n.a[2]} {user:n}{gone?} <b>\\{topic}"), NULL, look_up, &calls, &result,
                    &failure));
  GIVES(result, "moons {topic} moons {topic}, 2.0 {\"a\":[1,2.0]} <b>{topic}");
  assert_true(calls > 0);
  moonpad_template_options options;
  moonpad_template_options_init(&options);
  assert_int_equal(options.size, sizeof options);
  options.agent_name = T("Greeter");
  FAILS(MOONPAD_TEMPLATE, moonpad_render(T("{gone}"), &options, look_up, &calls, &result, &failure));
  assert_null(result.data);
  assert_non_null(strstr(failure.message, "gone"));
  assert_non_null(strstr(failure.message, "Greeter"));
  options.syntax = MOONPAD_TEMPLATE_ANGLES;
  OK(moonpad_render(T("{topic} <topic>"), &options, look_up, &calls, &result, &failure));
  GIVES(result, "{topic} moons {topic}");
  options.syntax = MOONPAD_TEMPLATE_BRACES;
  OK(moonpad_render(T("{topic} <topic>"), &options, look_up, &calls, &result, &failure));
  GIVES(result, "moons {topic} <topic>");
  FAILS(MOONPAD_CANCELLED, moonpad_render(T("{stop}"), NULL, look_up, &calls, &result, &failure));
  assert_string_equal(failure.message, "enough");
}

static void test_session_render(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "{\"k\":{\"a\":[1,\"two\"]},\"user:name\":\"Ann\",\"n\":null}"),
                  *other = get(self, "s");
  moonpad_buffer result = {0};
  OK(moonpad_session_render(session, T("Hi {user:name}, {k.a[2]}{n}{none?}!"), NULL, &result, &failure));
  GIVES(result, "Hi Ann, two!");
  FAILS(MOONPAD_TEMPLATE, moonpad_session_render(session, T("{none}"), NULL, &result, &failure));
  /* No read: a write after it is last-writer-wins on user keys. */
  append(other, "{\"user:name\":\"Bea\"}");
  append(session, "{\"user:name\":\"Cid\"}");
  OK(moonpad_session_render(session, T("{user:name}"), NULL, &result, &failure));
  GIVES(result, "Cid");
  moonpad_session_free(other);
  moonpad_session_free(session);
}

/* ---- Asynchronous appends ---- */

typedef struct completion {
  int order[16];
  int64_t revisions[16];
  moonpad_status statuses[16];
  int count;
  pthread_t thread;
} completion;

typedef struct request {
  completion *done;
  moonpad_session *session;
  int number;
} request;

static void complete(void *context, moonpad_session *session, const moonpad_event *event, const moonpad_error *error) {
  request *asked = context;
  completion *done = asked->done;
  assert_ptr_equal(session, asked->session);
  assert_true((event == NULL) != (error == NULL));
  done->order[done->count] = asked->number;
  done->revisions[done->count] = event != NULL ? moonpad_event_revision(event) : -1;
  done->statuses[done->count] = error != NULL ? error->code : MOONPAD_OK;
  done->count++;
  done->thread = pthread_self();
}

static void poll_until(host *self, completion *done, int count) {
  for (int i = 0; done->count < count && i < 100; i++) moonpad_poll(self->service, 100);
  assert_int_equal(done->count, count);
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  assert_int_equal(done->count, count);
}

static void append_async(request *asked, const char *delta) {
  char event[256];
  snprintf(event, sizeof event, "{\"author\":\"agent\",\"actions\":{\"stateDelta\":%s}}", delta);
  OK(moonpad_append_event_async(asked->session, T(event), complete, asked, &failure));
}

static void test_async_appends_complete_in_order(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = create(self, "s", "");
  request asked[10];
  assert_int_equal(moonpad_poll(self->service, 0), 0);
  for (int i = 0; i < 10; i++) {
    asked[i] = (request){&done, session, i};
    char delta[64];
    snprintf(delta, sizeof delta, "{\"k\":%d,\"user:k\":%d,\"temp:t\":%d}", i, i, i);
    append_async(&asked[i], delta);
    /* The object changes at once, its revision on completion. */
    assert_int_equal(read_value(session, "k", "").as.integer, i);
    assert_int_equal(read_value(session, "temp:t", "").as.integer, i);
    assert_int_equal(moonpad_session_revision(session), 0);
  }
  assert_int_equal(done.count, 0);
  poll_until(self, &done, 10);
  for (int i = 0; i < 10; i++) {
    assert_int_equal(done.order[i], i);
    assert_int_equal(done.statuses[i], MOONPAD_OK);
    assert_int_equal(done.revisions[i], i + 1);
  }
  assert_true(pthread_equal(done.thread, pthread_self()));
  assert_int_equal(moonpad_session_revision(session), 10);
  assert_int_equal(event_count(session), 10);
  STATE(session, "{\"k\":9,\"temp:t\":9,\"user:k\":9}");
  STORED(self, "s", "{\"k\":9,\"user:k\":9}");
  moonpad_session_free(session);
}

static void test_async_failure_fails_those_behind_it(void **state) {
  host *self = *state;
  completion done = {.count = 0}, other_done = {.count = 0};
  moonpad_session *session = create(self, "s", "{\"k\":\"old\"}"), *theirs = get(self, "s"),
                  *other = create(self, "other", "");
  append(theirs, "{\"k\":\"theirs\",\"more\":1}");
  request asked[4];
  static const char *const deltas[] = {"{\"fine\":1}", "{\"k\":\"mine\",\"user:k\":1,\"temp:t\":1}", "{\"behind\":1}",
                                       "{\"behind\":2,\"k\":\"again\"}"};
  for (int i = 0; i < 4; i++) {
    asked[i] = (request){&done, session, i};
    append_async(&asked[i], deltas[i]);
  }
  request elsewhere = {&other_done, other, 0};
  append_async(&elsewhere, "{\"k\":\"other\"}");
  poll_until(self, &done, 4);
  for (int i = 0; i < 4; i++) assert_int_equal(done.order[i], i);
  assert_int_equal(done.statuses[0], MOONPAD_OK);
  assert_int_equal(done.statuses[1], MOONPAD_CONFLICT);
  assert_int_not_equal(done.statuses[2], MOONPAD_OK);
  assert_int_not_equal(done.statuses[3], MOONPAD_OK);
  /* The other session is not concerned. */
  poll_until(self, &other_done, 1);
  assert_int_equal(other_done.statuses[0], MOONPAD_OK);
  /* The object is as stored. */
  STORED(self, "s", "{\"fine\":1,\"k\":\"theirs\",\"more\":1}");
  STATE(session, "{\"fine\":1,\"k\":\"theirs\",\"more\":1}");
  assert_int_equal(moonpad_session_revision(session), 2);
  assert_int_equal(event_count(session), 2);
  /* And can be used again, both ways. */
  append(session, "{\"k\":\"mine\"}");
  append_async(&asked[0], "{\"k\":\"mine again\"}");
  poll_until(self, &done, 5);
  assert_int_equal(done.statuses[4], MOONPAD_OK);
  STORED(self, "s", "{\"fine\":1,\"k\":\"mine again\",\"more\":1}");
  moonpad_session_free(other);
  moonpad_session_free(theirs);
  moonpad_session_free(session);
}

static void test_async_append_to_a_deleted_session(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = create(self, "s", "");
  moonpad_session_name name = name_of("s");
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  request asked[2] = {{&done, session, 0}, {&done, session, 1}};
  append_async(&asked[0], "{\"k\":1}");
  append_async(&asked[1], "{\"k\":2}");
  poll_until(self, &done, 2);
  assert_int_equal(done.statuses[0], MOONPAD_NOT_FOUND);
  assert_int_not_equal(done.statuses[1], MOONPAD_OK);
  STATE(session, "{}");
  moonpad_session_free(session);
}

static void test_async_refuses_a_malformed_event_at_once(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = create(self, "s", "");
  request asked = {&done, session, 0};
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_append_event_async(session, T("{\"author\":7}"), complete, &asked, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_append_event_async(session, T("nonsense"), complete, &asked, &failure));
  append_async(&asked, "{\"k\":1}");
  poll_until(self, &done, 1);
  assert_int_equal(done.revisions[0], 1);
  moonpad_session_free(session);
}

static void test_async_and_sync_appends_keep_their_order(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = create(self, "s", "");
  request asked[2] = {{&done, session, 0}, {&done, session, 1}};
  append_async(&asked[0], "{\"k\":1}");
  moonpad_event *event = NULL;
  OK(moonpad_append_event(session, T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":2}}}"), &event, &failure));
  assert_int_equal(moonpad_event_revision(event), 2);
  moonpad_event_free(event);
  append_async(&asked[1], "{\"k\":3}");
  OK(moonpad_refresh(session, &failure));
  assert_int_equal(read_value(session, "k", "").as.integer, 3);
  poll_until(self, &done, 2);
  assert_int_equal(done.revisions[0], 1);
  assert_int_equal(done.revisions[1], 3);
  STORED(self, "s", "{\"k\":3}");
  moonpad_session_free(session);
}

static void test_async_commit_of_a_change_set(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *session = create(self, "s", "{\"n\":1,\"k\":\"old\"}"), *theirs = get(self, "s");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  moonpad_value five = moonpad_integer(5);
  request asked[2] = {{&done, session, 0}, {&done, session, 1}};
  append(theirs, "{\"n\":100}");
  OK(moonpad_changes_increment(changes, T("n"), &five, &failure));
  OK(moonpad_changes_commit_async(changes, T("{\"author\":\"a\"}"), complete, &asked[0], &failure));
  assert_false(moonpad_changes_pending(changes));
  assert_int_equal(changed(changes, "n", "").as.integer, 6);
  poll_until(self, &done, 1);
  assert_int_equal(done.statuses[0], MOONPAD_OK);
  assert_int_equal(changed(changes, "n", "").as.integer, 105);
  OK(moonpad_refresh(theirs, &failure));
  append(theirs, "{\"k\":\"theirs\"}");
  set_json(changes, "k", "", "[\"mine\"]");
  OK(moonpad_changes_commit_async(changes, T("{\"author\":\"a\"}"), complete, &asked[1], &failure));
  assert_false(moonpad_changes_pending(changes));
  poll_until(self, &done, 2);
  assert_int_equal(done.statuses[1], MOONPAD_CONFLICT);
  assert_false(moonpad_changes_pending(changes));
  SAYS(changed(changes, "k", "").as.text, "theirs");
  moonpad_changes_free(changes);
  moonpad_session_free(theirs);
  moonpad_session_free(session);
}

static void test_async_failure_without_callback_is_logged(void **state) {
  host *self = *state;
  moonpad_session *session = create(self, "s", "");
  moonpad_session_name name = name_of("s");
  OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  for (int i = 0; i < 100 && moonpad_session_revision(session) == 0; i++) moonpad_poll(self->service, 100);
  assert_int_equal(moonpad_session_revision(session), 1);
  assert_int_equal(self->warnings, 0);
  OK(moonpad_delete_session(self->service, &name, NULL, &failure));
  OK(moonpad_append_event_async(session, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  for (int i = 0; i < 100 && self->warnings == 0; i++) moonpad_poll(self->service, 100);
  assert_true(self->warnings > 0);
  assert_int_equal(self->last_warning, MOONPAD_NOT_FOUND);
  moonpad_session_free(session);
}

static void test_close_and_free_wait_for_asynchronous_appends(void **state) {
  host *self = *state;
  completion done = {.count = 0};
  moonpad_session *freed = create(self, "freed", ""), *kept = create(self, "kept", "");
  request asked[10];
  for (int i = 0; i < 5; i++) OK(moonpad_append_event_async(freed, T("{\"author\":\"a\"}"), NULL, NULL, &failure));
  moonpad_session_free(freed);
  moonpad_session *again = get(self, "freed");
  assert_int_equal(moonpad_session_revision(again), 5);
  moonpad_session_free(again);
  for (int i = 0; i < 10; i++) {
    asked[i] = (request){&done, kept, i};
    append_async(&asked[i], "{\"k\":1}");
  }
  moonpad_service_close(self->service);
  for (int i = 0; done.count < 10 && i < 20; i++) moonpad_poll(self->service, 10);
  assert_int_equal(done.count, 10);
  for (int i = 0; i < 10; i++) assert_int_equal(done.statuses[i], MOONPAD_OK);
  moonpad_session_free(kept);
  if (self->folder[0] == '\0') return;
  moonpad_service_release(self->service);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
  kept = get(self, "kept");
  assert_int_equal(moonpad_session_revision(kept), 10);
  moonpad_session_free(kept);
}

/* ---- Out of memory: each allocation of each call fails once ---- */

typedef moonpad_status (*attempt)(host *self, moonpad_session *session, moonpad_changes *changes);

static moonpad_status try_append(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self;
  (void)changes;
  moonpad_event *event = NULL;
  moonpad_status status =
      moonpad_append_event(session,
                           T("{\"author\":\"a\",\"actions\":{\"stateDelta\":{\"k\":[1,{\"x\":2}],\"user:u\":\"text\","
                             "\"temp:t\":1,\"gone\":null}},\"removedStateKeys\":[\"gone\"]}"),
                           &event, &failure);
  /* Stored, yet without memory for the answer, is success without an event object. */
  assert_true(status == MOONPAD_OK || event == NULL);
  moonpad_event_free(event);
  return status;
}

static moonpad_status try_commit(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self;
  (void)session;
  return moonpad_changes_commit(changes, T("{\"author\":\"a\"}"), NULL, &failure);
}

static moonpad_status try_create(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  (void)changes;
  moonpad_session_name name = name_of("new");
  moonpad_session *made = NULL;
  moonpad_status status =
      moonpad_create_session(self->service, &name, T("{\"k\":[1],\"user:v\":1,\"app:a\":{}}"), &made, &failure);
  assert_true((status == MOONPAD_OK) == (made != NULL));
  moonpad_session_free(made);
  return status;
}

static moonpad_status try_get(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  (void)changes;
  moonpad_session_name name = name_of("s");
  moonpad_session *got = NULL;
  moonpad_buffer json = {0};
  moonpad_event *event = NULL;
  moonpad_status status = moonpad_get_session(self->service, &name, NULL, &got, &failure);
  if (status == MOONPAD_OK) status = moonpad_session_state(got, &json, &failure);
  if (status == MOONPAD_OK) status = moonpad_session_event(got, 0, &event, &failure);
  moonpad_event_free(event);
  moonpad_buffer_free(&json);
  moonpad_session_free(got);
  return status;
}

static moonpad_status try_fork(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self;
  (void)changes;
  moonpad_session *fork = NULL;
  moonpad_status status = moonpad_fork(session, 1, T("fork"), &fork, &failure);
  moonpad_session_free(fork);
  return status;
}

static moonpad_status try_rewind(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)self;
  (void)changes;
  return moonpad_rewind(session, T("i1"), NULL, &failure);
}

static moonpad_status try_increment(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  (void)changes;
  moonpad_value one = moonpad_integer(1), result;
  return moonpad_increment_state(self->service, T("app"), T("u"), T("n"), &one, &result, &failure);
}

static moonpad_status try_list(host *self, moonpad_session *session, moonpad_changes *changes) {
  (void)session;
  (void)changes;
  moonpad_session_list *list = NULL;
  moonpad_status status = moonpad_list_sessions(self->service, T("app"), NULL, &list, &failure);
  moonpad_session_list_free(list);
  return status;
}

static void test_every_call_survives_out_of_memory(void **state) {
  host *self = *state;
  static const attempt attempts[] = {try_append, try_commit, try_create,    try_get,
                                     try_fork,   try_rewind, try_increment, try_list};
  moonpad_session *session = create(self, "s", "{\"k\":0,\"gone\":1,\"o\":{\"a\":[1]}}");
  OK(moonpad_append_event(
      session, T("{\"author\":\"a\",\"invocationId\":\"i1\",\"actions\":{\"stateDelta\":{\"j\":1}}}"), NULL, &failure));
  for (size_t i = 0; i < sizeof attempts / sizeof attempts[0]; i++) {
    moonpad_changes *changes = NULL;
    moonpad_value one = moonpad_integer(1);
    OK(moonpad_changes_begin(session, &changes, &failure));
    set_json(changes, "o", "a[2]", "{\"deep\":[true]}");
    OK(moonpad_changes_increment(changes, T("user:n"), &one, &failure));
    moonpad_buffer before = {0}, after = {0};
    OK(moonpad_session_state(session, &before, &failure));
    int64_t revision = moonpad_session_revision(session);
    moonpad_status status = MOONPAD_NO_MEMORY;
    long allowed = 0;
    for (; status != MOONPAD_OK; allowed++) {
      if (allowed > 20000) fail_msg("attempt %zu never succeeds", i);
      long alive = self->alive;
      self->allowed = allowed;
      status = attempts[i](self, session, changes);
      self->allowed = -1;
      if (status == MOONPAD_OK) break;
      if (status != MOONPAD_NO_MEMORY)
        fail_msg("attempt %zu, allocation %ld: %s: %s", i, allowed, moonpad_status_name(status), failure.message);
      assert_int_equal(moonpad_session_revision(session), revision);
      OK(moonpad_session_state(session, &after, &failure));
      GIVES(after, before.data);
      assert_true(moonpad_changes_pending(changes));
      /* Caches may grow, but not with every failure. */
      if (self->alive > alive + 64)
        fail_msg("attempt %zu, allocation %ld: %ld blocks leaked", i, allowed, self->alive - alive);
    }
    assert_true(allowed > 0);
    moonpad_buffer_free(&before);
    moonpad_changes_free(changes);
  }
  /* Each attempt has happened exactly once. */
  moonpad_session *stored = get(self, "s");
  assert_int_equal(moonpad_session_revision(stored), 4);
  assert_int_equal(event_count(stored), 4);
  assert_int_equal(read_value(stored, "user:n", "").as.integer, 2);
  moonpad_session_free(stored);
  moonpad_session_free(session);
}

/* ---- Configured limits ---- */

static void test_limits(void **state) {
  host *self = *state;
  moonpad_service_release(self->service);
  self->options.max_value_bytes = 100;
  self->options.max_event_bytes = 400;
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
  moonpad_session *session = create(self, "s", "");
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

#define ON_BOTH(test)                                                                                                  \
  {#test " on memory:", test, setup_memory, teardown, NULL}, {                                                         \
#test " on sqlite:", test, setup_file, teardown, NULL                                                              \
  }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_library_names_its_version_and_its_statuses),
      cmocka_unit_test(test_options_have_the_documented_defaults),
      cmocka_unit_test(test_open_refuses_what_it_cannot_open),
      cmocka_unit_test(test_release_accepts_null),
      ON_BOTH(test_a_service_is_counted_and_can_be_closed),
      ON_BOTH(test_a_session_keeps_its_service),
      ON_BOTH(test_create_session),
      ON_BOTH(test_ids_come_from_the_injected_source),
      ON_BOTH(test_get_session),
      ON_BOTH(test_delete_session),
      ON_BOTH(test_list_sessions),
      ON_BOTH(test_read_by_path),
      ON_BOTH(test_append_event),
      ON_BOTH(test_append_event_twice),
      ON_BOTH(test_events_are_read_by_index),
      ON_BOTH(test_refresh_and_conflicts),
      ON_BOTH(test_change_sets),
      ON_BOTH(test_change_sets_refuse_what_cannot_be),
      ON_BOTH(test_a_failed_commit_leaves_its_writes_pending),
      ON_BOTH(test_update_session),
      ON_BOTH(test_shared_state),
      ON_BOTH(test_history),
      ON_BOTH(test_backup),
      ON_BOTH(test_export_and_import),
      ON_BOTH(test_export_and_import_keep_names_apart),
      ON_BOTH(test_import_keeps_to_the_limits),
      cmocka_unit_test(test_json_read),
      cmocka_unit_test(test_render),
      ON_BOTH(test_session_render),
      ON_BOTH(test_async_appends_complete_in_order),
      ON_BOTH(test_async_failure_fails_those_behind_it),
      ON_BOTH(test_async_append_to_a_deleted_session),
      ON_BOTH(test_async_refuses_a_malformed_event_at_once),
      ON_BOTH(test_async_and_sync_appends_keep_their_order),
      ON_BOTH(test_async_commit_of_a_change_set),
      ON_BOTH(test_async_failure_without_callback_is_logged),
      ON_BOTH(test_close_and_free_wait_for_asynchronous_appends),
      ON_BOTH(test_every_call_survives_out_of_memory),
      ON_BOTH(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
