/* A host for tests of the public C API, and what is asked of its service in few words. */
#include "service_support.h"

#include <poll.h>
#include <stdio.h>

#include "example_store.h"
#include "moonpad_stores.h"
#include "redis_support.h"
#include "scope.h"
#include "server_support.h"
#include "slow_store.h"
#include "store_support.h"

/* ---- Hooks ---- */

static bool may_allocate(host *self) {
  if (self->allowed < 0) return true;
  if (self->allowed == 0) return false;
  self->allowed--;
  return true;
}

/*
** A new block holds digits, other ones each time: who reads beyond what was written finds a longer
** number, and is found out.
*/
static void poison(host *self, void *block, size_t size) {
  self->alive++;
  memset(block, '0' + (int)(++self->poisoned % 10), size);
}

static bool call_at_memory(host *self, bool asks) {
  pthread_mutex_lock(&self->lock);
  bool (*at_memory)(void *, bool) = self->at_memory;
  void *context = self->at_memory_context;
  pthread_mutex_unlock(&self->lock);
  return at_memory == NULL || at_memory(context, asks);
}

void host_at_memory(host *self, bool (*at_memory)(void *context, bool asks), void *context) {
  pthread_mutex_lock(&self->lock);
  self->at_memory = at_memory;
  self->at_memory_context = context;
  pthread_mutex_unlock(&self->lock);
}

static void *host_allocate(void *context, size_t size) {
  host *self = context;
  if (!call_at_memory(self, true)) return NULL;
  pthread_mutex_lock(&self->lock);
  void *block = may_allocate(self) ? malloc(size) : NULL;
  if (block != NULL) poison(self, block, size);
  pthread_mutex_unlock(&self->lock);
  return block;
}

static void *host_resize(void *context, void *block, size_t size) {
  host *self = context;
  if (!call_at_memory(self, true)) return NULL;
  pthread_mutex_lock(&self->lock);
  void *grown = may_allocate(self) ? realloc(block, size) : NULL;
  if (grown != NULL && block == NULL) poison(self, grown, size);
  pthread_mutex_unlock(&self->lock);
  return grown;
}

static void host_release(void *context, void *block) {
  host *self = context;
  call_at_memory(self, false);
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
  snprintf(self->last_said, sizeof self->last_said, "%s", message);
  pthread_mutex_unlock(&self->lock);
}

/* The variable with the URL of a store's server, or NULL: it has none. */
static const char *server_of(const char *url) {
  return strcmp(url, "postgresql:") == 0 ? "MOONPAD_TEST_POSTGRESQL"
         : strcmp(url, "mysql:") == 0    ? "MOONPAD_TEST_MYSQL"
         : strcmp(url, "redis:") == 0    ? "MOONPAD_TEST_REDIS"
                                         : NULL;
}

int host_setup(void **state, const char *url) {
  const moonpad_store_scheme stores[] = {{"slow", &slow_store_opener},
                                         {"example", &example_store_opener},
                                         {"postgresql", moonpad_postgres_store()},
                                         {"mysql", moonpad_mysql_store()},
                                         {"redis", redis_opener()}};
  host *self = calloc(1, sizeof *self);
  assert_non_null(self);
  pthread_mutex_init(&self->lock, NULL);
  self->allowed = -1;
  self->now = 1000.5;
  const char *file = strstr(url, "FILE");
  const char *server = server_of(url);
  self->is_on_server = server != NULL;
  if (server != NULL) {
    int length = snprintf(self->url, sizeof self->url, "%s", url);
    server_borrow_url(server, self->url + length, sizeof self->url - (size_t)length);
  } else if (file == NULL) {
    strcpy(self->url, url);
  } else {
    strcpy(self->folder, "/tmp/moonpad-service-XXXXXX");
    assert_non_null(mkdtemp(self->folder));
    snprintf(self->url, sizeof self->url, "%.*s%s/test.db", (int)(file - url), url, self->folder);
  }
  self->allocator = (moonpad_allocator){host_allocate, host_resize, host_release, self};
  moonpad_options_init(&self->options);
  self->options.busy_timeout_ms = TIMEOUT_MS;
  self->options.allocator = &self->allocator;
  self->options.clock = host_clock;
  self->options.clock_context = self;
  self->options.random = host_random;
  self->options.random_context = self;
  self->options.log = host_log;
  self->options.log_context = self;
  memcpy(self->stores, stores, sizeof stores);
  self->options.stores = self->stores;
  self->options.store_count = sizeof stores / sizeof *stores;
  moonpad_error error;
  if (moonpad_open(T(self->url), &self->options, &self->service, &error) != MOONPAD_OK) fail_msg("%s", error.message);
  *state = self;
  return 0;
}

void host_reopen(host *self) {
  moonpad_service_release(self->service);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
}

void host_reopen_hasty(host *self, int64_t busy_timeout_ms) {
  self->options.busy_timeout_ms = busy_timeout_ms;
  moonpad_service_release(self->service);
  self->service = NULL;
  WAIT_UNTIL(moonpad_open(T(self->url), &self->options, &self->service, &failure) == MOONPAD_OK);
}

int host_setup_memory(void **state) {
  return host_setup(state, "memory:");
}

int host_setup_sqlite_memory(void **state) {
  return host_setup(state, "sqlite::memory:");
}

int host_setup_store(void **state) {
  return host_setup(state, *state);
}

int host_setup_file(void **state) {
  return host_setup(state, "sqlite:FILE");
}

static bool is_in_scope(const struct CMUnitTest *test, bool needs_file) {
  const char *on = strstr(test->name, " on ");
  const char *server = on == NULL ? NULL : server_of(on + 4);
  if (server != NULL) return server_is_there(server);
  return on == NULL || needs_file || scope_has_store(on + 4);
}

/* Without the tests on servers that are not there, and on stores that are out of scope. */
static size_t leave_out(const struct CMUnitTest *tests, size_t count, bool needs_file, struct CMUnitTest *left) {
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (is_in_scope(&tests[i], needs_file)) left[kept++] = tests[i];
  }
  return kept;
}

int host_run(const struct CMUnitTest *tests, size_t count) {
  char names[64];
  const char *only = getenv("STORE");
  if (only != NULL) {
    snprintf(names, sizeof names, "* on %s", only);
    cmocka_set_test_filter(names);
  }
  struct CMUnitTest *left = calloc(count, sizeof *left);
  if (left == NULL) return 1;
  size_t kept = leave_out(tests, count, false, left);
  /* A suite about files has none in memory. */
  if (kept == 0) kept = leave_out(tests, count, true, left);
  int failed = _cmocka_run_group_tests("tests", left, kept, NULL, NULL);
  free(left);
  return failed;
}

int host_teardown(void **state) {
  host *self = *state;
  moonpad_service_release(self->service);
  long alive = self->alive;
  if (self->is_on_server) server_return_url(strchr(self->url, ':') + 1);
  if (self->folder[0] != '\0') remove_folder(self->folder);
  pthread_mutex_destroy(&self->lock);
  free(self);
  assert_int_equal(alive, 0);
  return 0;
}

/* ---- Short forms ---- */

moonpad_error failure;

void expect_ok(moonpad_status status, int line) {
  if (status != MOONPAD_OK) fail_msg("line %d: %s: %s", line, moonpad_status_name(status), failure.message);
}

void expect_failure(moonpad_status expected, moonpad_status status, int line) {
  if (status != expected) {
    fail_msg("line %d: expected %s, got %s", line, moonpad_status_name(expected), moonpad_status_name(status));
  }
  if (failure.code != expected) fail_msg("line %d: the error's code is %s", line, moonpad_status_name(failure.code));
  if (failure.message[0] == '\0') fail_msg("line %d: the error has no message", line);
}

void expect_text(moonpad_string found, const char *expected, int line) {
  if (found.length != strlen(expected) || memcmp(found.data, expected, found.length) != 0) {
    fail_msg("line %d: \"%.*s\" is not \"%s\"", line, (int)found.length, found.data, expected);
  }
}

void expect_buffer(moonpad_buffer *buffer, const char *expected, int line) {
  expect_text((moonpad_string){buffer->data, buffer->length}, expected, line);
  if (buffer->data[buffer->length] != '\0') fail_msg("line %d: the buffer does not end in NUL", line);
  moonpad_buffer_free(buffer);
}

moonpad_session_name host_name(const char *id) {
  return (moonpad_session_name){T("app"), T("u"), T(id)};
}

moonpad_session *host_create(host *self, const char *id, const char *state) {
  moonpad_session_name name = host_name(id);
  moonpad_session *session = NULL;
  OK(moonpad_create_session(self->service, &name, T(state), &session, &failure));
  assert_non_null(session);
  return session;
}

moonpad_session *host_get(host *self, const char *id) {
  moonpad_session_name name = host_name(id);
  moonpad_session *session = NULL;
  OK(moonpad_get_session(self->service, &name, NULL, &session, &failure));
  return session;
}

moonpad_value host_read(moonpad_session *session, const char *key, const char *path) {
  moonpad_value value;
  OK(moonpad_session_read(session, T(key), T(path), &value, &failure));
  return value;
}

void expect_state(moonpad_session *session, const char *expected, int line) {
  moonpad_buffer json = {0};
  expect_ok(moonpad_session_state(session, &json, &failure), line);
  expect_buffer(&json, expected, line);
}

void expect_stored(host *self, const char *id, const char *expected, int line) {
  moonpad_session *session = host_get(self, id);
  expect_state(session, expected, line);
  moonpad_session_free(session);
}

static void write_event(char event[512], const char *delta) {
  snprintf(event, 512, "{\"author\":\"agent\",\"actions\":{\"stateDelta\":%s}}", delta);
}

void host_append(moonpad_session *session, const char *delta) {
  char event[512];
  write_event(event, delta);
  OK(moonpad_append_event(session, T(event), NULL, &failure));
}

void host_append_async(moonpad_session *session, const char *delta, moonpad_append_callback callback, void *context) {
  char event[512];
  write_event(event, delta);
  OK(moonpad_append_event_async(session, T(event), callback, context, &failure));
}

size_t host_event_count(moonpad_session *session) {
  size_t count = 99;
  OK(moonpad_session_event_count(session, &count, &failure));
  return count;
}

const char *host_in_event(const moonpad_event *event, const char *path) {
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

moonpad_queue *host_queue(host *self) {
  moonpad_queue *queue = NULL;
  OK(moonpad_queue_new(self->service, &queue, &failure));
  assert_non_null(queue);
  return queue;
}

bool is_readable(int fd, int timeout_ms) {
  struct pollfd asked = {.fd = fd, .events = POLLIN};
  int found = poll(&asked, 1, timeout_ms);
  assert_true(found >= 0);
  return found == 1 && (asked.revents & POLLIN) != 0;
}

void set_json(moonpad_changes *changes, const char *key, const char *path, const char *json) {
  moonpad_value value = moonpad_json(T(json));
  OK(moonpad_changes_set(changes, T(key), T(path), &value, &failure));
}

moonpad_value changed(moonpad_changes *changes, const char *key, const char *path) {
  moonpad_value value;
  OK(moonpad_changes_get(changes, T(key), T(path), &value, &failure));
  return value;
}
