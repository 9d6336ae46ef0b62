/*
** JSON that is checked and made compact in one pass (core/json_compact.h): what comes out to the
** byte, and each error with its byte, for texts that no public call takes as they are.
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
#include "base/number.h"
#include "base/utf8.h"
#include "core/json_compact.h"
#include "core/json_lex.h"
#include "core/json_scan.h"
#include "core/json_trusted.h"
#include "core/json_write.h"
#include "counted_env.h"
#include "exact_copy.h"
#include "fault_steps.h"
#include "growth.h"

static moonpad_status compact(mp_env *env, moonpad_string text, mp_buffer *out, moonpad_type *type,
                              moonpad_error *error) {
  moonpad_string copy = exact_copy(text);
  moonpad_status status = mp_json_compact(env, copy, MOONPAD_MAX_DEPTH, NULL, out, type, error);
  free((void *)(uintptr_t)copy.data);
  return status;
}

/* ---- the compact form ---- */

static void check_compact(mp_env *env, const char *json, moonpad_type type, const char *expected) {
  mp_buffer out;
  moonpad_type found;
  moonpad_error error;
  mp_buffer_init(&out, env);
  mp_buffer_add_literal(&out, "before,");
  if (compact(env, moonpad_text(json), &out, &found, &error) != MOONPAD_OK) fail_msg("%s: %s", json, error.message);
  mp_buffer_add_char(&out, '\0');
  assert_string_equal(out.data, expected);
  assert_int_equal(found, type);
  mp_buffer_free(&out);
}

static void values_become_compact_and_canonical(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  check_compact(env, " null ", MOONPAD_NULL, "before,null");
  check_compact(env, "false", MOONPAD_BOOLEAN, "before,false");
  check_compact(env, "-0", MOONPAD_INTEGER, "before,0");
  check_compact(env, "-0.0", MOONPAD_FLOAT, "before,-0.0");
  check_compact(env, "1.50", MOONPAD_FLOAT, "before,1.5");
  check_compact(env, "1E2", MOONPAD_FLOAT, "before,100.0");
  check_compact(env, "9223372036854775807", MOONPAD_INTEGER, "before,9223372036854775807");
  check_compact(env, "9223372036854775808", MOONPAD_FLOAT, "before,9.223372036854776e+18");
  check_compact(env, "\"\\u0041\\/\\u001f\\u007f\\ud83d\\ude00\\u000a\"", MOONPAD_STRING,
                "before,\"A/\\u001f\x7f\xF0\x9F\x98\x80\\n\"");
  check_compact(env, "[ ]", MOONPAD_ARRAY, "before,[]");
  check_compact(env, "{ }", MOONPAD_OBJECT, "before,{}");
  check_compact(env, "[ [ ] , { } , [ { \"b\" : \",\" , \"a\" : [ 1 , \"[\" , 2 ] } ] ]", MOONPAD_ARRAY,
                "before,[[],{},[{\"b\":\",\",\"a\":[1,\"[\",2]}]]");
  mp_env_release(env);
}

static void a_key_may_come_once_in_an_object(void **state) {
  (void)state;
  static const struct {
    const char *json, *message;
  } cases[] = {
      {"{\"a\":1,\"a\":2}", "at: duplicate key \"a\" at byte 8"},
      {"{\"a\":1,\"\\u0061\":2}", "at: duplicate key \"a\" at byte 8"},
      {"[{\"\":1, \"\":2}]", "at: duplicate key \"\" at byte 9"},
      {"{\"a\":{\"b\":1},\"b\":{\"a\":{\"x\":1}},\"a\":0}", "at: duplicate key \"a\" at byte 32"},
      {"{\"\\n\":1,\"\\u000A\":2}", "at: duplicate key \"\\x0A\" at byte 9"},
  };
  mp_env *env = mp_env_new(NULL);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mp_buffer out;
    moonpad_type type = MOONPAD_ABSENT;
    moonpad_error error;
    mp_buffer_init(&out, env);
    mp_buffer_add_literal(&out, "kept");
    assert_int_equal(mp_json_compact(env, moonpad_text(cases[i].json), 10, "at", &out, &type, &error),
                     MOONPAD_INVALID_ARGUMENT);
    assert_string_equal(error.message, cases[i].message);
    assert_int_equal(out.length, 4);
    assert_int_equal(type, MOONPAD_ABSENT);
    mp_buffer_free(&out);
  }
  check_compact(env, "{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}],\"A\":{}}", MOONPAD_OBJECT,
                "before,{\"a\":{\"a\":{\"a\":1}},\"b\":[{\"a\":1},{\"a\":1}],\"A\":{}}");
  mp_env_release(env);
}

/*
** An object of `count` keys whose values are objects too, so that the tables of several levels
** take turns.
*/
static void write_big_object(mp_buffer *text, size_t count, size_t repeated) {
  mp_buffer_clear(text);
  mp_buffer_add_char(text, '{');
  for (size_t i = 0; i < count; i++) {
    char area[100];
    int length = snprintf(area, sizeof area, "%s\"key%zu\":{\"key0\":%zu,\"key1\":{}}", i == 0 ? "" : ",", i, i);
    mp_buffer_add(text, area, (size_t)length);
    if (i % 50 != 49) continue;
    text->length -= 1;
    for (size_t k = 2; k < 30; k++) {
      length = snprintf(area, sizeof area, ",\"key%zu\":[]", k);
      mp_buffer_add(text, area, (size_t)length);
    }
    mp_buffer_add_char(text, '}');
  }
  char area[40];
  int length = snprintf(area, sizeof area, ",\"key%zu\":0}", repeated);
  mp_buffer_add(text, area, (size_t)length);
}

static void big_objects_are_checked_too(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  mp_buffer text, out;
  mp_buffer_init(&text, env);
  mp_buffer_init(&out, env);
  static const size_t counts[] = {1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 1000, 5000};
  for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
    moonpad_type type;
    moonpad_error error;
    write_big_object(&text, counts[i], counts[i]);
    mp_buffer_clear(&out);
    assert_int_equal(compact(env, mp_buffer_text(&text), &out, &type, &error), MOONPAD_OK);
    assert_int_equal(out.length, text.length);
    assert_memory_equal(out.data, text.data, out.length);
    for (size_t repeated = 0; repeated < counts[i]; repeated += 1 + counts[i] / 40) {
      write_big_object(&text, counts[i], repeated);
      mp_buffer_clear(&out);
      assert_int_equal(compact(env, mp_buffer_text(&text), &out, &type, &error), MOONPAD_INVALID_ARGUMENT);
      assert_non_null(strstr(error.message, "duplicate key"));
    }
  }
  mp_buffer_free(&text);
  mp_buffer_free(&out);
  mp_env_release(env);
}

/* To write the text takes time that is proportional, so it may be among what is measured. */
static void compact_keys(void *env, size_t count) {
  mp_buffer text, out;
  moonpad_type type;
  mp_buffer_init(&text, env);
  mp_buffer_init(&out, env);
  write_big_object(&text, count, count);
  assert_int_equal(mp_json_compact(env, mp_buffer_text(&text), 10, NULL, &out, &type, NULL), MOONPAD_OK);
  mp_buffer_free(&text);
  mp_buffer_free(&out);
}

static void many_keys_do_not_take_quadratic_time(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  expect_proportional("keys", compact_keys, env, 10000, 20);
  mp_env_release(env);
}

static void a_nul_byte_is_no_end_of_text(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  mp_buffer out;
  moonpad_type type;
  moonpad_error error;
  mp_buffer_init(&out, env);
  assert_int_equal(compact(env, (moonpad_string){"1\0", 2}, &out, &type, &error), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(error.message, "text after the end of the value at byte 2");
  assert_int_equal(compact(env, (moonpad_string){"\"\0\"", 3}, &out, &type, &error), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(error.message, "a control character in a string at byte 2");
  assert_int_equal(compact(env, (moonpad_string){"\"\\\0\"", 4}, &out, &type, &error), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(error.message, "an escape that JSON does not have at byte 2");
  assert_int_equal(out.length, 0);
  mp_buffer_free(&out);
  mp_env_release(env);
}

/* ---- random values ---- */

typedef struct pair {
  mp_buffer canonical; /* as the library writes it */
  mp_buffer loose;     /* the same with white space, escapes, other spellings */
} pair;

static void add_both(pair *both, const char *text) {
  mp_buffer_add_string(&both->canonical, moonpad_text(text));
  mp_buffer_add_string(&both->loose, moonpad_text(text));
}

static void add_blanks(pair *both) {
  while (next_random() % 3 == 0) mp_buffer_add_char(&both->loose, " \n\r\t"[next_random() % 4]);
}

static void add_escaped(mp_buffer *loose, uint32_t code) {
  char area[16];
  int length = code < 0x10000 ? snprintf(area, sizeof area, next_random() % 2 == 0 ? "\\u%04x" : "\\u%04X", code)
                              : snprintf(area, sizeof area, "\\u%04x\\u%04X", 0xD800 + ((code - 0x10000) >> 10),
                                         0xDC00 + ((code - 0x10000) & 0x3FF));
  mp_buffer_add(loose, area, (size_t)length);
}

static uint32_t random_character(void) {
  static const uint32_t limits[] = {0x20, 0x80, 0x80, 0x80, 0x80, 0x800, 0xD800, 0x110000};
  uint32_t code = (uint32_t)(next_random() % limits[next_random() % 8]);
  return code >= 0xD800 && code < 0xE000 ? '"' : code;
}

static void add_random_string(pair *both, const char *prefix) {
  mp_buffer characters;
  mp_buffer_init(&characters, both->canonical.env);
  mp_buffer_add_string(&characters, moonpad_text(prefix));
  mp_buffer_add_char(&both->loose, '"');
  mp_buffer_add_string(&both->loose, moonpad_text(prefix));
  bool escapes = next_random() % 2 == 0;
  for (size_t left = random_size() % 30; left > 0; left--) {
    char bytes[4];
    uint32_t code = random_character();
    size_t length = mp_utf8_encode(code, bytes);
    mp_buffer_add(&characters, bytes, length);
    if (code < 0x20 || code == '"' || code == '\\' || (escapes && next_random() % 4 == 0)) {
      add_escaped(&both->loose, code);
    } else {
      mp_buffer_add(&both->loose, bytes, length);
    }
  }
  mp_buffer_add_char(&both->loose, '"');
  mp_json_write_string(&both->canonical, mp_buffer_text(&characters));
  mp_buffer_free(&characters);
}

static void add_random_number(pair *both) {
  char area[MP_NUMBER_BYTES];
  uint64_t bits = next_random() >> next_random() % 64;
  size_t length;
  double number;
  memcpy(&number, &bits, sizeof number);
  if (next_random() % 2 == 0 || number != number || number - number != 0.0) {
    length = mp_format_integer((int64_t)bits, area);
    mp_buffer_add(&both->loose, area, length);
  } else {
    length = mp_format_float(number, area);
    char longer[400];
    int written = snprintf(longer, sizeof longer, next_random() % 2 == 0 ? "%.17e" : "%.20E", number);
    mp_buffer_add(&both->loose, longer, (size_t)written);
  }
  mp_buffer_add(&both->canonical, area, length);
}

static void add_random_value(pair *both, unsigned depth) {
  static const char *const words[] = {"null", "true", "false", "[]", "{}", "\"\""};
  uint64_t kind = next_random() % (depth < 6 ? 10 : 5);
  add_blanks(both);
  if (kind < 2) {
    add_random_number(both);
  } else if (kind < 4) {
    add_random_string(both, "");
  } else if (kind == 4) {
    add_both(both, words[next_random() % 6]);
  } else {
    bool is_array = kind < 7;
    add_both(both, is_array ? "[" : "{");
    uint64_t count = next_random() % (next_random() % 20 == 0 ? 40 : 5);
    for (uint64_t i = 0; i < count; i++) {
      if (i > 0) add_both(both, ",");
      add_blanks(both);
      char prefix[24]; /* keeps the keys apart */
      snprintf(prefix, sizeof prefix, "%d:", (int)i);
      if (!is_array) add_random_string(both, prefix);
      add_blanks(both);
      if (!is_array) add_both(both, ":");
      add_random_value(both, depth + 1);
    }
    add_both(both, is_array ? "]" : "}");
  }
  add_blanks(both);
}

static void new_pair(pair *both, mp_env *env) {
  mp_buffer_init(&both->canonical, env);
  mp_buffer_init(&both->loose, env);
  add_random_value(both, 0);
}

static void free_pair(pair *both) {
  mp_buffer_free(&both->canonical);
  mp_buffer_free(&both->loose);
}

static void random_values_come_out_canonical(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  fault_seed();
  for (int round = 0; round < fault_rounds(5000); round++) {
    pair both;
    mp_buffer out;
    moonpad_type type;
    moonpad_error error;
    new_pair(&both, env);
    mp_buffer_init(&out, env);
    for (int pass = 0; pass < 2; pass++) {
      moonpad_string text = mp_buffer_text(pass == 0 ? &both.loose : &both.canonical);
      mp_buffer_clear(&out);
      if (compact(env, text, &out, &type, &error) != MOONPAD_OK) {
        fail_msg("%s: %.*s", error.message, (int)text.length, text.data);
      }
      assert_int_equal(out.length, both.canonical.length);
      assert_memory_equal(out.data, both.canonical.data, out.length);
    }
    mp_buffer_free(&out);
    free_pair(&both);
  }
  mp_env_release(env);
}

static void damage(char *text, size_t *length) {
  static const char bytes[] = "{}[]\",:\\u0123456789eE+-. \n\x01\x80\xC3\xED\xF4truefalsn";
  for (uint64_t left = 1 + next_random() % 4; left > 0 && *length > 0; left--) {
    size_t at = random_size() % *length;
    switch (next_random() % 4) {
    case 0:
      memmove(text + at, text + at + 1, *length - at - 1);
      *length -= 1;
      break;
    case 1:
      *length = at;
      break;
    case 2:
      text[at] = (char)next_random();
      break;
    default:
      text[at] = bytes[next_random() % (sizeof bytes - 1)];
      break;
    }
  }
}

/* Whatever is accepted is valid: what comes out is accepted again and does not change. */
static void damaged_text_is_refused_or_canonical(void **state) {
  (void)state;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  size_t accepted = 0, rounds = (size_t)fault_rounds(20000);
  fault_seed();
  for (size_t round = 0; round < rounds; round++) {
    pair both;
    mp_buffer once, twice;
    moonpad_type type;
    moonpad_error error;
    new_pair(&both, env);
    mp_buffer_init(&once, env);
    mp_buffer_init(&twice, env);
    damage(both.loose.data, &both.loose.length);
    if (compact(env, mp_buffer_text(&both.loose), &once, &type, &error) == MOONPAD_OK) {
      accepted++;
      assert_int_equal(compact(env, mp_buffer_text(&once), &twice, &type, &error), MOONPAD_OK);
      assert_int_equal(once.length, twice.length);
      assert_memory_equal(once.data, twice.data, once.length);
      assert_int_equal(mp_utf8_valid_prefix(once.data, once.length), once.length);
      mp_buffer_add_char(&once, ']');
      assert_int_equal(mp_json_trusted_end(once.data, 0), twice.length);
    } else {
      assert_int_equal(error.code, MOONPAD_INVALID_ARGUMENT);
      assert_int_equal(once.length, 0);
    }
    mp_buffer_free(&once);
    mp_buffer_free(&twice);
    free_pair(&both);
    assert_int_equal(counter.alive, 1);
  }
  assert_in_range(accepted, rounds / 200, rounds * 19 / 20);
  mp_env_release(env);
}

/* The text in a block of just its size and a NUL. */
static bool may_be_walked(moonpad_string text) {
  char *copy = malloc(text.length + 1);
  if (text.length != 0) memcpy(copy, text.data, text.length);
  copy[text.length] = '\0';
  bool result = mp_scan_check((moonpad_string){copy, text.length});
  free(copy);
  return result;
}

static void text_of_a_file_is_checked_before_it_is_walked(void **state) {
  (void)state;
  static const char *const good[] = {"0",
                                     "-1.5e+3",
                                     "1E2",
                                     "1e308",
                                     "1e-999",
                                     "100000000000000000000",
                                     "\"\"",
                                     "null",
                                     "[]",
                                     "{}",
                                     "[[],{\"a\":{}}]",
                                     "{\"a\":1,\"a\":2}",
                                     "\"\\u0041\\ud83d\\uDE00\\/\"",
                                     "\"\xC3\xA4 and then more than sixteen bytes\""};
  static const char *const bad[] = {"",
                                    " 1",
                                    "1 ",
                                    "[1, 2]",
                                    "01",
                                    "-",
                                    "1.",
                                    "1e",
                                    "1e400",
                                    "-1e400",
                                    ".5",
                                    "nul",
                                    "[1,]",
                                    "[,1]",
                                    "{\"a\"}",
                                    "{\"a\":}",
                                    "{a:1}",
                                    "{1:1}",
                                    "[1}",
                                    "{\"a\":1]",
                                    "[",
                                    "{\"a\":1,}",
                                    "\"\\u00g0\"",
                                    "\"\\ud800\"",
                                    "\"\\udc00\"",
                                    "\"\\x\"",
                                    "\"\x01\"",
                                    "\"\xFF\"",
                                    "\"",
                                    "\"\\",
                                    "\"\\\"",
                                    "\"\xC3\xA4 and then more than sixteen bytes \xC3\"",
                                    "1,2",
                                    "]"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    if (!may_be_walked(moonpad_text(good[i]))) fail_msg("refused: %s", good[i]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    if (may_be_walked(moonpad_text(bad[i]))) fail_msg("not refused: %s", bad[i]);
  }
  assert_false(may_be_walked((moonpad_string){"\"\0\"", 3}));
  assert_false(may_be_walked((moonpad_string){"[1]\0", 4}));
  char deep[2 * MP_JSON_DEPTH_LIMIT + 2];
  memset(deep, '[', MP_JSON_DEPTH_LIMIT + 1);
  memset(deep + MP_JSON_DEPTH_LIMIT + 1, ']', MP_JSON_DEPTH_LIMIT + 1);
  assert_false(may_be_walked((moonpad_string){deep, sizeof deep}));
  assert_true(may_be_walked((moonpad_string){deep + 1, sizeof deep - 2}));
}

/*
** What passes is JSON for the strict reader too, but for a key that comes twice, and what comes out
** of that passes.
*/
static void damaged_compact_text_is_refused_or_valid(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  size_t accepted = 0, rounds = (size_t)fault_rounds(20000);
  fault_seed();
  for (size_t round = 0; round < rounds; round++) {
    pair both;
    mp_buffer out;
    moonpad_type type;
    moonpad_error error;
    new_pair(&both, env);
    mp_buffer_init(&out, env);
    assert_true(may_be_walked(mp_buffer_text(&both.canonical)));
    damage(both.canonical.data, &both.canonical.length);
    moonpad_status status = compact(env, mp_buffer_text(&both.canonical), &out, &type, &error);
    if (may_be_walked(mp_buffer_text(&both.canonical))) {
      accepted++;
      if (status != MOONPAD_OK) assert_non_null(strstr(error.message, "duplicate key"));
    } else if (status == MOONPAD_OK) {
      mp_buffer_add_char(&both.canonical, '\0');
      assert_non_null(strpbrk(both.canonical.data, " \t\r\n"));
      assert_true(may_be_walked(mp_buffer_text(&out)));
    }
    mp_buffer_free(&out);
    free_pair(&both);
  }
  assert_in_range(accepted, rounds / 200, rounds * 199 / 200);
  mp_env_release(env);
}

static void compacting_survives_lack_of_memory(void **state) {
  (void)state;
  static const char text[] =
      "{ \"a\\n\" : [ 1e17, 1e18, 1e19, \"\\u0001\\u0001\\u0001\\u0001\\u0001\\u0001\" ], \"k1\":1,\"k2\":1,\"k3\":1,"
      "\"k4\":1,\"k5\":1,\"k6\":1,\"k7\":1,\"k8\":1,\"k9\":{\"k1\":1,\"k2\":1},\"k10\":1,\"k11\":1,\"k12\":1,\"k13\":1,"
      "\"k14\":1,\"k15\":1,\"k16\":1,\"k17\":1E2,\"long\":\"\\u0020 a string with escapes that needs more room than "
      "the first that the scratch buffer is given, so that it grows\"}";
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  moonpad_status status = MOONPAD_NO_MEMORY;
  size_t n = 1;
  for (; status != MOONPAD_OK; n++) {
    mp_buffer out;
    moonpad_type type = MOONPAD_ABSENT;
    moonpad_error error = {MOONPAD_OK, ""};
    mp_buffer_init(&out, env);
    counting_arm(&counter, n);
    status = mp_json_compact(env, moonpad_text(text), 10, "where", &out, &type, &error);
    assert_true(status == MOONPAD_OK || status == MOONPAD_NO_MEMORY);
    assert_int_equal(error.code, status);
    assert_int_equal(type, status == MOONPAD_OK ? MOONPAD_OBJECT : MOONPAD_ABSENT);
    if (status != MOONPAD_OK) assert_int_equal(out.length, 0);
    mp_buffer_free(&out);
    assert_int_equal(counter.alive, 1);
  }
  assert_in_range(n, 6, 100);
  mp_env_release(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_nul_byte_is_no_end_of_text),
      cmocka_unit_test(values_become_compact_and_canonical),
      cmocka_unit_test(text_of_a_file_is_checked_before_it_is_walked),
      cmocka_unit_test(damaged_compact_text_is_refused_or_valid),
      cmocka_unit_test(a_key_may_come_once_in_an_object),
      cmocka_unit_test(big_objects_are_checked_too),
      cmocka_unit_test(many_keys_do_not_take_quadratic_time),
      cmocka_unit_test(random_values_come_out_canonical),
      cmocka_unit_test(damaged_text_is_refused_or_canonical),
      cmocka_unit_test(compacting_survives_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
