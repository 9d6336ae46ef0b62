/*
** Option structs of programs that were built with another header than the library. Each struct
** lies in a block of exactly its size, so that AddressSanitizer finds a byte that is read or
** written beyond it. How a struct that has grown is read is shown with one of the test's own
** (base/options.h). scripts/check_abi.sh has the rest: real programs with real headers.
*/
#include "service_support.h"

#include <stdio.h>

#include "base/options.h"

/* ---- The shared helper, with a struct that has grown ---- */

typedef struct first {
  size_t size;
  int64_t limit; /* 10 */
} first;

typedef struct second {
  size_t size;
  int64_t limit;
  int64_t depth; /* of the second version; 0 */
} second;

static moonpad_status take(const void *given, second *options) {
  *options = (second){sizeof *options, 10, 0};
  return mp_take_options("some_options", sizeof(first), given, options, sizeof *options, &failure);
}

/* A struct in a block of its own, to be freed. */
static void *block_of(const void *bytes, size_t known, size_t size) {
  unsigned char *block = calloc(1, size);
  assert_non_null(block);
  memcpy(block, bytes, known < size ? known : size);
  memcpy(block, &size, sizeof size);
  return block;
}

static void test_what_an_older_struct_lacks_has_its_default(void **state) {
  (void)state;
  second options;
  first old = {sizeof old, 3};
  void *block = block_of(&old, sizeof old, sizeof old);
  OK(take(block, &options));
  assert_int_equal(options.limit, 3);
  assert_int_equal(options.depth, 0);
  assert_int_equal(options.size, sizeof options);
  free(block);
  second same = {sizeof same, 4, 5};
  OK(take(&same, &options));
  assert_true(options.limit == 4 && options.depth == 5);
  OK(take(NULL, &options));
  assert_true(options.limit == 10 && options.depth == 0);
}

/* ---- Every struct of the public header, given to every call that takes it ---- */

typedef struct use {
  const char *name;
  size_t size;
  size_t oldest; /* of the first version */
  void (*init)(void *options);
  moonpad_status (*call)(host *self, const void *options);
} use;

static void init_open(void *options) {
  moonpad_options_init(options);
}
static void init_get(void *options) {
  moonpad_get_options_init(options);
}
static void init_list(void *options) {
  moonpad_list_options_init(options);
}
static void init_cursor(void *options) {
  moonpad_event_cursor_options_init(options);
}
static void init_template(void *options) {
  moonpad_template_options_init(options);
}

static moonpad_status call_open(host *self, const void *options) {
  (void)self;
  moonpad_service *service;
  moonpad_status status = moonpad_open(T("memory:"), options, &service, &failure);
  assert_true((service == NULL) == (status != MOONPAD_OK));
  moonpad_service_release(service);
  return status;
}

static moonpad_status call_get(host *self, const void *options) {
  moonpad_session *session;
  moonpad_session_name name = host_name("s");
  moonpad_status status = moonpad_get_session(self->service, &name, options, &session, &failure);
  assert_true((session == NULL) == (status != MOONPAD_OK));
  moonpad_session_free(session);
  return status;
}

static moonpad_status call_list(host *self, const void *options) {
  moonpad_session_list *list;
  moonpad_status status = moonpad_list_sessions(self->service, T("app"), options, &list, &failure);
  assert_true((list == NULL) == (status != MOONPAD_OK));
  if (list != NULL) assert_int_equal(moonpad_session_list_count(list), 1);
  moonpad_session_list_free(list);
  return status;
}

static moonpad_status call_cursor(host *self, const void *options) {
  moonpad_event_cursor *cursor;
  moonpad_session *session = host_get(self, "s");
  moonpad_status status = moonpad_event_cursor_open(session, options, &cursor, &failure);
  assert_true((cursor == NULL) == (status != MOONPAD_OK));
  moonpad_event_cursor_free(cursor);
  moonpad_session_free(session);
  return status;
}

static bool find_nothing(void *context, moonpad_string name, moonpad_value *value, moonpad_error *error) {
  (void)context, (void)name, (void)value, (void)error;
  return true;
}

static moonpad_status call_render(host *self, const void *options) {
  (void)self;
  moonpad_buffer result;
  moonpad_status status = moonpad_render(T("{none?}"), options, find_nothing, NULL, &result, &failure);
  assert_true((result.data == NULL) == (status != MOONPAD_OK));
  moonpad_buffer_free(&result);
  return status;
}

static moonpad_status call_session_render(host *self, const void *options) {
  moonpad_buffer result;
  moonpad_session *session = host_get(self, "s");
  moonpad_status status = moonpad_session_render(session, T("{none?}"), options, &result, &failure);
  assert_true((result.data == NULL) == (status != MOONPAD_OK));
  moonpad_buffer_free(&result);
  moonpad_session_free(session);
  return status;
}

static const use uses[] = {
    {"moonpad_options", sizeof(moonpad_options), offsetof(moonpad_options, stores), init_open, call_open},
    {"moonpad_get_options", sizeof(moonpad_get_options), sizeof(moonpad_get_options), init_get, call_get},
    {"moonpad_list_options", sizeof(moonpad_list_options), sizeof(moonpad_list_options), init_list, call_list},
    {"moonpad_event_cursor_options", sizeof(moonpad_event_cursor_options), sizeof(moonpad_event_cursor_options),
     init_cursor, call_cursor},
    {"moonpad_template_options", sizeof(moonpad_template_options), sizeof(moonpad_template_options), init_template,
     call_render},
    {"moonpad_template_options", sizeof(moonpad_template_options), sizeof(moonpad_template_options), init_template,
     call_session_render},
};
#define USES (sizeof uses / sizeof uses[0])

static void expect_words(const use *one, size_t size) {
  char number[32];
  snprintf(number, sizeof number, "%zu", size);
  if (strstr(failure.message, one->name) == NULL) fail_msg("%s: not in: %s", one->name, failure.message);
  if (strstr(failure.message, number) == NULL) fail_msg("%s: not in: %s", number, failure.message);
}

static void test_an_impossible_size_is_refused(void **state) {
  host *self = *state;
  moonpad_session_free(host_create(self, "s", "{}"));
  for (size_t i = 0; i < USES; i++) {
    const use *one = &uses[i];
    /* With 32 bits the last field may be followed by four bytes that belong to none. */
    const size_t wrong[] = {0, 1, sizeof(size_t), one->oldest - sizeof(int64_t), one->size + 1, 1 << 20, SIZE_MAX};
    unsigned char *options = calloc(1, one->size);
    assert_non_null(options);
    for (size_t j = 0; j < sizeof wrong / sizeof wrong[0]; j++) {
      one->init(options);
      memcpy(options, &wrong[j], sizeof wrong[j]);
      FAILS(MOONPAD_INVALID_ARGUMENT, one->call(self, options));
      expect_words(one, wrong[j]);
    }
    one->init(options);
    OK(one->call(self, options));
    free(options);
  }
}

static void test_a_newer_struct_is_taken_unless_it_sets_what_is_unknown(void **state) {
  host *self = *state;
  moonpad_session_free(host_create(self, "s", "{}"));
  for (size_t i = 0; i < USES; i++) {
    const use *one = &uses[i];
    size_t newer = one->size + 3 * sizeof(size_t);
    unsigned char *known = calloc(1, one->size);
    assert_non_null(known);
    one->init(known);
    unsigned char *options = block_of(known, one->size, newer);
    OK(one->call(self, options));
    for (size_t at = one->size; at < newer; at++) {
      options[at] = 1;
      FAILS(MOONPAD_UNSUPPORTED, one->call(self, options));
      expect_words(one, at);
      options[at] = 0;
    }
    OK(one->call(self, options));
    free(options);
    free(known);
  }
}

static void test_init_writes_the_callers_struct_and_no_more(void **state) {
  (void)state;
  for (size_t i = 0; i < USES; i++) {
    const use *one = &uses[i];
    size_t size;
    unsigned char *options = malloc(one->size);
    assert_non_null(options);
    memset(options, 0xA5, one->size);
    one->init(options);
    memcpy(&size, options, sizeof size);
    assert_int_equal(size, one->size);
    free(options);
  }
}

/*
** The last field ends the struct: what a later version adds begins behind what an older program
** has set.
*/
#define ENDS_WITH(type, field) (offsetof(type, field) + sizeof(((type *)0)->field) == sizeof(type))

static void test_no_struct_ends_with_bytes_that_nobody_sets(void **state) {
  (void)state;
  assert_true(ENDS_WITH(moonpad_options, max_sessions_per_user));
  assert_true(ENDS_WITH(moonpad_get_options, after_timestamp));
  assert_true(ENDS_WITH(moonpad_list_options, after));
  assert_true(ENDS_WITH(moonpad_template_options, agent_name));
}

/* How many events a session with three shows of a service whose default is two. */
static size_t shown_events(moonpad_service *service, const moonpad_get_options *options) {
  moonpad_session_name name = host_name("s");
  moonpad_session *session = NULL;
  OK(moonpad_get_session(service, &name, options, &session, &failure));
  size_t count = host_event_count(session);
  moonpad_session_free(session);
  return count;
}

static void test_options_of_a_get_that_say_nothing_leave_it_to_the_service(void **state) {
  host *self = *state;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_options options = self->options;
  options.num_recent_events = 2;
  OK(moonpad_open(T("memory:"), &options, &service, &failure));
  OK(moonpad_create_session(service, &name, T(""), &session, &failure));
  for (int i = 0; i < 3; i++) OK(moonpad_append_event(session, T("{\"timestamp\":10}"), NULL, &failure));
  moonpad_session_free(session);
  moonpad_get_options get;
  moonpad_get_options_init(&get);
  assert_int_equal(shown_events(service, NULL), 2);
  assert_int_equal(shown_events(service, &get), 2);
  get.has_after_timestamp = true;
  get.after_timestamp = 10;
  assert_int_equal(shown_events(service, &get), 2);
  /* What a program says counts, whatever header it was built with. */
  static const int64_t given[] = {MOONPAD_ALL_EVENTS, 0, 1, INT64_MAX};
  static const size_t shown[] = {3, 0, 1, 3};
  for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
    moonpad_get_options_init(&get);
    get.num_recent_events = given[i];
    assert_int_equal(shown_events(service, &get), shown[i]);
  }
  get.num_recent_events = MOONPAD_DEFAULT + 1;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_get_session(service, &name, &get, &session, &failure));
  moonpad_service_release(service);
  /* The service itself has nobody to leave it to. */
  options.num_recent_events = MOONPAD_DEFAULT;
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_open(T("memory:"), &options, &service, &failure));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_an_older_struct_lacks_has_its_default),
      cmocka_unit_test_setup_teardown(test_an_impossible_size_is_refused, host_setup_memory, host_teardown),
      cmocka_unit_test_setup_teardown(test_a_newer_struct_is_taken_unless_it_sets_what_is_unknown, host_setup_memory,
                                      host_teardown),
      cmocka_unit_test(test_init_writes_the_callers_struct_and_no_more),
      cmocka_unit_test(test_no_struct_ends_with_bytes_that_nobody_sets),
      cmocka_unit_test_setup_teardown(test_options_of_a_get_that_say_nothing_leave_it_to_the_service, host_setup_memory,
                                      host_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
