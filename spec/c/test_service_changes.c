/* The public C API call by call, on every store: change sets, and what users and apps share. */
#include <math.h>
#include <stdio.h>

#include "service_support.h"
#include "sqlite_support.h"

/* ---- Change sets ---- */

static void test_a_change_set_is_private_until_it_is_committed(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1,\"o\":{\"a\":[1,2]},\"gone\":1}");
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
  SAYS(host_read(session, "o", "").as.text, "{\"a\":[1,2]}");
  moonpad_event *event = NULL;
  OK(moonpad_changes_commit(one, T("{\"author\":\"me\",\"actions\":{\"stateDelta\":{\"extra\":1}}}"), &event,
                            &failure));
  assert_string_equal(host_in_event(event, "author"), "me");
  assert_string_equal(host_in_event(event, "actions.stateDelta.k"), "6");
  assert_string_equal(host_in_event(event, "actions.stateDelta.extra"), "1");
  assert_string_equal(host_in_event(event, "removedStateKeys[1]"), "gone");
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
  moonpad_session *session = host_create(self, "s", "{\"k\":\"text\",\"list\":[1,2,3],\"max\":9223372036854775807}");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  moonpad_value one = moonpad_integer(1);
  static const char *const paths[][2] = {{"missing", "a"}, {"k", "x"},      {"list", "[5]"},
                                         {"list", "x"},    {"list", "[0]"}, {"list", "["}};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T(paths[i][0]), T(paths[i][1]), &one, &failure));
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

static void test_change_sets_name_the_path_of_a_bad_value(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"o\":{}}");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  moonpad_value bad = moonpad_json(T("[1,]")), text = moonpad_string_value(T("\xff")), nan = moonpad_float((double)NAN);
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T("o"), T(""), &bad, &failure));
  assert_string_equal(failure.message, "state[\"o\"]: a value was expected at byte 4");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T("o"), T("a"), &text, &failure));
  assert_string_equal(failure.message, "state[\"o\"] at \"a\": invalid UTF-8 at byte 1");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_increment(changes, T("n"), &nan, &failure));
  assert_string_equal(failure.message, "state[\"n\"]: by: NaN and infinities cannot be stored");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_append(changes, T("l"), &bad, &failure));
  assert_string_equal(failure.message, "state[\"l\"]: item: a value was expected at byte 4");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* What is not there need not be removed, however the path to it would go on. */
static void test_removing_what_is_not_there_does_nothing(void **state) {
  static const char *const paths[][2] = {
      {"absent", "a"},    {"absent", "a.b.c"}, {"absent", "[1]"},       {"absent", "[1].x"}, {"o", "b"},
      {"o", "b.c"},       {"o", "a[9].x"},     {"o", "a[1].x.y"},       {"o", "[1]"},        {"o", "a.x"},
      {"number", "x"},    {"number", "x.y"},   {"null", "x"},           {"text", "[1].x"},   {"removed", "x.y"},
      {"temp:none", "a"}, {"user:none", "a"},  {"app:none", "a[3].b.c"}};
  host *self = *state;
  moonpad_session *session = host_create(
      self, "s", "{\"o\":{\"a\":[{}]},\"number\":1,\"null\":null,\"text\":\"x\",\"removed\":{\"x\":{\"y\":1}}}");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  OK(moonpad_changes_remove(changes, T("removed"), T(""), &failure));
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    moonpad_status status = moonpad_changes_remove(changes, T(paths[i][0]), T(paths[i][1]), &failure);
    if (status != MOONPAD_OK) fail_msg("%s %s: %s", paths[i][0], paths[i][1], failure.message);
  }
  SAYS(changed(changes, "o", "").as.text, "{\"a\":[{}]}");
  moonpad_event *event = NULL;
  OK(moonpad_changes_commit(changes, T("{}"), &event, &failure));
  assert_string_equal(host_in_event(event, "actions.stateDelta"), "{\"removed\":null}");
  moonpad_event_free(event);
  /* The path is looked at all the same. */
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_remove(changes, T("absent"), T("a..b"), &failure));
  assert_string_equal(failure.message,
                      "path \"a..b\": malformed at byte 2; join names with dots and put indices (from 1) "
                      "into brackets, as in items[2].name");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_remove(changes, T("o"), T("["), &failure));
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

static void test_a_path_that_leads_nowhere_says_where_it_ends(void **state) {
  static const struct {
    const char *key, *path, *message;
  } cases[] = {
      {"a", "b.c", "state[\"a\"] is absent: path \"b.c\" needs a table there"},
      {"a", "b", "state[\"a\"] is absent: path \"b\" needs a table there"},
      {"removed", "b", "state[\"removed\"] is absent: path \"b\" needs a table there"},
      {"user:a", "[1]", "state[\"user:a\"] is absent: path \"[1]\" needs a table there"},
      {"o", "x.y", "state[\"o\"] at \"x\" is absent: path \"x.y\" needs a table there"},
      {"o", "a[2].n.m", "state[\"o\"] at \"a[2]\" is absent: path \"a[2].n.m\" needs a table there"},
      {"o", "a[1].n.m", "state[\"o\"] at \"a[1].n\" is absent: path \"a[1].n.m\" needs a table there"},
      {"o", "n.x", "state[\"o\"] at \"n\" is a number: path \"n.x\" needs a table there"},
      {"o", "t.x", "state[\"o\"] at \"t\" is a string: path \"t.x\" needs a table there"},
      {"n", "x", "state[\"n\"] is a number: path \"x\" needs a table there"},
      {"null", "x.y", "state[\"null\"] is null: path \"x.y\" needs a table there"},
      {"yes", "[1]", "state[\"yes\"] is a boolean: path \"[1]\" needs a table there"},
  };
  host *self = *state;
  moonpad_session *session = host_create(
      self, "s", "{\"o\":{\"a\":[{}],\"n\":1,\"t\":\"x\"},\"n\":1.5,\"null\":null,\"yes\":true,\"removed\":{}}");
  moonpad_changes *changes = NULL;
  moonpad_value one = moonpad_integer(1);
  OK(moonpad_changes_begin(session, &changes, &failure));
  OK(moonpad_changes_remove(changes, T("removed"), T(""), &failure));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_set(changes, T(cases[i].key), T(cases[i].path), &one, &failure));
    assert_string_equal(failure.message, cases[i].message);
  }
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* One level is the array's own. */
static void test_an_item_leaves_room_for_its_array(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"there\":[1]}");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  char text[2 * MOONPAD_MAX_DEPTH + 1];
  memset(text, '[', MOONPAD_MAX_DEPTH);
  memset(text + MOONPAD_MAX_DEPTH, ']', MOONPAD_MAX_DEPTH);
  moonpad_value deep = moonpad_json((moonpad_string){text, sizeof text - 1});
  moonpad_value fitting = moonpad_json((moonpad_string){text + 1, sizeof text - 3});
  static const char *const keys[] = {"new", "there", "pending"};
  set_json(changes, "pending", "", "[2]");
  for (size_t i = 0; i < 3; i++) {
    char message[128];
    snprintf(message, sizeof message, "state[\"%s\"]: item: the value would be nested more than 128 levels deep",
             keys[i]);
    for (int round = 0; round < 2; round++) {
      FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_changes_append(changes, T(keys[i]), &deep, &failure));
      assert_string_equal(failure.message, message);
      OK(moonpad_changes_append(changes, T(keys[i]), &fitting, &failure));
    }
  }
  OK(moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  moonpad_changes_free(changes);
  changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  assert_int_equal(changed(changes, "new", "[2]").as.text.length, sizeof text - 3);
  assert_int_equal(changed(changes, "there", "[3]").as.text.length, sizeof text - 3);
  assert_int_equal(changed(changes, "pending", "[3]").as.text.length, sizeof text - 3);
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* ---- Many items appended ---- */

static size_t bytes_asked;

static void *ask_allocate(void *context, size_t size) {
  (void)context;
  bytes_asked += size;
  return malloc(size);
}

static void *ask_resize(void *context, void *block, size_t size) {
  (void)context;
  bytes_asked += size;
  return realloc(block, size);
}

static void ask_release(void *context, void *block) {
  (void)context;
  free(block);
}

/* The bytes that so many pending items ask for in all; checks what comes of them. */
static size_t append_items(int count) {
  moonpad_allocator allocator = {ask_allocate, ask_resize, ask_release, NULL};
  moonpad_options options;
  moonpad_service *service = NULL;
  moonpad_session *session = NULL;
  moonpad_changes *changes = NULL;
  moonpad_session_name name = host_name("s");
  moonpad_options_init(&options);
  options.allocator = &allocator;
  OK(moonpad_open(T("memory:"), &options, &service, &failure));
  OK(moonpad_create_session(service, &name, T("{\"there\":[0]}"), &session, &failure));
  OK(moonpad_changes_begin(session, &changes, &failure));
  bytes_asked = 0;
  for (int i = 1; i <= count; i++) {
    moonpad_value item = moonpad_integer(i);
    OK(moonpad_changes_append(changes, T("new"), &item, &failure));
    OK(moonpad_changes_append(changes, T("there"), &item, &failure));
  }
  size_t asked = bytes_asked;
  char last[32];
  snprintf(last, sizeof last, "[%d]", count + 1);
  assert_int_equal(changed(changes, "there", last).as.integer, count);
  assert_int_equal(changed(changes, "new", last).type, MOONPAD_ABSENT);
  OK(moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  assert_int_equal(host_read(session, "there", last).as.integer, count);
  assert_int_equal(host_read(session, "new", "[1]").as.integer, 1);
  moonpad_changes_free(changes);
  moonpad_session_free(session);
  moonpad_service_release(service);
  return asked;
}

static void test_many_items_cost_each_what_few_do(void **state) {
  (void)state;
  size_t few = append_items(500), many = append_items(5000);
  if (many > 15 * few) fail_msg("500 items: %zu bytes, ten times as many: %zu", few, many);
}

/* Whatever comes between: reading, writing in place, another change set. */
static void test_items_are_kept_in_order_whatever_comes_between(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"l\":[0]}");
  moonpad_changes *changes = NULL, *other = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  OK(moonpad_changes_begin(session, &other, &failure));
  moonpad_value items[] = {moonpad_integer(1), moonpad_json(T("[2]")), moonpad_string_value(T("3,]\"")),
                           moonpad_null_value(), moonpad_json(T("{\"a\":[]}"))};
  for (size_t i = 0; i < 5; i++) {
    OK(moonpad_changes_append(changes, T("l"), &items[i], &failure));
    OK(moonpad_changes_append(changes, T("l"), &items[i], &failure));
    if (i == 2) SAYS(changed(changes, "l", "").as.text, "[0,1,1,[2],[2],\"3,]\\\"\",\"3,]\\\"\"]");
  }
  OK(moonpad_changes_append(other, T("l"), &items[0], &failure));
  OK(moonpad_changes_commit(other, T("{}"), NULL, &failure));
  SAYS(changed(changes, "l", "").as.text, "[0,1,1,1,[2],[2],\"3,]\\\"\",\"3,]\\\"\",null,null,{\"a\":[]},{\"a\":[]}]");
  OK(moonpad_changes_append(changes, T("l"), &items[0], &failure));
  set_json(changes, "l", "[5]", "[5]");
  OK(moonpad_changes_append(changes, T("l"), &items[0], &failure));
  OK(moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  STORED(self, "s", "{\"l\":[0,1,1,1,[5],[2],\"3,]\\\"\",\"3,]\\\"\",null,null,{\"a\":[]},{\"a\":[]},1,1]}");
  OK(moonpad_changes_append(changes, T("l"), &items[1], &failure));
  OK(moonpad_changes_append(changes, T("l"), &items[1], &failure));
  moonpad_changes_discard(changes);
  OK(moonpad_changes_append(changes, T("l"), &items[0], &failure));
  OK(moonpad_changes_commit(changes, T("{}"), NULL, &failure));
  assert_int_equal(host_read(session, "l", "[15]").type, MOONPAD_INTEGER);
  assert_int_equal(host_read(session, "l", "[16]").type, MOONPAD_ABSENT);
  moonpad_changes_free(other);
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

static void test_a_failed_commit_leaves_its_writes_pending(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}"), *other = host_get(self, "s");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  set_json(changes, "k", "", "{\"mine\":true}");
  host_append(other, "{\"k\":2}");
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

/*
** What was pending is part of the digest of an event, which stands in files: docs/storage.md says
** how it is made.
*/
static void test_the_digest_holds_what_was_pending(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"gone\":1}");
  moonpad_changes *changes = NULL;
  OK(moonpad_changes_begin(session, &changes, &failure));
  moonpad_value two = moonpad_integer(2), item = moonpad_string_value(T("x"));
  set_json(changes, "cart", "", "{\"b\":[1],\"a\":null}");
  OK(moonpad_changes_remove(changes, T("gone"), T(""), &failure));
  OK(moonpad_changes_increment(changes, T("user:n"), &two, &failure));
  OK(moonpad_changes_append(changes, T("log"), &item, &failure));
  OK(moonpad_changes_set(changes, T("temp:t"), T(""), &two, &failure));
  OK(moonpad_changes_commit(changes, T("{\"id\":\"e1\"}"), NULL, &failure));
  int64_t digest = sql_integer(self->url + strlen("sqlite:"), "SELECT digest FROM events");
  assert_true(digest == INT64_C(0x377ebf9b28febdb9));
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* What was pending is part of what was given (contract 2.1 point 3). */
static void test_an_event_with_other_pending_writes_is_another_one(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "");
  moonpad_changes *changes = NULL;
  moonpad_value one = moonpad_integer(1);
  OK(moonpad_changes_begin(session, &changes, &failure));
  for (int i = 0; i < 2; i++) {
    OK(moonpad_changes_increment(changes, T("n"), &one, &failure));
    OK(moonpad_changes_commit(changes, T("{\"id\":\"e1\"}"), NULL, &failure));
    assert_int_equal(moonpad_session_revision(session), 1);
    STORED(self, "s", "{\"n\":1}");
  }
  OK(moonpad_changes_set(changes, T("n"), T(""), &one, &failure));
  FAILS(MOONPAD_ALREADY_EXISTS, moonpad_changes_commit(changes, T("{\"id\":\"e1\"}"), NULL, &failure));
  assert_true(moonpad_changes_pending(changes));
  STORED(self, "s", "{\"n\":1}");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

static void test_what_is_pending_becomes_one_event(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"k\":1}");
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
  assert_string_equal(host_in_event(event, "author"), "system");
  moonpad_event_free(event);
  STORED(self, "s", "{\"k\":[2]}");
  set_json(changes, "k", "", "[3]");
  OK(moonpad_update_session(session, NULL, &failure));
  STORED(self, "s", "{\"k\":[3]}");
  moonpad_session_free(session);
}

/* ---- Change sets that cannot be committed ---- */

static void expect_no_commit(moonpad_changes *changes, moonpad_status status, const char *message) {
  moonpad_event *event = (moonpad_event *)1;
  FAILS(status, moonpad_changes_commit(changes, T("{}"), &event, &failure));
  assert_string_equal(failure.message, message);
  assert_null(event);
  FAILS(status, moonpad_changes_commit_async(changes, T("{}"), NULL, NULL, &failure));
  assert_string_equal(failure.message, message);
}

static void expect_left(moonpad_changes *changes) {
  moonpad_value one = moonpad_integer(1), bad = moonpad_json(T("[")), value = one;
  const char *message = "the session object of this change set has been freed";
  assert_false(moonpad_changes_pending(changes));
  static const char *const keys[] = {"n", "o", "l", "new", ""};
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    value = one;
    FAILS(MOONPAD_CLOSED, moonpad_changes_get(changes, T(keys[i]), T(""), &value, &failure));
    assert_string_equal(failure.message, message);
    assert_int_equal(value.type, MOONPAD_ABSENT);
    FAILS(MOONPAD_CLOSED, moonpad_changes_get(changes, T(keys[i]), T("a.b"), &value, &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_set(changes, T(keys[i]), T(""), &one, &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_set(changes, T(keys[i]), T("a"), &one, &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_set(changes, T(keys[i]), T(""), &bad, &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_remove(changes, T(keys[i]), T(""), &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_remove(changes, T(keys[i]), T("a"), &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_increment(changes, T(keys[i]), &one, &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_increment(changes, T(keys[i]), &bad, &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_append(changes, T(keys[i]), &one, &failure));
    FAILS(MOONPAD_CLOSED, moonpad_changes_append(changes, T(keys[i]), &bad, &failure));
    assert_string_equal(failure.message, message);
  }
  expect_no_commit(changes, MOONPAD_CLOSED, message);
  assert_false(moonpad_changes_pending(changes));
  moonpad_changes_discard(changes);
}

/* Writes of each kind, and what was read through them. */
static void write_all_kinds(moonpad_changes *changes) {
  moonpad_value five = moonpad_integer(5);
  set_json(changes, "o", "a", "[1]");
  set_json(changes, "new", "", "{\"x\":\"y\"}");
  OK(moonpad_changes_increment(changes, T("n"), &five, &failure));
  OK(moonpad_changes_append(changes, T("l"), &five, &failure));
  OK(moonpad_changes_remove(changes, T("gone"), T(""), &failure));
  SAYS(changed(changes, "l", "").as.text, "[1,5]");
  SAYS(changed(changes, "o", "").as.text, "{\"a\":[1]}");
}

static void test_a_change_set_is_closed_when_its_session_is_freed(void **state) {
  host *self = *state;
  enum { SETS = 4 };
  moonpad_session *session = host_create(self, "s", "{\"n\":1,\"o\":{},\"l\":[1],\"gone\":1}");
  moonpad_changes *sets[SETS] = {NULL}, *own = NULL;
  OK(moonpad_session_changes(session, &own, &failure));
  write_all_kinds(own);
  for (int i = 0; i < SETS; i++) {
    OK(moonpad_changes_begin(session, &sets[i], &failure));
    if (i > 0) write_all_kinds(sets[i]);
  }
  OK(moonpad_changes_commit_async(sets[3], T("{}"), NULL, NULL, &failure));
  set_json(sets[3], "o", "a[2]", "[2]");
  moonpad_changes_free(sets[0]);
  moonpad_session_free(session);
  for (int i = 1; i < SETS; i++) expect_left(sets[i]);
  moonpad_changes_free(sets[1]);
  expect_left(sets[2]);
  /* Nor does it need the service. */
  moonpad_service_release(self->service);
  expect_left(sets[2]);
  for (int i = 2; i < SETS; i++) moonpad_changes_free(sets[i]);
  assert_int_equal(self->alive, 0);
  OK(moonpad_open(T(self->url), &self->options, &self->service, &failure));
}

/* ---- JSON with a key that comes twice ---- */

/*
** To keep one of the two would lose the other: wherever JSON comes in, the key and its byte
** are named.
*/
static void test_a_key_that_comes_twice_is_refused(void **state) {
  host *self = *state;
  moonpad_session *session = host_create(self, "s", "{\"o\":{}}"), *other = NULL;
  moonpad_session_name name = host_name("other");
  moonpad_changes *changes = NULL;
  moonpad_value twice = moonpad_json(T("{\"k\":1,\"k\":2}"));
  OK(moonpad_changes_begin(session, &changes, &failure));
#define TWICE(call, where)                                                                                             \
  FAILS(MOONPAD_INVALID_ARGUMENT, call);                                                                               \
  assert_string_equal(failure.message, where)
  TWICE(moonpad_changes_set(changes, T("new"), T(""), &twice, &failure),
        "state[\"new\"]: duplicate key \"k\" at byte 8");
  TWICE(moonpad_changes_set(changes, T("o"), T("a"), &twice, &failure),
        "state[\"o\"] at \"a\": duplicate key \"k\" at byte 8");
  TWICE(moonpad_changes_append(changes, T("l"), &twice, &failure), "state[\"l\"]: item: duplicate key \"k\" at byte 8");
  TWICE(moonpad_create_session(self->service, &name, T("{\"a\":{\"k\":1,\"k\":2}}"), &other, &failure),
        "state: duplicate key \"k\" at byte 13");
  TWICE(moonpad_update_user_state(self->service, T("app"), T("u"), T("{\"k\":1,\"\\u006b\":2}"), T(""), &failure),
        "state: duplicate key \"k\" at byte 8");
  TWICE(moonpad_append_event(session, T("{\"x\":[{\"k\":1,\"k\":2}]}"), NULL, &failure),
        "event: duplicate key \"k\" at byte 14");
  TWICE(moonpad_append_event(session, T("{\"actions\":{\"stateDelta\":{\"k\":1,\"k\":2}}}"), NULL, &failure),
        "event: duplicate key \"k\" at byte 33");
  TWICE(moonpad_append_event(session, T("{\"author\":\"a\",\"author\":\"a\"}"), NULL, &failure),
        "event: duplicate key \"author\" at byte 15");
  assert_false(moonpad_changes_pending(changes));
  STORED(self, "s", "{\"o\":{}}");
  moonpad_changes_free(changes);
  moonpad_session_free(session);
}

/* ---- User and app state ---- */

static void test_user_and_app_state_are_read_and_updated(void **state) {
  host *self = *state;
  moonpad_buffer json = {0};
  OK(moonpad_get_user_state(self->service, T("app"), T("u"), &json, &failure));
  GIVES(json, "{}");
  OK(moonpad_update_user_state(self->service, T("app"), T("u"), T("{\"b\":{\"x\":1},\"a\":1}"), T(""), &failure));
  OK(moonpad_update_user_state(self->service, T("app"), T("u"), T("{\"b\":{\"y\":2.0},\"c\":null}"),
                               T("[\"a\",\"never\"]"), &failure));
  OK(moonpad_get_user_state(self->service, T("app"), T("u"), &json, &failure));
  GIVES(json, "{\"b\":{\"y\":2.0},\"c\":null}");
  OK(moonpad_update_app_state(self->service, T("app"), T("{\"a\":7}"), T("[]"), &failure));
  OK(moonpad_get_app_state(self->service, T("app"), &json, &failure));
  GIVES(json, "{\"a\":7}");
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_update_user_state(self->service, T("app"), T("u"), T("[]"), T(""), &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_update_user_state(self->service, T("app"), T("u"), T("{}"), T("[1]"), &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_update_user_state(self->service, T(""), T("u"), T("{}"), T(""), &failure));

  moonpad_value by = moonpad_integer(3), result;
  OK(moonpad_increment_app_state(self->service, T("app"), T("a"), &by, &result, &failure));
  assert_int_equal(result.as.integer, 10);
  by = moonpad_float(0.5);
  OK(moonpad_increment_user_state(self->service, T("app"), T("u"), T("n"), &by, &result, &failure));
  assert_int_equal(result.type, MOONPAD_FLOAT);
  assert_true(result.as.number == 0.5);
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_increment_user_state(self->service, T("app"), T("u"), T("b"), &by, &result, &failure));
  by = moonpad_boolean(true);
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_increment_user_state(self->service, T("app"), T("u"), T("n"), &by, &result, &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_increment_user_state(self->service, T("app"), T("u"), T("n"), NULL, &result, &failure));
  by = moonpad_integer(0);
  OK(moonpad_increment_user_state(self->service, T("app"), T("u"), T("n"), &by, NULL, &failure));
}

/* Else one user's data would be written for everybody (contract 6). */
static void test_an_empty_user_id_is_never_the_app(void **state) {
  host *self = *state;
  moonpad_buffer json = {0};
  moonpad_value one = moonpad_integer(1), sum;
  OK(moonpad_update_app_state(self->service, T("app"), T("{\"n\":1}"), T(""), &failure));
  FAILS(MOONPAD_INVALID_ARGUMENT, moonpad_get_user_state(self->service, T("app"), T(""), &json, &failure));
  SAYS(T(failure.message), "userId: must not be empty");
  assert_null(json.data);
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_update_user_state(self->service, T("app"), T(""), T("{\"n\":2}"), T(""), &failure));
  SAYS(T(failure.message), "userId: must not be empty");
  FAILS(MOONPAD_INVALID_ARGUMENT,
        moonpad_increment_user_state(self->service, T("app"), T(""), T("n"), &one, &sum, &failure));
  SAYS(T(failure.message), "userId: must not be empty");
  assert_int_equal(sum.type, MOONPAD_ABSENT);
  OK(moonpad_get_app_state(self->service, T("app"), &json, &failure));
  GIVES(json, "{\"n\":1}");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ON_EVERY_STORE(test_a_change_set_is_private_until_it_is_committed),
      ON_EVERY_STORE(test_change_sets_refuse_what_cannot_be),
      ON_EVERY_STORE(test_change_sets_name_the_path_of_a_bad_value),
      ON_EVERY_STORE(test_removing_what_is_not_there_does_nothing),
      ON_EVERY_STORE(test_a_path_that_leads_nowhere_says_where_it_ends),
      ON_EVERY_STORE(test_an_item_leaves_room_for_its_array),
      cmocka_unit_test(test_many_items_cost_each_what_few_do),
      ON_EVERY_STORE(test_items_are_kept_in_order_whatever_comes_between),
      ON_EVERY_STORE(test_a_failed_commit_leaves_its_writes_pending),
      ON_STORE(test_the_digest_holds_what_was_pending, "sqlite:FILE"),
      ON_EVERY_STORE(test_an_event_with_other_pending_writes_is_another_one),
      ON_EVERY_STORE(test_what_is_pending_becomes_one_event),
      ON_EVERY_STORE(test_a_change_set_is_closed_when_its_session_is_freed),
      ON_EVERY_STORE(test_a_key_that_comes_twice_is_refused),
      ON_EVERY_STORE(test_user_and_app_state_are_read_and_updated),
      ON_EVERY_STORE(test_an_empty_user_id_is_never_the_app),
  };
  return HOST_RUN(tests);
}
