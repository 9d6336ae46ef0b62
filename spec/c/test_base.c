/*
** The base: env and its hooks, buffers, errors, keys and maps, UUIDs. All else is built on them; a
** caller of moonpad.h meets neither maps nor keys, and UUIDs one at a time.
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

#include "base/buffer.h"
#include "base/error.h"
#include "base/map.h"
#include "base/uuid.h"
#include "counted_env.h"
#include "repeatable_random.h"

/* ---- env ---- */

/* What the hooks give, and what they were given. */
typedef struct hook_values {
  double time;
  unsigned char seed;
  moonpad_status logged;
} hook_values;

static double host_clock(void *context) {
  return ((hook_values *)context)->time;
}

static void host_random(void *context, unsigned char bytes[16]) {
  memset(bytes, ((hook_values *)context)->seed++, 16);
}

static void host_log(void *context, moonpad_status status, const char *message) {
  assert_string_equal(message, "a warning");
  ((hook_values *)context)->logged = status;
}

static void hooks_of_the_host_are_used(void **state) {
  (void)state;
  hook_values me = {1234.5, 7, MOONPAD_OK};
  moonpad_options options;
  memset(&options, 0, sizeof options);
  options.clock = host_clock;
  options.random = host_random;
  options.log = host_log;
  options.clock_context = options.random_context = options.log_context = &me;
  mp_env *env = mp_env_new(&options);
  memset(&options, 0xFF, sizeof options); /* they were copied */
  double now = 0;
  assert_int_equal(mp_now(env, &now, NULL), MOONPAD_OK);
  assert_true(now == 1234.5);
  unsigned char bytes[16];
  mp_random(env, bytes);
  mp_random(env, bytes);
  assert_int_equal(bytes[15], 8);
  mp_log(env, MOONPAD_STORAGE, "a warning");
  assert_int_equal(me.logged, MOONPAD_STORAGE);
  mp_env_release(env);
}

static void an_env_is_counted_and_freed_by_its_own_allocator(void **state) {
  (void)state;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  unsigned char bytes[16];
  mp_random(env, bytes);
  mp_log(env, MOONPAD_OK, "nobody hears this");
  assert_ptr_equal(mp_env_retain(env), env);
  mp_env_release(env);
  void *block = mp_allocate(env, 0);
  assert_non_null(block);
  unsigned char *zeros = mp_allocate_zeroed(env, 100);
  for (size_t i = 0; i < 100; i++) assert_int_equal(zeros[i], 0);
  assert_int_equal(counter.alive, 3);
  mp_release(env, block);
  mp_release(env, zeros);
  mp_release(env, NULL);
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
  mp_env_release(NULL);
}

static void reserve_doubles_and_leaves_the_array_on_failure(void **state) {
  (void)state;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  void *items = NULL;
  size_t capacity = 0;
  assert_true(mp_reserve(env, &items, &capacity, 8, 1));
  assert_int_equal(capacity, 8);
  assert_true(mp_reserve(env, &items, &capacity, 8, 9));
  assert_int_equal(capacity, 16);
  void *before = items;
  counting_arm(&counter, 1);
  assert_false(mp_reserve(env, &items, &capacity, 8, 17));
  assert_false(mp_reserve(env, &items, &capacity, 8, SIZE_MAX));
  assert_false(mp_reserve(env, &items, &capacity, 1000, SIZE_MAX / 100));
  assert_ptr_equal(items, before);
  assert_int_equal(capacity, 16);
  mp_release(env, items);
  mp_env_release(env);
}

/* ---- buffer ---- */

static void a_buffer_grows_and_is_handed_over(void **state) {
  (void)state;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  mp_buffer buffer;
  moonpad_buffer result;
  mp_buffer_init(&buffer, env);
  for (int i = 0; i < 1000; i++) mp_buffer_add_literal(&buffer, "abc");
  mp_buffer_add_char(&buffer, '!');
  mp_buffer_add(&buffer, NULL, 0);
  assert_int_equal(mp_buffer_hand_over(&buffer, &result, NULL), MOONPAD_OK);
  assert_int_equal(result.length, 3001);
  assert_string_equal(result.data + 2997, "abc!");
  assert_null(buffer.data);
  mp_env_release(env); /* the host may keep the bytes longer than the service */
  moonpad_buffer_free(&result);
  moonpad_buffer_free(&result);
  moonpad_buffer_free(NULL);
  assert_int_equal(counter.alive, 0);
}

static void a_failed_buffer_stays_failed_until_cleared(void **state) {
  (void)state;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  mp_buffer buffer;
  moonpad_buffer result = {0};
  moonpad_error error;
  mp_buffer_init(&buffer, env);
  mp_buffer_add_literal(&buffer, "kept");
  assert_false(mp_buffer_room(&buffer, SIZE_MAX));
  mp_buffer_add_char(&buffer, 'x');
  assert_true(buffer.failed);
  assert_int_equal(mp_buffer_hand_over(&buffer, &result, &error), MOONPAD_NO_MEMORY);
  assert_int_equal(error.code, MOONPAD_NO_MEMORY);
  assert_null(result.data);
  mp_buffer_clear(&buffer);
  mp_buffer_add_char(&buffer, 'y');
  assert_int_equal(buffer.length, 1);
  assert_int_equal(buffer.data[0], 'y');
  counting_arm(&counter, 1);
  mp_buffer_room(&buffer, 1000);
  assert_true(buffer.failed);
  mp_buffer_free(&buffer);
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
}

/* ---- errors ---- */

static void messages_are_cut_at_a_character(void **state) {
  (void)state;
  moonpad_error error;
  char text[1100];
  for (size_t begin = 0; begin < 4; begin++) {
    memset(text, 'a', begin);
    size_t used = begin;
    while (used + 4 < sizeof text) used += (size_t)snprintf(text + used, 5, "%s", "\xF0\x9F\x98\x80");
    assert_int_equal(mp_fail(&error, MOONPAD_LIMIT, "%s", text), MOONPAD_LIMIT);
    size_t length = strlen(error.message);
    assert_true(length > 1010 && length <= 1015);
    assert_int_equal((length - begin) % 4, 0);
    assert_memory_equal(error.message, text, length);
  }
  assert_int_equal(mp_fail(NULL, MOONPAD_BUSY, "%d", 1), MOONPAD_BUSY);
  mp_fail(&error, MOONPAD_STORAGE, "inner");
  mp_fail(&error, MOONPAD_CORRUPT, "outer: %s", error.message);
  assert_string_equal(error.message, "outer: inner");
  assert_int_equal(error.code, MOONPAD_CORRUPT);
  assert_string_equal(moonpad_status_name(MOONPAD_ALREADY_EXISTS), "already_exists");
  assert_string_equal(moonpad_status_name(MOONPAD_UNSUPPORTED), "unsupported");
}

static void quotes_show_what_cannot_be_seen(void **state) {
  (void)state;
  assert_string_equal(mp_quote(moonpad_text("a key")).text, "\"a key\"");
  assert_string_equal(mp_quote((moonpad_string){NULL, 0}).text, "\"\"");
  assert_string_equal(mp_quote((moonpad_string){"a\0\n\xFF\"\\\xC3\xA4\x7F", 9}).text,
                      "\"a\\x00\\x0A\\xFF\\\"\\\\\xC3\xA4\\x7F\"");
  char text[61];
  memset(text, '\1', sizeof text);
  assert_int_equal(strlen(mp_quote((moonpad_string){text, 60}).text), 242);
  assert_int_equal(strlen(mp_quote((moonpad_string){text, 61}).text), 245);
  memset(text, 'a', sizeof text);
  memcpy(text + 59, "\xC3\xA4", 2);
  mp_quoted cut = mp_quote((moonpad_string){text, 61});
  assert_string_equal(cut.text + 1 + 59, "...\"");
}

/* ---- map ---- */

static void key_of(uint64_t number, char out[32], moonpad_string *text) {
  int length = snprintf(out, 32, "%.*s%llu", (int)(number % 17), "user:abcdefghijklmno", (unsigned long long)number);
  *text = (moonpad_string){out, (size_t)length};
}

enum { KEYS = 500 };

static void check_map(const mp_map *map, void *const expected[KEYS]) {
  size_t count = 0, position = 0;
  for (uint64_t k = 0; k < KEYS; k++) {
    char area[32];
    moonpad_string text;
    key_of(k, area, &text);
    assert_ptr_equal(mp_map_get(map, text), expected[k]);
    count += expected[k] != NULL;
  }
  assert_int_equal(map->count, count);
  for (const mp_map_slot *slot = mp_map_next(map, &position); slot != NULL; slot = mp_map_next(map, &position)) {
    assert_ptr_equal(mp_map_get(map, mp_key_text(slot->key)), slot->value);
    count--;
  }
  assert_int_equal(count, 0);
}

static void a_map_does_as_a_plain_array_would(void **state) {
  (void)state;
  static char things[1000];
  static void *expected[KEYS];
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  mp_map map;
  mp_map_init(&map, env);
  assert_null(mp_map_get(&map, moonpad_text("a")));
  assert_null(mp_map_remove(&map, moonpad_text("a")));
  for (int round = 0; round < 100000; round++) {
    uint64_t number = next_random() % (round / 10000 % 2 == 0 ? KEYS : 50);
    char area[32];
    moonpad_string text;
    key_of(number, area, &text);
    if (next_random() % 2 == 0) {
      mp_key *key = mp_key_new(env, text);
      expected[number] = &things[next_random() % sizeof things];
      assert_true(mp_map_put(&map, key, expected[number]));
      mp_key_release(env, key);
    } else {
      assert_ptr_equal(mp_map_remove(&map, text), expected[number]);
      expected[number] = NULL;
    }
    if (round % 1000 == 0) check_map(&map, expected);
  }
  check_map(&map, expected);
  mp_map_free(&map);
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
}

static void reserved_insertions_cannot_fail(void **state) {
  (void)state;
  counting_allocator counter;
  mp_env *env = counted_env(&counter);
  mp_key *keys[100];
  mp_map map;
  mp_map_init(&map, env);
  for (uint64_t i = 0; i < 100; i++) {
    char area[32];
    moonpad_string text;
    key_of(i, area, &text);
    keys[i] = mp_key_new(env, text);
  }
  counting_arm(&counter, 1);
  assert_false(mp_map_put(&map, keys[0], &map));
  assert_int_equal(map.count, 0);
  assert_true(mp_map_reserve(&map, 100));
  counting_arm(&counter, 1);
  for (size_t i = 0; i < 100; i++) assert_true(mp_map_put(&map, keys[i], &keys[i]));
  assert_false(mp_map_reserve(&map, 1000));
  assert_false(mp_map_reserve(&map, SIZE_MAX));
  for (size_t i = 0; i < 100; i++) {
    assert_ptr_equal(mp_map_get(&map, mp_key_text(keys[i])), &keys[i]);
    mp_key_release(env, keys[i]);
  }
  mp_map_free(&map);
  mp_env_release(env);
  assert_int_equal(counter.alive, 0);
}

static void keys_may_hold_any_bytes(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  mp_map map;
  int things[3];
  mp_map_init(&map, env);
  moonpad_string texts[] = {{NULL, 0}, {"\0", 1}, {"\0\0", 2}};
  for (size_t i = 0; i < 3; i++) {
    mp_key *key = mp_key_new(env, texts[i]);
    assert_true(mp_map_put(&map, key, &things[i]));
    mp_key_release(env, key);
  }
  for (size_t i = 0; i < 3; i++) assert_ptr_equal(mp_map_get(&map, texts[i]), &things[i]);
  assert_int_equal(map.count, 3);
  mp_map_free(&map);
  mp_env_release(env);
  assert_true(mp_text_compare(moonpad_text("a"), moonpad_text("ab")) < 0);
  assert_true(mp_text_compare(moonpad_text("b"), moonpad_text("ab")) > 0);
  assert_true(mp_text_compare(moonpad_text("\xC3"), moonpad_text("z")) > 0);
  assert_int_equal(mp_text_compare((moonpad_string){NULL, 0}, moonpad_text("")), 0);
}

/* A hash that lets similar keys collide would make every map slow. */
static void similar_keys_hash_apart(void **state) {
  (void)state;
  enum { SLOTS = 1 << 16 };
  static unsigned char used[SLOTS];
  size_t worst = 0;
  for (int i = 0; i < SLOTS; i++) {
    char area[40];
    int length = snprintf(area, sizeof area, "session:%d:%s", i, i % 2 == 0 ? "" : "with a much longer tail");
    unsigned char *slot = &used[mp_hash(area, (size_t)length) % SLOTS];
    if (++*slot > worst) worst = *slot;
  }
  assert_in_range(worst, 2, 12); /* at random, about 8 */
}

/* ---- UUIDs ---- */

static void check_uuid(const char id[MP_UUID_BYTES], char version) {
  for (size_t i = 0; i < MP_UUID_BYTES; i++) {
    if (i == 8 || i == 13 || i == 18 || i == 23) {
      assert_int_equal(id[i], '-');
    } else {
      assert_true((id[i] >= '0' && id[i] <= '9') || (id[i] >= 'a' && id[i] <= 'f'));
    }
  }
  assert_int_equal(id[14], version);
  assert_non_null(strchr("89ab", id[19]));
}

static int compare_ids(const void *a, const void *b) {
  return memcmp(a, b, MP_UUID_BYTES);
}

static void uuids_have_their_form_and_differ(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  static char ids[COUNT][MP_UUID_BYTES];
  mp_env *env = mp_env_new(NULL);
  for (size_t i = 0; i < COUNT; i++) {
    if (i % 2 == 0) {
      mp_uuid4(env, ids[i]);
    } else {
      mp_uuid7(env, 1758000000.123, ids[i]);
    }
    check_uuid(ids[i], i % 2 == 0 ? '4' : '7');
  }
  qsort(ids, COUNT, MP_UUID_BYTES, compare_ids);
  for (size_t i = 1; i < COUNT; i++) assert_true(memcmp(ids[i - 1], ids[i], MP_UUID_BYTES) != 0);
  mp_env_release(env);
}

static void uuid7_begins_with_the_time(void **state) {
  (void)state;
  mp_env *env = mp_env_new(NULL);
  char id[MP_UUID_BYTES], later[MP_UUID_BYTES];
  mp_uuid7(env, 1645557742.0, id); /* the example of RFC 9562 */
  assert_memory_equal(id, "017f22e2-79b0-7", 15);
  mp_uuid7(env, 1645557742.002, later);
  assert_true(memcmp(id, later, MP_UUID_BYTES) < 0);
  mp_uuid7(env, -5.0, id);
  assert_memory_equal(id, "00000000-0000-7", 15);
  mp_uuid7(env, (double)NAN, id);
  assert_memory_equal(id, "00000000-0000-7", 15);
  mp_uuid7(env, 1e300, id);
  assert_memory_equal(id, "ffffffff-ffff-7", 15);
  mp_env_release(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hooks_of_the_host_are_used),
      cmocka_unit_test(an_env_is_counted_and_freed_by_its_own_allocator),
      cmocka_unit_test(reserve_doubles_and_leaves_the_array_on_failure),
      cmocka_unit_test(a_buffer_grows_and_is_handed_over),
      cmocka_unit_test(a_failed_buffer_stays_failed_until_cleared),
      cmocka_unit_test(messages_are_cut_at_a_character),
      cmocka_unit_test(quotes_show_what_cannot_be_seen),
      cmocka_unit_test(a_map_does_as_a_plain_array_would),
      cmocka_unit_test(reserved_insertions_cannot_fail),
      cmocka_unit_test(keys_may_hold_any_bytes),
      cmocka_unit_test(similar_keys_hash_apart),
      cmocka_unit_test(uuids_have_their_form_and_differ),
      cmocka_unit_test(uuid7_begins_with_the_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
