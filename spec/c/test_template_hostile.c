/*
** Templates that are damaged or made to harm, huge ones, and memory that fails; the last one where
** the text is rendered behind another one, as no public call does (core/template.h).
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/template.h"
#include "counted_env.h"
#include "growth.h"
#include "template_state.h"

static void render_bytes(const char *source, size_t length, const char *expected, size_t expected_length) {
  template_state state = example_state();
  moonpad_buffer result;
  moonpad_error error;
  moonpad_string text = {source, length};
  moonpad_status status = moonpad_render(text, NULL, look_up_in_state, &state, &result, &error);
  if (status != MOONPAD_OK) fail_msg("%s", error.message);
  assert_int_equal(result.length, expected_length);
  assert_memory_equal(result.data, expected, expected_length);
  moonpad_buffer_free(&result);
}

static void any_bytes_pass_through_as_text(void **unused) {
  (void)unused;
  static const char zeros[] = "a\0{x}\0{x\0}<x>\0", zeros_expected[] = "a\0V\0{x\0}V\0";
  static const char invalid[] = "\xFF{x}\xC3{x\xFF}{\xC3}<\xE6\x9C>\x80{x}\xF0\x9F",
                    invalid_expected[] = "\xFFV\xC3{x\xFF}{\xC3}<\xE6\x9C>\x80V\xF0\x9F";
  render_bytes(zeros, sizeof zeros - 1, zeros_expected, sizeof zeros_expected - 1);
  render_bytes(invalid, sizeof invalid - 1, invalid_expected, sizeof invalid_expected - 1);
  render_bytes(NULL, 0, "", 0);
  render_bytes("", 0, "", 0);
  char every[256];
  for (size_t i = 0; i < sizeof every; i++) every[i] = (char)i;
  render_bytes(every, sizeof every, every, sizeof every);
}

/*
** Whatever is cut off, the part before it is unfinished text and nothing behind it is read (the
** copies have no byte to spare).
*/
static void every_prefix_of_a_template_renders(void **unused) {
  (void)unused;
  static const char whole[] = "{ user:name? } <artifact.notes.txt?> \\{x} {profile.address.city} {cart[1].n} {{x}} "
                              "<x></x> {artifact.a/b c.txt?} {\xE6\x9C\x88}";
  for (size_t length = 0; length < sizeof whole; length++) {
    template_state state = example_state();
    moonpad_buffer result;
    moonpad_error error;
    char *copy = malloc(length + 1);
    assert_non_null(copy);
    char *part = copy + 1; /* so that it ends where its block ends, the empty one too */
    memcpy(part, whole, length);
    moonpad_string text = {part, length};
    moonpad_status status = moonpad_render(text, NULL, look_up_in_state, &state, &result, &error);
    if (status != MOONPAD_OK) fail_msg("%zu bytes: %s", length, error.message);
    moonpad_buffer_free(&result);
    free(copy);
  }
}

static char *repeat(const char *pattern, size_t length) {
  size_t size = strlen(pattern);
  char *text = malloc(length);
  assert_non_null(text);
  for (size_t i = 0; i < length; i++) text[i] = pattern[i % size];
  return text;
}

#define MEGABYTE ((size_t)1 << 20)

/* The begin of a text that comes out as it is. */
static void render_part(void *text, size_t length) {
  render_bytes(text, length, text, length);
}

static void hostile_megabytes_take_linear_time(void **unused) {
  (void)unused;
  static const char *const patterns[] = {
      "{",
      "<",
      "}",
      ">",
      "{<",
      "\\{",
      "\\<",
      "{ ",
      "{\n",
      "{a",
      "<a",
      "{a.",
      "<a.b",
      "{artifact.",
      "<artifact.",
      "{artifact.<",
      "</",
      "</a",
      "<a></",
      "{artifact.<artifact.",
      "{user:",
      "{a[1]",
      "{a[1",
      "{{a}}",
      "<a></a>",
      "<nobody>",
      "{nobody.a}",
      "<artifact.{",
      "{a?",
      "{{{{{{a}}",
      "\xE6\x9C\x88",
      "{\xE6\x9C\x88",
      " ",
      "word ",
  };
  for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
    size_t size = strlen(patterns[i]), few = MEGABYTE / 32 / size * size;
    char *text = repeat(patterns[i], few * 32);
    expect_proportional(patterns[i], render_part, text, few, 32);
    free(text);
  }
}

/* Each tag has another name, and each is closed. */
static void render_tags(void *unused, size_t tags) {
  (void)unused;
  char *text = malloc(tags * 24);
  assert_non_null(text);
  size_t length = 0;
  for (size_t i = 0; i < tags; i++) length += (size_t)sprintf(text + length, "<tag%zu></tag%zu>", i, tags - 1 - i);
  render_bytes(text, length, text, length);
  free(text);
}

static void many_different_tags_take_linear_time(void **unused) {
  (void)unused;
  expect_proportional("tags", render_tags, NULL, 1250, 32);
}

static void a_megabyte_of_placeholders(void **unused) {
  (void)unused;
  char *text = repeat("{x}", MEGABYTE / 3 * 3), *expected = repeat("V", MEGABYTE / 3);
  render_bytes(text, MEGABYTE / 3 * 3, expected, MEGABYTE / 3);
  free(text);
  free(expected);
}

static void one_enormous_placeholder(void **unused) {
  (void)unused;
  char *name = repeat("a", MEGABYTE), *steps = repeat(".a", MEGABYTE);
  name[0] = '{';
  name[MEGABYTE - 2] = '?';
  name[MEGABYTE - 1] = '}';
  render_bytes(name, MEGABYTE, "", 0);
  memcpy(steps, "{profile", 8);
  steps[MEGABYTE - 2] = '?';
  steps[MEGABYTE - 1] = '}';
  render_bytes(steps, MEGABYTE, "", 0);
  steps[MEGABYTE - 2] = 'a';
  template_state state = example_state();
  moonpad_string text = {steps, MEGABYTE};
  moonpad_buffer result;
  moonpad_error error;
  assert_int_equal(moonpad_render(text, NULL, look_up_in_state, &state, &result, &error), MOONPAD_TEMPLATE);
  assert_non_null(strstr(error.message, "\"profile\" has no member \"a\""));
  free(name);
  free(steps);
}

/* What stands in the buffer before is kept, whatever becomes of the text behind it. */
static moonpad_status render_behind(mp_env *env, moonpad_error *error) {
  static const char source[] = "<b>{profile.address.city}</b> <tag></tag> {d} {cart[1].sku} {x} <x>";
  static const char expected[] = "<b>Z\xC3\xBCrich</b> <tag></tag> {\"a\":[1,null,\"q\"]} a\"1 V V";
  template_state state = example_state();
  mp_buffer out;
  mp_buffer_init(&out, env);
  mp_buffer_add_literal(&out, "kept");
  bool prepared = !out.failed;
  moonpad_status status = MOONPAD_NO_MEMORY;
  if (prepared) status = mp_template_render(env, moonpad_text(source), NULL, look_up_in_state, &state, &out, error);
  if (prepared) assert_memory_equal(out.data, "kept", 4);
  if (status == MOONPAD_OK) {
    assert_int_equal(out.length, 4 + sizeof expected - 1);
    assert_memory_equal(out.data + 4, expected, sizeof expected - 1);
  } else if (prepared) {
    assert_int_equal(out.length, 4);
  }
  mp_buffer_free(&out);
  return status;
}

static void failing_memory_is_reported_and_leaks_nothing(void **unused) {
  (void)unused;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  size_t alive = counter.alive, fail_at = 1;
  moonpad_status status = MOONPAD_NO_MEMORY;
  for (; status != MOONPAD_OK; fail_at++) {
    moonpad_error error;
    counting_arm(&counter, fail_at);
    status = render_behind(env, &error);
    counting_disarm(&counter);
    if (status != MOONPAD_OK) assert_int_equal(status, MOONPAD_NO_MEMORY);
    assert_int_equal(counter.alive, alive);
    assert_true(fail_at < 1000);
  }
  assert_true(fail_at > 4);
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_bytes_pass_through_as_text),
      cmocka_unit_test(every_prefix_of_a_template_renders),
      cmocka_unit_test(hostile_megabytes_take_linear_time),
      cmocka_unit_test(many_different_tags_take_linear_time),
      cmocka_unit_test(a_megabyte_of_placeholders),
      cmocka_unit_test(one_enormous_placeholder),
      cmocka_unit_test(failing_memory_is_reported_and_leaks_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
