/*
** Lists of keys and values (core/entries.h), in which deltas and states are handed on: order,
** twins, huge lists, and memory that ends. Callers see them as JSON only.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/entries.h"
#include "counted_env.h"

#define T(text) moonpad_text(text)
#define MANY    500

typedef struct scene {
  counting_allocator counter;
  mp_env *env;
  mp_entries list;
} scene;

static int set_up(void **state) {
  scene *s = calloc(1, sizeof *s);
  s->env = counted_env(&s->counter);
  mp_entries_init(&s->list, s->env);
  *state = s;
  return 0;
}

/* Nothing is left, whatever the test did. */
static int tear_down(void **state) {
  scene *s = *state;
  mp_entries_free(&s->list);
  mp_env_release(s->env);
  size_t alive = s->counter.alive;
  free(s);
  return (int)alive;
}

static mp_entry *add_integer(scene *s, moonpad_string key, int64_t integer) {
  mp_entry *entry = mp_entries_add_owned(&s->list, mp_key_new(s->env, key));
  if (entry == NULL) return NULL;
  entry->value = mp_value_new_integer(s->env, integer);
  entry->revision = integer;
  return entry;
}

static mp_entry *add_null(scene *s, moonpad_string key) {
  mp_entry *entry = mp_entries_add_owned(&s->list, mp_key_new(s->env, key));
  assert_non_null(entry);
  entry->value = mp_value_new_null(s->env);
  return entry;
}

/* Not inline: gcc takes the branches for longer texts than a literal for a mistake. */
__attribute__((noinline)) static uint64_t hash_of(moonpad_string key) {
  return mp_hash(key.data, key.length);
}

static mp_entry *find(scene *s, moonpad_string key) {
  return mp_entries_find(&s->list, key, hash_of(key));
}

static moonpad_string numbered(char text[24], int number) {
  snprintf(text, 24, "user:key %d", number);
  return T(text);
}

static void check_removed(scene *s, const char *json) {
  mp_buffer out;
  mp_buffer_init(&out, s->env);
  mp_entries_write_removed(&s->list, &out);
  assert_false(out.failed);
  assert_int_equal(out.length, strlen(json));
  assert_memory_equal(out.data, json, out.length);
  mp_buffer_free(&out);
}

static void check_written(scene *s, mp_scope strip, const char *json) {
  mp_buffer out;
  mp_buffer_init(&out, s->env);
  mp_entries_write(&s->list, strip, &out);
  assert_false(out.failed);
  assert_int_equal(out.length, strlen(json));
  assert_memory_equal(out.data, json, out.length);
  mp_buffer_free(&out);
}

static void an_entry_knows_its_scope_and_has_no_value_at_first(void **state) {
  scene *s = *state;
  moonpad_string key = T("app:n");
  mp_entry *entry = mp_entries_add(&s->list, key, hash_of(key));
  assert_non_null(entry);
  assert_ptr_equal(entry->key.data, key.data); /* borrowed */
  assert_null(entry->owned);
  assert_null(entry->value);
  assert_int_equal(entry->revision, 0);
  assert_int_equal(entry->scope, MP_SCOPE_APP);
  assert_ptr_equal(find(s, T("app:n")), entry);
  assert_null(find(s, T("n")));
  assert_null(find(s, T("")));
}

static void keys_are_sorted_by_their_bytes(void **state) {
  scene *s = *state;
  const moonpad_string sorted[] = {{NULL, 0},   {"\0", 1}, {"\0\0", 2}, {"A", 1},      {"a", 1},         {"a\0", 2},
                                   {"a\0b", 3}, {"aa", 2}, {"b", 1},    T("\xC3\xA4"), T("\xE2\x82\xAC")};
  const size_t count = sizeof sorted / sizeof *sorted;
  for (size_t turn = 0; turn < count; turn++) {
    mp_entries_clear(&s->list);
    for (size_t i = 0; i < count; i++) {
      size_t from = (i * 7 + turn) % count;
      assert_non_null(add_integer(s, sorted[from], (int64_t)from));
    }
    assert_non_null(find(s, T("aa")));
    mp_entries_sort(&s->list);
    for (size_t i = 0; i < count; i++) {
      const mp_entry *entry = &s->list.items[i];
      assert_int_equal(entry->key.length, sorted[i].length);
      assert_int_equal(entry->value->as.as.integer, i);
      assert_ptr_equal(find(s, sorted[i]), entry);
    }
  }
}

static void a_list_that_is_sorted_already_stays_as_it_is(void **state) {
  scene *s = *state;
  mp_entries_sort(&s->list);
  assert_int_equal(s->list.count, 0);
  add_integer(s, T("a"), 1);
  mp_entries_sort(&s->list);
  add_integer(s, T("b"), 2);
  mp_entries_sort(&s->list);
  check_written(s, MP_SCOPE_SESSION, "{\"a\":1,\"b\":2}");
}

static void it_is_written_as_an_object_without_what_has_no_value(void **state) {
  scene *s = *state;
  check_written(s, MP_SCOPE_SESSION, "{}");
  mp_entries_add_owned(&s->list, mp_key_new(s->env, T("gone first")));
  check_written(s, MP_SCOPE_SESSION, "{}");
  add_null(s, T("app:\"{\n"));
  mp_entries_add_owned(&s->list, mp_key_new(s->env, T("gone")));
  mp_entry *entry = mp_entries_add_owned(&s->list, mp_key_new(s->env, T("")));
  entry->value = mp_value_new_json(s->env, MOONPAD_OBJECT, T("{}"));
  add_integer(s, T("user:app:x"), 3);
  check_written(s, MP_SCOPE_SESSION, "{\"app:\\\"{\\n\":null,\"\":{},\"user:app:x\":3}");
  check_written(s, MP_SCOPE_USER, "{\"app:\\\"{\\n\":null,\"\":{},\"app:x\":3}");
  check_written(s, MP_SCOPE_APP, "{\"\\\"{\\n\":null,\"\":{},\"user:app:x\":3}");
}

static void keys_without_a_value_are_written_as_a_list(void **state) {
  scene *s = *state;
  check_removed(s, "[]");
  add_integer(s, T("a"), 1);
  check_removed(s, "[]");
  mp_entries_add_owned(&s->list, mp_key_new(s->env, T("user:\"")));
  check_removed(s, "[\"user:\\\"\"]");
  add_integer(s, T("b"), 1);
  mp_entries_add_owned(&s->list, mp_key_new(s->env, T("")));
  check_removed(s, "[\"user:\\\"\",\"\"]");
}

static void members_are_put_behind_what_an_object_holds(void **state) {
  scene *s = *state;
  mp_buffer out;
  mp_buffer_init(&out, s->env);
  mp_value *value = mp_value_new_json(s->env, MOONPAD_OBJECT, T("{}"));
  mp_buffer_add_literal(&out, "[{");
  mp_value_write_member(&out, T("{"), value);
  mp_value_write_member(&out, T("b{"), NULL);
  mp_buffer_add_literal(&out, ",\"c\":{");
  mp_value_write_member(&out, T("d"), value);
  assert_int_equal(out.length, strlen("[{\"{\":{},\"b{\":null,\"c\":{\"d\":{}"));
  assert_memory_equal(out.data, "[{\"{\":{},\"b{\":null,\"c\":{\"d\":{}", out.length);
  mp_value_release(s->env, value);
  mp_buffer_free(&out);
}

static void what_a_scope_takes_is_counted_with_its_keys(void **state) {
  scene *s = *state;
  assert_int_equal(mp_entries_bytes(&s->list, MP_SCOPE_SESSION), 0);
  add_integer(s, T("abc"), 12);
  add_integer(s, T("user:abc"), 12);
  mp_entries_add_owned(&s->list, mp_key_new(s->env, T("gone")));
  mp_value *value = mp_value_new_integer(s->env, 12);
  size_t bytes = mp_value_size(value);
  mp_value_release(s->env, value);
  assert_int_equal(mp_entries_bytes(&s->list, MP_SCOPE_SESSION), 3 + bytes);
  assert_int_equal(mp_entries_bytes(&s->list, MP_SCOPE_USER), 8 + bytes);
  assert_int_equal(mp_entries_bytes(&s->list, MP_SCOPE_APP), 0);
}

/* It is searched at every length: first it is looked through, then found by hash. */
static void it_grows_and_finds_what_it_holds(void **state) {
  scene *s = *state;
  char text[24];
  for (int i = 0; i < MANY; i++) {
    assert_null(find(s, numbered(text, i)));
    mp_entry *entry = add_integer(s, numbered(text, i), i);
    assert_non_null(entry);
    assert_ptr_equal(find(s, numbered(text, i)), entry);
    for (int j = i; j >= 0; j -= 1 + j / 3) {
      assert_int_equal(find(s, numbered(text, j))->value->as.as.integer, j);
    }
  }
  assert_int_equal(s->list.count, MANY);
  mp_entries_clear(&s->list);
  assert_int_equal(s->list.count, 0);
  assert_null(find(s, numbered(text, 3)));
  add_integer(s, numbered(text, 3), 33);
  assert_int_equal(find(s, numbered(text, 3))->value->as.as.integer, 33);
}

static void of_equal_keys_the_first_is_found(void **state) {
  scene *s = *state;
  char text[24];
  add_integer(s, T("twice"), 1);
  add_integer(s, T("twice"), 2);
  assert_int_equal(find(s, T("twice"))->revision, 1);
  for (int i = 0; i < MANY; i++) add_integer(s, numbered(text, i), i);
  assert_int_equal(find(s, T("twice"))->revision, 1);
  add_integer(s, T("twice"), 3);
  assert_int_equal(find(s, T("twice"))->revision, 1);
}

/* Two that differ in one byte only, under the same hash. */
static void keys_with_one_hash_are_told_apart(void **state) {
  scene *s = *state;
  static char keys[40][2];
  for (size_t i = 0; i < 40; i++) {
    keys[i][0] = 'k';
    keys[i][1] = (char)('!' + i);
    moonpad_string key = {keys[i], 2};
    assert_null(mp_entries_find(&s->list, key, 7));
    mp_entries_add(&s->list, key, 7);
    for (size_t j = 0; j <= i; j++) {
      assert_ptr_equal(mp_entries_find(&s->list, (moonpad_string){keys[j], 2}, 7), &s->list.items[j]);
    }
  }
  assert_null(mp_entries_find(&s->list, (moonpad_string){"k", 1}, 7));
}

/* What an entry holds is the list's, and a key stays its own where it is shared. */
static void it_holds_a_reference_of_its_keys_and_values(void **state) {
  scene *s = *state;
  mp_key *key = mp_key_new(s->env, T("shared"));
  mp_value *value = mp_value_new_string(s->env, T("text"));
  mp_entry *entry = mp_entries_add_owned(&s->list, mp_key_retain(key));
  entry->value = mp_value_retain(value);
  assert_int_equal(key->references, 2);
  assert_int_equal(value->references, 2);
  assert_ptr_equal(entry->key.data, key->bytes);
  assert_true(entry->hash == key->hash);
  mp_entries_clear(&s->list);
  assert_int_equal(key->references, 1);
  assert_int_equal(value->references, 1);
  mp_key_release(s->env, key);
  mp_value_release(s->env, value);
}

/* A list that could not grow is as it was, and the key that it was given is released. */
static void without_memory_it_stays_as_it_was(void **state) {
  scene *s = *state;
  char text[24];
  size_t refused = 0;
  assert_null(mp_entries_add_owned(&s->list, NULL));
  for (int i = 0; i < 100; i++) {
    mp_key *key = mp_key_new(s->env, numbered(text, i));
    size_t count = s->list.count, alive = s->counter.alive;
    counting_arm_lasting(&s->counter, 1);
    mp_entry *entry = mp_entries_add_owned(&s->list, key);
    counting_disarm(&s->counter);
    if (entry == NULL) {
      refused++;
      assert_int_equal(s->list.count, count);
      assert_int_equal(s->counter.alive, alive - 1);
      assert_non_null(entry = add_integer(s, numbered(text, i), i));
    }
    entry->revision = i;
  }
  assert_in_range(refused, 1, 8);
  for (int i = 0; i < 100; i++) assert_int_equal(find(s, numbered(text, i))->revision, i);
}

/* Without memory for looking up by hash all are looked through. */
static void it_finds_without_memory(void **state) {
  scene *s = *state;
  char text[24];
  for (int i = 0; i < 100; i++) add_integer(s, numbered(text, i), i);
  counting_arm_lasting(&s->counter, 1);
  for (int i = 0; i < 100; i++) assert_int_equal(find(s, numbered(text, i))->revision, i);
  assert_null(find(s, T("none")));
  assert_true(counting_has_failed(&s->counter));
  counting_disarm(&s->counter);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(an_entry_knows_its_scope_and_has_no_value_at_first),
      TEST(keys_are_sorted_by_their_bytes),
      TEST(a_list_that_is_sorted_already_stays_as_it_is),
      TEST(it_is_written_as_an_object_without_what_has_no_value),
      TEST(keys_without_a_value_are_written_as_a_list),
      TEST(members_are_put_behind_what_an_object_holds),
      TEST(what_a_scope_takes_is_counted_with_its_keys),
      TEST(it_grows_and_finds_what_it_holds),
      TEST(of_equal_keys_the_first_is_found),
      TEST(keys_with_one_hash_are_told_apart),
      TEST(it_holds_a_reference_of_its_keys_and_values),
      TEST(without_memory_it_stays_as_it_was),
      TEST(it_finds_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
