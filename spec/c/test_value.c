/*
** Scopes of keys (contract 1.1), and counted values (core/value.h): their copies, and memory that
** ends. Callers borrow values, and own none.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "core/scope.h"
#include "core/value.h"
#include "counted_env.h"
#include "service/names.h"

/* ---- scopes ---- */

static void check_scope(const char *key, mp_scope scope, const char *rest) {
  assert_int_equal(mp_scope_of(moonpad_text(key)), scope);
  moonpad_string stripped = mp_scope_strip(scope, moonpad_text(key));
  assert_int_equal(stripped.length, strlen(rest));
  assert_memory_equal(stripped.data, rest, strlen(rest) + 1);
  char room[MP_PREFIXED_BYTES];
  moonpad_string joined = mp_scope_join(scope, stripped, room);
  assert_int_equal(joined.length, strlen(key));
  assert_memory_equal(joined.data, key, joined.length);
}

static void the_prefix_decides_the_scope(void **state) {
  (void)state;
  check_scope("", MP_SCOPE_SESSION, "");
  check_scope("topic", MP_SCOPE_SESSION, "topic");
  check_scope("user:name", MP_SCOPE_USER, "name");
  check_scope("user:", MP_SCOPE_USER, "");
  check_scope("app:", MP_SCOPE_APP, "");
  check_scope("app:a:b", MP_SCOPE_APP, "a:b");
  check_scope("temp:x", MP_SCOPE_TEMP, "x");
  check_scope("User:name", MP_SCOPE_SESSION, "User:name");
  check_scope("foo:bar", MP_SCOPE_SESSION, "foo:bar");
  check_scope(" user:x", MP_SCOPE_SESSION, " user:x");
  check_scope("user", MP_SCOPE_SESSION, "user");
  check_scope("app", MP_SCOPE_SESSION, "app");
  check_scope("temp", MP_SCOPE_SESSION, "temp");
}

static void the_longest_key_takes_a_prefix(void **state) {
  (void)state;
  static const mp_scope scopes[] = {MP_SCOPE_SESSION, MP_SCOPE_USER, MP_SCOPE_APP, MP_SCOPE_TEMP};
  char text[MOONPAD_MAX_KEY_BYTES], room[MP_PREFIXED_BYTES];
  memset(text, 'k', sizeof text);
  for (size_t i = 0; i < 4; i++) {
    moonpad_string prefix = mp_scope_prefix(scopes[i]);
    moonpad_string joined = mp_scope_join(scopes[i], (moonpad_string){text, sizeof text}, room);
    assert_int_equal(joined.length, prefix.length + sizeof text);
    assert_memory_equal(joined.data, prefix.data, prefix.length);
    assert_memory_equal(joined.data + prefix.length, text, sizeof text);
    assert_int_equal(mp_scope_join(scopes[i], (moonpad_string){NULL, 0}, room).length, prefix.length);
  }
}

static void keys_and_names_are_checked(void **state) {
  (void)state;
  moonpad_error error;
  char text[1025];
  memset(text, 'k', sizeof text);
  assert_int_equal(mp_check_key((moonpad_string){NULL, 0}, &error), MOONPAD_OK);
  assert_int_equal(mp_check_key((moonpad_string){"a\0b", 3}, &error), MOONPAD_OK);
  assert_int_equal(mp_check_key((moonpad_string){text, 1024}, &error), MOONPAD_OK);
  assert_int_equal(mp_check_key((moonpad_string){text, 1025}, &error), MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(mp_check_key(moonpad_text("ab\xC0"), &error), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(error.message, "state key \"ab\\xC0\": invalid UTF-8 at byte 3");
  assert_int_equal(mp_check_name("appName", (moonpad_string){text, 255}, &error), MOONPAD_OK);
  assert_int_equal(mp_check_name("appName", (moonpad_string){text, 256}, &error), MOONPAD_INVALID_ARGUMENT);
  assert_string_equal(error.message, "appName: 256 bytes, at most 255 are allowed");
  assert_int_equal(mp_check_name("userId", (moonpad_string){NULL, 0}, &error), MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(mp_check_name("userId", (moonpad_string){"a\0b", 3}, &error), MOONPAD_INVALID_ARGUMENT);
  assert_int_equal(mp_check_name("userId", moonpad_text("\xED\xA0\x80"), &error), MOONPAD_INVALID_ARGUMENT);
  moonpad_session_name given = {moonpad_text("a"), moonpad_text("u"), moonpad_text(" \t\r\n\v\f a b\n ")}, name;
  assert_int_equal(mp_check_session_name(&given, &name, &error), MOONPAD_OK);
  assert_int_equal(name.session_id.length, 3);
  assert_memory_equal(name.session_id.data, "a b", 3);
  given.session_id = moonpad_text(" \t ");
  assert_int_equal(mp_check_session_name(&given, &name, &error), MOONPAD_INVALID_ARGUMENT);
  given.session_id = (moonpad_string){NULL, 0};
  assert_int_equal(mp_check_session_name(&given, &name, &error), MOONPAD_INVALID_ARGUMENT);
}

/* ---- values ---- */

static void check_value(mp_env *env, mp_value *value, moonpad_type type, const char *json) {
  mp_buffer out;
  mp_buffer_init(&out, env);
  assert_non_null(value);
  assert_int_equal(value->as.type, type);
  mp_value_write(&out, value);
  assert_int_equal(out.length, strlen(json));
  assert_memory_equal(out.data, json, out.length);
  mp_buffer_free(&out);
  mp_value_release(env, value);
}

static void values_write_themselves_and_read_back(void **state) {
  (void)state;
  static const struct {
    moonpad_type type;
    const char *json;
  } cases[] = {
      {MOONPAD_NULL, "null"},
      {MOONPAD_BOOLEAN, "true"},
      {MOONPAD_BOOLEAN, "false"},
      {MOONPAD_INTEGER, "9223372036854775807"},
      {MOONPAD_INTEGER, "-9223372036854775808"},
      {MOONPAD_FLOAT, "1.0"},
      {MOONPAD_FLOAT, "-0.0"},
      {MOONPAD_FLOAT, "1e+300"},
      {MOONPAD_STRING, "\"\""},
      {MOONPAD_STRING, "\"plain\""},
      {MOONPAD_STRING, "\"a\\u0000\\n\\\"\\\\\xC3\xA4\""},
      {MOONPAD_ARRAY, "[]"},
      {MOONPAD_OBJECT, "{}"},
      {MOONPAD_OBJECT, "{\"b\":[1,1.0,null],\"a\":\"\"}"},
  };
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    mp_value *value;
    moonpad_string json = moonpad_text(cases[i].json);
    check_value(env, mp_value_from_trusted_json(env, json), cases[i].type, cases[i].json);
    assert_int_equal(mp_value_parse(env, json, NULL, &value, NULL), MOONPAD_OK);
    assert_ptr_equal(mp_value_retain(value), value);
    check_value(env, value, cases[i].type, cases[i].json);
    assert_true(mp_value_size(value) <= json.length);
    moonpad_value borrowed = value->as;
    mp_value *copy;
    assert_int_equal(mp_value_copy_in(env, &borrowed, NULL, &copy, NULL), MOONPAD_OK);
    mp_value_release(env, value);
    check_value(env, copy, cases[i].type, cases[i].json);
  }
  mp_value_release(env, NULL);
  assert_null(mp_value_retain(NULL));
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
}

static void check_refused(mp_env *env, moonpad_value given, const char *message) {
  mp_value *value = (mp_value *)env;
  moonpad_error error;
  assert_int_equal(mp_value_copy_in(env, &given, "state[\"k\"]", &value, &error), MOONPAD_INVALID_ARGUMENT);
  assert_null(value);
  assert_string_equal(error.message, message);
  assert_int_equal(mp_value_copy_in(env, &given, NULL, &value, NULL), MOONPAD_INVALID_ARGUMENT);
}

static void what_a_caller_gives_is_checked(void **state) {
  (void)state;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  moonpad_value absent = moonpad_null_value();
  absent.type = MOONPAD_ABSENT;
  check_refused(env, absent, "state[\"k\"]: there is no value; to delete a key, remove it");
  check_refused(env, moonpad_float((double)NAN), "state[\"k\"]: NaN and infinities cannot be stored");
  check_refused(env, moonpad_float((double)-INFINITY), "state[\"k\"]: NaN and infinities cannot be stored");
  check_refused(env, moonpad_string_value(moonpad_text("ok\xFF")), "state[\"k\"]: invalid UTF-8 at byte 3");
  check_refused(env, moonpad_json(moonpad_text("{\"a\":1,}")),
                "state[\"k\"]: a key in double quotes was expected at byte 8");
  check_refused(env, moonpad_json(moonpad_text(" 1 ")),
                "state[\"k\"]: the JSON text is neither an array nor an object; give scalars as such");
  check_refused(env, moonpad_json((moonpad_string){NULL, 0}), "state[\"k\"]: the text ends too early at byte 1");
  mp_value *value;
  moonpad_value array = moonpad_json(moonpad_text(" [ 1 , 1E2 ] "));
  assert_int_equal(mp_value_copy_in(env, &array, NULL, &value, NULL), MOONPAD_OK);
  check_value(env, value, MOONPAD_ARRAY, "[1,100.0]");
  moonpad_value empty = moonpad_string_value((moonpad_string){NULL, 0});
  assert_int_equal(mp_value_copy_in(env, &empty, NULL, &value, NULL), MOONPAD_OK);
  check_value(env, value, MOONPAD_STRING, "\"\"");
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
}

/* Lets each allocation fail in turn until the value can be made. */
static void making_values_survives_lack_of_memory(void **state) {
  (void)state;
  static const char *const texts[] = {
      "null", "12", "1.5", "\"plain\"", "\"with\\nescape\"", " { \"k\\u0041\" : [ 1 ] } "};
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    mp_value *value = NULL;
    moonpad_status status = MOONPAD_NO_MEMORY;
    for (size_t n = 1; status != MOONPAD_OK; n++) {
      moonpad_error error = {MOONPAD_OK, ""};
      counting_arm(&counter, n);
      status = mp_value_parse(env, moonpad_text(texts[i]), "where", &value, &error);
      if (status == MOONPAD_OK) break;
      assert_int_equal(status, MOONPAD_NO_MEMORY);
      assert_int_equal(error.code, MOONPAD_NO_MEMORY);
      assert_null(value);
      assert_int_equal(counter.alive, 1);
      assert_true(n < 100);
    }
    assert_true(counter.fail_at > 1);
    mp_value_release(env, value);
  }
  counting_arm(&counter, 1);
  assert_null(mp_value_new_string(env, moonpad_text("x")));
  counting_arm(&counter, 1);
  moonpad_value integer = moonpad_integer(1);
  mp_value *value;
  assert_int_equal(mp_value_copy_in(env, &integer, NULL, &value, NULL), MOONPAD_NO_MEMORY);
  counting_disarm(&counter);
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
  moonpad_options options;
  memset(&options, 0, sizeof options);
  options.allocator = &counter.hooks;
  counting_arm(&counter, 1);
  assert_null(mp_env_new(&options));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_longest_key_takes_a_prefix), cmocka_unit_test(the_prefix_decides_the_scope),
      cmocka_unit_test(keys_and_names_are_checked),     cmocka_unit_test(values_write_themselves_and_read_back),
      cmocka_unit_test(what_a_caller_gives_is_checked), cmocka_unit_test(making_values_survives_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
