/*
** JSON beneath the public calls: the pull reader token by token, and the short ways that are taken
** where the text is trusted: written by this library, and not checked again.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "base/utf8.h"
#include "core/json_compact.h"
#include "core/json_lex.h"
#include "core/json_path.h"
#include "core/json_reader.h"
#include "core/json_trusted.h"
#include "core/json_write.h"
#include "exact_copy.h"
#include "repeatable_random.h"

/* ---- the reader ---- */

static void the_reader_gives_one_token_after_another(void **state) {
  (void)state;
  static const mp_json_token expected[] = {
      MP_JSON_OBJECT_BEGIN, MP_JSON_KEY,  MP_JSON_INTEGER,      MP_JSON_KEY,        MP_JSON_ARRAY_BEGIN,
      MP_JSON_FLOAT,        MP_JSON_TRUE, MP_JSON_NULL,         MP_JSON_ARRAY_END,  MP_JSON_KEY,
      MP_JSON_STRING,       MP_JSON_KEY,  MP_JSON_FALSE,        MP_JSON_KEY,        MP_JSON_ARRAY_BEGIN,
      MP_JSON_ARRAY_END,    MP_JSON_KEY,  MP_JSON_OBJECT_BEGIN, MP_JSON_OBJECT_END, MP_JSON_OBJECT_END,
      MP_JSON_END,          MP_JSON_END};
  moonpad_string text =
      moonpad_text(" {\"a\": 1, \"b\":[ 2.5,true , null ] ,\"c\":\"x\\ny\",\n\"d\":false, \"e\": [ ],\"f\":{ }}\r\n\t");
  mp_env *env = mp_env_new(NULL);
  mp_json_reader reader;
  mp_json_reader_init(&reader, env, text, 10);
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
    assert_int_equal(mp_json_next(&reader), expected[i]);
    if (i == 2) assert_int_equal(reader.integer, 1);
    if (i == 2) assert_int_equal(reader.token_position, 7);
    if (i == 5) assert_true(reader.number == 2.5);
    if (i == 7) assert_int_equal(reader.depth, 2);
    if (i == 9) assert_memory_equal(reader.string.data, "c", reader.string.length);
    if (i == 10) assert_memory_equal(reader.string.data, "x\ny", reader.string.length);
  }
  assert_int_equal(reader.position, text.length);
  mp_json_reader_free(&reader);
  mp_env_release(env);
}

static void strings_are_borrowed_unless_escaped(void **state) {
  (void)state;
  static const struct {
    const char *json, *expected;
    size_t length;
    bool borrowed;
  } cases[] = {
      {"\"\"", "", 0, true},
      {"\"plain text of some length\"", "plain text of some length", 25, true},
      {"\"\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\x7F\"", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80\x7F", 10, true},
      {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", 8, false},
      {"\"a\\u0000b\"", "a\0b", 3, false},
      {"\"\\u00e4\\u20AC\\uD83D\\uDE00.\"", "\xC3\xA4\xE2\x82\xAC\xF0\x9F\x98\x80.", 10, false},
      {"\"\\uFFFF\\uDBFF\\uDFFF\"", "\xEF\xBF\xBF\xF4\x8F\xBF\xBF", 7, false},
  };
  mp_env *env = mp_env_new(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mp_json_reader reader;
    moonpad_string text = exact_copy(moonpad_text(cases[i].json));
    mp_json_reader_init(&reader, env, text, 10);
    assert_int_equal(mp_json_next(&reader), MP_JSON_STRING);
    assert_int_equal(reader.string.length, cases[i].length);
    assert_memory_equal(reader.string.data, cases[i].expected, cases[i].length);
    assert_int_equal(reader.string.data == text.data + 1, cases[i].borrowed);
    assert_int_equal(mp_json_next(&reader), MP_JSON_END);
    mp_json_reader_free(&reader);
    free((void *)(uintptr_t)text.data);
  }
  mp_env_release(env);
}

static void what_is_not_json_is_refused_with_its_byte(void **state) {
  (void)state;
  static const struct {
    const char *json;
    size_t position;
    const char *problem;
  } cases[] = {
      {"", 0, "the text ends too early"},
      {"  ", 2, "the text ends too early"},
      {"\xEF\xBB\xBF{}", 0, "a byte order mark"},
      {"{} x", 3, "text after the end of the value"},
      {"1 2", 2, "text after the end of the value"},
      {"nul", 0, "a value was expected"},
      {"nulL", 0, "a value was expected"},
      {"True", 0, "a value was expected"},
      {"NaN", 0, "a value was expected"},
      {"Infinity", 0, "a value was expected"},
      {"-Infinity", 1, "a digit was expected"},
      {"+1", 0, "a value was expected"},
      {".5", 0, "a value was expected"},
      {"'a'", 0, "a value was expected"},
      {"01", 0, "a number with a leading zero"},
      {"-012", 1, "a number with a leading zero"},
      {"-", 1, "the text ends too early"},
      {"1.", 2, "the text ends too early"},
      {"[1.]", 3, "a digit was expected"},
      {"[1.e5]", 3, "a digit was expected"},
      {"[1e]", 3, "a digit was expected"},
      {"[1e+]", 4, "a digit was expected"},
      {"0x10", 1, "text after the end of the value"},
      {"[1e400]", 1, "a number too large for a double"},
      {"-1e400", 0, "a number too large for a double"},
      {"[", 1, "the text ends too early"},
      {"[1", 2, "the text ends too early"},
      {"[1,", 3, "the text ends too early"},
      {"[1,]", 3, "a value was expected"},
      {"[,1]", 1, "a value was expected"},
      {"[1 2]", 3, "',' or ']' was expected"},
      {"[1}", 2, "',' or ']' was expected"},
      {"[1,2],", 5, "text after the end of the value"},
      {"{", 1, "the text ends too early"},
      {"{a:1}", 1, "a key in double quotes was expected"},
      {"{1:1}", 1, "a key in double quotes was expected"},
      {"{,}", 1, "a key in double quotes was expected"},
      {"{\"a\"}", 4, "':' was expected"},
      {"{\"a\" 1}", 5, "':' was expected"},
      {"{\"a\":}", 5, "a value was expected"},
      {"{\"a\":1,}", 7, "a key in double quotes was expected"},
      {"{\"a\":1]", 6, "',' or '}' was expected"},
      {"{\"a\":1 \"b\":2}", 7, "',' or '}' was expected"},
      {"\"abc", 4, "the text ends inside a string"},
      {"\"abc\\", 5, "the text ends inside a string"},
      {"\"a\nb\"", 2, "a control character in a string"},
      {"\"12345678\x1f\"", 9, "a control character in a string"},
      {"\"\\n\x01\"", 3, "a control character in a string"},
      {"\"\\x41\"", 1, "an escape that JSON does not have"},
      {"\"\\u12\"", 1, "\\u without four hexadecimal digits"},
      {"\"\\u12G4\"", 1, "\\u without four hexadecimal digits"},
      {"\"a\\uD800\"", 2, "a surrogate without its other half"},
      {"\"\\uDC00\"", 1, "a surrogate without its other half"},
      {"\"\\uD800\\uD800\"", 1, "a surrogate without its other half"},
      {"\"\\uD800\\n1234\"", 1, "a surrogate without its other half"},
      {"\"\\uD83D\\u", 1, "a surrogate without its other half"},
      {"\"a\x80\"", 2, "invalid UTF-8"},
      {"\"\xC0\xAF\"", 1, "invalid UTF-8"},
      {"\"\xED\xA0\x80\"", 1, "invalid UTF-8"},
      {"\"\xF4\x90\x80\x80\"", 1, "invalid UTF-8"},
      {"\"abcdefgh\xC3\"", 9, "invalid UTF-8"},
      {"\"\\n\xFF\"", 3, "invalid UTF-8"},
      {"{\"\xFF\":1}", 2, "invalid UTF-8"},
      {"\xC3\xA4", 0, "a value was expected"},
  };
  mp_env *env = mp_env_new(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    moonpad_string text = exact_copy(moonpad_text(cases[i].json));
    mp_json_reader reader;
    mp_json_token token;
    mp_json_reader_init(&reader, env, text, 10);
    do token = mp_json_next(&reader);
    while (token != MP_JSON_ERROR && token != MP_JSON_END);
    if (token != MP_JSON_ERROR) fail_msg("%s was accepted", cases[i].json);
    if (strcmp(reader.problem, cases[i].problem) != 0 || reader.position != cases[i].position) {
      fail_msg("%s: %s at byte %zu", cases[i].json, reader.problem, reader.position);
    }
    assert_int_equal(mp_json_next(&reader), MP_JSON_ERROR);
    assert_string_equal(reader.problem, cases[i].problem);
    moonpad_error error;
    char expected[200];
    snprintf(expected, sizeof expected, "here: %s at byte %zu", cases[i].problem, cases[i].position + 1);
    assert_int_equal(mp_json_fail(&reader, "here", &error), MOONPAD_INVALID_ARGUMENT);
    assert_string_equal(error.message, expected);
    mp_json_reader_free(&reader);
    free((void *)(uintptr_t)text.data);
  }
  mp_env_release(env);
}

static void depth_is_limited(void **state) {
  (void)state;
  static char text[2 * MP_JSON_DEPTH_LIMIT + 2];
  mp_env *env = mp_env_new(NULL);
  for (unsigned limit = 1; limit <= MP_JSON_DEPTH_LIMIT; limit += 127) {
    for (unsigned depth = limit; depth <= limit + 1; depth++) {
      memset(text, '[', depth);
      memset(text + depth, ']', depth);
      mp_buffer out;
      moonpad_type type;
      moonpad_error error;
      mp_buffer_init(&out, env);
      moonpad_status status =
          mp_json_compact(env, (moonpad_string){text, 2 * (size_t)depth}, limit, "deep", &out, &type, &error);
      assert_int_equal(status, depth > limit ? MOONPAD_INVALID_ARGUMENT : MOONPAD_OK);
      char expected[60];
      snprintf(expected, sizeof expected, "deep: nested deeper than %u at byte %u", limit, limit + 1);
      if (depth > limit) assert_string_equal(error.message, expected);
      mp_buffer_free(&out);
    }
  }
  mp_json_reader reader;
  memset(text, '[', sizeof text);
  mp_json_reader_init(&reader, env, (moonpad_string){text, sizeof text}, 100000);
  assert_false(mp_json_skip(&reader, mp_json_next(&reader)));
  assert_int_equal(reader.position, MP_JSON_DEPTH_LIMIT);
  mp_json_reader_free(&reader);
  mp_env_release(env);
}

static void skipping_goes_to_the_end_of_a_value(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  mp_json_reader reader;
  mp_json_reader_init(&reader, env, moonpad_text("[{\"a\":[1,{}],\"b\":\"]\"},7,[[]],[1 2]]"), 10);
  assert_int_equal(mp_json_next(&reader), MP_JSON_ARRAY_BEGIN);
  assert_true(mp_json_skip(&reader, mp_json_next(&reader)));
  assert_int_equal(reader.position, 21);
  assert_true(mp_json_skip(&reader, mp_json_next(&reader)));
  assert_int_equal(reader.integer, 7);
  assert_true(mp_json_skip(&reader, mp_json_next(&reader)));
  assert_int_equal(reader.depth, 1);
  assert_false(mp_json_skip(&reader, mp_json_next(&reader)));
  assert_false(mp_json_skip(&reader, MP_JSON_ERROR));
  mp_json_reader_free(&reader);
  mp_env_release(env);
}

/* ---- trusted text ---- */

static void the_end_of_own_values_is_found(void **state) {
  (void)state;
  static const char text[] = "[\"a\\\\\",\"\\\"]\\\\\\\"\",-1.5e+20,true,false,null,{\"]\":[{}]},12]";
  static const size_t ends[] = {6, 16, 25, 30, 36, 41, 52, 55};
  size_t position = 1;
  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    position = mp_json_trusted_end(text, position);
    assert_int_equal(position, ends[i]);
    position++;
  }
  assert_int_equal(mp_json_trusted_end(text, 0), sizeof text - 1);
}

static void check_text(moonpad_string text, const char *expected) {
  assert_int_equal(text.length, strlen(expected));
  assert_memory_equal(text.data, expected, text.length);
}

static void own_arrays_and_objects_are_walked(void **state) {
  (void)state;
  static const char array[] = "[\"a\\\\\",\"\\\"]\",-1.5e+20,true,false,null,{\"]\":[{}]},[],12]";
  static const char *const expected_items[] = {"\"a\\\\\"", "\"\\\"]\"",    "-1.5e+20", "true", "false",
                                               "null",      "{\"]\":[{}]}", "[]",       "12"};
  mp_items items = mp_items_of(moonpad_text(array));
  moonpad_string item, key, value;
  size_t count = 0;
  for (; mp_items_next(&items, &item); count++) check_text(item, expected_items[count]);
  assert_int_equal(count, sizeof expected_items / sizeof expected_items[0]);
  static const char object[] = "{\"\":1,\"}\\\"\":{\"a\":{}},\"c\":\"}\"}";
  static const char *const expected_members[] = {"", "1", "}\\\"", "{\"a\":{}}", "c", "\"}\""};
  mp_members members = mp_members_of(moonpad_text(object));
  for (count = 0; mp_members_next(&members, &key, &value); count++) {
    check_text(key, expected_members[2 * count]);
    check_text(value, expected_members[2 * count + 1]);
  }
  assert_int_equal(count, 3);
  mp_items none = mp_items_of(moonpad_text("[]"));
  assert_false(mp_items_next(&none, &item));
  assert_false(mp_items_next(&none, &item));
  mp_members nothing = mp_members_of(moonpad_text("{}"));
  assert_false(mp_members_next(&nothing, &key, &value));
}

static void own_values_tell_their_shape(void **state) {
  (void)state;
  static const struct {
    const char *json;
    unsigned depth;
    size_t tables;
  } cases[] = {{"12", 0, 0},
               {"\"[[\"", 0, 0},
               {"[]", 1, 1},
               {"[[],{\"[{\":\"[\\\"[\"}]", 2, 3},
               {"{\"a\":[[{}]],\"b\":[]}", 4, 5}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mp_json_shape shape = mp_json_trusted_shape(moonpad_text(cases[i].json));
    assert_int_equal(shape.depth, cases[i].depth);
    assert_int_equal(shape.tables, cases[i].tables);
  }
}

static uint32_t random_character(void) {
  static const uint32_t limits[] = {0x20, 0x80, 0x80, 0x80, 0x80, 0x800, 0xD800, 0x110000};
  uint32_t code = (uint32_t)(next_random() % limits[next_random() % 8]);
  return code >= 0xD800 && code < 0xE000 ? '"' : code;
}

static void strings_are_written_and_taken_back(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  for (int round = 0; round < 20000; round++) {
    mp_buffer characters, literal, back;
    mp_buffer_init(&characters, env);
    mp_buffer_init(&literal, env);
    mp_buffer_init(&back, env);
    for (uint64_t left = next_random() % 40; left > 0; left--) {
      char bytes[4];
      mp_buffer_add(&characters, bytes, mp_utf8_encode(random_character(), bytes));
    }
    mp_json_write_string(&literal, mp_buffer_text(&characters));
    mp_json_trusted_string(mp_buffer_text(&literal), &back);
    assert_int_equal(back.length, characters.length);
    if (back.length != 0) assert_memory_equal(back.data, characters.data, back.length);
    assert_int_equal(mp_json_trusted_end(literal.data, 0), literal.length);
    mp_buffer_free(&characters);
    mp_buffer_free(&literal);
    mp_buffer_free(&back);
  }
  mp_buffer out;
  mp_buffer_init(&out, env);
  mp_json_write_string(&out, (moonpad_string){NULL, 0});
  mp_json_trusted_string(moonpad_text("\"\\ud83d\\ude00\\/\\u00E4\""), &out);
  assert_int_equal(out.length, 9);
  assert_memory_equal(out.data, "\"\"\xF0\x9F\x98\x80/\xC3\xA4", 9);
  mp_buffer_free(&out);
  mp_env_release(env);
}

/* ---- paths ---- */

static void check_path(const char *text, const char *expected, const char *rest) {
  mp_path path = {moonpad_text(text)};
  mp_path_step step;
  char shown[200];
  size_t used = 0;
  shown[0] = '\0';
  for (bool first = true; mp_path_next(&path, first, &step); first = false) {
    int length = step.is_index
                     ? snprintf(shown + used, sizeof shown - used, "<%lld>", (long long)step.index)
                     : snprintf(shown + used, sizeof shown - used, "(%.*s)", (int)step.name.length, step.name.data);
    used += (size_t)length;
  }
  assert_string_equal(shown, expected);
  assert_int_equal(path.rest.length, strlen(rest));
  assert_memory_equal(path.rest.data, rest, strlen(rest) + 1);
}

static void texts_of_the_host_become_strings(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t length;
    const char *json;
  } cases[] = {{"", 0, "\"\""},
               {NULL, 0, "\"\""},
               {"plain", 5, "\"plain\""},
               {"say \"x\\y\"", 9, "\"say \\\"x\\\\y\\\"\""},
               {"a\0b\n\x1f\x7f/", 7, "\"a\\u0000b\\n\\u001f\x7f/\""},
               {"\xC3\xA9\xF0\x9F\x8C\x99\xE2\x80\xA8", 9, "\"\xC3\xA9\xF0\x9F\x8C\x99\xE2\x80\xA8\""}};
  moonpad_error error;
  moonpad_buffer json;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    moonpad_string text = {cases[i].text, cases[i].length};
    assert_int_equal(moonpad_json_string(text, &json, &error), MOONPAD_OK);
    assert_int_equal(json.length, strlen(cases[i].json));
    assert_string_equal(json.data, cases[i].json);
    moonpad_buffer_free(&json);
  }
  static const struct {
    const char *text;
    size_t length, byte;
  } wrong[] = {
      {"\xFF", 1, 1}, {"abc\xC3", 4, 4}, {"a\0\xED\xA0\x80", 5, 3}, {"\xC0\x80", 2, 1}, {"\xC3\xA9\x80", 3, 3}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    char message[64];
    snprintf(message, sizeof message, "text: invalid UTF-8 at byte %zu", wrong[i].byte);
    moonpad_string text = exact_copy((moonpad_string){wrong[i].text, wrong[i].length});
    assert_int_equal(moonpad_json_string(text, &json, &error), MOONPAD_INVALID_ARGUMENT);
    assert_string_equal(error.message, message);
    assert_null(json.data);
    assert_int_equal(moonpad_json_string(text, &json, NULL), MOONPAD_INVALID_ARGUMENT);
    free((void *)text.data);
  }
}

static void paths_are_taken_step_by_step(void **state) {
  (void)state;
  check_path("", "", "");
  check_path("a", "(a)", "");
  check_path("address.city", "(address)(city)", "");
  check_path("items[2].name", "(items)<2>(name)", "");
  check_path("a[1][20]", "(a)<1><20>", "");
  check_path("[3].x", "<3>(x)", "");
  check_path("a b.\xC3\xA4.1", "(a b)(\xC3\xA4)(1)", "");
  check_path("a[999999999999999999]", "(a)<999999999999999999>", "");
  check_path("a[1234567890123456789]", "(a)", "[1234567890123456789]");
  check_path("a[0]", "(a)", "[0]");
  check_path("a[-1]", "(a)", "[-1]");
  check_path("a[]", "(a)", "[]");
  check_path("a[1", "(a)", "[1");
  check_path("a[x]", "(a)", "[x]");
  check_path("a[1]b", "(a)<1>", "b");
  check_path("a.", "(a)", ".");
  check_path("a..b", "(a)", "..b");
  check_path("a.[1]", "(a)", ".[1]");
  check_path(".a", "", ".a");
  check_path("]", "", "]");
  check_path("a]", "", "a]");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_reader_gives_one_token_after_another),
      cmocka_unit_test(strings_are_borrowed_unless_escaped),
      cmocka_unit_test(what_is_not_json_is_refused_with_its_byte),
      cmocka_unit_test(depth_is_limited),
      cmocka_unit_test(skipping_goes_to_the_end_of_a_value),
      cmocka_unit_test(the_end_of_own_values_is_found),
      cmocka_unit_test(own_arrays_and_objects_are_walked),
      cmocka_unit_test(own_values_tell_their_shape),
      cmocka_unit_test(strings_are_written_and_taken_back),
      cmocka_unit_test(texts_of_the_host_become_strings),
      cmocka_unit_test(paths_are_taken_step_by_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
