/*
** Reading one part of a value by its path: moonpad_json_read of the public API. One test is for
** mp_json_get beneath it, which also starts from values that are no JSON text.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/json_path.h"

static const char DOCUMENT[] =
    " { \"a\" : { \"b c\" : 1, \"b\" : [ 10, -2.5, \"x\\ty\", null, true, [ ] ] },\n"
    "\"s\":\"plain\", \"skip\":[[{\"b\":\"]\"}]], \"e\":\"\", \"n\":9223372036854775807, \"\":0,"
    "\"k\\u0065y\":{\"z\":false} } ";

static moonpad_value read_at(const char *path, moonpad_buffer *scratch) {
  moonpad_value value;
  moonpad_error error;
  moonpad_status status = moonpad_json_read(moonpad_text(DOCUMENT), moonpad_text(path), scratch, &value, &error);
  if (status != MOONPAD_OK) fail_msg("%s: %s", path, error.message);
  return value;
}

static void check_text(const char *path, moonpad_type type, const char *expected) {
  moonpad_buffer scratch = {0};
  moonpad_value value = read_at(path, &scratch);
  assert_int_equal(value.type, type);
  assert_int_equal(value.as.text.length, strlen(expected));
  if (*expected != '\0') assert_memory_equal(value.as.text.data, expected, strlen(expected));
  moonpad_buffer_free(&scratch);
}

static void every_kind_of_value_is_read(void **state) {
  (void)state;
  moonpad_buffer scratch = {0};
  assert_int_equal(read_at("a.b[1]", &scratch).as.integer, 10);
  assert_int_equal(read_at("n", &scratch).as.integer, INT64_MAX);
  assert_int_equal(read_at("n", &scratch).type, MOONPAD_INTEGER);
  moonpad_value number = read_at("a.b[2]", &scratch);
  assert_int_equal(number.type, MOONPAD_FLOAT);
  assert_true(number.as.number == -2.5);
  assert_int_equal(read_at("a.b[4]", &scratch).type, MOONPAD_NULL);
  assert_int_equal(read_at("a.b[5]", &scratch).type, MOONPAD_BOOLEAN);
  assert_true(read_at("a.b[5]", &scratch).as.boolean);
  assert_false(read_at("key.z", &scratch).as.boolean);
  assert_null(scratch.data); /* nothing so far had to be unescaped */
  check_text("a.b[3]", MOONPAD_STRING, "x\ty");
  check_text("s", MOONPAD_STRING, "plain");
  check_text("e", MOONPAD_STRING, "");
  check_text("a.b[6]", MOONPAD_ARRAY, "[ ]");
  check_text("skip[1]", MOONPAD_ARRAY, "[{\"b\":\"]\"}]");
  check_text("key", MOONPAD_OBJECT, "{\"z\":false}");
}

static void what_is_not_there_is_absent(void **state) {
  (void)state;
  static const char *const paths[] = {"b",    "a.c",      "a.b[7]",           "a.b.c",        "s.x", "s[1]", "n.x",
                                      "a[1]", "a.b[4].x", "a.b[99999999999]", "skip[1][1].c", "A"};
  moonpad_buffer scratch = {0};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    if (read_at(paths[i], &scratch).type != MOONPAD_ABSENT) fail_msg("%s", paths[i]);
  }
}

static void an_empty_path_is_the_whole(void **state) {
  (void)state;
  moonpad_buffer scratch = {0};
  moonpad_value value;
  moonpad_error error;
  assert_int_equal(moonpad_json_read(moonpad_text(" 5 "), moonpad_text(""), &scratch, &value, &error), MOONPAD_OK);
  assert_int_equal(value.as.integer, 5);
  assert_int_equal(moonpad_json_read(moonpad_text(" [1, 2] "), moonpad_text(""), &scratch, &value, &error), MOONPAD_OK);
  assert_int_equal(value.type, MOONPAD_ARRAY);
  assert_int_equal(value.as.text.length, 6);
  assert_int_equal(moonpad_json_read(moonpad_text("[1] 2"), moonpad_text(""), &scratch, &value, &error),
                   MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(value.type, MOONPAD_ABSENT);
}

static void scratch_may_be_used_again(void **state) {
  (void)state;
  moonpad_buffer scratch = {0};
  moonpad_value value = read_at("a.b[3]", &scratch);
  assert_ptr_equal(value.as.text.data, scratch.data);
  value = read_at("a.b[3]", &scratch);
  assert_memory_equal(value.as.text.data, "x\ty", 3);
  moonpad_buffer_free(&scratch);
  /* JSON inside a string inside JSON: the second read is of what the first left in scratch. */
  static const char nested[] = "{\"body\":\"{\\\"text\\\":\\\"a\\\\nb\\\"}\"}";
  assert_int_equal(moonpad_json_read(moonpad_text(nested), moonpad_text("body"), &scratch, &value, NULL), MOONPAD_OK);
  assert_int_equal(moonpad_json_read(value.as.text, moonpad_text("text"), &scratch, &value, NULL), MOONPAD_OK);
  assert_int_equal(value.as.text.length, 3);
  assert_memory_equal(value.as.text.data, "a\nb", 3);
  moonpad_buffer_free(&scratch);
}

/* Who expects no string that has escapes need not have a buffer for one. */
static void scratch_may_be_left_out(void **state) {
  (void)state;
  static const char *const plain[] = {"1",    "1.5",       "true",      "null",
                                      "\"\"", "\"plain\"", "[\"\\n\"]", "{\"\\n\":\"\\n\"}"};
  moonpad_value value;
  moonpad_error error;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    moonpad_status status = moonpad_json_read(moonpad_text(plain[i]), moonpad_text(""), NULL, &value, &error);
    if (status != MOONPAD_OK) fail_msg("%s: %s", plain[i], error.message);
  }
  static const char *const escaped[][2] = {{"\"\\n\"", ""}, {"{\"a\":\"\\u00e9\"}", "a"}, {"[1,\"\\\\\"]", "[2]"}};
  for (size_t i = 0; i < sizeof escaped / sizeof *escaped; i++) {
    moonpad_string path = moonpad_text(escaped[i][1]);
    moonpad_status status = moonpad_json_read(moonpad_text(escaped[i][0]), path, NULL, &value, &error);
    assert_int_equal(status, MOONPAD_INVALID_ARGUMENT);
    assert_string_equal(error.message, "JSON: the string has escapes, and there is no scratch to put it into");
    assert_int_equal(value.type, MOONPAD_ABSENT);
    assert_int_equal(moonpad_json_read(moonpad_text(escaped[i][0]), path, NULL, &value, NULL),
                     MOONPAD_INVALID_ARGUMENT);
  }
}

static void malformed_paths_are_named(void **state) {
  (void)state;
  static const char *const paths[] = {".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[1", "a[1]b", "a]"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
    moonpad_buffer scratch = {0};
    moonpad_value value;
    moonpad_error error;
    moonpad_status status = moonpad_json_read(moonpad_text("{}"), moonpad_text(paths[i]), &scratch, &value, &error);
    if (status != MOONPAD_INVALID_ARGUMENT || strstr(error.message, paths[i]) == NULL) fail_msg("%s", paths[i]);
  }
}

static void malformed_json_on_the_way_is_an_error(void **state) {
  (void)state;
  static const char *const documents[] = {"",           "{",         "{\"a\"",     "{\"a\":}",         "[1,]",
                                          "{\"b\":01}", "{\"b\" 1}", "{\"b\":[}}", "{\"a\":\"\xFF\"}", "nul"};
  for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
    moonpad_buffer scratch = {0};
    moonpad_value value;
    moonpad_error error;
    const char *path = documents[i][0] == '[' ? "[3]" : "a";
    moonpad_status status = moonpad_json_read(moonpad_text(documents[i]), moonpad_text(path), &scratch, &value, &error);
    if (status != MOONPAD_INVALID_ARGUMENT) fail_msg("%s: %d", documents[i], (int)status);
    if (strstr(error.message, "byte") == NULL) fail_msg("%s: %s", documents[i], error.message);
    assert_int_equal(value.type, MOONPAD_ABSENT);
  }
}

static void what_follows_the_part_is_not_read(void **state) {
  (void)state;
  moonpad_buffer scratch = {0};
  moonpad_value value;
  assert_int_equal(moonpad_json_read(moonpad_text("{\"a\":1,###"), moonpad_text("a"), &scratch, &value, NULL),
                   MOONPAD_OK);
  assert_int_equal(value.as.integer, 1);
  /* Nor is a key that comes a second time. */
  assert_int_equal(moonpad_json_read(moonpad_text("{\"a\":2,\"a\":3}"), moonpad_text("a"), &scratch, &value, NULL),
                   MOONPAD_OK);
  assert_int_equal(value.as.integer, 2);
}

static void walking_starts_from_any_value(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  assert_non_null(env);
  mp_buffer scratch;
  mp_buffer_init(&scratch, env);
  moonpad_value root = moonpad_integer(3), value;
  assert_int_equal(mp_json_get(env, &root, moonpad_text(""), &scratch, &value, NULL), MOONPAD_OK);
  assert_int_equal(value.as.integer, 3);
  assert_int_equal(mp_json_get(env, &root, moonpad_text("x"), &scratch, &value, NULL), MOONPAD_OK);
  assert_int_equal(value.type, MOONPAD_ABSENT);
  assert_int_equal(mp_json_get(env, &root, moonpad_text("x..y"), &scratch, &value, NULL), MOONPAD_INVALID_ARGUMENT);
  /* a string is no object, whatever it says */
  root = moonpad_string_value(moonpad_text("{\"x\":1}"));
  assert_int_equal(mp_json_get(env, &root, moonpad_text("x"), &scratch, &value, NULL), MOONPAD_OK);
  assert_int_equal(value.type, MOONPAD_ABSENT);
  root = moonpad_json(moonpad_text("[{\"x\":\"\\u00e9\"}]"));
  assert_int_equal(mp_json_get(env, &root, moonpad_text("[1].x"), &scratch, &root, NULL), MOONPAD_OK);
  assert_int_equal(root.type, MOONPAD_STRING);
  assert_memory_equal(root.as.text.data, "\xC3\xA9", 2);
  mp_buffer_free(&scratch);
  mp_env_release(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind_of_value_is_read),       cmocka_unit_test(what_is_not_there_is_absent),
      cmocka_unit_test(an_empty_path_is_the_whole),        cmocka_unit_test(scratch_may_be_used_again),
      cmocka_unit_test(malformed_paths_are_named),         cmocka_unit_test(malformed_json_on_the_way_is_an_error),
      cmocka_unit_test(what_follows_the_part_is_not_read), cmocka_unit_test(walking_starts_from_any_value),
      cmocka_unit_test(scratch_may_be_left_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
