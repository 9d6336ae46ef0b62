/* What a word is, and which memories are the best (agent_stores/words.h, ranking.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "agent_stores/ranking.h"
#include "agent_stores/words.h"

static mp_env *env;

static int set_up(void **state) {
  (void)state;
  env = mp_env_new(NULL);
  return env == NULL;
}

static int tear_down(void **state) {
  (void)state;
  mp_env_release(env);
  return 0;
}

/* ---- words ---- */

/* The words, each with its position: "tea@0 milk@1 ". */
static void expect_words(moonpad_string text, bool sorted, const char *expected) {
  char found[512] = "";
  size_t at = 0;
  mp_tokenizer *tokenizer;
  mp_word_list list;
  moonpad_error error;
  mp_word_list_init(&list, env);
  assert_int_equal(mp_tokenizer_new(env, &tokenizer, &error), MOONPAD_OK);
  for (int twice = 0; twice < 2; twice++) assert_int_equal(mp_tokenize(tokenizer, text, &list, &error), MOONPAD_OK);
  if (sorted) mp_sort_words(&list);
  for (size_t i = 0; i < mp_word_count(&list); i++) {
    const mp_word *word = &mp_words(&list)[i];
    at += (size_t)snprintf(found + at, sizeof found - at, "%.*s@%u ", (int)word->length, word->bytes, word->position);
  }
  mp_word_list_free(&list);
  mp_tokenizer_free(tokenizer);
  assert_string_equal(found, expected);
}

static void test_words_lose_case_accents_and_endings(void **state) {
  (void)state;
  expect_words(moonpad_text("Running dogs, in a CAF\xC3\x89!"), false, "run@0 dog@1 in@2 a@3 cafe@4 ");
  expect_words(moonpad_text(""), false, "");
  expect_words((moonpad_string){NULL, 0}, true, "");
  expect_words(moonpad_text(" -- \xE2\x80\x94 ?!"), false, "");
  expect_words((moonpad_string){"a\0b", 3}, false, "a@0 b@1 ");
  expect_words(moonpad_text("\xE8\x8C\xB6 tea"), false, "\xE8\x8C\xB6@0 tea@1 ");
}

static void test_sorted_words_keep_their_places(void **state) {
  (void)state;
  expect_words(moonpad_text("b a ab b a a"), true, "a@1 a@4 a@5 ab@2 b@0 b@3 ");
}

/* Two words that differ beyond what is kept of them are two words. */
static void test_long_words_are_cut(void **state) {
  (void)state;
  char text[1002];
  mp_tokenizer *tokenizer;
  mp_word_list list;
  moonpad_error error;
  memset(text, 'x', sizeof text);
  text[500] = ' ';
  text[1001] = 'y';
  mp_word_list_init(&list, env);
  assert_int_equal(mp_tokenizer_new(env, &tokenizer, &error), MOONPAD_OK);
  assert_int_equal(mp_tokenize(tokenizer, (moonpad_string){text, sizeof text}, &list, &error), MOONPAD_OK);
  assert_int_equal(mp_word_count(&list), 2);
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(mp_words(&list)[i].length, MP_LONGEST_WORD);
    assert_memory_equal(mp_words(&list)[i].bytes, text, 200);
  }
  assert_false(mp_is_same_word(&mp_words(&list)[0], &mp_words(&list)[1]));
  assert_int_equal(mp_tokenize(tokenizer, (moonpad_string){text, MP_LONGEST_WORD}, &list, &error), MOONPAD_OK);
  assert_int_equal(mp_words(&list)[0].length, MP_LONGEST_WORD);
  assert_memory_equal(mp_words(&list)[0].bytes, text, MP_LONGEST_WORD);
  mp_word_list_free(&list);
  mp_tokenizer_free(tokenizer);
}

/* ---- ranking ---- */

static void expect_best(const mp_ranking *ranking, int64_t memories, int64_t limit, const char *expected) {
  char found[128] = "";
  size_t length = 0;
  mp_buffer ids;
  mp_buffer_init(&ids, env);
  assert_true(mp_ranking_best(ranking, memories, limit, &ids));
  for (size_t at = 0; at < ids.length; at += sizeof(int64_t)) {
    int64_t id;
    memcpy(&id, ids.data + at, sizeof id);
    length += (size_t)snprintf(found + length, sizeof found - length, "%lld ", (long long)id);
  }
  mp_buffer_free(&ids);
  assert_string_equal(found, expected);
}

static void add(mp_ranking *ranking, int64_t id, uint32_t words, uint32_t first, uint32_t second) {
  const uint32_t times[] = {first, second};
  mp_ranking_add(ranking, id, words, times);
}

static void test_the_best_have_more_and_rarer_words(void **state) {
  (void)state;
  mp_ranking ranking;
  mp_ranking_init(&ranking, env, 2);
  expect_best(&ranking, 100, 10, "");
  add(&ranking, 1, 10, 1, 0);
  add(&ranking, 2, 10, 2, 0);
  add(&ranking, 3, 10, 0, 1);
  add(&ranking, 4, 10, 1, 1);
  add(&ranking, 5, 1000, 1, 1);
  add(&ranking, 6, 10, 0, 0); /* it is not among them */
  add(&ranking, 7, 10, 1, 0);
  /* The second phrase is rarer; of equals the newer one is first; long ones say less. */
  expect_best(&ranking, 100, 10, "4 3 2 7 1 5 ");
  expect_best(&ranking, 100, 2, "4 3 ");
  expect_best(&ranking, 100, 0, "");
  mp_ranking_clear(&ranking);
  add(&ranking, 9, 1, 1, 0);
  expect_best(&ranking, 1, 10, "9 ");
  mp_ranking_free(&ranking);
}

/* What all of them have tells little, but more than nothing. */
static void test_what_all_have_counts_little(void **state) {
  (void)state;
  mp_ranking ranking;
  mp_ranking_init(&ranking, env, 2);
  add(&ranking, 1, 5, 3, 0);
  add(&ranking, 2, 5, 1, 1);
  add(&ranking, 3, 5, 1, 0);
  expect_best(&ranking, 3, 10, "2 1 3 ");
  mp_ranking_free(&ranking);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words_lose_case_accents_and_endings),
      cmocka_unit_test(test_sorted_words_keep_their_places),
      cmocka_unit_test(test_long_words_are_cut),
      cmocka_unit_test(test_the_best_have_more_and_rarer_words),
      cmocka_unit_test(test_what_all_have_counts_little),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
